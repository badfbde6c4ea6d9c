// Commands about hosts, and about what jobs may hold: hosts, drain, scale, queue, quota, top.
#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "cli/arguments_parts.h"
#include "lib/base/digits.h"
#include "lib/wire/job_codec.h"

namespace muster::cli {
namespace {

constexpr char kHostsFooter[] =
    "A host is an agent: one of muster up or of muster agent. It is away while the coordinator has "
    "no "
    "session with its\n"
    "agent; its members train on. One that drains takes no new members.\n"
    "\n"
    "Examples:\n"
    "  muster hosts\n"
    "  muster hosts --json | jq -r 'select(.up) | .name'";

constexpr char kDrainFooter[] =
    "Nothing new is placed on that host, and the members there leave at a step boundary: no step "
    "is "
    "lost. This command\n"
    "waits until none is left. Ctrl-C ends the waiting, not the draining; --undo ends that. The "
    "host "
    "stays drained,\n"
    "also when it comes back, until it is told otherwise.\n"
    "Exit code 0 once nothing is left there, 1 if somebody else has undone it meanwhile or nothing "
    "leaves for ten minutes.\n"
    "\n"
    "Examples:\n"
    "  muster drain b              before the machine is switched off\n"
    "  muster drain b --undo       it takes members again, also one that was left out for all jobs";

constexpr char kScaleFooter[] =
    "The job grows when slots are free, and shrinks at a step boundary; the result has the same "
    "bits. N is one to N\n"
    "workers, as `workers` in a job's file. Servers cannot be scaled.\n"
    "Exit code 0 once the cluster has taken it.\n"
    "\n"
    "Examples:\n"
    "  muster scale count-1 --workers 8\n"
    "  muster scale count-1 --workers 2:4   at least 2, at most 4";

constexpr char kQueueFooter[] =
    "What is not named stays as it is. It may be changed at any time, also while the job runs: a "
    "higher priority takes\n"
    "places of running jobs with a lower one, which then wait and go on later.\n"
    "Exit code 0 once the cluster has taken it.\n"
    "\n"
    "Examples:\n"
    "  muster queue count-1 --priority 10\n"
    "  muster queue count-1 --deadline 3600 --label team=vision --no-label draft";

constexpr char kQuotaFooter[] =
    "Running jobs are not stopped for a quota that was lowered; those that can shrink do. Jobs "
    "keep "
    "the priority that\n"
    "they have. Operators and admins may give any.\n"
    "\n"
    "Examples:\n"
    "  muster quota\n"
    "  muster quota vision --slots 8 --queued 100\n"
    "  muster quota vision --slots none\n"
    "  muster quota vision --priority 10";

constexpr char kTopFooter[] =
    "On a terminal it is drawn anew each second until Ctrl-C; elsewhere it is printed once. --json "
    "prints a line each\n"
    "second, {\"hosts\": […], \"jobs\": […]}. Jobs that are over are in muster list.\n"
    "\n"
    "Examples:\n"
    "  muster top\n"
    "  muster top --once --json | jq '.hosts | length'";

// N, or MIN:MAX. The option is checked when it is read, so what is wrong names it.
CLI::Validator WorkerRange(RemoteArguments& remote) {
  const auto read = [&remote](const std::string& text) -> std::string {
    const size_t colon = text.find(':');
    const bool is_range = colon != std::string::npos;
    int64_t least = 1;
    int64_t most = 0;
    const bool are_digits = ParseDigits(is_range ? text.substr(colon + 1) : text, &most) &&
                            (!is_range || ParseDigits(text.substr(0, colon), &least));
    if (!are_digits || least < 1 || most < 1 || least > kMaxProcesses || most > kMaxProcesses)
      return absl::StrCat("'", text, "' is neither N nor MIN:MAX, each from 1 to ", kMaxProcesses);
    if (least > most)
      return absl::StrCat("'", text, "': ", least, " is more than ", most, "; write MIN:MAX");
    remote.workers_min = least;
    remote.workers_max = most;
    return "";
  };
  return CLI::Validator(read, "");
}

// A number, or "none". The option is checked when it is read, so what is wrong names it.
CLI::Validator Bound() {
  const auto read = [](std::string& text) -> std::string {
    int64_t number = 0;
    if (text == "none")
      text = "-1";
    else if (!ParseDigits(text, &number))
      return absl::StrCat("'", text, "' is neither a number nor none");
    return "";
  };
  return CLI::Validator(read, "");
}

void AddQueueCommands(CLI::App& app, RemoteArguments& remote) {
  CLI::App* queue =
      AddRemote(app, "queue", "change a job's priority, limits, retries or labels", remote);
  queue->add_option("job", remote.job, "id of the job (muster list shows them)")
      ->check(NameInUrl())
      ->required()
      ->type_name("JOB");
  queue->add_option("--priority", remote.priority, "-1000 to 1000; higher ones go first")
      ->type_name("N");
  queue->add_option("--deadline", remote.deadline, "how long it may run in all; 0: without end")
      ->type_name("SECONDS");
  queue
      ->add_option("--time-to-live", remote.time_to_live,
                   "how long after its end it is kept; 0: until it is deleted")
      ->type_name("SECONDS");
  queue
      ->add_option("--retries", remote.retries,
                   "how often it goes back into the queue after it failed")
      ->type_name("N");
  queue->add_option("--label", remote.labels, "give it this label; may be given again")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  queue->add_option("--no-label", remote.no_labels, "take this label away; may be given again")
      ->type_name("KEY")
      ->allow_extra_args(false);
  queue->footer(kQueueFooter);
  CLI::App* quota =
      AddRemote(app, "quota", "show or set how much the jobs of a namespace may hold", remote);
  quota->add_option("namespace", remote.name_space, "name of the namespace (default: show all)")
      ->check(NameInUrl())
      ->type_name("NAMESPACE");
  quota->add_option("--slots", remote.quota_slots, "slots that its running jobs may hold")
      ->transform(Bound())
      ->type_name("N|none");
  quota->add_option("--queued", remote.quota_queued, "jobs of it that may wait")
      ->transform(Bound())
      ->type_name("N|none");
  quota
      ->add_option("--priority", remote.priority,
                   "the highest priority that its submitters may give: -1000 to 1000, at first 0")
      ->type_name("N");
  quota->footer(kQuotaFooter);
}

}  // namespace

void AddHostCommands(CLI::App& app, RemoteArguments& remote, std::string& workers) {
  AddRemote(app, "hosts", "show the hosts of a cluster, and who is placed there", remote)
      ->footer(kHostsFooter);
  CLI::App* drain =
      AddRemote(app, "drain", "let all members of a host leave, and place nothing there", remote);
  drain->add_option("host", remote.host, "name of the host (muster hosts shows them)")
      ->check(NameInUrl())
      ->required()
      ->type_name("HOST");
  CLI::Option* undo = drain->add_flag("--undo", remote.undo, "the host takes members again");
  drain->add_flag("--no-wait", remote.no_wait, "do not wait until nothing is left there")
      ->excludes(undo);
  drain->footer(kDrainFooter);
  CLI::App* scale = AddRemote(app, "scale", "change how many workers a job may have", remote);
  scale->add_option("job", remote.job, "id of the job (muster list shows them)")
      ->check(NameInUrl())
      ->required()
      ->type_name("JOB");
  scale->add_option("--workers", workers, "how many")
      ->required()
      ->check(WorkerRange(remote))
      ->type_name("N|MIN:MAX");
  scale->footer(kScaleFooter);
  AddQueueCommands(app, remote);
  CLI::App* top = AddRemote(app, "top", "show hosts and jobs as they are, each second", remote);
  top->add_flag("--once", remote.once, "once, in place of each second");
  top->footer(kTopFooter);
}

}  // namespace muster::cli
