// The launcher against an API that a test plays over HTTPS, with all that a real one may answer.
#include "coordinator/kubernetes/launcher.h"

#include <algorithm>
#include <chrono>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/base/mailbox.h"
#include "nlohmann/json.hpp"
#include "tests/coordinator/kubernetes/played_server.h"

namespace muster::coordinator {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

constexpr char kJobsPath[] = "/apis/batch/v1/namespaces/jobs/jobs";
constexpr char kJobPath[] = "/apis/batch/v1/namespaces/jobs/jobs/{name}";
constexpr char kPodsPath[] = "/api/v1/namespaces/jobs/pods";

// Has Indexed Jobs and pods, and no JobSets.
class LauncherTest : public testing::Test {
 protected:
  LauncherTest() {
    const auto on = [this](const http::Request& request, const http::Responder& respond) {
      respond.Send(Answer(request));
    };
    server_.Serve({{"GET", "/apis/jobset.x-k8s.io/v1alpha2", on},
                   {"POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", on},
                   {"GET", kJobsPath, on, QueryOfWatch()},
                   {"GET", kPodsPath, on, QueryOfWatch()},
                   {"POST", kJobsPath, on, {"fieldManager", "fieldValidation", "dryRun"}},
                   {"PATCH", kJobPath, on, {"fieldManager"}},
                   {"DELETE", kJobPath, on}});
  }
  ~LauncherTest() override { launcher_.reset(); }

  void Begin() {
    launcher_ = std::make_unique<Launcher>(LauncherOptions{
        .server = server_.Place(),
        .place = {.name_space = "jobs",
                  .cluster = "c1",
                  .pod = ParsePodTemplate("spec: {containers: [{name: muster}]}", "").value()},
        .wanted =
            [this] {
              const MutexLock lock(mutex_);
              return wanted_;
            },
        .check_claim =
            [this] {
              const MutexLock lock(mutex_);
              return claim_;
            },
        .tell =
            [this](const LaunchTold& told) {
              told_.Post(told);
              return true;
            },
        .note_trouble =
            [this](const std::string& trouble) {
              const MutexLock lock(mutex_);
              trouble_ = trouble;
            },
        .first_pause = std::chrono::milliseconds(20),
        .dead_are_kept = {},
        .look_for_rights = std::chrono::milliseconds(20)});
  }
  void Want(std::vector<std::string> names, int32_t hosts = 1) {
    auto launches = std::make_shared<Launches>();
    for (const std::string& name : names)
      launches->push_back({.name = name, .job = name, .hosts = hosts, .is_elastic = true});
    const MutexLock lock(mutex_);
    wanted_ = std::move(launches);
  }

