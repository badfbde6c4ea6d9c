#include "coordinator/service/joining.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "coordinator/runtime/once.h"
#include "lib/base/printable.h"
#include "lib/base/status.h"
#include "lib/identity/clocks.h"
#include "lib/identity/keys.h"
#include "lib/join/join_token.h"
#include "lib/log/log.h"

namespace muster::coordinator {
namespace {

constexpr size_t kMostWaiting = 256;

AdmittedHost InfoOf(const std::string& host, const HostRecord& record, std::string token = "") {
  return {host, record.name_space, record.certified, record.revoked, std::move(token)};
}

const HostRecord* Find(const KnownCluster& known, const std::string& host) {
  const auto it = known.host_records->find(host);
  return it == known.host_records->end() ? nullptr : &it->second;
}

JoinRefused TooMany() {
  return {"the coordinator has too much to do at this moment", /*passes=*/true};
}

// What stands against the question itself.
absl::Status Check(const std::string& of_key, const JoinHost& ask, absl::Time now) {
  if (!of_key.empty() && of_key != ask.host)
    return absl::PermissionDeniedError(
        absl::StrCat("the token is that of host ", of_key, ", and this host calls itself ",
                     ask.host, ": name it so (--host), or have a token made for this name"));
  MUSTER_RETURN_IF_ERROR(CheckPublicKey(ask.public_key));
  return CheckClocks(now, absl::FromUnixMillis(ask.now_unix_ms), absl::StrCat("host ", ask.host));
}

}  // namespace

bool HasOneNamespace(const KnownCluster& known) {
  std::set<std::string> names;
  for (const KnownJobPtr& job : *known.jobs)
    if (!Ended(job->status.job.phase)) names.insert(job->status.job.spec.queue.name_space);
  for (const auto& [host, record] : *known.host_records)
    if (!record.name_space.empty() && !record.revoked) names.insert(record.name_space);
  return names.size() <= 1;
}

// It was made for a job that is under way, whose namespace is then its own.
bool IsMadeForAJob(const KnownCluster& known, const std::string& host) {
  const auto at = HostOfLaunchNamed(host);
  return at && known.launches != nullptr &&
         std::any_of(known.launches->begin(), known.launches->end(),
                     [&](const Launch& launch) { return launch.name == at->launch; });
}

Joining::Joining(Driver& driver, std::string cluster, Sign sign, const std::string& run_secret)
    : driver_(driver),
      cluster_(std::move(cluster)),
      sign_(std::move(sign)),
      run_key_(run_secret.empty() ? "" : JoinKeyOf(run_secret)),
      signing_(kMostWaiting) {}

std::optional<std::string> Joining::KeyOf(const std::string& identity) const {
  const std::optional<std::string> host = HostInJoinIdentity(identity);
  if (!host) return std::nullopt;
  if (host->empty()) return run_key_.empty() ? std::nullopt : std::optional(run_key_);
  const absl::StatusOr<KnownCluster> known = driver_.KnownWithHosts();
  if (!known.ok()) return std::nullopt;
  const HostRecord* const record = Find(*known, *host);
  if (record == nullptr || record->revoked || record->secret.empty()) return std::nullopt;
  return absl::HexStringToBytes(record->secret);
}

// What was decided is published once it is written, which is before `done`.
void Joining::Change(Input input, std::function<void(const absl::StatusOr<KnownCluster>&)> done) {
  driver_.Change([input = std::move(input)](
                     const KnownJobs&) -> absl::StatusOr<std::optional<Input>> { return input; },
                 [this, done = std::move(done)](const absl::StatusOr<KnownJobs>& jobs) {
                   if (!jobs.ok()) return done(jobs.status());
                   done(driver_.KnownWithHosts());
                 });
}

void Joining::Decide(const std::string& identity, const JoinHost& ask,
                     std::function<void(JoinAnswer)> answer) {
  const std::optional<std::string> of_key = HostInJoinIdentity(identity);
  const absl::Status right =
      of_key ? Check(*of_key, ask, absl::Now()) : absl::InvalidArgumentError("no such key");
  if (!right.ok()) {
    LogWarning("host %s did not join: %s", ask.host, right.message());
    return answer(JoinRefused{std::string(right.message())});
  }
  const HostJoins joins{ask.host, HashOfKey(ask.public_key), of_key->empty()};
  std::string bound;  // to which key it was so far
  if (const absl::StatusOr<KnownCluster> known = driver_.KnownWithHosts(); known.ok())
    if (const HostRecord* const record = Find(*known, ask.host); record != nullptr)
      bound = record->key_hash;
  Change(joins, [this, joins, ask, bound = std::move(bound),
                 answer = std::move(answer)](const absl::StatusOr<KnownCluster>& known) {
    const HostRecord* const record = known.ok() ? Find(*known, ask.host) : nullptr;
    if (record != nullptr && !bound.empty() && bound != record->key_hash &&
        record->key_hash == joins.key_hash)
      LogWarning(
          "host %s is bound to another key from now on: nobody has spoken for it with the "
          "one before for long enough",
          ask.host);
    Answer(joins, ask, known, answer);
  });
}

// On the driver's thread, so what is known is what the journal has: whoever was revoked before is
// refused, and whoever is revoked later was signed before.
void Joining::Answer(const HostJoins& joins, const JoinHost& ask,
                     const absl::StatusOr<KnownCluster>& known,
                     const std::function<void(JoinAnswer)>& answer) {
  if (!known.ok())
    return answer(JoinRefused{std::string(known.status().message()), /*passes=*/true});
  const HostRecord* const record = Find(*known, joins.host);
  const std::string why =
      WhyNotJoined(*known->host_records, joins, /*may_bind_anew=*/false,
                   IsMadeForAJob(*known, joins.host) || HasOneNamespace(*known));
  if (!why.empty() || record == nullptr || record->key_hash != joins.key_hash) {
    LogWarning("host %s did not join: %s", joins.host, why);
    return answer(JoinRefused{why.empty() ? TooMany().why : why,
                              why.empty() || IsRefusedForNow(*known->host_records, joins)});
  }
  const bool taken = signing_.Run([this, ask, answer](const std::stop_token&) {
    const absl::StatusOr<SignedCertificate> made =
        sign_({.name = {cluster_, HostPeer{ask.host}}, .public_key = ask.public_key});
    if (!made.ok()) {
      LogWarning("host %s did not join: %s", ask.host, made.status().message());
      return answer(JoinRefused{std::string(made.status().message())});
    }
    LogInfo("host %s has a new certificate", ask.host);
    answer(
        HostJoined{made->cluster, made->certificate_pem, made->authority_pem, made->now_unix_ms});
  });
  if (!taken) answer(TooMany());
}

void Joining::Admit(const std::string& host, const std::string& name_space, bool certified,
                    Reply<AdmittedHost> reply) {
  const absl::StatusOr<KnownCluster> known = driver_.KnownWithHosts();
  if (!known.ok()) return reply(known.status());
  HostRecord record{.name_space = name_space, .certified = certified};
  if (const std::string why = WhyNotAdmitted(*known->host_records, host, record); !why.empty())
    return reply(absl::InvalidArgumentError(why));
  std::string token;
  if (!certified) {
    const JoinToken made = MakeJoinToken(host);
    record.secret = absl::BytesToHexString(JoinKeyOf(made.secret));
    token = TextOf(made);
  }
  Change(AdmitHost{host, record},
         [host, record, token = std::move(token),
          reply = std::move(reply)](const absl::StatusOr<KnownCluster>& now) {
           if (!now.ok()) return reply(now.status());
           const HostRecord* const kept = Find(*now, host);
           if (kept != nullptr && kept->secret == record.secret)
             return reply(InfoOf(host, *kept, token));
           reply(absl::AbortedError(absl::StrCat("another token was made for host ", host,
                                                 " at the same time, or too many hosts ",
                                                 "are known; ask again")));
         });
}

void Joining::Revoke(const std::string& host, Reply<AdmittedHost> reply) {
  const absl::StatusOr<KnownCluster> known = driver_.KnownWithHosts();
  if (!known.ok()) return reply(known.status());
  bool is_known = Find(*known, host) != nullptr;
  for (const HostStatus& status : *known->hosts) is_known |= status.name == host;
  if (!is_known)
    return reply(absl::NotFoundError(absl::StrCat("there is no host ", Cut(Printable(host)),
                                                  " that joined or may join; `muster hosts` shows ",
                                                  "those that are there")));
  Change(RevokeHost{host},
         [host, reply = std::move(reply)](const absl::StatusOr<KnownCluster>& now) {
           if (!now.ok()) return reply(now.status());
           const HostRecord* const kept = Find(*now, host);
           if (kept != nullptr && kept->revoked) return reply(InfoOf(host, *kept));
           reply(absl::AbortedError(
               absl::StrCat("a token was made for host ", host, " at the same time; ask again")));
         });
}

void Joining::SignUser(const std::string& user, const std::string& token_id,
                       const std::string& public_key, Reply<SignedCertificate> reply) {
  if (user.empty())
    return reply(absl::FailedPreconditionError(
        "this coordinator asks nobody who he is, and so signs nobody's name; start it with "
        "--tokens, as that of muster up is"));
  if (const absl::Status right = CheckPublicKey(public_key); !right.ok()) return reply(right);
  const auto answer = Once(std::move(reply));  // also where what waits is dropped
  Leaf leaf{.name = {cluster_, UserPeer{user}}, .public_key = public_key};
  leaf.token = token_id;
  signing_.Run(
      [this, leaf = std::move(leaf), answer](const std::stop_token&) { answer(sign_(leaf)); });
}

}  // namespace muster::coordinator
