#include "coordinator/state/rights.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "lib/domain/labels.h"

namespace muster::coordinator {
namespace {

// The caller named the namespace, so to be forbidden it tells nothing.
bool IsInNamespace(Need need) { return need == Need::kSubmit || need == Need::kSeeNamespace; }

bool OwnsOrOperates(const Caller& caller, const JobRights& job) {
  const bool is_own = !caller.user.empty() && caller.user == job.owner;
  return caller.role >= UserRole::kOperator || is_own;
}

}  // namespace

std::string_view RoleName(UserRole role) {
  switch (role) {
    case UserRole::kViewer: return "viewer";
    case UserRole::kSubmitter: return "submitter";
    case UserRole::kOperator: return "operator";
    case UserRole::kAdmin: break;
  }
  return "admin";
}

std::optional<UserRole> RoleNamed(std::string_view name) {
  for (const UserRole role : kRoles)
    if (name == RoleName(role)) return role;
  return std::nullopt;
}

bool IsNamePart(std::string_view text) {
  constexpr size_t kLongest = 63;
  return !text.empty() && text.size() <= kLongest &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' ||
                  c == '-';
         });
}

std::string WhyNoGrant(const Caller& grant) {
  if (!IsNamePart(grant.user)) return "a user is 1 to 63 letters, digits, '.', '_' or '-'";
  // Such a token would look like one of a host.
  if (grant.user == "join" || grant.user.starts_with("join-"))
    return "no user is named join or join-…, as tokens of hosts begin so";
  if (grant.scope != kAllNamespaces && !IsDnsLabel(grant.scope))
    return "a namespace is 1 to 63 lower-case letters, digits and inner hyphens, or * for all";
  if (grant.role == UserRole::kAdmin && grant.scope != kAllNamespaces)
    return "an admin is one of all namespaces: name * as its namespace, or another role";
  return "";
}

std::string TokenId(const Token& token) {
  constexpr size_t kDigits = 12;
  return token.hash.substr(0, kDigits);
}

bool HasExpired(const Token& token, int64_t now_unix_ms) {
  return token.expires_unix_ms != 0 && now_unix_ms >= token.expires_unix_ms;
}

bool HasAdmin(const std::vector<Token>& tokens) {
  return std::any_of(tokens.begin(), tokens.end(), [](const Token& token) {
    return token.grant.role == UserRole::kAdmin && token.expires_unix_ms == 0;
  });
}

std::string WhyNotMade(const std::vector<Token>& tokens, const Token& token) {
  if (std::string why = WhyNoGrant(token.grant); !why.empty()) return why;
  const auto of_use = std::count_if(tokens.begin(), tokens.end(), [&](const Token& other) {
    return !HasExpired(other, token.made_unix_ms);
  });
  if (of_use >= static_cast<int64_t>(kMostTokens))
    return absl::StrCat("there are ", kMostTokens,
                        " tokens, which are all that may be; revoke one "
                        "that nobody uses (`muster token list`, `muster token revoke`)");
  const bool is_there = std::any_of(tokens.begin(), tokens.end(), [&](const Token& other) {
    return TokenId(other) == TokenId(token);
  });
  return is_there ? "its id belongs to another token; make it again" : "";
}

std::string WhyNotRevoked(const std::vector<Token>& tokens, const std::string& id) {
  std::vector<Token> others;
  for (const Token& token : tokens)
    if (TokenId(token) != id) others.push_back(token);
  if (others.size() == tokens.size() || !HasAdmin(tokens) || HasAdmin(others)) return "";
  return "it is the last token of an admin that does not expire, and without it nobody could make "
         "another; make that "
         "first (`muster token make`)";
}

UserRole LeastRole(Need need) {
  switch (need) {
    case Need::kNothing:
    case Need::kSeeJobs:
    case Need::kSeeNamespace: return UserRole::kViewer;
    case Need::kSubmit:
    case Need::kChangeJob: return UserRole::kSubmitter;
    case Need::kSeeHosts: return UserRole::kOperator;
    case Need::kRule: break;
  }
  return UserRole::kAdmin;
}

