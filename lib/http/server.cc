#include "lib/http/server.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lib/base/check.h"
#include "lib/base/loopback.h"
#include "lib/base/status.h"
#include "lib/http/router.h"
#include "lib/http/sse.h"
#include "lib/http/stream_queue.h"
#include "lib/http/target.h"
#include "lib/http/wire.h"
#include "lib/log/log.h"

namespace muster::http {
namespace {

namespace net = boost::asio;
namespace beast = boost::beast;
using boost::system::error_code;
using net::ip::tcp;
using Parser = beast::http::request_parser<beast::http::string_body>;

constexpr size_t kReadBytes = size_t{16} << 10;
constexpr size_t kMaxDiscardedBytes =
    size_t{1} << 20;  // from a client that has been told, or has nothing, to say
constexpr Duration kLinger = std::chrono::seconds(2);
constexpr Duration kAcceptPause = std::chrono::milliseconds(100);  // when descriptors have run out
constexpr char kContinue[] = "HTTP/1.1 100 Continue\r\n\r\n";

class Connection;

// What the server, its connections and their responders share. Connections hold it, so that the
// last of them, which a responder of another thread may let go after the server, still finds the
// io_context it lived in.
struct Core {
  Core(Router r, const ServerOptions& o) : options(o), router(std::move(r)), io(o.threads) {}

  const ServerOptions options;
  const Router router;
  bool loopback_only = true;
  Counter* streams_dropped = nullptr;
  net::io_context io;

  // False when the server stops or is full.
  bool Register(const std::shared_ptr<Connection>& connection);
  void Unregister(Connection* connection);
  void CloseAll();
  int Count() {
    std::lock_guard lock(mutex);
    return static_cast<int>(connections.size());
  }
  bool Stopping() {
    std::lock_guard lock(mutex);
    return stopping;
  }
  void CountAnswer(int status) {
    if (options.metrics != nullptr) {
      options.metrics->GetCounter("muster_http_requests_total", absl::StrCat(status)).Add();
    }
  }

