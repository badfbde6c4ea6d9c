#include "lib/http/connection.h"

#include <algorithm>
#include <boost/asio/completion_condition.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "lib/base/check.h"
#include "lib/base/loopback.h"
#include "lib/base/status.h"
#include "lib/http/responder.h"
#include "lib/http/sse.h"
#include "lib/http/target.h"
#include "lib/http/wire.h"
#include "lib/identity/tls_context.h"

namespace muster::http {
namespace {

Time Now() { return std::chrono::steady_clock::now(); }

constexpr int kSendBufferBytes = 128 << 10;

using Parser = beast::http::request_parser<beast::http::string_body>;

constexpr size_t kReadBytes = size_t{16} << 10;
// How much we read and discard from a client that has its answer.
constexpr size_t kMaxDiscardedBytes = size_t{1} << 20;
// Likewise of a request that was refused. Many a client sends all of its body before it reads: it
// hears why that was refused only if we take as much.
constexpr size_t kMaxRefusedBytes = size_t{64} << 20;
// Above the limit of connections, so many at a time get a whole answer that says so; others are
// only sent one if that takes no waiting.
constexpr size_t kRefusedAtATime = 8;
constexpr Duration kLinger = std::chrono::seconds(2);
constexpr char kContinue[] = "HTTP/1.1 100 Continue\r\n\r\n";

bool IsReading(const std::string& method) { return method == "GET" || method == "HEAD"; }

Response ResponseForParseError(const error_code& ec) {
  if (ec == beast::http::error::body_limit) {
    return JsonError(413, "resource_exhausted", "the body is larger than this server takes");
  }
  if (ec == beast::http::error::header_limit || ec == beast::http::error::buffer_overflow) {
    return JsonError(431, "resource_exhausted",
                     "the request line and headers are larger than this server takes");
  }
  return JsonError(400, "invalid_argument",
                   absl::StrCat("not a clean HTTP/1.1 request: ", ec.message()));
}

Response NoRoom() {
  return JsonError(503, "unavailable",
                   "too many connections: this server has all that it may have; ask again later");
}

Response SpeaksHttps() {
  return {.status = 400, .content_type = "text/plain", .body = kSpeaksHttps};
}

// Refuses what the parser lets pass although two readers could understand it differently, or a web
// page could send it unasked.
absl::Status CheckHeaders(const Parser::value_type& message, bool loopback_only,
                          absl::string_view scheme) {
  using beast::http::field;
  const auto bad = [](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat("headers: ", why));
  };
  if (message.version() != 11 && message.version() != 10)
    return bad("only HTTP/1.1 and HTTP/1.0 are spoken here");
  const size_t hosts = message.count(field::host);
  if (hosts > 1 || (hosts == 0 && message.version() == 11))
    return bad("exactly one Host is needed");
  const size_t codings = message.count(field::transfer_encoding);
  const size_t lengths = message.count(field::content_length);
  if (codings + lengths > 1)
    return bad("at most one of Content-Length and Transfer-Encoding, once");
  const absl::string_view length = View(message[field::content_length]);
  if (!std::all_of(length.begin(), length.end(), absl::ascii_isdigit))
    return bad("Content-Length must be one number");
  if (codings == 1 && message.version() == 10) return bad("Transfer-Encoding needs HTTP/1.1");
  if (codings == 1 && !absl::EqualsIgnoreCase(View(message[field::transfer_encoding]), "chunked")) {
    return bad("the only Transfer-Encoding taken is chunked");
  }
  const absl::string_view expect = View(message[field::expect]);
  if (!expect.empty() && !absl::EqualsIgnoreCase(expect, "100-continue"))
    return bad("Expect: only 100-continue");

