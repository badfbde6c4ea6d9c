// The commands about jobs of a cluster, against a coordinator's REST that the test plays.

#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <streambuf>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cli/adopt.h"
#include "cli/cluster_folder.h"
#include "cli/remote.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/base/file_lock.h"
#include "lib/base/mutex.h"
#include "lib/base/printable.h"
#include "lib/http/server.h"
#include "nlohmann/json.hpp"

namespace muster::cli {
namespace {

using Command = RemoteArguments::Command;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class JobCommandsTest : public ::testing::Test {
 protected:
  JobCommandsTest() {
    if (mkdtemp(cluster_.data()) == nullptr) std::abort();
  }
  ~JobCommandsTest() override { std::filesystem::remove_all(cluster_); }

  // Of two workers, of which worker-0 has joined while it runs; the one called streams has a
  // stream.
  static std::string JobJson(const std::string& id, const std::string& state,
                             int64_t first_start = 1) {
    return absl::StrCat(R"({"id":")", id, R"(","state":")", state, R"(","first_start":)",
                        first_start, R"(,"reason":"view 1 forms","exit_code":)",
                        state == "done" ? 0 : 67, R"(,"steps":4,"spec":{"task":"counting",)",
                        R"("steps":4,"resume":"never","workers":{"min":1,"max":2})",
                        id == "streams" ? R"(,"data":{"format":"stream"}},)" : "},",
                        state == "running" ? R"("members":[{"name":"worker-0"}],)" : "",
                        R"("checkpoints":[{"lineage":1,"step":4},{"lineage":1,"step":8}]})");
  }
  void SetState(const std::string& id, const std::string& state) {
    MutexLock lock(mutex_);
    states_[id] = state;
  }
  bool Has(const std::string& id) {
    MutexLock lock(mutex_);
    return states_.count(id) > 0;
  }
  std::vector<std::string> Asked() {
    MutexLock lock(mutex_);
    return asked_;
  }
  void WriteLog(const std::string& job, const std::string& member) const {
    std::filesystem::create_directories(LogFolder(cluster_, job));
    std::ofstream(LogFolder(cluster_, job) + "/" + member + ".log") << "a line\n";
    WriteFirstStart(job, 1);
  }
  // As the agent does, before it starts the first process of a job.
  void WriteFirstStart(const std::string& job, int64_t number) const {
    std::ofstream(cluster_ + "/jobs/" + job + "/first_start") << number << "\n";
  }
  void WriteAddress(const std::string& http) const {
    std::ofstream(cluster_ + "/cluster.json") << R"({"http":")" << http << "\"}";
  }
  // Two pages. The job went back to step 2 in between, which whoever does not tell what it has
  // cannot be told.
  void History(const http::Request& request, const http::Responder& respond) {
    const std::string from = request.query.at("from");
    const auto lineage = request.query.find("lineage");
    const bool knows = lineage != request.query.end() && lineage->second == "1";
    const auto step = [](int number, int of) {
      return absl::StrCat(R"({"step":)", number, R"(,"lineage":)", of, R"(,"epoch":0})");
    };
    if (request.params.at("id") == "nosuch")
      return respond.Send(absl::NotFoundError("there is no job nosuch"));
    if (from == "0")
      return respond.Send({.body = absl::StrCat(R"({"steps":[)", step(0, 1), ",", step(1, 1), ",",
                                                step(2, 1), R"(],"next":3})")});
    respond.Send({.body = absl::StrCat(R"({"steps":[)", knows ? step(2, 2) + "," : "", step(3, 2),
                                       R"(],"next":null})")});
  }
  void Answer(const http::Request& request, const http::Responder& respond) {
    MutexLock lock(mutex_);
    const std::string id = request.params.at("id");
    asked_.push_back(absl::StrCat(request.method, " ", id));
    const auto job = states_.find(id);
    if (job == states_.end())
      return respond.Send(absl::NotFoundError(absl::StrCat("there is no job ", id)));
    if (!refuse_.ok()) return respond.Send(refuse_);
    std::string json = JobJson(id, job->second, first_start_);
    if (job->second == "failed" && !failure_.empty()) {
      auto object = nlohmann::json::parse(json);
      object["reason"] = reason_;
      object["exit_code"] = exit_code_;
      json = object.dump();
    }
    if (job->second == "stopping" && --looks_until_stopped_ == 0) job->second = "stopped";
    if (request.method == "DELETE" && is_taken_again_) {
      job->second = "running";
      WriteFirstStart(id, ++first_start_);
    } else if (request.method == "DELETE") {
      states_.erase(job);
    }
    respond.Send({.body = json});
  }
  void List(const http::Request& request, const http::Responder& respond) {
    MutexLock lock(mutex_);
    std::string query;
    for (const auto& [key, value] : request.query) absl::StrAppend(&query, key, "=", value, " ");
    asked_.push_back("list " + query);
    const bool is_first = request.query.count("page_token") == 0;
    respond.Send({.body = absl::StrCat(R"({"jobs":[)", JobJson(is_first ? "a" : "b", "running"),
                                       R"(],"next_page_token":")", is_first ? "7" : "", "\"}")});
  }
  // A stopped job goes on; one that is not known begins.
  void Submit(const http::Request& request, const http::Responder& respond) {
    const auto body = nlohmann::json::parse(request.body);
    const std::string id = body["id"];
    MutexLock lock(mutex_);
    asked_.push_back(absl::StrCat("submit ", id, " ", body["spec"]["resume"].dump()));
    std::string& state = states_.try_emplace(id, "queued").first->second;
    if (state == "stopped") state = "queued";
    respond.Send({.body = JobJson(id, state)});
  }
  // What became of it, as the test wants; the last answer again and again.
  void Adopt(const http::Request& request, const http::Responder& respond) {
    MutexLock lock(mutex_);
    const auto adoption = request.params.find("adoption");
    asked_.push_back(adoption == request.params.end() ? "adopt " + request.body
                                                      : "look at " + adoption->second);
    if (adoptions_.empty()) return respond.Send(absl::NotFoundError("there is no adoption 1-1"));
    respond.Send({.status = 202, .body = adoptions_.front()});
    adoptions_.erase(adoptions_.begin());
  }
  // The next page of lines; an empty one is an answer that does not come in time.
  void Page(const http::Request& request, const http::Responder& respond) {
    std::string query;
    for (const auto& [key, value] : request.query) absl::StrAppend(&query, key, "=", value, " ");
    MutexLock lock(mutex_);
    asked_.push_back("follow " + query);
    if (pages_.empty()) return respond.Send(absl::InternalError("no page is left"));
    const std::string page = pages_.front();
    pages_.erase(pages_.begin());
    if (page.empty()) return respond.Send(absl::UnavailableError("starts"));
    respond.Send({.body = page});
  }
  void SetPages(std::vector<std::string> pages) {
    MutexLock lock(mutex_);
    pages_ = std::move(pages);
  }
  void SetAdoptions(std::vector<std::string> adoptions) {
    MutexLock lock(mutex_);
    adoptions_ = std::move(adoptions);
  }
  // The last steps of a job, and its end.
  void Events(const http::Responder& respond) {
    const auto stream = respond.Stream();
    if (!failure_.empty()) {
      SetState("runs", "failed");
      for (const auto& [name, text] : failure_)
        stream->Send("1-1", name, nlohmann::json({{"text", text}}).dump());
      return;
    }
    if (breaks_a_stream_.exchange(false)) {
      SetState("runs", "done");
      stream->Send("1-0", "step", std::string(size_t{16} << 20, ' '));  // more than it may hold
      return;
    }
    for (int step : {1, 2, 3})
      stream->Send(absl::StrCat("1-", step), "step",
                   absl::StrCat(R"({"time":"2026-11-21T10:11:2)", step, R"(.500Z","step":)", step,
                                R"(,"epoch":0,"loss":0.25,"gradient_norm":1.5,"samples":8})"));
    SetState("runs", "done");
    stream->Send("1-4", "done", R"({"text":"all steps are done"})");
  }
  http::Handler Answering() {
    return [this](const http::Request& q, const http::Responder& r) { Answer(q, r); };
  }
  int Run(RemoteArguments arguments, const Asker& ask = nullptr) {
    arguments.to = "http://" + server_->Address();
    arguments.dir = cluster_;
    out_.str("");
    err_.str("");
    return Remote(arguments, {.out = out_, .err = err_}, ask);
  }

