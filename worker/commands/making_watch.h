// Ends a command whose task is made for too long without a sign that anything goes on: a plug-in
// may never return from its constructor. Lives as long as the task is made.
#pragma once

#include <functional>
#include <string>

#include "lib/base/time.h"
#include "lib/domain/job.h"
#include "lib/member/runtime/life_signs.h"
#include "lib/member/runtime/thread_progress.h"
#include "worker/plugins/prepare_task.h"

namespace muster::worker {

// What the job says; else as long as a cluster has.
Duration PatienceOf(const RuntimeSpec& runtime);

class MakingWatch {
 public:
  // `hangs`: told why, once, on a thread of its own.
  MakingWatch(Duration patience, std::function<void(const std::string& why)> hangs);

  // What it tells counts as going on. The watch lives as long.
  void WatchOver(Preparing& preparing);

 private:
  void GoesOn();

  ThreadProgress progress_{"main"};
  LifeSigns signs_;
};

}  // namespace muster::worker