  const std::string host(View(message[field::host]));
  const bool local = IsLoopbackAddress(host) || IsLoopbackAddress(absl::StrCat(host, ":0"));
  if (loopback_only && hosts == 1 && !local) {
    return absl::PermissionDeniedError(
        "this server listens on loopback and answers only to the Host localhost or a loopback "
        "address");
  }
  const absl::string_view origin = View(message[field::origin]);
  if (!IsReading(std::string(View(message.method_string()))) && !origin.empty() &&
      origin != absl::StrCat(scheme, "://", host)) {
    return absl::PermissionDeniedError("requests from web pages of another origin are refused");
  }
  return absl::OkStatus();
}

std::map<std::string, std::string> CopyHeaders(const Parser::value_type& message) {
  std::map<std::string, std::string> out;
  for (const auto& header : message) {
    std::string& value = out[absl::AsciiStrToLower(View(header.name_string()))];
    absl::StrAppend(&value, value.empty() ? "" : ", ", View(header.value()));
  }
  return out;
}

}  // namespace

Core::Room Core::Register(const std::shared_ptr<Connection>& connection) {
  MutexLock lock(mutex);
  const auto most = static_cast<size_t>(options.limits.connections);
  if (stopping || connections.size() >= most + kRefusedAtATime) return Room::kNone;
  connections.emplace(connection.get(), connection);
  return connections.size() > most ? Room::kToSayNo : Room::kForMore;
}

void Core::Unregister(Connection* connection) {
  MutexLock lock(mutex);
  connections.erase(connection);
}

void Core::CloseAll() {
  std::vector<std::weak_ptr<Connection>> all;
  {
    MutexLock lock(mutex);
    stopping = true;
    for (const auto& [key, weak] : connections) all.push_back(weak);
  }
  for (const auto& weak : all) PostTo(weak, [](Connection& c) { c.Close(); });
}

void Connection::Start() {
  error_code ignored;
  socket_.bottom().set_option(tcp::no_delay(true), ignored);
  // The system would take in up to 4 MiB of an answer that nobody reads, which nobody counts.
  socket_.bottom().set_option(tcp::socket::send_buffer_size(kSendBufferBytes), ignored);
  Greet(&Connection::AwaitRequest);
}

void Connection::SayNo() { Greet(&Connection::RefuseForWantOfRoom); }

// The answer does not depend on the request; the client has time to read it.
void Connection::RefuseForWantOfRoom() {
  parser_.emplace();
  Refuse(NoRoom());
}

// Sends the answer only as far as that takes no waiting. Also without a handshake some byte is an
// answer (coordinator/runtime/self_probe.h).
void Connection::TurnAway() {
  core_->CountAnswer(503);
  const std::string answer = core_->tls != nullptr
                                 ? std::string(kTlsNoRoom)
                                 : FormatResponse(NoRoom(), {.keep_alive = false});
  error_code ignored;
  tcp::socket& socket = socket_.bottom();
  socket.non_blocking(true, ignored);
  socket.write_some(net::buffer(answer), ignored);
  socket.shutdown(tcp::socket::shutdown_send, ignored);
  socket.close(ignored);
}

// On a port of TLS the first byte says whether the client speaks that. One who does not is told so
// in plain text; nothing of what he asks is read.
void Connection::Greet(void (Connection::*then)()) {
  error_code ignored;
  peer_ = socket_.bottom().remote_endpoint(ignored).address().to_string();
  if (core_->tls == nullptr) return (this->*then)();
  state_ = State::kGreeting;
  SetTimer(limits().handshake_timeout);
  socket_.bottom().async_read_some(
      net::buffer(&greeting_, 1), [self = shared_from_this(), then](error_code ec, size_t) {
        if (self->state_ == State::kClosed) return;
        if (ec) return self->Close();
        if (self->greeting_ == kTlsHandshake) return self->ShakeHands(then);
        self->core_->refused.Warn("%s spoke plain text where HTTPS is spoken", self->peer_);
        self->parser_.emplace();
        self->Refuse(SpeaksHttps());
      });
}

// All of it within the time that began with the connection. Who fails is told by TLS itself, in few
// words; the others are for the log. One who just leaves, as a probe does, leaves no line.
void Connection::ShakeHands(void (Connection::*then)()) {
  socket_.async_handshake(*core_->tls->Now(), net::buffer(&greeting_, 1),
                          [self = shared_from_this(), then](error_code ec) {
                            if (self->state_ == State::kClosed) return;
                            if (ec.category() == net::error::get_ssl_category())
                              self->core_->refused.Warn("%s came to no end with TLS: %s",
                                                        self->peer_, ec.message());
                            if (ec) return self->Close();
                            (self.get()->*then)();
                          });
}