  std::mutex mutex;
  bool stopping = false;                                                   // guarded by mutex
  std::unordered_map<Connection*, std::weak_ptr<Connection>> connections;  // guarded by mutex
};

template <class F>
void PostTo(const std::weak_ptr<Connection>& connection, F f);

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

absl::string_view View(beast::string_view text) { return {text.data(), text.size()}; }

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

// What the parser lets pass but two readers could understand differently, or a web page could send
// unasked.
absl::Status CheckHeaders(const Parser::value_type& message, bool loopback_only) {
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
      origin != absl::StrCat("http://", host)) {
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

// One client. Everything but the registry runs on the connection's strand, one thing at a time;
// there is at most one read and one write under way, and one timer whose meaning is the state.
class Connection final : public std::enable_shared_from_this<Connection> {
 public:
  Connection(std::shared_ptr<Core> core, tcp::socket socket)
      : core_(std::move(core)), socket_(std::move(socket)), timer_(socket_.get_executor()) {}
  ~Connection() {
    if (stream_) stream_->Break();
    core_->Unregister(this);
  }

  net::any_io_executor executor() { return socket_.get_executor(); }
  void Start();
  void TurnAway();  // instead of Start, where there is no room; on any thread
  void Close();
  void Deliver(uint64_t request, const Response& response);
  void StartStream(uint64_t request, std::shared_ptr<StreamQueue> queue);
  void OnStreamNews();
  const std::shared_ptr<Core>& core() const { return core_; }

 private:
  enum class State {
    kIdle,       // nothing of the next request is here
    kHead,       // some of it is
    kBody,       // its head is parsed, its body is under way
    kAnswering,  // a handler has it
    kWriting,    // the answer is on its way
    kStreaming,  // the answer is a stream of events
    kLingering,  // all is said; the client's last bytes are thrown away, so that it can read ours
    kClosed,
  };

  const Limits& limits() const { return core_->options.limits; }
  void SetTimer(Duration d);
  void OnTimer();

  void AwaitRequest();
  void ReadMore();
  void OnRead(error_code ec, size_t n);
  void TakeBytes();
  void ParseHead();
  void AfterHead();
  void ParseBody();
  void Dispatch();
  absl::StatusOr<Request> MakeRequest();

  void Refuse(const Response& response);
  void Write(std::string bytes, void (Connection::*then)());
  void WriteAnswer(const Response& response, bool keep_alive);
  void AfterAnswer();
  void Linger();
  void Discard();

  const std::shared_ptr<Core> core_;
  tcp::socket socket_;
  net::steady_timer timer_;
  uint64_t timer_number_ = 0;

  State state_ = State::kIdle;
  bool timed_out_ = false;
  bool first_ = true;
  bool keep_alive_ = false;
  uint64_t request_number_ = 0;  // the request that may be answered now
  beast::flat_buffer buffer_;
  std::optional<Parser> parser_;
  Request request_;
  const Handler* handler_ = nullptr;

  std::string out_;
  bool writing_ = false;
  std::shared_ptr<StreamQueue> stream_;
  std::array<char, 4096> discard_;
  size_t discarded_ = 0;
  bool discarding_ = false;
};

template <class F>
void PostTo(const std::weak_ptr<Connection>& weak, F f) {
  if (const auto connection = weak.lock()) {
    net::post(connection->executor(), [weak, f = std::move(f)]() mutable {
      if (const auto alive = weak.lock()) f(*alive);
    });
  }
}

bool Core::Register(const std::shared_ptr<Connection>& connection) {
  std::lock_guard lock(mutex);
  if (stopping || connections.size() >= static_cast<size_t>(options.limits.connections))
    return false;
  connections.emplace(connection.get(), connection);
  return true;
}

void Core::Unregister(Connection* connection) {
  std::lock_guard lock(mutex);
  connections.erase(connection);
}

void Core::CloseAll() {
  std::vector<std::weak_ptr<Connection>> all;
  {
    std::lock_guard lock(mutex);
    stopping = true;
    for (const auto& [key, weak] : connections) all.push_back(weak);
  }
  for (const auto& weak : all) PostTo(weak, [](Connection& c) { c.Close(); });
}

void Connection::Start() {
  error_code ignored;
  socket_.set_option(tcp::no_delay(true), ignored);
  AwaitRequest();
}

// Says so where that costs no waiting.
void Connection::TurnAway() {
  core_->CountAnswer(503);
  const std::string answer =
      FormatResponse(JsonError(503, "unavailable", "too many connections; ask again later"),
                     {.keep_alive = false});
  error_code ignored;
  socket_.non_blocking(true, ignored);
  socket_.write_some(net::buffer(answer), ignored);
  socket_.shutdown(tcp::socket::shutdown_send, ignored);
  socket_.close(ignored);
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
      // The read under way comes back and answers: reads and writes stay one at a time.
      timed_out_ = true;
      error_code ignored;
      socket_.cancel(ignored);
      return;
    }
    case State::kAnswering:
      return Deliver(request_number_, JsonError(504, "deadline_exceeded",
                                                "no answer was found in time; ask again later"));
    case State::kStreaming:
      if (writing_) return Close();
      stream_->Push(std::string(kHeartbeat));
      return;
    case State::kWriting:
    case State::kLingering:
    case State::kClosed: return Close();
  }
}

void Connection::Close() {
  if (state_ == State::kClosed) return;
  state_ = State::kClosed;
  ++timer_number_;
  ++request_number_;
  timer_.cancel();
  error_code ignored;
  socket_.close(ignored);
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
    return TakeBytes();
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
  TakeBytes();
}

void Connection::TakeBytes() { state_ == State::kHead ? ParseHead() : ParseBody(); }

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
  const absl::Status headers = CheckHeaders(parser_->get(), core_->loopback_only);
  if (!headers.ok()) return Refuse(ErrorResponse(headers));
  absl::StatusOr<Request> request = MakeRequest();
  if (!request.ok()) return Refuse(ErrorResponse(request.status()));
  request_ = *std::move(request);
  Router::Found found = core_->router.Find(request_.method, request_.path);
  keep_alive_ = parser_->get().keep_alive();
  if (found.handler == nullptr) {
    Response response =
        found.allowed.empty()
            ? JsonError(404, "not_found", absl::StrCat("there is nothing at ", request_.path))
            : JsonError(405, "unimplemented",
                        absl::StrCat(request_.path, " takes only ", found.allowed));
    if (!found.allowed.empty()) response.headers.emplace_back("Allow", found.allowed);
    return parser_->is_done() ? WriteAnswer(response, keep_alive_) : Refuse(response);
  }
  handler_ = found.handler;
  request_.params = std::move(found.params);
  if (parser_->is_done()) return Dispatch();
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

}  // namespace

// Owned by the responder's copies; makes sure that a request is answered exactly once.
class Responder::Answer {
 public:
  Answer(std::weak_ptr<Connection> connection, uint64_t request)
      : connection_(std::move(connection)), request_(request) {}
  ~Answer() {
    if (!used_.exchange(true))
      Deliver(JsonError(500, "internal", "the request was dropped without an answer"));
  }
  void Send(Response response) {
    Use();
    Deliver(std::move(response));
  }
  std::shared_ptr<EventStream> Stream() {
    Use();
    const auto connection = connection_.lock();
    const auto core = connection ? connection->core() : nullptr;
    auto queue = std::make_shared<StreamQueue>(
        core ? core->options.limits.stream_queue_bytes : 0, core ? core->streams_dropped : nullptr,
        [weak = connection_] { PostTo(weak, [](Connection& c) { c.OnStreamNews(); }); });
    PostTo(connection_,
           [queue, request = request_](Connection& c) { c.StartStream(request, queue); });
    // What was posted before the server stopped is still run, what came later may not be.
    if (!core || core->Stopping()) queue->Break();
    return std::make_shared<StreamHandle>(std::move(queue));
  }

