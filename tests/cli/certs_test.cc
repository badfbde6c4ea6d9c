// `muster certs`, and the words about hosts that join.
#include "cli/certs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/time/clock.h"
#include "lib/identity/identity_folder.h"
#include "nlohmann/json.hpp"

namespace muster::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);

Parsed Parse(std::vector<const char*> words) {
  words.insert(words.begin(), "muster");
  return ParseArguments(static_cast<int>(words.size()), words.data());
}

TEST(Certs, AnAuthorityIsMadeOnceAndShown) {
  const std::string dir = ::testing::TempDir() + "certs-" + std::to_string(getpid());
  std::filesystem::remove_all(dir);
  std::ostringstream out;
  const CertsArguments init{.command = CertsArguments::Command::kInit, .dir = dir, .cluster = "c1"};
  ASSERT_TRUE(Certs(init, kNow, out).ok());
  EXPECT_THAT(out.str(), HasSubstr("--authority --dir " + dir));
  EXPECT_EQ(ReadAuthority(dir + "/identity").status(), absl::OkStatus());
  EXPECT_TRUE(std::filesystem::exists(UnusedMarkOf(dir + "/identity")));
  const auto again = Certs(init, kNow, out);
  EXPECT_EQ(again.status().code(), absl::StatusCode::kFailedPrecondition);
  out.str("");
  ASSERT_TRUE(Certs({.folder = dir + "/identity"}, kNow, out).ok());
  EXPECT_THAT(out.str(),
              AllOf(HasSubstr("spiffe://c1/coordinator"), HasSubstr("until 2027-01-16T08:00:00Z"),
                    HasSubstr("with the authority's key")));
  out.str("");
  ASSERT_TRUE(Certs({.folder = dir + "/identity", .json = true}, kNow + absl::Hours(25), out).ok());
  EXPECT_THAT(out.str(), HasSubstr("\"of_use\":false")) << "it has expired";
  out.str("");
  ASSERT_TRUE(Certs({.folder = dir + "/identity", .pem = true}, kNow, out).ok());
  EXPECT_EQ(out.str(), ReadIdentity(dir + "/identity")->authority_pem);
  EXPECT_FALSE(Certs({.folder = dir}, kNow, out).ok());
  std::filesystem::remove_all(dir);
}

// All commands with that --dir would take it for the authority of the cluster.
TEST(Certs, NoSecondAuthorityIsMadeInTheFolderOfACluster) {
  const std::string dir = ::testing::TempDir() + "certs-of-up-" + std::to_string(getpid());
  for (const char* holds : {"/journal", "/store/journal", "/store/identity"}) {
    std::filesystem::remove_all(dir);
    std::filesystem::create_directories(dir + holds);
    std::ostringstream out;
    const auto made =
        Certs({.command = CertsArguments::Command::kInit, .dir = dir, .cluster = "c1"}, kNow, out);
    EXPECT_EQ(made.status().code(), absl::StatusCode::kFailedPrecondition) << holds;
    EXPECT_THAT(std::string(made.status().message()), HasSubstr(dir + holds + " is there already"));
    EXPECT_FALSE(std::filesystem::exists(dir + "/identity")) << holds;
  }
  std::filesystem::remove_all(dir);
}

