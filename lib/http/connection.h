// Private to the room: one client of a server, and what all of them share.
#pragma once

#include <array>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "lib/base/byte_room.h"
#include "lib/base/mutex.h"
#include "lib/http/beast.h"
#include "lib/http/router.h"
#include "lib/http/server.h"
#include "lib/http/stream_queue.h"
#include "lib/http/tls.h"
#include "lib/http/write_progress.h"
#include "lib/log/limited_log.h"

namespace muster::http {

class Connection;

// What the server, its connections and their responders share. Connections hold it, so that the
// last of them, which a responder of another thread may let go after the server, still finds the
// io_context it lived in.
struct Core {
  Core(Router r, const ServerOptions& o) : options(o), router(std::move(r)), io(o.threads) {}

  const ServerOptions options;
  const Router router;
  bool loopback_only = true;
  std::unique_ptr<ServerTls> tls;  // null: it speaks plain text
  LimitedLog refused;              // who did not come to HTTPS: strangers cause it
  Counter* streams_dropped = nullptr;
  net::io_context io;
  // What requests without an answer may come to, large answers that are not written yet, and events
  // likewise.
  const ByteCount bodies_bytes = std::make_shared<std::atomic<size_t>>(0);
  const ByteCount answers_bytes = std::make_shared<std::atomic<size_t>>(0);
  const ByteCount streams_bytes = std::make_shared<std::atomic<size_t>>(0);

  enum class Room {
    kForMore,  // taken
    kToSayNo,  // taken, one of the few above the limit: it is told so, and closed
    kNone,     // not taken: the server stops, or there are too many of those too
  };
  Room Register(const std::shared_ptr<Connection>& connection);
  void Unregister(Connection* connection);
  void CloseAll();
  int Count() {
    MutexLock lock(mutex);
    return static_cast<int>(connections.size());
  }
  bool Stopping() {
    MutexLock lock(mutex);
    return stopping;
  }
  void CountAnswer(int status) {
    if (options.metrics != nullptr) {
      options.metrics->GetCounter("muster_http_requests_total", absl::StrCat(status)).Add();
    }
  }

  Mutex mutex;
  bool stopping ABSL_GUARDED_BY(mutex) = false;
  std::unordered_map<Connection*, std::weak_ptr<Connection>> connections ABSL_GUARDED_BY(mutex);
};

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
  void SayNo();     // instead of Start, where there is no room for more
  void TurnAway();  // likewise, where there is none even for that; on any thread
  void Close();
  void Deliver(uint64_t request, const Response& response,
               std::shared_ptr<ByteRoom> room = nullptr);
  void StartStream(uint64_t request, std::shared_ptr<StreamQueue> queue);
  void OnStreamNews();
  const std::shared_ptr<Core>& core() const { return core_; }

 private:
  enum class State {
    kGreeting,   // of TLS: the handshake
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
  void CloseUnlessWritten();
  void CloseUnlessSending();
  void OnTimer();

  void Greet(void (Connection::*then)());
  void ShakeHands(void (Connection::*then)());
  void RefuseForWantOfRoom();

  void AwaitRequest();
  void ReadMore();
  void OnRead(error_code ec, size_t n);
  void ParseBytes();
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
  void EndSending();
  void Discard();

  const std::shared_ptr<Core> core_;
  ClientSocket socket_;
  std::string peer_;  // its address, without the port; a connection that is over has none
  net::steady_timer timer_;
  uint64_t timer_number_ = 0;

  State state_ = State::kIdle;
  bool timed_out_ = false;
  bool first_ = true;
  char greeting_ = 0;  // the first byte, where this is a port of TLS
  bool keep_alive_ = false;
  uint64_t request_number_ = 0;  // the request that may be answered now
  beast::flat_buffer buffer_;
  std::unique_ptr<ByteRoom> body_room_;    // for the body in the parser, or at the handler
  std::shared_ptr<ByteRoom> answer_room_;  // for what is written
  std::optional<beast::http::request_parser<beast::http::string_body>> parser_;
  Request request_;
  const Handler* handler_ = nullptr;

  std::string out_;
  bool writing_ = false;
  WriteProgress progress_;  // of the write under way
  std::shared_ptr<StreamQueue> stream_;
  std::array<char, 4096> discard_;
  size_t discarded_ = 0;
  bool discarding_ = false;
  bool is_refused_ = false;     // the rest of its last request is discarded
  bool has_sent_more_ = false;  // since the timer was set
  Time lingers_until_;
};

// Runs f(connection) on its strand, unless it is gone by then. Any thread.
template <class F>
void PostTo(const std::weak_ptr<Connection>& weak, F f) {
  if (const auto connection = weak.lock()) {
    net::post(connection->executor(), [weak, f = std::move(f)]() mutable {
      if (const auto alive = weak.lock()) f(*alive);
    });
  }
}

}  // namespace muster::http
