// Tells the coordinator that a member lives, on a thread where nothing else runs: whatever its
// other threads do, and however long it takes, is no silence. How long those have stood still is
// told with it, so that one that hangs is found all the same (docs/protocol.md section 5).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "lib/base/mutex.h"
#include "lib/base/own_gaps.h"
#include "lib/domain/message.h"
#include "lib/member/runtime/thread_progress.h"
#include "lib/member/state/missed_peers.h"
#include "lib/member/state/word_pace.h"
#include "lib/transport/transport.h"

namespace muster {

// Of the threads that have work. What stood still together with the whole process (a machine that
// was suspended, a group that was stopped) is not told of them: they could not go on.
std::vector<ThreadAge> AgesOf(const std::vector<const ThreadProgress*>& threads,
                              const OwnGaps& gaps, Time now);

// For people, of one that hangs: "its train thread has stood still for 125 s". `runs`: as
// ThreadProgress has it, of whoever makes a task. Pure.
std::string WhyItHangs(const ThreadAge& hung, const std::string& runs);

class LifeSigns {
 public:
  struct Options {
    Duration every;
    // Once a thread that is judged has stood still for longer: `hangs` is told, once. Also before
    // we are a member: a task that is never made would have its job wait without end.
    Duration patience;
    std::function<void(const ThreadAge&)> hangs;  // may be empty; on the thread of the life signs
  };
  // `threads` outlive it.
  LifeSigns(Options options, std::vector<const ThreadProgress*> threads);
  ~LifeSigns();
  LifeSigns(const LifeSigns&) = delete;
  LifeSigns& operator=(const LifeSigns&) = delete;

  // Any thread. The job asks for more patience than we were told; less changes nothing.
  void BePatient(Duration patience);
  // Any thread. A session to the coordinator where we have introduced ourselves; null: there is
  // none.
  void SayTo(std::shared_ptr<Session> coordinator);
  // Any thread. What is said from now on; of who is unreachable nothing more, where it is not noted
  // again for longer than twice 250 ms: they may have come back, and nobody has looked.
  void Note(Step step, std::string phase, Unreachable unreachable, Time now);
  // Any thread. Why we cannot go on, or nothing; said at once, and from now on.
  void NoteLack(std::string why);
  // Any thread. What was noted last is news: it is said at once, not only when the next life sign
  // is due; at most four times a second. While somebody is unreachable it is said so often.
  void SayNow();

 private:
  struct Saying {
    std::shared_ptr<Session> to;
    Alive alive;
    Duration patience;
    bool misses_somebody = false;  // though it may not name them now
  };

  void Run();
  bool EndsBeforeWord(WordPace& pace);
  Saying WhatToSay(Time now, const WordPace& pace);
  void Judge(const std::vector<ThreadAge>& ages, Duration patience);

  const Options options_;
  const std::vector<const ThreadProgress*> threads_;
  bool told_ = false;  // the thread's

  Mutex mutex_;
  CondVar changed_;
  bool ends_ ABSL_GUARDED_BY(mutex_) = false;
  bool has_news_ ABSL_GUARDED_BY(mutex_) = false;
  Duration patience_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<Session> coordinator_ ABSL_GUARDED_BY(mutex_);
  Alive alive_ ABSL_GUARDED_BY(mutex_);
  MissedPeers missed_ ABSL_GUARDED_BY(mutex_);
  Time noted_ ABSL_GUARDED_BY(mutex_){};

  std::thread thread_;
};

}  // namespace muster
