#include "coordinator/runtime/journal.h"

#include <cstdlib>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/base/whole_file.h"
#include "lib/checkpoint/catalogue.h"
#include "lib/wire/job_codec.h"
#include "lib/wire/journal_codec.h"
#include "tests/coordinator/runtime/scripted_member.h"
#include "tests/support/faulty_kv.h"
#include "tests/support/recorded_steps.h"

namespace muster::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

JobJournal EverythingSet() {
  JobJournal job;
  job.id = "a";
  job.submission = 4;
  job.spec = *Complete(CountingSpec(3));
  job.phase = JobPhase::kRecovering;
  job.reason = "worker-1 was \"lost\"\n";
  job.environment = CountingEnvironment();
  job.lineages = {{LineageNumber(1), LineageNumber(0), Step(0), "start"},
                  {LineageNumber(2), LineageNumber(1), Step(5), "a rewind"}};
  job.number = ViewNumber(9);
  View view;
  view.job = "a";
  view.term = TermNumber(2);
  view.number = ViewNumber(8);
  view.lineage = LineageNumber(2);
  view.members = {{{"worker-0", {1, 2}}, Role::kWorker, "here", "127.0.0.1:1", Rank(0), 0}};
  view.lanes.holder_of = {0, 0};
  view.first_lanes.holder_of = {0, 0};
  view.owner_of = {0};
  view.first_step = Step(6);
  view.first_done = {true};
  view.end = Step(20);
  job.view = view;
  job.resumes = true;
  job.ending.stop_asked = true;
  job.ending.gives_way = true;
  job.ending.is_urgent = true;
  job.ending.is_late = true;
  job.ran = std::chrono::milliseconds(12'345);
  job.retried = 3;
  job.ending.stop_at = Step(12);
  job.next_command = 3;
  job.views = 4;
  job.recoveries = 2;
  job.rewinds = 1;
  job.tally = {3, 5};
  LaneAccount::Value lanes{16, 17, 18, {}};
  lanes.departed[{1, ~0ull}].lost = true;
  lanes.departed[{5, 6}] = {
      true, LaneCount{{5, 6}, 40, LineageNumber(2), Step(6), 3}, true, Step(6), LineageNumber(2), 2,
      true};
  job.lanes = LaneAccount(lanes);
  job.ending.digest = "abc";
  job.ending.sample = "int main";
  job.ending.exit_code = 75;
  job.start = StartNumber(7);
  job.first_start = StartNumber(5);
  job.placements = {
      {"worker-0",
       {Role::kWorker, "host-a", PlacementNumber(77), {3, ~0ull}, /*leaving=*/true, {"0", "G-1"}}},
      {"worker-1", {Role::kWorker, std::nullopt, {}}},
      {"server-0", {Role::kServer, "", {}}},
      {"follower-0", {Role::kFollower, std::nullopt, {}}},
      {"reader-0", {Role::kReader, std::nullopt, {}}}};
  job.signatures = {{{1, 2}, {PlacementNumber(77), "host-a", "00ff"}},
                    {{3, ~0ull}, {PlacementNumber(70), "host-b", "ff00"}}};
  job.left_out = {"host-b", "host-c"};
  job.without_plugin = {"host-c"};
  job.apart = {{"node-a", "node-b"}, {"node-a", "node-c"}};
  job.launch = {.number = (int64_t{3} << 32) + 1, .is_elastic = true, .hosts = 4};
  job.recorded = Step(9);
  job.deleting = true;
  job.owner = "ada";
  job.plugin_changes = {{LineageNumber(1), Step(3), "a.so sha256:aa", "a.so sha256:bb", "ann"},
                        {LineageNumber(2), Step(8), "a.so sha256:bb", "a.so sha256:cc", ""}};
  job.accepted = {{.samples = 5, .data_hash = "d", .numeric = {{kPlugin, "a.so sha256:cc"}}},
                  "bea"};
  return job;
}

void ExpectSame(const JobJournal& a, const JobJournal& b) {
  EXPECT_EQ(a.id, b.id);
  EXPECT_EQ(a.submission, b.submission);
  EXPECT_EQ(a.spec, b.spec);
  EXPECT_EQ(a.phase, b.phase);
  EXPECT_EQ(a.reason, b.reason);
  EXPECT_EQ(a.environment, b.environment);
  EXPECT_EQ(a.lineages, b.lineages);
  EXPECT_EQ(a.number, b.number);
  EXPECT_EQ(a.view, b.view);
  EXPECT_EQ(a.resumes, b.resumes);
  EXPECT_EQ(a.ending.stop_asked, b.ending.stop_asked);
  EXPECT_EQ(a.ending.gives_way, b.ending.gives_way);
  EXPECT_EQ(a.ending.is_urgent, b.ending.is_urgent);
  EXPECT_EQ(a.ending.is_late, b.ending.is_late);
  EXPECT_EQ(a.ran, b.ran);
  EXPECT_EQ(a.retried, b.retried);
  EXPECT_EQ(a.ending.stop_at, b.ending.stop_at);
  EXPECT_EQ(a.next_command, b.next_command);
  EXPECT_EQ(a.views, b.views);
  EXPECT_EQ(a.recoveries, b.recoveries);
  EXPECT_EQ(a.rewinds, b.rewinds);
  EXPECT_EQ(a.tally, b.tally);
  EXPECT_EQ(a.lanes, b.lanes);
  EXPECT_EQ(a.ending.digest, b.ending.digest);
  EXPECT_EQ(a.ending.sample, b.ending.sample);
  EXPECT_EQ(a.ending.exit_code, b.ending.exit_code);
  EXPECT_EQ(a.start, b.start);
  EXPECT_EQ(a.first_start, b.first_start);
  EXPECT_EQ(a.placements, b.placements);
  EXPECT_EQ(a.signatures, b.signatures);
  EXPECT_EQ(a.left_out, b.left_out);
  EXPECT_EQ(a.without_plugin, b.without_plugin);
  EXPECT_EQ(a.apart, b.apart);
  EXPECT_EQ(a.launch, b.launch);
  EXPECT_EQ(a.recorded, b.recorded);
  EXPECT_EQ(a.deleting, b.deleting);
  EXPECT_EQ(a.owner, b.owner);
  EXPECT_EQ(a.plugin_changes, b.plugin_changes);
  ASSERT_EQ(a.accepted.has_value(), b.accepted.has_value());
  if (!a.accepted) return;
  EXPECT_EQ(a.accepted->environment, b.accepted->environment);
  EXPECT_EQ(a.accepted->by, b.accepted->by);
}

// Its entry was last written when the ledger was not so far yet.
JobJournal Running() {
  JobJournal job = EverythingSet();
  job.recorded = Step(0);
  return job;
}

StepRecord Record(LineageNumber lineage, Step step) {
  return {.lineage = lineage,
          .step = step,
          .view = ViewNumber(1),
          .lane_holders = {{"worker-0", {1, 1}}, {"worker-0", {1, 1}}},
          .samples = {0, 0, 5},
          .weight = 5,
          .loss = 10};
}

// A store that outlives the journal.
class Borrowed final : public Kv {
 public:
  explicit Borrowed(Kv& kv) : kv_(kv) {}
  absl::StatusOr<std::string> Get(absl::string_view family, absl::string_view key) const override {
    return kv_.Get(family, key);
  }
  absl::Status Write(const Batch& batch) override { return kv_.Write(batch); }
  absl::Status Scan(absl::string_view family, absl::string_view first, absl::string_view last,
                    const Visit& visit) const override {
    return kv_.Scan(family, first, last, visit);
  }

 private:
  Kv& kv_;
};

absl::StatusOr<std::unique_ptr<Journal>> OpenOn(Kv& kv) {
  return Journal::Open(std::make_unique<Borrowed>(kv));
}

absl::StatusOr<RecoveredState> LoadFrom(Kv& kv) {
  auto journal = OpenOn(kv);
  if (!journal.ok()) return journal.status();
  std::vector<std::string> damaged;
  return (*journal)->Load(damaged);
}

TEST(JobCodec, KeepsEveryField) {
  const JournalEntry entry{EverythingSet(),
                           {1, 2, 3},
                           {0.25, FingerprintEntry{LineageNumber(2), Step(6), {7, 9, true}},
                            MeasuredEntry{LineageNumber(2), Step(4), {{-0.5, 3}, {1e300, 0.25}}}}};
  const auto back = DecodeJob(EncodeJob(entry));
  ASSERT_TRUE(back.ok()) << back.status();
  ExpectSame(back->job, entry.job);
  EXPECT_EQ(back->times, entry.times);
  EXPECT_EQ(back->tail.loss, entry.tail.loss);
  EXPECT_EQ(back->tail.fingerprint, entry.tail.fingerprint);
  EXPECT_EQ(back->tail.measured, entry.tail.measured);
}

TEST(JobCodec, KeepsEveryPhaseAndWhatIsAbsent) {
  for (const JobPhase phase : kJobPhases) {
    JobJournal job;
    job.id = "b";
    job.spec = *Complete(CountingSpec());
    job.phase = phase;
    const auto back = DecodeJob(EncodeJob({job, {}, {}}));
    ASSERT_TRUE(back.ok()) << back.status();
    ExpectSame(back->job, job);
  }
}

TEST(JobCodec, NamesTheFieldThatIsDamaged) {
  EXPECT_TRUE(absl::IsDataLoss(DecodeJob("\xff\xff garbage").status()));
  const auto empty = DecodeJob("");
  EXPECT_TRUE(absl::IsDataLoss(empty.status()));
  EXPECT_THAT(empty.status().message(), HasSubstr("format"));
  const std::string bytes = EncodeJob({EverythingSet(), {}, {}});
  for (size_t cut = 0; cut < bytes.size(); cut += 7)
    EXPECT_FALSE(DecodeJob(bytes.substr(0, cut)).ok()) << cut;
}

// A number that code adds to, or that a smaller type holds, is refused where it is read.
TEST(JobCodec, RefusesNumbersThatCannotBe) {
  const auto fields = DecodeFields(
      EncodeJob({EverythingSet(), {}, {.measured = MeasuredEntry{LineageNumber(1), Step(4), {}}}}));
  ASSERT_TRUE(fields.ok()) << fields.status();
  const struct {
    const char* field;
    int64_t value;
  } cases[] = {{"recorded", std::numeric_limits<int64_t>::max()},
               {"recorded", -1},
               {"stop_at", std::numeric_limits<int64_t>::max()},
               {"stop_at", -1},
               {"exit_code", int64_t{1} << 32},
               {"exit_code", 256},
               {"exit_code", -1},
               {"start", std::numeric_limits<int64_t>::max()},
               {"number", std::numeric_limits<int64_t>::min()},
               {"next_command", std::numeric_limits<int64_t>::max()},
               {"submission", -1},
               {"measured_step", -1},
               {"measured_lineage", std::numeric_limits<int64_t>::max()},
               {"resumes", 2}};
  for (const auto& [field, value] : cases) {
    auto changed = *fields;
    changed[field] = absl::StrCat(value);
    const auto read = DecodeJob(EncodeFields(changed));
    EXPECT_TRUE(absl::IsDataLoss(read.status())) << field << " " << value << read.status();
    EXPECT_THAT(std::string(read.status().message()),
                HasSubstr(absl::StrCat("field ", field, ": ", value, " is not in 0 … ")));
  }
}

class TermFile : public ::testing::Test {
 protected:
  TermFile() {
    std::string folder = ::testing::TempDir() + "term-file-XXXXXX";
    if (mkdtemp(folder.data()) == nullptr) std::abort();
    file_ = folder + "/term";
  }
  ~TermFile() override { std::filesystem::remove_all(std::filesystem::path(file_).parent_path()); }
  absl::Status Start(Kv& kv) const {
    return Journal::Open(std::make_unique<Borrowed>(kv), file_).status();
  }
  void ExpectRefused(Kv& kv, const std::string& words) const {
    const std::string before = ReadWholeFile(file_).value();
    const absl::Status status = Start(kv);
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(words));
    EXPECT_THAT(std::string(status.message()), HasSubstr("Bring back"));
    EXPECT_EQ(ReadWholeFile(file_).value(), before);
  }

  const std::unique_ptr<Kv> kv_ = OpenMemory(JournalFamilies());
  std::string file_;
};

