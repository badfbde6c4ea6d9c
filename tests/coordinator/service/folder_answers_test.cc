// A folder in which nothing runs answers as its coordinator would.
#include "coordinator/service/folder_answers.h"

#include <filesystem>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/storage/kv.h"
#include "lib/wire/job_codec.h"
#include "nlohmann/json.hpp"
#include "tests/coordinator/runtime/scripted_member.h"

namespace muster::coordinator {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

constexpr int kBatch = 4;
constexpr int kSteps = 6;
constexpr uint64_t kManySamples = 97;  // no epoch ends within these steps

constexpr char kLeftOut[] = "1 file or directory that cannot be read, the first is /data/b.h";

// One job of two lanes; it was cut off after its last step but one.
JobJournal CutOffJob() {
  JobJournal job;
  job.id = "a";
  job.submission = 1;
  JobSpec spec = CountingSpec(1);
  spec.training.data.samples = kManySamples;
  spec.training.batch = kBatch;
  spec.training.lanes = 2;
  spec.training.epochs = 0;
  spec.training.steps = kSteps;
  job.spec = *Complete(spec);
  job.phase = JobPhase::kRunning;
  job.environment = CountingEnvironment();
  job.environment->samples = kManySamples;
  job.environment->numeric[kDataLeftOut] = kLeftOut;
  job.lineages = {{LineageNumber(1), LineageNumber(0), Step(0), "start"},
                  {LineageNumber(2), LineageNumber(1), Step(2), "a rewind"}};
  return job;
}

StepRecord RecordOf(const JobJournal& job, int64_t lineage, int64_t step) {
  StepRecord record;
  record.lineage = LineageNumber(lineage);
  record.step = Step(step);
  record.view = ViewNumber(lineage);
  record.lane_holders = {{"worker-0", {1, 1}}, {lineage == 1 ? "worker-1" : "worker-2", {2, 2}}};
  record.samples = StepSamples(job.spec.training, job.environment->samples, record.step);
  record.weight = static_cast<int64_t>(record.samples.count);
  record.loss = 2;
  return record;
}

class FolderAnswersTest : public ::testing::Test {
 protected:
  FolderAnswersTest() {
    EXPECT_NE(mkdtemp(dir_.data()), nullptr);
    auto journal = Journal::Open(*OpenRocks(JournalOf(dir_), JournalFamilies()), TermFileOf(dir_));
    EXPECT_TRUE(journal.ok()) << journal.status();
    const JobJournal job = CutOffJob();
    PersistRecords records{job.id, {}};
    // Steps 2 and 3 were done twice: the rewind left the first time out.
    for (const auto& [lineage, step] : std::vector<std::pair<int64_t, int64_t>>{
             {1, 0}, {1, 1}, {1, 2}, {1, 3}, {2, 2}, {2, 3}, {2, 4}})
      records.records.push_back(RecordOf(job, lineage, step));
    EXPECT_TRUE((*journal)->Write({PersistJob{job}, records}, 1000).ok());
  }
  ~FolderAnswersTest() override { std::filesystem::remove_all(dir_); }

  http::Response Ask(const std::string& method, const std::string& target) const {
    const auto answers = FolderAnswers::Open(dir_, dir_ + "/checkpoints");
    EXPECT_TRUE(answers.ok()) << answers.status();
    return answers.ok() ? (*answers)->Ask(method, target, "{}") : http::Response{};
  }
  Json Get(const std::string& target) const {
    return Json::parse(Ask("GET", target).body, nullptr, /*allow_exceptions=*/false);
  }