 private:
  void Use() { MUSTER_CHECK(!used_.exchange(true), "(a request is answered exactly once)"); }
  void Deliver(Response response) {
    PostTo(connection_, [response = std::move(response), request = request_](Connection& c) {
      c.Deliver(request, response);
    });
  }

  const std::weak_ptr<Connection> connection_;
  const uint64_t request_;
  std::atomic<bool> used_ = false;
};

namespace {

void Connection::Dispatch() {
  request_.body = std::move(parser_->get().body());
  state_ = State::kAnswering;
  SetTimer(limits().answer_timeout);
  Responder responder(std::make_shared<Responder::Answer>(weak_from_this(), request_number_));
  (*handler_)(std::move(request_), std::move(responder));
}

void Connection::Deliver(uint64_t request, const Response& response) {
  if (request != request_number_ || state_ != State::kAnswering) return;  // too late
  WriteAnswer(response, keep_alive_);
}

// An answer after which the rest of what the client sent cannot be understood, or is not worth
// reading.
void Connection::Refuse(const Response& response) { WriteAnswer(response, false); }

void Connection::WriteAnswer(const Response& response, bool keep_alive) {
  ++request_number_;
  timed_out_ = false;
  first_ = false;
  keep_alive_ = keep_alive;
  state_ = State::kWriting;
  core_->CountAnswer(response.status);
  SetTimer(limits().write_timeout);
  const bool head = parser_->get().method() == beast::http::verb::head;
  Write(FormatResponse(response, {.keep_alive = keep_alive, .without_body = head}),
        &Connection::AfterAnswer);
}

void Connection::Write(std::string bytes, void (Connection::*then)()) {
  MUSTER_CHECK(!writing_, "(one write at a time)");
  writing_ = true;
  out_ = std::move(bytes);
  net::async_write(
      socket_, net::buffer(out_), [self = shared_from_this(), then](error_code ec, size_t) {
        self->writing_ = false;
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
  error_code ec;
  socket_.shutdown(tcp::socket::shutdown_send, ec);
  if (ec) return Close();
  SetTimer(kLinger);
  if (!discarding_) Discard();
}

void Connection::Discard() {
  discarding_ = true;
  socket_.async_read_some(net::buffer(discard_),
                          [self = shared_from_this()](error_code ec, size_t n) {
                            self->discarded_ += n;
                            if (self->state_ == State::kClosed) return;
                            if (ec || self->discarded_ > kMaxDiscardedBytes) return self->Close();
                            self->Discard();
                          });
}

void Connection::StartStream(uint64_t request, std::shared_ptr<StreamQueue> queue) {
  if (request != request_number_ || state_ != State::kAnswering) return queue->Break();
  ++request_number_;
  state_ = State::kStreaming;
  stream_ = std::move(queue);
  core_->CountAnswer(200);
  SetTimer(limits().write_timeout);
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

class ServerImpl final : public Server {
 public:
  ServerImpl(std::shared_ptr<Core> core, tcp::acceptor acceptor, std::string address)
      : core_(std::move(core)),
        acceptor_(std::move(acceptor)),
        pause_(acceptor_.get_executor()),
        address_(std::move(address)),
        work_(core_->io.get_executor()) {
    net::post(acceptor_.get_executor(), [this] { Accept(); });
    for (int i = 0; i < core_->options.threads; ++i) {
      threads_.emplace_back([core = core_.get()] { core->io.run(); });
    }
  }

  ~ServerImpl() override {
    net::post(acceptor_.get_executor(), [this] {
      error_code ignored;
      acceptor_.close(ignored);
      pause_.cancel();
    });
    core_->CloseAll();
    work_.reset();
    for (std::thread& thread : threads_) thread.join();
  }

  std::string Address() const override { return address_; }
  int Connections() const override { return core_->Count(); }

 private:
  void Accept() {
    if (!acceptor_.is_open()) return;
    acceptor_.async_accept(net::make_strand(core_->io), [this](error_code ec, tcp::socket socket) {
      if (ec == net::error::operation_aborted) return;
      if (!ec) Welcome(std::move(socket));
      const bool out_of_resources = ec && ec != net::error::connection_aborted;
      out_of_resources ? AcceptLater(ec) : Accept();
    });
  }
  void AcceptLater(error_code why) {
    LogWarning("%s: cannot accept a connection: %s", address_, why.message());
    pause_.expires_after(std::chrono::duration_cast<net::steady_timer::duration>(kAcceptPause));
    pause_.async_wait([this](error_code) { Accept(); });
  }
  void Welcome(tcp::socket socket) {
    auto connection = std::make_shared<Connection>(core_, std::move(socket));
    if (core_->Register(connection)) {
      net::post(connection->executor(), [connection] { connection->Start(); });
    } else {
      connection->TurnAway();
    }
  }
  const std::shared_ptr<Core> core_;
  tcp::acceptor acceptor_;  // on a strand of its own, as is pause_
  net::steady_timer pause_;
  const std::string address_;
  net::executor_work_guard<net::io_context::executor_type> work_;
  std::vector<std::thread> threads_;
};

absl::Status ListenError(const std::string& address, const error_code& ec) {
  if (ec == net::error::address_in_use) {
    return absl::AlreadyExistsError(
        absl::StrCat("address ", address, ": the port is in use by another process; ",
                     "stop it, or choose another port (0: any free one)"));
  }
  return absl::UnavailableError(
      absl::StrCat("address ", address, ": cannot listen: ", ec.message()));
}

absl::Status Listen(const std::string& address, tcp::acceptor& acceptor) {
  MUSTER_ASSIGN_OR_RETURN(const HostPort parsed, ParseHostPort(address));
  error_code ec;
  const std::string host = parsed.host == "localhost" ? "127.0.0.1" : parsed.host;
  const tcp::endpoint endpoint(net::ip::make_address(host, ec), parsed.port);
  if (ec) return absl::InvalidArgumentError(absl::StrCat("address ", address, ": ", ec.message()));
  acceptor.open(endpoint.protocol(), ec);
  if (!ec) acceptor.set_option(tcp::acceptor::reuse_address(true), ec);
  if (!ec) acceptor.bind(endpoint, ec);
  if (!ec) acceptor.listen(net::socket_base::max_listen_connections, ec);
  return ec ? ListenError(address, ec) : absl::OkStatus();
}

std::string FormatEndpoint(const tcp::endpoint& endpoint) {
  const std::string host = endpoint.address().to_string();
  return absl::StrCat(endpoint.address().is_v6() ? absl::StrCat("[", host, "]") : host, ":",
                      endpoint.port());
}

}  // namespace

Responder::Responder(std::shared_ptr<Answer> answer) : answer_(std::move(answer)) {}
void Responder::Send(Response response) const { answer_->Send(std::move(response)); }
std::shared_ptr<EventStream> Responder::Stream() const { return answer_->Stream(); }

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const std::string& address,
                                                      std::vector<Route> routes,
                                                      const ServerOptions& options) {
  MUSTER_CHECK(options.threads >= 1, "(threads)");
  MUSTER_ASSIGN_OR_RETURN(Router router, Router::Make(std::move(routes)));
  MUSTER_RETURN_IF_ERROR(CheckPlaintextAddress(address, options.credentials, ReadNamespaceFacts()));
  auto core = std::make_shared<Core>(std::move(router), options);
  core->loopback_only = IsLoopbackAddress(address);
  if (!core->loopback_only) LogWarning("%s", PlaintextWarning(address));
  if (options.metrics != nullptr)
    core->streams_dropped = &options.metrics->GetCounter("muster_sse_dropped_total");
  tcp::acceptor acceptor(net::make_strand(core->io));
  MUSTER_RETURN_IF_ERROR(Listen(address, acceptor));
  error_code ec;
  const std::string in_effect = FormatEndpoint(acceptor.local_endpoint(ec));
  return std::make_unique<ServerImpl>(std::move(core), std::move(acceptor), in_effect);
}

Route MetricsRoute(std::function<std::string()> text) {
  return {"GET", "/metrics", [text = std::move(text)](const Request&, const Responder& responder) {
            responder.Send({.content_type = kMetricsContentType, .body = text()});
          }};
}

Route HealthRoute() {
  return {"GET", "/healthz", [](const Request&, const Responder& responder) {
            responder.Send({.content_type = "text/plain", .body = "ok\n"});
          }};
}

Route ReadyRoute(std::function<absl::Status()> ready) {
  return {"GET", "/readyz", [ready = std::move(ready)](const Request&, const Responder& responder) {
            const absl::Status status = ready();
            if (status.ok()) return responder.Send({.content_type = "text/plain", .body = "ok\n"});
            responder.Send(absl::UnavailableError(status.message()));
          }};
}

}  // namespace muster::http