  std::string cluster_ = ::testing::TempDir() + "/muster-jobs-XXXXXX";
  // The events of a job that fails, name and text; and of the job then, its reason and exit code.
  std::vector<std::pair<std::string, std::string>> failure_;
  std::string reason_;
  int exit_code_ = 0;
  std::atomic<bool> breaks_a_stream_ = false;  // once, while the job comes to its end
  Mutex mutex_;
  std::map<std::string, std::string> states_ ABSL_GUARDED_BY(mutex_) = {{"done", "done"},
                                                                        {"runs", "running"}};
  std::vector<std::string> asked_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> adoptions_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> pages_ ABSL_GUARDED_BY(mutex_);
  absl::Status refuse_ ABSL_GUARDED_BY(mutex_);  // whatever is asked of a job
  int64_t first_start_ ABSL_GUARDED_BY(mutex_) = 1;
  int looks_until_stopped_ ABSL_GUARDED_BY(mutex_) = 2;
  bool is_taken_again_ ABSL_GUARDED_BY(mutex_) = false;  // a deleted id, at once by another job
  const std::unique_ptr<http::Server> server_ =
      http::Server::Start(
          "127.0.0.1:0",
          {{"GET",
            "/v1/jobs",
            [this](const http::Request& q, const http::Responder& r) { List(q, r); },
            {"page_token", "state"}},
           {"GET", "/v1/jobs/{id}", Answering()},
           {"DELETE", "/v1/jobs/{id}", Answering()},
           {"POST", "/v1/jobs/{id}:stop", Answering()},
           {"POST", "/v1/jobs",
            [this](const http::Request& q, const http::Responder& r) { Submit(q, r); }},
           {"POST", "/v1/adoptions",
            [this](const http::Request& q, const http::Responder& r) { Adopt(q, r); }},
           {"GET", "/v1/adoptions/{adoption}",
            [this](const http::Request& q, const http::Responder& r) { Adopt(q, r); }},
           {"GET",
            "/v1/jobs/{id}/history",
            [this](const http::Request& q, const http::Responder& r) { History(q, r); },
            {"from", "lineage"}},
           {"GET",
            "/v1/jobs/{id}/logs",
            [](const http::Request&,
               const http::Responder& r) { r.Send({.status = 200, .body = "one\n\ntwo\n"}); },
            {"member", "tail"}},
           {"GET",
            "/v1/jobs/{id}/logs:follow",
            [this](const http::Request& q, const http::Responder& r) { Page(q, r); },
            {"after", "member", "tail"}},
           {"GET",
            "/v1/jobs/{id}/events",
            [this](const http::Request&, const http::Responder& r) { Events(r); },
            {},
            /*streams=*/true}})
          .value();
  std::ostringstream out_, err_;
};

TEST_F(JobCommandsTest, AListGoesThroughAllPages) {
  EXPECT_EQ(Run({.command = Command::kList, .state = "running"}), 0);
  EXPECT_THAT(Asked(), ElementsAre("list state=running ", "list page_token=7 state=running "));
  EXPECT_THAT(out_.str(), HasSubstr("workers\na  "));
  EXPECT_THAT(out_.str(), HasSubstr("\nb  "));
  EXPECT_EQ(out_.str().find("state", out_.str().find("state") + 1), std::string::npos)
      << "one head";
}

TEST_F(JobCommandsTest, AListWithColumnsIsInOrderOverAllPages) {
  EXPECT_EQ(Run({.command = Command::kList, .columns = {"job"}, .sort = "job", .is_reverse = true}),
            0);
  EXPECT_EQ(out_.str(), "job\nb\na\n");
  EXPECT_EQ(Run({.command = Command::kList, .columns = {"jobs"}}), 64);
  EXPECT_THAT(err_.str(), HasSubstr("--columns: there is no column 'jobs'; there are job, name, "));
}

TEST_F(JobCommandsTest, StopSaysHowTheJobGoesOn) {
  EXPECT_EQ(Run({.command = Command::kStop, .job = "runs"}), 0);
  EXPECT_THAT(out_.str(), HasSubstr("job runs stops after a checkpoint"));
  EXPECT_EQ(Run({.command = Command::kStop, .job = "done"}), 0);
  EXPECT_THAT(out_.str(), HasSubstr("job done is done already"));
  EXPECT_EQ(Run({.command = Command::kStop, .job = "nobody"}), 1);
  EXPECT_THAT(err_.str(), HasSubstr("there is no job nobody"));
}