TEST(Certs, WordsOfHostsThatJoin) {
  const Parsed agent = Parse({"agent", "--coordinator", "c:7070", "--identity", "i", "--join",
                              "c:7071", "--join-token-file", "t"});
  ASSERT_EQ(agent.exit_code, std::nullopt) << agent.text;
  EXPECT_EQ(std::get<AgentArguments>(agent.arguments).join, "c:7071");
  EXPECT_EQ(std::get<AgentArguments>(agent.arguments).join_token_file, "t");
  EXPECT_EQ(Parse({"agent", "--coordinator", "c:7070", "--join", "c:7071"}).exit_code, 64)
      << "nobody says where the certificate goes";
  const Parsed token = Parse({"token", "host", "node7", "--namespace", "vision"});
  ASSERT_EQ(token.exit_code, std::nullopt) << token.text;
  const auto& remote = std::get<RemoteArguments>(token.arguments);
  EXPECT_EQ(remote.command, RemoteArguments::Command::kHostToken);
  EXPECT_EQ(remote.host, "node7");
  EXPECT_EQ(remote.name_space, "vision");
  const Parsed show = Parse({"certs", "show", "i"});
  ASSERT_EQ(show.exit_code, std::nullopt) << show.text;
  EXPECT_EQ(std::get<CertsArguments>(show.arguments).folder, "i");
  EXPECT_EQ(Parse({"certs"}).exit_code, 64);
}

TEST(Certs, WordsOfUsers) {
  const Parsed own = Parse({"certs", "user", "--identity", "i", "--to", "https://c:7080"});
  ASSERT_EQ(own.exit_code, std::nullopt) << own.text;
  EXPECT_EQ(std::get<RemoteArguments>(own.arguments).command,
            RemoteArguments::Command::kCertifyUser);
  EXPECT_EQ(std::get<RemoteArguments>(own.arguments).identity, "i");
  const Parsed made = Parse(
      {"certs", "user", "ada", "--identity", "i", "--role", "submitter", "--namespace", "default"});
  ASSERT_EQ(made.exit_code, std::nullopt) << made.text;
  EXPECT_EQ(std::get<RemoteArguments>(made.arguments).user, "ada");
  EXPECT_EQ(Parse({"certs", "user"}).exit_code, 64) << "nobody says where it goes";
  EXPECT_EQ(
      Parse({"certs", "user", "--identity", "i", "--role", "viewer", "--namespace", "*"}).exit_code,
      64)
      << "nobody says whose token it is";
  EXPECT_EQ(Parse({"certs", "user", "ada", "--identity", "i", "--role", "viewer"}).exit_code, 64)
      << "nobody says where it is of use";
}

// A coordinator that signs what it is asked for, as the user who has the token.
class CertifyUserTest : public ::testing::Test {
 protected:
  CertifyUserTest() { std::filesystem::remove_all(folder_); }
  ~CertifyUserTest() override { std::filesystem::remove_all(folder_); }

  absl::StatusOr<http::Response> Answer(const std::string& target, const std::string& body) {
    const auto asked = nlohmann::json::parse(body);
    http::Response response{.status = 201};
    if (target == "/v1/tokens") {
      user_ = asked["user"];
      asked_for_role_ = asked["role"];
      response.body = R"({"id":"0123456789ab","user":"eve","token":"muster-eve-1"})";
      return response;
    }
    EXPECT_EQ(target, "/v1/certificates");
    std::string key;
    EXPECT_TRUE(absl::Base64Unescape(std::string(asked["public_key"]), &key));
    const Leaf leaf{.name = {"c1", UserPeer{user_}}, .public_key = key};
    response.body =
        nlohmann::json{
            {"certificate", SignLeaf(authority_, leaf, absl::Now()).value()},
            {"authority", authority_.certificates_pem},
            {"now", absl::FormatTime(absl::RFC3339_full, by_its_clock_, absl::UTCTimeZone())}}
            .dump();
    return response;
  }
  absl::StatusOr<int> Ask(RemoteArguments arguments) {
    if (arguments.identity.empty()) arguments.identity = folder_;
    out_.str("");
    return CertifyUser(arguments,
                       RestClient([this](const std::string&, const std::string& target,
                                         const std::string& body) { return Answer(target, body); }),
                       out_);
  }

  const std::string folder_ = ::testing::TempDir() + "user-" + std::to_string(getpid());
  const Authority authority_ = MakeAuthority("c1", absl::Now()).value();
  absl::Time by_its_clock_ = absl::Now();
  std::string user_ = "ada", asked_for_role_;
  std::ostringstream out_;
};

