// An asynchronous HTTP/1.1 listener with routes and server-sent events. Few threads of its own
// serve all connections; none of them waits for a client, so slow or hostile ones do not hold up
// the others.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/base/byte_room.h"
#include "lib/base/clock.h"
#include "lib/base/credentials.h"
#include "lib/base/descriptors.h"
#include "lib/http/message.h"
#include "lib/metrics/metrics.h"

namespace muster::http {

// One client that listens to events. All methods thread-safe; none blocks. It may outlive the
// server.
class EventStream {
 public:
  virtual ~EventStream() = default;
  // Queues one event; `data` may hold several lines; line ends in `id` and `event` are dropped.
  // False once closed: the client is gone, the server stops, or this event overfilled the queue (a
  // client that reads too slowly is dropped and counted in muster_sse_dropped_total; it comes back
  // with its last id).
  virtual bool Send(absl::string_view id, absl::string_view event, absl::string_view data) = 0;
  virtual void Close() = 0;  // after what is queued has been written
  virtual bool closed() const = 0;
};

// The one answer to one request. Copyable; thread-safe; may be kept and used later. Exactly one of
// Send and Stream is called, once, on one of the copies; where the last copy goes without, the
// client gets 500. Never blocks; harmless after the client or the server is gone.
class Responder {
 public:
  class Answer;  // internal
  explicit Responder(std::shared_ptr<Answer> answer);

  void Send(Response response) const;
  void Send(const absl::Status& error, absl::string_view field = "") const {
    Send(ErrorResponse(error, field));
  }
  std::shared_ptr<EventStream> Stream() const;  // answers 200 with text/event-stream
  // Takes room for an answer of about so many bytes, before the time and the memory are spent to
  // make it; what it turns out not to need is given back when it is sent. False: those under way
  // leave none, so send NoRoomForAnswer instead. Not at the same time as another call.
  bool Reserve(size_t bytes) const;

 private:
  std::shared_ptr<Answer> answer_;
};

// What a client is told whose answer would be more than all that are on their way may come to.
Response NoRoomForAnswer();

// Called on an I/O thread: returns at once and calls the responder then or later. Does not throw.
using Handler = std::function<void(Request, Responder)>;

// Asked with the head of a request, before its body is read; nothing: it may come in. On an I/O
// thread, which it does not hold up.
using Admit = std::function<std::optional<Response>(const Request& head)>;

// A pattern's segments are literal or begin with one {name}, which stands for a segment or its part
// before the literal rest: "/v1/jobs/{id}", "/v1/jobs/{id}:cancel". A {name} never stands for
// nothing nor for text with ':'.
// HEAD goes wherever GET does, and a slash at the end of a path makes no difference.
struct Route {
  std::string method;  // "GET"
  std::string pattern;
  Handler handler;
  // Parameters of the query that it takes; a request with another one is refused (400).
  std::vector<std::string> query = {};
  bool streams = false;  // it answers with events
  Admit admit = {};      // none: every request may come in
};

struct Limits {
  size_t header_bytes = size_t{16} << 10;  // request line and headers; more: 431
  size_t body_bytes = size_t{1} << 20;     // more: 413
  size_t bodies_bytes = size_t{64} << 20;  // of all requests that have no answer yet; more: 503
  // Of all answers larger than kSmallAnswerBytes that are on their way; more: 503.
  size_t answers_bytes = size_t{64} << 20;
  size_t stream_queue_bytes = size_t{1}
                              << 20;        // events not yet taken by a client; more: it is dropped
  size_t streams_bytes = size_t{64} << 20;  // of events not yet written, of all clients; likewise
  int connections = kMostHttpConnections;   // more: 503 and closed; a few above it while told so
  Duration handshake_timeout = std::chrono::seconds(10);  // of TLS, from the connection on
  Duration header_timeout =
      std::chrono::seconds(10);  // from the connection or first byte to the last header; 408
  Duration body_timeout = std::chrono::seconds(30);    // for the whole body; 408
  Duration idle_timeout = std::chrono::seconds(60);    // between requests on one connection
  Duration answer_timeout = std::chrono::seconds(60);  // for the handler; 504
  // How long a client may take nothing of an answer, or of a batch of events, and how many bytes a
  // second it takes besides; more slowly: it is cut off (write_progress.h).
  Duration write_timeout = std::chrono::seconds(30);
  size_t write_pace = size_t{8} << 10;
  Duration stream_heartbeat =
      std::chrono::seconds(15);  // a comment on quiet streams, so that dead ones are noticed
};

// So many bytes may come in a row of which nothing is content: a handshake, or what TLS says beside
// it, such as new keys. A record of content is shorter.
inline constexpr size_t kMostTlsWithoutContent = size_t{32} << 10;

struct ServerOptions {
  Limits limits;
  // With an identity it speaks HTTPS, at any address, and shows that certificate; it asks for none.
  Credentials credentials;
  // Plain text at any address, which a person chose: nothing is told that is secret (metrics).
  bool plaintext_anywhere = false;
  int threads = 1;
  Metrics* metrics = nullptr;  // not owned; outlives the server
};

class Server {
 public:
  // Listens on host:port (port 0: any). kInvalidArgument: address, pattern or method does not
  // parse, or two routes are the same; kFailedPrecondition: refused by the loopback rule, which is
  // for plain text;
  // kAlreadyExists: port in use; kUnavailable: other.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const std::string& address,
                                                       std::vector<Route> routes,
                                                       const ServerOptions& options = {});
  virtual ~Server() = default;  // stops accepting, closes all connections and streams, joins its
                                // threads; never called from a handler
  virtual std::string Address() const = 0;  // host:port in effect
  virtual int Connections() const = 0;      // open now
};

// GET /metrics: what `text` returns (called on an I/O thread). Metrics::Text fits.
Route MetricsRoute(std::function<std::string()> text);
// GET /healthz: 200 "ok" while the process answers at all, and `healthy`, if given, says OK; else
// 503 with the reason. It is called on an I/O thread and does not block.
Route HealthRoute(std::function<absl::Status()> healthy = {});
// GET /readyz: 200 "ok" or 503 with the reason. `ready` is called on an I/O thread and does not
// block.
Route ReadyRoute(std::function<absl::Status()> ready);

}  // namespace muster::http