TEST_F(TermFile, AnOlderCopyOfTheStoreIsNoticed) {
  for (int start = 0; start < 3; ++start) ASSERT_TRUE(Start(*kv_).ok());
  Batch older;
  older.Put("journal", "term", "2");
  ASSERT_TRUE(kv_->Write(older).ok());
  ExpectRefused(*kv_, "it ends with term 2");
  std::filesystem::remove(file_);
  EXPECT_TRUE(Start(*kv_).ok());
  EXPECT_TRUE(Start(*kv_).ok());
}

TEST_F(TermFile, TheStoreOfAnotherClusterIsNoticed) {
  ASSERT_TRUE(Start(*kv_).ok());
  const auto empty = OpenMemory(JournalFamilies());
  ExpectRefused(*empty, "it is empty");
  EXPECT_TRUE(absl::IsNotFound(empty->Get("journal", "term").status()));
  ASSERT_TRUE(OpenOn(*empty).ok());
  ExpectRefused(*empty, "names cluster");
}

// The store is written first: cut short between the two, the file is one behind.
TEST_F(TermFile, MayBeBehind) {
  ASSERT_TRUE(Start(*kv_).ok());
  ASSERT_TRUE(OpenOn(*kv_).ok());
  EXPECT_TRUE(Start(*kv_).ok());
}

