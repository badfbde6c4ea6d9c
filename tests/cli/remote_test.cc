#include "cli/remote.h"

#include <cmath>
#include <sstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr char kJob[] =
    R"({"id":"code-lm-1","name":"code-lm","state":"running","reason":"base is step 112","step":118,"steps":300,
  "epoch":0,"epochs":0,"samples":2832,"loss":2.5,
  "validation":[{"metric":"loss","value":2.75},{"metric":"accuracy","value":null}],"fingerprint":"f0","fingerprint_step":110,"view":3,"lineage":1,
  "workers":2,"seconds_left":94.5,"recoveries":1,"rewinds":0,"lanes_recomputed":2,"seconds":61.2,"checkpoint_step":100,
  "members":[{"name":"worker-0","role":"worker","rank":0,"node":"here","lanes":[0,1,2],"state":"active","phase":"lane 2 of 3"}],
  "later":{"unknown":1}})";

TEST(RestClientTest, ReadsAJob) {
  const auto job = ParseJobAnswer(kJob);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->step, 118);
  EXPECT_EQ(job->checkpoint_step, 100);
  EXPECT_DOUBLE_EQ(job->loss, 2.5);
  EXPECT_EQ(job->validation,
            (std::vector<MetricValue>{{"loss", 2.75}, {"accuracy", std::nullopt}}));
  ASSERT_EQ(job->members.size(), 1u);
  EXPECT_EQ(job->members[0].lanes, 3);
  EXPECT_FALSE(IsOver(*job));
}

TEST(RestClientTest, OddAnswersAreNoCrash) {
  EXPECT_FALSE(ParseJobAnswer("").ok());
  EXPECT_FALSE(ParseJobAnswer("[1]").ok());
  EXPECT_FALSE(ParseFingerprints("{}").ok());
  EXPECT_EQ(ParseFingerprints(R"({"fingerprints":[],"next":"x"})")->next, -1);
  const auto job =
      ParseJobAnswer(R"({"id":7,"step":"x","loss":null,"members":[1,{"lanes":"all"}]})");
  ASSERT_TRUE(job.ok());
  EXPECT_EQ(job->id, "");
  EXPECT_TRUE(std::isnan(job->loss));
}

TEST(RestClientTest, WhatIsOver) {
  for (const char* state : {"done", "stopped", "failed", "cancelled"})
    EXPECT_TRUE(IsOver({.state = state})) << state;
  for (const char* state : {"queued", "checking", "starting", "running", "recovering", "stopping"})
    EXPECT_FALSE(IsOver({.state = state})) << state;
}

TEST(RemoteTest, WhatAJobWaitsForIsShown) {
  const auto text = [](const std::string& state, const std::string& reason) {
    const auto job = ParseJobAnswer(R"({"id":"a","state":")" + state + R"(","reason":")" + reason +
                                    R"(","waits_for":"no worker has joined"})");
    return JobText(job.value());
  };
  constexpr char kWaits[] = "  waits: no worker has joined\n";
  EXPECT_THAT(text("starting", "waits for its members"), HasSubstr(kWaits));
  EXPECT_THAT(text("queued", "no worker has joined"), Not(HasSubstr(kWaits))) << "twice";
  EXPECT_THAT(text("done", "done"), Not(HasSubstr(kWaits)));
}

TEST(RemoteTest, AJobReadsWell) {
  EXPECT_EQ(JobText(ParseJobAnswer(kJob).value()),
            "job code-lm-1 is running: step 118 of 300, epoch 1, loss 2.5000, 1:35 min left\n"
            "  2832 samples in all; 1:01 min in its last start\n"
            "  newest checkpoint: step 100\n"
            "  inside: view 3, lineage 1; 1 recovery, 0 rewinds, 2 lanes computed again; base is "
            "step 112\n"
            "  fingerprint f0 after step 110\n"
            "  worker-0 on here: active, 3 lanes, lane 2 of 3\n");
}

