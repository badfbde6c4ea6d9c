#include "agent/runtime/host_identity.h"

#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "lib/base/status.h"
#include "lib/identity/identity_folder.h"
#include "lib/identity/keys.h"
#include "lib/log/log.h"

namespace muster::agent {
namespace {

constexpr Duration kLongestPause = std::chrono::minutes(5);
constexpr Duration kOneAttempt = std::chrono::seconds(15);
constexpr Duration kLookEvery = std::chrono::minutes(1);  // as the clock of the wall may be set

std::string TokenFileIn(const std::string& folder) { return folder + "/join.token"; }
std::string KeyFileIn(const std::string& folder) { return folder + "/join.key"; }

absl::StatusOr<JoinToken> TokenIn(const std::string& file) {
  MUSTER_ASSIGN_OR_RETURN(const std::string text, ReadSecret(file));
  const absl::StatusOr<JoinToken> token =
      ParseJoinToken(std::string(absl::StripAsciiWhitespace(text)));
  if (!token.ok()) return Prefix(file, token.status());
  return token;
}

// What is in the file; nothing: there is none.
absl::StatusOr<std::optional<std::string>> SecretIn(const std::string& file) {
  absl::StatusOr<std::string> text = ReadSecret(file);
  if (absl::IsNotFound(text.status())) return std::nullopt;
  MUSTER_RETURN_IF_ERROR(text.status());
  return *std::move(text);
}

absl::StatusOr<JoinToken> ReadToken(const HostIdentityOptions& options) {
  if (!options.token_file.empty()) {
    absl::StatusOr<JoinToken> given = TokenIn(options.token_file);
    if (given.ok()) return given;
    // Whoever takes the file away once the host has joined need not change the command.
    if (absl::IsNotFound(given.status()))
      if (absl::StatusOr<JoinToken> kept = TokenIn(TokenFileIn(options.folder)); kept.ok())
        return kept;
    return Prefix("--join-token-file", given.status());
  }
  absl::StatusOr<JoinToken> kept = TokenIn(TokenFileIn(options.folder));
  if (!absl::IsNotFound(kept.status())) return kept;
  return absl::InvalidArgumentError(
      "--join-token-file: name the file with the token of this host; an admin makes one with "
      "`muster token host HOST`");
}

bool IsOf(const Identity& identity, const std::string& host) {
  const HostPeer* const name = std::get_if<HostPeer>(&identity.name.who);
  return name != nullptr && name->host == host;
}

// Asking again could bring another answer.
bool MayPass(const absl::Status& failure) {
  return absl::IsUnavailable(failure) || absl::IsAborted(failure);
}

}  // namespace

Duration PauseAfter(Duration first, int failures) {
  Duration pause = first;
  for (int i = 1; i < failures && pause < kLongestPause; ++i) pause *= 2;
  return std::min(pause, kLongestPause);
}

absl::StatusOr<std::unique_ptr<HostIdentity>> HostIdentity::Make(HostIdentityOptions options,
                                                                 const Surroundings& surroundings) {
  MUSTER_ASSIGN_OR_RETURN(const JoinToken token, ReadToken(options));
  MUSTER_RETURN_IF_ERROR(Prefix("--identity", MakePrivateFolder(options.folder)));
  const std::string kept_in = TokenFileIn(options.folder), text = TextOf(token) + "\n";
  MUSTER_ASSIGN_OR_RETURN(const std::optional<std::string> kept, SecretIn(kept_in));
  const absl::StatusOr<Identity> there = ReadIdentity(options.folder);
  const absl::Time now = absl::Now();
  const bool is_of_use = kept == text && there.ok() && IsOf(*there, options.host) &&
                         now >= there->begins && now < there->ends;
  std::unique_ptr<HostIdentity> made(new HostIdentity(std::move(options), token));
  const HostIdentityOptions& given = made->options_;
  const Time begun = std::chrono::steady_clock::now();
  for (int failures = 1; !is_of_use; ++failures) {
    const absl::Status joined = made->Join({});
    if (joined.ok()) break;
    if (!MayPass(joined)) return Prefix("--join", joined);
    const Duration left = given.patience - (std::chrono::steady_clock::now() - begun);
    if (left <= Duration{})
      return absl::UnavailableError(
          absl::StrCat("--join: this host could not join for so long that it gives up (",
                       joined.message(), "); the same command tries again"));
    surroundings.say(
        absl::StrCat("cannot join at ", given.join, ": ", joined.message(), "; trying again"));
    const Duration pause = std::min<Duration>(
        {PauseAfter(given.first_pause, failures), std::chrono::seconds(30), left});
    if (!surroundings.wait(pause)) return absl::CancelledError("stopped before it had joined");
  }
  if (kept != text) MUSTER_RETURN_IF_ERROR(Prefix("--identity", WriteSecret(kept_in, text)));
  unlink(KeyFileIn(given.folder).c_str());  // of one that was ended before it could
  HostIdentity* const self = made.get();
  made->renewal_ = std::make_unique<Renewal>(
      [self](const std::stop_token& stop) { return self->Look(stop); }, Duration{});
  return made;
}

// The one that it has, so that the coordinator knows it again; also where an answer was lost.
absl::StatusOr<std::string> HostIdentity::Key() const {
  const absl::StatusOr<Identity> there = ReadIdentity(options_.folder);
  if (there.ok() && IsOf(*there, options_.host)) return there->key_pem;
  // With another key the coordinator would refuse it, and that would be told in place of the cause.
  if (absl::IsPermissionDenied(there.status()) || absl::IsUnavailable(there.status()))
    return there.status();
  const std::string file = KeyFileIn(options_.folder);
  MUSTER_ASSIGN_OR_RETURN(const std::optional<std::string> kept, SecretIn(file));
  if (kept && PublicKeyOf(*kept).ok()) return *kept;
  MUSTER_ASSIGN_OR_RETURN(std::string key, MakeKey());
  MUSTER_RETURN_IF_ERROR(WriteSecret(file, key));
  return key;
}

absl::Status HostIdentity::Join(const std::stop_token& stop) const {
  MUSTER_ASSIGN_OR_RETURN(const std::string key, Key());
  const absl::StatusOr<Identity> identity = JoinCluster(
      {.address = options_.join, .token = token_, .host = options_.host, .node = options_.node},
      key, std::chrono::steady_clock::now() + kOneAttempt, stop);
  MUSTER_RETURN_IF_ERROR(identity.status());
  MUSTER_RETURN_IF_ERROR(WriteIdentity(options_.folder, *identity));
  unlink(KeyFileIn(options_.folder).c_str());  // it stands with the certificate now
  return absl::OkStatus();
}

void HostIdentity::JoinSoon() {
  if (!is_refused_.exchange(true)) renewal_->LookSoon();
}

void HostIdentity::Trust(const std::string& hash) {
  {
    const MutexLock lock(mutex_);
    if (std::exchange(trust_, hash) == hash) return;
  }
  renewal_->LookSoon();
}

bool HostIdentity::TrustsOthers(const Identity& identity) {
  const MutexLock lock(mutex_);
  return !trust_.empty() && HashOfTrust(identity.authority_pem) != trust_;
}

// Sessions that are open go on, so what fails here is only told.
Duration HostIdentity::Look(const std::stop_token& stop) {
  // Whoever was refused with the new one, too, is heard from now on.
  if (std::exchange(has_joined_anew_, false)) is_refused_ = false;
  const absl::StatusOr<Identity> identity = ReadIdentity(options_.folder);
  const absl::Time now = absl::Now();
  if (!is_refused_ && identity.ok() && now >= identity->begins && now < RenewAt(*identity) &&
      !TrustsOthers(*identity))
    return kLookEvery;
  const absl::Status joined = Join(stop);
  if (joined.ok() || absl::IsCancelled(joined)) {
    failures_ = 0;
    has_joined_anew_ = joined.ok();
    return kLookEvery;
  }
  LogWarning("the certificate of host %s is not renewed: %s%s", options_.host, joined.message(),
             identity.ok() ? absl::StrCat("; it is of use until ", absl::FormatTime(identity->ends))
                           : std::string());
  return PauseAfter(options_.first_pause, ++failures_);
}

}  // namespace muster::agent