  // What the API does; `refuse_` before that, for so many requests of that method.
  http::Response Answer(const http::Request& request) {
    const MutexLock lock(mutex_);
    if (request.method == "POST" && absl::StrContains(request.body, "muster-template")) {
      ++tried_;
      return template_answer_;
    }
    calls_.push_back(request.method + " " + request.path);
    if (request.headers.at("authorization") != "Bearer " + token_)
      return Status(401, "no such token");
    if (!request.query.contains("watch") && refuse_ > 0 && request.method == refused_method_ &&
        absl::StartsWith(request.path, refused_path_)) {
      --refuse_;
      return refusal_;
    }
    if (absl::EndsWith(request.path, "reviews") && !unreviewed_.empty() &&
        absl::StrContains(request.body, unreviewed_))
      return Status(500, "no reviews");
    if (absl::EndsWith(request.path, "reviews"))
      return {.status = 201,
              .body = !denied_.empty() && absl::StrContains(request.body, denied_)
                          ? R"({"status":{"allowed":false}})"
                          : R"({"status":{"allowed":true}})"};
    if (absl::StrContains(request.path, "jobset")) return Status(404, "there is no such kind");
    if (request.method == "GET") return Read(request);
    if (request.method == "POST")
      return Make(json::parse(request.body), request.query.contains("dryRun"));
    const std::string name = request.params.at("name");
    if (!jobs_.contains(name)) return Status(404, "there is no such job");
    ++version_;
    if (request.method == "DELETE") {
      jobs_.erase(name);
      return {.body = "{}"};
    }
    jobs_[name].merge_patch(json::parse(request.body));
    return {.body = jobs_[name].dump()};
  }
  http::Response Make(json job, bool on_trial) {
    const std::string name = job["metadata"]["name"];
    if (on_trial) ++trials_;
    if (namespace_ends_)
      return {.status = 403,
              .body = json{{"kind", "Status"},
                           {"message", "it is being terminated"},
                           {"details", {{"causes", {{{"reason", "NamespaceTerminating"}}}}}}}
                          .dump()};
    if (jobs_.contains(name))
      return {.status = 409,
              .body = json{{"kind", "Status"},
                           {"reason", "AlreadyExists"},
                           {"message", "jobs.batch \"" + name + "\" already exists"}}
                          .dump()};
    job["metadata"]["uid"] = "u" + std::to_string(++version_);
    jobs_[name] = job;
    ++made_;
    if (std::exchange(loses_answer_, false)) return Status(504, "no answer in time");
    return {.status = 201, .body = job.dump()};
  }
  // Watches tell everything again, as after a short absence; `odd_lines_` come first, once.
  http::Response Read(const http::Request& request) {
    const bool is_pods = absl::EndsWith(request.path, "/pods");
    if (!request.query.contains("watch")) {
      ++lists_;
      json items = json::array();
      if (is_pods && !pod_.is_null()) items.push_back(pod_);
      const auto only = request.query.find("fieldSelector");
      if (!is_pods && !(hides_ && only == request.query.end()))
        for (const auto& [name, job] : jobs_)
          if (only == request.query.end() || only->second == "metadata.name=" + name)
            items.push_back(job);
      return {.body = json{{"items", items},
                           {"metadata", {{"resourceVersion", std::to_string(version_)}}}}
                          .dump()};
    }
    std::string lines = is_pods ? "" : std::exchange(odd_lines_, "");
    if (is_pods && !pod_.is_null())
      lines += json{{"type", "MODIFIED"}, {"object", pod_}}.dump() + "\n";
    if (!is_pods && !hides_)
      for (const auto& [name, job] : jobs_)
        lines += json{{"type", "MODIFIED"}, {"object", job}}.dump() + "\n";
    // A version that is always new, so that the next watch follows at once.
    lines += json{{"type", "BOOKMARK"},
                  {"object", {{"metadata", {{"resourceVersion", std::to_string(++told_to_)}}}}}}
                 .dump() +
             "\n";
    if (!is_pods) lines += std::exchange(cut_line_, "");
    return {.body = lines};
  }
  static http::Response Status(int status, const std::string& message) {
    return {.status = status, .body = json{{"kind", "Status"}, {"message", message}}.dump()};
  }
  void Refuse(int times, http::Response refusal, const std::string& method = "POST",
              const std::string& path = kJobsPath) {
    const MutexLock lock(mutex_);
    refuse_ = times;
    refusal_ = std::move(refusal);
    refused_method_ = method;
    refused_path_ = path;
  }

  // The first that is so; what is told meanwhile is passed over.
  LaunchTold Await(const std::function<bool(const LaunchTold&)>& is_so) {
    const Time end = RealClock().Now() + std::chrono::seconds(40);
    while (const auto told = told_.TakeUntil(end))
      if (is_so(*told)) return *told;
    ADD_FAILURE() << "nothing like that was told";
    return {};
  }
  void Until(const std::function<bool()>& is_so) {
    for (int i = 0; i < 4000; ++i) {
      {
        const MutexLock lock(mutex_);
        if (is_so()) return;
      }
      pause_.WaitFor(std::chrono::milliseconds(10));
    }
    ADD_FAILURE() << "what is waited for did not happen";
  }
  int Calls(const std::string& of) {
    return static_cast<int>(std::count(calls_.begin(), calls_.end(), of));
  }

  StopSignal pause_;  // that nobody gives
  Mailbox<LaunchTold> told_;

