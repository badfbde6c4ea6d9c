// What the targets of libFuzzer share (docs/testing.md#fuzzing): the floor of what a run must have
// come to, a limit of the memory that one input may take, and mutations that know the form.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/string_view.h"

namespace muster::fuzz {

// ---- what was reached

// Names that this run must come to before it ends, of one kind: "field", "route".
void Expect(std::string_view kind, const std::vector<std::string>& names);
// So many different names of a kind that nobody can list: "error".
void ExpectAtLeast(std::string_view kind, size_t count);
void Reach(std::string_view kind, std::string_view name);
// An error, by its words without what stood in the input: digits and what is in quotes.
void ReachError(absl::string_view message);

// Of a processor that this process and those that it has waited for have had.
double ProcessorSeconds();

// ---- memory

// While it lives, what is allocated and not freed again is counted; more than `most` at a time ends
// the run as a finding. One at a time.
class MemoryLimit {
 public:
  explicit MemoryLimit(size_t most);
  ~MemoryLimit();
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;
};

// ---- findings

// Ends the run as a finding where `sound` is false.
void Check(bool sound, std::string_view what);

// ---- mutations

using Random = std::mt19937_64;

struct Form {
  std::function<std::string(Random&)> make;  // a sound input, by the encoder of the program itself
  // A part of it changed, and it holds together still: lengths and checksums fit. Empty: it is not
  // of this form.
  std::function<std::string(const std::string& input, Random&)> change;
};

// For LLVMFuzzerCustomMutator: makes, changes or lets libFuzzer change bytes.
size_t Mutate(uint8_t* data, size_t size, size_t max_size, unsigned seed, const Form& form);

// For LLVMFuzzerInitialize: with --seeds=DIR among the arguments, writes sound inputs into it and
// ends.
void WriteSeeds(int argc, char** argv, const Form& form);

// 0 … end - 1.
inline size_t Below(Random& random, size_t end) { return end == 0 ? 0 : random() % end; }
// Numbers at which code is likely to err.
int64_t UglyNumber(Random& random);
double UglyReal(Random& random);
std::string UglyText(Random& random);  // UTF-8

// The words of a text (runs of letters, digits and the like; else single characters) changed, or
// taken from `words`.
std::string ChangedWords(std::string_view text, const std::vector<std::string>& words,
                         Random& random);

}  // namespace muster::fuzz

// What libFuzzer calls: FORM makes and changes inputs, EXPECT() says what a run must reach,
// RUN(input) is one.
#define MUSTER_FUZZ_TARGET(FORM, EXPECT, RUN)                                            \
  extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {                         \
    muster::fuzz::WriteSeeds(*argc, *argv, FORM);                                        \
    EXPECT();                                                                            \
    return 0;                                                                            \
  }                                                                                      \
  extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, \
                                            unsigned seed) {                             \
    return muster::fuzz::Mutate(data, size, max_size, seed, FORM);                       \
  }                                                                                      \
  extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {              \
    RUN(std::string_view(reinterpret_cast<const char*>(data), size));                    \
    return 0;                                                                            \
  }                                                                                      \
  static_assert(true)
