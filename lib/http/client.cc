#include "lib/http/client.h"

#include <algorithm>
#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <chrono>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "lib/base/loopback.h"
#include "lib/base/mutex.h"
#include "lib/base/name_lookup.h"
#include "lib/base/status.h"
#include "lib/http/beast.h"
#include "lib/http/sse.h"

namespace muster::http {
namespace {

using WireRequest = beast::http::request<beast::http::string_body>;
using Parser = beast::http::response_parser<beast::http::string_body>;

constexpr char kNobodyListens[] = "muster.dev/nobody-listens";
// What a client of TLS offers to speak, each after its length.
constexpr std::array<unsigned char, 2> kHttp2 = {'h', '2'};
constexpr std::array<unsigned char, 12> kOffered = {8,   'h', 't', 't', 'p', '/',
                                                    '1', '.', '1', 2,   'h', '2'};
constexpr uint64_t kMaxBodyBytes = uint64_t{16} << 20;

struct Url {
  bool is_tls = false;
  std::string address;  // host:port
  std::string target;   // path and query
};

std::string Place(const Url& url) {
  return absl::StrCat(url.is_tls ? "https://" : "http://", url.address);
}

absl::StatusOr<Url> ParseUrl(const std::string& url) {
  const auto bad = [&](absl::string_view why) {
    return absl::InvalidArgumentError(
        absl::StrCat("URL \"", url, "\" ", why, "; write https://host:port/path"));
  };
  const bool is_tls = absl::StartsWith(url, "https://");
  const absl::string_view scheme = is_tls ? "https://" : "http://";
  if (!absl::StartsWith(url, scheme)) return bad("does not begin with https:// or http://");
  for (const unsigned char c : url) {
    if (c <= 0x20 || c >= 0x7f) return bad("holds a character that must be percent-encoded");
  }
  const std::string rest = url.substr(scheme.size());
  const size_t slash = std::min(rest.find_first_of("/?"), rest.size());
  Url out{is_tls, rest.substr(0, slash), rest.substr(slash)};
  // It may hold a password, so it is not repeated.
  if (absl::StrContains(out.address, "@"))
    return absl::InvalidArgumentError(
        "a URL with a user or a password is not taken; write https://host:port");
  if (!absl::StartsWith(out.target, "/")) out.target.insert(0, "/");
  MUSTER_RETURN_IF_ERROR(
      Prefix(absl::StrCat("URL \"", url, "\""), ParseHostPort(out.address).status()));
  return out;
}

// What a name turns out to be, or an address as it is written. The system's look-up has no deadline
// of its own.
absl::StatusOr<std::vector<tcp::endpoint>> EndpointsOf(const HostPort& at, Duration timeout) {
  struct Answer {
    Mutex mutex;
    CondVar changed;
    std::optional<absl::StatusOr<std::vector<std::string>>> found ABSL_GUARDED_BY(mutex);
  };
  error_code ec;
  const auto ip = net::ip::make_address(at.host == "localhost" ? "127.0.0.1" : at.host, ec);
  if (!ec) return std::vector<tcp::endpoint>{{ip, at.port}};
  const auto answer = std::make_shared<Answer>();
  NameLookup().Ask(at.host, [answer](absl::StatusOr<std::vector<std::string>> found) {
    const MutexLock lock(answer->mutex);
    answer->found = std::move(found);
    answer->changed.NotifyAll();
  });
  const Time deadline = std::chrono::steady_clock::now() + timeout;
  MutexLock lock(answer->mutex);
  while (!answer->found && answer->changed.WaitUntil(answer->mutex, deadline)) {
  }
  if (!answer->found)
    return absl::DeadlineExceededError(
        absl::StrCat("the name ", at.host, " could not be looked up in time"));
  MUSTER_RETURN_IF_ERROR(answer->found->status());
  std::vector<tcp::endpoint> endpoints;
  for (const std::string& text : **answer->found) {
    const std::string plain(absl::StripSuffix(absl::StripPrefix(text, "["), "]"));
    const auto found = net::ip::make_address(plain, ec);
    if (!ec) endpoints.emplace_back(found, at.port);
  }
  return endpoints;
}

// One connection for one request and its answer. Every call runs until it is done or `deadline` has
// passed.
class RoundTrip {
 public:
  RoundTrip(Url url, Trust trust)
      : url_(std::move(url)), check_{.trust = std::move(trust), .found = {}}, stream_(io_) {}

