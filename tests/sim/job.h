// A job of the simulation: what was submitted, what it computes, what is on disk of it and what the
// coordinator has persisted. Lives as long as the world.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/state/coordinator.h"
#include "lib/base/exit_codes.h"
#include "tests/sim/disk.h"
#include "tests/sim/reference.h"
#include "tests/sim/stream.h"

namespace muster::sim {

struct JobOptions {
  std::string id = "sim";
  Sync sync = Sync::kAllreduce;
  int32_t workers = 3;
  int32_t workers_min = 1;
  int32_t servers = 2;
  int32_t lanes = 4;
  int32_t chunks = 4;            // of parameters
  int32_t buffers = 0;           // further chunks
  int32_t phases = 0;            // further chunks, of a job that syncs
  int64_t validation_every = 0;  // steps; 0: nothing is measured, and there is no chunk of sums
  int64_t patience = 0;          // measures that are no better, after which it is enough; 0: never
  int64_t delay = 0;             // of a follower; 0: the workers measure
  uint64_t bad_every = 0;        // about every so many samples one is left out; 0: none is
  int64_t batch = 0;             // 0: one sample a lane
  int64_t steps = 20;            // that there are in all
  int64_t checkpoint_every = 5;
  int64_t checkpoint_epochs = 0;
  bool keeps_best = false;     // of the states that are measured
  int64_t fingerprint_ms = 0;  // what a worker's fingerprint takes at least
  double checkpoint_seconds = 0;
  bool checkpoint_at_end = true;
  double clip_norm = 0;
  OnNan on_nan = OnNan::kStop;
  uint64_t not_finite_every = 0;  // about every so many steps one is not finite; 0: all are
  SumOrder order = SumOrder::kCanonical;
  OptimizerKind optimizer = OptimizerKind::kMomentum;
  int64_t submit_at = 0;
  bool may_be_cancelled = false;
  bool changes_runtime = false;  // when it is submitted again
  int32_t priority = 0;
  int32_t devices = 0;                    // of each worker
  bool is_deleted = false;                // once it has ended; then its id is taken by another
  std::optional<StreamOptions> stream{};  // its data comes while it trains
};
// Its data comes from this, and so it has as many steps as that tells.
void TakeStream(JobOptions& options, const StreamOptions& stream);

JobSpec SpecOf(const JobOptions& options);
NumericEnvironment EnvironmentOf(const JobOptions& options);

// What the coordinator has persisted; it outlives the process.
struct JobStore {
  std::optional<coordinator::JobJournal> journal;
  std::map<std::pair<LineageNumber, Step>, StepRecord> ledger;
  std::map<std::pair<LineageNumber, Step>, FingerprintPart> fingerprints;
  std::vector<Manifest> catalogue;                                  // committed ones
  std::map<std::pair<LineageNumber, Step>, StateMeasure> measures;  // beside some of these
  std::map<std::pair<LineageNumber, Step>, MeasureSums> facts;      // of a follower
  coordinator::StreamRows stream;

  StreamKnown known() const { return stream.known(); }
  bool ended() const { return journal && coordinator::Ended(journal->phase); }
  std::vector<StepRecord> Records() const;
  // The step after the last one that the current lineage has recorded without a gap.
  Step Recorded() const;
  // The recent steps as coordinator/runtime/journal.h loads them.
  coordinator::RecentSteps Recent() const;
  void Take(const coordinator::PersistStream& news);
  // Those that lib/checkpoint/catalogue.h would keep of the catalogue.
  std::vector<Manifest> Staying(const std::vector<Lineage>& lineages, const KeepRule& keep,
                                const BestRule& best) const;
  // Forgets all others.
  void Prune(const coordinator::PruneManifests& prune);
};

// The owner of chunk 0 of an active view was given a stop while this step was open.
struct StopGiven {
  StartNumber start;
  TermNumber term;
  ViewNumber view;
  int64_t id = 0;  // of the command
  Step step;
};

// Who is in a view, as its plan said.
struct Named {
  ViewNumber view;
  std::set<MemberId> members;

  Named() = default;
  Named(ViewNumber number, const std::vector<ViewMember>& all) : view(number) {
    for (const ViewMember& member : all) members.insert(member.id);
  }
};

struct SimJob {
  explicit SimJob(const JobOptions& options);
  std::vector<TensorKind> Kinds() const;

  const JobOptions options;
  JobSpec spec;  // as submitted last
  const NumericEnvironment environment;
  const Terms terms;
  Reference reference;
  Disk disk;
  std::optional<SimSource> source;  // of a job with a stream
  Spool spool;
  JobStore store;
  int64_t lanes_of_dead = 0;              // run by incarnations that are gone
  int64_t told_to_go = 0;                 // processes of it, by the agent, so far
  int64_t crashes = 0;                    // processes of it that a fault killed, so far
  std::set<Incarnation> ends_to_be_told;  // the coordinator has not heard of them
  std::optional<StopGiven> stop_given;    // the first one of the newest start and term
  std::set<Step> facts_told;              // states of which a fact was ever persisted
  bool delete_asked = false;
  bool gone = false;  // deleted; processes of it may still run

  // It has ended, and nobody submits it again: there is nothing to train on.
  bool has_no_sample() const {
    return options.stream && options.stream->samples == 0 && store.journal &&
           store.journal->phase == coordinator::JobPhase::kFailed &&
           store.journal->ending.exit_code == kExitBadData;
  }
};

// By id. An id that was deleted may be taken by another job.
using SimJobs = std::map<std::string, std::unique_ptr<SimJob>>;

}  // namespace muster::sim
