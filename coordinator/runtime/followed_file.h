// A file that follows the ledger: it is added to at its end, and what stands there is found again
// by whoever comes after a crash. Lives as long as the file is followed. One thread.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace muster::coordinator {

class FollowedFile {
 public:
  explicit FollowedFile(std::string path) : path_(std::move(path)) {}

  struct Tail {
    std::string bytes;
    int64_t start = 0;  // of these in the file
  };
  // At most so many bytes, from `from` on. kNotFound: there is no file.
  absl::StatusOr<std::string> Read(int64_t from, int64_t most) const;
  // The last bytes, at most so many. Empty: there is no file, or nothing in it.
  absl::StatusOr<Tail> ReadTail(int64_t most) const;

  // What stands behind it does not count, and goes with the next Append.
  void SetEnd(int64_t end) { end_ = end; }
  int64_t end() const { return end_; }
  bool IsAsWritten() const;  // nobody has cut it, removed it or added to it since

  // kAborted: somebody else has cut it.
  absl::Status Append(const std::string& text);

  const std::string& path() const { return path_; }

 private:
  const std::string path_;
  int64_t end_ = 0;
};

}  // namespace muster::coordinator