  absl::Status Connect(Duration timeout) {
    if (!url_.is_tls) MUSTER_RETURN_IF_ERROR(CheckPlaintextAddress(url_.address));
    if (url_.is_tls && check_.trust.authority_pem.empty())
      return absl::FailedPreconditionError(
          absl::StrCat("whom to trust at ", Place(url_),
                       " is not known: name the authority of its cluster with ",
                       "--authority FILE (authority.pem of the coordinator's identity)"));
    MUSTER_ASSIGN_OR_RETURN(const HostPort parsed, ParseHostPort(url_.address));
    MUSTER_ASSIGN_OR_RETURN(const std::vector<tcp::endpoint> endpoints,
                            EndpointsOf(parsed, timeout));
    ExpireAfter(timeout);
    MUSTER_RETURN_IF_ERROR(Run([&](auto done) {
      stream_.async_connect(endpoints, [done](error_code ec, const tcp::endpoint&) { done(ec); });
    }));
    return url_.is_tls ? ShakeHands() : absl::OkStatus();
  }
  absl::Status Write(const WireRequest& request) {
    return Over([&](auto& stream, auto done) {
      beast::http::async_write(stream, request, [done](error_code ec, size_t) { done(ec); });
    });
  }
  absl::Status ReadHeader(Parser& parser) {
    return Over([&](auto& stream, auto done) {
      beast::http::async_read_header(stream, buffer_, parser,
                                     [done](error_code ec, size_t) { done(ec); });
    });
  }
  absl::Status ReadRest(Parser& parser) {
    return Over([&](auto& stream, auto done) {
      beast::http::async_read(stream, buffer_, parser, [done](error_code ec, size_t) { done(ec); });
    });
  }
  absl::Status ReadSome(Parser& parser) {
    return Over([&](auto& stream, auto done) {
      beast::http::async_read_some(stream, buffer_, parser,
                                   [done](error_code ec, size_t) { done(ec); });
    });
  }
  void ExpireAfter(Duration timeout) {
    stream_.expires_after(std::chrono::duration_cast<net::steady_timer::duration>(timeout));
  }

 private:
  // Nothing of the request is sent before it has succeeded.
  absl::Status ShakeHands() {
    MUSTER_ASSIGN_OR_RETURN(TlsContext made, TlsContextToCoordinator(&check_));
    net::ssl::context context(made.release());
    tls_.emplace(stream_, context);
    // A port of gRPC picks h2 from what is offered, and else only closes the connection later.
    SSL_set_alpn_protos(tls_->native_handle(), kOffered.data(), kOffered.size());
    const absl::Status shaken =
        Run([&](auto done) { tls_->async_handshake(net::ssl::stream_base::client, done); });
    if (shaken.ok() && SpeaksHttp2())
      return absl::FailedPreconditionError(absl::StrCat(
          Place(url_), " speaks gRPC, as a coordinator does to members, agents and programs, and ",
          "not REST: ask at the address of its REST, which muster up says with `ready at` and ",
          "keeps in cluster.json of its folder as `http` (--http of muster-coordinator)"));
    if (shaken.ok() || !check_.found || check_.found->ok()) return shaken;
    return absl::Status(check_.found->code(),
                        absl::StrCat(Place(url_), " is not spoken to: ", check_.found->message(),
                                     "; --authority names whom to trust"));
  }
  bool SpeaksHttp2() {
    const unsigned char* chosen = nullptr;
    unsigned int size = 0;
    SSL_get0_alpn_selected(tls_->native_handle(), &chosen, &size);
    return std::equal(kHttp2.begin(), kHttp2.end(), chosen, chosen + size);
  }
  template <class Begin>
  absl::Status Over(Begin begin) {
    return Run([&](auto done) { tls_ ? begin(*tls_, done) : begin(stream_, done); });
  }
  template <class Begin>
  absl::Status Run(Begin begin) {
    error_code result;
    begin([&result](error_code ec) { result = ec; });
    io_.restart();
    io_.run();
    return Translate(result);
  }
  absl::Status Translate(const error_code& ec) const {
    if (!ec) return absl::OkStatus();
    if (ec == beast::error::timeout) {
      return absl::DeadlineExceededError(absl::StrCat(Place(url_), " did not answer in time"));
    }
    if (ec == net::error::connection_refused) {
      absl::Status refused =
          absl::UnavailableError(absl::StrCat("nobody listens at ", Place(url_),
                                              ": is the coordinator running, and is this its "
                                              "address?"));
      refused.SetPayload(kNobodyListens, absl::Cord("1"));
      return refused;
    }
    if (ec == beast::http::error::body_limit) {
      return absl::ResourceExhaustedError(
          absl::StrCat(Place(url_), ": the answer is larger than 16 MiB"));
    }
    if (ec.category() == net::error::get_ssl_category()) {
      if (IsTlsNoRoom(static_cast<unsigned long>(ec.value())))
        return absl::UnavailableError(
            absl::StrCat(Place(url_), " has all connections that it may have; ask again later"));
      return absl::FailedPreconditionError(
          absl::StrCat(Place(url_), ": TLS failed (", ec.message(),
                       "); is it the address of a coordinator with --identity?"));
    }
    const bool is_cut = ec == net::ssl::error::stream_truncated;  // without a goodbye of TLS
    return absl::UnavailableError(
        absl::StrCat(Place(url_), ": ", is_cut ? "the connection was cut" : ec.message()));
  }

