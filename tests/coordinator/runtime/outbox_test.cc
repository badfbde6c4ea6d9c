// What webhooks are to be told is written with what decides it, or not at all.
#include "coordinator/runtime/outbox.h"

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/runtime/journal.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/wire/job_codec.h"
#include "tests/coordinator/runtime/scripted_member.h"
#include "tests/support/faulty_kv.h"

namespace muster::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

JobJournal JobIn(JobPhase phase, const std::string& id = "a") {
  JobJournal job;
  job.id = id;
  job.spec = *Complete(CountingSpec(3));
  job.spec.queue.name_space = "team";
  job.owner = "ada";
  job.phase = phase;
  job.reason = "why";
  job.start = StartNumber(4);
  job.recorded = Step(7);
  job.ending.exit_code = 66;
  job.ending.digest = "abc";
  return job;
}

std::vector<std::string> TypesOf(const std::vector<OutboxEvent>& events) {
  std::vector<std::string> types;
  for (const OutboxEvent& event : events) types.push_back(event.type);
  return types;
}

std::vector<PlacedEvent> All(const Kv& kv, OutboxPlace from = {}) {
  std::vector<PlacedEvent> found;
  const auto visit = [&](PlacedEvent placed) {
    found.push_back(std::move(placed));
    return true;
  };
  EXPECT_TRUE(ScanOutbox(kv, from, visit, [](const DamagedEvent& damaged) {
                ADD_FAILURE() << damaged.why;
              }).ok());
  return found;
}

TEST(OutboxTest, EachPhaseIsAnEventOnce) {
  using P = JobPhase;
  const struct {
    std::optional<P> before;
    P now;
    std::vector<std::string> types;
  } kCases[] = {
      {std::nullopt, P::kQueued, {"job.queued"}},
      {std::nullopt, P::kStarting, {"job.queued", "job.starting"}},
      {P::kQueued, P::kQueued, {}},
      {P::kQueued, P::kChecking, {"job.checking"}},
      {P::kStopped, P::kChecking, {"job.queued", "job.checking"}},
      {P::kChecking, P::kStarting, {"job.starting"}},
      {P::kRunning, P::kRecovering, {"job.recovering"}},
      {P::kStopping, P::kStopped, {"job.stopped"}},
      {P::kStopped, P::kStarting, {"job.queued", "job.starting"}},
      {P::kFailed, P::kQueued, {"job.queued"}},
      {P::kQueued, P::kCancelled, {"job.cancelled"}},
      {P::kDone, P::kDone, {}},
  };
  for (const auto& c : kCases)
    EXPECT_EQ(TypesOf(EventsOfChange(c.before, JobIn(c.now), 9)), c.types);
  for (const JobPhase phase : kJobPhases) {
    const std::vector<OutboxEvent> events =
        EventsOfChange(phase == P::kQueued ? P::kRecovering : P::kQueued, JobIn(phase), 9);
    ASSERT_EQ(events.size(), 1u);
    EXPECT_NE(
        std::find(std::begin(kWebhookEventTypes), std::end(kWebhookEventTypes), events[0].type),
        std::end(kWebhookEventTypes))
        << events[0].type;
    EXPECT_EQ(events[0].exit_code.has_value(), Ended(phase)) << "only an end has an exit code";
  }
}

TEST(OutboxTest, EndsAreKnown) {
  for (const JobPhase phase : kJobPhases)
    EXPECT_EQ(TellsOfAnEnd({.type = absl::StrCat("job.", std::string(PhaseName(phase)))}),
              Ended(phase));
  EXPECT_FALSE(TellsOfAnEnd({.type = std::string(kCheckpointFailed)}));
}

TEST(OutboxTest, TellsWhatTheJobIs) {
  EXPECT_THAT(EventsOfChange(JobPhase::kRunning, JobIn(JobPhase::kFailed), 1234),
              ElementsAre(OutboxEvent{.type = "job.failed",
                                      .unix_ms = 1234,
                                      .job = "a",
                                      .name_space = "team",
                                      .owner = "ada",
                                      .state = "failed",
                                      .reason = "why",
                                      .digest = "abc",
                                      .start = 4,
                                      .step = 7,
                                      .exit_code = 66}));
}

TEST(OutboxTest, CheckpointsAreToldAndOtherAnnouncementsAreNot) {
  const JobJournal job = JobIn(JobPhase::kRunning);
  const auto good =
      EventOfAnnouncement("checkpoint", "is complete", {{"step", "12"}, {"saves", "true"}}, job, 5);
  ASSERT_TRUE(good);
  EXPECT_EQ(good->type, "checkpoint.committed");
  EXPECT_EQ(good->step, 12);
  EXPECT_EQ(good->state, "running");
  EXPECT_EQ(good->reason, "is complete");
  EXPECT_EQ(
      EventOfAnnouncement("checkpoint", "disk", {{"step", "12"}, {"saves", "false"}}, job, 5)->type,
      "checkpoint.failed");
  EXPECT_FALSE(EventOfAnnouncement("checkpoint", "is passed over", {}, job, 5));
  EXPECT_FALSE(EventOfAnnouncement("state", "x", {{"saves", "true"}}, job, 5));
}

