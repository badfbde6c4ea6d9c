// What all routes of REST have in common: who may come in, and how an answer is sent.
#pragma once

#include <functional>
#include <stop_token>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/runtime/background.h"
#include "coordinator/runtime/once.h"
#include "coordinator/service/answer_size.h"
#include "coordinator/service/answer_status.h"
#include "coordinator/service/control_api.h"
#include "coordinator/service/gate.h"
#include "coordinator/service/rest_json.h"
#include "lib/base/status.h"
#include "lib/config/field_error.h"
#include "lib/http/server.h"

namespace muster::coordinator {

using Handle = std::function<void(const Caller&, http::Request, const http::Responder&)>;

CallOrigin OriginOf(const MethodRights& rights, const http::Request& request);
http::Response RefusalOf(const absl::Status& why);

// A route of the table of operations (rest_operations.h), from which it takes its parameters.
// Looked at before the body is read, and again when it is there, as that may take its time. What is
// made is named in the body: then `handle` enters with its name. Without a gate anybody comes in.
http::Route Guarded(Gate* gate, http::Route route, Handle handle);
// One whose handler does not ask who calls.
http::Route Guarded(Gate* gate, http::Route route);

template <class T>
void SendAsJson(const http::Responder& respond, const absl::StatusOr<T>& answer) {
  if (!answer.ok()) return respond.Send(answer.status(), FieldOf(answer.status()));
  http::Response response;
  response.status = HttpStatusOf(*answer);
  response.body = Text(ToJson(*answer)) + "\n";
  respond.Send(std::move(response));
}

// The reply that sends what it is given as JSON. The caller's thread may be that of all
// connections, or the one that decides, so a large answer is not made on it; and it has its room
// before, so that one which is refused costs nothing. What waits for the thread is bounded by that
// room.
template <class T>
JobApi::Reply<T> Answering(http::Responder respond, Background* large_answers = nullptr) {
  return [respond = std::move(respond), large_answers](absl::StatusOr<T> answer) {
    const size_t bytes = answer.ok() ? AboutBytesOf(*answer) : 0;
    if (large_answers == nullptr || bytes <= kSmallAnswerBytes) return SendAsJson(respond, answer);
    if (!respond.Reserve(bytes)) return respond.Send(http::NoRoomForAnswer());
    const auto send = Once<T>([respond](const absl::StatusOr<T>& a) { SendAsJson(respond, a); });
    large_answers->Run(
        [send, answer = std::move(answer)](const std::stop_token&) { send(answer); });
  };
}

}  // namespace muster::coordinator
