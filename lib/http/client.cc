#include "lib/http/client.h"

#include <boost/asio/io_context.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <limits>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lib/base/loopback.h"
#include "lib/base/status.h"
#include "lib/http/beast.h"
#include "lib/http/sse.h"

namespace muster::http {
namespace {

using WireRequest = beast::http::request<beast::http::string_body>;
using Parser = beast::http::response_parser<beast::http::string_body>;

constexpr char kNobodyListens[] = "muster.dev/nobody-listens";
constexpr uint64_t kMaxBodyBytes = uint64_t{16} << 20;

struct Url {
  std::string address;  // host:port
  std::string target;   // path and query
};

absl::StatusOr<Url> ParseUrl(const std::string& url) {
  const auto bad = [&](absl::string_view why) {
    return absl::InvalidArgumentError(
        absl::StrCat("URL \"", url, "\" ", why, "; write http://host:port/path"));
  };
  constexpr absl::string_view kScheme = "http://";
  if (absl::StartsWith(url, "https://")) return bad("asks for https, which needs certificates");
  if (!absl::StartsWith(url, kScheme)) return bad("does not begin with http://");
  for (const unsigned char c : url) {
    if (c <= 0x20 || c >= 0x7f) return bad("holds a character that must be percent-encoded");
  }
  const std::string rest = url.substr(kScheme.size());
  const size_t slash = std::min(rest.find_first_of("/?"), rest.size());
  Url out{rest.substr(0, slash), rest.substr(slash)};
  // It may hold a password, so it is not repeated.
  if (absl::StrContains(out.address, "@"))
    return absl::InvalidArgumentError(
        "a URL with a user or a password is not taken; write http://host:port");
  if (!absl::StartsWith(out.target, "/")) out.target.insert(0, "/");
  MUSTER_RETURN_IF_ERROR(
      Prefix(absl::StrCat("URL \"", url, "\""), ParseHostPort(out.address).status()));
  return out;
}

// One connection for one request and its answer. Every call runs until it is done or `deadline` has
// passed.
class RoundTrip {
 public:
  explicit RoundTrip(std::string address) : address_(std::move(address)), stream_(io_) {}

  absl::Status Connect(const Credentials& credentials, Duration timeout) {
    MUSTER_RETURN_IF_ERROR(CheckPlaintextAddress(address_, credentials, ReadNetworkNamespaces()));
    MUSTER_ASSIGN_OR_RETURN(const HostPort parsed, ParseHostPort(address_));
    error_code ec;
    const auto ip =
        net::ip::make_address(parsed.host == "localhost" ? "127.0.0.1" : parsed.host, ec);
    if (ec)
      return absl::InvalidArgumentError(absl::StrCat("address ", address_, ": ", ec.message()));
    ExpireAfter(timeout);
    return Run([&](auto done) { stream_.async_connect(tcp::endpoint(ip, parsed.port), done); });
  }
  absl::Status Write(const WireRequest& request) {
    return Run([&](auto done) {
      beast::http::async_write(stream_, request, [done](error_code ec, size_t) { done(ec); });
    });
  }
  absl::Status ReadHeader(Parser& parser) {
    return Run([&](auto done) {
      beast::http::async_read_header(stream_, buffer_, parser,
                                     [done](error_code ec, size_t) { done(ec); });
    });
  }
  absl::Status ReadRest(Parser& parser) {
    return Run([&](auto done) {
      beast::http::async_read(stream_, buffer_, parser,
                              [done](error_code ec, size_t) { done(ec); });
    });
  }
  absl::Status ReadSome(Parser& parser) {
    return Run([&](auto done) {
      beast::http::async_read_some(stream_, buffer_, parser,
                                   [done](error_code ec, size_t) { done(ec); });
    });
  }
  void ExpireAfter(Duration timeout) {
    stream_.expires_after(std::chrono::duration_cast<net::steady_timer::duration>(timeout));
  }

 private:
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
      return absl::DeadlineExceededError(
          absl::StrCat("http://", address_, " did not answer in time"));
    }
    if (ec == net::error::connection_refused) {
      absl::Status refused = absl::UnavailableError(
          absl::StrCat("nobody listens at http://", address_,
                       ": is the coordinator running, and is this its address?"));
      refused.SetPayload(kNobodyListens, absl::Cord("1"));
      return refused;
    }
    if (ec == beast::http::error::body_limit) {
      return absl::ResourceExhaustedError(
          absl::StrCat("http://", address_, ": the answer is larger than 16 MiB"));
    }
    return absl::UnavailableError(absl::StrCat("http://", address_, ": ", ec.message()));
  }

  const std::string address_;
  net::io_context io_;
  beast::tcp_stream stream_;
  beast::flat_buffer buffer_;
};

WireRequest MakeRequest(beast::http::verb method, const Url& url) {
  WireRequest request(method, url.target, 11);
  request.set(beast::http::field::host, url.address);
  request.set(beast::http::field::user_agent, "muster");
  request.keep_alive(false);
  return request;
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

absl::StatusOr<Response> Ask(const Url& url, const WireRequest& request,
                             const ClientOptions& options) {
  RoundTrip round_trip(url.address);
  MUSTER_RETURN_IF_ERROR(round_trip.Connect(options.credentials, options.timeout));
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

absl::StatusOr<Response> Post(const std::string& url, const std::string& json,
                              const ClientOptions& options) {
  MUSTER_ASSIGN_OR_RETURN(const Url parsed, ParseUrl(url));
  WireRequest request = MakeRequest(beast::http::verb::post, parsed);
  request.set(beast::http::field::content_type, "application/json");
  request.body() = json;
  request.prepare_payload();
  return Ask(parsed, request, options);
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
  RoundTrip round_trip(parsed.address);
  MUSTER_RETURN_IF_ERROR(round_trip.Connect(options.credentials, options.connect_timeout));
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
