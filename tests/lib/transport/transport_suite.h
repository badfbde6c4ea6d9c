// What every Transport must do, as tests with a world as parameter.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>

#include "lib/transport/transport.h"
#include "tests/lib/transport/recorder.h"

namespace muster {

// Where a Transport lives in a test.
class TransportWorld {
 public:
  virtual ~TransportWorld() = default;
  virtual std::unique_ptr<Transport> Make(const std::string& name) = 0;
};
using MakeWorld = std::unique_ptr<TransportWorld> (*)();

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