TEST_F(TermFile, GarbageIsSaid) {
  ASSERT_TRUE(Start(*kv_).ok());
  ASSERT_TRUE(ReplaceFile(file_, "garbage").ok());
  ExpectRefused(*kv_, "cannot be read");
}

TEST(Journal, TheClusterStaysAndTheTermGrowsWithEachStart) {
  const auto kv = OpenMemory(JournalFamilies());
  const auto first = OpenOn(*kv);
  ASSERT_TRUE(first.ok());
  const auto second = OpenOn(*kv);
  ASSERT_TRUE(second.ok());
  EXPECT_EQ((*first)->cluster(), (*second)->cluster());
  EXPECT_EQ((*first)->cluster().size(), 32u);
  EXPECT_EQ((*first)->term(), TermNumber(1));
  EXPECT_EQ((*second)->term(), TermNumber(2));
  const auto other = OpenOn(*OpenMemory(JournalFamilies()));
  ASSERT_TRUE(other.ok());
  EXPECT_NE((*other)->cluster(), (*first)->cluster());
}

TEST(Journal, FindsTheRecordsOfTheCurrentLineageUpToTheFirstGap) {
  const auto kv = OpenMemory(JournalFamilies());
  {
    const auto journal = OpenOn(*kv);
    ASSERT_TRUE(journal.ok());
    PersistRecords records{"a", {}};
    for (const int64_t step : {0, 1, 2, 3, 4, 5, 6, 7})
      records.records.push_back(Record(LineageNumber(1), Step(step)));
    for (const int64_t step : {5, 6, 8})
      records.records.push_back(Record(LineageNumber(2), Step(step)));
    // Another job's id that begins like this one's.
    PersistRecords neighbour{"ab", {Record(LineageNumber(2), Step(7))}};
    const PersistFingerprint fingerprint{"a", LineageNumber(2), Step(6), {1, 2, true}};
    ASSERT_TRUE(
        (*journal)->Write({PersistJob{Running()}, records, neighbour, fingerprint}, 1000).ok());
    EXPECT_EQ(RecordedSteps(**journal, "a")->size(), 11u);
    EXPECT_EQ(RecordedSteps(**journal, "ab")->size(), 1u);
  }
  const auto journal = OpenOn(*kv);
  ASSERT_TRUE(journal.ok());
  std::vector<std::string> damaged;
  const auto found = (*journal)->Load(damaged);
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_EQ(found->jobs.size(), 1u);
  ExpectSame(found->jobs[0], Running());
  EXPECT_EQ(found->recorded.at("a"), Step(7));
  const RecentSteps& recent = found->recent.at("a");
  std::vector<std::pair<int64_t, int64_t>> lineage_of;
  for (const auto& [step, record] : recent.records)
    lineage_of.emplace_back(step.value(), record.lineage.value());
  using Of = std::pair<int64_t, int64_t>;
  EXPECT_THAT(lineage_of,
              ElementsAre(Of(0, 1), Of(1, 1), Of(2, 1), Of(3, 1), Of(4, 1), Of(5, 2), Of(6, 2)));
  ASSERT_EQ(recent.voided_records.size(), 1u) << "what was done again already needs no comparison";
  EXPECT_EQ(recent.voided_records.begin()->first, Step(7));
  ASSERT_EQ(recent.fingerprints.size(), 1u);
  EXPECT_EQ(recent.fingerprints.begin()->first, Step(6));
  EXPECT_EQ((*journal)->TailOf("a").loss, 2.0);
  EXPECT_THAT(*(*journal)->Fingerprints("a"),
              ElementsAre(FingerprintEntry{LineageNumber(2), Step(6), {1, 2, true}}));
  EXPECT_EQ((*journal)->TailOf("a").fingerprint->step, Step(6));
}

