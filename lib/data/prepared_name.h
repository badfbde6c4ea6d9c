// What a prepared folder (lib/data/prepare_once.h) is called: a hash of all that it may be made of.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/data/hash_listener.h"
#include "lib/data/kept_hash.h"
#include "muster/task_options.h"

namespace muster {

// The files of data.paths.
struct DataContent {
  std::string hash;                // empty: there are none
  std::vector<FileStamp> files{};  // as they were before they were read
  bool operator==(const DataContent&) const = default;
};

// Of the samples, or, of text, of the files one by one, which are not held in memory. A hash that
// is kept in `kept` (empty: nowhere) is taken, whatever data.verify says: what it decides is which
// folder is used, and the bytes of that are hashed for themselves. `told`, of bytes, now and then;
// what it returns that is no success ends it. `others` hears of another process that hashes the
// same meanwhile, which is waited for. Errors as OpenDataSet, and kCancelled.
using ToldOfBytes = std::function<absl::Status(uint64_t bytes, uint64_t all)>;
absl::StatusOr<DataContent> ContentOfData(const DataSpec& data, const std::string& kept,
                                          const ToldOfBytes& told, HashListener others = {});

// Whether all files have the stamps that they had. kDataLoss names the first that has not.
absl::Status CheckUnchanged(const std::vector<FileStamp>& files);

struct PreparedOf {
  std::string version;  // of Muster
  std::string task;
  std::string plugin;  // SHA-256 of its file
  ParameterValues parameters;
  DataSpec data;  // of the training data
  std::string content;
};

// 64 digits. All of `data` counts but where the files lie, how they are looked at and what is done
// about those that cannot be read. Pure.
std::string PreparedName(const PreparedOf& of);

}  // namespace muster
