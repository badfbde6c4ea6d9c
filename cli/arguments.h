// The command line of `muster`, read once into plain structs.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "cli/mlflow_server.h"
#include "lib/base/time.h"
#include "lib/identity/tls_context.h"
#include "lib/launch/launch_plan.h"
#include "lib/launch/log_flags.h"

namespace muster::cli {

// Of members: how long a process may be silent, and a thread of it at work, and what it may run.
struct MemberArguments {
  double lease = 0;                  // seconds; 0: the default
  int64_t thread_patience = 0;       // the same
  std::vector<std::string> plugins;  // folders
};

// Of a job that runs on a cluster of its own.
struct JobArguments : MemberArguments {
  std::string spec;
  std::optional<int> workers;
  std::optional<int> servers;
  std::vector<std::string> settings;  // key=value
  std::vector<std::string> accept;    // what may be another than it was: "plugin"
  bool details = false;
  bool json = false;
  MlflowServer mlflow;
};

struct TrainArguments : JobArguments {
  std::string dir;     // empty: a fresh one
  std::string faults;  // a file; empty: none
};

// Of a host of a cluster, whose members an agent starts.
struct HostArguments : MemberArguments {
  std::string host;              // empty: the machine's name
  std::string node;              // of the machine; empty: a name of its own
  int slots = 1;                 // members that may run at once; default: cores
  std::string devices = "auto";  // none, how many, or ids with commas
  std::string metrics_address;   // of members, as of ClusterOptions; empty: loopback
  int metrics_port = 0;          // as of ClusterOptions
};

struct AgentArguments : HostArguments {
  std::string coordinator;             // HOST:PORT
  std::string dir = "muster-cluster";  // which hosts may share
  std::string address;                 // empty: where the coordinator sees this host
  bool bind_cores = false;             // each member to its share of the cores
  std::string join;             // HOST:PORT of the coordinator's join port; empty: it has joined
  std::string join_token_file;  // empty: it is in `identity`
  std::string identity;         // folder of its certificate; empty: one of its own, while it runs
};

// What lies in folders, without a coordinator.
struct CertsArguments {
  enum class Command { kInit, kShow };
  Command command = Command::kShow;
  std::string dir = "muster-coordinator";  // kInit: --dir of muster-coordinator
  std::string cluster;                     // kInit: the id; empty: a random one
  std::string folder;                      // kShow: an identity folder
  bool pem = false;                        // kShow: whom it trusts, and nothing else
  bool json = false;
};

struct RunArguments : JobArguments {
  std::string dir;                   // that all hosts see; empty: made of the run's id
  std::optional<int64_t> epochs;     // in `settings`, too
  LaunchOptions launch;              // without the node file
  std::string interface;             // a name or a network (CIDR); empty: as the launcher says
  std::string node;                  // of the machine; empty: a name of its own
  std::string host_suffix;           // after the name that the launcher gives the first host
  int64_t join_timeout = 600;        // seconds
  std::string hosts;                 // over ssh: "a,b[1-3]"
  std::string host_file;             // over ssh: a file
  std::vector<std::string> exclude;  // of these; each "a,b[1-3]"
  std::vector<std::string> env;      // NAME or NAME=VALUE
  int64_t stop_before_end = 120;     // seconds, where the launcher says when it ends the run
  bool bind_cores = false;           // each member to its share of the cores
  bool logs = false;                 // the first host shows what all members print
  bool over_ssh = false;             // another muster run has started this one
  std::vector<std::string> words;    // all of these, as they were given
  std::string metrics_address;       // of members, as of ClusterOptions; empty: loopback
  int metrics_port = 0;              // as of ClusterOptions
};

struct UpArguments : HostArguments {
  std::string dir = "muster-cluster";
  std::string listen = "127.0.0.1:8080";  // of the REST interface
  std::string coordinator;  // HOST:PORT for agents and members; empty: any port on loopback
  std::string join_listen;  // where those join; empty: any port beside it, if that is given
  std::string faults;       // a file; empty: none
  std::string webhooks;     // likewise
  MlflowServer mlflow;
};

struct RemoteArguments {
  enum class Command {
    kSubmit,
    kAdopt,
    kFork,
    kStatus,
    kWatch,
    kStop,
    kResume,
    kCancel,
    kDelete,
    kList,
    kLogs,
    kDigest,
    kAudit,
    kLedger,
    kHistory,
    kPlot,
    kTensorBoard,
    kHosts,
    kDrain,
    kScale,
    kTop,
    kQueue,
    kQuota,
    kMakeToken,
    kListTokens,
    kRevokeToken,
    kHostToken,
    kCertifyUser,
    kShowAuthority,
    kChangeAuthority,
    kFinishAuthority
  };
  Command command = Command::kList;
  std::string to = "https://127.0.0.1:8080";
  bool may_ask_in_plain_text = true;  // false: over https:// alone
  std::string authority;              // a file: whom to trust at https://; empty: not named
  // An id; of kSubmit, kFork and kAdopt: the id to give, empty: a new one, or the one it had. Empty
  // of another: the one job of `dir`.
  std::string job;
  std::string spec;                     // kSubmit: a file
  std::string checkpoints;              // kAdopt: a folder
  std::string parent;                   // kFork: JOB, JOB@STEP or JOB@NAME
  std::vector<std::string> settings;    // kSubmit, kFork
  std::vector<std::string> accept{};    // kSubmit, kResume, kAdopt
  std::string state;                    // kList: of the jobs to show; empty: all
  std::string name_space;               // kList: the same; kQuota: which, empty: all; kMakeToken
  std::vector<std::string> labels;      // kList: that they have; kQueue: to set. "key=value"
  std::vector<std::string> columns;     // kList: of the table; empty: as it is by itself
  std::string sort;                     // kList: the column by which it is in order; empty: none
  bool is_reverse = false;              // kList: the largest first
  std::vector<std::string> no_labels;   // kQueue: keys to take away
  std::optional<int64_t> priority;      // kQueue; kQuota: the highest of submitters
  std::optional<double> deadline;       // the same
  std::optional<double> time_to_live;   // the same
  std::optional<int64_t> retries;       // the same
  std::optional<int64_t> quota_slots;   // kQuota; -1: none
  std::optional<int64_t> quota_queued;  // the same
  // The folder of a run or cluster. kLogs, kDelete: where logs lie. Of others: who is asked in
  // place of `to`; of those that only look, also when nothing runs there.
  std::string dir = "muster-cluster";
  bool has_dir = false;           // `dir` was named
  bool has_to = false;            // `to` was named
  std::string member;             // kLogs: whose; empty: of all members
  bool follow = false;            // kLogs: until the job ends
  int64_t tail = 0;               // kLogs: the last so many lines of each member; 0: all
  double since = 0;               // kLogs: only of the last so many seconds; 0: all
  bool yes = false;               // kDelete: without asking
  std::optional<int64_t> step;    // kLedger: this one only
  std::optional<int64_t> sample;  // kLedger: only steps that used it
  bool csv = false;               // kHistory
  std::vector<std::string> jobs;  // kPlot, kTensorBoard: which; empty: all in `dirs`
  std::vector<std::string> dirs;  // the same: as `dir`, each of them
  std::string output;             // kPlot: the file that is written; kTensorBoard: the folder
  std::vector<std::string> series{"loss"};  // kPlot: their names
  double smooth = 0;                        // kPlot: the weight of what was before
  bool is_log = false;                      // kPlot: the axis
  bool details = false;                     // kWatch: learning rate and gradient norm
  std::string host;                         // kDrain, kHostToken
  bool undo = false;                        // kDrain: it takes members again
  bool no_wait = false;               // kDrain: it is not waited for until nothing is left there
  int64_t workers_min = 1;            // kScale
  int64_t workers_max = 1;            // the same
  std::string user;                   // kMakeToken; kCertifyUser: empty: whose token it is
  std::string role;                   // the same; kCertifyUser: empty: of the token that there is
  std::string identity;               // kCertifyUser: the folder that is filled
  std::optional<int64_t> expires_in;  // the same: seconds; nothing: never
  std::string token_id;               // kRevokeToken: an id, or the name of a host
  bool certified = false;             // kHostToken: its certificate is from outside
  bool force = false;                 // kFinishAuthority: whoever has no new certificate is nobody
  // Tells the coordinator who asks (cli/tokens.h); empty: it does not ask. No part of a command
  // line, which everybody on the machine can read.
  std::string token;
  Trust trust;        // likewise: what was found of whom to trust
  bool once = false;  // kTop: in place of each second
  // kTop: from one picture to the next. kAdopt, kFork, kDrain: from one look to the next.
  Duration pause = std::chrono::seconds(1);
  // kDrain: for how long it is waited for although nothing leaves.
  Duration drain_patience = std::chrono::minutes(10);
  // kResume: for how long a job that is stopping is waited for.
  Duration patience = std::chrono::minutes(1);
  bool json = false;
};

// Its words may name several jobs, and folders.
inline bool IsOverJobs(RemoteArguments::Command command) {
  return command == RemoteArguments::Command::kPlot ||
         command == RemoteArguments::Command::kTensorBoard;
}

// Its words name no job.
inline bool IsAboutHosts(RemoteArguments::Command command) {
  using Command = RemoteArguments::Command;
  return command == Command::kHosts || command == Command::kDrain || command == Command::kTop ||
         command == Command::kQuota;
}

inline bool IsAboutTokens(RemoteArguments::Command command) {
  using Command = RemoteArguments::Command;
  return command == Command::kMakeToken || command == Command::kListTokens ||
         command == Command::kRevokeToken || command == Command::kHostToken ||
         command == Command::kCertifyUser || command == Command::kShowAuthority ||
         command == Command::kChangeAuthority || command == Command::kFinishAuthority;
}

struct DemoArguments {
  std::string spec = "examples/code-lm.yaml";
  std::vector<std::string> settings;
  std::string dir;  // empty: a fresh one
};

struct DoctorArguments {
  RemoteArguments remote;                 // the cluster and the folder that are looked at
  std::vector<std::string> listen;        // HOST:PORT of which it is seen whether they are free
  std::vector<std::string> coordinators;  // HOST:PORT, as muster agent is given them
  std::string identity;                   // of this host: a folder; empty: none
};

// Of what a worker is asked for in this process's place.
struct TasksArguments {
  std::string task;                  // empty: all
  std::vector<std::string> plugins;  // folders
  bool json = false;
};

struct CheckArguments {
  std::string spec;
  std::optional<int> workers;
  std::optional<int> servers;
  std::vector<std::string> settings;  // key=value
  std::vector<std::string> plugins;   // folders
  int gradients = 0;                  // entries that are compared; 0: none
  bool json = false;
};

struct DataArguments {
  enum class Command { kInspect, kHash, kConvert };
  Command command = Command::kInspect;
  std::vector<std::string> what;      // a specification, or files
  std::string output;                 // kConvert: a file or folder
  std::string format;                 // of it; empty: its name says it
  int64_t shard_mib = 0;              // 0: as the worker has it
  std::vector<std::string> settings;  // key=value
  std::vector<std::string> plugins;   // none: its task is not asked
  bool json = false;
};

// Of a checkpoint, which is used without its cluster.
struct CheckpointArguments {
  std::string job;  // empty: the one job of `dir`; JOB@WHICH is `step`, too
  std::string dir = "muster-cluster";
  std::string checkpoints;  // the job's own folder of checkpoints; empty: that in `dir`
  std::string step;         // or the name of one that is kept; empty: the newest
  bool json = false;
};

// Of one that lies in a folder or in a cluster.
struct AnyCheckpointArguments : CheckpointArguments {
  RemoteArguments remote;  // who is asked in place of `dir`, where `has_to`
  bool average = false;    // the moving average of its parameters stands in their place
};

// Of its model.
struct SavedModelArguments : AnyCheckpointArguments {
  std::vector<std::string> data;      // other files in place of the job's; empty: those
  std::vector<std::string> settings;  // key=value
  std::vector<std::string> plugins;   // folders
};
struct EvaluateArguments : SavedModelArguments {};
struct GenerateArguments : SavedModelArguments {
  std::string prompt;
  int64_t bytes = 400;
  uint64_t seed = 0;
};

struct ExportArguments : AnyCheckpointArguments {
  std::string format = "safetensors";
  std::string output;  // a file
  bool optimizer = false;
};

struct CheckpointsArguments : AnyCheckpointArguments {
  enum class Verb { kList, kShow, kVerify, kDelete, kKeep };
  Verb verb = Verb::kList;
  std::string name;      // keep
  bool release = false;  // keep: no more
  bool force = false;    // delete
};

struct CompletionArguments {
  std::string shell;  // bash, zsh, fish: whose script is printed
  // Else the words after `muster` so far, the last of which is being typed.
  std::vector<std::string> words;
};

using Arguments =
    std::variant<TrainArguments, RunArguments, UpArguments, AgentArguments, RemoteArguments,
                 DemoArguments, CertsArguments, DoctorArguments, TasksArguments, CheckArguments,
                 DataArguments, EvaluateArguments, GenerateArguments, ExportArguments,
                 CheckpointsArguments, CompletionArguments>;

struct Parsed {
  Arguments arguments;
  LogFlags log;                  // train, run, demo, up, agent: of the processes that they start
  std::optional<int> exit_code;  // set: print `text` (to standard error unless 0) and end
  std::string text;
};
Parsed ParseArguments(int argc, const char* const* argv);

}  // namespace muster::cli