TEST(RemoteTest, HowFarAStreamIsAndWhichFilesMayBeRemovedIsShown) {
  const auto text = [](const std::string& stream) {
    return JobText(
        ParseJobAnswer(R"({"id":"j","state":"running","stream":)" + stream + "}").value());
  };
  EXPECT_THAT(text(R"({"samples":33,"end":null,"trimmed":0,"spool_bytes":1536,"file":null})"),
              HasSubstr("  stream: 33 samples so far; 1.5 KiB on the disk\n"));
  EXPECT_THAT(
      text(R"({"samples":33,"end":null,"trimmed":16,"spool_bytes":7,"file":"b\u001b"})"),
      HasSubstr("  stream: 33 samples so far, those before 16 are not kept any more; 7 B on the "
                "disk; all files before b\\x1b are taken\n"));
  EXPECT_THAT(text(R"({"samples":1,"end":1,"trimmed":0,"spool_bytes":0,"file":"b"})"),
              HasSubstr("  stream: ended after 1 sample; 0 B on the disk; all files are taken\n"));
  EXPECT_THAT(text("null"), Not(HasSubstr("stream")));
}

TEST(RemoteTest, AJobThatIsDoneWithoutADigestSaysWhy) {
  const auto text = [](const std::string& digest, const std::string& state) {
    return JobText(
        ParseJobAnswer(R"({"id":"j","digest":)" + digest + R"(,"state":")" + state + "\"}")
            .value());
  };
  EXPECT_THAT(text("\"abc\"", "done"), HasSubstr("  digest abc\n"));
  EXPECT_THAT(text("null", "done"),
              HasSubstr("  digest none: the job made no checkpoint at its end\n"));
  EXPECT_THAT(text("null", "running"), testing::Not(HasSubstr("digest")));
}