TEST_F(JobCommandsTest, SubmittingAJobThatIsOverSaysSoAndEndsAsItDid) {
  const std::string spec = cluster_ + "/spec.yaml";
  std::ofstream(spec) << "task: counting\nsteps: 4\nlanes: 1\nworkers: 2\n";
  SetState("gone", "cancelled");
  for (int time = 0; time < 2; ++time) {
    EXPECT_EQ(Run({.command = Command::kSubmit, .job = "done", .spec = spec}), 0);
    EXPECT_THAT(out_.str(), StartsWith("job done is done already"));
    EXPECT_EQ(Run({.command = Command::kSubmit, .job = "gone", .spec = spec}), 67);
    EXPECT_THAT(out_.str(), StartsWith("job gone is cancelled already"));
  }
  EXPECT_EQ(Run({.command = Command::kSubmit, .job = "new", .spec = spec}), 0);
  EXPECT_THAT(out_.str(), HasSubstr("note: 1 lane for 2 workers: 1 has nothing to compute"));
  EXPECT_THAT(out_.str(), HasSubstr("job new is queued; follow it with"));
}

TEST_F(JobCommandsTest, AdoptLooksUntilTheJobIsThere) {
  SetAdoptions({R"({"adoption":"1-1","job":null,"state":"waiting","of_bytes":null,"error":null})",
                R"({"adoption":"1-1","job":"runs","state":"copying","bytes":1,"of_bytes":2})",
                R"({"adoption":"1-1","job":"runs","state":"done","step":8,"error":null,)"
                R"("passed_over":["lineage-1-step-9 is cut short"]})"});
  const RemoteArguments adopt{
      .command = Command::kAdopt, .job = "runs", .checkpoints = "/old/a/", .pause = Duration(0)};
  EXPECT_EQ(Run(adopt), 0) << err_.str();
  EXPECT_THAT(Asked(), ElementsAre(R"(adopt {"folder":"/old/a/","id":"runs"})", "look at 1-1",
                                   "look at 1-1", "GET runs"));
  EXPECT_THAT(out_.str(), StartsWith("adoption 1-1: reads what is there\n"));
  EXPECT_THAT(out_.str(), HasSubstr("job runs is running; follow it with"));
  EXPECT_THAT(err_.str(), HasSubstr("passed over: lineage-1-step-9 is cut short"));
}

TEST_F(JobCommandsTest, AnAdoptionThatFailsSaysWhy) {
  const RemoteArguments adopt{
      .command = Command::kAdopt, .checkpoints = "/old/a", .pause = Duration(0)};
  SetAdoptions({R"({"adoption":"1-1","state":"waiting"})",
                R"({"adoption":"1-1","state":"failed",)"
                R"("error":{"code":"data_loss","message":"no checkpoint is whole"}})"});
  EXPECT_EQ(Run(adopt), 65);
  EXPECT_THAT(err_.str(), HasSubstr("no checkpoint is whole"));
  // The coordinator has started again meanwhile.
  SetAdoptions({R"({"adoption":"1-1","state":"waiting"})"});
  EXPECT_NE(Run(adopt), 0);
  EXPECT_THAT(err_.str(), HasSubstr("there is no adoption 1-1"));
}

TEST_F(JobCommandsTest, AnAdoptionTellsItsRateAndTheTimeLeft) {
  AdoptionAnswer adoption{.adoption = "1-1"};
  EXPECT_EQ(AdoptionLine(adoption), "adoption 1-1: reads what is there");
  adoption.job = "a\x1b[2J";
  adoption.of_bytes = 4 << 20;
  EXPECT_EQ(AdoptionLine(adoption), "adoption 1-1 of job a\\x1b[2J: 0 B of 4.0 MiB copied");
  adoption.bytes = 1 << 20;
  adoption.bytes_per_second = 512 << 10;
  adoption.seconds_left = 6;
  EXPECT_EQ(AdoptionLine(adoption),
            "adoption 1-1 of job a\\x1b[2J: 1.0 MiB of 4.0 MiB copied · 512 KiB/s · 6.0 s left");
}

TEST_F(JobCommandsTest, ResumeLetsAJobGoOnFromItsNewestCheckpoint) {
  SetState("halted", "stopped");
  EXPECT_EQ(Run({.command = Command::kResume, .job = "halted"}), 0);
  EXPECT_THAT(Asked(), ElementsAre("GET halted", "submit halted \"latest\""));
  EXPECT_THAT(out_.str(), StartsWith("job halted is queued"));
  EXPECT_EQ(Run({.command = Command::kResume, .job = "runs"}), 0);
  EXPECT_THAT(out_.str(), StartsWith("job runs is running: it goes on already"));
  EXPECT_EQ(Run({.command = Command::kResume, .job = "done"}), 0);
  EXPECT_THAT(out_.str(), StartsWith("job done is done already"));
  EXPECT_EQ(Run({.command = Command::kResume, .job = "nobody"}), 1);
}

TEST_F(JobCommandsTest, ResumeWaitsForAJobThatIsStopping) {
  SetState("halts", "stopping");
  EXPECT_EQ(Run({.command = Command::kResume, .job = "halts"}), 0) << err_.str();
  EXPECT_THAT(Asked(),
              ElementsAre("GET halts", "GET halts", "GET halts", "submit halts \"latest\""));
  EXPECT_THAT(err_.str(), HasSubstr("job halts is stopping; waiting until it is stopped"));
  EXPECT_THAT(out_.str(), StartsWith("job halts is queued"));
}

TEST_F(JobCommandsTest, ResumeGivesUpAJobThatDoesNotComeToItsStop) {
  SetState("halts", "stopping");
  EXPECT_EQ(Run({.command = Command::kResume, .job = "halts", .patience = Duration(0)}), 64);
  EXPECT_THAT(err_.str(), HasSubstr("job halts is still stopping"));
  EXPECT_THAT(Asked(), ElementsAre("GET halts"));
}

// A file system that is full.
class FullOutput : public std::streambuf {
 protected:
  int_type overflow(int_type) override { return traits_type::eof(); }
  std::streamsize xsputn(const char*, std::streamsize) override { return 0; }
};

