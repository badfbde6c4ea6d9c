// The command line of `muster`, read once into plain structs.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "lib/base/time.h"
#include "lib/launch/log_flags.h"

namespace muster::cli {

struct TrainArguments {
  std::string spec;
  std::optional<int> workers;
  std::optional<int> servers;
  std::vector<std::string> settings;  // key=value
  std::string dir;                    // empty: a fresh one
  std::string faults;                 // a file; empty: none
  double lease = 0;                   // seconds; 0: the default
  int64_t thread_patience = 0;        // the same
  bool details = false;
  bool json = false;
};

struct AgentArguments {
  std::string coordinator;                   // HOST:PORT
  std::string dir = "muster-cluster";        // which hosts may share
  std::string host;                          // empty: the machine's name
  std::string address;                       // empty: where the coordinator sees this host
  std::vector<std::string> allow_plaintext;  // networks (CIDR)
  double lease = 0;                          // seconds; 0: the default
  int64_t thread_patience = 0;               // the same
  int slots = 1;                             // members that may run at once; default: cores
};

struct UpArguments {
  std::string dir = "muster-cluster";
  std::string listen = "127.0.0.1:8080";  // of the REST interface
  std::string coordinator;  // HOST:PORT for agents and members; empty: any port on loopback
  std::string host;         // name of this one; empty: the machine's name
  // Networks (CIDR) in which these may lie.
  std::vector<std::string> allow_plaintext;
  double lease = 0;             // seconds; 0: the default
  int64_t thread_patience = 0;  // the same
  int slots = 1;                // members that may run at once; default: cores
  std::string faults;           // a file; empty: none
};

struct RemoteArguments {
  enum class Command {
    kSubmit,
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
    kHosts,
    kDrain,
    kScale,
    kTop
  };
  Command command = Command::kList;
  std::string to = "http://127.0.0.1:8080";
  std::vector<std::string> allow_plaintext;  // networks (CIDR) in which `to` may lie
  // An id; of kSubmit: the id to give, empty: a new one. Empty of another: the one job of `dir`.
  std::string job;
  std::string spec;                   // kSubmit: a file
  std::vector<std::string> settings;  // kSubmit
  std::string state;                  // kList: of the jobs to show; empty: all
  // The folder of a run or cluster. kLogs, kDelete: where logs lie. Of others: who is asked in
  // place of `to`, also when nothing runs there.
  std::string dir = "muster-cluster";
  bool has_dir = false;           // `dir` was named
  bool has_to = false;            // `to` was named
  std::string member;             // kLogs: whose; empty: of all members
  bool follow = false;            // kLogs: until the job ends
  bool yes = false;               // kDelete: without asking
  std::optional<int64_t> step;    // kLedger: this one only
  std::optional<int64_t> sample;  // kLedger: only steps that used it
  bool csv = false;               // kHistory
  bool details = false;           // kWatch: learning rate and gradient norm
  std::string host;               // kDrain
  bool undo = false;              // kDrain: it takes members again
  bool no_wait = false;           // kDrain: it is not waited for until nothing is left there
  int64_t workers_min = 1;        // kScale
  int64_t workers_max = 1;        // the same
  bool once = false;              // kTop: in place of each second
  // kTop: from one picture to the next. kDrain: from one look to the next.
  Duration pause = std::chrono::seconds(1);
  // kDrain: for how long it is waited for although nothing leaves.
  Duration drain_patience = std::chrono::minutes(10);
  // kResume: for how long a job that is stopping is waited for.
  Duration patience = std::chrono::minutes(1);
  bool json = false;
};

// Its words name no job.
inline bool IsAboutHosts(RemoteArguments::Command command) {
  using Command = RemoteArguments::Command;
  return command == Command::kHosts || command == Command::kDrain || command == Command::kTop;
}

struct DemoArguments {
  std::string spec = "examples/code-lm.yaml";
  std::vector<std::string> settings;
  std::string dir;  // empty: a fresh one
};

using Arguments =
    std::variant<TrainArguments, UpArguments, AgentArguments, RemoteArguments, DemoArguments>;

struct Parsed {
  Arguments arguments;
  LogFlags log;                  // train, demo, up, agent: of the processes that they start
  std::optional<int> exit_code;  // set: print `text` (to standard error unless 0) and end
  std::string text;
};
Parsed ParseArguments(int argc, const char* const* argv);

}  // namespace muster::cli
