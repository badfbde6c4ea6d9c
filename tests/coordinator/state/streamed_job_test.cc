// A job whose data comes while two workers train, in batches of 4. Whole runs are the simulator's.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/state/job_run.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/domain/samples.h"
#include "tests/coordinator/state/actions_of.h"
#include "tests/coordinator/state/desk.h"

namespace muster::coordinator {
namespace {

using std::chrono::seconds;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

const Time kNow{seconds(1000)};
const MemberId kOne = Id("worker-0"), kTwo = Id("worker-1"), kReads = Id(kReaderName);

// Where the first action of that kind stands; behind the last, where there is none.
template <class Test>
size_t Where(const std::vector<Action>& actions, const Test& is_it) {
  return static_cast<size_t>(std::find_if(actions.begin(), actions.end(), is_it) - actions.begin());
}

NumericEnvironment Endless() {
  NumericEnvironment environment = Environment();
  environment.samples = kMostSamples;
  return environment;
}

JobSpec StreamSpec(int64_t steps = 0) {
  JobSpec spec = SpecOf(1, 2);
  spec.training.steps = steps;
  spec.training.epochs = steps == 0 ? 1 : 0;
  spec.training.data.format = DataFormat::kStream;
  spec.training.data.fields = {{"x", TensorType::kFloat32, {2}}};  // 8 bytes
  spec.training.stream = StreamFrom::kFolder;
  spec.runtime.stream = {.path = "/in", .max_bytes = 1 << 10};
  spec.runtime.checkpoint.keep = 2;
  return spec;
}

StoredJob Streamed(const JobSpec& spec = StreamSpec()) {
  StoredJob job;
  job.journal.id = "job";
  job.journal.spec = spec;
  job.journal.resumes = true;
  return job;
}

class StreamedJob {
 public:
  explicit StreamedJob(StoredJob job, bool starts = true)
      : run({"cluster", TermNumber(3), Settings()}, std::move(job), kNow) {
    if (!starts) return;
    Placements places = PlacesOf(2);
    places[kReaderName] = {Role::kReader, "", {}};
    run.Handle(StartRun{StartNumber(1), places}, kNow);
    Activate();
  }
  explicit StreamedJob(const JobSpec& spec = StreamSpec()) : StreamedJob(Streamed(spec)) {}

  void Activate(int64_t base = 0) {
    Join(kOne);
    Join(kTwo);
    AnswerView(base);
  }
  // Both hold what the plan asks of them.
  std::vector<Action> AnswerView(int64_t base = 0) {
    const ViewNumber number = run.journal().number;
    LocalState held;
    if (base > 0) {
      held.has_state = true;
      held.lineage = lineage();
      held.step = Step(base);
      held.results = held.sums = ChunkSet(2, false);
    }
    std::vector<Action> all;
    for (const MemberId& id : {kOne, kTwo}) Say(id, Sealed{number, held});
    for (const MemberId& id : {kOne, kTwo})
      for (Action& action : Say(id, HoldsBase{number, 0})) all.push_back(std::move(action));
    return all;
  }
  std::vector<Action> Say(const MemberId& id, ToCoordinator message) {
    return run.Handle(MemberSays{id, std::move(message)}, now);
  }
  std::vector<Action> Join(const MemberId& id, uint64_t was_told = 0) {
    muster::Join join;
    join.job = "job";
    join.start = StartNumber(1);
    join.id = id;
    join.role = id.name == kReaderName ? Role::kReader : Role::kWorker;
    if (join.role == Role::kWorker) join.environment = Endless();
    join.stream_positions = was_told;
    return Say(id, join);
  }
  void JoinReader() {
    Join(kReads);
    run.Handle(SpoolTidied{"job", kReads.incarnation}, kNow);
  }
  // All that is known, and these; in segments of 8 samples, as a reader with small ones.
  std::vector<Action> Spool(uint64_t count, bool end = false) {
    std::vector<Action> all;
    do {
      const bool begins = in_segment == 0 || in_segment == 8;
      if (begins && count > 0) {
        ++segment;
        first = positions;
        in_segment = 0;
      }
      const uint64_t more = std::min<uint64_t>(count, 8 - in_segment);
      in_segment += more;
      positions += more;
      count -= more;
      const bool is_end = end && count == 0;
      const Spooled told{segment, first, in_segment, {.file = "f", .sample = positions}, is_end};
      for (Action& action : Say(kReads, told)) all.push_back(std::move(action));
    } while (count > 0);
    return all;
  }
  LineageNumber lineage() const { return run.journal().lineages.back().number; }
  StepRecord RecordOf(int64_t step) const {
    const JobJournal& job = run.journal();
    StepRecord r;
    r.lineage = lineage();
    r.step = Step(step);
    r.view = job.view->number;
    const auto known = KnownStep(StepsOf(job.spec.training), {positions, {}}, r.step);
    r.samples = {0, static_cast<uint64_t>(step) * 4, known ? known->count : 4};
    r.weight = static_cast<int64_t>(r.samples.count);
    return r;
  }
  std::vector<Action> RecordUpTo(int64_t end) {
    std::vector<Action> all;
    for (; recorded < end; ++recorded)
      for (Action& action : Say(kOne, Records{{RecordOf(recorded)}}))
        all.push_back(std::move(action));
    return all;
  }
  std::vector<Action> Save(int64_t step, bool finite = true) {
    SegmentWritten written{++saved, lineage(), Step(step), {}};
    written.segment.file = "s" + std::to_string(saved);
    written.segment.finite = finite;
    for (const int c : {0, 1}) written.segment.entries.push_back({0, ChunkId(c), 0, 64, 0});
    const auto commits = Of<CommitManifest>(Say(kOne, written));
    EXPECT_THAT(commits, SizeIs(1));
    if (commits.empty()) return {};
    return run.Handle(ManifestCommitted{commits[0].manifest}, kNow);
  }