void Connection::SetTimer(Duration d) {
  timer_.expires_after(std::chrono::duration_cast<net::steady_timer::duration>(d));
  timer_.async_wait([self = shared_from_this(), number = ++timer_number_](error_code ec) {
    if (!ec && number == self->timer_number_) self->OnTimer();
  });
}

void Connection::OnTimer() {
  switch (state_) {
    case State::kIdle:
      if (!first_) return Close();
      [[fallthrough]];
    case State::kHead:
    case State::kBody: {
      // Ends the read under way, whose handler then answers: there is one read or write at a time.
      timed_out_ = true;
      error_code ignored;
      socket_.bottom().cancel(ignored);
      return;
    }
    case State::kAnswering:
      return Deliver(request_number_, JsonError(504, "deadline_exceeded",
                                                "no answer was found in time; ask again later"));
    case State::kStreaming:
      if (writing_) return CloseUnlessWritten();
      stream_->Push(std::string(kHeartbeat));
      return;
    case State::kWriting: return CloseUnlessWritten();
    case State::kLingering: return CloseUnlessSending();
    case State::kGreeting:
    case State::kClosed: return Close();
  }
}

// A client that still sends what was refused has not come to our answer yet.
void Connection::CloseUnlessSending() {
  const bool sends = std::exchange(has_sent_more_, false);
  if (!sends || !is_refused_ || Now() >= lingers_until_) return Close();
  SetTimer(kLinger);
}

// The time was set when the write began, and what was taken since has given it more.
void Connection::CloseUnlessWritten() {
  const Duration left =
      WriteDeadline(progress_, limits().write_timeout, limits().write_pace) - Now();
  left > Duration() ? SetTimer(left) : Close();
}

void Connection::Close() {
  if (state_ == State::kClosed) return;
  state_ = State::kClosed;
  ++timer_number_;
  ++request_number_;
  timer_.cancel();
  error_code ignored;
  socket_.bottom().close(ignored);
  if (stream_) stream_->Break();
}

void Connection::AwaitRequest() {
  ++request_number_;
  parser_.emplace();
  parser_->body_limit(limits().body_bytes);
  // The head's size is watched here, before the parser sees a whole one.
  parser_->header_limit(static_cast<uint32_t>(limits().header_bytes + 1));
  parser_->eager(true);
  request_ = {};
  if (buffer_.size() > 0) {
    state_ = State::kHead;
    SetTimer(limits().header_timeout);
    return ParseBytes();
  }
  state_ = State::kIdle;
  SetTimer(first_ ? limits().header_timeout : limits().idle_timeout);
  ReadMore();
}

void Connection::ReadMore() {
  socket_.async_read_some(
      buffer_.prepare(kReadBytes),
      [self = shared_from_this()](error_code ec, size_t n) { self->OnRead(ec, n); });
}

void Connection::OnRead(error_code ec, size_t n) {
  if (state_ == State::kClosed) return;
  if (timed_out_)
    return Refuse(JsonError(408, "deadline_exceeded", "the request did not arrive in time"));
  if (ec) return Close();
  buffer_.commit(n);
  if (state_ == State::kIdle) {
    state_ = State::kHead;
    if (!first_) SetTimer(limits().header_timeout);
    first_ = false;
  }
  ParseBytes();
}

void Connection::ParseBytes() { state_ == State::kHead ? ParseHead() : ParseBody(); }