TEST(OutboxTest, WhatIsPutIsFoundInTheOrderOfItsPlace) {
  const std::unique_ptr<Kv> kv = OpenMemory(JournalFamilies());
  Batch batch;
  OutboxEvent event = EventsOfChange(JobPhase::kRunning, JobIn(JobPhase::kFailed), 1)[0];
  event.exit_code = -1;
  event.reason = std::string("\0\xff=\n", 4);
  for (const OutboxPlace place : {OutboxPlace{2, 1}, {1, 256}, {1, 3}, {300, 1}})
    PutEvent(batch, place, event);
  ASSERT_TRUE(kv->Write(batch).ok());
  std::vector<OutboxPlace> places;
  for (const PlacedEvent& placed : All(*kv, {1, 4})) {
    EXPECT_EQ(placed.event, event);
    places.push_back(placed.place);
  }
  EXPECT_THAT(places, ElementsAre(OutboxPlace{1, 256}, OutboxPlace{2, 1}, OutboxPlace{300, 1}));
}

TEST(OutboxTest, ADamagedEventIsPassedOverAndNamed) {
  const std::unique_ptr<Kv> kv = OpenMemory(JournalFamilies());
  Batch batch;
  const OutboxEvent event = EventsOfChange(std::nullopt, JobIn(JobPhase::kQueued), 1)[0];
  PutEvent(batch, {1, 1}, event);
  PutEvent(batch, {1, 2}, event);
  batch.Put("journal", batch.changes()[0].key, "what is this");
  batch.Put("journal", "outbox/short", "");
  ASSERT_TRUE(kv->Write(batch).ok());
  std::vector<OutboxPlace> found;
  std::vector<DamagedEvent> damaged;
  const absl::Status status = ScanOutbox(
      *kv, {},
      [&](const PlacedEvent& placed) {
        found.push_back(placed.place);
        return true;
      },
      [&](const DamagedEvent& one) { damaged.push_back(one); });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_THAT(found, ElementsAre(OutboxPlace{1, 2}));
  ASSERT_EQ(damaged.size(), 2u);
  EXPECT_EQ(damaged[0].place, (OutboxPlace{1, 1}));
  EXPECT_THAT(damaged[0].why, HasSubstr("term 1, number 1"));
  EXPECT_EQ(damaged[1].place, std::nullopt);
}

TEST(OutboxTest, ADamagedStoreIsAnErrorThatSaysWhatToDo) {
  FaultyKv kv(OpenMemory(JournalFamilies()));
  kv.FailCall(0, absl::DataLossError("Corruption: block checksum mismatch"));
  const absl::Status status = ScanOutbox(
      kv, {}, [](const PlacedEvent&) { return true; },
      [](const DamagedEvent& one) { ADD_FAILURE() << one.why; });
  EXPECT_TRUE(absl::IsDataLoss(status));
  EXPECT_THAT(std::string(status.message()),
              testing::AllOf(HasSubstr("block checksum mismatch"), HasSubstr("Bring back")));
}

// Whatever a member says of its job's checkpoints.
TEST(FailedCheckpointsTest, AFewInAMinuteOfAJobAreToldAndTheOthersCounted) {
  FailedCheckpoints failed;
  const auto take = [&](const std::string& job, int64_t step, Time now) -> std::string {
    OutboxEvent event{.job = job, .reason = "full", .start = 1, .step = step};
    return failed.Take(event, now) ? event.reason : "";
  };
  const Time start = Time(std::chrono::hours(1));
  for (int64_t step = 1; step <= kToldInAMinute; ++step) {
    EXPECT_EQ(take("a", step, start), "full") << step;
    EXPECT_EQ(take("a", step, start), "") << "each of its members tells it";
  }
  for (int64_t step = 10; step < 1000; ++step) EXPECT_EQ(take("a", step, start), "");
  EXPECT_EQ(take("b", 1, start), "full") << "another job has its own";
  const Time later = start + std::chrono::minutes(1);
  EXPECT_EQ(take("a", 2000, later),
            "full (990 failures before it are not told: there were too many)");
  EXPECT_EQ(take("a", 2001, later), "full");
  failed.Forget("a");
  EXPECT_EQ(take("a", 2001, later), "full");
}