TEST(RemoteTest, WhatTheTrainedModelWritesIsShown) {
  const auto job = ParseJobAnswer(R"({"id":"j","state":"done","sample":"int \u001b[2Jmain\nx"})");
  EXPECT_THAT(JobText(job.value()),
              HasSubstr("  a sample of the trained model:\nint \\x1b[2Jmain\nx\n"));
}

TEST(RemoteTest, TheEpochIsOneOfThoseThereAre) {
  const auto text = [](int64_t step, int64_t epoch, int64_t epochs) {
    return JobText({.id = "j",
                    .state = "x",
                    .step = step,
                    .steps = 32,
                    .epoch = epoch,
                    .epochs = epochs,
                    .samples = 7,
                    .loss = NAN});
  };
  EXPECT_THAT(text(31, 1, 2), HasSubstr("step 31 of 32, epoch 2 of 2, loss"));
  EXPECT_THAT(text(32, 2, 2), HasSubstr("step 32 of 32, epoch 2 of 2, loss")) << "done";
  EXPECT_THAT(JobText({.id = "j", .state = "queued", .loss = NAN}),
              HasSubstr("is queued: step 0, loss ?\n  0 samples\n"));
}

TEST(RemoteTest, WhyAJobWaitsOrHasEndedStandsBelowHowFarItIs) {
  const auto text = [](const std::string& state, const std::string& reason) {
    return JobText({.id = "j", .state = state, .reason = reason, .step = 3, .steps = 9, .loss = 1});
  };
  EXPECT_THAT(text("queued", "needs 1 slot; 0 of 1 are free"),
              StartsWith("job j is queued: step 3 of 9, epoch 1, loss 1.0000\n"
                         "  reason: needs 1 slot; 0 of 1 are free\n"));
  EXPECT_THAT(text("failed", "worker-1 ended\x1b[2J"),
              HasSubstr("\n  reason: worker-1 ended\\x1b[2J\n"));
  EXPECT_THAT(text("running", "base is step 3"), Not(HasSubstr("reason")));
  EXPECT_THAT(text("failed", "failed"), Not(HasSubstr("reason")));
}

// What it has was done before: by when it goes on, no time has passed.
TEST(RemoteTest, AJobThatWaitsHasNoSpeed) {
  const auto text = [](const std::string& state, double seconds) {
    return JobText({.id = "j", .state = state, .samples = 10354, .loss = NAN, .seconds = seconds});
  };
  for (const char* state : {"queued", "checking", "starting"})
    for (const double seconds : {0.0, 0.02, 30.0})
      EXPECT_THAT(text(state, seconds), HasSubstr("\n  10354 samples\n")) << state << seconds;
  EXPECT_THAT(text("running", 30), HasSubstr("\n  10354 samples in all; 30 s in its last start\n"));
}

// Whoever took part last takes up no slot any more.
TEST(RemoteTest, AJobThatIsOverHasNoWorkersInAList) {
  const std::string table =
      JobTable({{.id = "a", .state = "done", .step = 4, .steps = 4, .loss = 0.5, .workers = 2},
                {.id = "b", .state = "queued", .loss = NAN},
                {.id = "c", .state = "running", .step = 1, .steps = 4, .loss = 0.5, .workers = 2}});
  EXPECT_EQ(table,
            "job  state       step             loss      workers\n"
            "a    done        4 of 4           0.5000    -\n"
            "b    queued      0                ?         -\n"
            "c    running     1 of 4           0.5000    2\n");
}

TEST(RemoteTest, AListReadsWell) {
  EXPECT_EQ(JobTable({}), "There are no jobs.\n");
  EXPECT_EQ(JobTable({ParseJobAnswer(kJob).value()}),
            "job        state       step             loss      workers\n"
            "code-lm-1  running     118 of 300       2.5000    2\n");
}

TEST(RemoteTest, NobodyThereSaysWhatToDo) {
  std::ostringstream out;
  std::ostringstream err;
  EXPECT_EQ(Remote({.to = "http://127.0.0.1:1"}, {.out = out, .err = err}), 1);
  EXPECT_THAT(err.str(), HasSubstr("muster up"));
}

TEST(RemoteTest, DigestAndAuditReadToPeople) {
  EXPECT_EQ(DigestText(*ParseDigest(R"({"lineage":1,"step":1,"digest":"ab12"})")),
            "digest ab12\n  of the parameters and the optimizer's state after 1 step\n");
  const AuditAnswer audit = *ParseAudit(
      R"({"ok":true,"conclusion":"each of 9 samples once","steps":3,"samples":9,"lanes":6,
          "lineages":[{"number":1,"parent":0,"fork":0,"cause":"start"},
                      {"number":2,"parent":1,"fork":2,"cause":"lost \u001b[2J"}]})");
  const std::string text = AuditText(audit);
  EXPECT_THAT(text, HasSubstr("proven: each of 9 samples once\n  9 uses of samples in 6 lanes of 3 "
                              "steps\n  lineage 2 left lineage 1 before step 2: lost "));
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_EQ(AuditText(*ParseAudit(R"({"ok":false,"conclusion":"sample 4 was used twice"})")),
            "not proven: sample 4 was used twice\n");
}

TEST(RemoteTest, TheLedgerSaysWhoHadWhichSamples) {
  const LedgerPage page = *ParseLedger(
      R"({"steps":[{"step":3,"epoch":1,"lineage":1,"view":2,"loss":null,"lanes":[
           {"lane":0,"worker":"worker-0","count":2,"samples":[7,1]},
           {"lane":1,"worker":"worker-1","count":1,"samples":null},{"lane":2,"samples":5},8]}],"next":4})");
  EXPECT_EQ(page.next, 4);
  ASSERT_EQ(page.steps.size(), 1u);
  EXPECT_EQ(LedgerText(page.steps[0]),
            "step 3: epoch 2, lineage 1, view 2, loss ?\n"
            "  lane 0 by worker-0, 2 samples: 7 1\n"
            "  lane 1 by worker-1, 1 sample\n"
            "  lane 2 by , 0 samples\n");
  const LedgerPage use = *ParseLedger(
      R"({"steps":[{"step":3,"lanes":[{"lane":1,"worker":"worker-0","count":2,"samples":[7]}]}]})");
  EXPECT_THAT(LedgerText(use.steps[0]), HasSubstr("lane 1 by worker-0, 2 samples, among them 7\n"));
  const LedgerPage skipped =
      *ParseLedger(R"({"steps":[{"step":3,"lineage":1,"view":1,"loss":null,"skipped":true}]})");
  EXPECT_EQ(LedgerText(skipped.steps[0]),
            "step 3: epoch 1, lineage 1, view 1, loss ?, skipped: it was not finite\n");
  const LedgerPage without =
      *ParseLedger(R"({"steps":[{"step":3,"lineage":1,"view":1,"loss":2,"left_out":[17,4]}]})");
  EXPECT_THAT(LedgerText(without.steps[0]),
              HasSubstr("\n  left out, since they cannot be read: 17 4\n"));
  EXPECT_EQ(ParseLedger("{}")->next, -1);
}

