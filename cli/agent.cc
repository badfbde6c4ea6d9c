#include "cli/agent.h"

#include <signal.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cli/cluster_folder.h"
#include "cli/each_second.h"
#include "cli/format.h"
#include "lib/base/plural.h"
#include "lib/base/printable.h"
#include "lib/base/status.h"

namespace muster::cli {
namespace {

constexpr Duration kPatience = std::chrono::minutes(10);  // with a coordinator that is away
// For members to leave, or their job to stop after a checkpoint: that takes as long as a step and a
// checkpoint do. Whoever cannot wait for it tells us again, or kills us.
constexpr Duration kLeavePatience = std::chrono::minutes(10);
// Without a session nobody tells them to leave. What still runs then is stopped, which takes at
// most twelve seconds more: whoever ends programs waits for thirty, as a rule.
constexpr Duration kLeaveAlonePatience = std::chrono::seconds(13);

// `muster agent` from start to end, and one more host of `muster run` (`meeting`, else null).
class AgentRun {
 public:
  AgentRun(const AgentArguments& arguments, const MeetingReader* meeting, bool json,
           const Terminal& terminal)
      : arguments_(arguments),
        meeting_(meeting),
        screen_(terminal, json),
        coordinator_(arguments.coordinator) {}

  absl::StatusOr<int> Run(const ClusterMaker& make_cluster) {
    MUSTER_ASSIGN_OR_RETURN(
        cluster_,
        make_cluster({.folder = arguments_.dir,
                      .joins = true,
                      .coordinator = arguments_.coordinator,
                      .host = arguments_.host,
                      .node = arguments_.node,
                      .address = arguments_.address,
                      .metrics_address = arguments_.metrics_address,
                      .metrics_port = arguments_.metrics_port,
                      .slots = arguments_.slots,
                      .devices = arguments_.devices,
                      .bind_cores = arguments_.bind_cores,
                      .join = arguments_.join,
                      .join_token_file = arguments_.join_token_file,
                      .identity = arguments_.identity,
                      .lease = arguments_.lease,
                      .thread_patience = arguments_.thread_patience,
                      .plugins = arguments_.plugins},
                     {.on_start = [this](const ProcessStart& start) { Say(TextOf(start)); },
                      .on_exit = [this](const ProcessExit& exit) { OnExit(exit); },
                      .on_coordinator = [this](bool) { OnCoordinator(); },
                      .on_no_coordinator = [this](const std::string& why) { OnNone(why); },
                      .on_interrupt = [this](int signal) { OnInterrupt(signal); },
                      .on_stopped = [this] { cluster_->Quit(); }}));
    Say(absl::StrCat("host ", cluster_->host(), " with ", Plural(arguments_.slots, "slot"), " and ",
                     DevicesText(cluster_->devices()), " in ", cluster_->folder()));
    cluster_->Start();
    WaitForIt();
    if (meeting_ != nullptr) watch_ = std::make_unique<EachSecond>([this] { LookAtMeeting(); });
    cluster_->Run();
    watch_.reset();
    return code_;
  }

 private:
  // On a thread of its own.
  void LookAtMeeting() {
    if (std::optional<Meeting> meeting = meeting_->Look())
      cluster_->Post([this, meeting = *std::move(meeting)] { OnMeeting(meeting); });
  }

  void OnMeeting(const Meeting& meeting) {
    if (is_over_) return;
    if (meeting.exit_code) {
      is_over_ = true;
      code_ = *meeting.exit_code;
      Say(absl::StrCat("the run is over, with exit code ", code_));
      if (!stopping_) Stop();
    } else if (meeting.coordinator != coordinator_) {
      coordinator_ = meeting.coordinator;
      Say(absl::StrCat("the coordinator is at ", coordinator_, " now"));
      cluster_->GoTo(coordinator_);
    }
  }

  void OnExit(const ProcessExit& exit) {
    if (!stopping_) Say(absl::StrCat("job ", exit.job, ": ", exit.text));
  }

  void OnCoordinator() {
    is_joined_ = true;
    ++sessions_;
    screen_.NotAgain();
    Say(absl::StrCat("joined the cluster at ", coordinator_));
  }