TEST(OutboxTest, CursorsStayAndWhatAllHadGoes) {
  const std::unique_ptr<Kv> kv = OpenMemory(JournalFamilies());
  Batch batch;
  const OutboxEvent event = EventsOfChange(std::nullopt, JobIn(JobPhase::kQueued), 1)[0];
  for (int64_t i = 1; i <= 5; ++i) PutEvent(batch, {1, i}, event);
  ASSERT_TRUE(kv->Write(batch).ok());
  const std::map<std::string, OutboxPlace> cursors = {{"x", {1, 4}}, {"y", {2, 9}}};
  EXPECT_EQ(WriteCursors(*kv, cursors, {1, 4}, 2).value(), 2u);
  EXPECT_EQ(WriteCursors(*kv, cursors, {1, 4}, 2).value(), 1u);
  EXPECT_EQ(ReadCursors(*kv).value(), cursors);
  EXPECT_EQ(All(*kv).size(), 2u);
  EXPECT_EQ(WriteCursors(*kv, {{"x", {1, 5}}}, {1, 4}, 2).value(), 0u);
  EXPECT_EQ(ReadCursors(*kv).value(), (std::map<std::string, OutboxPlace>{{"x", {1, 5}}}));
}

// The journal.

class OutboxOfJournalTest : public testing::Test {
 protected:
  OutboxOfJournalTest() {
    auto faulty = std::make_unique<FaultyKv>(OpenMemory(JournalFamilies()));
    kv_ = faulty.get();
    journal_ = *Journal::Open(std::move(faulty));
  }
  std::vector<std::string> Told() const {
    std::vector<std::string> told;
    for (const PlacedEvent& placed : All(journal_->kv()))
      told.push_back(absl::StrCat(placed.place.term, "-", placed.place.seq, " ", placed.event.job,
                                  " ", placed.event.type));
    return told;
  }
  absl::Status Write(std::vector<Persisted> changes) { return journal_->Write(changes, 50); }

  FaultyKv* kv_;
  std::unique_ptr<Journal> journal_;
};

TEST_F(OutboxOfJournalTest, NothingIsKeptWhereThereAreNoWebhooks) {
  ASSERT_TRUE(Write({PersistJob{JobIn(JobPhase::kQueued)}}).ok());
  EXPECT_THAT(Told(), IsEmpty());
}

TEST_F(OutboxOfJournalTest, AChangeAndItsEventAreOneBatch) {
  journal_->KeepOutbox();
  kv_->FailCall(0, absl::ResourceExhaustedError("full"));
  EXPECT_FALSE(Write({PersistJob{JobIn(JobPhase::kQueued)}}).ok());
  EXPECT_THAT(Told(), IsEmpty());
  ASSERT_TRUE(Write({PersistJob{JobIn(JobPhase::kQueued)}}).ok());
  ASSERT_TRUE(Write({PersistJob{JobIn(JobPhase::kQueued)}}).ok()) << "another reason, say";
  OutboxEvent checkpoint = EventsOfChange(std::nullopt, JobIn(JobPhase::kQueued), 1)[0];
  checkpoint.type = "checkpoint.committed";
  ASSERT_TRUE(Write({PersistJob{JobIn(JobPhase::kDone)}, checkpoint,
                     PersistJob{JobIn(JobPhase::kStarting, "b")}})
                  .ok());
  EXPECT_THAT(Told(), ElementsAre("1-1 a job.queued", "1-2 a checkpoint.committed",
                                  "1-3 a job.done", "1-4 b job.queued", "1-5 b job.starting"));
  EXPECT_EQ(journal_->OutboxEnd(), (OutboxPlace{1, 6}));
}

TEST(OutboxOfTermsTest, TheNextTermKnowsWhatWasTold) {
  const std::string folder = testing::TempDir() + "/outbox-terms";
  std::filesystem::remove_all(folder);  // of a run before
  for (int term = 1; term <= 2; ++term) {
    const auto journal = *Journal::Open(OpenRocks(folder + "/journal", JournalFamilies()).value());
    std::vector<std::string> damaged;
    ASSERT_TRUE(journal->Load(damaged).ok());
    journal->KeepOutbox();
    const JobPhase phase = term == 1 ? JobPhase::kRunning : JobPhase::kDone;
    ASSERT_TRUE(journal->Write({PersistJob{JobIn(JobPhase::kRunning)}}, 1).ok());
    ASSERT_TRUE(journal->Write({PersistJob{JobIn(phase)}}, 1).ok());
    if (term == 1) continue;
    const std::vector<PlacedEvent> all = All(journal->kv());
    ASSERT_EQ(all.size(), 3u) << "queued and running once, and done";
    EXPECT_EQ(all[2].place, (OutboxPlace{journal->term().value(), 1}));
    EXPECT_EQ(all[2].event.type, "job.done");
  }
}

}  // namespace
}  // namespace muster::coordinator
