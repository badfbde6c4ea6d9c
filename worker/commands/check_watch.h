// Watches over a check, which runs code of others: a plug-in may never return from its constructor,
// nor a model from its forward pass or its destructor. It ends a check that stands still for too
// long, and tells whoever waits at a terminal what is under way. Lives as long as what it watches
// over.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>

#include "lib/base/time.h"
#include "lib/domain/job.h"
#include "lib/member/runtime/life_signs.h"
#include "lib/member/runtime/thread_progress.h"
#include "worker/commands/preparing_line.h"
#include "worker/plugins/prepare_task.h"

namespace muster::worker {

// What the job says; else as long as a cluster has.
Duration PatienceOf(const RuntimeSpec& runtime);

class CheckWatch {
 public:
  // `task`: its name. `hangs`: told why, once, on a thread of its own.
  CheckWatch(const std::string& task, Duration patience,
             std::function<void(const std::string& why)> hangs);

  // For a task that is made now. What is told to it counts as going on; `enters` hears, too, in
  // whose code it is. The watch lives as long.
  Preparing Makes(std::function<void(const std::string& what)> enters);
  // It is made, and its model is run. GoesOn before each piece of that.
  void RunsTheModel();
  // All that was asked of it is done: what is left is its end.
  void EndsTheModel();
  void GoesOn();

 private:
  enum class Stage { kMaking, kRunning, kEnding };

  std::string WhyItStandsStill(const ThreadAge& age) const;
  // Told of, once it takes longer than whoever waits would wonder.
  void Begins(const char* what);

  const Duration patience_;
  PreparingLine line_;
  ThreadProgress progress_{"main"};
  ThreadProgress stage_{"stage"};  // goes on with the next one alone
  std::atomic<Stage> at_ = Stage::kMaking;
  LifeSigns signs_;
  std::optional<LifeSigns> tells_;
};

}  // namespace muster::worker
