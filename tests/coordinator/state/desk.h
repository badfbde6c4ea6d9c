// A coordinator with a clock in the hand, and the answers of sound members, for tests of its state
// machine.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/state/coordinator.h"
#include "gtest/gtest.h"
#include "lib/domain/samples.h"

namespace muster::coordinator {

inline JobSpec SpecOf(int32_t min, int32_t max) {
  JobSpec spec;
  spec.training.task = "counting";
  spec.training.lanes = 4;
  spec.training.batch = 4;
  spec.training.steps = 20;
  spec.training.chunk_bytes = 64;
  spec.runtime.workers_min = min;
  spec.runtime.workers_max = max;
  spec.runtime.checkpoint.every_seconds = 0;
  return spec;
}

// Two chunks, no optimizer slots.
inline NumericEnvironment Environment() {
  NumericEnvironment environment;
  environment.samples = 100;
  environment.data_hash = "d1";
  environment.tensors = {{"weight", {32}, TensorKind::kParameter}};
  environment.numeric = {{"isa", "avx2"}, {"threads", "1"}};
  return environment;
}

inline MemberId Id(const std::string& name, uint64_t life = 1) {
  return {name, {life, std::hash<std::string>()(name)}};
}

inline AgentHello HelloOf(const std::string& host, int32_t slots, uint64_t life = 1) {
  return {{host, {life, std::hash<std::string>()(host)}}, {}, host, slots};
}

// Of workers and servers that others start than host agents.
inline Placements PlacesOf(int32_t workers, int32_t servers = 0) {
  Placements places;
  for (int32_t i = 0; i < workers; ++i)
    places["worker-" + std::to_string(i)] = {Role::kWorker, "", {}};
  for (int32_t i = 0; i < servers; ++i)
    places["server-" + std::to_string(i)] = {Role::kServer, "", {}};
  return places;
}

class Desk {
 public:
  explicit Desk(RecoveredState found = {}, int32_t slots = 16, Settings settings = {})
      : coordinator_("cluster", TermNumber(1), settings, std::move(found), now_) {
    Give(AgentUp{HelloOf("host", slots)});
    actions_.clear();
  }

  // Where a process does not say its place, it says the right one.
  void Give(Input input) {
    if (auto* says = std::get_if<AgentSays>(&input))
      FillIn(says->exited.placement, says->exited.job, says->exited.name);
    if (auto* says = std::get_if<MemberSays>(&input))
      if (auto* join = std::get_if<muster::Join>(&says->message)) {
        FillIn(join->placement, join->job, join->id.name);
        if (join->sealed > ViewNumber(0) && join->term == TermNumber(0))
          join->term = coordinator_.term();  // that told it of that view
      }
    const std::vector<Action> actions = coordinator_.Handle(input, now_);
    actions_.insert(actions_.end(), actions.begin(), actions.end());
  }
  void Wait(std::chrono::milliseconds time) { now_ += time; }
  Time now() const { return now_; }
  void Say(const MemberId& member, ToCoordinator message) {
    Give(MemberSays{member, std::move(message)});
  }
  void Join(const MemberId& id, Role role) { Join(id, "job", Environment(), role); }
  void Join(const MemberId& id, const std::string& job = "job",
            NumericEnvironment environment = Environment(), Role role = Role::kWorker) {
    muster::Join join;
    join.job = job;
    join.start = StartOf(job);
    join.id = id;
    join.role = role;
    join.node = "host";
    join.address = id.name;
    join.environment = std::move(environment);
    Say(id, join);
  }
  // Members that hold nothing, and whatever the plan asks of them.
  void Activate(const std::vector<MemberId>& members, const std::string& job = "job") {
    for (const MemberId& id : members) Say(id, Sealed{Job(job).number, {}});
    for (const MemberId& id : members) Say(id, HoldsBase{Job(job).number, 0});
  }
  void Record(const MemberId& member, int64_t step, std::vector<JobCommand> commands = {},
              const std::string& job = "job", bool skipped = false) {
    StepRecord r;
    r.skipped = skipped;
    r.lineage = Job(job).lineages.back().number;
    r.step = Step(step);
    if (Job(job).view) r.view = Job(job).view->number;
    r.samples = StepSamples(Job(job).spec.training, 100, r.step);
    r.weight = 4;
    r.commands = std::move(commands);
    r.measures = measures_;
    Say(member, Records{{r}});
  }
  void Measure(const MemberId& member, int64_t step, std::vector<muster::Measure> measures) {
    measures_ = std::move(measures);
    Record(member, step);
    measures_.clear();
  }
  void Segment(const MemberId& member, int64_t step, std::vector<int> chunks, int64_t id,
               const std::string& job = "job", bool finite = true) {
    SegmentWritten written;
    written.segment.finite = finite;
    written.id = id;
    written.lineage = Job(job).lineages.back().number;
    written.step = Step(step);
    written.segment.file = member.name + "-" + std::to_string(step);
    for (int c : chunks) written.segment.entries.push_back({kValuesSlot, ChunkId(c), 0, 64, 0});
    Say(member, written);
  }