  void OnNone(const std::string& why) {
    if (stopping_) return;
    if (std::exchange(is_joined_, false)) {
      WaitForIt();
      if (leaving_) LeaveAlone();
    }
    screen_.SayAgain(why, absl::StrCat("no session with the coordinator at ", coordinator_, ": ",
                                       why, "; trying again"));
  }

  // Nothing is started before it is back, and nobody would be told of what ends.
  void WaitForIt() {
    cluster_->After(kPatience, [this, session = sessions_] {
      if (stopping_ || is_joined_ || session != sessions_) return;
      Say("there has been no session with a coordinator for ten minutes, so this host ends; the "
          "same command joins again");
      Stop();
    });
  }

  // The second time its members are stopped wherever they are, the third time at once.
  void OnInterrupt(int signal) {
    if (std::exchange(interrupted_, true)) {
      if (!stopping_) Say("stopping without waiting for members that run here to leave");
      return Stop();
    }
    // A launcher's warning that time will be up goes to all hosts: the first one stops the job, and
    // for its last checkpoint it needs the members that run here.
    const bool is_warning = signal == SIGUSR1 || signal == SIGUSR2;
    if (is_warning && meeting_ != nullptr && sessions_ > 0)
      return Say(
          "time will be up: members that run here go on until the first host has stopped the job "
          "after a checkpoint; the same again stops them at once");
    leaving_ = true;
    Say("leaving: members that run here hand their work over to others and end; the same again "
        "stops them at once");
    cluster_->Leave();
    cluster_->After(kLeavePatience, [this] {
      if (!stopping_) Stop();
    });
    if (!is_joined_) LeaveAlone();
  }

  void LeaveAlone() {
    cluster_->After(kLeaveAlonePatience, [this, session = sessions_] {
      if (!stopping_ && !is_joined_ && session == sessions_) Stop();
    });
  }

  void Stop() {
    stopping_ = true;
    cluster_->Stop();
  }

  // What counted before stays as a line of its own.
  void Say(const std::string& text) {
    screen_.Finish();
    screen_.Say(text);
  }

  const AgentArguments arguments_;
  const MeetingReader* const meeting_;
  Screen screen_;
  std::string coordinator_;
  std::unique_ptr<Cluster> cluster_;
  std::unique_ptr<EachSecond> watch_;
  int code_ = kExitLater;  // it ends only when it is told to, or has waited too long
  bool is_over_ = false;   // the run of which it is one host
  bool is_joined_ = false;
  int64_t sessions_ = 0;  // that it has had
  bool interrupted_ = false;
  bool leaving_ = false;
  bool stopping_ = false;
};

int RunIt(AgentRun&& run, const ClusterMaker& make_cluster, const Terminal& terminal) {
  const absl::StatusOr<int> code = run.Run(make_cluster);
  if (code.ok()) return *code;
  terminal.err << "muster: " << PrintableLines(code.status().message()) << std::endl;
  // It was told to end before it had joined, or nobody was there for too long.
  const bool may_come_again =
      absl::IsCancelled(code.status()) || absl::IsUnavailable(code.status());
  return may_come_again ? kExitLater : ExitCodeOf(code.status());
}

}  // namespace

int RunAgent(AgentArguments arguments, const ClusterMaker& make_cluster, const Terminal& terminal) {
  // The folder of muster up, where hosts share it, says how to join.
  if (arguments.identity.empty() && arguments.join.empty()) {
    arguments.join = JoinAddressOf(arguments.dir);
    if (!arguments.join.empty()) arguments.join_token_file = JoinSecretFileOf(arguments.dir);
  }
  return RunIt(AgentRun(arguments, nullptr, /*json=*/false, terminal), make_cluster, terminal);
}

int RunHost(const AgentArguments& arguments, const MeetingReader& meeting, bool json,
            const ClusterMaker& make_cluster, const Terminal& terminal) {
  return RunIt(AgentRun(arguments, &meeting, json, terminal), make_cluster, terminal);
}

}  // namespace muster::cli
