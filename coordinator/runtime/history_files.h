// metrics.jsonl in the folder of each job: the history as a file that stays. The ledger is what
// counts: the file follows it, catches up after whatever kept it from being written, and a step
// that is done again after a rewind is written again, in a later line. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/runtime/journal.h"
#include "coordinator/runtime/known_job.h"
#include "lib/base/stop_signal.h"

namespace muster::coordinator {

// The file of one job. It goes on behind its last whole line; what was cut short is written again,
// all of it where the file is gone.
class HistoryFile {
 public:
  explicit HistoryFile(std::string path) : path_(std::move(path)) {}

  // Adds what the ledger has and the file has not. After an error it looks anew. kCancelled: `stop`
  // was asked for, and there is more than what one page holds; that much is written all the same.
  absl::Status Follow(const Journal& journal, const JobJournal& job, Step recorded,
                      const std::stop_token& stop);

 private:
  absl::Status FindEnd();
  bool IsAsWritten() const;  // nobody has changed it since
  absl::Status Append(const std::string& lines);

  const std::string path_;
  bool is_found_ = false;  // the fields below say what the file holds
  int64_t end_ = 0;        // behind its last whole line
  int64_t next_ = 0;       // step
  int64_t lineage_ = 0;    // of the step before
};

class HistoryFiles {
 public:
  // `known` is asked once a second for the jobs whose files are to be kept; `folder` has a folder
  // for each job, and a job without one gets no file. `journal` outlives this.
  using Known = std::function<absl::StatusOr<KnownJobsPtr>()>;
  HistoryFiles(const Journal& journal, std::string folder, Known known);
  ~HistoryFiles();  // after a last look, which writes what is new, but no file anew
  HistoryFiles(const HistoryFiles&) = delete;
  HistoryFiles& operator=(const HistoryFiles&) = delete;

 private:
  struct Kept {
    StartNumber first_start;  // which job of that id it is
    HistoryFile file;
    KnownJobPtr last;         // what was written last
    bool is_failing = false;  // and was told so
  };
  void Loop();
  void LookAtAll();
  void LookAt(const KnownJobPtr& known);

  const Journal& journal_;
  const std::string folder_;
  const Known known_;
  std::map<std::string, Kept> kept_;  // of the thread
  StopSignal stop_;
  std::stop_source stop_writing_;  // more than a page of each file
  std::thread thread_;
};

}  // namespace muster::coordinator
