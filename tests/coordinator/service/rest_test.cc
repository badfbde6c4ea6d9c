// What REST makes of the api's values, over a real listener.
#include "coordinator/service/rest.h"

#include <array>
#include <atomic>
#include <chrono>
#include <deque>
#include <fstream>
#include <future>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/runtime/background.h"
#include "coordinator/service/gate.h"
#include "coordinator/service/rest_identity.h"
#include "coordinator/service/token_text.h"
#include "coordinator/state/rights.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/base/clock.h"
#include "lib/http/client.h"
#include "lib/http/server.h"
#include "nlohmann/json.hpp"
#include "tests/lib/http/raw_client.h"

namespace muster::coordinator {
namespace {

using Json = nlohmann::json;

constexpr size_t kLarge = size_t{1} << 20;
constexpr size_t kRoom = 4 * kLarge;

// Says what the test gives it, of any job.
class ScriptedApi final : public JobApi {
 public:
  void Submit(std::string, JobSpec, Accepts accepts, const Caller& caller,
              Reply<SubmittedJob> reply) override {
    accepted = accepts;
    submitter = caller.user;
    if (page.jobs.empty()) return reply(Unscripted());
    reply(SubmittedJob{page.jobs.front(), true});
  }
  void Adopt(std::string folder, std::string id, Accepts accepts, const coordinator::Caller& caller,
             Reply<AdoptionInfo> reply) override {
    accepted = accepts;
    asked_to_adopt = {std::move(folder), std::move(id)};
    adopted_by = caller.user;
    reply(adoption);
  }
  void FindAdoption(const std::string& name, Reply<AdoptionInfo> reply) override {
    if (name != adoption.adoption) return reply(absl::NotFoundError("there is no such adoption"));
    reply(adoption);
  }
  void Get(const std::string&, Reply<JobInfo> reply) override {
    if (page.jobs.empty()) return reply(Unscripted());
    reply(page.jobs.front());
  }
  void List(const JobQuery& query, Reply<JobPage> reply) override {
    asked_for = query;
    reply(page);
  }
  void Cancel(const std::string&, const Caller&, Reply<JobInfo> reply) override {
    reply(Unscripted());
  }
  void Stop(const std::string&, const Caller&, Reply<JobInfo> reply) override {
    reply(Unscripted());
  }
  void Delete(const std::string&, const Caller&, Reply<JobInfo> reply) override {
    reply(Unscripted());
  }
  void Scale(const std::string&, int32_t workers_min, int32_t workers_max, const Caller&,
             Reply<JobInfo> reply) override {
    asked_of_scale = {workers_min, workers_max};
    reply(JobInfo{});
  }
  void SetQueue(const std::string&, const QueueChange& change, const Caller&,
                Reply<JobInfo> reply) override {
    asked_of_queue = change;
    reply(JobInfo{});
  }
  void Watch(const std::string&, std::optional<EventPlace> after, const Caller&, Reply<bool> reply,
             std::shared_ptr<JobWatcher> watcher) override {
    asked_after = after;
    reply(true);
    watcher->OnEvent(event);
  }
  void Fingerprints(const std::string&, int64_t from, Reply<JobFingerprints> reply) override {
    asked_from = from;
    reply(fingerprints);
  }
  void Audit(const std::string&, Reply<JobAudit> reply) override { reply(Unscripted()); }
  void Logs(const std::string&, LogQuery query, Reply<LogTail> reply) override {
    asked_of_logs = query;
    reply(logs);
  }
  void FollowLogs(const std::string&, FollowQuery query, const Caller&,
                  Reply<LogPage> reply) override {
    asked_to_follow = query;
    reply(log_page);
  }
  void ReadFile(const std::string&, FileQuery query, Reply<FilePart> reply) override {
    asked_of_file = std::move(query);
    reply(file_part);
  }
  void Checkpoints(const std::string& id, const std::string& page_token,
                   Reply<SavedCheckpoints> reply) override {
    asked_of_checkpoint = {id, page_token, ""};
    reply(SavedCheckpoints{{saved}, "lineage-1-step-40"});
  }
  void KeepCheckpoint(const std::string& id, const std::string& checkpoint, const std::string& name,
                      const Caller&, Reply<SavedCheckpoint> reply) override {
    asked_of_checkpoint = {id, checkpoint, name};
    reply(kept);
  }
  void DeleteCheckpoint(const std::string& id, const std::string& checkpoint, bool force,
                        const Caller&, Reply<SavedCheckpoint> reply) override {
    asked_of_checkpoint = {id, checkpoint, force ? "force" : ""};
    if (!force) return reply(absl::FailedPreconditionError("it is the newest"));
    reply(deleted);
  }
  void Digest(const std::string&, std::optional<int64_t>, Reply<JobDigest> reply) override {
    reply(Unscripted());
  }

  void History(const std::string&, const HistoryQuery& query, Reply<HistoryPage> reply) override {
    asked_of_history = query;
    reply(history);
  }
  void Ledger(const std::string&, LedgerQuery query, Reply<JobLedger> reply) override {
    asked_of_ledger = query;
    reply(ledger);
  }

  std::pair<std::string, std::string> asked_to_adopt;  // folder and id
  std::array<std::string, 3> asked_of_checkpoint;      // id, checkpoint or page, and what else
  SavedCheckpoint saved{.checkpoint = "lineage-1-step-40", .lineage = 1, .step = 40};
  absl::StatusOr<SavedCheckpoint> kept = saved, deleted = saved;
  std::string adopted_by;
  AdoptionInfo adoption{.adoption = "1-7"};
  JobEvent event;
  JobFingerprints fingerprints;
  JobPage page;
  JobQuery asked_for;
  std::pair<int32_t, int32_t> asked_of_scale;
  QueueChange asked_of_queue;
  HistoryPage history;
  HistoryQuery asked_of_history;
  LogTail logs;
  LogQuery asked_of_logs;
  LogPage log_page;
  FilePart file_part;
  FileQuery asked_of_file;
  FollowQuery asked_to_follow;
  JobLedger ledger;
  LedgerQuery asked_of_ledger;
  std::string submitter;
  Accepts accepted;
  std::atomic<int64_t> asked_from{-1};
  std::optional<EventPlace> asked_after;

 private:
  static absl::Status Unscripted() { return absl::UnimplementedError("not of this test"); }
};

class ScriptedHosts final : public HostApi {
 public:
  void List(const HostQuery& query, Reply<HostPage> reply) override {
    asked_for = query;
    reply(HostPage{.hosts = {Host("a")}, .next_page_token = "a", .launch_namespace = "ml"});
  }
  void Get(const std::string& name, const std::string& scope, Reply<HostInfo> reply) override {
    asked_for.scope = scope;
    reply(Host(name));
  }
  void Drain(const std::string& name, bool on, Reply<HostInfo> reply) override {
    HostInfo host = Host(name);
    host.draining = on;
    reply(std::move(host));
  }

  HostQuery asked_for;

