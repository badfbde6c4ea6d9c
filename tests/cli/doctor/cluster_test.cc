// What muster doctor makes of a cluster, of certificates and of checks that hang, and how it says
// it.
#include "cli/doctor/cluster.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "cli/doctor/certificates.h"
#include "cli/doctor/checks.h"
#include "cli/doctor/report.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/identity/identity_folder.h"
#include "nlohmann/json.hpp"
#include "tests/cli/doctor/findings.h"
#include "tests/support/cgroup_tree.h"

namespace muster::cli::doctor {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

const absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);

HostAnswer Up(const std::string& name) { return {.name = name, .slots = 4, .used = 1, .up = true}; }

ClusterFacts Healthy() {
  ClusterFacts facts{.url = "https://10.0.0.1:8080", .has_token = true};
  facts.offset = ClockOffset{absl::Milliseconds(-400), absl::Milliseconds(601)};
  facts.version = "1.2.3";
  facts.queued = std::vector<JobAnswer>{};
  facts.hosts = HostList{.hosts = {Up("a"), Up("b")}};
  facts.authority = AuthorityAnswer{.signs = {.ends = "2036-01-01T00:00:00Z"}};
  return facts;
}

Findings Judge(const std::function<void(ClusterFacts&)>& change) {
  ClusterFacts facts = Healthy();
  change(facts);
  return JudgeCluster(facts, "1.2.3", kNow);
}

TEST(DoctorClusterTest, OfAHealthyOneEverythingIsWell) {
  const Findings findings = Judge([](ClusterFacts&) {});
  EXPECT_THAT(findings, SizeIs(8));
  for (const Finding& finding : findings) Expect(finding, Verdict::kOk, "");
  Expect(Of(findings, "hosts"), Verdict::kOk, "2 hosts with 8 slots to take members, of which 2");
}

TEST(DoctorClusterTest, WhoDoesNotAnswerIsToldApart) {
  using F = ClusterFacts&;
  const auto reached = [](absl::Status status) {
    Findings findings = Judge([&](F f) { f.reached = std::move(status); });
    EXPECT_THAT(findings, SizeIs(1)) << "nothing else can be known";
    return findings[0];
  };
  Expect(reached(absl::UnavailableError("connection refused")), Verdict::kProblem,
         "No coordinator answers at https://10.0.0.1:8080: connection refused.", "muster up");
  Expect(reached(absl::DeadlineExceededError("no answer")), Verdict::kProblem, "Nothing comes back",
         "firewalls");
  Expect(reached(absl::UnauthenticatedError("another authority")), Verdict::kProblem,
         "not who is expected", "--authority");
  Expect(reached(absl::PermissionDeniedError("it is host b")), Verdict::kProblem,
         "not who is expected", "--authority");
  Expect(reached(absl::InvalidArgumentError("no URL")), Verdict::kProblem, "no URL.", "--to");
  Expect(Judge([](F f) { f.healthy = absl::UnavailableError("the disk is full"); })[0],
         Verdict::kProblem, "is not well: the disk is full.", "coordinator.log");
  Expect(Judge([](F f) { f.may_ask = absl::FailedPreconditionError("whom to trust"); })[0],
         Verdict::kProblem, "whom to trust.", "--authority");
  Expect(
      Of(Judge([](F f) { f.ready = absl::UnavailableError("it reads its journal"); }), "readiness"),
      Verdict::kProblem, "it reads its journal", "wait");
}

TEST(DoctorClusterTest, ATokenIsTakenOrNot) {
  using F = ClusterFacts&;
  const auto token = [](const std::function<void(F)>& change) {
    return Of(Judge(change), "token");
  };
  Expect(token([](F) {}), Verdict::kOk, "takes the token");
  Expect(token([](F f) { f.has_token = false; }), Verdict::kOk, "asks for no token");
  Expect(token([](F f) { f.queued = absl::UnauthenticatedError("it is not known here"); }),
         Verdict::kProblem, "does not take the token: it is not known here.", "MUSTER_TOKEN_FILE");
  Expect(token([](F f) {
           f.has_token = false;
           f.queued = absl::UnauthenticatedError("show one");
         }),
         Verdict::kProblem, "There is no token to show", "muster token make");
  Expect(token([](F f) { f.queued = absl::PermissionDeniedError("not for hosts"); }),
         Verdict::kProblem, "not for hosts", "viewer");
}