void Connection::ParseHead() {
  const absl::string_view bytes(static_cast<const char*>(buffer_.data().data()), buffer_.size());
  const auto end = FindHeadEnd(bytes.substr(0, limits().header_bytes));
  if (!end.ok()) return Refuse(ErrorResponse(end.status()));
  if (!*end && bytes.size() >= limits().header_bytes) {
    return Refuse(ResponseForParseError(beast::http::error::header_limit));
  }
  if (!*end) return ReadMore();
  error_code ec;
  // Bytes behind the head stay in the buffer: they are the body, or another request.
  const size_t used = parser_->put(net::buffer(bytes.data(), **end), ec);
  if (ec && ec != beast::http::error::need_more) return Refuse(ResponseForParseError(ec));
  if (!parser_->is_header_done())
    return Refuse(ResponseForParseError(beast::http::error::bad_field));
  buffer_.consume(used);
  AfterHead();
}

// Decides what can be decided without the body, which then need not be read.
void Connection::AfterHead() {
  const absl::Status headers =
      CheckHeaders(parser_->get(), core_->loopback_only, socket_.is_tls() ? "https" : "http");
  if (!headers.ok()) return Refuse(ErrorResponse(headers));
  absl::StatusOr<Request> request = MakeRequest();
  if (!request.ok()) return Refuse(ErrorResponse(request.status()));
  request_ = *std::move(request);
  Router::Found found = core_->router.Find(request_.method, request_.path);
  keep_alive_ = parser_->get().keep_alive();
  if (const std::optional<Response> refusal = WhyNot(request_, found))
    return parser_->is_done() ? WriteAnswer(*refusal, keep_alive_) : Refuse(*refusal);
  handler_ = found.handler;
  request_.params = std::move(found.params);
  if (*found.admit)
    if (const std::optional<Response> refusal = (*found.admit)(request_))
      return parser_->is_done() ? WriteAnswer(*refusal, keep_alive_) : Refuse(*refusal);
  if (parser_->is_done()) return Dispatch();
  const auto length = parser_->content_length();
  const size_t most = limits().body_bytes;
  body_room_ = ByteRoom::Take(core_->bodies_bytes, length ? std::min(size_t{*length}, most) : most,
                              limits().bodies_bytes);
  if (!body_room_) {
    return Refuse(JsonError(503, "unavailable",
                            "too many requests are under way to take this one; try again later"));
  }
  state_ = State::kBody;
  SetTimer(limits().body_timeout);
  if (request_.headers.contains("expect")) return Write(kContinue, &Connection::ParseBody);
  ParseBody();
}

absl::StatusOr<Request> Connection::MakeRequest() {
  MUSTER_ASSIGN_OR_RETURN(Target target, ParseTarget(View(parser_->get().target())));
  Request request;
  request.method = std::string(View(parser_->get().method_string()));
  request.path = std::move(target.path);
  request.query = std::move(target.query);
  request.headers = CopyHeaders(parser_->get());
  request.peer = peer_;
  return request;
}

void Connection::ParseBody() {
  error_code ec;
  if (buffer_.size() > 0) {
    const size_t before = buffer_.size();
    const size_t used = parser_->put(buffer_.data(), ec);
    buffer_.consume(used);
    if (ec && ec != beast::http::error::need_more) return Refuse(ResponseForParseError(ec));
    if (used == 0 && before >= limits().header_bytes) {
      return Refuse(ResponseForParseError(beast::http::error::bad_chunk));
    }
  }
  parser_->is_done() ? Dispatch() : ReadMore();
}

void Connection::Dispatch() {
  request_.body = std::move(parser_->get().body());
  state_ = State::kAnswering;
  SetTimer(limits().answer_timeout);
  Responder responder(std::make_shared<AnswerToConnection>(weak_from_this(), request_number_));
  (*handler_)(std::move(request_), std::move(responder));
}

void Connection::Deliver(uint64_t request, const Response& response,
                         std::shared_ptr<ByteRoom> room) {
  if (request != request_number_ || state_ != State::kAnswering) return;  // too late
  answer_room_ = std::move(room);
  WriteAnswer(response, keep_alive_);
}

// An answer after which the rest of what the client sent cannot be understood, or is not worth
// reading.
void Connection::Refuse(const Response& response) {
  is_refused_ = state_ == State::kHead || state_ == State::kBody;
  WriteAnswer(response, false);
}