 private:
  static HostInfo Host(const std::string& name) {
    return {.name = name,
            .slots = 4,
            .used = 1,
            .free = 3,
            .away_for_seconds = 12,
            .left_out_by = {"k"},
            .left_out = "why",
            .members = {{.job = "j", .member = "worker-0", .devices = {"1"}}},
            .devices = {"0", "1"},
            .devices_used = {"1"}};
  }
};

class ScriptedNamespaces final : public NamespaceApi {
 public:
  void List(const std::string& scope, Reply<NamespaceList> reply) override {
    asked_for_scope = scope;
    reply(NamespaceList{{{.name = "a"}}});
  }
  void Get(const std::string& name, Reply<NamespaceInfo> reply) override {
    reply(NamespaceInfo{.name = name});
  }
  void SetQuota(const std::string& name, const Quota& quota, Reply<NamespaceInfo> reply) override {
    reply(NamespaceInfo{
        .name = name, .slots = quota.slots, .queued = quota.queued, .priority = quota.priority});
  }

  std::string asked_for_scope;
};

class ScriptedTokens final : public TokenApi {
 public:
  void Make(const TokenRequest& request, Reply<MadeToken> reply) override {
    reply(MadeToken{{.id = "1",
                     .user = request.grant.user,
                     .expires_unix_ms = request.expires_in_seconds * 1000},
                    "muster-secret"});
  }
  void List(Reply<TokenList> reply) override { reply(TokenList{{{.id = "1", .user = "ada"}}}); }
  void Revoke(const std::string& id, Reply<TokenInfo> reply) override {
    reply(TokenInfo{.id = id});
  }
};

class ScriptedJoining final : public HostTokenApi, public CertificateApi {
 public:
  template <class T>
  using Reply = JobApi::Reply<T>;
  void Admit(const std::string& host, const std::string& name_space, bool certified,
             Reply<AdmittedHost> reply) override {
    reply(AdmittedHost{host, name_space, certified, false, certified ? "" : "muster-join-h-1"});
  }
  void Revoke(const std::string& host, Reply<AdmittedHost> reply) override {
    reply(AdmittedHost{.host = host, .revoked = true});
  }
  void SignUser(const std::string& user, const std::string& token_id, const std::string& public_key,
                Reply<SignedCertificate> reply) override {
    reply(SignedCertificate{"c1", user + " " + token_id, public_key, 0});
  }
};

class ScriptedAuthority final : public AuthorityApi {
 public:
  void Get(Reply<AuthorityInfo> reply) override { reply(info); }
  void Change(std::optional<absl::Time> now, Reply<AuthorityInfo> reply) override {
    asked = absl::StrCat("change ", now ? absl::ToUnixSeconds(*now) : -1);
    reply(info);
  }
  void Finish(bool force, std::optional<absl::Time> now, Reply<AuthorityInfo> reply) override {
    asked = absl::StrCat("finish ", force, " ", now ? absl::ToUnixSeconds(*now) : -1);
    reply(absl::FailedPreconditionError("no change is under way"));
  }

  AuthorityInfo info{.signs = {"ab", 0, 1000, "PEM"},
                     .trusted_on = {{"cd", 0, 0, "OLD"}},
                     .change_ends_unix_ms = 2000,
                     .hosts = {{"alpha", kTrustRenewed}}};
  std::string asked;
};

class RestTest : public ::testing::Test {
 protected:
  std::string Url(const std::string& path) const { return "http://" + server_->Address() + path; }
  Json Get(const std::string& path) const {
    const auto answer = http::Get(Url(path));
    return answer.ok() ? Json::parse(answer->body, nullptr, false) : Json(nullptr);
  }

  ScriptedApi api_;
  std::vector<http::Route> Routes(Gate* gate = nullptr) {
    std::vector<http::Route> routes = RestRoutes(
        api_, [] { return std::string(); }, [] { return absl::OkStatus(); },
        [] { return absl::OkStatus(); }, &large_answers_, gate);
    for (http::Route& route : HostRoutes(hosts_, &large_answers_, gate))
      routes.push_back(std::move(route));
    for (http::Route& route : NamespaceRoutes(namespaces_, &large_answers_, gate))
      routes.push_back(std::move(route));
    for (http::Route& route : JoiningRoutes(joining_, joining_, gate))
      routes.push_back(std::move(route));
    for (http::Route& route : AuthorityRoutes(authority_, gate)) routes.push_back(std::move(route));
    if (gate == nullptr) return routes;
    for (http::Route& route : TokenRoutes(tokens_, &large_answers_, *gate))
      routes.push_back(std::move(route));
    return routes;
  }

  ScriptedHosts hosts_;
  ScriptedNamespaces namespaces_;
  ScriptedTokens tokens_;
  ScriptedJoining joining_;
  ScriptedAuthority authority_;
  Background large_answers_;
  const std::unique_ptr<http::Server> server_ =
      http::Server::Start("127.0.0.1:0", Routes(), {.limits = {.answers_bytes = kRoom}}).value();
};

// Large answers are made on a thread that stands still until the test says so.
class LargeAnswersTest : public RestTest {
 protected:
  LargeAnswersTest() {
    api_.page.jobs.resize(1);
    api_.page.jobs.front().reason = std::string(kLarge, 'x');
    large_answers_.Run([this, until = go_on_.get_future().share()](const std::stop_token& stop) {
      const std::stop_callback opens(stop, [this] { GoOn(); });
      held_.set_value();
      until.wait();
    });
    held_.get_future().wait();
  }
  ~LargeAnswersTest() override {
    GoOn();
    large_answers_.Stop();
  }
  void GoOn() {
    if (!std::exchange(goes_on_, true)) go_on_.set_value();
  }
  // Their room is taken, and they wait for that thread.
  bool AwaitWaiting(size_t answers) const {
    const Time until = RealClock().Now() + std::chrono::seconds(30);
    while (large_answers_.queued() < answers && RealClock().Now() < until)
      std::this_thread::yield();
    return large_answers_.queued() == answers;
  }