TEST(Journal, OfAJobThatRunsTheLedgerIsReadFromTheMarkInItsEntry) {
  const auto kv = OpenMemory(JournalFamilies());
  {
    const auto journal = OpenOn(*kv);
    ASSERT_TRUE(journal.ok());
    PersistRecords records{"a", {}};  // those below the mark, 9, are not looked for
    for (const int64_t step : {9, 10, 12})
      records.records.push_back(Record(LineageNumber(2), Step(step)));
    ASSERT_TRUE((*journal)
                    ->Write({PersistFingerprint{"a", LineageNumber(2), Step(8), {1, 2, true}},
                             PersistJob{EverythingSet()}, records},
                            1)
                    .ok());
  }
  const auto journal = OpenOn(*kv);
  ASSERT_TRUE(journal.ok());
  std::vector<std::string> damaged;
  const auto found = (*journal)->Load(damaged);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->recorded.at("a"), Step(11));
  EXPECT_EQ((*journal)->TailOf("a").loss, 2.0);
  EXPECT_EQ((*journal)->TailOf("a").fingerprint->step, Step(8));
}

// Steps that are multiples of 2 measure. The mark is at step 6; the rewind to step 5 began
// lineage 2.
TEST(Journal, WhatWasMeasuredLastOutlivesTheCoordinator) {
  struct Case {
    const char* what;
    std::vector<std::pair<int64_t, int64_t>> before;  // lineage and step of records, then the entry
    std::vector<std::pair<int64_t, int64_t>> after;
    int64_t measured;  // -1: nothing
  };
  const Case cases[] = {
      {"nothing", {}, {}, -1},
      {"none that counts", {{1, 3}, {1, 6}}, {}, -1},
      {"in the entry", {{1, 2}, {1, 4}, {2, 5}}, {}, 4},
      {"behind it", {{1, 4}, {2, 5}}, {{2, 6}, {2, 7}, {2, 8}, {2, 9}}, 8},
      {"behind a gap", {{1, 4}, {2, 5}}, {{2, 6}, {2, 8}}, 6},
      {"before what a rewind left out", {{1, 4}, {1, 5}, {1, 6}, {2, 5}}, {}, 4},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.what);
    const auto records_of = [](const std::vector<std::pair<int64_t, int64_t>>& steps) {
      PersistRecords records{"a", {}};
      for (const auto& [lineage, step] : steps) {
        StepRecord& record =
            records.records.emplace_back(Record(LineageNumber(lineage), Step(step)));
        if (step % 2 == 0) record.measures = {{static_cast<double>(step), 2}};
      }
      return records;
    };
    JobJournal job = EverythingSet();
    job.spec.training.validation.every_steps = 2;
    job.spec.training.validation.paths = {"/held-out"};
    job.recorded = Step(6);
    const auto kv = OpenMemory(JournalFamilies());
    {
      const auto journal = OpenOn(*kv);
      ASSERT_TRUE(journal.ok());
      ASSERT_TRUE((*journal)->Write({records_of(c.before), PersistJob{job}}, 1).ok());
      ASSERT_TRUE((*journal)->Write({records_of(c.after)}, 1).ok());
    }
    const auto journal = OpenOn(*kv);
    ASSERT_TRUE(journal.ok());
    std::vector<std::string> damaged;
    const auto found = (*journal)->Load(damaged);
    ASSERT_TRUE(found.ok()) << found.status();
    const std::optional<MeasuredEntry> last = (*journal)->TailOf("a").measured;
    EXPECT_EQ(last ? last->step.value() : -1, c.measured);
    if (last) {
      EXPECT_THAT(last->measures, ElementsAre(Measure{static_cast<double>(c.measured), 2}));
    }
  }
}

MeasureFact FactAt(int64_t lineage, int64_t step) {
  MeasureSums sums;
  sums.floats.assign(kFloatsOfMetric, 0.0f);
  sums.floats[0] = static_cast<float>(100 * lineage + step);
  return {LineageNumber(lineage), Step(step), sums};
}

