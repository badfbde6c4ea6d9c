// Whether the job of a run on several hosts still finds room on them. A job that gave way goes on
// where the hosts that stay have room for it, once what has left there has ended. Main thread.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "cli/patience.h"
#include "lib/base/time.h"

namespace muster::cli {

class Room {
 public:
  // For what has left to have ended, where the job is to go on.
  static constexpr Duration kAfterLeaving = std::chrono::seconds(15);
  // Longer than a host that lost its way is waited for.
  static constexpr Duration kAlone = std::chrono::seconds(30);

  // `patience`: with hosts that were told to end without a word to us, and may come again.
  // `on_none` hears why there is none, as a sentence, and may hear it again.
  Room(Duration patience, Patience::Timer timer,
       std::function<void(const std::string& why)> on_none);

  // Of the job, as the coordinator tells it.
  void OnState(const std::string& state);
  // The members of this host, the first one, leave.
  void OnLeave();
  // Whether another host is there that was not told to end. After OnLeave.
  void OnStaying(bool any_stays);

  bool leaving() const { return leaving_; }

 private:
  void Look();

  const Duration patience_;
  const std::function<void(const std::string& why)> on_none_;
  bool is_queued_ = false;
  bool leaving_ = false;
  Patience without_room_;
  Patience alone_;
};

}  // namespace muster::cli
