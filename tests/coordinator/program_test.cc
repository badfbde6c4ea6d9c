// The real program on loopback: what it answers, and what it survives.
#include "tests/coordinator/program.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/http/client.h"
#include "lib/identity/identity_folder.h"
#include "lib/identity/keys.h"
#include "lib/join/join_client.h"
#include "nlohmann/json.hpp"
#include "tests/coordinator/control_client.h"
#include "tests/lib/http/raw_client.h"

namespace muster::coordinator {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kSpec[] =
    R"({"name":"count","task":"counting","lanes":4,"batch":8,"epochs":2,"reduction":"sum","optimizer":{"kind":"sgd","learning_rate":1}})";
constexpr char kOtherTraining[] =
    R"({"name":"count","task":"counting","lanes":5,"batch":8,"epochs":2,"reduction":"sum","optimizer":{"kind":"sgd","learning_rate":0.5}})";

class Directory {
 public:
  Directory()
      : path_(::testing::TempDir() + "coordinator-" + std::to_string(getpid()) + "-" +
              std::to_string(++made_)) {
    std::filesystem::remove_all(path_);
  }
  ~Directory() {
    std::filesystem::remove_all(path_);
    std::filesystem::remove(path_ + ".log");
  }
  const std::string& path() const { return path_; }

 private:
  static inline int made_ = 0;
  const std::string path_;
};

class EachMouth : public ::testing::TestWithParam<const char*> {
 protected:
  std::unique_ptr<ControlClient> Client(const Program& program) const {
    return GetParam() == std::string("rest") ? MakeRestClient(program.http())
                                             : MakeGrpcClient(program.grpc());
  }
  Directory dir_;
  Program program_{dir_.path()};
  std::unique_ptr<ControlClient> client_ = Client(program_);
};

INSTANTIATE_TEST_SUITE_P(Control, EachMouth, ::testing::Values("rest", "grpc"),
                         [](const auto& mouth) { return mouth.param; });

TEST_P(EachMouth, TheSameJobTwiceIsOneJob) {
  const Answer first = client_->Submit("a", kSpec);
  EXPECT_EQ(first.code, "ok") << first.message;
  EXPECT_TRUE(first.created);
  EXPECT_EQ(first.id, "a");
  EXPECT_EQ(first.state, "checking");
  const Answer again = client_->Submit("a", kSpec);
  EXPECT_EQ(again.code, "ok") << again.message;
  EXPECT_FALSE(again.created);
  EXPECT_THAT(client_->List().ids, ElementsAre("a"));
}

TEST_P(EachMouth, AnotherTrainingSpecUnderTheSameIdIsRefusedAndTheFieldsAreNamed) {
  EXPECT_EQ(client_->Submit("a", kSpec).code, "ok");
  const Answer other = client_->Submit("a", kOtherTraining);
  EXPECT_EQ(other.code, "already_exists");
  EXPECT_THAT(other.message,
              AllOf(HasSubstr("lanes: 4 against 5"), HasSubstr("optimizer.learning_rate")));
}

TEST_P(EachMouth, AnIdIsMadeOfTheNameWhereNoneIsGiven) {
  const Answer first = client_->Submit("", kSpec);
  const Answer second = client_->Submit("", kSpec);
  EXPECT_THAT(first.id, HasSubstr("count-"));
  EXPECT_NE(first.id, second.id);
  EXPECT_EQ(second.state, "queued");
  EXPECT_THAT(client_->List().ids, ElementsAre(first.id, second.id));
}

TEST_P(EachMouth, AListComesInPagesAndByState) {
  for (const char* id : {"c", "a", "b"}) EXPECT_EQ(client_->Submit(id, kSpec).code, "ok");
  EXPECT_EQ(client_->Cancel("a").state, "cancelled");
  const Answer first = client_->List(2, "", "");
  EXPECT_THAT(first.ids, ElementsAre("c", "a"));
  ASSERT_FALSE(first.next_page_token.empty());
  const Answer last = client_->List(2, first.next_page_token, "");
  EXPECT_THAT(last.ids, ElementsAre("b"));
  EXPECT_EQ(last.next_page_token, "");
  EXPECT_THAT(client_->List(3, "", "").next_page_token, "");
  EXPECT_THAT(client_->List(0, "", "cancelled").ids, ElementsAre("a"));
  EXPECT_TRUE(client_->List(0, "", "done").ids.empty());
}

TEST_P(EachMouth, AListNamesTheParameterThatIsWrong) {
  const std::pair<Answer, const char*> refused[] = {{client_->List(-1, "", ""), "limit"},
                                                    {client_->List(1001, "", ""), "limit"},
                                                    {client_->List(1, "x", ""), "page_token"},
                                                    {client_->List(1, "-5", ""), "page_token"},
                                                    {client_->List(1, "", "runing"), "state"}};
  for (const auto& [answer, field] : refused) {
    EXPECT_EQ(answer.code, "invalid_argument") << field;
    EXPECT_EQ(answer.field, field) << answer.message;
  }
}

TEST_P(EachMouth, AJobThatHasEndedIsDeleted) {
  EXPECT_EQ(client_->Submit("a", kSpec).code, "ok");
  const Answer refused = client_->Delete("a");
  EXPECT_EQ(refused.code, "failed_precondition");
  EXPECT_THAT(refused.message, HasSubstr("cancel it"));
  EXPECT_EQ(client_->Cancel("a").state, "cancelled");
  EXPECT_EQ(client_->Delete("a").code, "ok");
  while (client_->Get("a").code == "ok") {
  }
  EXPECT_EQ(client_->Get("a").code, "not_found");
  EXPECT_TRUE(client_->List().ids.empty());
  const Answer again = client_->Submit("a", kOtherTraining);
  EXPECT_EQ(again.code, "ok") << again.message;
  EXPECT_TRUE(again.created) << "nothing of the one before is left";
}

TEST_P(EachMouth, AJobThatIsNotThereIsNotFound) {
  Answer watch;
  client_->WatchUntil("nothing", "", "done", watch);
  for (const Answer& answer :
       {client_->Get("nothing"), client_->Cancel("nothing"), client_->Stop("nothing"),
        client_->Delete("nothing"), client_->Fingerprints("nothing"), client_->Audit("nothing"),
        client_->Digest("nothing"), watch}) {
    EXPECT_EQ(answer.code, "not_found") << answer.message;
    EXPECT_THAT(answer.message, HasSubstr("nothing"));
  }
}

TEST_P(EachMouth, ABrokenSpecificationIsRefusedByField) {
  struct Case {
    const char* spec;
    const char* field;
  };
  constexpr Case kCases[] = {
      {R"({"task":"counting","lanes":0,"batch":8,"epochs":1})", "lanes"},
      {R"({"task":"counting","lanes":5000,"batch":8,"epochs":1})", "lanes"},
      {R"({"task":"counting","lanes":2,"batch":0,"epochs":1})", "batch"},
      {R"({"task":"no task","lanes":2,"batch":8,"epochs":1})", "task"},
      {R"({"task":"counting","lanes":2,"batch":8,"epochs":1,"optimizer":{"kind":"adamm"}})",
       "optimizer.kind"},
      {R"({"task":"counting","lanes":2,"batch":8,"epochs":1,"workers":{"min":3,"max":2}})",
       "workers.min"},
      {R"({"task":"code-lm","steps":1,"data":{"paths":["/a","b/c"]}})", "data.paths[1]"},
      {R"({"task":"code-lm","steps":1,"data":{"paths":["/a"]},)"
       R"("validation":{"every_steps":1,"paths":["b"]}})",
       "validation.paths[0]"},
  };
  for (const Case& broken : kCases) {
    const Answer answer = client_->Submit("a", broken.spec);
    EXPECT_EQ(answer.code, "invalid_argument") << broken.spec;
    EXPECT_EQ(answer.field, broken.field) << answer.message;
  }
  EXPECT_TRUE(client_->List().ids.empty());
}

TEST_P(EachMouth, AnIdThatIsNoNameOfADirectoryIsRefused) {
  for (const std::string& id : {std::string(".."), std::string(".a"), std::string("a/b"),
                                std::string("a b"), std::string(101, 'a')}) {
    const Answer answer = client_->Submit(id, kSpec);
    EXPECT_EQ(answer.code, "invalid_argument") << id;
    EXPECT_EQ(answer.field, "id");
  }
}

TEST_P(EachMouth, ACancelledJobMakesRoomForTheNext) {
  EXPECT_EQ(client_->Submit("a", kSpec).state, "checking");
  EXPECT_EQ(client_->Submit("b", kSpec).state, "queued");
  EXPECT_EQ(client_->Cancel("a").state, "cancelled");
  EXPECT_EQ(client_->Cancel("a").state, "cancelled");
  EXPECT_EQ(client_->Get("b").state, "checking");
  EXPECT_EQ(client_->Stop("b").state, "stopped");
  EXPECT_EQ(client_->Submit("b", kSpec).state, "checking");
  EXPECT_EQ(client_->Submit("a", kSpec).state, "cancelled");
}

TEST_P(EachMouth, EventsAreReplayedAndThenFollow) {
  ASSERT_EQ(client_->Submit("a", kSpec).code, "ok");
  Answer answer;
  std::vector<std::string> events;
  std::thread watches([&] { events = client_->WatchUntil("a", "", "done", answer); });
  EXPECT_EQ(MakeRestClient(program_.http())->Cancel("a").state, "cancelled");
  watches.join();
  EXPECT_EQ(answer.code, "ok") << answer.message;
  EXPECT_THAT(events, ElementsAre("state", "state", "state", "done"));
  EXPECT_THAT(client_->WatchUntil("a", "1-3", "done", answer), ElementsAre("done"));
}

TEST_P(EachMouth, EventsAfterWhatIsNoEventsIdAreRefused) {
  EXPECT_EQ(client_->Submit("a", kSpec).code, "ok");
  Answer answer;
  client_->WatchUntil("a", "-1--1", "never", answer);
  EXPECT_EQ(answer.code, "invalid_argument");
  EXPECT_THAT(answer.message, HasSubstr("TERM-NUMBER"));
}

TEST_P(EachMouth, TheEventsOfAJobThatIsOverEnd) {
  ASSERT_EQ(client_->Submit("a", kSpec).code, "ok");
  ASSERT_EQ(client_->Cancel("a").code, "ok");
  Answer answer;
  EXPECT_THAT(client_->WatchUntil("a", "", "never", answer),
              ElementsAre("state", "state", "state", "done"));
  EXPECT_THAT(client_->WatchUntil("a", "1-4", "never", answer), ElementsAre());
}

TEST_P(EachMouth, AfterAKillAllIsThereAndWhoFollowedLearnsOfTheRestart) {
  ASSERT_EQ(client_->Submit("a", kSpec).code, "ok");
  ASSERT_EQ(client_->Submit("b", kSpec).code, "ok");
  ASSERT_EQ(client_->Cancel("b").code, "ok");
  program_.Kill();
  Program again(dir_.path());
  const auto client = Client(again);
  EXPECT_THAT(client->List().ids, ElementsAre("a", "b"));
  EXPECT_EQ(client->Get("a").state, "checking");
  EXPECT_EQ(client->Get("b").state, "cancelled");
  EXPECT_FALSE(client->Submit("a", kSpec).created);
  Answer answer;
  EXPECT_THAT(client->WatchUntil("a", "1-3", "restart", answer), ElementsAre("restart"));
  EXPECT_THAT(client->WatchUntil("b", "1-1", "never", answer), ElementsAre("restart", "done"))
      << "whether it had been told or not";
}

TEST_P(EachMouth, WhoWatchesOrWaitsDoesNotHoldUpTheEnd) {
  ASSERT_EQ(client_->Submit("a", kSpec).code, "ok");
  Answer answer;
  Answer before;
  client_->WatchUntil("a", "", "state", before);
  std::thread watches([&] { client_->WatchUntil("a", "", "never", answer); });
  program_.Terminate();
  EXPECT_EQ(program_.Wait(), 0);
  watches.join();
  EXPECT_NE(answer.code, "ok");
}

TEST(Rest, BodiesThatAreNoSubmissionAreRefused) {
  const Directory dir;
  const Program program(dir.path());
  struct Case {
    const char* body;
    const char* field;
  };
  const std::string huge = R"({"id":"a","spec":{"name":")" + std::string(100'000, 'x') + R"("}})";
  const Case cases[] = {{"", ""},
                        {"{", ""},
                        {"[]", ""},
                        {"null", ""},
                        {R"({"id":"a"})", "spec"},
                        {R"({"id":7,"spec":{}})", "id"},
                        {R"({"id":"","spec":{}})", "id"},
                        {R"({"spec":[]})", ""},
                        {R"({"spec":{},"sepc":{}})", "sepc"},
                        {R"({"id":"a","spec":{"lanes":{"a":1}}})", "lanes"},
                        {"\xff\xfe", ""},
                        {huge.c_str(), "name"}};
  for (const Case& broken : cases) {
    const auto response = http::Post(program.Url("/v1/jobs"), broken.body);
    ASSERT_TRUE(response.ok()) << response.status();
    EXPECT_EQ(response->status, 400) << broken.body << response->body;
    const auto json = nlohmann::json::parse(response->body, nullptr, false);
    ASSERT_TRUE(json.is_object()) << response->body;
    EXPECT_EQ(json["error"]["code"], "invalid_argument");
    if (*broken.field != '\0') {
      EXPECT_EQ(json["error"].value("field", ""), broken.field) << response->body;
    }
  }
}

TEST(Rest, AnswersSayHowTheyFailed) {
  const Directory dir;
  const Program program(dir.path());
  ASSERT_EQ(http::Post(program.Url("/v1/jobs"), std::string(R"({"id":"a","spec":)") + kSpec + "}")
                ->status,
            201);
  ASSERT_EQ(http::Post(program.Url("/v1/jobs"), std::string(R"({"id":"a","spec":)") + kSpec + "}")
                ->status,
            200);
  EXPECT_EQ(http::Post(program.Url("/v1/jobs"),
                       std::string(R"({"id":"a","spec":)") + kOtherTraining + "}")
                ->status,
            409);
  EXPECT_EQ(http::Get(program.Url("/v1/jobs/nothing"))->status, 404);
  EXPECT_EQ(http::Get(program.Url("/v1/nothing"))->status, 404);
  EXPECT_EQ(http::Post(program.Url("/v1/jobs/a"), "")->status, 405);
  EXPECT_EQ(http::Get(program.Url("/v1/jobs/a/digest?step=x"))->status, 400);
  EXPECT_EQ(http::Get(program.Url("/v1/jobs/a/digest?step=7"))->status, 404);
  EXPECT_EQ(http::Get(program.Url("/healthz"))->status, 200);
  EXPECT_EQ(http::Get(program.Url("/readyz"))->status, 200);
  const auto audit = nlohmann::json::parse(http::Get(program.Url("/v1/jobs/a/audit"))->body);
  EXPECT_EQ(audit["ok"], false);
  const auto metrics = http::Get(program.Url("/metrics"));
  EXPECT_THAT(metrics->body, AllOf(HasSubstr("muster_jobs"), HasSubstr("muster_term"),
                                   HasSubstr("muster_queue_depth")));
}

TEST(Rest, AJobHasAllFieldsOfTheContract) {
  const Directory dir;
  const Program program(dir.path());
  http::Post(program.Url("/v1/jobs"), std::string(R"({"id":"a","spec":)") + kSpec + "}").value();
  const auto job = nlohmann::json::parse(http::Get(program.Url("/v1/jobs/a"))->body);
  for (const char* name : {"id",
                           "name",
                           "state",
                           "reason",
                           "waits_for",
                           "step",
                           "steps",
                           "epoch",
                           "epochs",
                           "samples",
                           "loss",
                           "validation",
                           "validation_step",
                           "digest",
                           "digest_step",
                           "exit_code",
                           "sample",
                           "fingerprint",
                           "fingerprint_step",
                           "view",
                           "lineage",
                           "workers",
                           "members",
                           "views",
                           "recoveries",
                           "rewinds",
                           "lanes_recomputed",
                           "seconds",
                           "checkpoint_step",
                           "seconds_left",
                           "checkpoints",
                           "spec"})
    EXPECT_TRUE(job.contains(name)) << name;
  EXPECT_EQ(job["spec"]["lanes"], 4);
  EXPECT_EQ(job["waits_for"], "no worker has joined");
}

// ---- the program

void ExpectRefused(Program& program, const std::string& why, int code = 64) {
  EXPECT_FALSE(program.listens());
  EXPECT_EQ(program.Wait(), code);
  EXPECT_THAT(program.Said(), HasSubstr(why));
}

TEST(ProgramTest, EndsCleanlyWhenTold) {
  const Directory dir;
  Program program(dir.path());
  ASSERT_TRUE(program.listens());
  program.Terminate();
  EXPECT_EQ(program.Wait(), 0);
}

TEST(ProgramTest, ASecondOneOnTheDirectoryIsRefusedAndTheFirstGoesOn) {
  const Directory dir;
  Program first(dir.path());
  Program second(dir.path());
  ExpectRefused(second, "in use by another coordinator");
  EXPECT_EQ(http::Get(first.Url("/healthz"))->status, 200);
}

TEST(ProgramTest, AnOlderCopyOfTheJournalIsRefused) {
  const Directory dir;
  const std::string journal = dir.path() + "/journal";
  const auto start_once = [&] {
    Program program(dir.path());
    ASSERT_TRUE(program.listens());
    program.Terminate();
    EXPECT_EQ(program.Wait(), 0);
  };
  start_once();
  std::filesystem::copy(journal, dir.path() + "/copy", std::filesystem::copy_options::recursive);
  start_once();
  std::filesystem::remove_all(journal);
  std::filesystem::rename(dir.path() + "/copy", journal);
  Program program(dir.path());
  ExpectRefused(program, "Bring back the newest copy of the directory", 65);
}

// On another machine, which does not see its lock.
TEST(ProgramTest, OneWhoseCheckpointsAnotherClaimsEndsAndIsNotToBeStartedAgain) {
  constexpr int kReplaced = 69;
  const Directory dir;
  Program program(dir.path(), {});
  ASSERT_TRUE(program.listens());
  std::string cluster;
  std::ifstream(dir.path() + "/checkpoints/.owner") >> cluster;
  std::ofstream(dir.path() + "/checkpoints/.term-" + cluster + "-7") << "7 0123\n";
  EXPECT_EQ(program.Wait(), kReplaced) << "it finds that out by itself";
  EXPECT_THAT(program.Said(), HasSubstr("has been replaced by one of term 7"));
}

TEST(ProgramTest, TwoClustersDoNotShareAFolderOfCheckpoints) {
  const Directory dir;
  const Directory other_dir;
  const std::string checkpoints = dir.path() + "/checkpoints";
  {
    const Program first(dir.path(), {"--checkpoint-dir", checkpoints});
    ASSERT_TRUE(first.listens());
    Program second(other_dir.path(), {"--checkpoint-dir", checkpoints});
    ExpectRefused(second, "holds the checkpoints of cluster");
  }
  Program second(other_dir.path(), {"--checkpoint-dir", checkpoints});
  ExpectRefused(second, checkpoints + "/.owner");
  EXPECT_TRUE(Program(dir.path(), {"--checkpoint-dir", checkpoints}).listens());
}

// A limit of file sizes stands for a disk that refuses a write for another reason than its space.
TEST(ProgramTest, AJournalThatCannotBeWrittenAnyMoreEndsItAndTheNextStartGoesOn) {
  const Directory dir;
  const auto submit = [](const Program& program, const std::string& id) {
    const auto answer = http::Post(program.Url("/v1/jobs"),
                                   absl::StrCat(R"({"id":")", id, R"(","spec":)", kSpec, "}"));
    return answer.ok() ? answer->status : 0;
  };
  {
    Program program(dir.path(), {"--log", "/dev/stderr"});
    ASSERT_EQ(submit(program, "a"), 201);
    program.LimitFileSize(1);
    EXPECT_NE(submit(program, "b"), 201);
    EXPECT_EQ(program.Wait(), 75);
    EXPECT_THAT(program.Said(), HasSubstr("the coordinator ends, and is to be started again"));
  }
  const Program program(dir.path());
  ASSERT_TRUE(program.listens());
  EXPECT_EQ(http::Get(program.Url("/healthz"))->status, 200);
  EXPECT_EQ(http::Get(program.Url("/v1/jobs/a"))->status, 200);
  EXPECT_EQ(http::Get(program.Url("/v1/jobs/b"))->status, 404);
  EXPECT_EQ(submit(program, "b"), 201);
}

// To who started it such a process looks alive, and to everybody else it is gone.
TEST(ProgramTest, OneThatMayTakeNoConnectionAnyMoreEndsItselfAndTheNextStartGoesOn) {
  const Directory dir;
  {
    Program program(dir.path(), {"--probe-every-ms", "20"});
    ASSERT_EQ(MakeRestClient(program.http())->Submit("a", kSpec).code, "ok");
    program.LimitDescriptors();
    EXPECT_EQ(program.Wait(), 75);
    EXPECT_THAT(program.Said(), AllOf(HasSubstr("this process may open no more files"),
                                      HasSubstr("this process ends, so that it is started again")));
  }
  const Program program(dir.path());
  ASSERT_TRUE(program.listens());
  EXPECT_EQ(http::Get(program.Url("/healthz"))->status, 200);
  EXPECT_EQ(MakeRestClient(program.http())->Get("a").state, "checking");
}

TEST(ProgramTest, APortInUseIsAnErrorThatNamesIt) {
  const Directory first_dir;
  const Program first(first_dir.path());
  const Directory dir;
  {
    Program second(dir.path(), {"--http", first.http()});
    ExpectRefused(second, "port is in use");
  }
  {
    Program second(dir.path(), {"--listen", first.grpc(), "--await-listen"});
    ExpectRefused(second, "is in use by another process", 75);
  }
  {
    Program second(dir.path(), {"--http", first.http(), "--await-listen"});
    ExpectRefused(second, "port is in use");
  }
  Program second(dir.path(), {"--listen", first.grpc()});
  ExpectRefused(second, "is in use by another process");
}

TEST(ProgramTest, APortInUseIsWorthAnotherTryWhereAJobWaitsForItsCoordinator) {
  const Directory other_dir;
  const Program other(other_dir.path());
  const Directory dir;
  {
    const Program first(dir.path());
    ASSERT_EQ(MakeRestClient(first.http())->Submit("a", kSpec).code, "ok");
  }
  {
    Program second(dir.path(), {"--http", other.http()});
    ExpectRefused(second, "port is in use", 75);
  }
  Program second(dir.path(), {"--listen", other.grpc()});
  ExpectRefused(second, "is in use by another process", 75);
}

TEST(ProgramTest, BadConfigurationIsRefusedWithWhatToDo) {
  const Directory dir;
  std::filesystem::create_directories(dir.path());
  const std::string file = dir.path() + "/file";
  std::ofstream(file) << "not a directory";
  struct Case {
    std::vector<std::string> arguments;
    const char* says;
  };
  const Case cases[] = {{{"--dir", file + "/store"}, "name a directory"},
                        {{"--checkpoint-dir", file + "/store"}, "name a directory"},
                        {{"--listen", "nowhere"}, "--listen"},
                        {{"--http", "127.0.0.1:99999"}, "--http"},
                        {{"--listen", "8.8.8.8:0"}, "it is not loopback"},
                        {{"--http", "0.0.0.0:0"}, "it is not loopback"},
                        {{"--fail-at", "lunch:1"}, "persisted_unpublished"},
                        {{"--fail-at", "forming:0"}, "N from 1"},
                        {{"--lease-ms", "499"}, "--lease-ms"},
                        {{"--lease-ms", "600001"}, "--lease-ms"},
                        {{"--thread-patience", "0"}, "--thread-patience"},
                        {{"--probe-every-ms", "0"}, "--probe-every-ms"},
                        {{"--log-level", "loud"}, "use debug, info, warning or error"},
                        {{"--checkpoint-dir", ""}, "--checkpoint-dir: is empty"},
                        {{"--nonsense"}, "--nonsense"}};
  for (const Case& bad : cases) {
    const Directory store;
    Program program(store.path(), bad.arguments);
    SCOPED_TRACE(bad.arguments[0] + " " + bad.arguments.back());
    ExpectRefused(program, bad.says);
  }
}

TEST(ProgramTest, ADamagedJournalIsToldAndNotStartedFrom) {
  for (const bool deleted : {false, true}) {
    const Directory dir;
    { Program program(dir.path()); }
    std::vector<std::filesystem::path> manifests;
    for (const auto& entry : std::filesystem::directory_iterator(dir.path() + "/journal"))
      if (entry.path().filename().string().starts_with("MANIFEST"))
        manifests.push_back(entry.path());
    for (const std::filesystem::path& manifest : manifests) {
      if (deleted)
        std::filesystem::remove(manifest);
      else
        std::ofstream(manifest) << "garbage";
    }
    Program program(dir.path());
    ExpectRefused(program, dir.path(), 65);
  }
}

// Else training data around them would grow while it is read.
TEST(ProgramTest, ItsFoldersAreMarkedAsNoTrainingData) {
  const Directory dir, checkpoints;
  const Program program(dir.path(), {"--checkpoint-dir", checkpoints.path() + "/here"});
  ASSERT_TRUE(program.listens());
  EXPECT_TRUE(std::filesystem::exists(dir.path() + "/muster-folder"));
  EXPECT_TRUE(std::filesystem::exists(checkpoints.path() + "/here/muster-folder"));
}

TEST(ProgramTest, KilledBetweenTheJournalAndTheAnswerTheJobIsThereAfterwards) {
  const Directory dir;
  Program program(dir.path(), {"--fail-at", "persisted_unpublished:1"});
  const Answer lost = MakeRestClient(program.http())->Submit("a", kSpec);
  EXPECT_EQ(lost.code, "transport");
  EXPECT_EQ(program.Wait(), 128 + SIGKILL);
  Program again(dir.path());
  EXPECT_EQ(MakeRestClient(again.http())->Get("a").state, "checking");
}

// An end is written, and the coordinator dies before it tells it.
TEST(ProgramTest, KilledBetweenTheJournalAndTheNewsOfAnEndTheNextOneTellsIt) {
  const Directory dir;
  {
    Program before(dir.path());
    ASSERT_EQ(MakeRestClient(before.http())->Submit("a", kSpec).code, "ok");
    ASSERT_EQ(MakeRestClient(before.http())->Stop("a").state, "stopped");
    before.Kill();
  }
  Program program(dir.path(), {"--fail-at", "persisted_unpublished:1"});
  EXPECT_EQ(MakeRestClient(program.http())->Cancel("a").code, "transport");
  EXPECT_EQ(program.Wait(), 128 + SIGKILL);
  Program again(dir.path());
  const auto client = MakeRestClient(again.http());
  EXPECT_EQ(client->Get("a").state, "cancelled");
  Answer answer;
  EXPECT_THAT(client->WatchUntil("a", "2-1", "never", answer), ElementsAre("restart", "done"));
}

std::string FirstLineOf(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

int StatusWith(const Program& program, const std::string& path, const std::string& token) {
  const auto answer = http::Get(program.Url(path), {.token = token});
  return answer.ok() ? answer->status : 0;
}

TEST(ProgramTest, TokensAreAskedForAndOutliveARestart) {
  const Directory dir;
  const std::string admin_file = dir.path() + "/identity/admin.token";
  std::string admin, ada;
  {
    const Program program(dir.path(), {"--tokens"});
    ASSERT_TRUE(program.listens());
    admin = FirstLineOf(admin_file);
    EXPECT_EQ(StatusWith(program, "/healthz", ""), 200);
    EXPECT_EQ(StatusWith(program, "/v1/jobs", ""), 401);
    EXPECT_EQ(StatusWith(program, "/v1/jobs", admin), 200);
    EXPECT_EQ(MakeGrpcClient(program.grpc())->Get("a").code, "unauthenticated");
    const auto made =
        http::Post(program.Url("/v1/tokens"),
                   R"({"user":"ada","role":"viewer","namespace":"default"})", {.token = admin});
    ASSERT_TRUE(made.ok()) << made.status();
    ASSERT_EQ(made->status, 201) << made->body;
    ada = nlohmann::json::parse(made->body)["token"];
  }
  namespace fs = std::filesystem;
  EXPECT_EQ(fs::status(admin_file).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  const Program again(dir.path(), {"--tokens"});
  EXPECT_EQ(FirstLineOf(admin_file), admin) << "it is made once";
  EXPECT_EQ(StatusWith(again, "/v1/jobs", ada), 200);
  EXPECT_EQ(StatusWith(again, "/v1/tokens", ada), 403);
  const auto tokens = http::Get(again.Url("/v1/tokens"), {.token = admin});
  const auto list = nlohmann::json::parse(tokens->body)["tokens"];
  ASSERT_EQ(list.size(), 2u);
  const auto revoke = [&](size_t i) {
    const std::string id = list[i]["id"];
    return http::Delete(again.Url("/v1/tokens/" + id), {.token = admin})->status;
  };
  EXPECT_EQ(revoke(0), 409) << "it is the last admin's";
  EXPECT_EQ(revoke(1), 200);
  EXPECT_EQ(StatusWith(again, "/v1/jobs", ada), 401);
  EXPECT_THAT(FirstLineOf(dir.path() + "/audit.jsonl"), HasSubstr("ada viewer default"));
}

// As after an end between the file and the journal.
TEST(ProgramTest, TheTokenOfTheFirstAdminIsTheOneThatLiesThere) {
  const Directory dir;
  const std::string admin = "muster-admin-00112233445566778899aabbccddeeff";
  std::filesystem::create_directories(dir.path() + "/identity");
  ASSERT_TRUE(WriteSecret(dir.path() + "/identity/admin.token", admin + "\n").ok());
  const Program program(dir.path(), {"--tokens"});
  EXPECT_EQ(StatusWith(program, "/v1/tokens", admin), 200);
}

// Somebody may know it who is no admin.
TEST(ProgramTest, ATokenOfTheFirstAdminThatOthersCanReadIsNotTaken) {
  const Directory dir;
  std::filesystem::create_directories(dir.path() + "/identity");
  std::ofstream(dir.path() + "/identity/admin.token")
      << "muster-admin-00112233445566778899aabbccddeeff\n";
  ASSERT_EQ(chmod((dir.path() + "/identity/admin.token").c_str(), 0644), 0);
  Program program(dir.path(), {"--tokens"});
  ASSERT_FALSE(program.listens());
  EXPECT_NE(program.Wait(), 0);
  EXPECT_THAT(program.Said(), HasSubstr("admin.token' may be read or written by others"));
}

// With an identity, and asking for tokens.
class HttpsProgramTest : public ::testing::Test {
 protected:
  HttpsProgramTest() {
    const Identity own = IssueIdentity(authority_, {"c1", CoordinatorPeer{}}, absl::Now()).value();
    EXPECT_TRUE(WriteIdentity(identity_.path(), own).ok());
    program_.emplace(dir_.path(),
                     std::vector<std::string>{"--tokens", "--identity", identity_.path(),
                                              "--probe-every-ms", "1"});
    admin_ = FirstLineOf(dir_.path() + "/identity/admin.token");
  }
  http::ClientOptions As(const std::string& token) const {
    return {.token = token, .trust = trust_};
  }
  std::string Url(const std::string& path) const { return "https://" + program_->http() + path; }
  int StatusAs(const std::string& path, const std::string& token) const {
    const auto answer = http::Get(Url(path), As(token));
    return answer.ok() ? answer->status : 0;
  }
  std::string MakeToken(const std::string& grant) const {
    const auto made = http::Post(Url("/v1/tokens"), grant, As(admin_));
    return made.ok() ? nlohmann::json::parse(made->body).value("token", "") : "";
  }

  const Directory dir_, identity_;
  const Authority authority_ = MakeAuthority("c1", absl::Now()).value();
  const Trust trust_{authority_.certificates_pem, "c1"};
  std::optional<Program> program_;
  std::string admin_;
};

TEST_F(HttpsProgramTest, RestIsHttpsAndMetricsStayPlain) {
  ASSERT_TRUE(program_->listens());
  EXPECT_EQ(StatusAs("/healthz", ""), 200);
  EXPECT_EQ(StatusAs("/readyz", ""), 200);
  EXPECT_EQ(StatusAs("/v1/jobs", ""), 401);
  EXPECT_EQ(StatusAs("/v1/jobs", admin_), 200);
  const auto plain = http::Get("http://" + program_->http() + "/healthz");
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_EQ(plain->status, 400);
  EXPECT_THAT(plain->body, HasSubstr("speaks HTTPS"));
  ASSERT_NE(program_->metrics(), program_->http());
  const auto metrics = http::Get("http://" + program_->metrics() + "/metrics");
  ASSERT_TRUE(metrics.ok()) << metrics.status();
  EXPECT_THAT(metrics->body, HasSubstr("muster_http_requests_total"));
  EXPECT_EQ(http::Get("http://" + program_->metrics() + "/v1/jobs")->status, 404);
}

TEST_F(HttpsProgramTest, AWatchEndsWhenItsTokenIsTakenAway) {
  const std::string ada = MakeToken(R"({"user":"ada","role":"viewer","namespace":"default"})");
  ASSERT_NE(ada, "");
  const std::string body = absl::StrCat(R"({"id":"a","spec":)", kSpec, "}");
  ASSERT_EQ(http::Post(Url("/v1/jobs"), body, As(admin_))->status, 201);
  const auto list = nlohmann::json::parse(http::Get(Url("/v1/tokens"), As(admin_))->body)["tokens"];
  ASSERT_EQ(list.size(), 2u);
  const std::string id = list[1]["id"];
  bool is_revoked = false;
  const auto revoke_once = [&](const http::Event&) {
    if (!is_revoked) is_revoked = http::Delete(Url("/v1/tokens/" + id), As(admin_))->status == 200;
    return is_revoked;
  };
  const http::StreamOptions as_ada{.token = ada, .trust = trust_};
  const absl::Status ended = http::StreamEvents(Url("/v1/jobs/a/events"), revoke_once, as_ada);
  EXPECT_TRUE(is_revoked);
  EXPECT_EQ(ended.code(), absl::StatusCode::kUnavailable) << ended;
  EXPECT_EQ(http::StreamEvents(Url("/v1/jobs/a/events"), revoke_once, as_ada).code(),
            absl::StatusCode::kUnauthenticated);
}

TEST_F(HttpsProgramTest, AnIdThatIsTakenInAnotherNamespaceIsToldWithNothingOfIt) {
  const std::string far = MakeToken(R"({"user":"far","role":"submitter","namespace":"other"})");
  const std::string body = absl::StrCat(R"({"id":"a","spec":)", kSpec, "}");
  ASSERT_EQ(http::Post(Url("/v1/jobs"), body, As(admin_))->status, 201);
  const std::string theirs = absl::StrCat(R"({"id":"a","spec":{"namespace":"other",)",
                                          absl::string_view(kSpec).substr(1), "}");
  const auto refused = http::Post(Url("/v1/jobs"), theirs, As(far));
  ASSERT_TRUE(refused.ok()) << refused.status();
  EXPECT_EQ(refused->status, 409) << refused->body;
  EXPECT_THAT(refused->body, HasSubstr("the id a is not free"));
  EXPECT_EQ(StatusAs("/v1/jobs/a", far), 404);
}

absl::StatusOr<Identity> JoinAs(const std::string& host, const std::string& token,
                                const Program& program, const std::string& key) {
  return JoinCluster(
      {.address = program.join(), .token = ParseJoinToken(token).value(), .host = host}, key,
      std::chrono::steady_clock::now() + std::chrono::seconds(60), {});
}

// As a person asks who has the authority that lies in the folder.
absl::StatusOr<http::Response> AskedOfHost(const Program& program, const Directory& dir,
                                           const std::string& host_and_verb) {
  const Identity own = ReadIdentity(dir.path() + "/identity").value();
  return http::Post("https://" + program.http() + "/v1/hosts/" + host_and_verb, "{}",
                    {.trust = {own.authority_pem, own.name.cluster}});
}

TEST(ProgramTest, HostsJoinTheClusterOfItsOwnAuthorityAlsoAfterARestart) {
  const Directory dir;
  const std::vector<std::string> arguments = {"--authority", "--join-listen", "127.0.0.1:0"};
  const std::string key = MakeKey().value();
  std::string token;
  {
    const Program program(dir.path(), arguments);
    ASSERT_TRUE(program.listens());
    const auto admitted = AskedOfHost(program, dir, "node7:admit");
    ASSERT_TRUE(admitted.ok()) << admitted.status();
    ASSERT_EQ(admitted->status, 200) << admitted->body;
    token = nlohmann::json::parse(admitted->body).value("token", "");
    const absl::StatusOr<Identity> joined = JoinAs("node7", token, program, key);
    ASSERT_TRUE(joined.ok()) << joined.status();
    EXPECT_THAT(ToUri(joined->name), ::testing::EndsWith("/host/node7"));
  }
  const Program again(dir.path(), arguments);
  ASSERT_TRUE(again.listens());
  EXPECT_TRUE(JoinAs("node7", token, again, key).ok()) << "the same key is renewed";
  EXPECT_EQ(JoinAs("node7", token, again, MakeKey().value()).status().code(),
            absl::StatusCode::kAborted)
      << "it may still be there with the first";
  EXPECT_EQ(JoinAs("node8", token, again, key).status().code(),
            absl::StatusCode::kPermissionDenied);
  ASSERT_EQ(AskedOfHost(again, dir, "node7:revoke")->status, 200);
  EXPECT_EQ(JoinAs("node7", token, again, key).status().code(), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(AskedOfHost(again, dir, "nobody:revoke")->status, 404);
}

// What is in it would let others of this machine join in the place of a host.
TEST(ProgramTest, OnlyItsOwnerLooksIntoAStoreWithKeysOfHosts) {
  namespace fs = std::filesystem;
  const Directory dir;
  const fs::path journal = dir.path() + "/journal";
  const auto rights = [&](std::vector<std::string> arguments) {
    Program program(dir.path(), std::move(arguments));
    EXPECT_TRUE(program.listens());
    return fs::status(journal).permissions();
  };
  EXPECT_EQ(rights({"--authority"}), fs::perms::owner_all);
  fs::permissions(journal, fs::perms::owner_all | fs::perms::others_read | fs::perms::others_exec);
  EXPECT_EQ(rights({"--authority"}), fs::perms::owner_all) << "of an earlier version";
}

TEST(ProgramTest, BeyondThisMachineNobodyIsAnsweredWithoutATokenAlsoOverHttps) {
  const Directory dir;
  Program open(dir.path(), {"--authority", "--http", "0.0.0.0:0"});
  ASSERT_FALSE(open.listens());
  EXPECT_NE(open.Wait(), 0);
  EXPECT_THAT(open.Said(), HasSubstr("give --tokens"));
  EXPECT_TRUE(Program(dir.path(), {"--authority", "--tokens", "--http", "0.0.0.0:0"}).listens());
}

TEST(ProgramTest, HostsJoinWhereSomebodySignsForThem) {
  const Directory dir, identity;
  const Authority authority = MakeAuthority("c1", absl::Now()).value();
  const Identity own = IssueIdentity(authority, {"c1", CoordinatorPeer{}}, absl::Now()).value();
  ASSERT_TRUE(WriteIdentity(identity.path(), own).ok());
  Program program(dir.path(), {"--identity", identity.path(), "--join-listen", "127.0.0.1:0"});
  ASSERT_FALSE(program.listens());
  EXPECT_NE(program.Wait(), 0);
  EXPECT_THAT(program.Said(), HasSubstr("--join-listen: hosts join where"));
}

TEST(ProgramTest, WhatIsNoSecretOfARunIsToldWithAWayToMakeOne) {
  for (const std::string text : {"", "muster-join-node7-00112233445566778899aabbccddeeff"}) {
    const Directory dir, other;
    const std::string file = other.path() + "/secret";
    std::filesystem::create_directories(other.path());
    ASSERT_TRUE(WriteSecret(file, text + "\n").ok());
    Program program(dir.path(), {"--authority", "--join-secret-file", file});
    ASSERT_FALSE(program.listens());
    EXPECT_NE(program.Wait(), 0);
    EXPECT_THAT(program.Said(), HasSubstr("echo muster-join-")) << text;
  }
}

TEST(ProgramTest, StoreAndAuthorityAreNotStartedWithoutEachOther) {
  const Directory dir;
  ASSERT_TRUE(Program(dir.path(), {"--authority"}).listens());
  const auto refused = [&](std::vector<std::string> arguments) {
    Program program(dir.path(), std::move(arguments));
    EXPECT_FALSE(program.listens());
    EXPECT_NE(program.Wait(), 0);
    return program.Said();
  };
  EXPECT_THAT(refused({}), HasSubstr("start it with --authority"));
  std::filesystem::rename(dir.path() + "/identity", dir.path() + "/elsewhere");
  EXPECT_THAT(refused({"--authority"}), HasSubstr("is missing"));
  std::filesystem::rename(dir.path() + "/elsewhere", dir.path() + "/identity");
  std::filesystem::remove_all(dir.path() + "/journal");
  for (const auto& entry : std::filesystem::directory_iterator(dir.path()))
    if (entry.path().filename() != "identity") std::filesystem::remove_all(entry.path());
  EXPECT_THAT(refused({"--authority"}), HasSubstr("bring back the store"));
  const std::string cluster = ReadIdentity(dir.path() + "/identity")->name.cluster;
  std::filesystem::remove_all(dir.path() + "/journal");
  std::filesystem::remove_all(dir.path() + "/journal.marks");
  EXPECT_THAT(refused({"--authority", "--cluster-id", cluster}), HasSubstr("bring back the store"));
}

TEST(ProgramTest, GarbageOnBothPortsHoldsUpNobody) {
  const Directory dir;
  const Program program(dir.path());
  const std::string noise[] = {"", "\r\n\r\n", std::string(70'000, '\xff'), "GET / HTTP/1.1\r\n",
                               "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + std::string(30'000, '\0')};
  std::vector<http::RawClient> clients;
  for (const std::string& address : {program.http(), program.grpc()})
    for (const std::string& bytes : noise) clients.emplace_back(address).Send(bytes);
  EXPECT_EQ(MakeRestClient(program.http())->Submit("a", kSpec).code, "ok");
  EXPECT_EQ(MakeGrpcClient(program.grpc())->Get("a").state, "checking");
}

}  // namespace
}  // namespace muster::coordinator