TEST_F(JobCommandsTest, WhereNothingCanBeWrittenNothingMoreIsAsked) {
  FullOutput full;
  std::ostream out(&full);
  const auto run = [&](RemoteArguments arguments) {
    out.clear();
    arguments.to = "http://" + server_->Address();
    return Remote(arguments, {.out = out, .err = err_}, nullptr);
  };
  run({.command = Command::kList});
  EXPECT_EQ(Asked().size(), 1u) << "no second page";
  EXPECT_EQ(run({.command = Command::kWatch, .job = "runs", .json = true}), 0)
      << "main says why, if it is an error";
  EXPECT_EQ(Asked().size(), 3u) << "before the events, and not after them";
}

TEST_F(JobCommandsTest, WatchShowsTheLineThatTrainShows) {
  EXPECT_EQ(Run({.command = Command::kWatch, .job = "runs"}), 0);
  EXPECT_THAT(out_.str(), HasSubstr("step 2 of 4 · epoch 1 · loss 0.2500\n"));
  EXPECT_THAT(
      out_.str(),
      HasSubstr("step 4 of 4 · epoch 1 · loss 0.2500 · 8.00 samples/s\njob runs is done: "));
}

// As that of a reader who was too slow: its events are kept, and the job is over meanwhile.
TEST_F(JobCommandsTest, WatchOfAStreamThatBrokeShowsWhatIsLeftOfAJobThatIsOver) {
  breaks_a_stream_ = true;
  EXPECT_EQ(Run({.command = Command::kWatch, .job = "runs", .json = true}), 0);
  EXPECT_FALSE(breaks_a_stream_);
  EXPECT_THAT(out_.str(), HasSubstr(R"({"event":"done")"));
  EXPECT_THAT(out_.str(), HasSubstr(R"({"event":"job")"));
}

TEST_F(JobCommandsTest, WatchShowsRateAndNormWhereTheyAreAskedFor) {
  EXPECT_EQ(Run({.command = Command::kWatch, .job = "runs", .details = true}), 0);
  EXPECT_THAT(out_.str(),
              HasSubstr("step 2 of 4 · epoch 1 · loss 0.2500 · rate 0.01 · norm 1.5\n"));
}

TEST_F(JobCommandsTest, AHistoryThatIsNotThereHasNoHead) {
  EXPECT_EQ(Run({.command = Command::kHistory, .job = "nosuch"}), 1);
  EXPECT_EQ(out_.str(), "");
  EXPECT_THAT(err_.str(), HasSubstr("there is no job nosuch"));
}

// The head is written before a step has measured.
TEST_F(JobCommandsTest, TheColumnsOfAHistoryAreWhatTheJobOrItsFirstStepsName) {
  const auto csv_of = [&](const std::string& of_job, const std::string& of_step) {
    const FolderOpener open = [&](const std::string&) -> absl::StatusOr<Exchange> {
      return Exchange([&](const std::string&, const std::string& target,
                          const std::string&) -> absl::StatusOr<http::Response> {
        if (!absl::StrContains(target, "/history"))
          return http::Response{.body = absl::StrCat(R"({"id":"a","validation":[)", of_job, "]}")};
        return http::Response{
            .body = absl::StrCat(R"({"steps":[{"step":0,"validation":[]},{"step":1,"validation":[)",
                                 of_step, R"(]}],"next":null})")};
      });
    };
    out_.str("");
    EXPECT_EQ(Remote({.command = Command::kHistory,
                      .job = "a",
                      .dir = cluster_,
                      .has_dir = true,
                      .csv = true},
                     {.out = out_, .err = err_}, nullptr, open),
              0)
        << err_.str();
    return out_.str();
  };
  constexpr char kLoss[] = R"({"metric":"loss","value":0.5})";
  constexpr char kNone[] = R"({"metric":"loss","value":null})";
  EXPECT_THAT(csv_of("", ""), HasSubstr(",seconds\n0,0,,,,,,,\n1,0,,,,,,,\n"));
  EXPECT_THAT(csv_of(kNone, ""), HasSubstr(",seconds,validation.loss\n0,0,,,,,,,,\n1,0,,,,,,,,\n"));
  for (const char* of_job : {"", kNone, kLoss})
    EXPECT_THAT(csv_of(of_job, kLoss),
                HasSubstr(",seconds,validation.loss\n0,0,,,,,,,,\n1,0,,,,,,,,0.5\n"))
        << of_job;
}

TEST_F(JobCommandsTest, AHistoryThatARewindCutsSaysSo) {
  EXPECT_EQ(Run({.command = Command::kHistory, .job = "runs", .csv = true}), 0);
  EXPECT_THAT(out_.str(), HasSubstr("\n2,0,,,,,,,\n2,0,,,,,,,\n3,0,,,,,,,\n"));
  EXPECT_THAT(err_.str(), HasSubstr("the job went back to step 2 meanwhile"));
}

TEST_F(JobCommandsTest, DeleteAsksAndTakesNoForAnAnswer) {
  std::string question;
  const auto answer = [&](bool yes) {
    return [&question, yes](const std::string& asked) {
      question = asked;
      return std::optional<bool>(yes);
    };
  };
  EXPECT_EQ(Run({.command = Command::kDelete, .job = "done"}, answer(false)), 67);
  EXPECT_EQ(question, "Delete job done with its 2 checkpoints? [y/N] ");
  EXPECT_TRUE(Has("done"));
  EXPECT_EQ(Run({.command = Command::kDelete, .job = "done"}, answer(true)), 0);
  EXPECT_FALSE(Has("done"));
}

TEST_F(JobCommandsTest, WhereNobodyCanBeAskedDeleteNeedsYes) {
  EXPECT_EQ(Run({.command = Command::kDelete, .job = "done"}), 64);
  EXPECT_THAT(err_.str(), HasSubstr("--yes deletes without asking"));
  EXPECT_EQ(Run({.command = Command::kDelete, .job = "done", .yes = true}), 0);
  EXPECT_THAT(out_.str(), HasSubstr("job done is deleted, with its 2 checkpoints"));
}

TEST_F(JobCommandsTest, AJobThatHasNotEndedIsNotDeleted) {
  EXPECT_EQ(Run({.command = Command::kDelete, .job = "runs", .yes = true}), 64);
  EXPECT_THAT(err_.str(), HasSubstr("job runs is running: end it first, with muster cancel runs"));
  EXPECT_THAT(Asked(), ElementsAre("GET runs"));
}