TEST(DoctorClusterTest, HostsThatTakeNothingAreNamedWithTheReason) {
  using F = ClusterFacts&;
  const auto with = [](std::vector<HostAnswer> hosts) {
    return Judge([&](F f) { f.hosts = HostList{.hosts = std::move(hosts)}; });
  };
  HostAnswer away = Up("c"), drains = Up("d"), left_out = Up("e");
  away.up = false;
  away.away_for_seconds = 90;
  drains.draining = true;
  left_out.left_out = "its library is another one";
  const Findings mixed = with({Up("a"), away, drains, left_out});
  Expect(Of(mixed, "hosts"), Verdict::kOk, "4 hosts with 4 slots");
  Expect(Of(mixed, "hosts away"), Verdict::kWarning, "c (for 1:30 min)", "muster agent");
  Expect(Of(mixed, "hosts draining"), Verdict::kWarning, "d.", "--undo");
  Expect(Of(mixed, "hosts left out"), Verdict::kWarning, "e (its library is another one)",
         "muster drain HOST --undo");
  Expect(Of(with({}), "hosts"), Verdict::kWarning, "none", "muster agent");
  Expect(Of(with({away, drains}), "hosts"), Verdict::kProblem, "None of the 2", "muster hosts");
  Expect(Of(Judge([](F f) { f.hosts = absl::PermissionDeniedError("a viewer"); }), "hosts"),
         Verdict::kSkipped, "a viewer");
  Expect(Of(Judge([](F f) { f.hosts = absl::UnavailableError("broke"); }), "hosts"),
         Verdict::kWarning, "broke", "again");
}

TEST(DoctorClusterTest, JobsThatWaitWhileNothingRunsAreTold) {
  using F = ClusterFacts&;
  const auto jobs = [](int64_t under_way, std::vector<JobAnswer> queued) {
    return Of(Judge([&](F f) {
                f.under_way = under_way;
                f.queued = std::move(queued);
              }),
              "jobs");
  };
  const JobAnswer waits{.id = "big", .waits_for = "8 slots; 4 are free"};
  Expect(jobs(0, {waits}), Verdict::kWarning, "big: 8 slots; 4 are free", "muster agent");
  Expect(jobs(1, {waits}), Verdict::kOk, "1 job runs, and 1 waits: big");
  Expect(jobs(2, {}), Verdict::kOk, "2 jobs run, and none waits");
  const Finding many = jobs(0, std::vector<JobAnswer>(9, JobAnswer{.id = "j"}));
  Expect(many, Verdict::kWarning, "9 wait: j, j, j, j, j and 4 more.", "muster agent");
}

TEST(DoctorClusterTest, VersionsThatDifferAndAuthoritiesThatEndAreTold) {
  using F = ClusterFacts&;
  Expect(Of(Judge([](F f) { f.version = "1.2.4"; }), "version"), Verdict::kWarning,
         "of version 1.2.4, and this muster of 1.2.3", "one version");
  Expect(Of(Judge([](F f) { f.version = absl::PermissionDeniedError("a viewer"); }), "version"),
         Verdict::kSkipped, "a viewer");
  const auto authority = [](const std::string& ends, const std::string& change,
                            std::vector<HostTrustAnswer> hosts) {
    return Judge([&](F f) {
      f.authority = AuthorityAnswer{
          .signs = {.ends = ends}, .change_ends = change, .hosts = std::move(hosts)};
    });
  };
  // It is 2027-01-15T08:00:00Z.
  Expect(Of(authority("2027-01-20T08:00:00Z", "", {}), "authority"), Verdict::kWarning,
         "in 5 d 0 h", "muster certs change");
  Expect(Of(authority("2027-01-15T07:00:00Z", "", {}), "authority"), Verdict::kProblem,
         "ended at 2027-01-15 07:00:00 UTC", "muster certs change");
  const Findings changing = authority("2036-01-01T00:00:00Z", "2027-01-16T08:00:00Z",
                                      {{"a", "renewed"}, {"b", "not yet"}, {"c", "away"}});
  Expect(Of(changing, "change of authority"), Verdict::kWarning, "b (not yet) and c (away)",
         "joins again");
  Expect(Of(authority("2036-01-01T00:00:00Z", "2027-01-16T08:00:00Z", {{"a", "renewed"}}),
            "change of authority"),
         Verdict::kOk, "all hosts trust");
  Expect(Of(Judge([](F f) { f.authority = absl::FailedPreconditionError("it has none"); }),
            "authority"),
         Verdict::kSkipped, "it has none.");
}