  JobRun run;
  Time now = kNow;
  uint64_t positions = 0, first = 0, in_segment = 0;
  int64_t segment = -1, recorded = 0, saved = 0;
};

TEST(StreamedJob, WhatAReaderSpoolsIsJournalledBeforeAnybodyIsTold) {
  StreamedJob job;
  EXPECT_EQ(job.run.Status().steps, 0) << "nobody knows";
  job.JoinReader();
  const auto actions = job.Spool(5);
  const size_t journalled =
      Where(actions, [](const Action& a) { return std::holds_alternative<PersistStream>(a); });
  ASSERT_LT(journalled, actions.size());
  const PersistStream& row = std::get<PersistStream>(actions[journalled]);
  ASSERT_THAT(row.segments, SizeIs(1));
  EXPECT_EQ(row.segments[0], (SpoolSegment{0, kReads.incarnation, 0, 5}));
  EXPECT_EQ(row.mark.place.sample, 5u);
  for (size_t i = 0; i < journalled; ++i)
    EXPECT_FALSE(std::holds_alternative<ToMember>(actions[i]) ||
                 std::holds_alternative<ToMembers>(actions[i]));
  EXPECT_THAT(Of<PersistJob>(actions), IsEmpty()) << "the job's entry is large";
  const auto acks = Said<AckSpooled>(actions);
  ASSERT_THAT(acks, SizeIs(1));
  EXPECT_EQ(acks[0].second.positions, 5u);
  EXPECT_EQ(acks[0].second.needed, 9u);  // two steps and one more
  const auto told = Said<StreamIs>(actions);
  ASSERT_THAT(told, SizeIs(2)) << "both workers";
  EXPECT_EQ(told[0].second.positions, 5u);
  EXPECT_THAT(told[0].second.segments, ElementsAre(row.segments[0]));
  EXPECT_EQ(job.run.Status().stream->positions, 5u);
}

TEST(StreamedJob, EachSessionIsToldAllOfIt) {
  StreamedJob job;
  job.JoinReader();
  job.Spool(20);
  const auto actions = job.Join(kOne, 20);
  const auto told = Said<StreamIs>(actions);
  ASSERT_THAT(told, SizeIs(1));
  EXPECT_THAT(told[0].second.segments, SizeIs(3));
  const size_t is = Where(actions, [](const Action& a) {
    const auto* to = std::get_if<ToMember>(&a);
    return to != nullptr && std::holds_alternative<StreamIs>(to->message);
  });
  const size_t activates = Where(actions, [](const Action& a) {
    const auto* to = std::get_if<ToMember>(&a);
    return to != nullptr && std::holds_alternative<Activate>(to->message);
  });
  EXPECT_LT(is, activates);
  EXPECT_THAT(Said<StreamIs>(job.Join(kReads)), IsEmpty());
}

TEST(StreamedJob, AReaderBeginsWhenTheSpoolWasSweptForIt) {
  StreamedJob job;
  auto actions = job.Join(kReads);
  ASSERT_THAT(Of<TidySpool>(actions), SizeIs(1));
  EXPECT_EQ(Of<TidySpool>(actions)[0].reader, kReads.incarnation);
  EXPECT_THAT(Said<SpoolFrom>(actions), IsEmpty());
  // Another one takes its place meanwhile: the sweep for the first says nothing to it.
  const MemberId next = Id(kReaderName, 2);
  EXPECT_THAT(Of<TidySpool>(job.Join(next)), SizeIs(1));
  actions = job.run.Handle(SpoolTidied{"job", kReads.incarnation}, kNow);
  EXPECT_THAT(Said<SpoolFrom>(actions), IsEmpty());
  actions = job.run.Handle(SpoolTidied{"job", next.incarnation}, kNow);
  ASSERT_THAT(Said<SpoolFrom>(actions), SizeIs(1));
  EXPECT_EQ(Said<SpoolFrom>(actions)[0].first, next);
  EXPECT_EQ(Said<SpoolFrom>(actions)[0].second.positions, 0u);
  actions = job.Join(next);
  EXPECT_THAT(Of<TidySpool>(actions), IsEmpty()) << "it writes already";
  EXPECT_THAT(Said<SpoolFrom>(actions), SizeIs(1));
}

TEST(StreamedJob, TheNextReaderGoesOnWhereTheJournalIs) {
  StreamedJob job;
  job.JoinReader();
  job.Spool(20);
  const MemberId next = Id(kReaderName, 2);
  const auto tidies = Of<TidySpool>(job.Join(next));
  ASSERT_THAT(tidies, SizeIs(1));
  EXPECT_THAT(tidies[0].facts, SizeIs(3));
  const auto from = Said<SpoolFrom>(job.run.Handle(SpoolTidied{"job", next.incarnation}, kNow));
  ASSERT_THAT(from, SizeIs(1));
  EXPECT_EQ(from[0].second.positions, 20u);
  EXPECT_EQ(from[0].second.place.sample, 20u);
  EXPECT_EQ(from[0].second.next_segment, 3);
  EXPECT_THAT(job.Spool(1), IsEmpty()) << "the first one was given up";
}

TEST(StreamedJob, WhatDoesNotGoOnBreaksTheReadersSession) {
  StreamedJob job;
  job.JoinReader();
  job.Spool(5);
  const auto actions = job.Say(kReads, Spooled{1, 7, 2, {}, false});
  EXPECT_THAT(Of<EndSession>(actions), SizeIs(1));
  EXPECT_THAT(Of<PersistStream>(actions), IsEmpty());
  EXPECT_EQ(job.run.Status().stream->positions, 5u);
  const auto by_worker = job.Say(kOne, Spooled{1, 5, 2, {}, false});
  EXPECT_THAT(Said<Leave>(by_worker), SizeIs(1));
  EXPECT_EQ(job.run.Status().stream->positions, 5u);
}

std::vector<std::string> StreamNews(const std::vector<Action>& actions) {
  std::vector<std::string> texts;
  for (const Announce& said : Of<Announce>(actions))
    if (said.event == "stream") texts.push_back(said.text);
  return texts;
}

// One who looks at the job finds it, and not only who reads the reader's log.
TEST(StreamedJob, WhatItsReaderLacksIsToldWhileItDoes) {
  StreamedJob job;
  job.JoinReader();
  Alive alive{Step(0), "reading the stream"};
  const auto say = [&](const std::string& lacks) {
    alive.lacks = lacks;
    return StreamNews(job.Say(kReads, alive));
  };
  EXPECT_THAT(say(""), IsEmpty());
  EXPECT_THAT(say("/in: gone"),
              ElementsAre("reader-0 cannot bring samples, and tries again: /in: gone"));
  EXPECT_THAT(say("/in: gone"), IsEmpty()) << "it is known";
  EXPECT_THAT(job.run.Status().waits_for,
              testing::EndsWith("; reader-0 cannot bring more: /in: gone"));
  EXPECT_THAT(say(""), ElementsAre("reader-0 can bring samples again"));
  EXPECT_THAT(job.run.Status().waits_for, Not(HasSubstr("cannot bring")));
  // What comes and goes fills no log.
  size_t told = 0;
  for (int i = 0; i < 100; ++i) told += say("/in: gone").size() + say("").size();
  EXPECT_GT(told, 0u);
  EXPECT_LT(told, 10u);
  // A worker's words are not the reader's.
  EXPECT_THAT(StreamNews(job.Say(kOne, Alive{Step(0), "", {}, {}, "/in: gone"})), IsEmpty());
}

TEST(StreamedJob, ARecordOfAStepThatIsNotKnownIsNotTaken) {
  StreamedJob job;
  job.JoinReader();
  job.Spool(8);
  job.RecordUpTo(1);
  EXPECT_EQ(job.run.Status().step, Step(1));
  const auto actions = job.Say(kOne, Records{{job.RecordOf(1)}});  // that waits for one sample more
  EXPECT_THAT(Of<PersistRecords>(actions), IsEmpty());
  EXPECT_THAT(Of<Announce>(actions), Not(IsEmpty()));
  EXPECT_EQ(job.run.Status().step, Step(1));
  EXPECT_THAT(job.run.Status().waits_for, HasSubstr("step 1 waits for the stream"));
  job.Spool(1);
  job.RecordUpTo(2);
  EXPECT_EQ(job.run.Status().step, Step(2));
}

TEST(StreamedJob, EndsWithItsStreamAndTheReaderLeavesWithItsSlot) {
  StreamedJob job;
  job.JoinReader();
  const auto actions = job.Spool(6, /*end=*/true);
  const auto told = Said<StreamIs>(actions);
  ASSERT_THAT(told, SizeIs(2));
  EXPECT_EQ(told[0].second.end, 6u);
  ASSERT_THAT(Said<Leave>(actions), SizeIs(1));
  EXPECT_EQ(Said<Leave>(actions)[0].first, kReads);
  EXPECT_EQ(Said<Leave>(actions)[0].second.exit_code, kExitDone);
  EXPECT_EQ(Said<AckSpooled>(actions).at(0).second.positions, 6u) << "its sender is answered";
  EXPECT_FALSE(job.run.journal().placements.contains(kReaderName));
  EXPECT_TRUE(job.run.GivesUpPlaces());
  EXPECT_EQ(job.run.Status().steps, 2);
  // One that did not hear it, as the coordinator died: its sender waits for the answer.
  const auto again = job.Join(kReads);
  const auto late = Said<Leave>(again);
  ASSERT_THAT(late, SizeIs(1));
  EXPECT_EQ(late[0].second.exit_code, kExitDone);
  ASSERT_THAT(Said<SpoolFrom>(again), SizeIs(1));
  EXPECT_EQ(Said<SpoolFrom>(again)[0].second.positions, 6u);
  EXPECT_TRUE(std::holds_alternative<SpoolFrom>(std::get<ToMember>(again.front()).message));
  EXPECT_THAT(Of<TidySpool>(again), IsEmpty());
  job.RecordUpTo(1);
  StepRecord last = job.RecordOf(1);
  last.samples.count = 2;
  last.weight = 2;
  job.Say(kOne, Records{{last}});
  EXPECT_EQ(job.run.Status().step, Step(2));
  const auto digests = Of<ComputeDigest>(job.Save(2));
  ASSERT_THAT(digests, SizeIs(1));
  job.run.Handle(DigestDone{"job", StartNumber(1), "d", ""}, kNow);
  EXPECT_EQ(job.run.journal().phase, JobPhase::kDone);
}

TEST(StreamedJob, WithStepsTheReaderIsDoneWithTheirSamples) {
  StreamedJob job(StreamSpec(/*steps=*/2));
  EXPECT_EQ(job.run.Status().steps, 2);
  job.JoinReader();
  EXPECT_THAT(Said<Leave>(job.Spool(7)), IsEmpty());
  EXPECT_THAT(Said<Leave>(job.Spool(1)), SizeIs(1));
  job.RecordUpTo(2);
  EXPECT_EQ(job.run.Status().step, Step(2));
}

TEST(StreamedJob, WithoutASampleItFailsAsItsDataIsBad) {
  StreamedJob job;
  job.JoinReader();
  job.Say(kReads, Spooled{0, 0, 0, {}, true});
  EXPECT_EQ(job.run.journal().phase, JobPhase::kFailed);
  EXPECT_EQ(job.run.journal().ending.exit_code, kExitBadData);
}

TEST(StreamedJob, WithoutASampleItFailsAtItsNextStart) {
  StoredJob stored = Streamed();
  stored.stream.mark.end = 0;
  JobRun run({"cluster", TermNumber(3), Settings()}, stored, kNow);
  run.Handle(StartRun{StartNumber(2), PlacesOf(2)}, kNow);
  EXPECT_EQ(run.journal().phase, JobPhase::kFailed);
  EXPECT_EQ(run.journal().ending.exit_code, kExitBadData);
}

TEST(StreamedJob, AnOlderJournalAdmitsNobodyWhoWasToldOfMore) {
  StreamedJob job;
  job.JoinReader();
  job.Spool(5);
  EXPECT_THAT(Of<EndSession>(job.Join(Id("worker-0", 2), 6)), SizeIs(1));
  EXPECT_THAT(Of<EndSession>(job.Join(Id(kReaderName, 2), 6)), SizeIs(1));
  EXPECT_THAT(Of<EndSession>(job.Join(Id(kReaderName, 2), 5)), IsEmpty());
}

TEST(StreamedJob, AnOlderJournalDeletesNothingAndMakesNoFacts) {
  for (const bool reader_comes_first : {false, true}) {
    StreamedJob job;
    if (reader_comes_first) {
      job.JoinReader();
      job.Spool(5);
    }
    EXPECT_THAT(Of<EndSession>(job.Join(Id("worker-0", 2), 9)), SizeIs(1));
    if (!reader_comes_first) {
      EXPECT_THAT(Of<TidySpool>(job.Join(kReads)), IsEmpty());
    }
    EXPECT_THAT(Of<PersistStream>(job.Spool(1)), IsEmpty());
    EXPECT_THAT(Of<TidySpool>(job.Join(Id(kReaderName, 2))), IsEmpty());
    if (reader_comes_first) continue;
    EXPECT_THAT(job.run.Status().waits_for, HasSubstr("knows of more than the journal"));
  }
}

TEST(StreamedJob, AReaderBeginsOnceAWorkerHasTriedTheSpecification) {
  StreamedJob job(Streamed(), /*starts=*/false);
  Placements places = PlacesOf(2);
  places[kReaderName] = {Role::kReader, "", {}};
  job.run.Handle(StartRun{StartNumber(1), places}, kNow);
  EXPECT_THAT(Of<TidySpool>(job.Join(kReads)), IsEmpty());
  EXPECT_THAT(Of<TidySpool>(job.Join(kOne)), SizeIs(1));
  const auto from = job.run.Handle(SpoolTidied{"job", kReads.incarnation}, kNow);
  EXPECT_THAT(Said<SpoolFrom>(from), SizeIs(1));
  EXPECT_THAT(Said<SpoolFrom>(job.Join(kTwo)), IsEmpty());
}

TEST(StreamedJob, AnotherIsNoReaderAndAReaderIsNothingElse) {
  StreamedJob job;
  muster::Join join;
  join.job = "job";
  join.start = StartNumber(1);
  join.id = Id("worker-9");
  join.role = Role::kReader;
  EXPECT_THAT(Said<Leave>(job.Say(join.id, join)), SizeIs(1));
  join.id = Id(kReaderName);
  join.role = Role::kWorker;
  join.environment = Endless();
  EXPECT_THAT(Said<Leave>(job.Say(join.id, join)), SizeIs(1));
  EXPECT_THAT(job.run.journal().view->members, SizeIs(2));
}

TEST(StreamedJob, AReadersDeathTouchesNoView) {
  StreamedJob job;
  job.JoinReader();
  job.Spool(9);
  const ViewNumber before = job.run.journal().number;
  ProcessExited exited;
  exited.job = "job";
  exited.start = StartNumber(1);
  exited.name = kReaderName;
  exited.lanes.incarnation = kReads.incarnation;
  exited.signal = 9;
  exited.cause = "killed by SIGKILL";
  job.run.Handle(MemberDown{kReads}, kNow);
  job.run.Handle(ExitTold{exited, false}, kNow);
  job.RecordUpTo(2);
  EXPECT_EQ(job.run.journal().number, before);
  EXPECT_EQ(job.run.journal().phase, JobPhase::kRunning);
}

TEST(StreamedJob, ABadSourceEndsItThoughOtherHostsAreThere) {
  for (const bool is_bad : {true, false}) {
    JobRun run({"cluster", TermNumber(3), Settings()}, Streamed(), kNow);
    Placements places = PlacesOf(2);
    places[kReaderName] = {Role::kReader, "host-a", PlacementNumber(7)};
    run.Handle(StartRun{StartNumber(1), places}, kNow);
    ProcessExited exited;
    exited.job = "job";
    exited.start = StartNumber(1);
    exited.name = kReaderName;
    exited.placement = PlacementNumber(7);
    exited.exit_code = is_bad ? kExitBadData : kExitFailed;
    exited.gave_up = !is_bad;
    exited.cause = is_bad ? "exit code 65" : "exit code 1";
    run.Handle(ExitTold{exited, /*may_move=*/true}, kNow);
    EXPECT_EQ(run.journal().phase == JobPhase::kFailed, is_bad);
    EXPECT_EQ(run.journal().left_out.contains("host-a"), !is_bad);
    if (is_bad) {
      EXPECT_EQ(run.journal().ending.exit_code, kExitBadData);
    }
  }
}

// ---- a stop

TEST(StreamedJob, AStopTakesNoMoreFactsAndEndsWhereDataDoes) {
  StreamedJob job;
  job.JoinReader();
  job.Spool(9);
  job.RecordUpTo(1);
  job.run.Handle(Stop{"job"}, kNow);
  EXPECT_FALSE(job.run.journal().ending.stop_at) << "step 1 is known";
  const auto spooled = job.Spool(8);
  EXPECT_THAT(Of<PersistStream>(spooled), IsEmpty());
  EXPECT_THAT(Said<AckSpooled>(spooled), IsEmpty());
  EXPECT_THAT(Said<StreamIs>(spooled), IsEmpty());
  job.positions = 9;
  const auto actions = job.RecordUpTo(2);
  EXPECT_EQ(job.run.journal().ending.stop_at, Step(2));
  ASSERT_THAT(Said<Seal>(actions), SizeIs(2));
  const auto entries = Of<PersistJob>(actions);
  ASSERT_FALSE(entries.empty());
  EXPECT_EQ(entries.back().job.ending.stop_at, Step(2)) << "before anybody is told";
  const auto active = Said<Activate>(job.AnswerView(2));
  ASSERT_THAT(active, SizeIs(2));
  EXPECT_EQ(active[0].second.view.end, Step(2));
  job.Save(2);
  job.run.Handle(DigestDone{"job", StartNumber(1), "d", ""}, kNow);
  EXPECT_EQ(job.run.journal().phase, JobPhase::kStopped);
}

TEST(StreamedJob, AStopThatNobodyIsToDoAStepForEndsAtOnce) {
  StreamedJob job;
  job.JoinReader();
  job.Spool(4);
  job.run.Handle(Stop{"job"}, kNow);
  EXPECT_EQ(job.run.journal().phase, JobPhase::kStopped);
  EXPECT_EQ(job.run.journal().ending.exit_code, kExitStopped);
}

TEST(StreamedJob, AStopRidesWithAResultWhereThereIsOne) {
  StreamedJob job;
  job.JoinReader();
  job.Spool(30);
  job.run.Handle(Stop{"job"}, kNow);
  StepRecord record = job.RecordOf(0);
  record.commands = {{1, JobCommandKind::kStop}};
  const auto actions = job.Say(kOne, Records{{record}});
  EXPECT_EQ(job.run.journal().ending.stop_at, Step(1));
  EXPECT_THAT(Said<Seal>(actions), IsEmpty());
}

// ---- the spool

TEST(StreamedJob, WhatNoCheckpointNeedsIsTrimmedAndThenDeleted) {
  StreamedJob job;
  job.JoinReader();
  job.Spool(8 * 6 + 1);
  job.RecordUpTo(4);
  EXPECT_THAT(Of<TrimSpool>(job.Save(4)), SizeIs(1)) << "the only one, of position 16";
  job.RecordUpTo(8);
  EXPECT_THAT(Of<TrimSpool>(job.Save(8)), IsEmpty()) << "two are kept";
  job.RecordUpTo(12);
  const auto actions = job.Save(12);
  const size_t rows =
      Where(actions, [](const Action& a) { return std::holds_alternative<PersistStream>(a); });
  const size_t files =
      Where(actions, [](const Action& a) { return std::holds_alternative<TrimSpool>(a); });
  ASSERT_LT(rows, files);
  ASSERT_LT(files, actions.size());
  EXPECT_EQ(std::get<PersistStream>(actions[rows]).trimmed,
            std::get<TrimSpool>(actions[files]).segments);
  EXPECT_EQ(job.run.Status().stream->trimmed, 32u);
}

TEST(StreamedJob, TheNewestFiniteCheckpointHoldsTheTrim) {
  StreamedJob job;
  job.JoinReader();
  job.Spool(8 * 8 + 1);
  job.RecordUpTo(4);
  job.Save(4);
  for (const int64_t step : {6, 8, 10}) {
    job.RecordUpTo(step);
    job.Save(step, /*finite=*/false);
  }
  EXPECT_EQ(job.run.Status().stream->trimmed, 16u);
}

TEST(StreamedJob, AReaderIsToldOfRoomWhenThereIsMore) {
  StreamedJob job;
  job.JoinReader();
  job.Spool(8 * 8);  // the spool's 1,024 bytes are full
  EXPECT_THAT(Said<AckSpooled>(job.RecordUpTo(7)), IsEmpty());
  const auto after = Said<AckSpooled>(job.Save(7));
  ASSERT_THAT(after, SizeIs(1));
  EXPECT_GT(after[0].second.room, 64u);
}

TEST(StreamedJob, ASpoolThatIsTooSmallNeverStopsTheJob) {
  JobSpec spec = StreamSpec();
  spec.runtime.stream.max_bytes = 1;
  StreamedJob job(spec);
  job.JoinReader();
  EXPECT_EQ(Said<AckSpooled>(job.Spool(9)).back().second.needed, 9u);
  const auto told = Said<AckSpooled>(job.RecordUpTo(1));
  ASSERT_THAT(told, SizeIs(1));
  EXPECT_EQ(told[0].second.needed, 13u);
}

// As many segments as there may be, of one sample each; and what the reader says of another one.
class ManySegments {
 public:
  ManySegments() : job(Stored()) {
    job.JoinReader();
    job.positions = kMostSpoolSegments;
    EXPECT_THAT(SpoolMore(), IsEmpty()) << "it is not answered";
  }
  std::vector<Action> SpoolMore() {
    const uint64_t next = kMostSpoolSegments;
    return job.Say(kReads,
                   Spooled{static_cast<int64_t>(next), next, 1, {.sample = next + 1}, false});
  }