TEST_F(JobCommandsTest, LogsGoWithTheJobWhereTheFolderIsThatOfTheCluster) {
  WriteLog("done", "worker-0");
  EXPECT_EQ(Run({.command = Command::kDelete, .job = "done", .yes = true}), 0);
  EXPECT_TRUE(std::filesystem::exists(LogFolder(cluster_, "done")))
      << "of another cluster, for all we know";
  SetState("done", "done");
  WriteAddress(server_->Address());
  EXPECT_EQ(Run({.command = Command::kDelete, .job = "done", .yes = true}), 0);
  EXPECT_FALSE(std::filesystem::exists(LogFolder(cluster_, "done")));
}

// It was submitted before we looked whether the deleted one is gone, and it has started, too.
TEST_F(JobCommandsTest, AnotherJobThatTakesTheIdAtOnceKeepsItsFolder) {
  for (const std::string& host : {std::string("127.0.0.1"), std::string("localhost")}) {
    {
      MutexLock lock(mutex_);
      states_["done"] = "done";
      first_start_ = 1;
      is_taken_again_ = true;
    }
    const std::string address = server_->Address();
    WriteAddress(host + address.substr(address.rfind(':')));
    WriteLog("done", "worker-0");
    EXPECT_EQ(Run({.command = Command::kDelete, .job = "done", .yes = true}), 0) << err_.str();
    EXPECT_THAT(out_.str(), HasSubstr("job done is deleted"));
    EXPECT_TRUE(std::filesystem::exists(LogFolder(cluster_, "done"))) << "of the job that runs";
  }
}

TEST_F(JobCommandsTest, OneClusterHasSeveralAddresses) {
  const std::string address = server_->Address();
  const std::string port = address.substr(address.rfind(':'));
  WriteAddress("localhost" + port);
  WriteLog("done", "worker-0");
  EXPECT_EQ(Run({.command = Command::kDelete, .job = "done", .yes = true}), 0);
  EXPECT_THAT(out_.str(), HasSubstr("and its logs"));
  EXPECT_FALSE(std::filesystem::exists(LogFolder(cluster_, "done")));
}

TEST_F(JobCommandsTest, LogsOfAnotherClustersJobOfThatNameStay) {
  const auto other =
      http::Server::Start("127.0.0.1:0", {{"GET", "/v1/jobs/{id}",
                                           [](const http::Request&, const http::Responder& r) {
                                             r.Send({.body = JobJson("done", "done")});
                                           }}})
          .value();
  WriteAddress(other->Address());
  WriteLog("done", "worker-0");
  EXPECT_EQ(Run({.command = Command::kDelete, .job = "done", .yes = true}), 0);
  EXPECT_TRUE(std::filesystem::exists(LogFolder(cluster_, "done")));
}

TEST_F(JobCommandsTest, WhatCannotBeAnIdIsToldBeforeAnythingIsAsked) {
  for (const Command command :
       {Command::kSubmit, Command::kStatus, Command::kWatch, Command::kStop, Command::kResume,
        Command::kCancel, Command::kDelete, Command::kLogs, Command::kDigest, Command::kAudit,
        Command::kLedger, Command::kHistory}) {
    for (const char* id : {"-x", ".x", "../x", "a b", "\x1b[2J"}) {
      EXPECT_EQ(Run({.command = command, .job = id, .spec = "/nowhere", .yes = true}), 64) << id;
      EXPECT_THAT(err_.str(), HasSubstr("is not the id of a job")) << id;
      EXPECT_THAT(err_.str(), HasSubstr("not beginning with '.' or '-'"));
      EXPECT_EQ(err_.str().find('\x1b'), std::string::npos) << "it steers no terminal";
    }
  }
  EXPECT_THAT(Asked(), ElementsAre());
}

TEST_F(JobCommandsTest, WhetherAClusterRunsIsAskedOnlyWhereNobodyListens) {
  {
    MutexLock lock(mutex_);
    refuse_ = absl::UnavailableError("the journal cannot be written: no space left");
  }
  EXPECT_EQ(Run({.command = Command::kStatus, .job = "runs"}), 1);
  EXPECT_EQ(err_.str(), "muster: the journal cannot be written: no space left\n");
  err_.str("");
  EXPECT_EQ(Remote({.command = Command::kStatus, .to = "http://127.0.0.1:1", .job = "runs"},
                   {.out = out_, .err = err_}),
            1);
  EXPECT_THAT(err_.str(), HasSubstr("nobody listens at http://127.0.0.1:1"));
  EXPECT_THAT(err_.str(), HasSubstr("Does a cluster run there?"));
}

TEST_F(JobCommandsTest, ToFollowALogThatNeverComesIsAnError) {
  const auto in_use = LockFile(cluster_ + "/lock");  // else nothing is followed
  ASSERT_TRUE(in_use.ok());
  const auto follow = [&](const std::string& job, const std::string& member) {
    return Run(
        {.command = Command::kLogs, .job = job, .has_dir = true, .member = member, .follow = true});
  };
  EXPECT_EQ(follow("done", ""), 1);
  EXPECT_THAT(err_.str(), HasSubstr("there are no logs of a job done in "));
  EXPECT_THAT(err_.str(), HasSubstr("--dir names it"));
  EXPECT_EQ(follow("runs", ""), 1) << "a member has joined, so this is not its cluster's folder";
  EXPECT_THAT(err_.str(), HasSubstr("there are no logs of a job runs in "));
  EXPECT_EQ(follow("runs", "worker-2"), 1);
  EXPECT_THAT(err_.str(),
              HasSubstr("job runs has no member worker-2; it asks for at most 2 workers"));
  WriteLog("done", "worker-0");
  EXPECT_EQ(follow("done", "worker-1"), 1);
  EXPECT_THAT(err_.str(), HasSubstr("no log of a member worker-1; there are logs of worker-0"));
  EXPECT_EQ(follow("done", "worker-0"), 0);
  EXPECT_EQ(out_.str(), "a line\n");
}