// A follower measures states 4, 8 …, of which states 7, 11 … have learned. Lineage 2 began at
// state 5.
JobJournal FollowedUpTo(int64_t recorded) {
  JobJournal job = EverythingSet();
  job.spec.training.validation = {
      .every_steps = 4, .paths = {"/held-out"}, .on = MeasuredOn::kFollower, .delay = 3};
  job.recorded = Step(recorded);
  return job;
}

TEST(Journal, KnowsWhatAFollowerMeasuredInAllLineages) {
  const auto kv = OpenMemory(JournalFamilies());
  const std::vector<MeasureFact> facts = {FactAt(1, 4), FactAt(1, 8), FactAt(2, 8)};
  {
    const auto journal = OpenOn(*kv);
    ASSERT_TRUE(journal.ok());
    ASSERT_TRUE((*journal)->Write({PersistJob{FollowedUpTo(9)}}, 1).ok());
    for (const MeasureFact& fact : facts)
      ASSERT_TRUE((*journal)->Write({PersistMeasure{"a", fact}}, 1).ok());
    // Of another job, whose id begins like this one's.
    ASSERT_TRUE((*journal)->Write({PersistMeasure{"ab", FactAt(2, 4)}}, 1).ok());
  }
  const auto found = LoadFrom(*kv);
  ASSERT_TRUE(found.ok()) << found.status();
  std::map<std::pair<LineageNumber, Step>, MeasureSums> expected;
  for (const MeasureFact& fact : facts) expected[{fact.lineage, fact.step}] = fact.sums;
  EXPECT_EQ(found->recent.at("a").facts, expected);
}

// After a rewind the one that the next steps bring may be older than all that was voided; and so
// may that of a last state, behind it.
TEST(Journal, FactsThatAreStillWantedAreFoundAmongManyThatAreNot) {
  const auto kv = OpenMemory(JournalFamilies());
  {
    const auto journal = OpenOn(*kv);
    ASSERT_TRUE(journal.ok());
    JobJournal job = FollowedUpTo(6);
    job.lineages.back().fork = Step(6);
    std::vector<Persisted> changes = {PersistJob{job}, PersistMeasure{"a", FactAt(1, 6)}};
    for (int64_t s = 4; s < 4 * 200; s += 4)
      changes.emplace_back(PersistMeasure{"a", FactAt(1, s)});
    ASSERT_TRUE((*journal)->Write(changes, 1).ok());
  }
  const auto found = LoadFrom(*kv);
  ASSERT_TRUE(found.ok()) << found.status();
  const auto& facts = found->recent.at("a").facts;
  EXPECT_EQ(facts.size(), kRecentFacts);
  for (const int64_t step : {4, 6}) {
    const auto wanted = facts.find({LineageNumber(1), Step(step)});
    ASSERT_NE(wanted, facts.end()) << step;
    EXPECT_EQ(wanted->second, FactAt(1, step).sums);
  }
}

TEST(Journal, ErasesWhatWasMeasuredOfAJob) {
  const auto kv = OpenMemory(JournalFamilies());
  const auto journal = OpenOn(*kv);
  ASSERT_TRUE(journal.ok());
  const PersistJob job{FollowedUpTo(9)};
  ASSERT_TRUE((*journal)->Write({job, PersistMeasure{"a", FactAt(1, 4)}}, 1).ok());
  ASSERT_TRUE((*journal)->Erase("a").ok());
  ASSERT_TRUE((*journal)->Write({job}, 1).ok());  // another one of that id
  const auto found = LoadFrom(*kv);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_TRUE(found->recent.at("a").facts.empty());
}

// However long the ledger is: what is shown of such a job stands in its entry.
TEST(Journal, OfAJobThatIsOverTheLedgerIsNotRead) {
  const auto kv = OpenMemory(JournalFamilies());
  {
    const auto journal = OpenOn(*kv);
    ASSERT_TRUE(journal.ok());
    JobJournal job = EverythingSet();
    job.phase = JobPhase::kDone;
    ASSERT_TRUE((*journal)
                    ->Write({PersistRecords{"a", {Record(LineageNumber(2), Step(5))}},
                             PersistFingerprint{"a", LineageNumber(2), Step(6), {1, 2, true}},
                             PersistJob{job}},
                            1)
                    .ok());
  }
  Batch batch;  // a reader of the ledger would stumble here
  ASSERT_TRUE(kv->Scan("ledger", "", "", [&](absl::string_view at, absl::string_view) {
                  batch.Put("ledger", at, "\xff\xff");
                  return true;
                }).ok());
  ASSERT_TRUE(kv->Write(batch).ok());
  const auto journal = OpenOn(*kv);
  ASSERT_TRUE(journal.ok());
  std::vector<std::string> damaged;
  const auto found = (*journal)->Load(damaged);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->recorded.at("a"), Step(9));
  EXPECT_EQ((*journal)->TailOf("a").loss, 2.0);
  EXPECT_EQ((*journal)->TailOf("a").fingerprint->step, Step(6));
}