  StartNumber StartOf(const std::string& id = "job") const {
    const JobJournal* job = coordinator_.jobs().Find(id);
    return job == nullptr ? StartNumber() : job->start;
  }
  const JobStatus Status(const std::string& id = "job") const {
    for (JobStatus& status : coordinator_.jobs().Status())
      if (status.job.id == id) return status;
    ADD_FAILURE() << "no job " << id;
    return {};
  }
  JobJournal Job(const std::string& id = "job") const { return Status(id).job; }

  // What came out since the last time of asking.
  std::vector<std::string> Told() {
    std::vector<std::string> told;
    for (const Announce& t : Drain<Announce>())
      if (!t.text.empty()) told.push_back(t.text);
    return told;
  }
  template <class A>
  std::vector<A> Drain() {
    std::vector<A> found;
    for (const Action& action : std::exchange(actions_, {}))
      if (const auto* a = std::get_if<A>(&action)) found.push_back(*a);
    return found;
  }
  std::vector<Action> DrainAll() { return std::exchange(actions_, {}); }
  template <class M>
  std::vector<std::pair<std::string, M>> Sent() {
    std::vector<std::pair<std::string, M>> sent;
    for (const Action& action : std::exchange(actions_, {})) {
      if (const auto* to = std::get_if<ToMember>(&action))
        if (const auto* m = std::get_if<M>(&to->message)) sent.emplace_back(to->member.name, *m);
      if (const auto* all = std::get_if<ToMembers>(&action))
        if (const auto* m = std::get_if<M>(&all->message))
          for (const MemberId& id : all->members) sent.emplace_back(id.name, *m);
    }
    return sent;
  }
  Coordinator& coordinator() { return coordinator_; }

 private:
  void FillIn(PlacementNumber& number, const std::string& job, const std::string& name) const {
    const JobJournal* journal = coordinator_.jobs().Find(job);
    const Placement* placement = journal == nullptr ? nullptr : PlacementOf(*journal, name);
    if (number == PlacementNumber() && placement != nullptr) number = placement->number;
  }

  Time now_ = Time(std::chrono::seconds(1000));
  Coordinator coordinator_;
  std::vector<Action> actions_;
  std::vector<muster::Measure> measures_;  // of the next record
};

inline const MemberId kA = Id("worker-0"), kB = Id("worker-1"), kC = Id("worker-2");

// A job of two workers in its first view.
inline void RunTwo(Desk& desk, const JobSpec& spec = SpecOf(1, 2)) {
  desk.Give(Submit{"job", spec});
  desk.Join(kA);
  desk.Join(kB);
  desk.Activate({kA, kB});
  ASSERT_EQ(desk.Job().phase, JobPhase::kRunning);
  desk.Drain<Announce>();
}

}  // namespace muster::coordinator
