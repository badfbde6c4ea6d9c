// What tests of transports are told with: who remembers what a handler is told, and frames of a
// known pattern.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/mutex.h"
#include "lib/transport/transport.h"

namespace muster {

// How long a test waits for what must come before it gives up.
inline constexpr std::chrono::seconds kPatience{30};
inline Time PatienceEnds() { return RealClock().Now() + kPatience; }
inline constexpr Duration kConnectTimeout = std::chrono::seconds(20);

// A condition that other threads make true.
class Signal {
 public:
  void Raise() {
    MutexLock lock(mutex_);
    raised_ = true;
    changed_.NotifyAll();
  }
  bool Await() {
    MutexLock lock(mutex_);
    const Time until = PatienceEnds();
    while (!raised_ && changed_.WaitUntil(mutex_, until)) {
    }
    return raised_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool raised_ ABSL_GUARDED_BY(mutex_) = false;
};

// Remembers what a handler is told. Outlives the session through the shared pointer in its handler.
// Gives receipts back at once, unless it holds them.
class Recorder : public std::enable_shared_from_this<Recorder> {
 public:
  SessionHandler Handler(InboundLimits inbound = {});
  // Before a frame comes: receipts are kept with the frames, until they are taken.
  void HoldReceipts();
  size_t frame_count() const;
  bool AwaitFrames(size_t count);
  bool AwaitBroken();
  // After AwaitFrames, AwaitBroken:
  std::vector<Frame> TakeFrames();
  absl::Status broken() const;
  int broken_calls() const;
  int calls_after_broken() const;

 private:
  void OnFrame(Frame frame);
  void OnBroken(absl::Status why);

  mutable Mutex mutex_;
  CondVar changed_;
  std::vector<Frame> frames_ ABSL_GUARDED_BY(mutex_);
  size_t frame_count_ ABSL_GUARDED_BY(mutex_) = 0;
  bool holds_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status broken_ ABSL_GUARDED_BY(mutex_);
  int broken_calls_ ABSL_GUARDED_BY(mutex_) = 0;
  int calls_after_broken_ ABSL_GUARDED_BY(mutex_) = 0;
};

struct Accepted {
  std::shared_ptr<Session> session;
  std::shared_ptr<Recorder> recorder;
};

// An acceptor that keeps its sessions.
class Lobby {
 public:
  Acceptor acceptor();
  std::optional<Accepted> Await(size_t index);
  size_t size();

 private:
  Mutex mutex_;
  CondVar changed_;
  std::vector<Accepted> accepted_ ABSL_GUARDED_BY(mutex_);
};

Frame HeaderFrame(const std::string& header);
// `size` bytes of a pattern that `seed` picks, in slices of `cut` bytes with empty ones between.
Frame PatternFrame(const std::string& header, uint32_t seed, size_t size, size_t cut);
// A payload whose last holder raises `released`.
Frame WatchedFrame(const std::shared_ptr<Signal>& released, size_t size);
std::string Flatten(const Payload& payload);
std::string Pattern(uint32_t seed, size_t size);

}  // namespace muster