  const Url url_;
  CoordinatorCheck check_;
  net::io_context io_;
  beast::tcp_stream stream_;
  std::optional<net::ssl::stream<beast::tcp_stream&>> tls_;
  beast::flat_buffer buffer_;
};

WireRequest MakeRequest(beast::http::verb method, const Url& url) {
  WireRequest request(method, url.target, 11);
  request.set(beast::http::field::host, url.address);
  request.set(beast::http::field::user_agent, "muster");
  request.keep_alive(false);
  return request;
}

// Whoever reads what goes to another machine would have the token.
absl::Status AddToken(const std::string& token, const Url& url, WireRequest& request) {
  if (token.empty()) return absl::OkStatus();
  if (!url.is_tls && !IsLoopbackAddress(url.address))
    return absl::FailedPreconditionError(absl::StrCat(
        "no token is sent to ", Place(url), ", as everybody on the way could read it; ask for ",
        "https:// where the coordinator has a certificate, or ask on its own machine, or through ",
        "a tunnel to it (ssh -L)"));
  if (std::any_of(token.begin(), token.end(), [](char c) { return c <= ' ' || c > '~'; }))
    return absl::InvalidArgumentError("the token holds a character that no token has");
  request.set(beast::http::field::authorization, absl::StrCat("Bearer ", token));
  return absl::OkStatus();
}

Response Convert(Parser::value_type message) {
  Response response;
  response.status = static_cast<int>(message.result_int());
  response.content_type = std::string(View(message[beast::http::field::content_type]));
  for (const auto& header : message) {
    response.headers.emplace_back(std::string(View(header.name_string())),
                                  std::string(View(header.value())));
  }
  response.body = std::move(message.body());
  return response;
}

absl::StatusOr<Response> Ask(const Url& url, WireRequest request, const ClientOptions& options) {
  MUSTER_RETURN_IF_ERROR(AddToken(options.token, url, request));
  RoundTrip round_trip(url, options.trust);
  MUSTER_RETURN_IF_ERROR(round_trip.Connect(options.timeout));
  MUSTER_RETURN_IF_ERROR(round_trip.Write(request));
  Parser parser;
  parser.body_limit(kMaxBodyBytes);
  // In two reads: Beast 1.74 forgets the limit where header and body come in one piece.
  MUSTER_RETURN_IF_ERROR(round_trip.ReadHeader(parser));
  MUSTER_RETURN_IF_ERROR(round_trip.ReadRest(parser));
  return Convert(parser.release());
}

// Feeds what has come to `on_event`; true: it wants no more.
absl::StatusOr<bool> GiveOut(Parser& parser, EventParser& events,
                             const std::function<bool(const Event&)>& on_event) {
  std::vector<Event> whole;
  MUSTER_RETURN_IF_ERROR(events.Feed(parser.get().body(), whole));
  parser.get().body().clear();
  for (const Event& event : whole) {
    if (!on_event(event)) return true;
  }
  return false;
}

}  // namespace

bool NobodyListens(const absl::Status& error) {
  return error.GetPayload(kNobodyListens).has_value();
}

absl::StatusOr<Response> Get(const std::string& url, const ClientOptions& options) {
  MUSTER_ASSIGN_OR_RETURN(const Url parsed, ParseUrl(url));
  return Ask(parsed, MakeRequest(beast::http::verb::get, parsed), options);
}

namespace {

absl::StatusOr<Response> SendJson(beast::http::verb verb, const std::string& url,
                                  const std::string& json, const ClientOptions& options) {
  MUSTER_ASSIGN_OR_RETURN(const Url parsed, ParseUrl(url));
  WireRequest request = MakeRequest(verb, parsed);
  request.set(beast::http::field::content_type, "application/json");
  request.body() = json;
  request.prepare_payload();
  return Ask(parsed, std::move(request), options);
}

}  // namespace

absl::StatusOr<Response> Post(const std::string& url, const std::string& json,
                              const ClientOptions& options) {
  return SendJson(beast::http::verb::post, url, json, options);
}

absl::StatusOr<Response> Put(const std::string& url, const std::string& json,
                             const ClientOptions& options) {
  return SendJson(beast::http::verb::put, url, json, options);
}

absl::StatusOr<Response> Patch(const std::string& url, const std::string& json,
                               const ClientOptions& options) {
  return SendJson(beast::http::verb::patch, url, json, options);
}

absl::StatusOr<Response> Delete(const std::string& url, const ClientOptions& options) {
  MUSTER_ASSIGN_OR_RETURN(const Url parsed, ParseUrl(url));
  return Ask(parsed, MakeRequest(beast::http::verb::delete_, parsed), options);
}

std::string EscapeUrlPart(absl::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (absl::ascii_isalnum(byte) || absl::StrContains("-._~", c))
      out += c;
    else
      absl::StrAppendFormat(&out, "%%%02X", byte);
  }
  return out;
}

