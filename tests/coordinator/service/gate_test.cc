#include "coordinator/service/gate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "coordinator/service/host_api.h"
#include "coordinator/service/job_questions.h"
#include "coordinator/service/token_text.h"
#include "lib/base/whole_file.h"
#include "nlohmann/json.hpp"
#include "tests/support/hand_clock.h"

namespace muster::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const MethodRights& Row(const char* verb, const char* pattern) {
  return *RightsOfRoute(verb, pattern);
}

// Two jobs of the default namespace, j of ada and k of bob.
class GateTest : public ::testing::Test {
 protected:
  GateTest() {
    auto jobs = std::make_shared<KnownJobs>();
    for (const auto& [id, owner] : {std::pair("j", "ada"), std::pair("k", "bob")}) {
      KnownJob known;
      known.status.job.id = id;
      known.status.job.owner = owner;
      known.status.job.submission = static_cast<int64_t>(jobs->size()) + 1;
      jobs->push_back(std::make_shared<const KnownJob>(std::move(known)));
    }
    known_.jobs = jobs;
  }
  // A token of that role, as a header has it.
  std::string Bearer(const std::string& user, UserRole role, const std::string& scope,
                     int64_t expires_unix_ms = 0) {
    const std::string text = MakeTokenText(user);
    auto tokens = std::make_shared<std::vector<Token>>(*known_.tokens);
    tokens->push_back({HashOfToken(text), {user, role, scope}, 1, expires_unix_ms});
    known_.tokens = tokens;
    return "Bearer " + text;
  }
  absl::StatusCode Enter(const std::string& bearer, const char* verb, const char* pattern,
                         const std::string& object = "", const std::string& address = "::1") {
    return gate_.Enter(Row(verb, pattern), {bearer, address, pattern}, object).status().code();
  }
  std::vector<nlohmann::json> Audited() const {
    std::vector<nlohmann::json> lines;
    for (const auto line : absl::StrSplit(*ReadWholeFile(file_), '\n', absl::SkipEmpty()))
      lines.push_back(nlohmann::json::parse(std::string(line)));
    return lines;
  }

  const std::string dir_ = [] {
    const std::string dir = ::testing::TempDir() + "/gate_test-" +
                            ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(dir);
    std::filesystem::create_directories(dir);
    return dir;
  }();
  const std::string file_ = dir_ + "/audit.jsonl";
  KnownCluster known_;
  HandClock clock_;
  const std::unique_ptr<AuditLog> audit_ = AuditLog::Open(file_).value();
  Gate gate_{[this] { return known_; }, *audit_, clock_};
};

TEST_F(GateTest, WhoeverHasNoTokenComesInOnlyWhereNobodyIsAsked) {
  EXPECT_EQ(Enter("", "GET", "/healthz"), absl::StatusCode::kOk);
  for (const MethodRights& row : kMethods) {
    if (row.need == Need::kNothing) continue;
    EXPECT_EQ(gate_.Look(row, {"", "::1", ""}).status().code(), absl::StatusCode::kUnauthenticated)
        << row.verb << " " << row.pattern;
  }
  EXPECT_THAT(Audited(), IsEmpty()) << "strangers do not fill it";
}

