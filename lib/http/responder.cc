#include "lib/http/responder.h"

#include <string>
#include <utility>

#include "lib/base/byte_room.h"
#include "lib/base/check.h"
#include "lib/http/sse.h"
#include "lib/http/stream_queue.h"

namespace muster::http {
namespace {

// What the user of a stream holds; the queue belongs to it and to the connection.
class StreamHandle final : public EventStream {
 public:
  explicit StreamHandle(std::shared_ptr<StreamQueue> queue) : queue_(std::move(queue)) {}
  ~StreamHandle() override { queue_->Close(); }
  bool Send(absl::string_view id, absl::string_view event, absl::string_view data) override {
    return queue_->Push(FormatEvent(id, event, data));
  }
  void Close() override { queue_->Close(); }
  bool closed() const override { return queue_->closed(); }

 private:
  const std::shared_ptr<StreamQueue> queue_;
};

}  // namespace

void Responder::Answer::Send(Response response) {
  Use();
  Deliver(std::move(response));
}

std::shared_ptr<EventStream> Responder::Answer::Stream() {
  Use();
  return Begin();
}

void Responder::Answer::Use() {
  MUSTER_CHECK(!used_.exchange(true), "(a request is answered exactly once)");
}

Response NoAnswer() {
  return JsonError(500, "internal", "the request was dropped without an answer");
}

Response NoRoomForAnswer() {
  Response response = JsonError(503, "unavailable", kNoRoomForAnswer);
  response.headers.emplace_back("Retry-After", "1");
  return response;
}

AnswerToConnection::AnswerToConnection(std::weak_ptr<Connection> connection, uint64_t request)
    : connection_(std::move(connection)), request_(request) {}

AnswerToConnection::~AnswerToConnection() {
  if (!is_used()) Deliver(NoAnswer());
}

std::shared_ptr<EventStream> AnswerToConnection::Begin() {
  const auto connection = connection_.lock();
  const auto core = connection ? connection->core() : nullptr;
  auto queue = std::make_shared<StreamQueue>(
      core ? StreamBudget{core->options.limits.stream_queue_bytes, core->streams_bytes,
                          core->options.limits.streams_bytes}
           : StreamBudget{},
      core ? core->streams_dropped : nullptr,
      [weak = connection_] { PostTo(weak, [](Connection& c) { c.OnStreamNews(); }); });
  PostTo(connection_,
         [queue, request = request_](Connection& c) { c.StartStream(request, queue); });
  // What was posted before the server stopped is still run, what came later may not be.
  if (!core || core->Stopping()) queue->Break();
  return std::make_shared<StreamHandle>(std::move(queue));
}

bool AnswerToConnection::Reserve(size_t bytes) {
  const auto connection = connection_.lock();
  if (connection == nullptr) return false;
  const Core& core = *connection->core();
  return FitAnswer(room_, core.answers_bytes, bytes, core.options.limits.answers_bytes);
}

// It has its room from here on at the latest, as many answers may wait for their connections.
void AnswerToConnection::Deliver(Response response) {
  if (connection_.expired()) return;
  if (!Reserve(response.body.size())) response = NoRoomForAnswer();
  std::shared_ptr<ByteRoom> room = std::move(room_);
  PostTo(connection_, [response = std::move(response), room = std::move(room),
                       request = request_](Connection& c) { c.Deliver(request, response, room); });
}

Responder::Responder(std::shared_ptr<Answer> answer) : answer_(std::move(answer)) {}
void Responder::Send(Response response) const { answer_->Send(std::move(response)); }
std::shared_ptr<EventStream> Responder::Stream() const { return answer_->Stream(); }
bool Responder::Reserve(size_t bytes) const { return answer_->Reserve(bytes); }

}  // namespace muster::http
