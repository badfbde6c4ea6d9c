// Commands about jobs of a cluster, or of a folder.
#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "cli/arguments_parts.h"

namespace muster::cli {
namespace {

constexpr char kSubmitFooter[] =
    "Prints the id that the job has. It trains when its turn comes, also when this terminal is "
    "closed.\n"
    "Exit code 0 once the cluster has taken it; of an id that is over, the exit code of that job.\n"
    "\n"
    "Examples:\n"
    "  muster submit examples/counting.yaml\n"
    "  muster submit job.yaml --id mine --set steps=500 && muster watch mine";

constexpr char kForkFooter[] =
    "The new job has the specification of the other one but for what --set says, begins at its "
    "own\n"
    "step 0 with that state, and keeps an account of its own, which names the state. The "
    "optimizer's\n"
    "slots come along where its kind is the same, and the moving average where both keep one.\n"
    "All may change but the task and the shapes of its tensors. The other job goes on as it did,\n"
    "and may be deleted.\n\n"
    "Examples:\n"
    "  muster fork count-1 --set batch=96 --set lanes=24\n"
    "  muster fork count-1@400 --id count-2 --set optimizer.learning_rate=0.01 --to 10.0.0.1:8080";
constexpr char kAdoptFooter[] =
    "FOLDER is a job's folder of checkpoints (CHECKPOINTS/JOB), which another cluster left. The "
    "coordinator\n"
    "must be able to read it: on another machine the path is that machine's. The newest checkpoint "
    "that is whole\n"
    "is copied, so FOLDER may go afterwards; the job goes on from there, with the same bits.\n"
    "\n"
    "Examples:\n"
    "  muster adopt old-cluster/checkpoints/count-1\n"
    "  muster adopt /shared/checkpoints/count-1 --as count-2 --to 10.0.0.1:8080";

constexpr char kListFooter[] =
    "Examples:\n"
    "  muster list\n"
    "  muster list --state running --json | jq -r .id\n"
    "  muster list --columns job,state,step,loss,spec.batch --sort loss\n"
    "  muster list --columns job,validation.loss,spec.optimizer.learning_rate --sort "
    "validation.loss";

constexpr char kStatusFooter[] =
    "Exit code 0 also of a job that has failed: --json has its exit_code.\n"
    "\n"
    "Examples:\n"
    "  muster status count-1\n"
    "  muster status --dir runs/one        of the one job there, also when nothing runs";

constexpr char kWatchFooter[] =
    "Ctrl-C ends the watching, not the job. At the end of the job its exit code is that of this "
    "command:\n"
    "0 done, 67 stopped or cancelled, 1, 64, 65, 66 or 78 failed.\n"
    "\n"
    "Examples:\n"
    "  muster watch count-1\n"
    "  muster watch count-1 --json | jq 'select(.event == \"checkpoint\")'";

constexpr char kResumeFooter[] =
    "It goes on from its newest checkpoint, with the specification that it has. One that runs is "
    "left alone.\n"
    "A job of muster train goes on with the same muster train command and its --dir.\n"
    "\n"
    "Example:\n"
    "  muster resume count-1 && muster watch count-1";

constexpr char kCancelFooter[] =
    "No checkpoint is written, and the job cannot go on; muster stop is for that.\n"
    "Exit code 1 if it was over before.\n"
    "\n"
    "Example:\n"
    "  muster cancel count-1";

constexpr char kDigestFooter[] =
    "Of the newest checkpoint. Equal digests are equal bits.\n"
    "\n"
    "Examples:\n"
    "  muster digest count-1\n"
    "  muster digest --dir runs/one --json | jq -r .digest";

constexpr char kAuditFooter[] =
    "Reads the ledger, which is written while the job trains. Exit code 0 if it proves that, else "
    "65.\n"
    "\n"
    "Examples:\n"
    "  muster audit count-1\n"
    "  muster audit --dir runs/one";

constexpr char kStopFooter[] =
    "The job stops at its next step, after a checkpoint. A job that has ended stays as it is.\n"
    "\n"
    "Examples:\n"
    "  muster stop count-1        muster resume count-1 lets it go on\n"
    "  muster stop --dir runs/one of a muster train, which goes on with the same command";

constexpr char kDeleteFooter[] =
    "The job must have ended. Its records and checkpoints go, and its logs, where --dir is the "
    "folder of the\n"
    "cluster. Nothing brings them back. Exit code 67 if you say no.\n"
    "\n"
    "Example:\n"
    "  muster delete count-1            asks first\n"
    "  muster delete count-1 --yes";

constexpr char kLogsFooter[] =
    "Prints what the workers and servers of a job wrote, those of all its starts on this machine: "
    "why one failed\n"
    "stands in its last lines. The lines of all members come in the order of their times, each "
    "after its member's\n"
    "name; with --member one member's alone, without its name; with --json each as an object, "
    "member and line.\n"
    "\n"
    "The files lie in the folder of the cluster (--dir), as jobs/JOB/logs/NAME.log. They stay when "
    "the job is over\n"
    "and when nothing runs there. JOB may be left out with --dir where the folder holds one job. "
    "What the\n"
    "coordinator wrote is in logs/coordinator.log.\n"
    "\n"
    "With --to, or where the folder has no log of the job, the coordinator is asked: it keeps the "
    "newest lines of\n"
    "the members on all hosts, and --follow goes on with those of all hosts, wherever members "
    "move and also when it\n"
    "is started again. \"... N lines (M bytes) are left out here\" stands where lines came faster "
    "than they were\n"
    "kept or read, or got lost with a session.\n"
    "--tail and --since begin later; a line without a time counts with the line before it.\n"
    "\n"
    "Examples:\n"
    "  muster logs count-1                               of the cluster in muster-cluster\n"
    "  muster logs --dir runs/one                        of the only job of a muster train\n"
    "  muster logs count-1 --member worker-0 --follow    one member's, until the job is over\n"
    "  muster logs count-1 --to 10.0.0.1:8080            from another machine, of all hosts\n"
    "  muster logs count-1 --to 10.0.0.1:8080 --follow --tail 20\n"
    "                                                    the same, the last lines and what "
    "follows\n"
    "  muster logs count-1 --since 15m                   of the last quarter of an hour\n"
    "  muster logs count-1 | grep -v ' info '            warnings and errors";

constexpr char kLedgerFooter[] =
    "Steps and samples are counted from 0. Steps that a rewind left out are not in the ledger.\n"
    "\n"
    "Examples:\n"
    "  muster ledger count-1 --step 12             who computed which lane, and of which samples\n"
    "  muster ledger --dir runs/one --sample 4711  every use of one sample";

constexpr char kHistoryFooter[] =
    "The history is made of the ledger: steps that a rewind left out are not in it. The gradient's "
    "norm is not\n"
    "known where nobody measures it: with on_nan: continue, and without clip_norm. Of a job with "
    "validation there\n"
    "is a column for each metric, such as validation.loss; it has a value at steps that measured.\n"
    "\n"
    "Examples:\n"
    "  muster history count-1 --csv > loss.csv\n"
    "  muster history --dir runs/one --json | jq .loss";

// Of the commands that a folder can answer in place of its cluster.
CLI::App* AddRunFolder(CLI::App* command) {
  command->get_option("--dir")->description(
      "in place of --to: the folder of a run or a cluster on this machine, also when nothing runs "
      "there");
  return command;
}

void AddFolder(CLI::App& command, RemoteArguments& remote) {
  command.remove_option(command.get_option("--dir"));
  command
      .add_option("--dir", remote.dir,
                  "the folder of the cluster (--dir of muster up); it says where --to is, too")
      ->capture_default_str()
      ->type_name("DIR");
}

// Of the commands that no folder can answer, or that delete.
CLI::App* NeedsJob(CLI::App* command) {
  command->get_option("job")->required()->description("id of the job (muster list shows them)");
  return command;
}

constexpr int64_t kMostTail = 10'000;

void AddJobCommands(CLI::App& app, RemoteArguments& remote) {
  const auto with_job = [&](const char* name, const char* about) {
    CLI::App* command = AddRemote(app, name, about, remote);
    command
        ->add_option("job", remote.job,
                     "id of the job (muster list shows them); with --dir it may be left out where "
                     "the folder holds one job")
        ->check(NameInUrl())
        ->type_name("JOB");
    return command;
  };
  AddRunFolder(with_job("status", "show how a job stands, and its members"))->footer(kStatusFooter);
  CLI::App* watch = NeedsJob(with_job("watch", "follow a job's events until it is over"));
  watch->add_flag("--details", remote.details, kAboutDetails);
  watch->footer(kWatchFooter);
  AddRunFolder(with_job("stop", "stop a job after a checkpoint; it can go on later"))
      ->footer(kStopFooter);
  CLI::App* resume = NeedsJob(with_job("resume", "let a job go on that was stopped or has failed"));
  AddAccept(*resume, remote.accept);
  resume->footer(kResumeFooter);
  NeedsJob(with_job("cancel", "end a job for good, also one that was stopped or failed"))
      ->footer(kCancelFooter);
  CLI::App* remove =
      NeedsJob(with_job("delete", "delete a job that has ended, with its checkpoints"));
  remove->add_flag("--yes", remote.yes, "do not ask");
  remove->footer(kDeleteFooter);
  AddFolder(*remove, remote);
  CLI::App* logs = with_job("logs", "print what the members of a job printed");
  logs->add_option("--member", remote.member, "only of this member, such as worker-0 or server-1")
      ->type_name("NAME");
  logs->add_flag("--follow", remote.follow, "go on with new lines until the job is over");
  logs->add_option("--tail", remote.tail, "only the last so many lines of each member")
      ->check(CLI::Range(int64_t{1}, kMostTail))
      ->type_name("N");
  logs->add_option("--since", remote.since, "only lines of the last 90s, 15m, 2h or 3d")
      ->transform(Period({.longest = 1'000'000'000, .may_be_number = true}))
      ->type_name("TIME");
  logs->footer(kLogsFooter);
  AddFolder(*logs, remote);
  AddRunFolder(with_job("digest", "show the SHA-256 of a job's parameters and optimizer state"))
      ->footer(kDigestFooter);
  AddRunFolder(
      with_job("audit",
               "prove that each sample was used once per epoch, or name the first that was not"))
      ->footer(kAuditFooter);
  CLI::App* ledger =
      AddRunFolder(with_job("ledger", "show which samples each step used, and who computed them"));
  ledger->add_option("--step", remote.step, "of this step only")
      ->transform(WholeNumber())
      ->type_name("N");
  ledger->add_option("--sample", remote.sample, "only of the steps that used this sample")
      ->transform(WholeNumber())
      ->type_name("ID");
  ledger->footer(kLedgerFooter);
  CLI::App* history = AddRunFolder(with_job(
      "history", "show loss, learning rate, gradient norm, speed and validation of each step"));
  history->add_flag("--csv", remote.csv, "comma-separated values, with a head")->excludes("--json");
  history->footer(kHistoryFooter);
}

}  // namespace

void AddRemotes(CLI::App& app, RemoteArguments& remote) {
  CLI::App* submit = AddRemote(app, "submit", "hand a job to a cluster", remote);
  submit->add_option("spec", remote.spec, "the job: a YAML or JSON file")
      ->required()
      ->type_name("SPEC.yaml");
  AddSettings(*submit, remote.settings);
  AddAccept(*submit, remote.accept);
  submit
      ->add_option("--id", remote.job,
                   "id of the job (default: made of its name); the same id twice is one job")
      ->type_name("ID");
  submit->footer(kSubmitFooter);
  CLI::App* adopt =
      AddRemote(app, "adopt", "take over a job from checkpoints of a cluster that is gone", remote);
  adopt->add_option("folder", remote.checkpoints, "the job's folder of checkpoints")
      ->required()
      ->type_name("FOLDER");
  adopt->add_option("--as", remote.job, "id that it gets (default: the one it had)")
      ->type_name("JOB_ID");
  AddAccept(*adopt, remote.accept);
  adopt->footer(kAdoptFooter);
  CLI::App* fork =
      AddRemote(app, "fork", "begin a new job with the state of another one's checkpoint", remote);
  fork->add_option("job", remote.parent,
                   "the job, and the step of its checkpoint, the name that it is kept by, or best "
                   "(default: the newest)")
      ->required()
      ->type_name("JOB[@STEP]");
  AddSettings(*fork, remote.settings);
  fork->add_option("--id", remote.job,
                   "id of the new job (default: made of its name); the same id twice is one job")
      ->type_name("ID");
  fork->footer(kForkFooter);
  CLI::App* list = AddRemote(app, "list", "show the jobs of a cluster", remote);
  list->add_option("--state", remote.state,
                   "only jobs in this state: queued, checking, starting, running, recovering, "
                   "stopping, done, "
                   "stopped, failed or cancelled")
      ->type_name("STATE");
  list->add_option("--namespace", remote.name_space, "only jobs in this namespace")
      ->type_name("NAMESPACE");
  list->add_option("--label", remote.labels, "only jobs with this label; may be given again")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  list->add_option("--columns", remote.columns,
                   "what is shown, with commas: job, name, state, reason, step, epoch, samples, "
                   "loss, workers, seconds, left, checkpoint, recoveries, rewinds, digest, "
                   "spec.FIELD of any field of its specification, or validation.METRIC, as it was "
                   "measured last")
      ->allow_extra_args(false)
      ->type_name("COLUMNS")
      ->excludes("--json");
  list->add_option("--sort", remote.sort, "in order of this column, the smallest first")
      ->type_name("COLUMN")
      ->excludes("--json");
  list->add_flag("--reverse", remote.is_reverse, "the largest first")->needs("--sort");
  AddRunFolder(list)->footer(kListFooter);
  AddJobCommands(app, remote);
}

}  // namespace muster::cli
