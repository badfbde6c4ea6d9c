// An ordered key-value store with named families: journal, ledger and catalogue of a coordinator
// live in one. Keys are compared as unsigned bytes. One interface, two makers: memory and RocksDB
// (rocks.cc is its only home).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

// Puts and deletes over any families, applied in order, all or none.
class Batch {
 public:
  struct Change {
    std::string family;
    std::string key;
    std::optional<std::string> value;  // nothing: delete
  };
  void Put(absl::string_view family, absl::string_view key, absl::string_view value) {
    changes_.push_back({std::string(family), std::string(key), std::string(value)});
  }
  void Delete(absl::string_view family, absl::string_view key) {
    changes_.push_back({std::string(family), std::string(key), std::nullopt});
  }
  bool empty() const { return changes_.empty(); }
  const std::vector<Change>& changes() const { return changes_; }

 private:
  std::vector<Change> changes_;
};

// Called with each pair in ascending key order; false stops. The views live during the call only.
// No lock is held: it may use the store, and sees the pairs as they were when the scan began.
using Visit = std::function<bool(absl::string_view key, absl::string_view value)>;

// All methods are thread-safe. Errors of every method: kInvalidArgument (no such family), kDataLoss
// (the store is damaged), kResourceExhausted (disk full: the batch is not there, and a later call
// works again once there is space), kUnavailable (another failure of the disk; after that of a
// Write every later one fails until the store is opened anew). Only a crash before the next
// successful Write can bring a failed batch back.
class Kv {
 public:
  virtual ~Kv() = default;
  virtual absl::StatusOr<std::string> Get(absl::string_view family,
                                          absl::string_view key) const = 0;  // kNotFound
  // On return the batch, and every one before it, survives the loss of power.
  virtual absl::Status Write(const Batch& batch) = 0;
  // Keys in [first, last); an empty `last` means to the end.
  virtual absl::Status Scan(absl::string_view family, absl::string_view first,
                            absl::string_view last, const Visit& visit) const = 0;
};

// The whole range as pairs: for small ranges and tests.
absl::StatusOr<std::vector<std::pair<std::string, std::string>>> ScanAll(
    const Kv& kv, absl::string_view family, absl::string_view first = "",
    absl::string_view last = "");

// The smallest key after every key that starts with `prefix`; empty (to the end) where there is
// none.
std::string PrefixEnd(absl::string_view prefix);

// Lives as long as the object.
std::unique_ptr<Kv> OpenMemory(const std::vector<std::string>& families);

// The folder beside a store that says how far it had come: what must not come and go with a copy of
// the store. Without it a store is taken as it is.
std::string MarksOf(const std::string& path);

// One RocksDB in directory `path` (made if absent, its parent too), opened by one process at a
// time; families that are not there yet are made. kAlreadyExists: another process has it open;
// kPermissionDenied: the directory cannot be written; kDataLoss: damaged, or something that was
// acknowledged is missing, and the message says what to do; kResourceExhausted: disk full.
absl::StatusOr<std::unique_ptr<Kv>> OpenRocks(const std::string& path,
                                              const std::vector<std::string>& families);

// The same store while nobody has it open, only to be read: nothing in its directory changes, and
// Write is kFailedPrecondition. kNotFound: there is no store.
absl::StatusOr<std::unique_ptr<Kv>> OpenRocksToRead(const std::string& path,
                                                    const std::vector<std::string>& families);

}  // namespace muster
