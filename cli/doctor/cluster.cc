#include "cli/doctor/cluster.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "cli/doctor/certificates.h"
#include "cli/format.h"
#include "cli/hosts.h"
#include "lib/base/printable.h"
#include "lib/identity/certificates.h"
#include "lib/identity/clocks.h"

namespace muster::cli::doctor {
namespace {

constexpr absl::Duration kClocksAreClose = absl::Seconds(30);
constexpr size_t kMostNamed = 5;

std::string SecondsText(absl::Duration time) {
  return absl::StrFormat("%.3g s", absl::ToDoubleSeconds(time));
}

// Not more than a reader takes in at once.
std::string Named(const std::vector<std::string>& names) {
  std::vector<std::string> shown(
      names.begin(),
      names.begin() + static_cast<std::ptrdiff_t>(std::min(names.size(), kMostNamed)));
  if (names.size() > kMostNamed) shown.push_back(absl::StrCat(names.size() - kMostNamed, " more"));
  return Printable(Join(shown));
}

Finding JudgeReached(const ClusterFacts& facts) {
  constexpr char kCheck[] = "coordinator";
  const std::string url = Printable(facts.url);
  if (facts.reached.ok() && facts.healthy.ok())
    return Ok(kCheck, absl::StrCat("It answers at ", url, "."));
  if (facts.reached.ok())
    return Problem(
        kCheck,
        absl::StrCat("What answers at ", url, " is not well: ", Sentence(facts.healthy.message())),
        "correct --to, where that is no coordinator; else look into its log "
        "(logs/coordinator.log of its folder)");
  const std::string why = Sentence(facts.reached.message());
  switch (facts.reached.code()) {
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kPermissionDenied:
      return Problem(
          kCheck, absl::StrCat("What answers at ", url, " is not who is expected there: ", why),
          "name the authority.pem of that cluster with --authority or MUSTER_AUTHORITY, "
          "or correct the address; where it says that a certificate is not valid at this "
          "time, set the clocks right");
    case absl::StatusCode::kDeadlineExceeded:
      return Problem(kCheck, absl::StrCat("Nothing comes back from ", url, ": ", why),
                     "see whether that machine is up and not overloaded, and whether firewalls on "
                     "the way pass this port");
    case absl::StatusCode::kUnavailable:
      return Problem(
          kCheck, absl::StrCat("No coordinator answers at ", url, ": ", why),
          "start it (muster up), look into its log (logs/coordinator.log of its folder), "
          "or correct --to");
    default:
      return Problem(kCheck, why,
                     "correct --to: HOST:PORT of the REST interface, as muster up "
                     "prints it");
  }
}

Finding JudgeToken(const ClusterFacts& facts) {
  constexpr char kCheck[] = "token";
  const absl::Status& answer = facts.queued.status();
  if (answer.ok())
    return Ok(kCheck, facts.has_token ? "The coordinator takes the token."
                                      : "The coordinator asks for no token.");
  if (absl::IsUnauthenticated(answer))
    return Problem(kCheck,
                   absl::StrCat(facts.has_token ? "The coordinator does not take the token: "
                                                : "There is no token to show: ",
                                Sentence(answer.message())),
                   "let MUSTER_TOKEN_FILE name a file with a token of this cluster, or put it into "
                   "~/.config/muster/token; an admin makes one with muster token make");
  return Problem(kCheck, absl::StrCat("It cannot list jobs: ", Sentence(answer.message())),
                 "ask an admin for a token of the role viewer at least (muster token make)");
}

// What a role does not allow is no fault of the cluster.
Finding NotSeen(const std::string& check, const absl::Status& why) {
  return absl::IsPermissionDenied(why)
             ? Skipped(check, absl::StrCat("The token does not allow to see it: ",
                                           Sentence(why.message())))
             : Warning(check,
                       absl::StrCat("The coordinator does not tell: ", Sentence(why.message())),
                       "try it again; its log may say more");
}

Finding JudgeVersion(const ClusterFacts& facts, const std::string& version) {
  constexpr char kCheck[] = "version";
  if (!facts.version.ok()) return NotSeen(kCheck, facts.version.status());
  const std::string theirs = Cut(Printable(*facts.version), 64);
  if (theirs == version)
    return Ok(kCheck, absl::StrCat("The coordinator is of this version, ", version, "."));
  return Warning(kCheck,
                 absl::StrCat("The coordinator is of version ",
                              theirs.empty() ? "that it does not say" : theirs,
                              ", and this muster of ", version, "."),
                 "bring all hosts to one version; while they differ, those speak together of which "
                 "the protocols overlap (docs/protocol.md section 10)");
}

Finding JudgeLauncher(const HostList& list) {
  constexpr char kCheck[] = "pods";
  const std::string where =
      absl::StrCat("in namespace ", Printable(list.launch_namespace), " of Kubernetes");
  if (list.launch_trouble.empty())
    return Ok(kCheck, absl::StrCat("The coordinator makes pods for each job ", where, "."));
  return Problem(
      kCheck,
      absl::StrCat("The coordinator is to make pods for each job ", where,
                   ", and cannot: ", Sentence(list.launch_trouble)),
      "where it says that something is not allowed, grant it to the service account of the "
      "coordinator, as deploy/k8s/base does (kubectl auth can-i --list -n NAMESPACE --as "
      "system:serviceaccount:NAMESPACE:NAME shows what it may do); where the API does not answer, "
      "see whether it is up, and whether network policies let the coordinator's pod reach it");
}

Finding JudgeSlots(size_t hosts, int64_t slots, int64_t used) {
  constexpr char kCheck[] = "hosts";
  if (hosts == 0)
    return Warning(kCheck, "There are none, so no job can start.",
                   "start muster agent on a machine; muster up is a host itself");
  if (slots == 0)
    return Problem(kCheck, absl::StrCat("None of the ", hosts, " takes members now."),
                   "see below; muster hosts shows them all");
  return Ok(kCheck, absl::StrCat(Plural(static_cast<int64_t>(hosts), "host"), " with ",
                                 Plural(slots, "slot"), " to take members, of which ", used,
                                 used == 1 ? " is" : " are", " used."));
}

Findings JudgeHosts(const HostList& list) {
  std::vector<std::string> away, left_out, draining;
  int64_t slots = 0, used = 0;
  for (const HostAnswer& host : list.hosts) {
    if (!host.up)
      away.push_back(absl::StrCat(host.name, " (for ", HowLong(host.away_for_seconds), ")"));
    if (!host.left_out.empty())
      left_out.push_back(absl::StrCat(host.name, " (", host.left_out, ")"));
    if (host.draining) draining.push_back(host.name);
    if (host.up && !host.draining && host.left_out.empty()) {
      slots += host.slots;
      used += host.used;
    }
  }
  Findings findings;
  // With a launcher there is none between jobs, and those of a job that ends take nobody.
  const bool has_launcher = !list.launch_namespace.empty();
  if (has_launcher) findings.push_back(JudgeLauncher(list));
  if (!has_launcher || slots > 0) findings.push_back(JudgeSlots(list.hosts.size(), slots, used));
  if (!away.empty())
    findings.push_back(
        Warning("hosts away",
                absl::StrCat("The coordinator has no session with the agent of ", Named(away), "."),
                "see whether the machine is up and muster agent runs there, and run "
                "muster doctor --coordinator there; one that was away for a day joins "
                "again with its token; muster token revoke takes one out for good"));
  if (!left_out.empty())
    findings.push_back(Warning("hosts left out",
                               absl::StrCat("Left out for all jobs: ", Named(left_out), "."),
                               "run muster doctor there, mend what is wrong, and let it back with "
                               "muster drain HOST --undo"));
  if (!draining.empty())
    findings.push_back(Warning("hosts draining",
                               absl::StrCat("They take no members: ", Named(draining), "."),
                               "muster drain HOST --undo lets one take members again"));
  return findings;
}

// A queue is as it should be while something runs.
Finding JudgeJobs(const ClusterFacts& facts) {
  constexpr char kCheck[] = "jobs";
  std::vector<std::string> waiting;
  for (const JobAnswer& job : *facts.queued)
    waiting.push_back(absl::StrCat(job.id, job.waits_for.empty() ? "" : ": ", job.waits_for));
  const std::string runs = Plural(facts.under_way, "job runs", "jobs run");
  if (waiting.empty()) return Ok(kCheck, absl::StrCat(runs, ", and none waits."));
  const std::string text =
      absl::StrCat(runs, ", and ", Plural(static_cast<int64_t>(waiting.size()), "waits", "wait"),
                   ": ", Named(waiting), ".");
  if (facts.under_way > 0) return Ok(kCheck, text);
  return Warning(kCheck, text,
                 "give the cluster what they wait for (muster agent joins a host), or ask for less "
                 "(muster scale JOB --workers N); muster status JOB says more");
}

Findings JudgeAuthority(const absl::StatusOr<AuthorityAnswer>& authority, absl::Time now) {
  if (absl::IsFailedPrecondition(authority.status()))
    return {Skipped("authority", Sentence(authority.status().message()))};
  if (!authority.ok()) return {NotSeen("authority", authority.status())};
  Findings findings;
  absl::Time ends;
  if (absl::ParseTime(absl::RFC3339_full, authority->signs.ends, &ends, nullptr))
    findings.push_back(JudgeAuthorityEnd(ends, now));
  if (authority->change_ends.empty()) return findings;
  std::vector<std::string> behind;
  for (const HostTrustAnswer& host : authority->hosts)
    if (host.state != "renewed") behind.push_back(absl::StrCat(host.name, " (", host.state, ")"));
  const std::string change =
      absl::StrCat("The authority is being changed until ", Printable(authority->change_ends));
  if (behind.empty())
    findings.push_back(
        Ok("change of authority", absl::StrCat(change, ", and all hosts trust the new one.")));
  else
    findings.push_back(Warning("change of authority",
                               absl::StrCat(change, "; not yet renewed: ", Named(behind), "."),
                               "a host that is away joins again with its token when it is back; of "
                               "one that is here and stays so, the log of its agent says why"));
  return findings;
}

}  // namespace

std::optional<ClockOffset> OffsetFrom(const http::Response& response, absl::Time sent,
                                      absl::Time came) {
  for (const auto& [name, value] : response.headers) {
    absl::Time date;
    if (!absl::EqualsIgnoreCase(name, "date") ||
        !absl::ParseTime("%a, %d %b %Y %H:%M:%S GMT", value, &date, nullptr))
      continue;
    return ClockOffset{.least = date - came, .most = date + absl::Seconds(1) - sent};
  }
  return std::nullopt;
}

Finding JudgeClockOffset(std::optional<ClockOffset> offset) {
  constexpr char kCheck[] = "clock of the coordinator";
  if (!offset) return Skipped(kCheck, "The coordinator's answers do not say what time it is.");
  const bool is_behind = offset->most < absl::ZeroDuration();
  const bool is_ahead = offset->least > absl::ZeroDuration();
  if (!is_behind && !is_ahead)
    return Ok(kCheck, absl::StrCat("No difference from this machine's was found, to within ",
                                   SecondsText(std::max(-offset->least, offset->most)), "."));
  // At least so far apart, whatever the network did to the answer.
  const absl::Duration apart = is_ahead ? offset->least : -offset->most;
  const std::string text = absl::StrCat("It is ", SecondsText(apart), " or more ",
                                        is_ahead ? "ahead of" : "behind", " this machine's.");
  constexpr char kAdvice[] =
      "set the clocks of both machines right (chrony, systemd-timesyncd); hosts whose clocks are "
      "five minutes apart are refused";
  if (apart >= kClocksMayDiffer) return Problem(kCheck, text, kAdvice);
  return apart >= kClocksAreClose ? Warning(kCheck, text, kAdvice) : Ok(kCheck, text);
}

// muster_build_info{role="coordinator",version="0.1.0"} 1
std::string VersionIn(const std::string& metrics) {
  constexpr absl::string_view kLabel = "version=\"";
  for (const absl::string_view line : absl::StrSplit(metrics, '\n')) {
    const size_t at = line.find(kLabel);
    if (!absl::StartsWith(line, "muster_build_info{") || at == absl::string_view::npos) continue;
    const absl::string_view rest = line.substr(at + kLabel.size());
    return std::string(rest.substr(0, rest.find('"')));
  }
  return "";
}

ClusterFacts GatherCluster(ClusterFacts facts, const Ask& ask,
                           const std::function<absl::Time()>& now) {
  if (!facts.may_ask.ok()) return facts;
  const absl::Time sent = now();
  const absl::StatusOr<http::Response> healthy = ask("/healthz");
  const absl::Time came = now();
  facts.reached = healthy.status();
  if (!facts.reached.ok()) return facts;
  facts.healthy = http::StatusFromResponse(*healthy);
  facts.offset = OffsetFrom(*healthy, sent, came);
  const RestClient rest([&ask](const std::string&, const std::string& target, const std::string&) {
    return ask(target);
  });
  const auto status_of = [](const absl::StatusOr<http::Response>& response) {
    return response.ok() ? http::StatusFromResponse(*response) : response.status();
  };
  facts.ready = status_of(ask("/readyz"));
  const auto jobs = [&rest](const char* state) -> absl::StatusOr<std::vector<JobAnswer>> {
    absl::StatusOr<JobList> page = rest.List(state, "");
    if (!page.ok()) return page.status();
    return std::move(page->jobs);
  };
  facts.queued = jobs("queued");
  if (absl::IsUnauthenticated(facts.queued.status())) return facts;
  for (const char* state : {"running", "checking", "starting", "recovering", "stopping"})
    if (const auto listed = jobs(state); listed.ok())
      facts.under_way += static_cast<int64_t>(listed->size());
  const absl::StatusOr<http::Response> metrics = ask("/metrics");
  if (const absl::Status status = status_of(metrics); status.ok())
    facts.version = VersionIn(metrics->body);
  else
    facts.version = status;
  facts.hosts = AllHosts(rest);
  facts.authority = rest.Authority();
  return facts;
}

Findings JudgeCluster(const ClusterFacts& facts, const std::string& version, absl::Time now) {
  if (!facts.may_ask.ok())
    return {Problem("coordinator", Sentence(facts.may_ask.message()),
                    "name --dir, the folder of the cluster, or --to with --authority; "
                    "MUSTER_TOKEN_FILE names a file with one token")};
  Findings findings = {JudgeReached(facts)};
  if (!facts.reached.ok() || !facts.healthy.ok()) return findings;
  findings.push_back(
      facts.ready.ok()
          ? Ok("readiness", "It takes jobs.")
          : Problem("readiness", absl::StrCat("It is not ready: ", Sentence(facts.ready.message())),
                    "wait, where it has just been started; else its log says what "
                    "it waits for, such as a full disk"));
  findings.push_back(JudgeClockOffset(facts.offset));
  findings.push_back(JudgeToken(facts));
  if (!facts.queued.ok()) return findings;
  findings.push_back(JudgeVersion(facts, version));
  const auto append = [&findings](Findings more) {
    for (Finding& finding : more) findings.push_back(std::move(finding));
  };
  append(facts.hosts.ok() ? JudgeHosts(*facts.hosts)
                          : Findings{NotSeen("hosts", facts.hosts.status())});
  findings.push_back(JudgeJobs(facts));
  append(JudgeAuthority(facts.authority, now));
  return findings;
}

}  // namespace muster::cli::doctor