TEST(Journal, KnowsWhichHostsAreDrained) {
  const auto kv = OpenMemory(JournalFamilies());
  std::vector<std::string> damaged;
  {
    const auto journal = *OpenOn(*kv);
    EXPECT_TRUE(journal->Load(damaged)->drained.empty());
    ASSERT_TRUE(journal->Write({PersistDrained{{"host-a", "host-b"}}}, 1).ok());
    ASSERT_TRUE(journal->Write({PersistDrained{{"host-b"}}}, 2).ok());
  }
  const auto journal = *OpenOn(*kv);
  EXPECT_EQ(journal->Load(damaged)->drained, std::set<std::string>{"host-b"});
}

TEST(Journal, KnowsWhichHostsAreLeftOutForAllJobs) {
  const auto kv = OpenMemory(JournalFamilies());
  std::vector<std::string> damaged;
  const std::map<std::string, std::string> hosts = {{"host-a", "why"}};
  {
    const auto journal = *OpenOn(*kv);
    EXPECT_TRUE(journal->Load(damaged)->left_out.empty());
    ASSERT_TRUE(journal->Write({PersistLeftOut{hosts}}, 1).ok());
  }
  const auto journal = *OpenOn(*kv);
  EXPECT_EQ(journal->Load(damaged)->left_out, hosts);
}

TEST(Journal, KnowsTheQuotasOfNamespaces) {
  const auto kv = OpenMemory(JournalFamilies());
  std::vector<std::string> damaged;
  const Quotas quotas = {{"a", {.slots = 8}},
                         {"b", {.queued = 3}},
                         {"c", {0, 0}},
                         {"d", {.priority = -7}},
                         {"e", {.slots = 1, .priority = 10}}};
  {
    const auto journal = *OpenOn(*kv);
    EXPECT_TRUE(journal->Load(damaged)->quotas.empty());
    ASSERT_TRUE(journal->Write({PersistQuotas{{{"z", {.slots = 1}}}}}, 1).ok());
    ASSERT_TRUE(journal->Write({PersistQuotas{quotas}}, 2).ok());
  }
  const auto journal = *OpenOn(*kv);
  EXPECT_EQ(journal->Load(damaged)->quotas, quotas);
}