  StreamedJob job;

 private:
  static StoredJob Stored() {
    StoredJob stored = Streamed();
    for (uint64_t i = 0; i < kMostSpoolSegments; ++i)
      stored.stream.segments.push_back({static_cast<int64_t>(i), kReads.incarnation, i, 1});
    return stored;
  }
};

TEST(StreamedJob, WithAsManySegmentsAsThereMayBeTheNextTrimIsWaitedFor) {
  ManySegments many;
  StreamedJob& job = many.job;
  job.RecordUpTo(4);
  const auto trims = job.Save(4);
  EXPECT_THAT(Of<TrimSpool>(trims), SizeIs(1));
  const auto from = Said<SpoolFrom>(trims);  // upon which the reader says it again
  ASSERT_THAT(from, SizeIs(1));
  EXPECT_EQ(from[0].second.positions, kMostSpoolSegments);
  const auto acks = Said<AckSpooled>(many.SpoolMore());
  ASSERT_THAT(acks, SizeIs(1));
  EXPECT_EQ(acks[0].second.positions, kMostSpoolSegments + 1);
}

TEST(StreamedJob, WithAsManySegmentsAsThereMayBeAndNoTrimItFailsOnceNoStepIsKnown) {
  ManySegments many;
  StreamedJob& job = many.job;
  const auto wait = [&](int64_t from, int64_t to) {
    for (int64_t second = from; second < to; ++second) {
      job.now = kNow + seconds(second);
      for (const MemberId& id : {kOne, kTwo, kReads}) job.Say(id, Alive{});
      job.run.Handle(Tick{}, job.now);
    }
  };
  wait(1, 100);
  EXPECT_EQ(job.run.journal().phase, JobPhase::kRunning) << "steps are known";
  job.RecordUpTo(kMostSpoolSegments / 4 - 1);
  wait(100, 150);
  EXPECT_EQ(job.run.journal().phase, JobPhase::kRunning) << "a checkpoint may be on its way";
  wait(150, 170);
  EXPECT_EQ(job.run.journal().phase, JobPhase::kFailed);
  EXPECT_THAT(job.run.journal().reason, HasSubstr("no more can be kept track of"));
}

// It stopped at step 7, with its checkpoints of steps 4 and 7, and samples from 16 on.
StoredJob Trimmed() {
  StreamedJob job;
  job.JoinReader();
  job.Spool(8 * 6 + 1);
  job.RecordUpTo(4);
  job.Save(4);
  job.RecordUpTo(7);
  job.Save(7);
  job.run.Handle(Cancel{"job"}, kNow);
  StoredJob stored = std::move(job.run).PutToRest();
  stored.journal.phase = JobPhase::kQueued;
  stored.journal.resumes = true;
  stored.journal.ending = {};
  return stored;
}

TEST(StreamedJob, AStartTrimsWhatTheOneBeforeCouldNot) {
  StoredJob stored = Trimmed();
  stored.journal.spec.runtime.checkpoint.keep = 1;
  StreamedJob job(stored);
  EXPECT_EQ(job.run.Status().stream->trimmed, 24u) << "below the checkpoint of step 7";
}

TEST(StreamedJob, GoesOnWithTheFactsThatItHas) {
  StreamedJob job(Trimmed());
  EXPECT_EQ(job.run.journal().phase, JobPhase::kRunning);
  EXPECT_EQ(job.run.Status().step, Step(7));
  EXPECT_EQ(job.run.Status().stream->positions, 49u);
  EXPECT_TRUE(job.run.journal().placements.contains(kReaderName));
}

TEST(StreamedJob, DoesNotGoBackBelowItsSamples) {
  struct Case {
    Resume resume;
    bool is_there;
  };
  for (const auto& [resume, is_there] :
       {Case{{ResumeKind::kStep, 4}, true}, Case{{ResumeKind::kStep, 3}, false},
        Case{{ResumeKind::kNever, 0}, false}}) {
    StoredJob stored = Trimmed();
    stored.journal.spec.runtime.resume = resume;
    StreamedJob job(stored);
    EXPECT_EQ(job.run.journal().phase, is_there ? JobPhase::kRunning : JobPhase::kFailed);
    if (is_there) continue;
    EXPECT_EQ(job.run.journal().ending.exit_code, kExitBadConfiguration);
    EXPECT_THAT(job.run.journal().reason, HasSubstr("not kept any more"));
  }
}

TEST(StreamedJob, WithoutACheckpointItDoesNotBeginAgainBelowItsSamples) {
  StoredJob stored = Trimmed();
  stored.manifests.clear();
  StreamedJob job(stored);
  EXPECT_EQ(job.run.journal().phase, JobPhase::kFailed);
  EXPECT_EQ(job.run.journal().ending.exit_code, kExitBadData);
}

TEST(StreamedJob, AfterARestartAllFollowsFromTheRows) {
  StoredJob stored = Trimmed();
  stored.journal.phase = JobPhase::kRunning;
  stored.journal.resumes = false;
  StreamedJob job(stored, /*starts=*/false);
  const auto told = Said<StreamIs>(job.Join(kOne, 49));
  ASSERT_THAT(told, SizeIs(1));
  EXPECT_EQ(told[0].second.positions, 49u);
  EXPECT_EQ(told[0].second.segments.front().first, 16u);
}

TEST(StreamedJob, AfterARestartAReaderBeginsWhenTheOthersAreBack) {
  StoredJob stored = Trimmed();
  stored.journal.phase = JobPhase::kRunning;
  stored.journal.resumes = false;
  StreamedJob job(stored, /*starts=*/false);
  EXPECT_THAT(Of<TidySpool>(job.Join(kReads)), IsEmpty());
  EXPECT_THAT(Of<TidySpool>(job.Join(kOne, 49)), IsEmpty());
  EXPECT_THAT(Of<TidySpool>(job.Join(kTwo, 49)), SizeIs(1));
}

TEST(StreamedJob, ItsSpoolIsSweptAtItsBeginningThoughNoReaderComes) {
  StoredJob stored = Trimmed();
  JobRun goes_on({"cluster", TermNumber(3), Settings()}, stored, kNow);
  EXPECT_THAT(Of<TidySpool>(goes_on.Handle(StartRun{StartNumber(2), PlacesOf(2)}, kNow)),
              IsEmpty());
  stored.stream.mark.end = 49;
  JobRun has_all({"cluster", TermNumber(3), Settings()}, stored, kNow);
  const auto tidies = Of<TidySpool>(has_all.Handle(StartRun{StartNumber(2), PlacesOf(2)}, kNow));
  ASSERT_THAT(tidies, SizeIs(1));
  EXPECT_EQ(tidies[0].facts, stored.stream.segments);
  EXPECT_EQ(tidies[0].reader, Incarnation{});
}

// ---- its place

TEST(StreamedJob, BeginsWithoutAPlaceForItsReader) {
  JobRun run({"cluster", TermNumber(3), Settings()}, Streamed(), kNow);
  run.Handle(StartRun{StartNumber(1), PlacesOf(2)}, kNow);
  const PlacedJob places = run.Places();
  EXPECT_THAT(places.unplaced, ElementsAre(MemberToPlace{kReaderName, Role::kReader}));
  EXPECT_THAT(run.ProcessesByHost().at("").processes, SizeIs(2));
}

}  // namespace
}  // namespace muster::coordinator
