#include "cli/doctor/certificates.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cli/format.h"
#include "lib/base/printable.h"
#include "lib/identity/identity_folder.h"
#include "lib/identity/peer_name.h"

namespace muster::cli::doctor {
namespace {

// From then on the coordinator warns, too (docs/identity.md section 7).
constexpr absl::Duration kAuthorityEndsSoon = absl::Hours(24 * 60);

bool IsOfAnotherUser(const std::string& folder) {
  struct stat there {};
  return stat(folder.c_str(), &there) == 0 && geteuid() != 0 && there.st_uid != geteuid() &&
         access(folder.c_str(), R_OK | X_OK) != 0;
}

Finding JudgeCertificate(const std::string& check, const IdentityFacts& facts, absl::Time now) {
  const Identity& own = *facts.identity;
  const std::string who = ToUri(own.name);
  const bool renews_itself = facts.is_at_rest && facts.authority.ok();
  constexpr char kAnew[] = "The next start makes another one.";
  if (now >= own.ends && renews_itself) return Ok(check, absl::StrCat(who, " has ended. ", kAnew));
  if (now >= own.ends)
    return Problem(check, absl::StrCat(who, " ended ", Until(own.ends, now), "."),
                   "of a host: start muster agent with --join and --join-token-file, which gets "
                   "another one; of a user: muster certs user; of an authority from outside: ask "
                   "that for another one");
  if (now < own.begins)
    return Problem(
        check,
        absl::StrCat(who, " is not valid before ",
                     absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", own.begins, absl::UTCTimeZone()),
                     ", and by this clock it is ",
                     absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", now, absl::UTCTimeZone()), "."),
        "set this machine's clock right (chrony, systemd-timesyncd)");
  const std::string text = absl::StrCat(who, " is valid ", Until(own.ends, now), ".");
  // It is renewed at half of its time; what is in its last quarter has been tried for long.
  const absl::Time late = own.ends - (own.ends - own.begins) / 4;
  if (now >= late && !renews_itself)
    return Warning(check,
                   absl::StrCat(text, " It should have been renewed ",
                                HowLong(absl::ToDoubleSeconds(now - RenewAt(own))), " ago."),
                   "see whether the agent or the coordinator runs, and reaches the other; their "
                   "logs say why a certificate was not renewed");
  return Ok(check, text);
}

}  // namespace

std::string Until(absl::Time ends, absl::Time now) {
  const bool is_over = now >= ends;
  const std::string long_time = HowLong(absl::ToDoubleSeconds(is_over ? now - ends : ends - now));
  const std::string at = absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", ends, absl::UTCTimeZone());
  return is_over ? absl::StrCat("at ", at, ", ", long_time, " ago")
                 : absl::StrCat("until ", at, ", in ", long_time);
}

IdentityFacts GatherIdentity(const std::string& folder, bool is_at_rest) {
  IdentityFacts facts{.folder = folder, .is_at_rest = is_at_rest};
  facts.is_of_another_user = IsOfAnotherUser(folder);
  if (facts.is_of_another_user) return facts;
  std::error_code none;
  if (!std::filesystem::is_directory(folder, none)) return facts;
  facts.identity = ReadIdentity(folder);
  const absl::StatusOr<Authority> authority = ReadAuthority(folder);
  facts.authority = authority.ok() ? TrustedBy(*authority) : authority.status();
  for (const char* name : {"admin.token", "join.secret", "join.token"})
    facts.secrets.push_back(ReadSecret(absl::StrCat(folder, "/", name)).status());
  return facts;
}

Finding JudgeAuthorityEnd(absl::Time ends, absl::Time now) {
  constexpr char kCheck[] = "authority";
  const std::string text = absl::StrCat(
      "The authority of the cluster ", now >= ends ? "ended " : "is valid ", Until(ends, now), ".");
  constexpr char kChange[] =
      "muster certs change makes another one while everything runs (docs/identity.md section 7)";
  if (now >= ends) return Problem(kCheck, text, kChange);
  return ends - now < kAuthorityEndsSoon ? Warning(kCheck, text, kChange) : Ok(kCheck, text);
}

Findings JudgeIdentity(const std::string& check, const IdentityFacts& facts, absl::Time now) {
  if (facts.is_of_another_user)
    return {
        Skipped(check, absl::StrCat("This user may not look into ", Printable(facts.folder), "."))};
  Findings findings;
  if (absl::IsNotFound(facts.identity.status())) {
    findings.push_back(
        Skipped(check, absl::StrCat("There is none in ", Printable(facts.folder), ".")));
  } else if (!facts.identity.ok()) {
    findings.push_back(Problem(check, Sentence(facts.identity.status().message()),
                               absl::IsPermissionDenied(facts.identity.status())
                                   ? "do what is said there; nobody uses keys that others may read"
                                   : "remove the folder, and let a start or a join fill it anew; "
                                     "that of an authority comes from a backup"));
  } else {
    findings.push_back(JudgeCertificate(check, facts, now));
  }
  if (facts.authority.ok() && !facts.authority->empty())
    findings.push_back(JudgeAuthorityEnd(facts.authority->front().ends, now));
  else if (!absl::IsNotFound(facts.authority.status()))
    findings.push_back(Problem("authority", Sentence(facts.authority.status().message()),
                               "bring the folder back from a backup: without this key nobody new "
                               "can join"));
  for (const absl::Status& secret : facts.secrets)
    if (!secret.ok() && !absl::IsNotFound(secret))
      findings.push_back(Problem("secrets", Sentence(secret.message()),
                                 "chmod 600 the file, and make anew what others may have read"));
  return findings;
}

}  // namespace muster::cli::doctor