const MethodRights* RightsOfRoute(std::string_view verb, std::string_view pattern) {
  for (const MethodRights& row : kMethods)
    if (row.verb == verb && row.pattern == pattern) return &row;
  return nullptr;
}

const MethodRights* RightsOfMethod(std::string_view method) {
  if (method.empty()) return nullptr;
  for (const MethodRights& row : kMethods)
    if (row.method == method) return &row;
  return nullptr;
}

bool Sees(const Caller& caller, const JobRights& job) {
  return caller.scope == kAllNamespaces || caller.scope == job.name_space;
}

Ruling RulingOn(const Caller& caller, Need need, const JobRights* job) {
  if (need == Need::kNothing) return Ruling::kAllowed;
  if (need == Need::kRule && caller.scope != kAllNamespaces) return Ruling::kForbidden;
  const bool is_of_job = need == Need::kSeeJobs || need == Need::kChangeJob;
  // Also one who could do nothing to any job does not learn of it.
  if (is_of_job && job != nullptr && !Sees(caller, *job)) return Ruling::kNoSuchJob;
  if (caller.role < LeastRole(need)) return Ruling::kForbidden;
  if (IsInNamespace(need) && job != nullptr && !Sees(caller, *job)) return Ruling::kForbidden;
  if (need == Need::kChangeJob && job != nullptr && !OwnsOrOperates(caller, *job))
    return Ruling::kForbidden;
  return Ruling::kAllowed;
}

absl::Status CheckSubmission(const Caller& caller, const std::string& id, const JobRights& asked,
                             const JobRights* held) {
  if (RulingOn(caller, Need::kSubmit, &asked) != Ruling::kAllowed)
    return absl::PermissionDeniedError(WhatItNeeds(caller, Need::kSubmit, &asked));
  if (held == nullptr) return absl::OkStatus();
  switch (RulingOn(caller, Need::kChangeJob, held)) {
    case Ruling::kAllowed: return absl::OkStatus();
    // It does not exist for this caller, so nothing else of it is told.
    case Ruling::kNoSuchJob:
      return absl::AlreadyExistsError(
          absl::StrCat("the id ", id, " is not free; submit this job under another id"));
    case Ruling::kForbidden: break;
  }
  return absl::PermissionDeniedError(absl::StrCat("job ", id, " is there already; ",
                                                  WhatItNeeds(caller, Need::kChangeJob, held),
                                                  "; or submit this job under another id"));
}

absl::Status CheckPriority(const Caller& caller, const QueueSpec& asked, const QueueSpec* held,
                           const Quotas& quotas) {
  const auto quota = quotas.find(asked.name_space);
  const int32_t of_namespace = quota == quotas.end() ? Quota().priority : quota->second.priority;
  const int32_t most = held == nullptr ? of_namespace : std::max(of_namespace, held->priority);
  if (caller.role >= UserRole::kOperator || asked.priority <= most) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat("a priority of ", asked.priority, " takes places of other jobs: ", caller.user,
                   " is ", std::string(RoleName(caller.role)), " and may ask for ", most,
                   " at most; ask an operator of the namespace to raise that of the job (`muster ",
                   "queue JOB --priority`), or an admin that of all submitters there (`muster ",
                   "quota ", asked.name_space, " --priority`)"));
}

std::string WhatItNeeds(const Caller& caller, Need need, const JobRights* job) {
  const std::string is =
      absl::StrCat(caller.user, " is ", std::string(RoleName(caller.role)), " in ",
                   caller.scope == kAllNamespaces ? std::string("all namespaces")
                                                  : absl::StrCat("namespace ", caller.scope));
  std::string needed(RoleName(LeastRole(need)));
  if (need == Need::kChangeJob && job != nullptr && caller.role >= UserRole::kSubmitter)
    needed = absl::StrCat("operator, as the job is ",
                          job->owner.empty() ? "of nobody" : absl::StrCat("of ", job->owner));
  if (IsInNamespace(need) && job != nullptr && !Sees(caller, *job))
    absl::StrAppend(&needed, " in namespace ", job->name_space);
  return absl::StrCat(is, ", and this needs the role ", needed,
                      "; an admin makes tokens (`muster token make`)");
}

}  // namespace muster::coordinator