TEST_F(CertifyUserTest, PutsTheCertificateOfTheTokensUserIntoTheFolder) {
  ASSERT_EQ(Ask({}).value_or(-1), 0);
  EXPECT_EQ(ReadIdentity(folder_)->name, (PeerName{"c1", UserPeer{"ada"}}));
  EXPECT_THAT(out_.str(), HasSubstr("spiffe://c1/user/ada"));
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/token"));
  ASSERT_EQ(Ask({.user = "ada", .json = true}).value_or(-1), 0) << "the next one";
  EXPECT_EQ(nlohmann::json::parse(out_.str())["folder"], folder_);
}

// The folder is named by whoever asks, in any bytes.
TEST_F(CertifyUserTest, TellsProgramsOfAFolderWhoseNameIsNotUtf8) {
  const std::string folder = folder_ + "\xe9";
  ASSERT_EQ(Ask({.identity = folder, .json = true}).value_or(-1), 0);
  EXPECT_EQ(nlohmann::json::parse(out_.str())["folder"], folder_ + "\xef\xbf\xbd");
  std::filesystem::remove_all(folder);
}

TEST_F(CertifyUserTest, MakesATokenFirstWhereARoleIsGiven) {
  ASSERT_EQ(Ask({.name_space = "default", .user = "eve", .role = "submitter"}).value_or(-1), 0);
  EXPECT_EQ(asked_for_role_, "submitter");
  EXPECT_EQ(ReadIdentity(folder_)->name, (PeerName{"c1", UserPeer{"eve"}}));
  EXPECT_EQ(ReadSecret(folder_ + "/token").value_or(""), "muster-eve-1\n");
  EXPECT_THAT(out_.str(), HasSubstr("muster token revoke 0123456789ab"));
}

TEST(TokensOfNobody, ACoordinatorWithoutTokensIsNamedAsWhatItIs) {
  const RestClient rest([](const std::string&, const std::string&,
                           const std::string&) -> absl::StatusOr<http::Response> {
    return http::Response{
        .status = 404,
        .body = R"({"error":{"code":"not_found","message":"there is nothing at /v1/tokens"}})"};
  });
  for (const absl::Status& failed :
       {rest.MakeToken("ada", "viewer", "default").status(), rest.Tokens().status()}) {
    EXPECT_EQ(failed.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(failed.message()), HasSubstr("start it with --tokens"));
  }
}

TEST_F(CertifyUserTest, NobodyElseBecomesAUser) {
  const PeerName coordinator{"c1", CoordinatorPeer{}};
  ASSERT_TRUE(
      WriteIdentity(folder_, IssueIdentity(authority_, coordinator, absl::Now()).value()).ok());
  const RemoteArguments eve{.name_space = "default", .user = "eve", .role = "submitter"};
  EXPECT_THAT(Ask(eve).status().message(),
              AllOf(HasSubstr("--identity: "), HasSubstr("spiffe://c1/coordinator")));
  EXPECT_EQ(ReadIdentity(folder_)->name, coordinator);
  EXPECT_EQ(asked_for_role_, "") << "no token is made";
}

TEST_F(CertifyUserTest, TheFolderOfAnAuthorityStaysOne) {
  std::filesystem::create_directories(folder_);
  std::ofstream(folder_ + "/authority.key") << "a key";
  EXPECT_THAT(Ask({}).status().message(), HasSubstr("the key of an authority"));
  EXPECT_EQ(ReadIdentity(folder_).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(CertifyUserTest, WhatIsOfNoUseIsNotInstalled) {
  EXPECT_THAT(Ask({.user = "bob"}).status().message(), HasSubstr("the token is that of ada"));
  by_its_clock_ += absl::Minutes(6);
  EXPECT_THAT(Ask({}).status().message(), HasSubstr("at most five minutes apart"));
  EXPECT_EQ(ReadIdentity(folder_).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace muster::cli
