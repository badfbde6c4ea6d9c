#include "tests/fuzz/fuzz.h"

#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <map>
#include <set>

extern "C" {
size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);
// Of the sanitizer's allocator_interface.h, which GCC comes without.
size_t __sanitizer_get_allocated_size(const volatile void* memory);
int __sanitizer_install_malloc_and_free_hooks(void (*taken)(const volatile void*, size_t),
                                              void (*given_back)(const volatile void*));
}

namespace muster::fuzz {
namespace {

// libFuzzer keeps an input that sets one of these first, as one that takes a new branch: whatever
// reaches a new name is kept, also where reflection took it there.
constexpr size_t kCounters = 4096;
__attribute__((section("__libfuzzer_extra_counters"))) uint8_t counters[kCounters];

constexpr size_t kMostNames = 10'000;
constexpr size_t kMostNameBytes = 160;
constexpr int kBelowTheFloor = 3;  // exit code

struct Names {
  std::set<std::string, std::less<>> expected;
  size_t at_least = 0;
  std::set<std::string, std::less<>> reached;
};

std::map<std::string, Names, std::less<>>& Kinds() {
  static auto& kinds = *new std::map<std::string, Names, std::less<>>;
  return kinds;
}

// One line for each kind: tests/fuzz/run.py reads them. The run fails only where it was to reach
// the floor: one input alone, as when a finding is looked at, need not.
void Report() {
  bool below = false;
  std::fprintf(stderr, "processor: %.1f seconds\n", ProcessorSeconds());
  for (const auto& [kind, names] : Kinds()) {
    const size_t floor = std::max(names.expected.size(), names.at_least);
    std::fprintf(stderr, "reached: %zu of %zu %s\n", names.reached.size(), floor, kind.c_str());
    for (const std::string& name : names.expected) {
      if (names.reached.contains(name)) continue;
      std::fprintf(stderr, "not reached: %s %s\n", kind.c_str(), name.c_str());
      below = true;
    }
    below = below || names.reached.size() < names.at_least;
    if (std::getenv("MUSTER_FUZZ_NAMES") != nullptr)
      for (const std::string& name : names.reached)
        std::fprintf(stderr, "%s: %s\n", kind.c_str(), name.c_str());
  }
  std::fflush(stderr);
  if (below && std::getenv("MUSTER_FUZZ_FLOOR") != nullptr) std::_Exit(kBelowTheFloor);
}

Names& NamesOf(std::string_view kind) {
  static const int registered = std::atexit(Report);
  static_cast<void>(registered);
  const auto known = Kinds().find(kind);
  return known == Kinds().end() ? Kinds()[std::string(kind)] : known->second;
}

std::atomic<bool> counting{false};
std::atomic<int64_t> live{0};
std::atomic<int64_t> limit{0};

void Taken(const volatile void*, size_t bytes) {
  if (!counting) return;
  if (live.fetch_add(static_cast<int64_t>(bytes)) + static_cast<int64_t>(bytes) <= limit) return;
  counting = false;
  std::fprintf(stderr, "more than %lld bytes are held for one input\n",
               static_cast<long long>(limit));
  std::abort();
}

void GivenBack(const volatile void* memory) {
  if (!counting || memory == nullptr) return;
  live.fetch_sub(static_cast<int64_t>(__sanitizer_get_allocated_size(memory)));
}

}  // namespace

double ProcessorSeconds() {
  double seconds = 0;
  for (const auto who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage used{};
    getrusage(who, &used);
    for (const timeval& time : {used.ru_utime, used.ru_stime})
      seconds += static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  }
  return seconds;
}

void Expect(std::string_view kind, const std::vector<std::string>& names) {
  NamesOf(kind).expected.insert(names.begin(), names.end());
}

void ExpectAtLeast(std::string_view kind, size_t count) { NamesOf(kind).at_least = count; }

void Reach(std::string_view kind, std::string_view name) {
  Names& names = NamesOf(kind);
  name = name.substr(0, kMostNameBytes);
  counters[std::hash<std::string_view>()(name) % kCounters] = 1;
  if (names.reached.size() < kMostNames && !names.reached.contains(name))
    names.reached.emplace(name);
}

void ReachError(absl::string_view message) {
  std::string shape;
  bool quoted = false;
  for (const char c : message.substr(0, 4 * kMostNameBytes)) {
    const bool digit = c >= '0' && c <= '9';
    if (c == '\'' || c == '"') quoted = !quoted;
    if (!quoted && !(digit && !shape.empty() && shape.back() == '#')) shape += digit ? '#' : c;
  }
  Reach("error", shape);
}

MemoryLimit::MemoryLimit(size_t most) {
  static const int installed = __sanitizer_install_malloc_and_free_hooks(Taken, GivenBack);
  static_cast<void>(installed);
  live = 0;
  limit = static_cast<int64_t>(most);
  counting = true;
}

MemoryLimit::~MemoryLimit() { counting = false; }

void Check(bool sound, std::string_view what) {
  if (sound) return;
  std::fprintf(stderr, "unsound: %.*s\n", static_cast<int>(what.size()), what.data());
  std::abort();
}

size_t Mutate(uint8_t* data, size_t size, size_t max_size, unsigned seed, const Form& form) {
  Random random(seed);
  const size_t choice = Below(random, 16);
  std::string made;
  if (choice == 0) made = form.make(random);
  if (choice >= 1 && choice < 10)
    made = form.change(std::string(reinterpret_cast<const char*>(data), size), random);
  if (made.empty() || made.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::memcpy(data, made.data(), made.size());
  return made.size();
}

void WriteSeeds(int argc, char** argv, const Form& form) {
  constexpr std::string_view kFlag = "--seeds=";
  constexpr uint64_t kSeeds = 200;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (!argument.starts_with(kFlag)) continue;
    const std::string dir(argument.substr(kFlag.size()));
    for (uint64_t seed = 0; seed < kSeeds; ++seed) {
      Random random(seed);
      const std::string file = dir + "/seed-" + std::to_string(seed);
      std::ofstream(file, std::ios::binary) << form.make(random);
    }
    std::_Exit(0);
  }
}

int64_t UglyNumber(Random& random) {
  static constexpr int64_t kUgly[] = {0,
                                      1,
                                      -1,
                                      2,
                                      3,
                                      7,
                                      8,
                                      63,
                                      64,
                                      127,
                                      128,
                                      255,
                                      256,
                                      4095,
                                      4096,
                                      4097,
                                      65535,
                                      65536,
                                      100'000,
                                      262'144,
                                      (1 << 22) - 1,
                                      1 << 22,
                                      1 << 30,
                                      INT32_MAX,
                                      INT32_MIN,
                                      1LL << 31,
                                      1LL << 32,
                                      1LL << 40,
                                      1LL << 61,
                                      1LL << 62,
                                      INT64_MAX,
                                      INT64_MIN,
                                      INT64_MAX - 1,
                                      (1LL << 62) + 1};
  switch (Below(random, 4)) {
    case 0: return static_cast<int64_t>(Below(random, 16));
    case 1: return static_cast<int64_t>(random());
    default: return kUgly[Below(random, std::size(kUgly))];
  }
}

double UglyReal(Random& random) {
  using Limits = std::numeric_limits<double>;
  static constexpr double kUgly[] = {0.0,
                                     -0.0,
                                     1,
                                     -1,
                                     0.5,
                                     0.1,
                                     1e300,
                                     -1e300,
                                     1e-308,
                                     1e9,
                                     1000,
                                     4096,
                                     1 << 22,
                                     5e-324,
                                     Limits::infinity(),
                                     -Limits::infinity(),
                                     Limits::quiet_NaN(),
                                     Limits::max()};
  if (Below(random, 3) == 0) return static_cast<double>(UglyNumber(random));
  return kUgly[Below(random, std::size(kUgly))];
}

std::string UglyText(Random& random) {
  static const char* const kUgly[] = {
      "",     "a",      "job",      "worker-0",   "../x",  "/",
      "a/b",  ".",      "..",       "\x1b[2J",    "\n",    "\r\n",
      "%s%n", "\u00e9", "\u2028",   "\U0001F600", "null",  "true",
      "0x10", "1e9",    "counting", "sgd",        "adam",  "server",
      "mean", "free",   "fp32",     "latest",     "'\"\\", "lineage-1-step-2/w.segment",
      "0",    "-1"};
  if (Below(random, 64) == 0) return std::string(Below(random, 2) == 0 ? 1025 : 65537, 'x');
  return kUgly[Below(random, std::size(kUgly))];
}

std::string ChangedWords(std::string_view text, const std::vector<std::string>& words,
                         Random& random) {
  const auto part_of_word = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '.';
  };
  std::vector<std::string> pieces;
  for (size_t at = 0, end; at < text.size(); at = end) {
    end = at + 1;
    while (part_of_word(text[at]) && end < text.size() && part_of_word(text[end])) ++end;
    pieces.emplace_back(text.substr(at, end - at));
  }
  if (pieces.empty()) pieces.emplace_back();
  for (size_t changes = 1 + Below(random, 3); changes > 0 && !pieces.empty(); --changes) {
    const size_t at = Below(random, pieces.size());
    const auto place = pieces.begin() + static_cast<std::ptrdiff_t>(at);
    switch (Below(random, 6)) {
      case 0: pieces.erase(place); break;
      case 1: pieces.insert(place, pieces[Below(random, pieces.size())]); break;
      case 2: std::swap(*place, pieces[Below(random, pieces.size())]); break;
      case 3: *place = std::to_string(UglyNumber(random)); break;
      case 4: *place = UglyText(random); break;
      default: *place = words[Below(random, words.size())];
    }
  }
  std::string out;
  for (const std::string& piece : pieces) out += piece;
  return out;
}

}  // namespace muster::fuzz
