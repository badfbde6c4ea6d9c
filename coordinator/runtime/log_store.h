// The newest part of what the members of jobs printed, as their agents told it, in files:
// JOB/NAME.log and JOB/NAME.log.1, the part before that (docs/decisions/0056-logs-of-members.md).
// They outlive the coordinator, and go with their job. The first line of each file is ours: it says
// where in the whole log of its member the file begins, so that whoever has read up to a place
// finds it again, however often the coordinator was started or the files were rotated since.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
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

// What the first line of a file says.
struct LogHead {
  uint64_t log = 0;    // random; another one where nothing is left of what was printed before
  int64_t begins = 0;  // of the log: the place of the first byte behind this line
};

// Thread-safe; nothing waits for the disk.
class LogStore {
 public:
  // What lies in `folder` of jobs other than these is removed: they were deleted.
  LogStore(std::string folder, std::set<std::string> jobs, LogBudget budget = {});
  ~LogStore();  // what waits is written, if that takes no longer than kPatience
  LogStore(const LogStore&) = delete;
  LogStore& operator=(const LogStore&) = delete;

  // Job and name are such as may be names of files. Where something is left out, or may be, a line
  // says so.
  void Add(LogLines lines);
  // The job was deleted.
  void Forget(const std::string& job);
  // Until all that was added before is written; false: it takes too long.
  bool Await();
  // Another number each time that lines of the job were written, and before the first.
  int64_t Writes(const std::string& job) const;

 private:
  static constexpr Duration kPatience = std::chrono::seconds(5);
  struct File {
    size_t bytes = 0;      // of what members printed
    int64_t written = 0;   // the last time; the larger, the later
    bool in_line = false;  // its last line has not ended
    std::optional<PlacementNumber>
        placement{};  // of the process that printed it; nothing: of one before our start
    std::optional<LogHead> head{};  // nothing: an earlier version wrote it
  };
  using Files = std::map<std::string, File>;  // by path

  void LeaveOut(const LogLines& lines);
  void Find(const std::set<std::string>& jobs);
  void Write(const LogLines& lines);
  absl::Status Append(const std::string& path, const LogLines& lines);
  static bool MayLackSome(const File& kept, const LogLines& lines);
  LogHead HeadOfNext(const std::string& path) const;
  void Rotate(const std::string& path);
  void Remove(Files::iterator file);
  void MakeRoom(const std::string& kept);

  const std::string folder_;
  const LogBudget budget_;
  std::atomic<size_t> waiting_{0};  // bytes
  LimitedLog failed_;
  mutable Mutex mutex_;
  std::map<std::string, int64_t> job_writes_ ABSL_GUARDED_BY(mutex_);  // by job
  // By job and member: what came and is not kept, told with what comes next.
  std::map<std::pair<std::string, std::string>, LogAmount> left_out_ ABSL_GUARDED_BY(mutex_);

  // The thread's only.
  Files files_;
  size_t bytes_ = 0;  // of all
  int64_t writes_ = 0;

  Background thread_;
};

// What stands in the place of what is missing, without an end of line: "... 2 lines (17 bytes) are
// left out here". Without lines only the bytes: it is part of a line, or nobody has counted.
std::string GapText(const LogAmount& missing);
// Likewise, where lines may have been on their way to a coordinator when that ended.
inline constexpr char kMayLackSome[] =
    "... lines may be missing here, which were on their way when the coordinator ended";

// For readers, while a store writes there or not. Names of the members of a job that have a log.
std::vector<std::string> MembersWithLogs(const std::string& folder, const std::string& job);
struct KeptLog {
  std::string text;     // any bytes
  bool is_cut = false;  // there was more before it
};
// The newest bytes of a log. What cannot be read is as if it were not there.
KeptLog ReadKeptLog(const std::string& folder, const std::string& job, const std::string& member,
                    size_t most);

// Up to where somebody has read what a member printed.
struct LogPlace {
  uint64_t log = 0;  // as in LogHead
  int64_t at = 0;
  bool operator==(const LogPlace&) const = default;
};
struct LogSpan {
  std::string text;  // whole lines, any bytes; a line that is longer than `most` comes in pieces
  LogPlace next;     // up to here
  int64_t left_out = 0;  // bytes between `after` and the text that are kept no more
  bool is_other =
      false;  // nothing is left of what was read up to `after`, nor known how much is missing
  bool is_more = false;  // than fitted into `most`
};
// What comes after that place (nothing: from the beginning of what is kept). `ends`: no more is
// printed, so that a last line without its end is whole. Nothing: there is no such log.
std::optional<LogSpan> ReadLogAfter(const std::string& folder, const std::string& job,
                                    const std::string& member, const std::optional<LogPlace>& after,
                                    size_t most, bool ends);
// Where the last so many lines begin, or those of them that lie in the newest `most` bytes.
std::optional<LogPlace> PlaceOfTail(const std::string& folder, const std::string& job,
                                    const std::string& member, int64_t lines, size_t most);

}  // namespace muster::coordinator