  std::string dir_ = ::testing::TempDir() + "/folder-answers-XXXXXX";
};

TEST_F(FolderAnswersTest, TellsOfAJobAsItWasRecordedLast) {
  const Json job = Get("/v1/jobs/a");
  EXPECT_EQ(job["state"], "running");
  EXPECT_EQ(job["step"], 5);
  EXPECT_EQ(job["steps"], kSteps);
  EXPECT_TRUE(job["seconds_left"].is_null()) << "nobody works on it";
  EXPECT_THAT(job["waits_for"].get<std::string>(), HasSubstr("nothing runs in this folder"));
  EXPECT_EQ(Get("/v1/jobs")["jobs"].size(), 1u);
  const Json audit = Get("/v1/jobs/a/audit");
  EXPECT_EQ(audit["ok"], true) << audit;
  EXPECT_EQ(audit["steps"], 5);
  EXPECT_EQ(Get("/v1/jobs/b")["error"]["code"], "not_found");
}

TEST_F(FolderAnswersTest, ChangesNothing) {
  for (const char* target : {"/v1/jobs", "/v1/jobs/a:stop", "/v1/jobs/a:cancel"}) {
    const http::Response answer = Ask("POST", target);
    EXPECT_GE(answer.status, 400) << target;
  }
  EXPECT_THAT(Ask("POST", "/v1/jobs/a:stop").body, HasSubstr("nothing runs in this folder"));
  EXPECT_EQ(Ask("DELETE", "/v1/jobs/a").status, 409);
  EXPECT_EQ(Ask("GET", "/v1/jobs/a/events").status, 409);
  auto journal = Journal::Open(*OpenRocks(JournalOf(dir_), JournalFamilies()), TermFileOf(dir_));
  ASSERT_TRUE(journal.ok()) << journal.status();
  EXPECT_EQ((*journal)->term(), TermNumber(2)) << "reading began no term";
}

TEST_F(FolderAnswersTest, TheLedgerIsThatOfTheHistoryThatCounts) {
  const Json all = Get("/v1/jobs/a/ledger");
  ASSERT_EQ(all["steps"].size(), 5u) << all;
  for (int step = 0; step < 5; ++step) {
    EXPECT_EQ(all["steps"][step]["step"], step);
    EXPECT_EQ(all["steps"][step]["lineage"], step < 2 ? 1 : 2);
    EXPECT_EQ(all["steps"][step]["lanes"][1]["worker"], step < 2 ? "worker-1" : "worker-2");
    EXPECT_EQ(all["steps"][step]["lanes"][1]["samples"].size(), 2u);
  }
  const Json part = Get("/v1/jobs/a/ledger?from=1&limit=2");
  EXPECT_EQ(part["steps"].size(), 2u);
  EXPECT_EQ(part["steps"][0]["step"], 1);
  EXPECT_EQ(part["next"], 3);
  EXPECT_TRUE(Get("/v1/jobs/a/ledger?from=3&limit=2")["next"].is_null());
  EXPECT_EQ(Get("/v1/jobs/a/ledger?from=99")["steps"].size(), 0u);
  EXPECT_EQ(Get("/v1/jobs/a/ledger?limit=1001")["error"]["field"], "limit");
}

TEST_F(FolderAnswersTest, TheLedgerSaysWhatTheDataIsWithout) {
  for (const char* query : {"", "?from=3&limit=1", "?sample=28"})
    EXPECT_EQ(Get(std::string("/v1/jobs/a/ledger") + query)["data_left_out"], kLeftOut) << query;
}

TEST_F(FolderAnswersTest, OneSampleIsFoundWhereItWasUsed) {
  const Json all = Get("/v1/jobs/a/ledger");
  const int64_t sample = all["steps"][3]["lanes"][1]["samples"][0];
  const Json uses = Get("/v1/jobs/a/ledger?sample=" + std::to_string(sample));
  ASSERT_EQ(uses["steps"].size(), 1u) << uses;
  EXPECT_EQ(uses["steps"][0]["step"], 3);
  EXPECT_EQ(uses["steps"][0]["lanes"].size(), 1u);
  EXPECT_EQ(uses["steps"][0]["lanes"][0]["lane"], 1);
  EXPECT_EQ(uses["steps"][0]["lanes"][0]["worker"], "worker-2");
  EXPECT_EQ(Get("/v1/jobs/a/ledger?sample=999999999")["error"]["field"], "sample");
}

TEST_F(FolderAnswersTest, ThereIsNothingBehindTheLastStep) {
  for (const std::string from : {"5", "6", "9223372036854775800", "9223372036854775807"})
    for (const std::string what : {"ledger?from=", "ledger?sample=28&from=", "history?from="}) {
      const Json answer = Get("/v1/jobs/a/" + what + from);
      EXPECT_EQ(answer["steps"], Json::array()) << what << from << ": " << answer;
      EXPECT_TRUE(answer["next"].is_null()) << what << from;
    }
  for (const std::string from : {"-1", "9223372036854775808", "x", ""})
    for (const std::string what : {"ledger?sample=28&from=", "ledger?from=", "history?from="}) {
      const Json answer = Get("/v1/jobs/a/" + what + from);
      EXPECT_EQ(answer["error"]["code"], "invalid_argument") << what << from << ": " << answer;
      EXPECT_EQ(answer["error"]["field"], "from") << what << from;
    }
}

TEST_F(FolderAnswersTest, AFolderWithoutAStoreIsNotFound) {
  EXPECT_TRUE(absl::IsNotFound(FolderAnswers::Open(dir_ + "/elsewhere", "").status()));
}

}  // namespace
}  // namespace muster::coordinator
