// What the targets of data files share: a sound file is made and changed, and whatever comes of it
// is a data set whose samples can be read, or an error that names the file.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "lib/data/byte_source.h"
#include "lib/data/formats.h"
#include "lib/data/prepared_set.h"
#include "tests/fuzz/fuzz.h"
#include "tests/lib/data/written_files.h"

namespace muster::fuzz {

inline std::string RandomBytes(Random& random, size_t most) {
  std::string bytes(1 + Below(random, most), '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

inline Picture RandomPicture(Random& random) {
  Picture picture{static_cast<uint32_t>(1 + Below(random, 20)),
                  static_cast<uint32_t>(1 + Below(random, 20)), Below(random, 2) == 0 ? 1 : 3, ""};
  picture.pixels.resize(size_t{picture.height} * picture.width *
                        static_cast<size_t>(picture.channels));
  for (char& byte : picture.pixels) byte = static_cast<char>(random());
  return picture;
}

// A number in it is another one, in either byte order, or it is cut off.
inline std::string ChangedNumber(const std::string& input, Random& random) {
  std::string bytes = input;
  if (bytes.empty()) return bytes;
  const size_t size = size_t{1} << Below(random, 4);
  std::string number = Little(UglyNumber(random)).substr(0, size);
  if (Below(random, 2) == 0) std::reverse(number.begin(), number.end());
  // Most of what is told of a file stands at its begin or its end.
  const size_t near = std::min<size_t>(bytes.size(), 200);
  const size_t at =
      Below(random, 2) == 0 ? Below(random, near) : bytes.size() - 1 - Below(random, near);
  if (Below(random, 8) == 0) return bytes.substr(0, at);
  return bytes.replace(at, std::min(size, bytes.size() - at), number, 0,
                       std::min(size, bytes.size() - at));
}

struct DataFuzz {
  const char* name;  // of the file
  DataSpec data;
  size_t most_held = size_t{4} << 20;
  size_t most_held_per_byte = 300;
};

// Whoever is measured with what it was trained with has the same samples.
inline void CheckMeasured(const DataFuzz& fuzz, const DataFiles& files, const std::string& hash) {
  const FormatRule& format = *FindFormat(fuzz.data.format);
  if (format.open_to_measure == nullptr) return;
  const absl::StatusOr<StoredSet> measured = format.open_to_measure(files, files, fuzz.data);
  Check(measured.ok(), "a file has the names that it has itself");
  const absl::StatusOr<std::string> measured_hash = measured->set->ComputeHash([](uint64_t) {});
  Check(measured_hash.ok() && *measured_hash == hash, "names have the numbers that they have");
}

inline void RunDataFile(const DataFuzz& fuzz, std::string_view input) {
  const MemoryLimit limit(fuzz.most_held + fuzz.most_held_per_byte * input.size());
  const DataFiles files = {
      {MemorySource(fuzz.name, std::string(input)), {fuzz.name, std::string("one/") + fuzz.name}}};
  absl::StatusOr<StoredSet> stored = FindFormat(fuzz.data.format)->open(files, fuzz.data);
  absl::Status status = stored.status();
  if (stored.ok()) {
    absl::StatusOr<std::string> hash = stored->set->ComputeHash([](uint64_t) {});
    status = hash.status();
    if (hash.ok()) CheckMeasured(fuzz, files, *hash);
    if (hash.ok()) stored->set->SetHash(*std::move(hash));
  }
  if (status.ok()) {
    auto set = Prepare(*std::move(stored), fuzz.data, 1, true);
    status = set.status();
    if (set.ok()) {
      Check((*set)->Samples() > 0, "a data set has a sample");
      Check((*set)->ContentHash().size() == 64, "a data set has a hash");
      const bool is_small = Batch::BytesFor((*set)->Fields(), 2) <= fuzz.most_held / 4;
      if (is_small) {
        status = (*set)->Read(1, std::vector<uint64_t>{0, (*set)->Samples() - 1}).status();
        if (status.ok()) Reach("end", "read");
      }
    }
  }
  if (!status.ok()) {
    Check(!status.message().empty(), "an error has words");
    ReachError(status.message());
  }
}

}  // namespace muster::fuzz

// A target for one format: FUZZ is a DataFuzz, MAKE makes a sound file, so many different ERRORS
// must be reached.
#define MUSTER_DATA_FUZZ_TARGET(FUZZ, MAKE, ERRORS)                                   \
  static const muster::fuzz::Form kForm = {MAKE, muster::fuzz::ChangedNumber};        \
  static void ExpectAll() {                                                           \
    muster::fuzz::Expect("end", {"read"});                                            \
    muster::fuzz::ExpectAtLeast("error", ERRORS);                                     \
  }                                                                                   \
  static void Run(std::string_view input) { muster::fuzz::RunDataFile(FUZZ, input); } \
  MUSTER_FUZZ_TARGET(kForm, ExpectAll, Run)
