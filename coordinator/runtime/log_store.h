// The newest part of what the members of jobs printed, as their agents told it, in files:
// JOB/NAME.log and JOB/NAME.log.1, the part before that (docs/decisions/0056-logs-of-members.md).
// They outlive the coordinator, and go with their job.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/runtime/background.h"
#include "lib/base/mutex.h"
#include "lib/domain/message.h"
#include "lib/log/limited_log.h"

namespace muster::coordinator {

// Where they lie; `dir` as a coordinator's --dir.
std::string LogsOf(const std::string& dir);

struct LogBudget {
  size_t file = size_t{1} << 20;      // of one file; each member has up to two
  size_t in_all = size_t{256} << 20;  // beyond it, what was written longest ago is removed
  size_t waiting = size_t{8} << 20;   // not written yet; what comes beyond it is left out
};

// Thread-safe; nothing waits for the disk.
class LogStore {
 public:
  // What lies in `folder` of jobs other than these is removed: they were deleted.
  LogStore(std::string folder, std::set<std::string> jobs, LogBudget budget = {});
  ~LogStore();  // what waits is written, if that takes no longer than kPatience
  LogStore(const LogStore&) = delete;
  LogStore& operator=(const LogStore&) = delete;

  // Job and name are such as may be names of files. Where bytes are left out, a line says so.
  void Add(LogLines lines);
  // The job was deleted.
  void Forget(const std::string& job);
  // Until all that was added before is written; false: it takes too long.
  bool Await();

 private:
  static constexpr Duration kPatience = std::chrono::seconds(5);
  struct File {
    size_t bytes = 0;
    int64_t written = 0;   // the last time; the larger, the later
    bool in_line = false;  // its last line has not ended
  };
  using Files = std::map<std::string, File>;  // by path

  void LeaveOut(const LogLines& lines);
  void Find(const std::set<std::string>& jobs);
  void Write(const LogLines& lines);
  absl::Status Append(const std::string& path, const LogLines& lines);
  void Rotate(const std::string& path);
  void Remove(Files::iterator file);
  void MakeRoom(const std::string& kept);

  const std::string folder_;
  const LogBudget budget_;
  std::atomic<size_t> waiting_{0};  // bytes
  LimitedLog failed_;
  Mutex mutex_;
  // By job and member: bytes that came and are not kept, told with what comes next.
  std::map<std::pair<std::string, std::string>, int64_t> left_out_ ABSL_GUARDED_BY(mutex_);

  // The thread's only.
  Files files_;
  size_t bytes_ = 0;  // of all
  int64_t writes_ = 0;

  Background thread_;
};

// For readers, while a store writes there or not. Names of the members of a job that have a log.
std::vector<std::string> MembersWithLogs(const std::string& folder, const std::string& job);
struct KeptLog {
  std::string text;     // any bytes
  bool is_cut = false;  // there was more before it
};
// The newest bytes of a log. What cannot be read is as if it were not there.
KeptLog ReadKeptLog(const std::string& folder, const std::string& job, const std::string& member,
                    size_t most);

}  // namespace muster::coordinator
