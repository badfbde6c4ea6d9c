// Private to the room: what stands behind the copies of a Responder.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "lib/base/byte_room.h"
#include "lib/http/connection.h"
#include "lib/http/server.h"

namespace muster::http {

// Owned by the responder's copies; makes sure that a request is answered exactly once.
class Responder::Answer {
 public:
  virtual ~Answer() = default;
  void Send(Response response);
  std::shared_ptr<EventStream> Stream();
  virtual bool Reserve(size_t bytes) = 0;

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
  bool Reserve(size_t bytes) override;

 private:
  void Deliver(Response response) override;
  std::shared_ptr<EventStream> Begin() override;

  const std::weak_ptr<Connection> connection_;
  const uint64_t request_;
  std::unique_ptr<ByteRoom> room_;  // null: none is needed, or none was reserved
};

// What a client is told whose request got lost.
Response NoAnswer();

}  // namespace muster::http
