// Who may ask what of a coordinator (docs/identity.md sections 5 and 6): roles, and one table of
// every route of REST and every method of gRPC. Plain values and pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "coordinator/state/quotas.h"
#include "lib/domain/job.h"

namespace muster::coordinator {

// Each may what those before it may.
enum class UserRole { kViewer, kSubmitter, kOperator, kAdmin };
inline constexpr UserRole kRoles[] = {UserRole::kViewer, UserRole::kSubmitter, UserRole::kOperator,
                                      UserRole::kAdmin};
std::string_view RoleName(UserRole role);  // "viewer" …
std::optional<UserRole> RoleNamed(std::string_view name);

inline constexpr std::string_view kAllNamespaces = "*";

// Of users: 1 to 63 of a-z A-Z 0-9 . _ -, as a part of a name in a certificate.
bool IsNamePart(std::string_view text);

// Whose call it is, and what that user may.
struct Caller {
  std::string user;  // empty: nobody is asked who he is
  UserRole role = UserRole::kViewer;
  std::string scope;  // a namespace, or kAllNamespaces
  bool operator==(const Caller&) const = default;
};
// Where nobody is asked who he is, everybody may do everything.
inline Caller Anybody() { return {"", UserRole::kAdmin, std::string(kAllNamespaces)}; }

// Why there is no such grant, for people; empty: there is. An admin is one of all namespaces.
std::string WhyNoGrant(const Caller& grant);

// What is kept of a token: who has the secret that belongs to `hash` calls as `grant`.
struct Token {
  std::string hash;  // SHA-256 of the whole token, 64 hexadecimal digits
  Caller grant;
  int64_t made_unix_ms = 0;
  int64_t expires_unix_ms = 0;  // 0: never; it is of use until it is revoked
  bool operator==(const Token&) const = default;
};
inline constexpr size_t kMostTokens = 1000;
// By which people name it; it tells nothing of the secret.
std::string TokenId(const Token& token);
bool HasExpired(const Token& token, int64_t now_unix_ms);
// One whose token does not expire.
bool HasAdmin(const std::vector<Token>& tokens);
// Why it is not added to these, for people; empty: it may be.
std::string WhyNotMade(const std::vector<Token>& tokens, const Token& token);
// Why the one of that id is not taken away, for people; empty: it may be, or is not there.
std::string WhyNotRevoked(const std::vector<Token>& tokens, const std::string& id);

enum class Need {
  kNothing,       // anybody, without a token
  kSeeJobs,       // a viewer; of one job: of its namespace
  kSubmit,        // a submitter of the job's namespace
  kChangeJob,     // a submitter whose job it is, or an operator; of its namespace
  kSeeNamespace,  // a viewer of the namespace that it names
  kSeeHosts,      // an operator of any namespace
  kRule,          // an admin
};

UserRole LeastRole(Need need);  // that has any right of this kind

struct MethodRights {
  std::string_view verb;     // of REST: "GET"; empty: it has no route
  std::string_view pattern;  // "/v1/jobs/{id}"
  std::string_view method;   // of gRPC: "muster.v1.Jobs.Get"; empty: it has none
  Need need = Need::kRule;
  bool changes = true;  // it is written to the audit log
};

inline constexpr MethodRights kMethods[] = {
    {"POST", "/v1/jobs", "muster.v1.Jobs.Submit", Need::kSubmit, true},
    // It reads any folder of the coordinator's machine, and the file says which namespace.
    {"POST", "/v1/adoptions", "muster.v1.Jobs.Adopt", Need::kRule, true},
    {"GET", "/v1/adoptions/{adoption}", "muster.v1.Jobs.FindAdoption", Need::kRule, false},
    {"GET", "/v1/jobs", "muster.v1.Jobs.List", Need::kSeeJobs, false},
    {"GET", "/v1/jobs/{id}", "muster.v1.Jobs.Get", Need::kSeeJobs, false},
    {"DELETE", "/v1/jobs/{id}", "muster.v1.Jobs.Delete", Need::kChangeJob, true},
    {"POST", "/v1/jobs/{id}:cancel", "muster.v1.Jobs.Cancel", Need::kChangeJob, true},
    {"POST", "/v1/jobs/{id}:stop", "muster.v1.Jobs.Stop", Need::kChangeJob, true},
    {"POST", "/v1/jobs/{id}:scale", "muster.v1.Jobs.Scale", Need::kChangeJob, true},
    {"GET", "/v1/jobs/{id}/events", "muster.v1.Jobs.Watch", Need::kSeeJobs, false},
    {"GET", "/v1/jobs/{id}/fingerprints", "muster.v1.Jobs.Fingerprints", Need::kSeeJobs, false},
    {"GET", "/v1/jobs/{id}/audit", "muster.v1.Jobs.Audit", Need::kSeeJobs, false},
    {"GET", "/v1/jobs/{id}/history", "", Need::kSeeJobs, false},
    {"GET", "/v1/jobs/{id}/ledger", "", Need::kSeeJobs, false},
    {"GET", "/v1/jobs/{id}/logs", "muster.v1.Jobs.Logs", Need::kSeeJobs, false},
    {"GET", "/v1/jobs/{id}/logs:follow", "muster.v1.Jobs.FollowLogs", Need::kSeeJobs, false},
    {"GET", "/v1/jobs/{id}/digest", "muster.v1.Jobs.Digest", Need::kSeeJobs, false},
    {"GET", "/v1/jobs/{id}/checkpoint", "", Need::kSeeJobs, false},
    {"GET", "/v1/jobs/{id}/checkpoints", "", Need::kSeeJobs, false},
    {"PATCH", "/v1/jobs/{id}/checkpoints/{checkpoint}", "", Need::kChangeJob, true},
    {"DELETE", "/v1/jobs/{id}/checkpoints/{checkpoint}", "", Need::kChangeJob, true},
    {"PATCH", "/v1/jobs/{id}", "muster.v1.Jobs.SetQueue", Need::kChangeJob, true},
    {"GET", "/v1/namespaces", "", Need::kSeeJobs, false},
    {"GET", "/v1/namespaces/{name}", "", Need::kSeeNamespace, false},
    {"PUT", "/v1/namespaces/{name}", "", Need::kRule, true},
    {"GET", "/v1/hosts", "muster.v1.Hosts.List", Need::kSeeHosts, false},
    {"GET", "/v1/hosts/{name}", "muster.v1.Hosts.Get", Need::kSeeHosts, false},
    {"POST", "/v1/hosts/{name}:drain", "muster.v1.Hosts.Drain", Need::kRule, true},
    {"POST", "/v1/hosts/{name}:undrain", "muster.v1.Hosts.Undrain", Need::kRule, true},
    {"POST", "/v1/hosts/{name}:admit", "", Need::kRule, true},
    {"POST", "/v1/hosts/{name}:revoke", "", Need::kRule, true},
    // Whoever has a token gets a certificate of the same name, and no other.
    {"POST", "/v1/certificates", "", Need::kSeeJobs, true},
    {"GET", "/v1/authority", "", Need::kSeeHosts, false},
    {"POST", "/v1/authority:change", "", Need::kRule, true},
    {"POST", "/v1/authority:finish", "", Need::kRule, true},
    {"GET", "/v1/tokens", "", Need::kRule, false},
    {"POST", "/v1/tokens", "", Need::kRule, true},
    {"DELETE", "/v1/tokens/{id}", "", Need::kRule, true},
    // It is large, and strangers have no part in the room of large answers.
    {"GET", "/v1/openapi.json", "", Need::kSeeJobs, false},
    {"GET", "/metrics", "", Need::kSeeHosts, false},
    {"GET", "/healthz", "", Need::kNothing, false},
    {"GET", "/readyz", "", Need::kNothing, false},
};
// Null: nothing is written down for it, and nobody may.
const MethodRights* RightsOfRoute(std::string_view verb, std::string_view pattern);
const MethodRights* RightsOfMethod(std::string_view method);

// What counts of a job that a call is about.
struct JobRights {
  std::string name_space;
  std::string owner;  // who submitted it; empty: it is not known
};
bool Sees(const Caller& caller, const JobRights& job);

enum class Ruling {
  kAllowed,
  kNoSuchJob,  // it is in a namespace that the caller does not see
  kForbidden,
};
// `job`: that the call is about, or that is to be submitted; null: none, or none that is known. Of
// a namespace that is looked at, one of nobody in it.
Ruling RulingOn(const Caller& caller, Need need, const JobRights* job);
// Whether `caller` may submit a job as `asked`. `held`: the job that has that id already; null:
// none. Submitted again, it may start again, which is a change of it. kPermissionDenied;
// kAlreadyExists: that job is none that the caller may know of, and only its id is told.
absl::Status CheckSubmission(const Caller& caller, const std::string& id, const JobRights& asked,
                             const JobRights* held);
// Whoever waits with a higher priority takes places of jobs of all namespaces, so a submitter asks
// for no more than its namespace may have (Quota), or than the job has: somebody gave it that who
// may. `held`: null: it is a new job. kPermissionDenied.
absl::Status CheckPriority(const Caller& caller, const QueueSpec& asked, const QueueSpec* held,
                           const Quotas& quotas);
// What one who is forbidden to lacks, for people.
std::string WhatItNeeds(const Caller& caller, Need need, const JobRights* job);

inline std::string_view NamespaceOf(const JobSpec& spec) { return spec.queue.name_space; }

}  // namespace muster::coordinator
