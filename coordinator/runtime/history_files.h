// metrics.jsonl in the folder of each job, and its event file for TensorBoard: the history as files
// that stay. The ledger is what counts: the files follow it, catch up after whatever kept them from
// being written, and steps that a rewind has left out go before those that are done again. One
// thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/runtime/followed_file.h"
#include "coordinator/runtime/journal.h"
#include "coordinator/runtime/known_job.h"
#include "coordinator/runtime/tensorboard_file.h"
#include "lib/base/stop_signal.h"
#include "lib/base/time.h"

namespace muster::coordinator {

// The file of one job. It goes on behind its last whole line; what was cut short is written again,
// all of it where the file is gone. No step of ours stands in it twice.
class HistoryFile {
 public:
  explicit HistoryFile(std::string path) : file_(std::move(path)) {}

  // Adds what the ledger has and the file has not. After an error it looks anew. kCancelled: `stop`
  // was asked for, and there is more than what one page holds; that much is written all the same.
  absl::Status Follow(const Journal& journal, const JobJournal& job, Step recorded,
                      const std::stop_token& stop);

 private:
  absl::Status FindEnd();
  absl::Status CutBefore(int64_t step);

  FollowedFile file_;
  bool is_found_ = false;  // the fields below say what the file holds
  int64_t next_ = 0;       // step
  int64_t lineage_ = 0;    // of the step before
  // Its last line is of a last state, which is no step: the job was done, and where it was made
  // longer since then, that step's own line takes its place.
  bool tells_last_state_ = false;
};

class HistoryFiles {
 public:
  // `known` is asked once a second for the jobs whose files are to be kept. In `folder` each job
  // has a folder, which is made with its first step where nobody else has made it, and in
  // `tensorboard_folder` another one; empty: event files are not wanted. The files of a job that
  // was deleted are taken away, and nothing that others keep in these folders. `journal` outlives
  // this. `last_look`: how long the last one may take where much is missing, such as a whole file
  // of a job that is over; then a page of each file is added yet, and a later start adds the rest.
  using Known = std::function<absl::StatusOr<KnownJobsPtr>()>;
  static constexpr std::chrono::seconds kLastLook{2};
  HistoryFiles(const Journal& journal, std::string folder, std::string tensorboard_folder,
               Known known, Duration last_look = kLastLook);
  ~HistoryFiles();  // after a last look
  HistoryFiles(const HistoryFiles&) = delete;
  HistoryFiles& operator=(const HistoryFiles&) = delete;

 private:
  struct Kept {
    StartNumber first_start;  // which job of that id it is
    HistoryFile file;
    TensorBoardFile board;
    KnownJobPtr last;         // what was written last
    bool is_failing = false;  // and was told so
  };
  void Loop();
  void LookAtAll();
  void LookAt(const KnownJobPtr& known);
  absl::Status Write(Kept& kept, const KnownJob& known) const;
  std::string FolderOf(const std::string& job) const;
  absl::Status TakeFolder(const JobJournal& job) const;
  void RemoveDeleted(const KnownJobs& jobs) const;
  absl::Status Remove(const std::string& job) const;

  const Journal& journal_;
  const std::string folder_;
  const std::string tensorboard_folder_;
  const Known known_;
  const Duration last_look_;
  KnownJobsPtr seen_;                 // of the thread; null: it has seen none yet
  std::map<std::string, Kept> kept_;  // likewise
  StopSignal stop_;
  StopSignal ended_;
  std::stop_source stop_writing_;  // more than a page of each file
  std::thread thread_;
};

}  // namespace muster::coordinator