TEST(RemoteTest, WhatAStepMeasuredHasColumnsOfItsOwn) {
  const HistoryPageAnswer page = *ParseHistory(
      R"({"steps":[{"step":2,"epoch":0,"validation":[{"metric":"loss","value":0.123456789},
           {"metric":"accuracy","value":null}]},{"step":3,"epoch":0}],"next":null})");
  ASSERT_EQ(page.steps.size(), 2u);
  const std::vector<std::string> measures = {"validation.loss", "validation.accuracy"};
  EXPECT_EQ(HistoryHead(true, measures),
            "step,epoch,time,loss,learning_rate,gradient_norm,samples_per_second,samples,seconds,"
            "validation.loss,validation.accuracy\n");
  EXPECT_EQ(HistoryText(page.steps[0], true, measures), "2,0,,,,,,,,0.123456789,\n");
  EXPECT_EQ(HistoryText(page.steps[1], true, measures), "3,0,,,,,,,,,\n");
  EXPECT_EQ(HistoryHead(false, measures) + HistoryText(page.steps[0], false, measures) +
                HistoryText(page.steps[1], false, measures),
            "step      epoch  time                      loss        rate        norm        "
            "samples/s   validation.loss  validation.accuracy\n"
            "2         1      -                         -           -           -           "
            "-           0.1235           -\n"
            "3         1      -                         -           -           -           "
            "-           -                -\n");
}

TEST(RemoteTest, TheHistoryReadsToPeopleAndToTables) {
  const HistoryPageAnswer page = *ParseHistory(
      R"({"steps":[{"step":3,"epoch":1,"time":"2026-11-21T10:11:20.096Z","loss":0.123456789,
           "learning_rate":0.001,"gradient_norm":null,"samples_per_second":512.25,"samples":96,"seconds":0.046},{"step":4}],"next":null})");
  EXPECT_EQ(page.next, -1);
  ASSERT_EQ(page.steps.size(), 2u);
  EXPECT_EQ(HistoryHead(true) + HistoryText(page.steps[0], true),
            "step,epoch,time,loss,learning_rate,gradient_norm,samples_per_second,samples,seconds\n"
            "3,1,2026-11-21T10:11:20.096Z,0.123456789,0.001,,512.25,96,0.046\n");
  EXPECT_EQ(HistoryText(page.steps[1], true), "4,0,,,,,,,\n");
  EXPECT_EQ(
      HistoryText(page.steps[0], false),
      "3         2      2026-11-21T10:11:20.096Z  0.1235      0.001       -           512.2\n");
  // docs/formats.md#metricsjsonl
  EXPECT_EQ(HistoryLine(page.steps[0]),
            R"({"step":3,"lineage":0,"epoch":1,"time":"2026-11-21T10:11:20.096Z",)"
            R"("loss":0.123456789,"learning_rate":0.001,"gradient_norm":null,)"
            R"("samples_per_second":512.25,"samples":96,"seconds":0.046})"
            "\n");
}

}  // namespace
}  // namespace muster::cli
