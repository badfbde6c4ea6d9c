#include "coordinator/service/audit_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "lib/base/printable.h"
#include "lib/base/status.h"
#include "lib/base/whole_file.h"
#include "lib/domain/history.h"
#include "nlohmann/json.hpp"

namespace muster::coordinator {

std::string AuditLine(const AuditEntry& entry) {
  const auto text = [](const std::string& said) { return Cut(Printable(said)); };
  nlohmann::ordered_json json = {{"time", UtcTime(entry.unix_ms)},
                                 {"user", text(entry.user)},
                                 {"role", entry.role},
                                 {"address", text(entry.address)},
                                 {"method", text(entry.method)},
                                 {"object", text(entry.object)},
                                 {"outcome", entry.outcome}};
  if (entry.more) json["more"] = *entry.more;
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

absl::StatusOr<std::unique_ptr<AuditLog>> AuditLog::Open(const std::string& path,
                                                         size_t most_bytes) {
  std::unique_ptr<AuditLog> log(new AuditLog(path, most_bytes));
  const MutexLock lock(log->mutex_);
  MUSTER_RETURN_IF_ERROR(log->Reopen());
  return log;
}

absl::Status AuditLog::Reopen() {
  MUSTER_ASSIGN_OR_RETURN(Descriptor file,
                          OpenRegularFile(path_, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC));
  struct stat found {};
  if (fchmod(file.get(), S_IRUSR | S_IWUSR) != 0 || fstat(file.get(), &found) != 0)
    return FileError(errno, "protect", path_);
  char last = '\n';
  const bool is_torn = found.st_size > 0 && pread(file.get(), &last, 1, found.st_size - 1) == 1 &&
                       last != '\n';  // by a loss of power
  if (is_torn && write(file.get(), "\n", 1) != 1) return FileError(errno, "write", path_);
  file_ = std::move(file);
  bytes_ = static_cast<size_t>(found.st_size) + (is_torn ? 1 : 0);
  return absl::OkStatus();
}

// Whoever moves or removes it (logrotate does) gets no more lines there.
bool AuditLog::IsInItsPlace() const {
  struct stat ours {
  }, there{};
  return fstat(file_.get(), &ours) == 0 && lstat(path_.c_str(), &there) == 0 &&
         ours.st_dev == there.st_dev && ours.st_ino == there.st_ino;
}

absl::Status AuditLog::Write(const std::string& line) {
  const MutexLock lock(mutex_);
  if (file_.is_open() && !IsInItsPlace()) MUSTER_RETURN_IF_ERROR(Reopen());
  if (file_.is_open() && bytes_ > 0 && bytes_ + line.size() > most_bytes_) {
    if (rename(path_.c_str(), (path_ + ".1").c_str()) != 0)
      return FileError(errno, "rename", path_);
    // Where no new one can be opened now, the next line tries again, and renames nothing: there is
    // nothing of that name, or an empty file that would take the place of the older half.
    file_.Close();
    bytes_ = 0;
  }
  if (!file_.is_open()) MUSTER_RETURN_IF_ERROR(Reopen());
  const ssize_t written = write(file_.get(), line.data(), line.size());
  if (written == static_cast<ssize_t>(line.size())) {
    bytes_ += line.size();
    return absl::OkStatus();
  }
  // Half a line would spoil the next one.
  const int why = written < 0 ? errno : ENOSPC;
  if (written > 0 && ftruncate(file_.get(), static_cast<off_t>(bytes_)) != 0)
    bytes_ += static_cast<size_t>(written);
  return FileError(why, "write", path_);
}

}  // namespace muster::coordinator
