#include "lib/base/name_lookup.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/mutex.h"
#include "lib/base/printable.h"

namespace muster {
namespace {

constexpr size_t kMostLookups = 16;  // at a time

std::optional<std::string> TextOf(const sockaddr& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const bool is_v6 = address.sa_family == AF_INET6;
  if (!is_v6 && address.sa_family != AF_INET) return std::nullopt;
  const void* bytes =
      is_v6 ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in6*>(&address)->sin6_addr)
            : static_cast<const void*>(&reinterpret_cast<const sockaddr_in*>(&address)->sin_addr);
  if (inet_ntop(address.sa_family, bytes, text.data(), text.size()) == nullptr) return std::nullopt;
  return is_v6 ? absl::StrCat("[", text.data(), "]") : std::string(text.data());
}

absl::Status NotFound(const std::string& host, absl::string_view why) {
  return absl::UnavailableError(
      absl::StrCat("the name ", Cut(Printable(host)), " cannot be looked up: ", why));
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ResolveBySystem(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_ADDRCONFIG;
  addrinfo* found = nullptr;
  const int failed = getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (failed != 0)
    return NotFound(host, failed == EAI_SYSTEM ? std::strerror(errno) : gai_strerror(failed));
  std::vector<std::string> addresses;
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next)
    if (auto text = TextOf(*at->ai_addr)) addresses.push_back(*std::move(text));
  freeaddrinfo(found);
  // Servers of names rotate their answers, and who tries one after the other must not meet the
  // same one each time. A bracket comes after all digits, so IPv4 is first.
  std::sort(addresses.begin(), addresses.end());
  addresses.erase(std::unique(addresses.begin(), addresses.end()), addresses.end());
  if (addresses.empty()) return NotFound(host, "it has no address");
  return addresses;
}

struct NameLookup::State {
  explicit State(Resolver resolver) : resolve(std::move(resolver)) {}
  const Resolver resolve;
  Mutex mutex;
  std::map<std::string, OnAnswer> waiting ABSL_GUARDED_BY(mutex);  // by name; a thread for each
};

NameLookup::NameLookup(Resolver resolve) : state_(std::make_shared<State>(std::move(resolve))) {}

void NameLookup::Ask(const std::string& host, OnAnswer on_answer) {
  const auto answer = [state = state_,
                       host](const absl::StatusOr<std::vector<std::string>>& found) {
    OnAnswer waits;
    {
      const MutexLock lock(state->mutex);
      const auto at = state->waiting.find(host);
      waits = std::move(at->second);
      state->waiting.erase(at);
    }
    waits(found);
  };
  bool is_full = false;
  {
    const MutexLock lock(state_->mutex);
    is_full = state_->waiting.size() >= kMostLookups && !state_->waiting.contains(host);
    if (!is_full && !state_->waiting.insert_or_assign(host, on_answer).second) return;
  }
  if (is_full) return on_answer(NotFound(host, "too many other lookups have not ended"));
  try {
    std::thread([state = state_, host, answer] { answer(state->resolve(host)); }).detach();
  } catch (const std::system_error& error) {
    answer(NotFound(host, error.what()));
  }
}

}  // namespace muster