http::Response Dated(const std::string& date) {
  http::Response response;
  response.headers.emplace_back("Date", date);
  return response;
}

TEST(DoctorClockTest, AnOffsetIsKnownToWithinTheExchange) {
  // Sent at 08:00:00, back at 08:00:02, of which the answer says 08:00:01.
  const auto offset =
      OffsetFrom(Dated("Fri, 15 Jan 2027 08:00:01 GMT"), kNow, kNow + absl::Seconds(2));
  ASSERT_TRUE(offset.has_value());
  EXPECT_EQ(offset->least, absl::Seconds(-1));
  EXPECT_EQ(offset->most, absl::Seconds(2));
  EXPECT_FALSE(OffsetFrom({}, kNow, kNow).has_value());
  EXPECT_FALSE(OffsetFrom(Dated("yesterday"), kNow, kNow).has_value());
}

TEST(DoctorClockTest, FiveMinutesApartIsTooMuchEitherWay) {
  const auto judge = [](absl::Duration least, absl::Duration most) {
    return JudgeClockOffset(ClockOffset{least, most});
  };
  const absl::Duration second = absl::Seconds(1);
  Expect(judge(-second, second), Verdict::kOk, "No difference");
  Expect(judge(2 * second, 4 * second), Verdict::kOk, "It is 2 s or more ahead of");
  Expect(judge(-60 * second, -59 * second), Verdict::kWarning, "59 s or more behind", "chrony");
  Expect(judge(299 * second, 301 * second), Verdict::kWarning, "299 s or more ahead", "chrony");
  Expect(judge(300 * second, 302 * second), Verdict::kProblem, "300 s or more ahead", "chrony");
  Expect(judge(-302 * second, -300 * second), Verdict::kProblem, "300 s or more behind", "chrony");
  Expect(judge(-3600 * second, 3600 * second), Verdict::kOk, "to within 3.6e+03 s");
  Expect(JudgeClockOffset(std::nullopt), Verdict::kSkipped, "do not say");
}

TEST(DoctorClusterTest, OfACoordinatorThatMakesPodsTheLauncherIsJudgedAndHostsNeedNotBeThere) {
  const auto with = [](HostList list) {
    return Judge([&](ClusterFacts& f) { f.hosts = std::move(list); });
  };
  const auto is_there = [](const Findings& findings, const std::string& check) {
    return std::any_of(findings.begin(), findings.end(),
                       [&](const Finding& finding) { return finding.check == check; });
  };
  const Findings idle = with({.launch_namespace = "ml"});
  Expect(Of(idle, "pods"), Verdict::kOk, "makes pods for each job in namespace ml of Kubernetes");
  EXPECT_FALSE(is_there(idle, "hosts"));
  const Findings busy = with({.hosts = {Up("a")}, .launch_namespace = "ml"});
  Expect(Of(busy, "pods"), Verdict::kOk, "namespace ml");
  Expect(Of(busy, "hosts"), Verdict::kOk, "1 host with 4 slots");
  const Findings refused =
      with({.launch_namespace = "ml", .launch_trouble = "403: pods is forbidden"});
  Expect(Of(refused, "pods"), Verdict::kProblem, "cannot: 403: pods is forbidden.", "kubectl auth");
  EXPECT_FALSE(is_there(refused, "hosts"));
  EXPECT_FALSE(is_there(with({.hosts = {Up("a")}}), "pods"));
}

TEST(DoctorClusterTest, WhetherPodsAreMadeIsReadFromTheListOfHosts) {
  const absl::StatusOr<HostList> list = ParseHostList(
      R"({"hosts":[],"next_page_token":"","launch_namespace":"ml","launch_trouble":"away"})");
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_EQ(list->launch_namespace, "ml");
  EXPECT_EQ(list->launch_trouble, "away");
  const absl::StatusOr<HostList> none = ParseHostList(
      R"({"hosts":[],"next_page_token":"","launch_namespace":null,"launch_trouble":null})");
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_EQ(none->launch_namespace + none->launch_trouble, "");
}

