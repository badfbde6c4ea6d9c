#include "lib/join/join_client.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "lib/base/address_list.h"
#include "lib/base/descriptor.h"
#include "lib/base/loopback.h"
#include "lib/base/mutex.h"
#include "lib/base/name_lookup.h"
#include "lib/base/socket_address.h"
#include "lib/base/status.h"
#include "lib/identity/clocks.h"
#include "lib/identity/keys.h"
#include "lib/join/join_wire.h"
#include "lib/join/psk_channel.h"
#include "lib/wire/join_codec.h"

namespace muster {
namespace {

constexpr Duration kLookForStop = std::chrono::milliseconds(200);

Time Now() { return std::chrono::steady_clock::now(); }

// Until the socket can be read (or written), in pieces, so that a stop is seen.
absl::Status Await(int socket_of, int16_t events, Time deadline, const std::stop_token& stop) {
  for (;;) {
    if (stop.stop_requested()) return absl::CancelledError("joining was stopped");
    const Time now = Now();
    if (now >= deadline) return absl::UnavailableError("no answer came in time");
    const auto piece =
        std::chrono::ceil<std::chrono::milliseconds>(std::min(kLookForStop, deadline - now));
    pollfd polled{socket_of, events, 0};
    const int ready = poll(&polled, 1, static_cast<int>(piece.count()));
    if (ready > 0) return absl::OkStatus();
    if (ready < 0 && errno != EINTR) return absl::UnavailableError(std::strerror(errno));
  }
}

// The system's call has no deadline, so it is left alone where it takes too long.
absl::StatusOr<std::vector<std::string>> LookUp(const std::string& name, Time deadline,
                                                const std::stop_token& stop) {
  struct Found {
    Mutex mutex;
    CondVar came;
    std::optional<absl::StatusOr<std::vector<std::string>>> answer ABSL_GUARDED_BY(mutex);
  };
  const auto found = std::make_shared<Found>();
  static NameLookup* const lookup = new NameLookup();
  lookup->Ask(name, [found](absl::StatusOr<std::vector<std::string>> answer) {
    const MutexLock lock(found->mutex);
    found->answer = std::move(answer);
    found->came.NotifyAll();
  });
  const MutexLock lock(found->mutex);
  while (!found->answer) {
    if (stop.stop_requested()) return absl::CancelledError("joining was stopped");
    if (Now() >= deadline)
      return absl::UnavailableError(absl::StrCat("the name ", name, " was not found in time"));
    found->came.WaitUntil(found->mutex, std::min(deadline, Now() + kLookForStop));
  }
  return *found->answer;
}

absl::StatusOr<Descriptor> ConnectTo(const HostPort& at, Time deadline,
                                     const std::stop_token& stop) {
  MUSTER_ASSIGN_OR_RETURN(const SocketAddress address, ToSocketAddress(at));
  Descriptor socket_of(
      socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket_of.is_open()) return absl::UnavailableError(std::strerror(errno));
  if (connect(socket_of.get(), reinterpret_cast<const sockaddr*>(&address.storage), address.size) ==
      0)
    return socket_of;
  if (errno != EINPROGRESS) return absl::UnavailableError(std::strerror(errno));
  MUSTER_RETURN_IF_ERROR(Await(socket_of.get(), POLLOUT, deadline, stop));
  int error = 0;
  socklen_t size = sizeof error;
  if (getsockopt(socket_of.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
  if (error != 0) return absl::UnavailableError(std::strerror(error));
  return socket_of;
}

absl::Status SendAll(int socket_of, std::string bytes, Time deadline, const std::stop_token& stop) {
  while (!bytes.empty()) {
    const ssize_t size = send(socket_of, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (size >= 0) {
      bytes.erase(0, static_cast<size_t>(size));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      MUSTER_RETURN_IF_ERROR(Await(socket_of, POLLOUT, deadline, stop));
    } else if (errno != EINTR) {
      return absl::UnavailableError(std::strerror(errno));
    }
  }
  return absl::OkStatus();
}

// The next bytes; empty: the other end has closed.
absl::StatusOr<std::string> ReceiveSome(int socket_of, Time deadline, const std::stop_token& stop) {
  std::array<char, 4096> piece{};
  for (;;) {
    const ssize_t size = recv(socket_of, piece.data(), piece.size(), 0);
    if (size >= 0) return std::string(piece.data(), static_cast<size_t>(size));
    if (errno == EAGAIN || errno == EWOULDBLOCK) {
      MUSTER_RETURN_IF_ERROR(Await(socket_of, POLLIN, deadline, stop));
    } else if (errno != EINTR) {
      return absl::UnavailableError(std::strerror(errno));
    }
  }
}

absl::Status DoesNotTakeIt(const JoinToken& token, absl::string_view why) {
  return absl::UnauthenticatedError(absl::StrCat(
      "who answers there does not take the token ",
      token.host.empty() ? std::string("of this run") : absl::StrCat("of host ", token.host),
      ": it is of another cluster, was replaced or revoked, or the port is not the join port; an ",
      "admin makes another with `muster token host` (", why, ")"));
}

absl::StatusOr<JoinAnswer> Converse(int socket_of, const JoinToken& token, const JoinHost& ask,
                                    Time deadline, const std::stop_token& stop) {
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<PskChannel> channel,
                          PskChannel::Connecting(JoinIdentityOf(token), JoinKeyOf(token.secret)));
  MUSTER_RETURN_IF_ERROR(SendAll(socket_of, channel->Give(), deadline, stop));
  bool asked = false;
  size_t taken = 0;
  std::string said;
  for (;;) {
    MUSTER_ASSIGN_OR_RETURN(const std::string bytes, ReceiveSome(socket_of, deadline, stop));
    if (bytes.empty()) {
      if (taken > 0 && !asked) return DoesNotTakeIt(token, "it broke off");
      return absl::UnavailableError("it closed the connection; too many hosts may be joining");
    }
    taken += bytes.size();
    if (taken > 2 * kMostJoinAnswerBytes)
      return absl::UnavailableError("what it answers is longer than it may be");
    const absl::Status heard = channel->Take(bytes);
    MUSTER_RETURN_IF_ERROR(SendAll(socket_of, channel->Give(), deadline, stop));
    if (!heard.ok()) return DoesNotTakeIt(token, heard.message());
    if (channel->is_open() && !std::exchange(asked, true)) {
      MUSTER_RETURN_IF_ERROR(channel->Send(WithLength(Encode(ask))));
      MUSTER_RETURN_IF_ERROR(SendAll(socket_of, channel->Give(), deadline, stop));
    }
    said += channel->Received();
    MUSTER_ASSIGN_OR_RETURN(const std::optional<std::string> message,
                            MessageIn(said, kMostJoinAnswerBytes));
    if (message) return DecodeJoinAnswer(*message);
    if (channel->has_ended())
      return absl::UnavailableError("it closed the connection without an answer");
  }
}

// A token that is not taken at one address may be at another; that is the better reason, though.
absl::Status WorseOf(const absl::Status& before, absl::Status now) {
  return absl::IsUnauthenticated(before) ? before : now;
}

absl::Status CheckJoined(const JoinOptions& options, const HostJoined& joined,
                         const Identity& identity, absl::Time now) {
  MUSTER_RETURN_IF_ERROR(
      CheckClocks(now, absl::FromUnixMillis(joined.now_unix_ms), "the coordinator"));
  const PeerName ours{joined.cluster, HostPeer{options.host}};
  if (identity.name != ours)
    return absl::DataLossError(absl::StrCat("the coordinator has signed the name ",
                                            ToUri(identity.name), ", and not ", ToUri(ours)));
  if (now < identity.begins || now >= identity.ends)
    return absl::FailedPreconditionError(
        absl::StrCat("the certificate is of use from ", absl::FormatTime(identity.begins), " to ",
                     absl::FormatTime(identity.ends), ", and by the clock here it is ",
                     absl::FormatTime(now), ": set the wrong clock"));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<JoinAnswer> AskToJoin(const JoinOptions& options, const JoinHost& ask, Time deadline,
                                     const std::stop_token& stop) {
  MUSTER_ASSIGN_OR_RETURN(const std::vector<std::string> addresses,
                          ParseAddressList(options.address));
  absl::Status failed = absl::UnavailableError("nobody was asked");
  if (stop.stop_requested()) return absl::CancelledError("joining was stopped");
  for (const std::string& entry : addresses) {
    MUSTER_ASSIGN_OR_RETURN(HostPort at, ParseHostPort(entry));
    std::vector<std::string> hosts = {at.host};
    if (const std::optional<std::string> name = NameIn(entry)) {
      absl::StatusOr<std::vector<std::string>> found = LookUp(*name, deadline, stop);
      if (absl::IsCancelled(found.status())) return found.status();
      if (!found.ok()) {
        failed = WorseOf(failed, absl::UnavailableError(found.status().message()));
        continue;
      }
      hosts = *std::move(found);
    }
    for (std::string host : hosts) {
      if (absl::StartsWith(host, "[")) host = host.substr(1, host.size() - 2);
      absl::StatusOr<Descriptor> socket_of = ConnectTo({host, at.port}, deadline, stop);
      absl::StatusOr<JoinAnswer> answer =
          socket_of.ok() ? Converse(socket_of->get(), options.token, ask, deadline, stop)
                         : absl::StatusOr<JoinAnswer>(socket_of.status());
      if (answer.ok() || absl::IsCancelled(answer.status())) return answer;
      failed = WorseOf(failed, Prefix(entry, answer.status()));
    }
  }
  return failed;
}

absl::StatusOr<Identity> JoinCluster(const JoinOptions& options, const std::string& key_pem,
                                     Time deadline, const std::stop_token& stop) {
  JoinHost ask{
      .host = options.host, .node = options.node, .now_unix_ms = absl::ToUnixMillis(absl::Now())};
  MUSTER_ASSIGN_OR_RETURN(ask.public_key, PublicKeyOf(key_pem));
  MUSTER_ASSIGN_OR_RETURN(const JoinAnswer answer, AskToJoin(options, ask, deadline, stop));
  if (const JoinRefused* refused = std::get_if<JoinRefused>(&answer))
    return refused->passes ? absl::AbortedError(refused->why)
                           : absl::PermissionDeniedError(refused->why);
  const HostJoined& joined = std::get<HostJoined>(answer);
  absl::StatusOr<Identity> identity =
      MakeIdentity(joined.authority_pem, joined.certificate_pem, key_pem);
  if (!identity.ok())
    return absl::DataLossError(absl::StrCat("what the coordinator has signed is of no use: ",
                                            identity.status().message()));
  MUSTER_RETURN_IF_ERROR(CheckJoined(options, joined, *identity, absl::Now()));
  return identity;
}

}  // namespace muster
