// What the agent's supervisor hears and what it has done: its settings, events and actions. Plain
// values: the settings live as long as the supervisor, an event while it is handled, an action
// until it is carried out.
#pragma once

#include <chrono>
#include <compare>
#include <string>
#include <variant>
#include <vector>

#include "agent/state/exit.h"
#include "lib/base/time.h"
#include "lib/domain/message.h"

namespace muster::agent {

struct SupervisorOptions {
  // How many members this host holds; 0: any number. As long as some run that are wanted no more,
  // no others are started beyond this.
  int32_t slots = 0;
  // Of this host: ids. Of two processes that are to have the same one, the second starts when the
  // first has ended.
  std::vector<std::string> devices{};
  Duration first_backoff = std::chrono::milliseconds(200);  // doubles with each failure in a row …
  Duration longest_backoff = std::chrono::seconds(5);       // … up to this
  // So many failures without progress in between, however long each run was: given up. A step that
  // lies beyond all that the job had reached here is progress of the member that reports it, of a
  // coordinator that has come up, and of members of the job that have run for `healthy_after`
  // already (a spare has no steps of its own). This is the coordinator's limit; a job's processes
  // have its `restarts` before theirs.
  int crash_limit = 5;
  Duration healthy_after = std::chrono::minutes(10);
  // What the host did to a process (no room for another process or for its log; SIGKILL by somebody
  // for one that has completed steps, for a coordinator that has come up) says nothing about the
  // program: it is no such failure, and it is tried again for so long without progress.
  Duration host_patience = std::chrono::hours(1);
  // Failures of a coordinator count for so long: without a job there is no progress.
  Duration coordinator_crash_window = std::chrono::hours(1);
  // How long a member that is no longer wanted may run before SIGTERM: its coordinator has told it
  // to leave, and it may have something to report first.
  Duration leave_grace = std::chrono::seconds(2);
  Duration stop_grace = std::chrono::seconds(10);  // from SIGTERM to SIGKILL
  // A member starts once it has a certificate, for which its coordinator is asked. Until there is
  // one it waits, and nothing is counted.
  bool signs = false;
};

struct ProcessKey {
  std::string job;  // empty: the coordinator, which serves all jobs
  std::string name;
  auto operator<=>(const ProcessKey&) const = default;
};
inline const ProcessKey kCoordinatorKey{"", "coordinator"};

// ---- events

struct WantCoordinator {};
struct WantMembers {  // everything that the coordinator wants on this host
  Wanted wanted;
};
struct SpawnFailed {  // answers Spawn; a Spawn that is not answered so is a running process
  ProcessKey key;
  std::string reason;
  bool host_is_short = false;  // as in Exit
};
struct Signed {  // answers AskToSign: the process may start
  ProcessKey key;
  PlacementNumber placement;
};
struct SignFailed {  // answers it, too: it may be tried again
  ProcessKey key;
  PlacementNumber placement;
  std::string reason;
};
struct Exited {
  ProcessKey key;
  Exit exit;
};
struct Progressed {  // the process completed a step, perhaps one that was done before a rewind
  ProcessKey key;
  muster::Step step;  // the agent takes its own steps, too
};
struct SessionUp {};  // with the coordinator, which may have missed exits
// Until Release, an exit of this process is deliberate and nothing is started in its place.
struct KeepDown {
  ProcessKey key;
};
struct Release {
  ProcessKey key;
};
struct StopAll {};  // for good; a second one: at once
struct Tick {};
using SupervisorEvent =
    std::variant<WantCoordinator, WantMembers, SpawnFailed, Signed, SignFailed, Exited, Progressed,
                 SessionUp, KeepDown, Release, StopAll, Tick>;

// ---- actions, in order

struct Spawn {
  ProcessKey key;
  StartNumber start;  // of the job, which has a later one when it was put back into the queue
  Role role = Role::kWorker;  // means nothing for the coordinator
  PlacementNumber placement{};
  std::vector<std::string> devices{};  // ids
};
struct AskToSign {  // the certificate of a process that starts next
  ProcessKey key;
  PlacementNumber placement{};
};
struct SendSignal {
  ProcessKey key;
  int signal = 0;
};
struct ReportExit {
  ProcessExited exited;
};
struct TellDevices {  // all of them, where one has another holder than was told last
  std::vector<HostDevice> devices;
};
enum class AfterExit {
  kStartsAgain,  // after `delay`
  kKeptDown,     // by a fault, until released
  kFinished,     // done, left, or stopped by us
  kGivenUp,      // hopeless, or a crash loop
};
struct NoteExit {  // for people
  ProcessKey key;
  Exit exit;
  AfterExit after = AfterExit::kFinished;
  Duration delay{};
  std::string text;  // "worker-2 ended with exit code 1: no lane; it starts again in 0.2 s"
};
struct NoteWait {  // for people: it is due, and a device of its place is held
  ProcessKey key;
  std::string text;  // "worker-2 waits for device 1, which a process that ends still has"
};
using SupervisorAction =
    std::variant<Spawn, AskToSign, SendSignal, ReportExit, TellDevices, NoteExit, NoteWait>;
using SupervisorActions = std::vector<SupervisorAction>;

}  // namespace muster::agent
