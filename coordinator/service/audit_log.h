// Who changed what: a file that only its owner reads, one line of JSON for each call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/base/descriptor.h"
#include "lib/base/mutex.h"

namespace muster::coordinator {

struct AuditEntry {
  int64_t unix_ms = 0;
  std::string user;
  std::string role;
  std::string address;  // of the caller
  std::string method;   // "POST /v1/jobs/{id}:stop", "muster.v1.Jobs.Stop"
  std::string object;   // the job, the host or the token that it is about
  std::string outcome;  // allowed, refused
  // Of a line that stands for others: so many calls of that user, of which no line tells.
  std::optional<int64_t> more{};
};
// With its end of line. Whatever the caller said: one line, and short.
std::string AuditLine(const AuditEntry& entry);

inline constexpr size_t kMostAuditBytes = size_t{16} << 20;

// Two files, FILE and FILE.1, which is the older one. Thread-safe.
class AuditLog {
 public:
  // Errors as OpenRegularFile.
  static absl::StatusOr<std::unique_ptr<AuditLog>> Open(const std::string& path,
                                                        size_t most_bytes = kMostAuditBytes);

  // When it returns, the system has the line: it outlives this process, if not a loss of power. All
  // of it is there, or nothing.
  absl::Status Write(const std::string& line);

 private:
  AuditLog(std::string path, size_t most_bytes) : path_(std::move(path)), most_bytes_(most_bytes) {}
  bool IsInItsPlace() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Reopen() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string path_;
  const size_t most_bytes_;
  Mutex mutex_;
  Descriptor file_ ABSL_GUARDED_BY(mutex_);  // none after a rotation that failed half-way
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace muster::coordinator
