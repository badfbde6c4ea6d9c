// What the commands need of the host agent. cli/main.cc makes it of agent/; tests make their own.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "cli/mlflow_server.h"
#include "cli/progress.h"
#include "lib/base/exit_codes.h"
#include "lib/identity/tls_context.h"

namespace muster::cli {

struct ClusterOptions {
  std::string folder;
  bool joins = false;  // a cluster that is elsewhere, as one more host
  // HOST:PORT where the coordinator listens, or is to listen, for agents and members; empty: any
  // port on loopback.
  std::string coordinator;
  std::string host;     // name of this one; empty: that of the machine
  std::string node;     // of the machine, whose hosts all have the same; empty: a name of its own
  std::string address;  // where its members listen; empty: where the coordinator sees this host
  // Where members of this host serve metrics: an address of it, an interface or a network; empty:
  // on loopback.
  std::string metrics_address{};
  // There, the coordinator serves its own at this port and members theirs at the next ones; 0: any.
  int metrics_port = 0;
  std::string http;           // address of the REST port; empty: any on loopback
  std::string faults;         // a fault plan as YAML; empty: none
  std::string faults_source;  // what errors call it
  int workers = 0;            // of the job, which faults may name
  int servers = 0;
  bool has_follower = false;
  bool has_reader = false;
  int slots = 1;                 // how many workers and servers, of all jobs, may run at once
  std::string devices = "auto";  // of this host: auto, none, how many, or ids with commas
  bool bind_cores = false;       // each member to its share of the cores that we may use
  // Where the coordinator lets other hosts join, or this one joins; empty: nobody does, or it has.
  std::string join;
  std::string webhooks{};  // the file of --webhooks; empty: nobody is told of jobs
  MlflowServer mlflow{};
  std::string join_token_file;  // one that joins: as of AgentArguments
  std::string identity;         // the same; empty: a folder of its own, for as long as it runs
  Duration join_patience = std::chrono::minutes(10);  // with a coordinator that is away
  // One that joins: asked while it waits for the coordinator. False: it is not to join any more.
  std::function<bool()> may_still_join{};
  double lease = 0;                    // seconds; 0: the default
  int64_t thread_patience = 0;         // the same
  std::vector<std::string> plugins{};  // folders
};

struct ProcessStart {
  std::string job;  // empty: of the coordinator
  std::string process;
  int pid = 0;
  int64_t placement = 0;      // 0: of the coordinator
  std::string incarnation{};  // in hexadecimal digits; empty: the process draws it itself
};

// Of a member. With the line of its end it tells what ran on a host, and when.
inline std::string TextOf(const ProcessStart& start) {
  return absl::StrCat("job ", start.job, ": ", start.process, " starts as placement ",
                      start.placement, start.incarnation.empty() ? "" : ", incarnation ",
                      start.incarnation);
}

struct ProcessExit {
  std::string job;  // empty: of the coordinator
  std::string process;
  bool is_coordinator = false;
  int code = 0;
  int signal = 0;
  bool given_up = false;
  bool host_is_short = false;  // it was not started: this host has no room for it now
  std::string text;            // for people
  std::string last_lines;      // of its log
  std::string why{};           // what they say of the cause; empty: nothing
};

// A coordinator that cannot work, or cannot be started, for now is started again and again, with
// the same words each time.
inline bool IsLeftForNow(const ProcessExit& exit) {
  const bool left = exit.signal == 0 && exit.code == kExitLater;
  return exit.is_coordinator && !exit.given_up && (left || exit.host_is_short);
}
// Without what comes next, which is another delay at first.
inline std::string CauseOfLeaving(const ProcessExit& exit) {
  return exit.text.substr(0, exit.text.rfind("; it starts again"));
}

// Of a host whose own coordinator does not hear it.
inline std::string NotHeard(const std::string& host, const std::string& why) {
  return "this host, " + host + ", has no session with the coordinator, so nothing is started " +
         "here: " + why + "; trying again";
}

// Of a coordinator that is not started again. Its log has more.
inline std::string WhyGivenUp(const ProcessExit& exit, const std::string& folder) {
  const std::string log = folder + "/logs/" + exit.process + ".log";
  return exit.why.empty() ? exit.text + "; its log " + log + " does not say why"
                          : exit.text + ": " + exit.why + "; its log is " + log;
}

struct ProcessReport {
  std::string job;  // empty: of the coordinator
  std::string process;
  std::string event;
  std::string text;
  std::optional<StepSeen> step;
  std::string json;
};

// A sentence for people, such as of a server that does not answer.
inline bool IsNoteOfCoordinator(const ProcessReport& report) {
  return report.job.empty() && report.event == "note" && !report.text.empty();
}

// All called on the thread that is in Run.
struct ClusterEvents {
  std::function<void(const ProcessStart&)> on_start;
  std::function<void(const ProcessExit&)> on_exit;
  std::function<void(const ProcessReport&)> on_report;
  std::function<void(const std::string& text)> on_fault;
  std::function<void(bool up)> on_coordinator;  // it answers, or does so no more
  // Of one that joins, each time that it has tried in vain, or has lost the coordinator; of one
  // that starts the coordinator, each time that this listens and does not hear its own host.
  std::function<void(const std::string& why)> on_no_coordinator;
  std::function<void(int signal)> on_interrupt;  // Ctrl-C, SIGTERM, SIGHUP
  std::function<void()> on_stopped;              // after Stop: no process is left
};

class Cluster {
 public:
  virtual ~Cluster() = default;  // ends what still runs
  virtual void Start() = 0;
  virtual void Stop() = 0;  // politely; a second time: at once
  // Its members leave for good. One more host stops then; the one with the coordinator stays.
  virtual void Leave() = 0;
  virtual void GoTo(const std::string& coordinator) = 0;  // one more host: it listens there now
  virtual void Run() = 0;                                 // until Quit
  virtual void Quit() = 0;
  virtual void Post(std::function<void()> call) = 0;  // any thread; runs inside Run
  virtual void After(Duration delay, std::function<void()> call) = 0;
  virtual std::string url() const = 0;          // of the REST interface; empty: of one that joins
  virtual Trust trust() const = 0;              // whom to expect there
  virtual std::string coordinator() const = 0;  // where agents of other hosts find it
  virtual std::string join() const = 0;         // where they join; empty: they do not
  virtual std::string host() const = 0;         // its name
  virtual std::string folder() const = 0;
  virtual std::vector<std::string> devices() const = 0;  // ids of those that it offers
  virtual bool LiesOnOwnDisk() const = 0;                // its folder is lost with this machine
  // Those that have been started and have not ended, as the coordinator said last.
  virtual std::vector<std::string> JobsUnderWay() const = 0;
  virtual std::vector<std::string> MissedFaults() const = 0;  // that have not happened, for people
  // Faults do not wait for steps of the job beyond this one.
  virtual void JobEndsAfter(const std::string& job, int64_t last_step) = 0;
};

using ClusterMaker =
    std::function<absl::StatusOr<std::unique_ptr<Cluster>>(const ClusterOptions&, ClusterEvents)>;

}  // namespace muster::cli
