// What REST makes of the api's values, over a real listener.
#include "coordinator/service/rest.h"

#include <atomic>
#include <chrono>
#include <deque>
#include <future>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/runtime/background.h"
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
  void Submit(std::string, JobSpec, Reply<SubmittedJob> reply) override {
    if (page.jobs.empty()) return reply(Unscripted());
    reply(SubmittedJob{page.jobs.front(), true});
  }
  void Get(const std::string&, Reply<JobInfo> reply) override {
    if (page.jobs.empty()) return reply(Unscripted());
    reply(page.jobs.front());
  }
  void List(const JobQuery& query, Reply<JobPage> reply) override {
    asked_for = query;
    reply(page);
  }
  void Cancel(const std::string&, Reply<JobInfo> reply) override { reply(Unscripted()); }
  void Stop(const std::string&, Reply<JobInfo> reply) override { reply(Unscripted()); }
  void Delete(const std::string&, Reply<JobInfo> reply) override { reply(Unscripted()); }
  void Scale(const std::string&, int32_t workers_min, int32_t workers_max,
             Reply<JobInfo> reply) override {
    asked_of_scale = {workers_min, workers_max};
    reply(JobInfo{});
  }
  void Watch(const std::string&, std::optional<EventPlace> after, Reply<bool> reply,
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

  JobEvent event;
  JobFingerprints fingerprints;
  JobPage page;
  JobQuery asked_for;
  std::pair<int32_t, int32_t> asked_of_scale;
  HistoryPage history;
  HistoryQuery asked_of_history;
  LogTail logs;
  LogQuery asked_of_logs;
  JobLedger ledger;
  LedgerQuery asked_of_ledger;
  std::atomic<int64_t> asked_from{-1};
  std::optional<EventPlace> asked_after;

 private:
  static absl::Status Unscripted() { return absl::UnimplementedError("not of this test"); }
};

class ScriptedHosts final : public HostApi {
 public:
  void List(const HostQuery& query, Reply<HostPage> reply) override {
    asked_for = query;
    reply(HostPage{{Host("a")}, "a"});
  }
  void Get(const std::string& name, Reply<HostInfo> reply) override { reply(Host(name)); }
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
            .members = {{.job = "j", .member = "worker-0"}}};
  }
};

class RestTest : public ::testing::Test {
 protected:
  std::string Url(const std::string& path) const { return "http://" + server_->Address() + path; }
  Json Get(const std::string& path) const {
    const auto answer = http::Get(Url(path));
    return answer.ok() ? Json::parse(answer->body, nullptr, false) : Json(nullptr);
  }

  ScriptedApi api_;
  std::vector<http::Route> Routes() {
    std::vector<http::Route> routes = RestRoutes(
        api_, [] { return std::string(); }, [] { return absl::OkStatus(); },
        [] { return absl::OkStatus(); }, &large_answers_);
    for (http::Route& route : HostRoutes(hosts_, &large_answers_))
      routes.push_back(std::move(route));
    return routes;
  }

  ScriptedHosts hosts_;
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

TEST_F(RestTest, TellsOfHosts) {
  const Json page = Get("/v1/hosts?limit=1&page_token=0");
  EXPECT_EQ(page["next_page_token"], "a");
  EXPECT_EQ(page["hosts"][0]["free"], 3);
  EXPECT_EQ(hosts_.asked_for.limit, 1);
  EXPECT_EQ(hosts_.asked_for.page_token, "0");
  const Json host = Get("/v1/hosts/b");
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

TEST_F(RestTest, TheHistoryComesInParts) {
  api_.history = {
      .steps = {{.step = 7, .lineage = 2, .unix_ms = 1'000, .loss = 0.5, .learning_rate = 0.25}},
      .next = 8};
  const Json part = Get("/v1/jobs/a/history?from=7&lineage=2&limit=1");
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