void Connection::WriteAnswer(const Response& response, bool keep_alive) {
  ++request_number_;
  timed_out_ = false;
  first_ = false;
  keep_alive_ = keep_alive;
  state_ = State::kWriting;
  core_->CountAnswer(response.status);
  SetTimer(limits().write_timeout);
  const bool head = parser_->get().method() == beast::http::verb::head;
  parser_->get().body() = {};
  body_room_.reset();
  Write(FormatResponse(response,
                       {.keep_alive = keep_alive, .without_body = head, .now = absl::Now()}),
        &Connection::AfterAnswer);
}

void Connection::Write(std::string bytes, void (Connection::*then)()) {
  MUSTER_CHECK(!writing_, "(one write at a time)");
  writing_ = true;
  out_ = std::move(bytes);
  progress_ = {.began = Now(), .moved = Now()};
  const auto note = [this](error_code ec, size_t taken) {
    if (taken > progress_.taken) progress_.moved = Now();
    progress_.taken = taken;
    return net::transfer_all()(ec, taken);
  };
  net::async_write(
      socket_, net::buffer(out_), note, [self = shared_from_this(), then](error_code ec, size_t) {
        self->writing_ = false;
        std::string().swap(self->out_);  // a quiet connection holds nothing
        self->answer_room_.reset();
        if (self->state_ == State::kClosed) return;
        if (ec) return self->Close();
        if (self->timed_out_) {
          return self->Refuse(
              JsonError(408, "deadline_exceeded", "the request did not arrive in time"));
        }
        (self.get()->*then)();
      });
}

void Connection::AfterAnswer() { keep_alive_ ? AwaitRequest() : Linger(); }

// Closing with unread bytes would reset the connection and could destroy our last words on their
// way.
void Connection::Linger() {
  state_ = State::kLingering;
  lingers_until_ = Now() + limits().body_timeout;
  SetTimer(kLinger);
  if (!socket_.is_tls()) return EndSending();
  socket_.async_say_end([self = shared_from_this()] {
    if (self->state_ != State::kClosed) self->EndSending();
  });
}

void Connection::EndSending() {
  error_code ec;
  socket_.bottom().shutdown(tcp::socket::shutdown_send, ec);
  if (ec) return Close();
  if (!discarding_) Discard();
}

// What comes after all is said is not even deciphered.
void Connection::Discard() {
  discarding_ = true;
  const auto then = [self = shared_from_this()](error_code ec, size_t n) {
    self->discarded_ += n;
    self->has_sent_more_ = true;
    if (self->state_ == State::kClosed) return;
    const size_t most = self->is_refused_ ? kMaxRefusedBytes : kMaxDiscardedBytes;
    if (ec || self->discarded_ > most) return self->Close();
    self->Discard();
  };
  if (state_ == State::kLingering)
    return socket_.bottom().async_read_some(net::buffer(discard_), then);
  socket_.async_read_some(net::buffer(discard_), then);
}

void Connection::StartStream(uint64_t request, std::shared_ptr<StreamQueue> queue) {
  if (request != request_number_ || state_ != State::kAnswering) return queue->Break();
  ++request_number_;
  body_room_.reset();  // the handler has had it, and a stream may last for hours
  core_->CountAnswer(200);
  SetTimer(limits().write_timeout);
  if (parser_->get().method() == beast::http::verb::head) {
    queue->Break();
    state_ = State::kWriting;
    return Write(FormatStreamHead(), &Connection::Linger);
  }
  state_ = State::kStreaming;
  stream_ = std::move(queue);
  Discard();  // finds out when the client goes
  Write(FormatStreamHead(), &Connection::OnStreamNews);
}

void Connection::OnStreamNews() {
  if (state_ != State::kStreaming || writing_) return;
  StreamQueue::News news = stream_->Take();
  if (news.broken) return Close();
  if (!news.bytes.empty()) {
    SetTimer(limits().write_timeout);
    return Write(std::move(news.bytes), &Connection::OnStreamNews);
  }
  if (news.closed) return Linger();
  SetTimer(limits().stream_heartbeat);
}

}  // namespace muster::http