absl::Status StreamEvents(const std::string& url, const std::function<bool(const Event&)>& on_event,
                          const StreamOptions& options) {
  MUSTER_ASSIGN_OR_RETURN(const Url parsed, ParseUrl(url));
  if (options.last_event_id.find_first_of("\r\n\0", 0, 3) != std::string::npos) {
    return absl::InvalidArgumentError("last_event_id holds a line end");
  }
  WireRequest request = MakeRequest(beast::http::verb::get, parsed);
  request.set(beast::http::field::accept, "text/event-stream");
  if (!options.last_event_id.empty()) request.set("Last-Event-ID", options.last_event_id);
  MUSTER_RETURN_IF_ERROR(AddToken(options.token, parsed, request));
  RoundTrip round_trip(parsed, options.trust);
  MUSTER_RETURN_IF_ERROR(round_trip.Connect(options.connect_timeout));
  MUSTER_RETURN_IF_ERROR(round_trip.Write(request));
  Parser parser;
  parser.body_limit(
      std::numeric_limits<uint64_t>::max());  // boost::none forbids every body with a length here
  MUSTER_RETURN_IF_ERROR(round_trip.ReadHeader(parser));
  if (parser.get().result_int() != 200) {
    parser.body_limit(kMaxBodyBytes);  // Beast asks it of chunks only, once the header is read
    if (parser.content_length().value_or(0) > kMaxBodyBytes) {
      return absl::ResourceExhaustedError(absl::StrCat(url, ": the answer is larger than 16 MiB"));
    }
    MUSTER_RETURN_IF_ERROR(round_trip.ReadRest(parser));
    const absl::Status status = StatusFromResponse(Convert(parser.release()));
    return status.ok()
               ? absl::InternalError(absl::StrCat(url, ": not the answer of an event stream"))
               : status;
  }
  if (!absl::StartsWith(View(parser.get()[beast::http::field::content_type]),
                        "text/event-stream")) {
    return absl::InvalidArgumentError(absl::StrCat(url, " is not an event stream"));
  }
  EventParser events(options.last_event_id);
  while (true) {
    MUSTER_ASSIGN_OR_RETURN(const bool enough, GiveOut(parser, events, on_event));
    if (enough) return absl::OkStatus();
    if (parser.is_done())
      return absl::UnavailableError(absl::StrCat(url, ": the stream of events ended"));
    round_trip.ExpireAfter(options.idle_timeout);
    MUSTER_RETURN_IF_ERROR(round_trip.ReadSome(parser));
  }
}

}  // namespace muster::http
