// Private to the room: what stands behind the copies of a Responder.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "lib/http/connection.h"
#include "lib/http/server.h"

namespace muster::http {

// Owned by the responder's copies; makes sure that a request is answered exactly once.
class Responder::Answer {
 public:
  virtual ~Answer() = default;
  void Send(Response response);
  std::shared_ptr<EventStream> Stream();

 protected:
  bool is_used() const { return used_; }

 private:
  virtual void Deliver(Response response) = 0;
  virtual std::shared_ptr<EventStream> Begin() = 0;
  void Use();

  std::atomic<bool> used_ = false;
};

// Goes to a client.
class AnswerToConnection final : public Responder::Answer {
 public:
  AnswerToConnection(std::weak_ptr<Connection> connection, uint64_t request);
  ~AnswerToConnection() override;

 private:
  void Deliver(Response response) override;
  std::shared_ptr<EventStream> Begin() override;

  const std::weak_ptr<Connection> connection_;
  const uint64_t request_;
};

// What a client is told whose request got lost.
Response NoAnswer();

// What a client is told whose answer would be more than all that are on their way may come to.
Response NoRoomForAnswer();

}  // namespace muster::http