  Mutex mutex_;
  std::string token_ ABSL_GUARDED_BY(mutex_) = "first";
  LaunchesPtr wanted_ ABSL_GUARDED_BY(mutex_);
  absl::Status claim_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, json> jobs_;
  std::vector<std::string> calls_;
  std::string odd_lines_;
  std::string cut_line_;       // the last one of one answer
  bool loses_answer_ = false;  // to the next request that makes something
  json pod_;                   // the only one; null: there is none
  bool namespace_ends_ = false;
  bool hides_ = false;       // jobs, but from who asks for one by its name: it is late
  int told_to_ = 1'000'000;  // the newest bookmark
  int version_ = 1, made_ = 0, trials_ = 0, lists_ = 0, refuse_ = 0;
  http::Response refusal_;
  std::string refused_method_, refused_path_;
  int tried_ = 0;  // of the template
  http::Response template_answer_ = {.status = 201, .body = "{}"};
  std::string denied_;              // what a review of rights says no to
  std::string unreviewed_;          // and fails for
  std::string trouble_ = "unsaid";  // as it was noted last

  PlayedServer server_;
  std::unique_ptr<Launcher> launcher_;
};

TEST_F(LauncherTest, WhatIsWantedIsMadeOnceChangedAndEnded) {
  Begin();
  Want({"a"}, 2);
  Until([&] { return jobs_.contains("a"); });
  Want({"a"}, 3);
  Until([&] { return jobs_["a"]["spec"]["completions"] == 3; });
  // Another coordinator after a restart finds it.
  launcher_.reset();
  Begin();
  Want({"a", "b"}, 3);
  Until([&] { return jobs_.contains("b"); });
  Want({"b"}, 3);
  Until([&] { return !jobs_.contains("a"); });
  const MutexLock lock(mutex_);
  EXPECT_EQ(made_, 2);
}

TEST_F(LauncherTest, NothingIsEndedBeforeSomebodyHasSaidWhatIsWanted) {
  {
    const MutexLock lock(mutex_);
    jobs_["a"] = {
        {"metadata", {{"name", "a"}, {"uid", "u"}, {"labels", {{"muster.dev/launch", "a"}}}}}};
  }
  Begin();
  Until([&] { return lists_ >= 2; });
  pause_.WaitFor(std::chrono::milliseconds(500));
  {
    const MutexLock lock(mutex_);
    EXPECT_TRUE(jobs_.contains("a"));
    claim_ = absl::AbortedError("another coordinator has taken its place");
  }
  Want({"b"});
  Until([&] { return jobs_.contains("b"); });
  {
    const MutexLock lock(mutex_);
    EXPECT_TRUE(jobs_.contains("a")) << "the other one may know it";
    claim_ = absl::OkStatus();
  }
  Until([&] { return !jobs_.contains("a"); });
}

TEST_F(LauncherTest, WhatPassesIsTriedAgain) {
  for (const int status : {409, 429, 500, 503, 504}) {
    Refuse(2, Status(status, "not now"));
    const std::string name = absl::StrCat("l", status);
    Want({name});
    if (launcher_ == nullptr) Begin();
    Until([&] { return jobs_.contains(name); });
  }
}

TEST_F(LauncherTest, ARetryAfterIsHeeded) {
  http::Response busy = Status(429, "too many requests");
  busy.headers.emplace_back("Retry-After", "2");
  Refuse(1, busy);
  Want({"a"});
  Begin();
  Await([](const LaunchTold& told) { return absl::StrContains(told.why, "429"); });
  const Time told_at = RealClock().Now();
  Until([&] { return jobs_.contains("a"); });
  EXPECT_GE(RealClock().Now() - told_at, std::chrono::milliseconds(1000));
}

TEST_F(LauncherTest, AMissingRightIsNamedAndNotAskedForAgainAtOnce) {
  Refuse(1000, Status(403, "jobs.batch is forbidden: may not patch"));
  Want({"a"});
  Begin();
  const LaunchTold told = Await([](const LaunchTold& t) { return !t.why.empty(); });
  EXPECT_THAT(told.why, HasSubstr("403: jobs.batch is forbidden"));
  EXPECT_EQ(told.failure, "");
  pause_.WaitFor(std::chrono::seconds(1));
  const MutexLock lock(mutex_);
  EXPECT_EQ(Calls("POST " + std::string(kJobsPath)), 1);
}

// Before a job is submitted that would fail for it.
TEST_F(LauncherTest, ATemplateThatIsRefusedIsSaidAtTheStart) {
  template_answer_ = Status(422, "spec.template.spec.containers[0].image: Required value");
  Want({});
  Begin();
  Until([&] { return absl::StrContains(trouble_, "no job can have pods of this template: "); });
  {
    const MutexLock lock(mutex_);
    EXPECT_THAT(trouble_, HasSubstr("422: spec.template.spec.containers[0].image"));
    EXPECT_TRUE(jobs_.empty());
    template_answer_ = Status(503, "busy");
    tried_ = 0;
  }
  Until([&] { return tried_ > 2; });
  {
    const MutexLock lock(mutex_);
    EXPECT_THAT(trouble_, HasSubstr("422: ")) << "what is not known does not count";
    template_answer_ = Status(404, "namespaces \"jobs\" not found");
  }
  Until([&] { return absl::StrContains(trouble_, "no pods can be made in namespace jobs: "); });
  {
    const MutexLock lock(mutex_);
    template_answer_ = {.status = 201, .body = "{}"};
  }
  Until([&] { return trouble_.empty(); });
}

// What is found there may be of an earlier coordinator, which had another template.
TEST_F(LauncherTest, WhatIsThereAlreadyDoesNotShowThatTheTemplateCanBeUsed) {
  template_answer_ = Status(422, "spec.template.spec.containers[0].image: Required value");
  loses_answer_ = true;
  hides_ = true;
  Want({"a"});
  Begin();
  Await([](const LaunchTold& told) { return absl::StrContains(told.text, "0 of 1 pod of Job a"); });
  {
    const MutexLock lock(mutex_);
    tried_ = 0;
  }
  Until([&] { return tried_ > 2; });
  const MutexLock lock(mutex_);
  EXPECT_THAT(trouble_, HasSubstr("no job can have pods of this template: "));
}

// A policy may ask for a label that jobs have, and the example has not.
TEST_F(LauncherTest, WhatAPolicySaysOfTheExampleIsNotSaidOfAllJobs) {
  template_answer_ = Status(422,
                            "jobs.batch \"muster-template\" is forbidden: "
                            "ValidatingAdmissionPolicy 'queues' denied request: no queue");
  Want({});
  Begin();
  Until([&] { return tried_ == 1 && trouble_ != "unsaid"; });
  const MutexLock lock(mutex_);
  EXPECT_EQ(trouble_, "");
}

TEST_F(LauncherTest, ARightThatIsLackingIsNotForgottenWhereOthersCannotBeLookedAt) {
  denied_ = R"("verb":"create")";
  unreviewed_ = R"("verb":"delete")";
  Want({});
  Begin();
  Until([&] { return absl::StrContains(trouble_, "may not create jobs in namespace jobs"); });
  const MutexLock lock(mutex_);
  denied_.clear();
  unreviewed_.clear();
}

TEST_F(LauncherTest, WhatKeepsItFromMakingPodsIsNotedAndIsGoneOnceItDoesNot) {
  denied_ = R"("verb":"delete")";
  Want({});
  Begin();
  Until([&] { return absl::StrContains(trouble_, "may not delete jobs in namespace jobs"); });
  {
    const MutexLock lock(mutex_);
    denied_.clear();
  }
  Until([&] { return trouble_.empty(); });
  // A right that is taken away later is missed when it is used.
  {
    const MutexLock lock(mutex_);
    denied_ = R"("verb":"patch")";
  }
  Refuse(1000, Status(403, "jobs.batch is forbidden: may not patch"));
  Want({"a"});
  Until([&] { return absl::StrContains(trouble_, "may not patch jobs"); });
  launcher_.reset();
  denied_.clear();
  Refuse(1000000, Status(403, "pods is forbidden"), "GET", kPodsPath);
  Begin();
  Until([&] { return absl::StrContains(trouble_, "403: pods is forbidden"); });
  {
    const MutexLock lock(mutex_);
    refuse_ = 0;
  }
  Until([&] { return trouble_.empty(); });
}

TEST_F(LauncherTest, WhatIsRefusedAsItIsHasFailed) {
  Refuse(1000, Status(422, "spec.completions: Invalid value"));
  Want({"a"});
  Begin();
  const LaunchTold told = Await([](const LaunchTold& t) { return !t.failure.empty(); });
  EXPECT_THAT(told.failure, HasSubstr("422: spec.completions: Invalid value"));
  EXPECT_TRUE(told.is_over);
  EXPECT_EQ(told.exit_code, 64);
}

// As of something between the API and us.
TEST_F(LauncherTest, AnAnswerThatIsNotWhatWasMadeIsTroubleAndTriedAgainLater) {
  std::vector<std::string> names;
  for (const char* body : {"", "<html>", "null", "[]", R"({"metadata":{"name":"b"}})"}) {
    Refuse(1, {.status = 200, .body = body});
    const std::string name = names.emplace_back(absl::StrCat("a", names.size()));
    Want(names);
    if (!launcher_) Begin();
    Await([](const LaunchTold& told) {
      return absl::StrContains(told.why, "not with what it was to make");
    });
    Until([&] { return jobs_.contains(name); });
  }
}

TEST_F(LauncherTest, ATokenThatWasReplacedIsReadAnew) {
  {
    const MutexLock lock(mutex_);
    token_ = "second";
  }
  Want({"a"});
  Begin();
  Until([&] { return Calls("GET " + std::string(kPodsPath)) >= 2; });
  server_.WriteToken("second");
  Until([&] { return jobs_.contains("a"); });
}

TEST_F(LauncherTest, AWatchThatHasLostTheThreadIsBegunAnew) {
  Want({"a"});
  Begin();
  Until([&] { return jobs_.contains("a"); });
  for (const char* odd :
       {"{\"type\":\"MODIF\n", "null\n", "[]\n",
        "{\"type\":\"ERROR\",\"object\":{\"code\":410,\"message\":\"too old\"}}\n"}) {
    int lists = 0;
    {
      const MutexLock lock(mutex_);
      lists = lists_;
      odd_lines_ = odd;
    }
    Until([&] { return lists_ > lists; });
  }
  Want({"a", "b"});
  Until([&] { return jobs_.contains("b"); });
}

// Such a line may be cut where it reads like a whole one.
TEST_F(LauncherTest, OfALineInWhichAWatchIsCutNothingCounts) {
  Want({"a"});
  Begin();
  Until([&] { return jobs_.contains("a"); });
  int calls = 0;
  {
    const MutexLock lock(mutex_);
    cut_line_ = json{{"type", "DELETED"}, {"object", jobs_["a"]}}.dump();
    calls = Calls("GET " + std::string(kJobsPath));
  }
  Until([&] { return cut_line_.empty() && Calls("GET " + std::string(kJobsPath)) > calls + 3; });
  const MutexLock lock(mutex_);
  EXPECT_EQ(Calls("POST " + std::string(kJobsPath)), 1);
}

// What is old news is told again, of one that was made anew, and of one that nobody wants.
TEST_F(LauncherTest, WhatAWatchTellsTwiceChangesNothing) {
  Want({"a"});
  Begin();
  Until([&] { return jobs_.contains("a"); });
  {
    const MutexLock lock(mutex_);
    for (const char* name : {"a", "b"})
      for (const char* type : {"ADDED", "MODIFIED", "DELETED", "DELETED"})
        odd_lines_ += json{{"type", type},
                           {"object",
                            {{"metadata",
                              {{"name", name},
                               {"uid", "before"},
                               {"resourceVersion", "1"},
                               {"labels", {{"muster.dev/launch", name}}}}}}}}
                          .dump() +
                      "\n";
  }
  Until([&] { return odd_lines_.empty(); });
  Want({"a", "c"});
  Until([&] { return jobs_.contains("c"); });
  const MutexLock lock(mutex_);
  EXPECT_EQ(made_, 2);
  EXPECT_EQ(Calls("DELETE " + std::string(kJobsPath) + "/a"), 0);
  EXPECT_FALSE(jobs_.contains("b"));
}

// Kubernetes waits for up to ten minutes until it makes another pod, and keeps the dead one so
// long.
TEST_F(LauncherTest, WhatKeepsItsDeadIsEndedOnlyWhereItsNamespaceIs) {
  Want({"a"});
  Begin();
  Until([&] { return jobs_.contains("a"); });
  {
    const MutexLock lock(mutex_);
    pod_ = {{"metadata",
             {{"name", "p"},
              {"labels", {{"muster.dev/launch", "a"}}},
              {"deletionTimestamp", "2026-01-01T00:00:00Z"}}},
            {"status", {{"phase", "Failed"}}}};
  }
  Until([&] { return trials_ >= 3; });
  EXPECT_THAT(Await([](const LaunchTold& t) { return !t.why.empty(); }).why,
              HasSubstr("none in their place yet"));
  {
    const MutexLock lock(mutex_);
    EXPECT_EQ(Calls("DELETE " + std::string(kJobsPath) + "/a"), 0);
    EXPECT_EQ(made_, 1);
    namespace_ends_ = true;
  }
  Until([&] { return !jobs_.contains("a"); });
  {
    const MutexLock lock(mutex_);
    pod_ = nullptr;
    namespace_ends_ = false;
  }
  launcher_.reset();  // which would wait for a minute more after a refusal
  Begin();
  Until([&] { return jobs_.contains("a"); });
}

TEST_F(LauncherTest, WhatWasMadeAndNobodyHeardSoIsNotMadeAgain) {
  loses_answer_ = true;
  Want({"a"});
  Begin();
  Until([&] { return jobs_.contains("a"); });
  Await([](const LaunchTold& told) { return absl::StrContains(told.text, "0 of 1 pod of Job a"); });
  const MutexLock lock(mutex_);
  EXPECT_EQ(made_, 1);
  EXPECT_EQ(Calls("DELETE " + std::string(kJobsPath) + "/a"), 0);
}

// Whoever is told so might delete it.
TEST_F(LauncherTest, ItsOwnIsNotCalledSomebodyElsesBecauseTheWatchIsLate) {
  loses_answer_ = true;
  hides_ = true;
  Want({"a"});
  Begin();
  Await([](const LaunchTold& told) {
    EXPECT_THAT(told.why, Not(HasSubstr("lacks the labels")));
    return absl::StrContains(told.text, "0 of 1 pod of Job a");
  });
  const MutexLock lock(mutex_);
  EXPECT_EQ(made_, 1);
  EXPECT_EQ(Calls("DELETE " + std::string(kJobsPath) + "/a"), 0);
}

TEST_F(LauncherTest, WhatBearsTheNameAndIsSomebodyElsesStaysAsItIs) {
  const json theirs = {{"metadata", {{"name", "a"}, {"uid", "theirs"}}},
                       {"spec", {{"completions", 1}}}};
  {
    const MutexLock lock(mutex_);
    jobs_["a"] = theirs;
  }
  Want({"a"}, 2);
  Begin();
  const LaunchTold told = Await([](const LaunchTold& t) { return !t.why.empty(); });
  EXPECT_THAT(told.why, HasSubstr("409: jobs.batch \"a\" already exists, and lacks the labels"));
  EXPECT_EQ(told.failure, "");
  Until([&] { return Calls("POST " + std::string(kJobsPath)) >= 3; });
  Want({"b"});
  Until([&] { return jobs_.contains("b"); });
  Want({"a", "b"}, 2);
  {
    const MutexLock lock(mutex_);
    EXPECT_EQ(jobs_["a"], theirs);
    jobs_.erase("a");
  }
  Until([&] { return jobs_.contains("a"); });
}

// It would make Jobs of what are JobSets already.
TEST_F(LauncherTest, NothingIsMadeBeforeItIsKnownWhetherThereAreJobSets) {
  Refuse(1000000, Status(429, "too many requests"), "GET", "/apis/jobset");
  Want({"a"});
  Begin();
  const LaunchTold told = Await([](const LaunchTold& t) { return !t.why.empty(); });
  EXPECT_THAT(told.why, HasSubstr("429"));
  {
    const MutexLock lock(mutex_);
    EXPECT_FALSE(jobs_.contains("a"));
    refuse_ = 0;
  }
  Until([&] { return jobs_.contains("a"); });
}

// It might make something twice, or end what it does not know.
TEST_F(LauncherTest, WhoCannotSeeChangesNothing) {
  Refuse(1000000, Status(500, "the store of the API is away"), "GET", kPodsPath);
  Want({"a"});
  Begin();
  const LaunchTold told = Await([](const LaunchTold& t) { return !t.why.empty(); });
  EXPECT_THAT(told.why, HasSubstr("the store of the API is away"));
  {
    const MutexLock lock(mutex_);
    EXPECT_FALSE(jobs_.contains("a"));
    refuse_ = 0;
  }
  Until([&] { return jobs_.contains("a"); });
  Await([](const LaunchTold& t) { return !absl::StrContains(t.why, "is away"); });
}

}  // namespace
}  // namespace muster::coordinator
