#include "cli/hosts.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "cli/format.h"
#include "cli/json_text.h"
#include "lib/base/exit_codes.h"
#include "lib/base/printable.h"
#include "lib/base/status.h"

namespace muster::cli {
namespace {

// How often in a row we ask a coordinator in vain that has answered before.
constexpr int kReconnects = 60;
constexpr char kEraseScreen[] = "\x1b[H\x1b[2J";

std::string StateOf(const HostAnswer& host) {
  const std::string away = host.up ? "" : absl::StrCat("away ", HowLong(host.away_for_seconds));
  if (!host.draining && !host.left_out.empty())
    return host.up ? "left out" : absl::StrCat("left out, ", away);
  if (!host.draining) return host.up ? "up" : away;
  return host.up ? "draining" : absl::StrCat("draining, ", away);
}

// What a person would look for among the hosts.
std::string RevokedText(const std::vector<std::string>& revoked) {
  constexpr size_t kMostNamed = 10;
  if (revoked.empty()) return "";
  const size_t named = std::min(revoked.size(), kMostNamed);
  const size_t more = revoked.size() - named;
  return absl::StrCat(
      absl::StrJoin(revoked.begin(), revoked.begin() + static_cast<std::ptrdiff_t>(named), ", "),
      more > 0 ? absl::StrCat(" and ", more, " more") : "", revoked.size() == 1 ? " was" : " were",
      " revoked and may not join; muster token host HOST lets one back (--certified: one that "
      "needs no token, as that of muster up)\n");
}

std::string JobsOf(const HostAnswer& host) {
  std::set<std::string> jobs;
  for (const HostMemberAnswer& member : host.members) jobs.insert(member.job);
  return jobs.empty() ? "-" : absl::StrJoin(jobs, ", ");
}

}  // namespace

absl::StatusOr<HostList> AllHosts(const RestClient& rest) {
  MUSTER_ASSIGN_OR_RETURN(HostList all, rest.Hosts(""));
  while (!all.next_page_token.empty()) {
    MUSTER_ASSIGN_OR_RETURN(HostList page, rest.Hosts(all.next_page_token));
    for (HostAnswer& host : page.hosts) all.hosts.push_back(std::move(host));
    all.next_page_token = std::move(page.next_page_token);
  }
  return all;
}

std::string HostTable(const std::vector<HostAnswer>& hosts, bool with_head,
                      const std::vector<std::string>& revoked) {
  const std::string gone = RevokedText(revoked);
  if (hosts.empty() && with_head)
    return absl::StrCat("There are no hosts",
                        gone.empty() ? "; muster agent joins one, and a "
                                       "coordinator with --launcher makes them for each job"
                                     : " now",
                        ".\n", gone);
  if (hosts.empty()) return gone;
  size_t name_width = 4;
  size_t node_width = 4;
  for (const HostAnswer& host : hosts) {
    name_width = std::max(name_width, host.name.size());
    node_width = std::max(node_width, host.node.size());
  }
  // Only where hosts were admitted for one.
  size_t space_width = 0;
  for (const HostAnswer& host : hosts)
    if (!host.name_space.empty())
      space_width = std::max({space_width, host.name_space.size(), size_t{9}});
  std::string text;
  const auto add = [&](const std::string& name, const std::string& node, const std::string& slots,
                       const std::string& devices, const std::string& state,
                       const std::string& name_space, const std::string& jobs) {
    absl::StrAppendFormat(&text, "%-*s  %-*s  %-9s  %-7s  %-16s  ", static_cast<int>(name_width),
                          name, static_cast<int>(node_width), node, slots, devices, state);
    if (space_width > 0)
      absl::StrAppendFormat(&text, "%-*s  ", static_cast<int>(space_width), name_space);
    absl::StrAppend(&text, jobs, "\n");
  };
  if (with_head) add("host", "node", "slots", "devices", "state", "namespace", "jobs");
  for (const HostAnswer& host : hosts)
    add(host.name, host.node, absl::StrCat(host.used, "/", host.slots),
        host.devices > 0 ? absl::StrCat(host.devices_used, "/", host.devices) : "-", StateOf(host),
        host.name_space.empty() ? "-" : host.name_space, JobsOf(host));
  for (const HostAnswer& host : hosts)
    if (!host.left_out.empty())
      absl::StrAppend(&text, host.name, " is left out for all jobs: ", host.left_out,
                      "; muster drain ", host.name, " --undo lets it back\n");
  return text + gone;
}

// Page by page, so that any number of hosts needs the memory of one page.
absl::StatusOr<int> Hosts(const RemoteArguments& arguments, const RestClient& rest,
                          std::ostream& out) {
  std::string page_token;
  std::vector<std::string> revoked;
  bool is_first = true;
  do {
    MUSTER_ASSIGN_OR_RETURN(const HostList page, rest.Hosts(page_token));
    if (is_first) revoked = page.revoked;
    page_token = page.next_page_token;
    const bool is_last = page_token.empty();
    if (!arguments.json)
      out << PrintableLines(
                 HostTable(page.hosts, is_first, is_last ? revoked : std::vector<std::string>()))
          << std::flush;
    if (arguments.json)
      for (const HostAnswer& host : page.hosts) out << host.json << std::endl;
    is_first = false;
  } while (out && !page_token.empty());
  return kExitDone;
}

namespace {

int SayHost(const RemoteArguments& arguments, const HostAnswer& host, const std::string& sentence,
            std::ostream& out) {
  out << (arguments.json ? host.json : PrintableLines(sentence)) << std::endl;
  return kExitDone;
}

// Nothing: nobody knows the host any more, and so nothing of it is left.
absl::StatusOr<std::optional<HostAnswer>> Look(const RestClient& rest, const std::string& name,
                                               Duration pause) {
  for (int failures = 0;; ++failures) {
    absl::StatusOr<HostAnswer> host = rest.Host(name);
    if (host.ok()) return *std::move(host);
    if (absl::IsNotFound(host.status())) return std::nullopt;
    if (!IsPassing(host.status())) return host.status();
    if (failures >= kReconnects)
      return absl::UnavailableError("the coordinator does not answer any more");
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace

absl::StatusOr<int> Drain(const RemoteArguments& arguments, const RestClient& rest,
                          const Terminal& terminal) {
  const std::string& name = arguments.host;
  MUSTER_ASSIGN_OR_RETURN(HostAnswer host, rest.Drain(name, !arguments.undo));
  if (arguments.undo)
    return SayHost(arguments, host, absl::StrCat("host ", name, " takes members again"),
                   terminal.out);
  if (arguments.no_wait)
    return SayHost(arguments, host,
                   absl::StrCat("host ", name, " drains; ",
                                Plural(static_cast<int64_t>(host.members.size()), "member"),
                                " still there: muster hosts shows them"),
                   terminal.out);
  size_t said = 0;
  auto patience = std::chrono::steady_clock::now() + arguments.drain_patience;
  while (!host.members.empty()) {
    if (host.members.size() != said) {
      said = host.members.size();
      terminal.err << "muster drain: " << Plural(static_cast<int64_t>(said), "member")
                   << " still there" << std::endl;
      patience = std::chrono::steady_clock::now() + arguments.drain_patience;
    } else if (std::chrono::steady_clock::now() >= patience) {
      return absl::DeadlineExceededError(
          absl::StrCat("nothing has left host ", name, " for ",
                       HowLong(std::chrono::duration<double>(arguments.drain_patience).count()),
                       "; it drains on, and muster status JOB tells what a job waits for"));
    }
    std::this_thread::sleep_for(arguments.pause);
    MUSTER_ASSIGN_OR_RETURN(std::optional<HostAnswer> now, Look(rest, name, arguments.pause));
    if (!now) {
      host.members.clear();
      break;
    }
    host = *std::move(now);
    if (!host.draining)
      return absl::AbortedError(
          absl::StrCat("host ", name, " does not drain any more: somebody has undone it"));
  }
  return SayHost(arguments, host, absl::StrCat("host ", name, " is drained: nothing is left there"),
                 terminal.out);
}

absl::StatusOr<int> Scale(const RemoteArguments& arguments, const RestClient& rest,
                          std::ostream& out) {
  MUSTER_ASSIGN_OR_RETURN(const JobAnswer job,
                          rest.Scale(arguments.job, arguments.workers_min, arguments.workers_max));
  const std::string range =
      arguments.workers_min == arguments.workers_max
          ? Plural(arguments.workers_max, "worker")
          : absl::StrCat(arguments.workers_min, " to ", Plural(arguments.workers_max, "worker"));
  out << (arguments.json ? job.json
                         : PrintableLines(absl::StrCat("job ", job.id, " may have ", range,
                                                       "; it has ", job.workers, " now")))
      << std::endl;
  return kExitDone;
}

namespace {

struct Picture {
  std::vector<HostAnswer> hosts;
  std::vector<JobAnswer> jobs;  // that are not over
  bool is_cut = false;          // there are more jobs
};

// The first page of each state: a picture has no room for more.
absl::StatusOr<Picture> Take(const RestClient& rest) {
  Picture picture;
  MUSTER_ASSIGN_OR_RETURN(HostList list, AllHosts(rest));
  picture.hosts = std::move(list.hosts);
  for (const char* state :
       {"running", "recovering", "checking", "starting", "stopping", "queued"}) {
    MUSTER_ASSIGN_OR_RETURN(JobList page, rest.List(state, ""));
    for (JobAnswer& job : page.jobs) picture.jobs.push_back(std::move(job));
    picture.is_cut = picture.is_cut || !page.next_page_token.empty();
  }
  return picture;
}

std::string JsonOf(const Picture& picture) {
  nlohmann::ordered_json object = {{"hosts", nlohmann::ordered_json::array()},
                                   {"jobs", nlohmann::ordered_json::array()}};
  for (const HostAnswer& host : picture.hosts)
    object["hosts"].push_back(nlohmann::ordered_json::parse(host.json));
  for (const JobAnswer& job : picture.jobs)
    object["jobs"].push_back(nlohmann::ordered_json::parse(job.json));
  return Text(object);
}

std::string TextOf(const Picture& picture) {
  return absl::StrCat(HostTable(picture.hosts), "\n", TopJobs(picture.jobs),
                      picture.is_cut ? "there are more jobs; muster list shows all\n" : "");
}

void Draw(const std::string& text, const Terminal& terminal) {
  if (!terminal.is_terminal) {
    terminal.out << text << std::flush;
    return;
  }
  terminal.out << kEraseScreen;
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty()))
    terminal.out << FitWidth(line, terminal.width()) << "\n";
  terminal.out << std::flush;
}

}  // namespace

std::string TopJobs(const std::vector<JobAnswer>& jobs) {
  if (jobs.empty()) return "No job waits or runs.\n";
  size_t width = 3;
  for (const JobAnswer& job : jobs) width = std::max(width, job.id.size());
  std::string text;
  const auto add = [&](const std::string& id, const std::string& state, const std::string& step,
                       const std::string& rate, const std::string& left, const std::string& loss,
                       const std::string& waits) {
    absl::StrAppendFormat(&text, "%-*s  %-10s  %-15s  %-7s  %-9s  %-8s  %s\n",
                          static_cast<int>(width), id, state, step, rate, left, loss, waits);
  };
  add("job", "state", "step", "steps/s", "left", "loss", "waits for");
  for (const JobAnswer& job : jobs) {
    // The coordinator's pace of late is what its time left is made of.
    const bool has_pace = job.seconds_left > 0 && job.steps > job.step;
    add(job.id, job.state,
        job.steps > 0 ? absl::StrCat(job.step, " of ", job.steps) : absl::StrCat(job.step),
        has_pace ? Rate(static_cast<double>(job.steps - job.step) / job.seconds_left) : "-",
        job.seconds_left >= 0 ? HowLong(job.seconds_left) : "-", Loss(job.loss),
        job.waits_for.empty() ? "-" : job.waits_for);
  }
  return text;
}

absl::StatusOr<int> Top(const RemoteArguments& arguments, const RestClient& rest,
                        const Terminal& terminal) {
  const bool goes_on = !arguments.once && (arguments.json || terminal.is_terminal);
  int failures = -1;  // none yet: who has never answered is not waited for
  while (terminal.out) {
    const absl::StatusOr<Picture> picture = Take(rest);
    if (picture.ok() && arguments.json)
      terminal.out << JsonOf(*picture) << std::endl;
    else if (picture.ok())
      Draw(PrintableLines(TextOf(*picture)), terminal);
    else if (!goes_on || failures < 0 || !IsPassing(picture.status()) || failures >= kReconnects)
      return picture.status();
    failures = picture.ok() ? 0 : failures + 1;
    if (!goes_on) break;
    std::this_thread::sleep_for(arguments.pause);
  }
  return kExitDone;
}

}  // namespace muster::cli