// Of all hosts; in the order of their times, and on from where the answer before has ended, also
// when the coordinator does not answer in between.
TEST_F(JobCommandsTest, LinesOfAllHostsAreFollowedUntilTheJobIsOver) {
  SetPages({R"({"lines":[{"member":"worker-0","line":"2026-11-21T10:00:02.000Z info b"},)"
            R"({"member":"worker-0","line":"more of b"},)"
            R"({"member":"worker-1","line":"2026-11-21T10:00:01.000Z info a"}],)"
            R"("next":"1~x","over":false})",
            "", R"({"lines":[],"next":"1~x","over":false})",
            R"({"lines":[{"member":"worker-1","line":"the end"}],"next":"1~y","over":true})"});
  EXPECT_EQ(
      Run({.command = Command::kLogs, .job = "runs", .has_to = true, .follow = true, .tail = 7}), 0)
      << err_.str();
  EXPECT_EQ(out_.str(),
            "worker-1 | 2026-11-21T10:00:01.000Z info a\n"
            "worker-0 | 2026-11-21T10:00:02.000Z info b\n"
            "worker-0 | more of b\n"
            "worker-1 | the end\n");
  EXPECT_THAT(Asked(), ElementsAre("GET runs", "follow tail=7 ", "follow after=1~x tail=7 ",
                                   "follow after=1~x tail=7 ", "follow after=1~x tail=7 "));
}

TEST_F(JobCommandsTest, LinesOfAMemberThatAreEmptyArePrinted) {
  EXPECT_EQ(Run({.command = Command::kLogs, .job = "runs", .has_to = true, .member = "worker-0"}),
            0);
  EXPECT_EQ(out_.str(), "one\n\ntwo\n");
}

TEST_F(JobCommandsTest, LinesThatAreTooOldAreNotPrinted) {
  SetPages({R"({"lines":[{"member":"worker-0","line":"no time"},)"
            R"({"member":"worker-0","line":"2026-11-21T10:00:02.000Z info old"},)"
            R"({"member":"worker-0","line":"9999-11-21T10:00:02.000Z info new"},)"
            R"({"member":"worker-0","line":"more of it"}],"next":"1~x","over":true})"});
  EXPECT_EQ(Run({.command = Command::kLogs,
                 .job = "runs",
                 .has_to = true,
                 .member = "worker-0",
                 .follow = true,
                 .since = 60}),
            0);
  EXPECT_EQ(out_.str(), "9999-11-21T10:00:02.000Z info new\nmore of it\n");
}

TEST_F(JobCommandsTest, OfAFolderTheLastLinesArePrinted) {
  WriteLog("done", "worker-0");
  std::ofstream(LogFolder(cluster_, "done") + "/worker-1.log") << "one\ntwo\nthree\n";
  for (const bool follow : {false, true}) {
    EXPECT_EQ(Run({.command = Command::kLogs, .job = "done", .follow = follow, .tail = 2}), 0);
    EXPECT_EQ(out_.str(), "worker-0 | a line\nworker-1 | two\nworker-1 | three\n");
  }
}

TEST_F(JobCommandsTest, ToFollowAMemberThatNeverComesIsAnError) {
  EXPECT_EQ(Run({.command = Command::kLogs,
                 .job = "runs",
                 .has_to = true,
                 .member = "worker-2",
                 .follow = true}),
            1);
  EXPECT_THAT(err_.str(),
              HasSubstr("job runs has no member worker-2; it asks for at most 2 workers"));
}

TEST_F(JobCommandsTest, OnlyAJobWithAStreamHasAReaderThatMayStillCome) {
  SetState("streams", "running");
  const auto follow = [&](const std::string& job) {
    SetPages({R"({"lines":[{"member":"reader-0","line":"reads"}],"next":"1~x","over":true})"});
    return Run({.command = Command::kLogs,
                .job = job,
                .has_to = true,
                .member = "reader-0",
                .follow = true});
  };
  EXPECT_EQ(follow("streams"), 0) << err_.str();
  EXPECT_EQ(out_.str(), "reads\n");
  EXPECT_EQ(follow("runs"), 1);
  EXPECT_THAT(err_.str(), HasSubstr("job runs has no member reader-0"));
}

TEST_F(JobCommandsTest, AFolderIsAskedAlsoWhenNothingRunsThere) {
  std::ofstream(cluster_ + "/job.json") << R"({"id":"runs"})";
  std::string opened;
  const FolderOpener open = [&](const std::string& folder) -> absl::StatusOr<Exchange> {
    opened = folder;
    return Exchange([](const std::string&, const std::string& target,
                       const std::string&) -> absl::StatusOr<http::Response> {
      EXPECT_EQ(target, "/v1/jobs/runs");
      return http::Response{.body = JobJson("runs", "running")};
    });
  };
  const auto ask = [&](Command command) {
    out_.str("");
    err_.str("");
    return Remote({.command = command, .dir = cluster_, .has_dir = true},
                  {.out = out_, .err = err_}, nullptr, open);
  };
  EXPECT_EQ(ask(Command::kStatus), 0) << err_.str();
  EXPECT_EQ(opened, cluster_);
  EXPECT_THAT(out_.str(), HasSubstr("job runs is running"));
  EXPECT_THAT(out_.str(), HasSubstr("nothing runs in " + cluster_ + " now"));
  EXPECT_EQ(ask(Command::kStop), 0);
  EXPECT_THAT(out_.str(), HasSubstr("there is nothing to stop"));

  // While a muster holds the folder its coordinator is asked.
  WriteAddress(server_->Address());
  const auto lock = LockFile(cluster_ + "/lock");
  ASSERT_TRUE(lock.ok()) << lock.status();
  opened.clear();
  EXPECT_EQ(ask(Command::kStop), 0) << err_.str();
  EXPECT_EQ(
      out_.str(),
      "job runs stops after a checkpoint; it goes on with the same muster train command again, "
      "with --dir " +
          cluster_ + "\n");
  EXPECT_EQ(opened, "");
  EXPECT_THAT(Asked(), ElementsAre("POST runs"));
}

TEST_F(JobCommandsTest, WhereNothingRunsNothingIsSubmitted) {
  for (const Command command :
       {Command::kSubmit, Command::kAdopt, Command::kFork, Command::kWatch, Command::kHosts}) {
    err_.str("");
    EXPECT_EQ(Remote({.command = command, .job = "j", .dir = cluster_, .has_dir = true},
                     {.out = out_, .err = err_}),
              64);
    EXPECT_THAT(err_.str(), HasSubstr(absl::StrCat("nothing runs in ", cluster_)));
  }
}

