#include "cli/agent.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/plural.h"
#include "lib/base/printable.h"
#include "lib/base/status.h"

namespace muster::cli {
namespace {

constexpr Duration kPatience = std::chrono::minutes(10);  // with a coordinator that is away
// For members to leave at a step boundary. What still runs then is stopped, which takes at most
// twelve seconds more: whoever ends programs waits for thirty, as a rule.
constexpr Duration kLeavePatience = std::chrono::seconds(13);

// `muster agent` from start to end.
class AgentRun {
 public:
  AgentRun(const AgentArguments& arguments, const Terminal& terminal)
      : arguments_(arguments), screen_(terminal, /*json=*/false) {}

  absl::StatusOr<int> Run(const ClusterMaker& make_cluster) {
    MUSTER_ASSIGN_OR_RETURN(
        cluster_,
        make_cluster({.folder = arguments_.dir,
                      .joins = true,
                      .coordinator = arguments_.coordinator,
                      .host = arguments_.host,
                      .address = arguments_.address,
                      .slots = arguments_.slots,
                      .allow_plaintext = arguments_.allow_plaintext,
                      .lease = arguments_.lease,
                      .thread_patience = arguments_.thread_patience},
                     {.on_exit = [this](const ProcessExit& exit) { OnExit(exit); },
                      .on_coordinator = [this](bool) { OnCoordinator(); },
                      .on_no_coordinator = [this](const std::string& why) { OnNone(why); },
                      .on_interrupt = [this](int) { OnInterrupt(); },
                      .on_stopped = [this] { cluster_->Quit(); }}));
    Say(absl::StrCat("host ", cluster_->host(), " with ", Plural(arguments_.slots, "slot"), " in ",
                     cluster_->folder()));
    cluster_->Start();
    WaitForIt();
    cluster_->Run();
    return code_;
  }

 private:
  void OnExit(const ProcessExit& exit) {
    if (!stopping_) Say(absl::StrCat("job ", exit.job, ": ", exit.text));
  }

  void OnCoordinator() {
    is_joined_ = true;
    ++sessions_;
    screen_.NotAgain();
    Say(absl::StrCat("joined the cluster at ", arguments_.coordinator));
  }

  void OnNone(const std::string& why) {
    if (stopping_) return;
    if (std::exchange(is_joined_, false)) WaitForIt();
    screen_.SayAgain(why, absl::StrCat("no session with the coordinator at ",
                                       arguments_.coordinator, ": ", why, "; trying again"));
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
  void OnInterrupt() {
    if (std::exchange(leaving_, true)) {
      if (!stopping_) Say("stopping without waiting for members that run here to leave");
      return Stop();
    }
    Say("leaving: members that run here hand their work over to others and end; the same again "
        "stops them at once");
    cluster_->Leave();
    cluster_->After(kLeavePatience, [this] {
      if (!stopping_) Stop();
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
  Screen screen_;
  std::unique_ptr<Cluster> cluster_;
  const int code_ = kExitLater;  // it ends only when it is told to, or has waited too long
  bool is_joined_ = false;
  int64_t sessions_ = 0;  // that it has had
  bool leaving_ = false;
  bool stopping_ = false;
};

}  // namespace

int RunAgent(const AgentArguments& arguments, const ClusterMaker& make_cluster,
             const Terminal& terminal) {
  const absl::StatusOr<int> code = AgentRun(arguments, terminal).Run(make_cluster);
  if (code.ok()) return *code;
  terminal.err << "muster: " << PrintableLines(code.status().message()) << std::endl;
  return ExitCodeOf(code.status());
}

}  // namespace muster::cli