 private:
  std::promise<void> held_;
  std::promise<void> go_on_;
  bool goes_on_ = false;
};

TEST_F(LargeAnswersTest, AreNotMadeOnTheThreadThatAnswersAllOthers) {
  const std::string submission =
      R"({"spec":{"name":"a","task":"counting","lanes":2,"batch":5,"epochs":1,"reduction":"sum",)"
      R"("data":{"samples":10},"optimizer":{"kind":"sgd","learning_rate":1}}})";
  struct Row {
    std::string request;
    int status;
  };
  const Row rows[] = {{http::GetText("/v1/jobs"), 200},
                      {http::GetText("/v1/jobs/a"), 200},
                      {absl::StrCat("POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: ",
                                    submission.size(), "\r\n\r\n", submission),
                       201}};
  std::deque<http::RawClient> large;
  for (const Row& row : rows) {
    large.emplace_back(server_->Address()).Send(row.request);
    ASSERT_TRUE(AwaitWaiting(large.size())) << row.request << " was answered at once";
  }
  for (const char* small : {"/healthz", "/readyz", "/metrics", "/v1/jobs/a/history"}) {
    http::RawClient client(server_->Address());
    client.Send(http::GetText(small));
    EXPECT_EQ(http::StatusOf(client.ReadAnswer()), 200) << small << " waits for large answers";
  }
  GoOn();
  for (size_t i = 0; i < large.size(); ++i) {
    const std::string answer = large[i].ReadAnswer();
    EXPECT_EQ(http::StatusOf(answer), rows[i].status) << rows[i].request;
    EXPECT_GT(answer.size(), kLarge) << rows[i].request;
  }
}

TEST_F(LargeAnswersTest, AreRefusedBeforeTheyAreMade) {
  std::deque<http::RawClient> clients;
  for (size_t i = 0; i < kRoom / (kLarge + 4096); ++i) {
    clients.emplace_back(server_->Address()).Send(http::GetText("/v1/jobs"));
    ASSERT_TRUE(AwaitWaiting(i + 1));
  }
  http::RawClient late(server_->Address());
  late.Send(http::GetText("/v1/jobs"));
  const std::string refused = late.ReadAnswer();
  EXPECT_EQ(http::StatusOf(refused), 503) << "an answer is made before it has room";
  EXPECT_NE(refused.find("Retry-After: 1\r\n"), std::string::npos);
  GoOn();
  for (int asked_again = 0; asked_again < 2; ++asked_again) {
    for (http::RawClient& client : clients) {
      EXPECT_EQ(http::StatusOf(client.ReadAnswer()), 200);
      client.Send(http::GetText("/v1/jobs"));  // by then its room was given back
    }
  }
}

TEST_F(LargeAnswersTest, EndWithTheThreadThatMakesThem) {
  http::RawClient client(server_->Address());
  client.Send(http::GetText("/v1/jobs"));
  ASSERT_TRUE(AwaitWaiting(1));
  large_answers_.Stop();
  EXPECT_EQ(http::StatusOf(client.ReadAnswer()), 503) << "it waited";
  client.Send(http::GetText("/v1/jobs"));
  EXPECT_EQ(http::StatusOf(client.ReadAnswer()), 503) << "it came later";
}

TEST_F(RestTest, AnAdoptionNamesAFolderAndMayNameAnId) {
  const auto post = [&](const std::string& body) {
    return *http::Post(Url("/v1/adoptions"), body);
  };
  EXPECT_EQ(post(R"({"folder":"/old/a"})").status, 202) << "it goes on";
  EXPECT_EQ(api_.asked_to_adopt, (std::pair<std::string, std::string>("/old/a", "")));
  EXPECT_EQ(Json::parse(post(R"({"folder":"/old/a","id":"b"})").body)["adoption"], "1-7");
  EXPECT_EQ(api_.asked_to_adopt, (std::pair<std::string, std::string>("/old/a", "b")));
  EXPECT_FALSE(api_.accepted.plugin);
  EXPECT_EQ(post(R"({"folder":"/old/a","accept":["plugin"]})").status, 202);
  EXPECT_TRUE(api_.accepted.plugin);
  for (const char* wrong :
       {"", "{}", "[]", R"({"folder":7})", R"({"folder":"/a","id":""})",
        R"({"folder":"/a","accept":"plugin"})", R"({"folder":"/a","accept":["data"]})",
        R"({"folder":"/a","accept":[7]})", R"({"folder":"/a","as":"b"})",
        R"({"folder":"/a","id":7})", R"({"id":"b"})"})
    EXPECT_EQ(post(wrong).status, 400) << wrong;
}

TEST_F(RestTest, AnAdoptionTellsHowFarItIsAndWhatItFailedWith) {
  const auto look = [&] { return *http::Get(Url("/v1/adoptions/1-7")); };
  Json waits = Json::parse(look().body);
  EXPECT_EQ(look().status, 202);
  EXPECT_EQ(waits["state"], "waiting");
  for (const char* unknown : {"job", "step", "of_bytes", "seconds_left", "error"})
    EXPECT_TRUE(waits.at(unknown).is_null()) << unknown;
  api_.adoption.state = kAdoptionCopies;
  api_.adoption.job = "b";
  api_.adoption.bytes = 10;
  api_.adoption.of_bytes = 40;
  api_.adoption.bytes_per_second = 5;
  api_.adoption.seconds_left = 6;
  const Json copies = Json::parse(look().body);
  EXPECT_EQ(copies["job"], "b");
  EXPECT_EQ(copies["bytes"], 10);
  EXPECT_EQ(copies["of_bytes"], 40);
  EXPECT_EQ(copies["bytes_per_second"], 5);
  EXPECT_EQ(copies["seconds_left"], 6);
  api_.adoption.state = kAdoptionFailed;
  api_.adoption.error = absl::DataLossError("no checkpoint is whole");
  EXPECT_EQ(look().status, 200) << "it is over, and the look has not failed";
  const Json failed = Json::parse(look().body);
  EXPECT_EQ(failed["error"]["code"], "data_loss");
  EXPECT_EQ(failed["error"]["message"], "no checkpoint is whole");
  EXPECT_EQ(http::Get(Url("/v1/adoptions/1-8"))->status, 404);
}

TEST_F(RestTest, FieldsOfEventsThatAreNumbersAreNumbers) {
  api_.event = {.id = "1-1",
                .seq = 1,
                .event = "recovery",
                .fields = {{"view", "2"},
                           {"step", "40"},
                           {"lineage", "1"},
                           {"lanes", "3"},
                           {"recomputed", "2"},
                           {"loss", "0.5"},
                           {"rewind", "true"},
                           {"value", "12"}}};
  Json data;
  const absl::Status ended = http::StreamEvents(Url("/v1/jobs/a/events"), [&](const auto& event) {
    data = Json::parse(event.data, nullptr, false);
    return false;
  });
  ASSERT_TRUE(ended.ok()) << ended;
  EXPECT_EQ(data["view"], 2);
  EXPECT_EQ(data["step"], 40);
  EXPECT_EQ(data["lineage"], 1);
  EXPECT_EQ(data["lanes"], 3);
  EXPECT_EQ(data["recomputed"], 2);
  EXPECT_EQ(data["loss"], 0.5);
  EXPECT_EQ(data["rewind"], true);
  EXPECT_EQ(data["value"], "12") << "a fingerprint is text";
}

TEST_F(RestTest, AStreamGoesOnAfterTheEventThatIsNamed) {
  const auto follow = [&](const std::string& query, const std::string& last_id) {
    return http::StreamEvents(Url("/v1/jobs/a/events" + query), [](const auto&) { return false; },
                              {.last_event_id = last_id});
  };
  api_.event = {.id = "3-15", .seq = 15, .event = "step"};
  EXPECT_TRUE(follow("?from=3-14", "").ok());
  ASSERT_TRUE(api_.asked_after.has_value());
  EXPECT_EQ(api_.asked_after->term, TermNumber(3));
  EXPECT_EQ(api_.asked_after->seq, 14);
  EXPECT_TRUE(follow("?from=3-14", "3-20").ok());
  EXPECT_EQ(api_.asked_after->seq, 20) << "a browser that comes back repeats the query";
  EXPECT_TRUE(follow("", "").ok());
  EXPECT_FALSE(api_.asked_after.has_value());
  for (const char* from : {"-1--1", "2", "", "x", "+1-1", "1-%201", "1-99999999999999999999"})
    EXPECT_EQ(Get(std::string("/v1/jobs/a/events?from=") + from)["error"]["field"], "from") << from;
  EXPECT_EQ(follow("?from=3-14", "-1--1").code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(RestTest, ListsOnePageOfTheJobsInAState) {
  api_.page.jobs.resize(2);
  api_.page.next_page_token = "17";
  const Json page = Get("/v1/jobs?limit=2&page_token=15&state=running");
  EXPECT_EQ(api_.asked_for.limit, 2);
  EXPECT_EQ(api_.asked_for.page_token, "15");
  EXPECT_EQ(api_.asked_for.state, "running");
  EXPECT_EQ(page["jobs"].size(), 2u);
  EXPECT_EQ(page["next_page_token"], "17");
  for (const char* limit :
       {"0", "-1", "x", "99999999999999999999", "%2010", "10%20", "+5", "%2B5", ""})
    EXPECT_EQ(Get(std::string("/v1/jobs?limit=") + limit)["error"]["field"], "limit");
  EXPECT_EQ(Get("/v1/jobs?stat=running")["error"]["field"], "stat");
  EXPECT_EQ(Get("/v1/jobs?state=")["error"]["field"], "state");
  EXPECT_EQ(Get("/v1/jobs?page_token=")["error"]["field"], "page_token");
}

TEST_F(RestTest, RefusesParametersThatItDoesNotTake) {
  for (const char* path : {"/v1/jobs/a?page=2", "/v1/jobs/a/fingerprints?page=2", "/metrics?page=2",
                           "/v1/jobs/a/audit?page=2", "/v1/jobs/a/digest?page=2"})
    EXPECT_EQ(Get(path)["error"]["field"], "page") << path;
}

TEST_F(RestTest, ListsJobsByNamespaceAndLabels) {
  Get("/v1/jobs?namespace=vision&label=team=see,stage=");
  EXPECT_EQ(api_.asked_for.name_space, "vision");
  EXPECT_EQ(api_.asked_for.labels,
            (std::map<std::string, std::string>{{"team", "see"}, {"stage", ""}}));
  EXPECT_EQ(Get("/v1/jobs?label=team")["error"]["field"], "label");
  EXPECT_EQ(Get("/v1/jobs?label=a=b,a=c")["error"]["field"], "label");
  EXPECT_EQ(Get("/v1/jobs?namespace=")["error"]["field"], "namespace");
}

TEST_F(RestTest, WhatTheQueueKnowsOfAJobIsChanged) {
  const auto changed = [this](const std::string& body) {
    const auto answer = http::Patch(Url("/v1/jobs/j"), body);
    return answer.ok() ? Json::parse(answer->body, nullptr, false)["error"] : Json("no answer");
  };
  EXPECT_EQ(changed(R"({"priority": -3, "labels": {"team": null, "stage": "one"}})"),
            Json(nullptr));
  EXPECT_EQ(api_.asked_of_queue,
            (QueueChange{.priority = -3, .labels = {{"team", std::nullopt}, {"stage", "one"}}}));
  EXPECT_EQ(changed(R"({"priority": 1001})")["field"], "priority");
  EXPECT_EQ(changed(R"({"namespace": "other"})")["field"], "namespace");
  EXPECT_EQ(changed(R"({"workers": 2})")["field"], "workers");
  EXPECT_NE(changed(""), Json(nullptr));
}

TEST_F(RestTest, QuotasOfNamespacesAreSetWhole) {
  const auto put = [this](const std::string& body) {
    const auto answer = http::Put(Url("/v1/namespaces/vision"), body);
    return answer.ok() ? Json::parse(answer->body, nullptr, false) : Json("no answer");
  };
  Json answer = put(R"({"slots": 8})");
  EXPECT_EQ(answer["name"], "vision");
  EXPECT_EQ(answer["slots"], 8);
  EXPECT_EQ(answer["queued"], Json(nullptr));
  answer = put(R"({"slots": null, "queued": 0})");
  EXPECT_EQ(answer["slots"], Json(nullptr));
  EXPECT_EQ(answer["queued"], 0);
  EXPECT_EQ(answer["priority"], 0);
  EXPECT_EQ(put(R"({"priority": 10})")["priority"], 10);
  EXPECT_EQ(put(R"({"priority": -10, "slots": 2})")["priority"], -10);
  EXPECT_EQ(put(R"({"priority": null})")["priority"], 0);
  EXPECT_EQ(put(R"({"priority": 1001})")["error"]["field"], "priority");
  EXPECT_EQ(put(R"({"slots": -1})")["error"]["field"], "slots");
  EXPECT_EQ(put(R"({"slot": 1})")["error"]["field"], "slot");
  EXPECT_EQ(Get("/v1/namespaces")["namespaces"][0]["name"], "a");
}

TEST_F(RestTest, TellsOfHosts) {
  const Json page = Get("/v1/hosts?limit=1&page_token=0");
  EXPECT_EQ(page["next_page_token"], "a");
  EXPECT_EQ(page["launch_namespace"], "ml");
  EXPECT_TRUE(page["launch_trouble"].is_null());
  EXPECT_EQ(page["hosts"][0]["free"], 3);
  EXPECT_EQ(hosts_.asked_for.limit, 1);
  EXPECT_EQ(hosts_.asked_for.page_token, "0");
  const Json host = Get("/v1/hosts/b");
  EXPECT_EQ(host["devices"], Json::array({"0", "1"}));
  EXPECT_EQ(host["devices_used"], Json::array({"1"}));
  EXPECT_EQ(host["members"][0]["devices"], Json::array({"1"}));
  EXPECT_EQ(host["name"], "b");
  EXPECT_EQ(host["away_for_seconds"], 12);
  EXPECT_EQ(host["left_out_by"], Json::array({"k"}));
  EXPECT_EQ(host["left_out"], "why");
  EXPECT_EQ(host["members"][0]["job"], "j");
  EXPECT_EQ(Get("/v1/hosts?limit=0")["error"]["field"], "limit");
  for (const bool on : {true, false}) {
    const auto answer = http::Post(Url(on ? "/v1/hosts/b:drain" : "/v1/hosts/b:undrain"), "{}");
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(Json::parse(answer->body)["draining"], on);
  }
}

TEST_F(RestTest, AJobIsScaledAsItsSpecificationSaysIt) {
  const auto scaled = [this](const std::string& body) {
    const auto answer = http::Post(Url("/v1/jobs/j:scale"), body);
    return answer.ok() ? Json::parse(answer->body, nullptr, false)["error"] : Json("no answer");
  };
  EXPECT_EQ(scaled(R"({"workers": 4})"), Json(nullptr));
  EXPECT_EQ(api_.asked_of_scale, std::pair(1, 4));
  EXPECT_EQ(scaled(R"({"workers": {"min": 2, "max": 3}})"), Json(nullptr));
  EXPECT_EQ(api_.asked_of_scale, std::pair(2, 3));
  EXPECT_EQ(scaled(R"({"workers": 0})")["field"], "workers");
  EXPECT_EQ(scaled(R"({"workers": {"min": 1, "max": 4097}})")["field"], "workers.max");
  EXPECT_EQ(scaled(R"({"workers": {"min": 3, "max": 2}})")["field"], "workers.min");
  EXPECT_EQ(scaled("{}")["field"], "workers");
  EXPECT_EQ(scaled(R"({"workers": null})")["field"], "workers");
  const Json servers = scaled(R"({"workers": 2, "servers": 2})");
  EXPECT_EQ(servers["field"], "servers");
  EXPECT_NE(std::string(servers["message"]).find("cannot be scaled"), std::string::npos);
  EXPECT_EQ(scaled("")["code"], "invalid_argument");
  EXPECT_EQ(scaled("[1]")["code"], "invalid_argument");
}

TEST_F(RestTest, AnEmptyBodyIsNamed) {
  const auto answer = http::Post(Url("/v1/jobs"), "");
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->status, 400);
  EXPECT_EQ(Json::parse(answer->body)["error"]["message"],
            "the body is empty; send the job as a JSON object");
}

TEST_F(RestTest, ASpecificationThatIsNoObjectIsNamed) {
  for (const char* body : {R"({"spec": null})", R"({"spec": []})", R"({"spec": "a"})", "{}"}) {
    const auto answer = http::Post(Url("/v1/jobs"), body);
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(answer->status, 400) << body;
    EXPECT_EQ(Json::parse(answer->body)["error"]["field"], "spec") << body;
  }
}

TEST_F(RestTest, LinesOfMembersAreText) {
  api_.logs = {"worker-0: one\n"};
  const auto answer = http::Get(Url("/v1/jobs/a/logs"));
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->content_type, "text/plain; charset=utf-8");
  EXPECT_EQ(answer->body, "worker-0: one\n");
  EXPECT_EQ(api_.asked_of_logs.member, "");
  EXPECT_EQ(api_.asked_of_logs.tail, 0);
  EXPECT_TRUE(http::Get(Url("/v1/jobs/a/logs?member=worker-0&tail=7")).ok());
  EXPECT_EQ(api_.asked_of_logs.member, "worker-0");
  EXPECT_EQ(api_.asked_of_logs.tail, 7);
  for (const char* query : {"tail=0", "tail=-1", "tail=x"})
    EXPECT_EQ(Get(std::string("/v1/jobs/a/logs?") + query)["error"]["field"], "tail") << query;
  EXPECT_EQ(Get("/v1/jobs/a/logs?member=")["error"]["field"], "member");
}

TEST_F(RestTest, AFileOfACheckpointComesByteForByte) {
  api_.file_part = {std::string("a\0\xff", 3), 77};
  const auto answer = http::Get(
      Url("/v1/jobs/a/checkpoint?file=lineage-1-step-2%2Fcheckpoint.manifest&offset=4&bytes=3"));
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->content_type, "application/octet-stream");
  EXPECT_EQ(answer->body, api_.file_part.bytes);
  EXPECT_THAT(answer->headers, testing::Contains(testing::Pair(kFileBytesHeader, "77")));
  EXPECT_EQ(api_.asked_of_file.file, "lineage-1-step-2/checkpoint.manifest");
  EXPECT_EQ(api_.asked_of_file.offset, 4);
  EXPECT_EQ(api_.asked_of_file.bytes, 3);
  const std::string one_more_than_may_be = absl::StrCat("bytes=", kMostFileBytes + 1);
  for (const std::string& query :
       std::vector<std::string>{"offset=-1", "offset=x", "bytes=0", "bytes=x", one_more_than_may_be,
                                "bytes=9223372036854775807"}) {
    const Json refused = Get(absl::StrCat("/v1/jobs/a/checkpoint?file=a/b&", query));
    EXPECT_EQ(refused["error"]["code"], "invalid_argument") << query;
    EXPECT_EQ(refused["error"]["field"], query.substr(0, query.find('='))) << query;
  }
}

TEST_F(RestTest, CheckpointsAreListedPageByPage) {
  api_.saved = {.checkpoint = "lineage-2-step-40",
                .lineage = 2,
                .step = 40,
                .epoch = 0,
                .bytes = 7,
                .unix_ms = 96,
                .complete = true,
                .finite = true,
                .name = "before-cut",
                .measure = "validation.loss",
                .value = 0.5,
                .best = true};
  const Json page = Get("/v1/jobs/a/checkpoints");
  EXPECT_EQ(api_.asked_of_checkpoint, (std::array<std::string, 3>{"a", "", ""}));
  EXPECT_EQ(page["next_page_token"], "lineage-1-step-40");
  EXPECT_EQ(page["checkpoints"], Json::array({{{"checkpoint", "lineage-2-step-40"},
                                               {"lineage", 2},
                                               {"step", 40},
                                               {"epoch", 0},
                                               {"bytes", 7},
                                               {"time", "1970-01-01T00:00:00.096Z"},
                                               {"complete", true},
                                               {"why", nullptr},
                                               {"finite", true},
                                               {"name", "before-cut"},
                                               {"measure", "validation.loss"},
                                               {"value", 0.5},
                                               {"best", true},
                                               {"left_out", false},
                                               {"deleting", false}}}));
  api_.saved = {.checkpoint = "lineage-1-step-50", .why = "a segment is missing"};
  const Json next = Get("/v1/jobs/a/checkpoints?page_token=lineage-1-step-40")["checkpoints"][0];
  EXPECT_EQ(api_.asked_of_checkpoint[1], "lineage-1-step-40");
  for (const char* field : {"epoch", "name", "measure", "value"})
    EXPECT_TRUE(next[field].is_null()) << field;
  EXPECT_EQ(next["why"], "a segment is missing");
  EXPECT_EQ(Get("/v1/jobs/a/checkpoints?page_token=")["error"]["field"], "page_token");
  EXPECT_EQ(Get("/v1/jobs/a/checkpoints?limit=5")["error"]["field"], "limit");
}

TEST_F(RestTest, ACheckpointIsKeptByANameOrByNone) {
  const std::string url = Url("/v1/jobs/a/checkpoints/lineage-1-step-40");
  const auto keep = [&](const std::string& body) { return *http::Patch(url, body); };
  const http::Response kept = keep(R"({"name": "before-cut"})");
  EXPECT_EQ(kept.status, 200);
  EXPECT_EQ(Json::parse(kept.body)["checkpoint"], "lineage-1-step-40");
  EXPECT_EQ(api_.asked_of_checkpoint,
            (std::array<std::string, 3>{"a", "lineage-1-step-40", "before-cut"}));
  EXPECT_EQ(keep(R"({"name": null})").status, 200);
  EXPECT_EQ(api_.asked_of_checkpoint[2], "") << "by none any more";
  api_.asked_of_checkpoint = {};
  const auto field_of = [&](const std::string& body) {
    const http::Response answer = keep(body);
    EXPECT_EQ(answer.status, 400) << body;
    return Json::parse(answer.body)["error"]["field"];
  };
  for (const char* body :
       {"{}", R"({"name": ""})", R"({"name": 7})", R"({"name": ["a"]})", R"({"name": false})"})
    EXPECT_EQ(field_of(body), "name") << body;
  EXPECT_EQ(field_of(R"({"name": "a", "force": true})"), "force");
  for (const char* body : {"", "[]", "null", "{", R"("a")"}) EXPECT_EQ(keep(body).status, 400);
  EXPECT_EQ(api_.asked_of_checkpoint, (std::array<std::string, 3>{})) << "nobody was asked";
  const std::pair<absl::Status, int> refusals[] = {
      {absl::NotFoundError("it is being removed"), 404},
      {absl::AlreadyExistsError("step 20 is kept as 'best'; take another name"), 409},
      {absl::FailedPreconditionError("it is not complete"), 409},
      {absl::UnavailableError("the disk does not answer"), 503}};
  for (const auto& [refusal, status] : refusals) {
    api_.kept = refusal;
    const http::Response answer = keep(R"({"name": "best"})");
    EXPECT_EQ(answer.status, status);
    EXPECT_EQ(Json::parse(answer.body)["error"]["message"], std::string(refusal.message()));
  }
}

TEST_F(RestTest, ACheckpointIsDeletedByForceWhereThatIsSaid) {
  const std::string path = "/v1/jobs/a/checkpoints/lineage-1-step-40";
  const auto drop = [&](const std::string& query) { return *http::Delete(Url(path + query)); };
  const http::Response refused = drop("");
  EXPECT_EQ(refused.status, 409);
  EXPECT_EQ(Json::parse(refused.body)["error"]["message"], "it is the newest");
  EXPECT_EQ(api_.asked_of_checkpoint, (std::array<std::string, 3>{"a", "lineage-1-step-40", ""}));
  EXPECT_EQ(drop("?force=false").status, 409);
  const http::Response gone = drop("?force=true");
  EXPECT_EQ(gone.status, 200);
  EXPECT_EQ(Json::parse(gone.body)["step"], 40);
  EXPECT_EQ(api_.asked_of_checkpoint[2], "force");
  api_.asked_of_checkpoint = {};
  for (const char* query : {"?force=", "?force=1", "?force=yes", "?force=TRUE"}) {
    const http::Response wrong = drop(query);
    EXPECT_EQ(wrong.status, 400) << query;
    EXPECT_EQ(Json::parse(wrong.body)["error"]["field"], "force") << query;
  }
  EXPECT_EQ(Json::parse(drop("?name=a").body)["error"]["field"], "name");
  EXPECT_EQ(api_.asked_of_checkpoint, (std::array<std::string, 3>{})) << "nobody was asked";
  // What is called in the path is passed on as it stands; what it means is not for this layer.
  api_.deleted = absl::NotFoundError("job a has no checkpoint of step 41");
  const auto unknown = http::Delete(Url("/v1/jobs/a/checkpoints/a%20%2e%2e?force=true"));
  ASSERT_TRUE(unknown.ok()) << unknown.status();
  EXPECT_EQ(unknown->status, 404);
  EXPECT_EQ(api_.asked_of_checkpoint[1], "a ..");
}

TEST_F(RestTest, LinesAreFollowedFromWhereAFollowerIs) {
  api_.log_page = {{{"worker-0", "one \"1\""}}, "1~worker-0~0123456789abcdef~8", false};
  Json page = Get("/v1/jobs/a/logs:follow?member=worker-0&tail=7");
  EXPECT_EQ(api_.asked_to_follow.member, "worker-0");
  EXPECT_EQ(api_.asked_to_follow.tail, 7);
  EXPECT_EQ(api_.asked_to_follow.after, "");
  ASSERT_EQ(page["lines"].size(), 1u) << page;
  EXPECT_EQ(page["lines"][0]["member"], "worker-0");
  EXPECT_EQ(page["lines"][0]["line"], "one \"1\"");
  EXPECT_EQ(page["over"], false);
  page = Get("/v1/jobs/a/logs:follow?after=" + page["next"].get<std::string>());
  EXPECT_EQ(api_.asked_to_follow.after, api_.log_page.next);
  EXPECT_EQ(api_.asked_to_follow.tail, 0);
  for (const char* field : {"after", "member", "tail"})
    EXPECT_EQ(Get(absl::StrCat("/v1/jobs/a/logs:follow?", field, "="))["error"]["field"], field);
}

TEST_F(RestTest, FingerprintsComeInPartsFromAStepOn) {
  api_.fingerprints = {.fingerprints = {{.step = 20, .lineage = 1, .value = "aa"}}, .next = 30};
  Json part = Get("/v1/jobs/a/fingerprints?from=15");
  EXPECT_EQ(api_.asked_from, 15);
  EXPECT_EQ(part["fingerprints"][0]["step"], 20);
  EXPECT_EQ(part["next"], 30);
  api_.fingerprints.next.reset();
  part = Get("/v1/jobs/a/fingerprints");
  EXPECT_EQ(api_.asked_from, 0);
  EXPECT_TRUE(part["next"].is_null());
  part = Get("/v1/jobs/a/fingerprints?from=-1");
  EXPECT_EQ(part["error"]["field"], "from");
  EXPECT_EQ(Get("/v1/jobs/a/fingerprints?from=%2010")["error"]["field"], "from");
  EXPECT_EQ(Get("/v1/jobs/a/digest?step=%2B5")["error"]["field"], "step");
}

TEST_F(RestTest, TheLedgerNamesLanesAndSamples) {
  api_.ledger = {.steps = {{.step = 7,
                            .lineage = 2,
                            .loss = 0.5,
                            .lanes = {{.lane = 1,
                                       .worker = "worker-0",
                                       .count = 2,
                                       .samples = std::vector<uint64_t>{3, 9}},
                                      {.lane = 2, .worker = "worker-1", .count = 400'000}}}},
                 .next = 8};
  const Json part = Get("/v1/jobs/a/ledger?from=7&limit=1&sample=9");
  EXPECT_EQ(api_.asked_of_ledger.from, 7);
  EXPECT_EQ(api_.asked_of_ledger.limit, 1);
  EXPECT_EQ(api_.asked_of_ledger.sample, 9u);
  EXPECT_EQ(part["steps"][0]["lanes"][0]["samples"], Json({3, 9}));
  EXPECT_TRUE(part["steps"][0]["lanes"][1]["samples"].is_null()) << "too many for one answer";
  EXPECT_EQ(part["next"], 8);
  for (const char* query : {"from=-1", "from=x", "limit=0", "limit=x", "sample=-1", "step=4"})
    EXPECT_EQ(Get(std::string("/v1/jobs/a/ledger?") + query)["error"]["code"], "invalid_argument")
        << query;
}

// The same routes, where whoever calls is asked for a token.
class GuardedRestTest : public RestTest {
 protected:
  std::string GuardedUrl(const std::string& path) const {
    return "http://" + guarded_->Address() + path;
  }
  int StatusOf(const std::string& path, const std::string& token) const {
    const auto answer = http::Get(GuardedUrl(path), {.token = token});
    return answer.ok() ? answer->status : 0;
  }
  static std::string AuditText() {
    std::ifstream log(::testing::TempDir() + "/guarded_rest_audit.jsonl");
    return {std::istreambuf_iterator<char>(log), {}};
  }

  const std::string ada_ = MakeTokenText("ada"), admin_ = MakeTokenText("admin");
  const RealClock clock_{};
  const KnownCluster known_{.tokens = std::make_shared<const std::vector<Token>>(std::vector<Token>{
                                {HashOfToken(ada_), {"ada", UserRole::kSubmitter, "default"}, 1},
                                {HashOfToken(admin_), {"admin", UserRole::kAdmin, "*"}, 1}})};
  const std::unique_ptr<AuditLog> audit_ =
      AuditLog::Open(::testing::TempDir() + "/guarded_rest_audit.jsonl").value();
  Gate gate_{[this] { return known_; }, *audit_, clock_};
  const std::unique_ptr<http::Server> guarded_ =
      http::Server::Start("127.0.0.1:0", Routes(&gate_)).value();
};

TEST_F(GuardedRestTest, WithoutATokenOnlyHealthIsAnswered) {
  EXPECT_EQ(StatusOf("/healthz", ""), 200);
  EXPECT_EQ(StatusOf("/readyz", ""), 200);
  for (const char* path : {"/v1/jobs", "/v1/jobs/a", "/v1/hosts", "/v1/tokens", "/metrics",
                           "/v1/namespaces", "/v1/namespaces/a"})
    EXPECT_EQ(StatusOf(path, ""), 401) << path;
  EXPECT_EQ(StatusOf("/v1/jobs", MakeTokenText("ada")), 401);
  EXPECT_EQ(StatusOf("/v1/jobs", ada_), 200);
  EXPECT_EQ(StatusOf("/v1/hosts", ada_), 403);
  EXPECT_EQ(StatusOf("/v1/hosts", admin_), 200);
}

// Its body never comes, so an answer that waited for it would not either.
TEST_F(GuardedRestTest, AStrangerIsRefusedBeforeItsBodyIsRead) {
  http::RawClient client(guarded_->Address());
  client.Send("POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999\r\n\r\n");
  const std::string answer = client.ReadToEnd();
  EXPECT_EQ(answer.rfind("HTTP/1.1 401", 0), 0u) << answer;
  EXPECT_NE(answer.find("WWW-Authenticate: Bearer"), std::string::npos) << answer;
}

TEST_F(GuardedRestTest, WhoCallsIsKnownToWhateverAnswers) {
  api_.page.jobs.resize(1);
  EXPECT_EQ(StatusOf("/v1/jobs", ada_), 200);
  EXPECT_EQ(api_.asked_for.scope, "default");
  EXPECT_EQ(StatusOf("/v1/jobs", admin_), 200);
  EXPECT_EQ(api_.asked_for.scope, "*");
  const std::string job =
      R"({"id": "a", "spec": {"task": "counting", "steps": 10, "reduction": "sum", "optimizer": {"kind": "sgd", "learning_rate": 1}}})";
  const auto submitted = http::Post(GuardedUrl("/v1/jobs"), job, {.token = ada_});
  ASSERT_TRUE(submitted.ok()) << submitted.status();
  EXPECT_EQ(submitted->status, 201) << submitted->body;
  EXPECT_EQ(api_.submitter, "ada");
}

// The job is the object of which rights are asked, and what the audit log names.
TEST_F(GuardedRestTest, CheckpointsAreOfTheirJob) {
  const std::string path = "/v1/jobs/a/checkpoints";
  const std::string url = GuardedUrl(path + "/lineage-1-step-40?force=true");
  EXPECT_EQ(StatusOf(path, ""), 401);
  EXPECT_EQ(http::Delete(url)->status, 401);
  EXPECT_EQ(api_.asked_of_checkpoint[0], "") << "nobody was asked";
  EXPECT_EQ(StatusOf(path, ada_), 200);
  EXPECT_EQ(http::Delete(url, {.token = ada_})->status, 200);
  EXPECT_EQ(api_.asked_of_checkpoint[0], "a");
  EXPECT_THAT(AuditText(), testing::HasSubstr(R"(DELETE /v1/jobs/{id}/checkpoints/{checkpoint}",)"
                                              R"("object":"a","outcome":"allowed")"));
}

TEST_F(GuardedRestTest, QuotasAreSeenByTheirNamespaceAndSetByAdmins) {
  EXPECT_EQ(StatusOf("/v1/namespaces", ada_), 200);
  EXPECT_EQ(namespaces_.asked_for_scope, "default");
  EXPECT_EQ(StatusOf("/v1/namespaces", admin_), 200);
  EXPECT_EQ(namespaces_.asked_for_scope, "*");
  EXPECT_EQ(StatusOf("/v1/namespaces/default", ada_), 200);
  EXPECT_EQ(StatusOf("/v1/namespaces/other", ada_), 403);
  EXPECT_EQ(StatusOf("/v1/namespaces/other", admin_), 200);
  const std::string quota = R"({"slots": 8})", url = GuardedUrl("/v1/namespaces/default");
  EXPECT_EQ(http::Put(url, quota, {.token = ada_})->status, 403);
  EXPECT_EQ(http::Put(url, quota, {.token = admin_})->status, 200);
}

TEST_F(GuardedRestTest, TokensAreMadeAndTakenAwayByAdmins) {
  const std::string grant = R"({"user": "bob", "role": "viewer", "namespace": "default"})";
  const auto made = http::Post(GuardedUrl("/v1/tokens"), grant, {.token = admin_});
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->status, 201) << made->body;
  EXPECT_EQ(Json::parse(made->body)["token"], "muster-secret");
  EXPECT_EQ(http::Post(GuardedUrl("/v1/tokens"), grant, {.token = ada_})->status, 403);
  EXPECT_EQ(http::Delete(GuardedUrl("/v1/tokens/1"), {.token = admin_})->status, 200);
  EXPECT_EQ(http::Delete(GuardedUrl("/v1/tokens/1"), {.token = ada_})->status, 403);
  const std::string odd = R"({"user": "bob", "role": "root", "namespace": "default"})";
  const auto refused = http::Post(GuardedUrl("/v1/tokens"), odd, {.token = admin_});
  EXPECT_EQ(Json::parse(refused->body)["error"]["field"], "role");
  const auto lasting = [&](const std::string& seconds) {
    const std::string body =
        absl::StrCat(R"({"user": "bob", "role": "viewer", "namespace": "default", "expires_in": )",
                     seconds, "}");
    return Json::parse(http::Post(GuardedUrl("/v1/tokens"), body, {.token = admin_})->body);
  };
  EXPECT_EQ(Json::parse(made->body)["expires"], nullptr);
  EXPECT_EQ(lasting("60")["expires"], "1970-01-01T00:01:00.000Z");
  for (const char* odd_time : {"0", "-1", "1.5", "1e300", "\"soon\"", "316224001", "null"})
    EXPECT_EQ(lasting(odd_time)["error"]["field"], "expires_in") << odd_time;
  EXPECT_EQ(Json::parse(
                http::Get(GuardedUrl("/v1/tokens"), {.token = admin_})->body)["tokens"][0]["user"],
            "ada");
}

TEST_F(GuardedRestTest, ACertificateIsMadeForTheUserAndTheTokenThatAsks) {
  const std::string body = R"({"public_key": "a2V5"})", url = GuardedUrl("/v1/certificates");
  EXPECT_EQ(http::Post(url, body)->status, 401);
  const auto made = http::Post(url, body, {.token = ada_});
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->status, 201) << made->body;
  EXPECT_EQ(Json::parse(made->body)["certificate"], "ada " + TokenId({.hash = HashOfToken(ada_)}));
  EXPECT_EQ(Json::parse(made->body)["authority"], "key");
}

TEST_F(GuardedRestTest, TheAuthorityIsSeenByOperatorsAndChangedByAdmins) {
  const std::string url = GuardedUrl("/v1/authority");
  EXPECT_EQ(http::Get(url, {.token = ada_})->status, 403);
  const Json shown = Json::parse(http::Get(url, {.token = admin_})->body);
  EXPECT_EQ(shown["signs"]["sha256"], "ab");
  EXPECT_EQ(shown["trusted_on"][0]["certificate"], "OLD");
  EXPECT_EQ(shown["change_ends"], "1970-01-01T00:00:02.000Z");
  EXPECT_EQ(shown["hosts"][0]["state"], "renewed");
  EXPECT_EQ(http::Post(url + ":change", "", {.token = ada_})->status, 403);
  EXPECT_EQ(authority_.asked, "");
  const std::string now = R"({"now": "1970-01-01T00:01:00Z"})";
  EXPECT_EQ(http::Post(url + ":change", now, {.token = admin_})->status, 200);
  EXPECT_EQ(authority_.asked, "change 60");
  const auto refused = http::Post(url + ":finish", R"({"force": true})", {.token = admin_});
  EXPECT_EQ(refused->status, 409) << refused->body;
  EXPECT_EQ(authority_.asked, "finish 1 -1");
  const auto field = [&](const char* body) {
    return Json::parse(
        http::Post(url + ":finish", body, {.token = admin_})->body)["error"]["field"];
  };
  EXPECT_EQ(field(R"({"force": 1})"), "force");
  EXPECT_EQ(field(R"({"now": "noon"})"), "now");
}

// It reads any folder of the coordinator's machine.
TEST_F(GuardedRestTest, OnlyAnAdminAdoptsAndItIsWrittenDown) {
  const std::string body = R"({"folder":"/old/a"})";
  EXPECT_EQ(http::Post(GuardedUrl("/v1/adoptions"), body, {.token = ada_})->status, 403);
  EXPECT_EQ(api_.asked_to_adopt.first, "");
  EXPECT_EQ(http::Post(GuardedUrl("/v1/adoptions"), body, {.token = admin_})->status, 202);
  EXPECT_EQ(api_.adopted_by, "admin");
  EXPECT_EQ(StatusOf("/v1/adoptions/1-7", ada_), 403);
  EXPECT_EQ(StatusOf("/v1/adoptions/1-7", admin_), 202);
  EXPECT_THAT(AuditText(), testing::HasSubstr("/old/a"));
}

// Whatever somebody adds to the routes needs a row in the table of rights, and no row is without
// one.
TEST_F(GuardedRestTest, EachRouteHasARowOfRightsAndEachRowARoute) {
  std::set<std::pair<std::string, std::string>> routes;
  for (const http::Route& route : Routes(&gate_)) {
    routes.emplace(route.method, route.pattern);
    EXPECT_NE(RightsOfRoute(route.method, route.pattern), nullptr)
        << route.method << " " << route.pattern << " has no row in kMethods";
  }
  for (const MethodRights& row : kMethods)
    EXPECT_TRUE(routes.contains({std::string(row.verb), std::string(row.pattern)}))
        << row.verb << " " << row.pattern << " is no route";
}

TEST_F(RestTest, TheHistoryComesInParts) {
  api_.history = {
      .steps = {{.step = 7, .lineage = 2, .unix_ms = 1'000, .loss = 0.5, .learning_rate = 0.25}},
      .next = 8};
  Json part = Get("/v1/jobs/a/history?from=7&lineage=2&limit=1");
  EXPECT_EQ(part["steps"][0]["validation"], Json::array());
  part["steps"][0].erase("validation");  // in the file a field for each metric
  EXPECT_TRUE(part["steps"][0]["last_state"].is_null()) << "it is a step";
  part["steps"][0].erase("last_state");  // in the file only on the line that is none
  EXPECT_EQ(api_.asked_of_history.from, 7);
  EXPECT_EQ(api_.asked_of_history.lineage, 2);
  EXPECT_EQ(api_.asked_of_history.limit, 1);
  // As a line of the file says it.
  EXPECT_EQ(part["steps"][0], Json::parse(HistoryLine(api_.history.steps[0])));
  EXPECT_TRUE(part["steps"][0]["gradient_norm"].is_null());
  EXPECT_EQ(part["steps"][0]["time"], "1970-01-01T00:00:01.000Z");
  EXPECT_EQ(part["next"], 8);
  EXPECT_EQ(Get("/v1/jobs/a/history?limit=0")["error"]["field"], "limit");
  for (const char* from :
       {"", "x", "-1", "+1", "%2B1", "%201", "1%20", "1-2", "99999999999999999999"})
    for (const char* what : {"history", "ledger", "fingerprints"})
      EXPECT_EQ(Get(std::string("/v1/jobs/a/") + what + "?from=" + from)["error"]["field"], "from")
          << what << " " << from;
}

TEST_F(RestTest, AJobSaysWhichOfItsIdItIs) {
  api_.page.jobs = {{.id = "a", .first_start = 4294967297}};
  EXPECT_EQ(Get("/v1/jobs")["jobs"][0]["first_start"], 4294967297);
}

}  // namespace
}  // namespace muster::coordinator