// Some said what the store lacks, others that nothing runs there, with 1 and with 64.
TEST_F(JobCommandsTest, AFolderThatIsNoneIsTheSameWrongWordOfEachCommand) {
  std::ofstream(cluster_ + "/file") << "x";
  const auto never = [](const std::string&) -> absl::StatusOr<Exchange> {
    return absl::InternalError("it is opened");
  };
  for (int i = 0; i <= static_cast<int>(Command::kFinishAuthority); ++i) {
    const auto command = static_cast<Command>(i);
    for (const auto& [name, why] :
         {std::pair("/none", "there is no folder '"),
          std::pair("/file", "/file' is no folder; name that of"),
          std::pair("/file/below", "/below' is no folder; name that of")}) {
      const std::string folder = cluster_ + name;
      err_.str("");
      EXPECT_EQ(Remote({.command = command,
                        .job = "j",
                        .dir = folder,
                        .has_dir = true,
                        .dirs = {folder},
                        .output = cluster_ + "/x.svg"},
                       {.out = out_, .err = err_}, nullptr, never),
                64)
          << i;
      EXPECT_THAT(err_.str(), HasSubstr("muster: --dir: ")) << i;
      EXPECT_THAT(err_.str(), HasSubstr(why)) << i;
    }
  }
}

TEST_F(JobCommandsTest, AJobThatIsStoppedGoesOnWhereItsClusterIs) {
  WriteAddress(server_->Address());
  const auto lock = LockFile(cluster_ + "/lock");
  ASSERT_TRUE(lock.ok()) << lock.status();
  for (const std::string id : {"runs", "stopped"}) {
    SetState(id, id == "runs" ? "running" : "stopped");
    out_.str("");
    EXPECT_EQ(Remote({.command = Command::kStop, .job = id, .dir = cluster_, .has_dir = true},
                     {.out = out_, .err = err_}),
              0)
        << err_.str();
    EXPECT_THAT(out_.str(), HasSubstr(absl::StrCat("; it goes on with: muster resume ", id,
                                                   " --dir ", cluster_, "\n")));
  }
}

// muster train may end before its coordinator has heard what the last worker told when it left.
TEST_F(JobCommandsTest, AtRestTheSampleThatTheJournalLacksIsTakenFromTheResult) {
  std::string in_journal;
  const FolderOpener open = [&](const std::string&) -> absl::StatusOr<Exchange> {
    return Exchange([&](const std::string&, const std::string&,
                        const std::string&) -> absl::StatusOr<http::Response> {
      return http::Response{
          .body = absl::StrCat(R"({"id":"done","state":"done","step":4,"steps":4,"sample":")",
                               in_journal, R"("})")};
    });
  };
  const auto ask = [&](Command command, bool json) {
    out_.str("");
    EXPECT_EQ(
        Remote({.command = command, .job = "done", .dir = cluster_, .has_dir = true, .json = json},
               {.out = out_, .err = err_}, nullptr, open),
        0)
        << err_.str();
    return out_.str();
  };
  std::ofstream(cluster_ + "/result.json")
      << R"({"job":"done","state":"done","steps":4,"sample":"int x;\nint y;"})";
  EXPECT_THAT(ask(Command::kStatus, false),
              HasSubstr("  a sample of the trained model:\nint x;\nint y;\n"));
  for (const Command command : {Command::kStatus, Command::kStop})
    EXPECT_EQ(nlohmann::json::parse(ask(command, true)).value("sample", ""), "int x;\nint y;");
  in_journal = "int z;";
  EXPECT_THAT(ask(Command::kStatus, false), HasSubstr("model:\nint z;\n"));
  in_journal = "";
  std::ofstream(cluster_ + "/result.json")
      << R"({"job":"done","state":"done","steps":3,"sample":"int x;"})";
  EXPECT_THAT(ask(Command::kStatus, false), Not(HasSubstr("a sample of"))) << "of an earlier end";
}

// Each way out: whatever the coordinator's answers hold, a terminal is not steered by them.
TEST_F(JobCommandsTest, AnswersCannotSteerTheTerminal) {
  constexpr char kWild[] = R"(\u001b[2J\u007f\u009b31m)";
  const std::string job = absl::StrCat(
      R"({"id":")", kWild, R"(","state":")", kWild, R"(","reason":")", kWild, R"(","digest":")",
      kWild, R"(","fingerprint":")", kWild, R"(","members":[{"name":")", kWild, R"(","node":")",
      kWild, R"(","state":")", kWild, R"(","phase":")", kWild, R"("}]})");
  struct Row {
    Command command;
    std::string answer;
  };
  const std::vector<Row> rows = {
      {Command::kStatus, job},
      {Command::kStop, job},
      {Command::kList, absl::StrCat(R"({"jobs":[)", job, "]}")},
      {Command::kDigest, absl::StrCat(R"({"digest":")", kWild, R"("})")},
      {Command::kAudit, absl::StrCat(R"({"ok":true,"conclusion":")", kWild,
                                     R"(","lineages":[{"parent":1,"cause":")", kWild, R"("}]})")},
      {Command::kLedger,
       absl::StrCat(R"({"steps":[{"lanes":[{"worker":")", kWild, R"("}]}],"next":null})")},
      {Command::kHistory, absl::StrCat(R"({"steps":[{"time":")", kWild, R"("}],"next":null})")}};
  for (const bool json : {false, true}) {
    for (const Row& row : rows) {
      const FolderOpener open = [&](const std::string&) -> absl::StatusOr<Exchange> {
        return Exchange([&](const std::string&, const std::string&,
                            const std::string&) -> absl::StatusOr<http::Response> {
          return http::Response{.body = row.answer};
        });
      };
      out_.str("");
      EXPECT_EQ(Remote({.command = row.command,
                        .job = "runs",
                        .dir = cluster_,
                        .has_dir = true,
                        .json = json},
                       {.out = out_, .err = err_}, nullptr, open),
                0)
          << err_.str();
      EXPECT_EQ(PrintableLines(out_.str()), out_.str()) << static_cast<int>(row.command);
      if (row.command == Command::kHistory) {
        EXPECT_THAT(out_.str(), Not(HasSubstr("31m"))) << "it shows nobody's words";
        continue;
      }
      EXPECT_THAT(out_.str(), HasSubstr(json ? "\\u009b31m" : "\\x9b31m"))
          << static_cast<int>(row.command);
    }
  }
}

