// The event file of a job, which TensorBoard shows while it grows. Like metrics.jsonl it is made of
// the ledger. Lives as long as the job is known. One thread.
#pragma once

#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "coordinator/runtime/followed_file.h"
#include "coordinator/runtime/journal.h"
#include "coordinator/state/job_state.h"

namespace muster::coordinator {

// A file of records cannot be cut while TensorBoard reads it: it would go on in the middle of a
// record. So each start of the job, and each rewind, has a file of its own, which begins with the
// word that it takes the place of all before, and has the whole history. The ones before it are
// emptied once it is as long, so that no step stands twice. They stay, as TensorBoard does not get
// beyond a file that was removed while it read it.
class TensorBoardFile {
 public:
  // `folder` is the run's; it is made with the first step.
  explicit TensorBoardFile(std::string folder) : folder_(std::move(folder)) {}

  // Adds what the ledger has and the file has not. After an error it looks anew. kCancelled: as of
  // HistoryFile.
  absl::Status Follow(const Journal& journal, const JobJournal& job, Step recorded,
                      const std::stop_token& stop);

  // Takes away the files of such a run, and the folder where nothing else is in it.
  static absl::Status Remove(const std::string& folder);

 private:
  absl::Status FindEnd();
  absl::Status FollowSteps(const Journal& journal, const JobJournal& job, Step recorded,
                           const std::stop_token& stop);
  absl::Status TellEnd(const JobJournal& job);
  void EmptyOlder() const;

  const std::string folder_;
  std::optional<FollowedFile> file_;  // of the newest start and lineage
  bool is_found_ = false;             // the fields below say what it holds
  int64_t next_ = 0;                  // step
  int64_t newest_ms_ = 0;             // when that before it was recorded; 0: not known
  bool tells_end_ = false;
  bool tells_sample_ = false;
};

}  // namespace muster::coordinator