TEST(Journal, KnowsHowLongAgoAJobEnded) {
  const auto kv = OpenMemory(JournalFamilies());
  std::vector<std::string> damaged;
  JobJournal job = EverythingSet();
  job.phase = JobPhase::kDone;
  {
    const auto journal = *OpenOn(*kv);
    ASSERT_TRUE(journal->Write({PersistJob{job}}, 5'000).ok());
  }
  const auto journal = *OpenOn(*kv);
  EXPECT_EQ(journal->Load(damaged, 65'000)->since_end.at(job.id), std::chrono::seconds(60));
  EXPECT_TRUE(journal->Load(damaged, 4'000)->since_end.empty()) << "the clock went back";
}

TEST(Journal, KnowsTheTokensOfPeopleInTheirOrder) {
  const Token admin{std::string(64, 'f'), {"admin", UserRole::kAdmin, "*"}, 17};
  const Token viewer{std::string(64, '0'), {"ada-l", UserRole::kViewer, "vision"}, 18, 19};
  const auto kv = OpenMemory(JournalFamilies());
  std::vector<std::string> damaged;
  {
    const auto journal = *OpenOn(*kv);
    EXPECT_TRUE(journal->Load(damaged)->tokens.empty()) << "an older journal has none";
    ASSERT_TRUE(journal->Write({PersistTokens{{admin}}}, 1).ok());
    ASSERT_TRUE(journal->Write({PersistTokens{{admin, viewer}}}, 2).ok());
  }
  const auto journal = *OpenOn(*kv);
  EXPECT_EQ(journal->Load(damaged)->tokens, (std::vector<Token>{admin, viewer}));
}

TEST(Journal, KnowsWhichHostsMayJoinAndWhoseClusterItIs) {
  const HostRecord bound{.name_space = "vision", .secret = "5ec7e7", .key_hash = "00ff"};
  const HostRecord of_run{.name_space = "", .key_hash = "01"};
  const HostRecord certified{.certified = true}, revoked{.revoked = true};
  const auto kv = OpenMemory(JournalFamilies());
  std::vector<std::string> damaged;
  {
    const auto journal = *OpenOn(*kv);
    EXPECT_TRUE(journal->Load(damaged)->hosts.empty()) << "an older journal has none";
    EXPECT_FALSE(*journal->HasAuthority());
    ASSERT_TRUE(journal
                    ->Write({PersistHost{"a", certified}, PersistHost{"b", of_run},
                             PersistHost{"c", revoked}, PersistHost{"a", bound}},
                            1)
                    .ok());
    ASSERT_TRUE(journal->NoteAuthority({"a", "b"}).ok());
  }
  const auto journal = *OpenOn(*kv);
  EXPECT_EQ(journal->Load(damaged)->hosts,
            (HostRecords{{"a", bound}, {"b", of_run}, {"c", revoked}}));
  EXPECT_TRUE(*journal->HasAuthority());
  EXPECT_TRUE(*journal->MayBeAuthority("a"));
  EXPECT_TRUE(*journal->MayBeAuthority("b"));
  EXPECT_FALSE(*journal->MayBeAuthority("c"));
  const auto named = Journal::Open(OpenMemory(JournalFamilies()), "", "c7");
  EXPECT_EQ((*named)->cluster(), "c7");
}

TEST(Journal, ErasesAJobAndNothingOfAnother) {
  const auto kv = OpenMemory(JournalFamilies());
  const auto journal = OpenOn(*kv);
  ASSERT_TRUE(journal.ok());
  JobJournal other = EverythingSet();
  other.id = "ab";
  ASSERT_TRUE((*journal)
                  ->Write({PersistJob{EverythingSet()}, PersistJob{other},
                           PersistRecords{"a", {Record(LineageNumber(2), Step(5))}},
                           PersistFingerprint{"a", LineageNumber(2), Step(6), {1, 2, true}},
                           PersistRecords{"ab", {Record(LineageNumber(2), Step(5))}}},
                          1)
                  .ok());
  ASSERT_TRUE((*journal)->Erase("a").ok());
  EXPECT_TRUE(RecordedSteps(**journal, "a")->empty());
  EXPECT_TRUE((*journal)->Fingerprints("a")->empty());
  EXPECT_EQ(RecordedSteps(**journal, "ab")->size(), 1u);
  const auto found = LoadFrom(*kv);
  ASSERT_TRUE(found.ok());
  ASSERT_EQ(found->jobs.size(), 1u);
  EXPECT_EQ(found->jobs[0].id, "ab");
}

const SpoolSegment kFirstSegment{0, {1, 2}, 0, 5}, kSecondSegment{3, {3, 4}, 5, 2};

TEST(Journal, KeepsTheRowsOfAStream) {
  const auto kv = OpenMemory(JournalFamilies());
  const auto journal = OpenOn(*kv);
  ASSERT_TRUE(journal.ok());
  EXPECT_EQ(*(*journal)->StreamOf("a"), StreamRows());
  const StreamMark mark{.place = {.file = "f", .sample = 5, .identity = {1, 2, 3, 4}, .seen = 6}};
  SpoolSegment begun = kFirstSegment;
  begun.count = 2;
  const auto write = [&](const PersistStream& change) {
    ASSERT_TRUE((*journal)->Write({change}, 1).ok());
  };
  write({"a", {begun}, {}, mark});
  write({"ab", {kFirstSegment}, {}, mark});
  EXPECT_EQ(*(*journal)->StreamOf("a"), (StreamRows{{begun}, mark}));
  write({"a", {kFirstSegment}, {}, mark});
  const StreamMark ended{.place = mark.place, .end = 7};
  write({"a", {kSecondSegment}, {}, ended});
  EXPECT_EQ(*(*journal)->StreamOf("a"), (StreamRows{{kFirstSegment, kSecondSegment}, ended}));
  write({"a", {}, {kFirstSegment}, ended});
  EXPECT_EQ(*(*journal)->StreamOf("a"), (StreamRows{{kSecondSegment}, ended}));
  ASSERT_TRUE((*journal)->Erase("a").ok());
  EXPECT_EQ(*(*journal)->StreamOf("a"), StreamRows());
  EXPECT_EQ(*(*journal)->StreamOf("ab"), (StreamRows{{kFirstSegment}, mark}));
}

TEST(Journal, KeepsHowFarAStreamIs) {
  StreamMark mark{
      .place = {.file = std::string("a\0b", 3), .sample = 5, .identity = {1, 2, 3, 4}, .seen = -6}};
  EXPECT_EQ(*DecodeStreamMark(EncodeStreamMark(mark)), mark);
  mark.end = 0;
  EXPECT_EQ(*DecodeStreamMark(EncodeStreamMark(mark)), mark);
  const std::string place = EncodeStreamPlace(mark.place);
  for (const std::string& bytes :
       {std::string("x"), EncodeFields({{"end", "1"}}), EncodeFields({{"place", "\xff"}}),
        EncodeFields({{"place", place}, {"end", "-1"}})})
    EXPECT_TRUE(absl::IsDataLoss(DecodeStreamMark(bytes).status()));
}

TEST(Journal, TellsWhatIsWrongWithTheRowsOfAStream) {
  SpoolSegment gap = kSecondSegment;
  gap.first = 6;
  for (const auto& [segments, why] :
       {std::pair<std::vector<SpoolSegment>, std::string>{{kFirstSegment, gap}, "does not follow"},
        {{kFirstSegment, {4, {1, 2}, 5, 0}}, "there can be none"}}) {
    const auto kv = OpenMemory(JournalFamilies());
    const auto journal = OpenOn(*kv);
    ASSERT_TRUE(journal.ok());
    ASSERT_TRUE((*journal)->Write({PersistStream{"a", segments, {}, {}}}, 1).ok());
    const auto rows = (*journal)->StreamOf("a");
    EXPECT_TRUE(absl::IsDataLoss(rows.status()));
    EXPECT_THAT(std::string(rows.status().message()), HasSubstr("the stream of job a"));
    EXPECT_THAT(std::string(rows.status().message()), HasSubstr(why));
  }
}

JobSpec StreamedSpec() {
  const absl::StatusOr<JobSpec> spec = ParseJobYaml(
      "task: layers\n"
      "parameters: {loss: mse, layers: [{linear: 1}]}\n"
      "data:\n"
      "  format: stream\n"
      "  label: y\n"
      "  stream:\n"
      "    source: folder\n"
      "    path: /in\n"
      "    fields: [{name: x, type: float32, shape: [2]}, {name: y, type: float32}]\n"
      "batch: 4\n"
      "lanes: 4\n"
      "epochs: 1\n"
      "checkpoint: {every_steps: 4}\n",
      "spec");
  EXPECT_TRUE(spec.ok()) << spec.status();
  return spec.value_or(JobSpec());
}

// Rows are erased kind by kind, and a coordinator may die in between.
TEST(Journal, LoadsAJobWhoseDeletionWasCutShortAmongTheRowsOfItsStream) {
  for (const char erased : {'s', 'p'}) {
    const auto kv = OpenMemory(JournalFamilies());
    {
      const auto journal = OpenOn(*kv);
      ASSERT_TRUE(journal.ok());
      JobJournal job = EverythingSet();
      job.spec = StreamedSpec();
      ASSERT_TRUE(job.deleting);
      const PersistStream rows{"a", {kFirstSegment, kSecondSegment}, {}, {.end = 7}};
      ASSERT_TRUE((*journal)->Write({PersistJob{job}, rows}, 1).ok());
    }
    std::string prefix = "a";
    prefix.push_back('\0');
    prefix.push_back(erased);
    Batch batch;
    ASSERT_TRUE(kv->Scan("ledger", prefix, PrefixEnd(prefix),
                         [&](absl::string_view key, absl::string_view) {
                           batch.Delete("ledger", key);
                           return true;
                         })
                    .ok());
    ASSERT_FALSE(batch.empty());
    ASSERT_TRUE(kv->Write(batch).ok());
    const auto found = LoadFrom(*kv);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(found->jobs.size(), 1u);
  }
}

TEST(Journal, KnowsWhenThingsHappened) {
  const auto kv = OpenMemory(JournalFamilies());
  const auto journal = OpenOn(*kv);
  ASSERT_TRUE(journal.ok());
  JobJournal job = EverythingSet();
  const auto write = [&](JobPhase phase, int64_t now) {
    job.phase = phase;
    ASSERT_TRUE((*journal)->Write({PersistJob{job}}, now).ok());
  };
  write(JobPhase::kQueued, 10);
  write(JobPhase::kStarting, 20);
  write(JobPhase::kRunning, 30);
  write(JobPhase::kStopped, 40);
  EXPECT_EQ((*journal)->TimesOf("a"), (JobTimes{10, 20, 40}));
  write(JobPhase::kQueued, 50);
  EXPECT_EQ((*journal)->TimesOf("a"), (JobTimes{50, 0, 0}));
}

TEST(Journal, WhatAFailedWriteHeldIsNotRememberedAndAnotherTryWorks) {
  FaultyKv faulty(OpenMemory(JournalFamilies()));
  const auto journal = OpenOn(faulty);
  ASSERT_TRUE(journal.ok());
  faulty.FailCall(0, absl::ResourceExhaustedError("full"));
  const std::vector<Persisted> changes = {PersistJob{EverythingSet()},
                                          PersistRecords{"a", {Record(LineageNumber(2), Step(5))}}};
  EXPECT_TRUE(absl::IsResourceExhausted((*journal)->Write(changes, 1)));
  EXPECT_EQ((*journal)->TimesOf("a"), JobTimes{});
  EXPECT_TRUE(RecordedSteps(**journal, "a")->empty());
  EXPECT_TRUE((*journal)->Write(changes, 2).ok());
  EXPECT_EQ(RecordedSteps(**journal, "a")->size(), 1u);
}

TEST(Journal, DamageIsToldAndNotGuessedAround) {
  struct Case {
    const char* family;
    std::string key;
    const char* says;
  };
  const Case cases[] = {{"journal", "job/a", "job/a"}, {"journal", "term", "term"}};
  for (const Case& damage : cases) {
    const auto kv = OpenMemory(JournalFamilies());
    {
      const auto journal = OpenOn(*kv);
      ASSERT_TRUE(journal.ok());
      ASSERT_TRUE((*journal)->Write({PersistJob{EverythingSet()}}, 1).ok());
    }
    Batch batch;
    batch.Put(damage.family, damage.key, "\xff\xff");
    ASSERT_TRUE(kv->Write(batch).ok());
    const auto found = LoadFrom(*kv);
    EXPECT_TRUE(absl::IsDataLoss(found.status())) << found.status();
    EXPECT_THAT(found.status().message(), HasSubstr(damage.says));
    EXPECT_THAT(found.status().message(), HasSubstr("Bring back the newest copy"));
  }
}

TEST(Journal, AKeyOfTheLedgerThatIsNoneIsDamage) {
  const std::string records("a\0r", 3), fingerprints("a\0f", 3);
  for (const std::string& key :
       {records + std::string(17, '\0'), records + std::string(16, '\0') + "1", fingerprints,
        fingerprints + "1", fingerprints + std::string(15, '\0'),
        fingerprints + std::string(17, '\0')}) {
    const auto kv = OpenMemory(JournalFamilies());
    const auto journal = OpenOn(*kv);
    ASSERT_TRUE(journal.ok());
    Batch batch;
    batch.Put("ledger", key, "");
    ASSERT_TRUE(kv->Write(batch).ok());
    const absl::Status found = key.starts_with(records) ? RecordedSteps(**journal, "a").status()
                                                        : (*journal)->Fingerprints("a").status();
    EXPECT_TRUE(absl::IsDataLoss(found)) << key.size() << ": " << found;
    EXPECT_THAT(found.message(), HasSubstr("job a"));
  }
}

}  // namespace
}  // namespace muster::coordinator
