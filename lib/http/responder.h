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
  Answer(std::weak_ptr<Connection> connection, uint64_t request);
  ~Answer();
  void Send(Response response);
  std::shared_ptr<EventStream> Stream();

 private:
  void Use();
  void Deliver(Response response);

  const std::weak_ptr<Connection> connection_;
  const uint64_t request_;
  std::atomic<bool> used_ = false;
};

}  // namespace muster::http
