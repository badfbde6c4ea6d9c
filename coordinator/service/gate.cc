#include "coordinator/service/gate.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "coordinator/service/token_text.h"
#include "lib/base/status.h"
#include "lib/domain/history.h"
#include "lib/log/log.h"

namespace muster::coordinator {
namespace {

// Whoever has more addresses than these is not held up by counting.
constexpr size_t kMostAddresses = 4096;
constexpr Duration kMinute = std::chrono::minutes(1);

std::optional<JobRights> RightsOfJob(const KnownCluster& known, const std::string& id) {
  const absl::StatusOr<KnownJobPtr> job = FindJob(*known.jobs, id);
  if (!job.ok()) return std::nullopt;
  return RightsOf((*job)->status.job);
}

// A job that is not there is told as that by whoever looks for it.
absl::Status CheckCall(const KnownCluster& known, const Caller& caller, Need need,
                       const std::string& object) {
  const bool is_of_job = (need == Need::kSeeJobs || need == Need::kChangeJob) && !object.empty();
  std::optional<JobRights> job = is_of_job ? RightsOfJob(known, object) : std::nullopt;
  if (need == Need::kSeeNamespace) job = JobRights{.name_space = object};
  return CheckRights(caller, need, object, job ? &*job : nullptr);
}

absl::StatusOr<Caller> GrantOf(const Token& token) {
  if (!HasExpired(token, absl::ToUnixMillis(absl::Now()))) return token.grant;
  return absl::UnauthenticatedError(absl::StrCat(
      "the token ", TokenId(token), " of ", token.grant.user, " expired at ",
      UtcTime(token.expires_unix_ms), "; an admin makes another (`muster token make`)"));
}

}  // namespace

bool WrongTokens::Note(const std::string& address, Time now) {
  if (minutes_.size() >= kMostAddresses && !minutes_.contains(address)) {
    std::erase_if(minutes_, [&](const auto& of) { return now - of.second.begun >= kMinute; });
    if (minutes_.size() >= kMostAddresses) minutes_.clear();
  }
  Minute& minute = minutes_.try_emplace(address, Minute{now}).first->second;
  if (now - minute.begun >= kMinute) minute = {now};
  if (minute.wrong >= kMostWrongTokens) return false;
  ++minute.wrong;
  return true;
}

bool RefusedChanges::Note(const Caller& caller, Time now) {
  Minute& minute = minutes_.try_emplace(caller.user, Minute{now, caller}).first->second;
  return ++minute.refused <= kMostRefusedLines;
}

std::vector<RefusedChanges::Uncounted> RefusedChanges::Release(Time now) {
  std::vector<Uncounted> uncounted;
  std::erase_if(minutes_, [&](const auto& of) {
    const Minute& minute = of.second;
    if (now - minute.begun < kMinute) return false;
    if (minute.refused > kMostRefusedLines)
      uncounted.push_back({minute.caller, minute.refused - kMostRefusedLines});
    return true;
  });
  return uncounted;
}

std::string TokenIdIn(const CallOrigin& origin) {
  return TokenId({.hash = HashOfToken(BearerIn(origin.authorization).value_or(""))});
}

// Nobody but users calls this. A certificate that is of no token proves the name alone, as one of
// an authority from outside does: then the call shows a token of that user besides.
absl::StatusOr<Caller> Gate::WhoIs(const KnownCluster& known, const CallOrigin& origin) {
  if (!origin.certificate) return WhoHasToken(known, origin);
  const PeerName& name = origin.certificate->name;
  const UserPeer* const proven = std::get_if<UserPeer>(&name.who);
  if (proven == nullptr)
    return absl::PermissionDeniedError(
        absl::StrCat(ToUri(name), " is no user, and nobody else calls this: `muster certs user` ",
                     "makes the certificate of one"));
  if (origin.authorization.empty()) {
    const std::string& id = origin.certificate->token_id;
    for (const Token& token : *known.tokens)
      if (!id.empty() && TokenId(token) == id && token.grant.user == proven->user)
        return GrantOf(token);
    return absl::UnauthenticatedError(
        id.empty() ? absl::StrCat("the certificate of ", proven->user, " was not made with a ",
                                  "token, so this needs one besides, as `authorization: Bearer ",
                                  "TOKEN` in the metadata")
                   : absl::StrCat("the token ", id, " with which this certificate of ",
                                  proven->user, " was made is of no use any more; `muster certs ",
                                  "user` makes another with a token that is"));
  }
  MUSTER_ASSIGN_OR_RETURN(Caller caller, WhoHasToken(known, origin));
  if (caller.user == proven->user) return caller;
  return absl::PermissionDeniedError(absl::StrCat("the certificate is that of ", proven->user,
                                                  ", and the token that of ", caller.user,
                                                  ": show both of one user"));
}

// A right token always passes, so that a stranger behind the same address keeps nobody out.
absl::StatusOr<Caller> Gate::WhoHasToken(const KnownCluster& known, const CallOrigin& origin) {
  const std::optional<std::string> text = BearerIn(origin.authorization);
  if (text && UserInToken(*text)) {
    const std::string hash = HashOfToken(*text);
    for (const Token& token : *known.tokens)
      if (SameHash(token.hash, hash)) return GrantOf(token);
  }
  constexpr char kNext[] =
      "; an admin makes one (`muster token make`), and `muster` finds it in the file that "
      "MUSTER_TOKEN_FILE names";
  if (origin.authorization.empty())
    return absl::UnauthenticatedError(
        absl::StrCat("this needs a token, as `Authorization: Bearer TOKEN`", kNext));
  strangers_.Warn("a wrong token came from %s", origin.address);
  const MutexLock lock(mutex_);
  if (wrong_.Note(origin.address, clock_.Now()))
    return absl::UnauthenticatedError(absl::StrCat("the token is not known here", kNext));
  return absl::ResourceExhaustedError(
      absl::StrCat("more than ", kMostWrongTokens, " wrong tokens came from ", origin.address,
                   " within a minute; wait for a minute, and check the token"));
}

// Whoever may do little could else push out of the audit log what others did.
bool Gate::HasLine(const Caller& caller, const absl::Status& verdict) {
  std::vector<RefusedChanges::Uncounted> uncounted;
  bool has_line = true;
  {
    const Time now = clock_.Now();
    const MutexLock lock(mutex_);
    uncounted = refused_.Release(now);
    if (!verdict.ok()) has_line = refused_.Note(caller, now);
  }
  for (const auto& [of, changes] : uncounted) {
    const absl::Status written = audit_.Write(AuditLine({.unix_ms = absl::ToUnixMillis(absl::Now()),
                                                         .user = of.user,
                                                         .role = std::string(RoleName(of.role)),
                                                         .outcome = "refused",
                                                         .more = changes}));
    if (!written.ok())
      LogWarning("%d changes that %s was refused are not in the audit log: %s", changes, of.user,
                 written.message());
  }
  return has_line;
}

absl::Status Gate::Note(const MethodRights& rights, const CallOrigin& origin, const Caller& caller,
                        const std::string& object, const absl::Status& verdict) {
  if (!rights.changes || !HasLine(caller, verdict)) return verdict;
  const absl::Status written =
      audit_.Write(AuditLine({.unix_ms = absl::ToUnixMillis(absl::Now()),
                              .user = caller.user,
                              .role = std::string(RoleName(caller.role)),
                              .address = origin.address,
                              .method = origin.method,
                              .object = object,
                              .outcome = verdict.ok() ? "allowed" : "refused"}));
  if (written.ok() || !verdict.ok()) return verdict;
  return absl::UnavailableError(absl::StrCat("nothing is changed, as the audit log cannot be ",
                                             "written (", written.message(),
                                             "); mend that and ask again"));
}

absl::StatusOr<Caller> Gate::Look(const MethodRights& rights, const CallOrigin& origin,
                                  const std::string& object) {
  if (rights.need == Need::kNothing) return Anybody();
  MUSTER_ASSIGN_OR_RETURN(const KnownCluster known, known_());
  MUSTER_ASSIGN_OR_RETURN(Caller caller, WhoIs(known, origin));
  const absl::Status verdict = CheckCall(known, caller, rights.need, object);
  if (!verdict.ok()) return Note(rights, origin, caller, object, verdict);
  return caller;
}

absl::StatusOr<Caller> Gate::Enter(const MethodRights& rights, const CallOrigin& origin,
                                   const std::string& object) {
  MUSTER_ASSIGN_OR_RETURN(Caller caller, Look(rights, origin, object));
  MUSTER_RETURN_IF_ERROR(Note(rights, origin, caller, object, absl::OkStatus()));
  return caller;
}

absl::StatusOr<Caller> Gate::EnterToSubmit(const CallOrigin& origin, const std::string& id,
                                           const JobSpec& spec) {
  MUSTER_ASSIGN_OR_RETURN(const KnownCluster known, known_());
  MUSTER_ASSIGN_OR_RETURN(Caller caller, WhoIs(known, origin));
  const std::optional<JobRights> held = RightsOfJob(known, id);
  const MethodRights& rights = *RightsOfRoute("POST", "/v1/jobs");
  MUSTER_RETURN_IF_ERROR(
      Note(rights, origin, caller, id,
           CheckSubmission(caller, id, {std::string(NamespaceOf(spec)), caller.user},
                           held ? &*held : nullptr)));
  return caller;
}

std::function<bool()> Gate::StaysIn(const CallOrigin& origin) const {
  const bool is_certified = origin.certificate && origin.authorization.empty();
  const std::string id = is_certified ? origin.certificate->token_id : TokenIdIn(origin);
  return [this, id] {
    const absl::StatusOr<KnownCluster> known = known_();
    if (!known.ok()) return true;  // we are stopping, and all calls end
    const int64_t now = absl::ToUnixMillis(absl::Now());
    return std::any_of(known->tokens->begin(), known->tokens->end(), [&](const Token& token) {
      return TokenId(token) == id && !HasExpired(token, now);
    });
  };
}

}  // namespace muster::coordinator
