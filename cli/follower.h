// Submits a job and follows it to its end, on threads of its own (one follows events, one asks): a
// coordinator that is down for a while is waited for. All calls back are posted, so that they run
// on the main thread.
#pragma once

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "cli/rest_client.h"
#include "lib/base/mutex.h"
#include "lib/base/stop_signal.h"

namespace muster::cli {

struct FollowerEvents {
  // Once it is accepted, when its state has changed and at each checkpoint.
  std::function<void(const JobAnswer&)> on_job;
  std::function<void(const absl::Status&)> on_refused;  // the last call
  // It is not told what it asks, for who it is, and asks again each second.
  std::function<void(const absl::Status&)> on_not_let_in;
  std::function<void(const EventAnswer&)> on_event;
  // The last call: the job is over. `fingerprints`: all that there are.
  std::function<void(const JobAnswer&, const std::vector<StepFingerprint>& fingerprints)> on_over;
};

class Follower {
 public:
  using Poster = std::function<void(std::function<void()>)>;

  // The threads start at once.
  Follower(RestClient rest, std::string id, std::string spec_json, std::vector<std::string> accept,
           Poster post, FollowerEvents events);
  ~Follower();  // waits for the request under way: the coordinator answers it or is gone
  Follower(const Follower&) = delete;
  Follower& operator=(const Follower&) = delete;

  // Asked again until the coordinator has heard it. Any thread.
  void AskStop();  // after a checkpoint
  void AskCancel();

 private:
  enum class Wish { kNone, kStop, kCancel, kEnd };  // kEnd: this is being destroyed
  enum class AfterRefusal { kGiveUp, kAskAgain, kStopFirst };

  void Follow();
  void CarryWishes();
  bool Submit(JobAnswer& job);
  AfterRefusal WhatAfter(const absl::Status& refused) const;
  bool FinishIfOver();
  bool OnEvent(const EventAnswer& event);
  void SetWish(Wish wish);
  bool PauseAfter(const absl::Status& failed);

  const RestClient rest_;
  const std::string id_;
  const std::string spec_json_;
  const std::vector<std::string> accept_;  // as of RestClient::Submit
  const Poster post_;
  const FollowerEvents events_;

  StopSignal stop_;
  Mutex mutex_;
  CondVar changed_;
  bool accepted_ ABSL_GUARDED_BY(mutex_) = false;
  Wish wish_ ABSL_GUARDED_BY(mutex_) = Wish::kNone;

  std::thread following_;
  std::thread carrying_;
};

}  // namespace muster::cli
