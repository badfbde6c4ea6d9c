// What the coordinator keeps of a job and must not forget: one value, journalled whole at each
// decision. Lives from the job's submission until it is deleted.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/state/lane_account.h"
#include "coordinator/state/placement.h"
#include "coordinator/state/signatures.h"
#include "lib/base/time.h"
#include "lib/domain/message.h"
#include "lib/domain/plugin_use.h"

namespace muster::coordinator {

enum class JobPhase {
  kQueued,
  kChecking,  // no worker has answered for its specification yet
  kStarting,
  kRunning,
  kRecovering,
  kStopping,
  kDone,
  kStopped,
  kFailed,
  kCancelled
};
inline constexpr JobPhase kJobPhases[] = {
    JobPhase::kQueued,     JobPhase::kChecking, JobPhase::kStarting, JobPhase::kRunning,
    JobPhase::kRecovering, JobPhase::kStopping, JobPhase::kDone,     JobPhase::kStopped,
    JobPhase::kFailed,     JobPhase::kCancelled};
std::string_view PhaseName(JobPhase phase);  // "queued" …
bool Ended(JobPhase phase);                  // done, stopped, failed, cancelled
bool CanGoOn(JobPhase phase);                // when it is submitted again: stopped, failed

// How one start of a job comes to its end. The next start has another.
struct JobEnding {
  bool stop_asked = false;
  // It stops so that others have its place, and goes back into the queue where it was.
  bool gives_way = false;
  // Others wait for its place, or its time is over: after a while it ends without that checkpoint.
  bool is_urgent = false;
  bool is_late = false;         // its deadline has passed
  std::optional<Step> stop_at;  // a record shows the stop command: members halt at this state
  // A record shows that what is measured has been no better for long enough: likewise.
  std::optional<Step> enough_at{};
  // Why it ends without the measure of its last state, though it was to have it; empty: it does
  // not.
  std::string unmeasured{};
  // Of the final checkpoint; empty until the job has ended with one. While the job waits to go on,
  // of what it reached before.
  std::string digest;
  int exit_code = 0;     // for a program that waited for it (lib/base/exit_codes.h)
  std::string sample{};  // text that the trained model made; it comes after the end
};

// Where a member of a started job runs, or is to run.
struct Placement {
  Role role = Role::kWorker;
  // Empty: it is started by others, in the coordinator's own slots. Nothing: it waits for room.
  std::optional<std::string> host;
  PlacementNumber number;  // 0: no host agent starts it
  Incarnation agent{};     // that was told to; one that comes after it knows nothing of it
  bool leaving = false;    // it is to leave while it lives, at a step boundary
  std::vector<std::string> devices{};  // ids of its host's; a number keeps them
  bool operator==(const Placement&) const = default;
};

// Its member waits for room again.
void Vacate(Placement& placement);

// The hosts that are made for it (launch.h), from when they were granted until it ends, fails or is
// submitted anew.
struct JobLaunch {
  int64_t number = 0;       // as a placement's, never given twice; 0: none were granted
  bool is_elastic = false;  // how many there are may change
  int32_t hosts = 0;        // else they are so many
  bool operator==(const JobLaunch&) const = default;
};

// A person lets the next view of a job have another file for its task. Lives until that view is
// active: what workers say until then binds only while they live.
struct AcceptedPlugin {
  NumericEnvironment environment;  // of the steps so far
  std::string by;                  // empty: nobody was asked who he is
};

struct JobJournal {
  std::string id;
  int64_t submission = 0;  // 1, 2, … in the order of submission
  JobSpec spec;
  StartNumber start;  // of its last start; 0: it never started
  StartNumber first_start;
  // Of its last start, by member; empty: it never started.
  std::map<std::string, Placement> placements;
  Signatures signatures;                 // of its processes; also of earlier places and starts
  std::set<std::string> left_out;        // hosts that could not run a member of this start
  std::set<std::string> without_plugin;  // those of them that only lack what its task needs
  NodePairs apart;                       // nodes that could not reach each other in this start
  JobLaunch launch;
  JobPhase phase = JobPhase::kQueued;
  std::string reason;  // why it is in that phase, for people
  // The job's once it has a view. Until then it is what its workers said, and binds only while one
  // of them is live.
  std::optional<NumericEnvironment> environment;
  std::vector<Lineage> lineages;
  ViewNumber number;         // highest view that was formed or published
  std::optional<View> view;  // the last active one
  bool resumes = false;      // the next view starts from a checkpoint, as spec.runtime.resume says
  JobEnding ending;
  int64_t next_command = 1;
  int64_t views = 0;       // active ones
  int64_t recoveries = 0;  // views after a loss
  int64_t rewinds = 0;
  StepTally tally;        // of the current state's history
  LaneAccount lanes;      // that were run again
  Step recorded;          // steps below it are in the ledger; more may be, while the job runs
  bool deleting = false;  // what is kept of it is being removed
  Duration ran{};         // over all its starts, while the coordinator was there to see it
  int32_t retried = 0;    // how often it was put back after it failed, since it was submitted last
  std::string owner{};    // the user who submitted it first; empty: nobody was asked
  std::optional<AcceptedPlugin> accepted{};
  std::vector<PluginChange> plugin_changes{};  // in the order in which they were accepted
};

// How many workers its last start was granted, with those that are to leave; 0: it never started.
int32_t WorkersOf(const JobJournal& job);
// Of that member; nothing: it has none, on no host.
const Placement* PlacementOf(const JobJournal& job, const std::string& member);
// The host on which it is placed; empty: it has no place, or no agent starts it.
std::string HostOfMember(const JobJournal& job, const std::string& member);

// The step that the job was adopted at: its records begin there, and its numeric environment is
// that of whoever did the steps below. 0: it began here.
Step AdoptedAt(const JobJournal& job);

// It goes on with what `accepts` says, and with nothing else that was accepted before and not used.
void Accept(JobJournal& job, const Accepts& accepts, const std::string& by);
// The environment that its steps so far were computed in; null: none were.
const NumericEnvironment* EnvironmentOfSteps(const JobJournal& job);
std::vector<PluginUse> PluginUsesOf(const JobJournal& job);

// Why the job may not be deleted, for people; empty: it may.
std::string WhyNotDeleted(const JobJournal& job);

}  // namespace muster::coordinator
