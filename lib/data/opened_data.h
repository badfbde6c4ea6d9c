// The parts of OpenDataSet, for whoever wants to see what it does.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/data/byte_source.h"
#include "lib/data/kept_hash.h"
#include "lib/data/prepare_once.h"
#include "lib/data/stored_set.h"

namespace muster {

struct OpenedData {
  StoredSet stored;              // without its hash
  std::vector<FileStamp> files;  // as they were before they were opened; of text there are none
  std::string left_out;          // what could not be read, for people; empty: nothing
  // Of these files; GiveHash settles them.
  std::shared_ptr<ReadMarks> marks = std::make_shared<ReadMarks>();
};

// `trained_with`: where files are to measure with, those that the model was trained with, whose
// columns and names of classes they have; empty: they have their own. Errors as OpenDataSet.
absl::StatusOr<OpenedData> OpenStoredData(const DataSpec& data,
                                          const std::vector<std::string>& trained_with = {});

struct Hashing {
  bool finds = false;  // one that is kept does
  bool keeps = false;  // one that is computed is kept
  std::string folder;  // of kept ones; empty: there are none
  int64_t now = 0;     // nanoseconds since 1970
  std::function<void(uint64_t bytes, uint64_t all)> told = [](uint64_t, uint64_t) {};
  // The same for people, also of another process that hashes the same, which is waited for
  // (hash_once.h).
  std::function<void(const PreparedSoFar&)> so_far = [](const PreparedSoFar&) {};
  std::function<bool()> may_wait = [] { return true; };
  std::chrono::milliseconds quiet_for{0};  // of our own hashing
};

// Gives opened.stored.set its hash, and returns whether it was a kept one. Whether one can be kept
// is no matter of the data, and no error. Errors as DataSet::ReadInto, and kCancelled: `may_wait`.
absl::StatusOr<bool> GiveHash(OpenedData& opened, const DataSpec& data, const Hashing& hashing);

}  // namespace muster
