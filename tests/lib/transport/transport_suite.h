// What every Transport must do, as tests with a world as parameter, and the helpers they are told
// with.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/mutex.h"
#include "lib/transport/transport.h"

namespace muster {

// Where a Transport lives in a test.
class TransportWorld {
 public:
  virtual ~TransportWorld() = default;
  virtual std::unique_ptr<Transport> Make(const std::string& name) = 0;
};
using MakeWorld = std::unique_ptr<TransportWorld> (*)();

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

class TransportSuite : public testing::TestWithParam<MakeWorld> {
 protected:
  void SetUp() override;
  void TearDown() override;
  // A session from client_ to server_'s listener, with both recorders.
  void ConnectPair();

  std::unique_ptr<TransportWorld> world_;
  std::unique_ptr<Transport> server_;
  std::unique_ptr<Transport> client_;
  Lobby lobby_;
  std::unique_ptr<Listener> listener_;
  std::shared_ptr<Session> near_;  // the connecting end
  std::shared_ptr<Recorder> near_recorder_;
  Accepted far_;
};

// A session whose far end holds every frame that it gets, and a second session beside it.
class HeldFrames : public TransportSuite {
 protected:
  static constexpr InboundLimits kLimits{.first_frame = 100, .held = size_t{4} << 20};

  void SetUp() override;
  // Whatever could come without being waited for has come: the second session moved as much.
  void Settle();

  Signal accepted_;
  std::shared_ptr<Session> beside_;
  std::shared_ptr<Session> beside_far_;
  const std::shared_ptr<Recorder> beside_recorder_ = std::make_shared<Recorder>();
  size_t beside_frames_ = 0;
};

// A session whose far end does not return from its first frame until told, so that queues fill.
class FullQueues : public TransportSuite {
 protected:
  void SetUp() override;
  void FillQueues();
  void ExpectAllBrokenAndReleased();

  Signal arrived_;
  Signal resume_;
  std::array<std::shared_ptr<Signal>, 64> released_;
};

}  // namespace muster
