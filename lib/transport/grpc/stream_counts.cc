#include "lib/transport/grpc/stream_counts.h"

#include <grpc/grpc.h>
#include <grpc/support/alloc.h>

#include <memory>
#include <string_view>

#include "absl/strings/numbers.h"
#include "absl/strings/str_replace.h"
#include "lib/transport/grpc/settings.h"

namespace muster {
namespace {

// gRPC answers in JSON, of which we need single members. Texts in it are addresses, without quotes.
std::string Answer(char* json) {
  const std::unique_ptr<char, void (*)(void*)> text(json, gpr_free);
  return text ? text.get() : "";
}

// The text behind `"member":"` from `at` on, which moves behind it; nothing: there is no more.
std::optional<std::string> Next(const std::string& json, std::string_view member, size_t& at) {
  const std::string head = "\"" + std::string(member) + "\":\"";
  const size_t begin = json.find(head, at);
  if (begin == std::string::npos) return std::nullopt;
  const size_t end = json.find('"', begin + head.size());
  if (end == std::string::npos) return std::nullopt;
  at = end + 1;
  return absl::StrReplaceAll(json.substr(begin + head.size(), end - begin - head.size()),
                             {{"\\/", "/"}});
}

std::optional<int64_t> NextNumber(const std::string& json, std::string_view member, size_t& at) {
  const std::optional<std::string> text = Next(json, member, at);
  int64_t number = 0;
  if (!text || !absl::SimpleAtoi(*text, &number)) return std::nullopt;
  return number;
}

// Each page has its sockets in the order of their numbers.
std::optional<ConnectionNumber> FindAt(int64_t server, const std::string& peer,
                                       ConnectionNumber after) {
  constexpr std::string_view kKind = "chttp2 ";  // before the address
  while (true) {
    const std::string page = Answer(grpc_channelz_get_server_sockets(server, after + 1, 0));
    const ConnectionNumber before = after;
    size_t at = 0;
    while (const std::optional<std::string> name = Next(page, "name", at)) {
      const std::optional<int64_t> socket = NextNumber(page, "socketId", at);
      if (!socket) break;
      if (name->starts_with(kKind) && ReadablePeer(name->substr(kKind.size())) == peer)
        return socket;
      after = *socket;
    }
    if (after == before) return std::nullopt;
  }
}

}  // namespace

std::optional<ConnectionNumber> NumberOfConnection(const std::string& peer,
                                                   ConnectionNumber after) {
  const std::string servers = Answer(grpc_channelz_get_servers(0));
  size_t at = 0;
  while (const std::optional<int64_t> server = NextNumber(servers, "serverId", at))
    if (const std::optional<ConnectionNumber> found = FindAt(*server, peer, after)) return found;
  return std::nullopt;
}

// A number that is 0 is not said.
std::optional<StreamCounts> CountStreams(ConnectionNumber connection) {
  const std::string socket = Answer(grpc_channelz_get_socket(connection));
  if (socket.empty()) return std::nullopt;
  const auto count = [&](std::string_view member) {
    size_t at = 0;
    return NextNumber(socket, member, at).value_or(0);
  };
  return StreamCounts{.started = count("streamsStarted"),
                      .answered = count("streamsSucceeded"),
                      .left = count("streamsFailed")};
}

}  // namespace muster