TEST_F(GateTest, EachRefusalHasATwinThatComesIn) {
  const std::string ada = Bearer("ada", UserRole::kSubmitter, "default");
  const std::string eve = Bearer("eve", UserRole::kViewer, "default");
  const std::string far = Bearer("far", UserRole::kOperator, "other");
  const std::string all = Bearer("all", UserRole::kAdmin, "*");
  constexpr char kStop[] = "/v1/jobs/{id}:stop";
  EXPECT_EQ(Enter(ada, "POST", kStop, "j"), absl::StatusCode::kOk);
  EXPECT_EQ(Enter(ada, "POST", kStop, "k"), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(Enter(eve, "POST", kStop, "j"), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(Enter(eve, "GET", "/v1/jobs/{id}", "j"), absl::StatusCode::kOk);
  EXPECT_EQ(Enter(far, "GET", "/v1/jobs/{id}", "j"), absl::StatusCode::kNotFound);
  EXPECT_EQ(Enter(far, "POST", kStop, "j"), absl::StatusCode::kNotFound);
  EXPECT_EQ(Enter(far, "GET", "/v1/hosts"), absl::StatusCode::kOk);
  EXPECT_EQ(Enter(eve, "GET", "/v1/hosts"), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(Enter(far, "POST", "/v1/hosts/{name}:drain", "h"), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(Enter(all, "POST", "/v1/hosts/{name}:drain", "h"), absl::StatusCode::kOk);
  EXPECT_EQ(Enter(all, "POST", kStop, "k"), absl::StatusCode::kOk);
}

// What whoever calls is answered where job j of ada, or its namespace default, is meant: 0 it is
// carried out, 1 who are you, 2 you may not, 3 there is no such job.
struct Cells {
  Need need;
  bool is_of_job;
  int nobody, wrong, viewer, other, owner, far, operates, admin;
};
constexpr Cells kCells[] = {
    {Need::kNothing, false, 0, 0, 0, 0, 0, 0, 0, 0},
    {Need::kSeeJobs, true, 1, 1, 0, 0, 0, 3, 0, 0},
    {Need::kSeeJobs, false, 1, 1, 0, 0, 0, 0, 0, 0},
    {Need::kSeeNamespace, false, 1, 1, 0, 0, 0, 2, 0, 0},
    {Need::kSubmit, false, 1, 1, 2, 0, 0, 0, 0, 0},
    {Need::kChangeJob, true, 1, 1, 2, 2, 0, 3, 0, 0},
    {Need::kSeeHosts, false, 1, 1, 2, 2, 2, 0, 0, 0},
    {Need::kRule, false, 1, 1, 2, 2, 2, 2, 2, 0},
};

TEST_F(GateTest, EachMethodIsAnsweredAsItsCellsSay) {
  constexpr absl::StatusCode kCodes[] = {absl::StatusCode::kOk, absl::StatusCode::kUnauthenticated,
                                         absl::StatusCode::kPermissionDenied,
                                         absl::StatusCode::kNotFound};
  const std::pair<std::string, int Cells::*> identities[] = {
      {"", &Cells::nobody},
      {"Bearer " + MakeTokenText("ada"), &Cells::wrong},
      {Bearer("eve", UserRole::kViewer, "default"), &Cells::viewer},
      {Bearer("bob", UserRole::kSubmitter, "default"), &Cells::other},
      {Bearer("ada", UserRole::kSubmitter, "default"), &Cells::owner},
      {Bearer("far", UserRole::kOperator, "other"), &Cells::far},
      {Bearer("oda", UserRole::kOperator, "default"), &Cells::operates},
      {Bearer("all", UserRole::kAdmin, "*"), &Cells::admin}};
  for (const MethodRights& row : kMethods) {
    const bool is_of_job = row.pattern.find("/jobs/{id}") != std::string_view::npos;
    const auto cells = std::find_if(std::begin(kCells), std::end(kCells), [&](const Cells& c) {
      return c.need == row.need && c.is_of_job == is_of_job;
    });
    ASSERT_NE(cells, std::end(kCells)) << row.verb << " " << row.pattern;
    for (const auto& [bearer, cell] : identities) {
      clock_.Advance(std::chrono::minutes(1));
      const CallOrigin origin{bearer, "::1", std::string(row.pattern)};
      EXPECT_EQ(gate_.Enter(row, origin, is_of_job ? "j" : "default").status().code(),
                kCodes[(*cells).*cell])
          << row.verb << " " << row.pattern << " by " << (cell == &Cells::wrong ? "wrong" : bearer);
    }
  }
}

TEST_F(GateTest, AJobThatIsNotSeenIsToldAsOneThatIsNotThere) {
  const std::string far = Bearer("far", UserRole::kOperator, "other");
  const CallOrigin origin{far, "::1", ""};
  const auto hidden = gate_.Enter(Row("GET", "/v1/jobs/{id}"), origin, "j");
  EXPECT_EQ(hidden.status(), NoSuchJob("j"));
}

TEST_F(GateTest, ATokenThatIsTakenAwayIsOfNoUse) {
  const std::string ada = Bearer("ada", UserRole::kViewer, "*");
  EXPECT_EQ(Enter(ada, "GET", "/v1/jobs"), absl::StatusCode::kOk);
  known_.tokens = std::make_shared<const std::vector<Token>>();
  EXPECT_EQ(Enter(ada, "GET", "/v1/jobs"), absl::StatusCode::kUnauthenticated);
}

TEST_F(GateTest, WhoseTokenHasExpiredIsToldSoAndStaysOut) {
  constexpr int64_t kLongGone = 1'000, kFarOff = int64_t{1} << 50;
  const std::string was = Bearer("ada", UserRole::kViewer, "default", kLongGone);
  const std::string is = Bearer("ada", UserRole::kViewer, "default", kFarOff);
  const MethodRights& row = Row("GET", "/v1/jobs");
  EXPECT_TRUE(gate_.Look(row, {is, "::1", ""}).ok());
  for (int i = 0; i <= kMostWrongTokens; ++i)
    EXPECT_THAT(gate_.Look(row, {was, "::1", ""}).status().ToString(),
                AllOf(HasSubstr("UNAUTHENTICATED"),
                      HasSubstr("of ada expired at 1970-01-01T00:00:01.000Z")));
  EXPECT_TRUE(gate_.StaysIn({is, "::1", ""})());
  EXPECT_FALSE(gate_.StaysIn({was, "::1", ""})());
  for (const auto& [token, code] :
       {std::pair(was, absl::StatusCode::kUnauthenticated), std::pair(is, absl::StatusCode::kOk)}) {
    CallOrigin origin{"", "::1", ""};
    origin.certificate = {{"c1", UserPeer{"ada"}}, TokenIdIn({token, "::1", ""})};
    EXPECT_EQ(gate_.Look(row, origin).status().code(), code) << "with a certificate made with it";
    EXPECT_EQ(gate_.StaysIn(origin)(), code == absl::StatusCode::kOk);
  }
}

TEST_F(GateTest, ACallThatLastsStaysInUntilItsTokenIsTakenAway) {
  const std::string ada = Bearer("ada", UserRole::kViewer, "*");
  const auto stays_in = gate_.StaysIn({ada, "::1", ""});
  Bearer("bob", UserRole::kViewer, "*");
  EXPECT_TRUE(stays_in()) << "other tokens come";
  auto without = std::make_shared<std::vector<Token>>(*known_.tokens);
  without->erase(without->begin());
  known_.tokens = without;
  EXPECT_FALSE(stays_in());
}

// Each refusal has a twin that comes in.
TEST_F(GateTest, ACertificateIsOfUseWithTheTokenThatItWasMadeWith) {
  const std::string ada = Bearer("ada", UserRole::kSubmitter, "default");
  const std::string all = Bearer("ada", UserRole::kAdmin, "*");
  const std::string bob = Bearer("bob", UserRole::kSubmitter, "default");
  const auto id_of = [](const std::string& bearer) { return TokenIdIn({bearer, "::1", ""}); };
  const PeerName user{"c1", UserPeer{"ada"}}, host{"c1", HostPeer{"ada"}};
  struct Case {
    const char* what;
    ShownCertificate shown;
    std::string bearer;
    absl::StatusCode code;
    UserRole role = UserRole::kSubmitter;
  };
  const Case cases[] = {
      {"made with ada's token", {user, id_of(ada)}, "", absl::StatusCode::kOk},
      {"made with another one of hers",
       {user, id_of(all)},
       "",
       absl::StatusCode::kOk,
       UserRole::kAdmin},
      {"made with bob's", {user, id_of(bob)}, "", absl::StatusCode::kUnauthenticated},
      {"made with one that is gone",
       {user, "0123456789ab"},
       "",
       absl::StatusCode::kUnauthenticated},
      {"of an authority from outside", {user, ""}, "", absl::StatusCode::kUnauthenticated},
      {"the same, with a token", {user, ""}, ada, absl::StatusCode::kOk},
      {"the same, with bob's", {user, ""}, bob, absl::StatusCode::kPermissionDenied},
      {"the same, with a wrong one",
       {user, ""},
       "Bearer " + MakeTokenText("ada"),
       absl::StatusCode::kUnauthenticated},
      {"a host's, with a token", {host, ""}, ada, absl::StatusCode::kPermissionDenied},
  };
  for (const Case& one : cases) {
    const CallOrigin origin{one.bearer, "::1", "muster.v1.Jobs.Stop", one.shown};
    const auto caller = gate_.Enter(*RightsOfMethod("muster.v1.Jobs.Stop"), origin, "j");
    EXPECT_EQ(caller.status().code(), one.code) << one.what << ": " << caller.status();
    if (!caller.ok()) continue;
    EXPECT_EQ(caller->role, one.role) << one.what;
    EXPECT_EQ(Audited().back()["user"], "ada") << one.what;
  }
}

TEST_F(GateTest, ACallThatLastsEndsWithTheTokenOfItsCertificate) {
  const std::string ada = Bearer("ada", UserRole::kViewer, "*");
  const CallOrigin origin{"", "::1", "",
                          ShownCertificate{{"c1", UserPeer{"ada"}}, TokenIdIn({ada, "::1", ""})}};
  const auto stays_in = gate_.StaysIn(origin);
  EXPECT_TRUE(stays_in());
  known_.tokens = std::make_shared<const std::vector<Token>>();
  EXPECT_FALSE(stays_in());
}

TEST_F(GateTest, ManyWrongTokensOfAnAddressWaitAndARightOneDoesNot) {
  const std::string ada = Bearer("ada", UserRole::kViewer, "*");
  const std::string wrong = "Bearer " + MakeTokenText("ada");
  for (int i = 0; i < kMostWrongTokens; ++i)
    EXPECT_EQ(Enter(wrong, "GET", "/v1/jobs"), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(Enter(wrong, "GET", "/v1/jobs"), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Enter("Basic x", "GET", "/v1/jobs"), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Enter(ada, "GET", "/v1/jobs"), absl::StatusCode::kOk);
  EXPECT_EQ(Enter(wrong, "GET", "/v1/jobs", "", "::2"), absl::StatusCode::kUnauthenticated);
  clock_.Advance(std::chrono::minutes(1));
  EXPECT_EQ(Enter(wrong, "GET", "/v1/jobs"), absl::StatusCode::kUnauthenticated);
}

TEST_F(GateTest, WhatChangesSomethingIsWrittenDownFirstAlsoWhereItIsRefused) {
  const std::string ada = Bearer("ada", UserRole::kSubmitter, "default");
  Enter(ada, "POST", "/v1/jobs/{id}:stop", "j");
  Enter(ada, "POST", "/v1/jobs/{id}:stop", "k");
  Enter(ada, "GET", "/v1/jobs/{id}", "j");
  const std::vector<nlohmann::json> lines = Audited();
  ASSERT_EQ(lines.size(), 2u) << "looking is not written down";
  EXPECT_EQ(lines[0]["user"], "ada");
  EXPECT_EQ(lines[0]["role"], "submitter");
  EXPECT_EQ(lines[0]["address"], "::1");
  EXPECT_EQ(lines[0]["object"], "j");
  EXPECT_EQ(lines[0]["outcome"], "allowed");
  EXPECT_EQ(lines[1]["outcome"], "refused");
  EXPECT_THAT(*ReadWholeFile(file_), Not(HasSubstr(ada.substr(7))));
}

// Else a viewer could push out of the log what others did.
TEST_F(GateTest, ManyRefusedChangesOfAUserAreOneLineAMinute) {
  const std::string eve = Bearer("eve", UserRole::kViewer, "default");
  const std::string ada = Bearer("ada", UserRole::kSubmitter, "default");
  constexpr char kStop[] = "/v1/jobs/{id}:stop";
  for (int64_t i = 0; i < kMostRefusedLines + 7; ++i)
    EXPECT_EQ(Enter(eve, "POST", kStop, "j"), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(Audited().size(), size_t{kMostRefusedLines}) << "refused changes fill the log";
  EXPECT_EQ(Enter(ada, "POST", kStop, "k"), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(Audited().back()["user"], "ada") << "each user has lines of its own";
  clock_.Advance(std::chrono::minutes(1));
  EXPECT_EQ(Enter(ada, "POST", kStop, "j"), absl::StatusCode::kOk);
  const std::vector<nlohmann::json> lines = Audited();
  ASSERT_EQ(lines.size(), size_t{kMostRefusedLines} + 3);
  const nlohmann::json& count = lines[lines.size() - 2];
  EXPECT_EQ(count["user"], "eve");
  EXPECT_EQ(count["outcome"], "refused");
  EXPECT_EQ(count["more"], 7);
  EXPECT_EQ(Enter(eve, "POST", kStop, "j"), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(Audited().size(), lines.size() + 1) << "another minute, other lines";
}

TEST_F(GateTest, ASubmissionIsOfItsOwner) {
  const CallOrigin ada{Bearer("ada", UserRole::kSubmitter, "default"), "::1", "POST /v1/jobs"};
  EXPECT_TRUE(gate_.EnterToSubmit(ada, "new", JobSpec()).ok());
  EXPECT_TRUE(gate_.EnterToSubmit(ada, "j", JobSpec()).ok());
  EXPECT_EQ(gate_.EnterToSubmit(ada, "k", JobSpec()).status().code(),
            absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(Audited().size(), 3u);
  const CallOrigin far{Bearer("far", UserRole::kSubmitter, "other"), "::1", "POST /v1/jobs"};
  JobSpec spec;
  spec.queue.name_space = "other";
  EXPECT_EQ(gate_.EnterToSubmit(far, "j", spec).status(),
            absl::AlreadyExistsError("the id j is not free; submit this job under another id"));
}

TEST_F(GateTest, ListsHaveOnlyJobsOfTheNamespace) {
  EXPECT_EQ(PageOf(*known_.jobs, {.scope = "default"})->jobs.size(), 2u);
  EXPECT_EQ(PageOf(*known_.jobs, {.scope = "*"})->jobs.size(), 2u);
  EXPECT_THAT(PageOf(*known_.jobs, {.scope = "other"})->jobs, IsEmpty());
}

TEST_F(GateTest, OfAHostThePlacesOfOthersAreOnlyCounted) {
  KnownJob job;
  job.status.job.id = "j";
  job.status.job.phase = JobPhase::kRunning;
  job.status.job.placements["worker-0"] = {.host = "a", .number = PlacementNumber(7)};
  job.status.job.left_out = {"a"};
  KnownCluster known;
  known.jobs = std::make_shared<const KnownJobs>(
      KnownJobs{std::make_shared<const KnownJob>(std::move(job))});
  known.hosts = std::make_shared<const KnownHosts>(
      KnownHosts{{.name = "a", .slots = 4, .left_out = "members of jobs j and k"}});
  const HostInfo seen = *HostOf(known, "a", Time(), "default");
  EXPECT_EQ(seen.members.size(), 1u);
  EXPECT_THAT(seen.left_out_by, ElementsAre("j"));
  const HostInfo other = *HostOf(known, "a", Time(), "other");
  EXPECT_THAT(other.members, IsEmpty());
  EXPECT_THAT(other.left_out_by, IsEmpty());
  EXPECT_THAT(other.left_out, Not(IsEmpty()));
  EXPECT_THAT(other.left_out, Not(HasSubstr("jobs j")));
  EXPECT_THAT(HostOf(known, "a", Time(), "*")->left_out, HasSubstr("jobs j"));
  EXPECT_EQ(other.used, 1);
  EXPECT_EQ(other.free, 3);
}

TEST_F(GateTest, TheAuditLogIsOfItsOwnerAndBounded) {
  struct stat found {};
  ASSERT_EQ(stat(file_.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0600u);
  const auto log = *AuditLog::Open(dir_ + "/small", /*most_bytes=*/20);
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(log->Write("0123456789\n").ok());
  EXPECT_EQ(*ReadWholeFile(dir_ + "/small"), "0123456789\n");
  EXPECT_EQ(*ReadWholeFile(dir_ + "/small.1"), "0123456789\n");
}

// No file can be opened for a moment, just when the log begins another one.
TEST_F(GateTest, AnAuditLogThatCouldNotBeginAFileGoesOnWhenItCan) {
  const std::string path = dir_ + "/small";
  const auto log = *AuditLog::Open(path, /*most_bytes=*/20);
  const auto write_without_files = [&] {
    rlimit before{};
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
    const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
    const absl::Status written = log->Write("refused...\n");
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
    return written;
  };
  ASSERT_TRUE(log->Write("0123456789\n").ok());
  EXPECT_FALSE(write_without_files().ok());
  EXPECT_FALSE(write_without_files().ok());
  const absl::Status written = log->Write("abcdefghij\n");
  EXPECT_TRUE(written.ok()) << "the log stays shut: " << written;
  EXPECT_EQ(*ReadWholeFile(path + ".1"), "0123456789\n");
  EXPECT_FALSE(write_without_files().ok());
  ASSERT_TRUE(ReplaceFile(path, "").ok()) << "as of one that was made and could not be protected";
  EXPECT_TRUE(log->Write("ABCDEFGHIJ\n").ok());
  EXPECT_EQ(*ReadWholeFile(path), "ABCDEFGHIJ\n");
  EXPECT_EQ(*ReadWholeFile(path + ".1"), "abcdefghij\n") << "the older half is kept";
}

TEST_F(GateTest, AnAuditLogThatWasMovedAwayBeginsAnother) {
  const std::string path = dir_ + "/moved";
  const auto log = *AuditLog::Open(path, /*most_bytes=*/20);
  ASSERT_TRUE(log->Write("0123456789\n").ok());
  std::filesystem::rename(path, path + ".old");
  ASSERT_TRUE(log->Write("abcdefghij\n").ok());
  EXPECT_EQ(*ReadWholeFile(path + ".old"), "0123456789\n");
  EXPECT_EQ(*ReadWholeFile(path), "abcdefghij\n");
  std::filesystem::remove(path);
  ASSERT_TRUE(log->Write("ABCDEFGHIJ\n").ok()) << "there is nothing that could be rotated";
  EXPECT_EQ(*ReadWholeFile(path), "ABCDEFGHIJ\n");
}

TEST_F(GateTest, ALineOfTheAuditLogThatWasTornIsNotGoneOnWith) {
  const std::string path = dir_ + "/torn";
  ASSERT_TRUE(ReplaceFile(path, "whole\nha").ok());
  ASSERT_TRUE((*AuditLog::Open(path))->Write("next\n").ok());
  EXPECT_EQ(*ReadWholeFile(path), "whole\nha\nnext\n");
}

TEST_F(GateTest, AnAuditLineIsOneLineWhateverTheCallerSaid) {
  const std::string line =
      AuditLine({.user = "ada", .object = "a\nb\"\x1b[2J" + std::string(9999, 'x')});
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  EXPECT_LT(line.size(), 4000u);
  EXPECT_TRUE(nlohmann::json::accept(line));
}

// A folder in the place of the file's older half keeps it from being put there.
TEST_F(GateTest, NothingIsChangedThatCannotBeWrittenDown) {
  const std::string path = dir_ + "/stuck";
  const auto log = *AuditLog::Open(path, /*most_bytes=*/1);
  ASSERT_TRUE(log->Write("first\n").ok());
  std::filesystem::create_directories(path + ".1/x");
  Gate gate([this] { return known_; }, *log, clock_);
  const CallOrigin ada{Bearer("ada", UserRole::kSubmitter, "default"), "::1", ""};
  EXPECT_EQ(gate.Enter(Row("POST", "/v1/jobs/{id}:stop"), ada, "j").status().code(),
            absl::StatusCode::kUnavailable);
  EXPECT_TRUE(gate.Enter(Row("GET", "/v1/jobs/{id}"), ada, "j").ok());
}

}  // namespace
}  // namespace muster::coordinator