TEST_F(JobCommandsTest, AFolderOfSeveralJobsNamesThem) {
  WriteLog("b", "worker-0");
  WriteLog("a", "worker-0");
  const auto ask = [&](const std::string& folder) {
    err_.str("");
    return Remote({.command = Command::kLogs, .dir = folder, .has_dir = true},
                  {.out = out_, .err = err_});
  };
  EXPECT_EQ(ask(cluster_), 64);
  EXPECT_THAT(err_.str(), HasSubstr("holds several jobs: say which of a, b"));
  std::filesystem::create_directory(cluster_ + "/elsewhere");
  EXPECT_EQ(ask(cluster_ + "/elsewhere"), 1);
  EXPECT_THAT(err_.str(), HasSubstr("there is no job in "));
}

// One that was cancelled in the queue has no files, and is in the journal all the same.
TEST_F(JobCommandsTest, AFolderOfSeveralJobsNamesAlsoThoseThatNeverRan) {
  WriteLog("ran", "worker-0");
  std::vector<std::string> pages = {
      R"({"jobs":[{"id":"ran","state":"done"}],"next_page_token":"1"})",
      R"({"jobs":[{"id":"cancelled","state":"cancelled"}]})"};
  size_t asked = 0;
  const FolderOpener open = [&](const std::string&) -> absl::StatusOr<Exchange> {
    return Exchange([&](const std::string&, const std::string&,
                        const std::string&) -> absl::StatusOr<http::Response> {
      return http::Response{.body = pages[asked++ % pages.size()]};
    });
  };
  EXPECT_EQ(Remote({.command = Command::kStatus, .dir = cluster_, .has_dir = true},
                   {.out = out_, .err = err_}, nullptr, open),
            64);
  EXPECT_EQ(asked, 2u);
  EXPECT_THAT(err_.str(), HasSubstr("holds several jobs: say which of cancelled, ran"));
}

size_t Times(const std::string& text, const std::string& what) {
  size_t times = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++times;
  return times;
}

TEST_F(JobCommandsTest, WatchSaysOnceWhyAJobFailed) {
  const std::string log =
      "the log of worker-1 ends with:\nt error m data.paths: gone\nt error m data.paths: gone";
  reason_ = "worker-1 ended with exit code 65 (bad data): data.paths: gone";
  failure_ = {{"process", "worker-1 joined"}, {"process", log}, {"done", reason_}};
  exit_code_ = 65;
  EXPECT_EQ(Run({.command = Command::kWatch, .job = "runs"}), 65);
  EXPECT_EQ(Times(out_.str(), "data.paths: gone"), 1u) << out_.str();
  EXPECT_THAT(out_.str(), StartsWith("worker-1 joined\njob runs is failed: "));
  EXPECT_THAT(out_.str(), HasSubstr("\n  reason: " + reason_ + "\n"));
}

// It fell, and nobody else knows where.
TEST_F(JobCommandsTest, WatchShowsTheLogOfAProcessThatDidNotSayWhyItFailed) {
  const std::string log = "the log of worker-1 ends with:\nx\ny";
  reason_ = "worker-1 fails again and again: exit code 1";
  failure_ = {{"process", log}, {"done", reason_}};
  exit_code_ = 1;
  EXPECT_EQ(Run({.command = Command::kWatch, .job = "runs"}), 1);
  EXPECT_THAT(out_.str(), StartsWith(log + "\njob runs is failed: "));
  EXPECT_EQ(Times(out_.str(), reason_), 1u) << out_.str();
}

TEST_F(JobCommandsTest, TheLedgerBeginsWithWhatTheDataIsWithout) {
  std::string left_out = "1 file that cannot be read, the first is /a\\u001b[2J";
  const FolderOpener open = [&](const std::string&) -> absl::StatusOr<Exchange> {
    return Exchange([&](const std::string&, const std::string& target,
                        const std::string&) -> absl::StatusOr<http::Response> {
      const bool is_first = target.find("from=0") != std::string::npos;
      return http::Response{.body = absl::StrCat(R"({"steps":[{"step":)", is_first ? 0 : 1,
                                                 R"(}],"next":)", is_first ? "1" : "null",
                                                 R"(,"data_left_out":")", left_out, "\"}")};
    });
  };
  const auto ask = [&](bool json, std::optional<int64_t> step) {
    out_.str("");
    EXPECT_EQ(Remote({.command = Command::kLedger,
                      .job = "runs",
                      .dir = cluster_,
                      .has_dir = true,
                      .step = step,
                      .json = json},
                     {.out = out_, .err = err_}, nullptr, open),
              0)
        << err_.str();
    return out_.str();
  };
  const std::string line =
      "the data is without 1 file that cannot be read, the first is /a\\x1b[2J\n";
  EXPECT_THAT(ask(false, std::nullopt), StartsWith(line + "step 0: "));
  EXPECT_EQ(Times(out_.str(), line), 1u) << "above all pages";
  EXPECT_THAT(ask(false, 1), StartsWith(line + "step 1: "));
  EXPECT_THAT(ask(true, 1), StartsWith(R"({"data_left_out":"1 file that cannot be read, the )"));
  EXPECT_THAT(out_.str(), HasSubstr("\n{\"step\":1}\n"));
  left_out = "";
  EXPECT_THAT(ask(false, std::nullopt), StartsWith("step 0: "));
  EXPECT_THAT(ask(true, std::nullopt), StartsWith("{\"step\":0}\n"));
}

// Of a term of the coordinator before this one, whose events are not kept.
TEST_F(JobCommandsTest, WatchOfAJobThatIsOverEndsWithTheJob) {
  EXPECT_EQ(Run({.command = Command::kWatch, .job = "done", .json = true}), 0);
  EXPECT_THAT(out_.str(), StartsWith(R"({"event":"job",)"));
  EXPECT_THAT(out_.str(), HasSubstr(R"("state":"done")"));
  EXPECT_EQ(out_.str().find('\n'), out_.str().size() - 1) << "one line";
  SetState("done", "cancelled");
  EXPECT_EQ(Run({.command = Command::kWatch, .job = "done"}), 67);
  EXPECT_THAT(out_.str(), StartsWith("job done is cancelled: step 0 of 4"));
}

}  // namespace
}  // namespace muster::cli