TEST(DoctorClusterTest, TheCoordinatorIsAskedNoMoreThanItAnswers) {
  std::vector<std::string> asked;
  std::map<std::string, http::Response> answers = {
      {"/healthz", Dated("Fri, 15 Jan 2027 09:00:00 GMT")},
      {"/readyz", {}},
      {"/v1/jobs?state=queued",
       {.body = R"({"jobs":[{"id":"j","state":"queued","waits_for":"a slot"}]})"}},
      {"/v1/jobs?state=running", {.body = R"({"jobs":[{"id":"k","state":"running"}]})"}},
      {"/metrics", {.body = "# HELP\nmuster_build_info{role=\"coordinator\",version=\"9.8\"} 1\n"}},
      {"/v1/hosts", http::ErrorResponse(absl::PermissionDeniedError("role viewer"))},
  };
  const Ask ask = [&](const std::string& target) -> absl::StatusOr<http::Response> {
    asked.push_back(target);
    if (answers.contains(target)) return answers[target];
    return http::ErrorResponse(absl::NotFoundError("no such path"));
  };
  const auto now = [] { return kNow; };
  const ClusterFacts facts = GatherCluster({.url = "https://c"}, ask, now);
  EXPECT_TRUE(facts.reached.ok() && facts.ready.ok());
  EXPECT_EQ(facts.offset->least, absl::Hours(1));
  EXPECT_EQ(facts.version.value_or(""), "9.8");
  EXPECT_EQ(facts.under_way, 1);
  EXPECT_EQ(facts.queued->at(0).waits_for, "a slot");
  EXPECT_TRUE(absl::IsPermissionDenied(facts.hosts.status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(facts.authority.status()));
  // Each wrong token counts against this address, so it is shown once.
  answers["/v1/jobs?state=queued"] = http::ErrorResponse(absl::UnauthenticatedError("who?"));
  asked.clear();
  GatherCluster({.url = "https://c"}, ask, now);
  EXPECT_THAT(asked, ::testing::ElementsAre("/healthz", "/readyz", "/v1/jobs?state=queued"));
  asked.clear();
  GatherCluster({.url = "https://c", .may_ask = absl::InternalError("no")}, ask, now);
  EXPECT_THAT(asked, SizeIs(0));
}

// An authority's folder, made a while before now.
class DoctorIdentityTest : public ::testing::Test {
 protected:
  IdentityFacts Made(absl::Time at, bool is_at_rest) {
    std::filesystem::remove_all(folder_);
    EXPECT_TRUE(MakeUnusedAuthority(folder_, "c1", at).ok());
    return GatherIdentity(folder_, is_at_rest);
  }
  // Of a host: without the authority's key.
  IdentityFacts OfHost(absl::Time at) {
    IdentityFacts facts = Made(at, /*is_at_rest=*/false);
    facts.authority = absl::NotFoundError("");
    return facts;
  }
  Finding Certificate(const IdentityFacts& facts) {
    return Of(JudgeIdentity("certificate", facts, kNow), "certificate");
  }
  const CgroupTree tree_;
  const std::string folder_ = tree_.root() + "/identity";
};

TEST_F(DoctorIdentityTest, WhenACertificateEndsIsTold) {
  Expect(Certificate(Made(kNow, false)), Verdict::kOk, "spiffe://c1/coordinator is valid until");
  Expect(Certificate(OfHost(kNow - absl::Hours(19))), Verdict::kWarning, "should have been renewed",
         "logs");
  Expect(Certificate(OfHost(kNow - absl::Hours(25))), Verdict::kProblem, "ended at",
         "--join-token-file");
  Expect(Certificate(OfHost(kNow + absl::Hours(2))), Verdict::kProblem, "not valid before",
         "clock");
  Expect(Certificate(Made(kNow - absl::Hours(25), /*is_at_rest=*/true)), Verdict::kOk,
         "The next start makes another one");
  Expect(Certificate(Made(kNow - absl::Hours(25), /*is_at_rest=*/false)), Verdict::kProblem,
         "ended", "start");
}

TEST_F(DoctorIdentityTest, WhenTheAuthorityEndsIsTold) {
  const auto authority = [&](absl::Time made) {
    return Of(JudgeIdentity("certificate", Made(made, true), kNow), "authority");
  };
  Expect(authority(kNow), Verdict::kOk, "is valid until");
  Expect(authority(kNow - absl::Hours(24 * 3600)), Verdict::kWarning, "is valid until",
         "muster certs change");
  Expect(authority(kNow - absl::Hours(24 * 3653)), Verdict::kProblem, "ended",
         "muster certs change");
}

TEST_F(DoctorIdentityTest, WhatOthersMayReadIsNamed) {
  Made(kNow, false);
  Expect(Certificate(GatherIdentity(folder_ + "/none", false)), Verdict::kSkipped, "none in");
  const auto secrets = [&] {
    return Of(JudgeIdentity("certificate", GatherIdentity(folder_, false), kNow), "secrets");
  };
  const std::string token = folder_ + "/admin.token";
  std::ofstream(token) << "muster-admin-1\n";
  std::filesystem::permissions(token, std::filesystem::perms(0600));
  EXPECT_EQ(secrets().check, "");
  std::filesystem::permissions(token, std::filesystem::perms(0644));
  Expect(secrets(), Verdict::kProblem, "admin.token' may be read or written by others", "chmod");
  std::filesystem::permissions(folder_ + "/current/key.pem", std::filesystem::perms(0644));
  Expect(Certificate(GatherIdentity(folder_, false)), Verdict::kProblem, "key.pem", "nobody uses");
}

TEST(DoctorChecksTest, OneThatHangsKeepsNoOtherFromItsAnswer) {
  auto release = std::make_shared<std::promise<void>>();
  std::shared_future<void> released = release->get_future().share();
  const Checked checked =
      RunChecks({{"a", "disk", "mount it anew",
                  [released] {
                    released.wait();
                    return Findings{};
                  }},
                 {"b", "name", "", [] { return Findings{Ok("name", "It is so.")}; }},
                 {"a", "limits", "", [] { return Findings{Ok("limits", "Yes.")}; }}},
                {{"a", "A", {}}, {"b", "B", {}}}, std::chrono::seconds(1));
  release->set_value();
  EXPECT_FALSE(checked.all_ended);
  ASSERT_THAT(checked.sections, SizeIs(2));
  ASSERT_THAT(checked.sections[0].findings, SizeIs(2));
  Expect(checked.sections[0].findings[0], Verdict::kProblem, "within 1 s", "mount it anew");
  EXPECT_EQ(checked.sections[0].findings[1].check, "limits");
  EXPECT_EQ(checked.sections[1].findings.at(0).text, "It is so.");
}

TEST(DoctorReportTest, PeopleAndProgramsReadTheSame) {
  const std::vector<Section> sections = {
      {"host",
       "This host, a\x1b[31m",
       {Ok("cores", "There are 2."), Problem("GPUs", "Bad.", "mend it")}},
      {"cluster",
       "The cluster",
       {Skipped("coordinator", "None."), Warning("jobs", "Hm.", "wait")}}};
  const std::string text = TextOf(sections, /*colour=*/false);
  EXPECT_THAT(text, AllOf(HasSubstr("  ok       cores: There are 2.\n"),
                          HasSubstr("  problem  GPUs: Bad.\n           -> mend it\n"),
                          HasSubstr("\n1 problem, 1 warning\n"), Not(HasSubstr("\x1b"))));
  EXPECT_THAT(TextOf(sections, /*colour=*/true), HasSubstr("  \x1b[31mproblem\x1b[0m  GPUs"));
  const auto json = nlohmann::json::parse(JsonOf(sections));
  EXPECT_EQ(json["ok"], false);
  EXPECT_EQ(json["problems"], 1);
  EXPECT_EQ(json["findings"].size(), 4u);
  EXPECT_EQ(json["findings"][1],
            nlohmann::json::parse(R"({"section": "host", "check": "GPUs", "verdict": "problem",
                                      "text": "Bad.", "advice": "mend it"})"));
}

}  // namespace
}  // namespace muster::cli::doctor
