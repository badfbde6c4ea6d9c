// Files of a host's folders of plug-ins (--plugins): what lies there runs as this worker's user, so
// only who may replace the worker may write to it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace muster::worker {

// kInvalidArgument: what is wrong with it, a folder or a file, or that everybody may write to it.
absl::Status CheckOperatorFolder(const std::string& folder);

// Reads a regular file from its begin to its end. `size` is told once before. Whatever they return
// that is no success ends it. kInvalidArgument: it cannot be read, is no file, or everybody may
// write to it.
absl::Status ReadOperatorFile(const std::string& path,
                              const std::function<absl::Status(uint64_t size)>& size,
                              const std::function<void(absl::Span<const std::byte>)>& piece);

// A file that a job names and that lies in one of the folders.
struct OperatorFile {
  std::string path;
  std::string bytes;
  std::string hash;  // SHA-256 of them
};

// `name` has no folder in it; the first of the folders that has such a file counts.
// kNotFound: there is none, or a folder may not be used. kInvalidArgument: it is no name, the file
// cannot be read, or has more than `most_bytes`.
absl::StatusOr<OperatorFile> FindOperatorFile(const std::string& name,
                                              const std::vector<std::string>& folders,
                                              uint64_t most_bytes);

}  // namespace muster::worker
