#include "cli/tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/time/clock.h"
#include "cli/cluster_folder.h"
#include "lib/identity/certificates.h"
namespace muster::cli {
namespace {

using ::testing::HasSubstr;

constexpr char kTo[] = "http://127.0.0.1:8080";

class TokensTest : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove_all(root_); }
  void Put(const std::string& file, const std::string& content) const {
    const std::filesystem::path path = root_ / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << content;
  }
  std::string At(const std::string& file) const { return root_ / file; }

  const std::filesystem::path root_ =
      std::filesystem::path(::testing::TempDir()) /
      ::testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(TokensTest, TheFileThatIsNamedComesFirst) {
  Put("mine", "muster-ada-1\n");
  Put("run/identity/admin.token", "muster-admin-2\n");
  Put("home/.config/muster/token", "muster-ada-3\n");
  EXPECT_EQ(FindToken({At("mine"), At("home")}, At("run"), kTo).value(), "muster-ada-1");
  EXPECT_EQ(FindToken({"", At("home")}, At("run"), kTo).value(), "muster-admin-2");
  EXPECT_EQ(FindToken({"", At("home")}, At("other"), kTo).value(), "muster-ada-3");
  EXPECT_EQ(FindToken({"", ""}, At("other"), kTo).value(), "");
}

TEST_F(TokensTest, AnotherMachineIsGivenOnlyWhatIsNamed) {
  Put("mine", "muster-ada-1\n");
  Put("home/.config/muster/token", "muster-ada-3\n");
  const std::string far = "http://10.0.0.1:8080";
  EXPECT_EQ(FindToken({"", At("home")}, At("run"), far).value(), "");
  EXPECT_EQ(FindToken({At("mine"), At("home")}, At("run"), far).value(), "muster-ada-1");
}

// An authority of that cluster, in PEM.
std::string AuthorityOf(const std::string& cluster) {
  return MakeAuthority(cluster, absl::Now()).value().certificates_pem;
}

TEST_F(TokensTest, WhomToTrustIsNamedOrLiesInTheFolderOrAtHome) {
  const std::string named = AuthorityOf("a"), set = AuthorityOf("b"), of_run = AuthorityOf("c"),
                    at_home = AuthorityOf("d");
  Put("named.pem", named);
  Put("set.pem", set);
  Put("run/store/identity/current/authority.pem", of_run);
  Put("home/.config/muster/authority.pem", at_home);
  TokenPlaces places{.home = At("home"), .authority = At("set.pem")};
  RemoteArguments remote{.authority = At("named.pem"), .dir = At("run")};
  const auto cluster = [&] { return FindTrust(places, remote)->trust.cluster; };
  EXPECT_EQ(cluster(), "a");
  remote.authority = "";
  EXPECT_EQ(cluster(), "b");
  places.authority = "";
  EXPECT_EQ(cluster(), "c");
  EXPECT_TRUE(FindTrust(places, remote)->is_of_folder);
  EXPECT_EQ(FindTrust(places, remote)->trust.authority_pem, of_run);
  remote.dir = At("other");
  EXPECT_EQ(cluster(), "d");
  places.home = "";
  EXPECT_EQ(FindTrust(places, remote)->trust.authority_pem, "");
}

TEST_F(TokensTest, AFileWithoutACertificateIsNamed) {
  Put("mine", "no certificate\n");
  const auto why = [&](const std::string& file) {
    return std::string(FindTrust({}, {.authority = At(file)}).status().message());
  };
  EXPECT_THAT(why("mine"), HasSubstr("--authority: " + At("mine")));
  EXPECT_THAT(why("nothing"), HasSubstr("--authority"));
}

TEST_F(TokensTest, ACommandThatPeopleGetAsksOverHttpsAloneAndWhomItTrusts) {
  const auto check = [](const std::string& url, const std::string& authority, bool in_plain_text) {
    return CheckMayAsk({.may_ask_in_plain_text = in_plain_text, .trust = {authority, "c1"}}, url);
  };
  const std::string https = "https://127.0.0.1:8080";
  EXPECT_TRUE(check(https, "pem", false).ok());
  EXPECT_TRUE(check(kTo, "", true).ok());
  for (const auto& [url, authority] : {std::pair(https, ""), std::pair(std::string(kTo), "pem")}) {
    const absl::Status refused = check(url, authority, false);
    EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
    for (const std::string& word : {url, std::string("--dir"), std::string("--authority FILE"),
                                    std::string("muster up starts one")})
      EXPECT_THAT(std::string(refused.message()), HasSubstr(word));
  }
}

TEST_F(TokensTest, TheTokenOfAFolderGoesToItsOwnClusterOnly) {
  const std::string authority = AuthorityOf("c1");
  Put("run/identity/authority.pem", authority);
  Put("run/identity/admin.token", "muster-admin-2\n");
  Put("other.pem", AuthorityOf("c2"));
  Put("home/.config/muster/token", "muster-ada-3\n");
  const TokenPlaces places{.home = At("home")};
  const auto token = [&](RemoteArguments remote) {
    remote.dir = At("run");
    EXPECT_TRUE(FindWhatItShows(places, remote).ok());
    return remote.token;
  };
  EXPECT_EQ(token({.to = "https://10.0.0.1:8080"}), "muster-admin-2");
  EXPECT_EQ(token({.to = "https://10.0.0.1:8080", .authority = At("other.pem")}), "muster-ada-3");
  EXPECT_EQ(token({.to = "http://10.0.0.1:8080"}), "");
  EXPECT_EQ(token({.to = kTo}), "muster-admin-2");
}

// Anybody may have made that folder where the command is given, with an authority of his own.
TEST_F(TokensTest, TheTokenAtHomeGoesToNobodyWhomOnlyAFolderNames) {
  const std::string at_home = AuthorityOf("c1");
  Put("run/identity/authority.pem", AuthorityOf("c2"));
  Put("home/.config/muster/authority.pem", at_home);
  Put("home/.config/muster/token", "muster-ada-3\n");
  const auto token = [&](const std::string& authority = "") {
    RemoteArguments remote{
        .to = "https://127.0.0.1:8080", .authority = authority, .dir = At("run")};
    EXPECT_TRUE(FindWhatItShows({.home = At("home")}, remote).ok());
    return remote.token;
  };
  EXPECT_EQ(token(), "");
  EXPECT_EQ(token(At("home/.config/muster/authority.pem")), "muster-ada-3");
  Put("run/identity/authority.pem", at_home);
  EXPECT_EQ(token(), "muster-ada-3") << "it is the same cluster";
}

TEST_F(TokensTest, TheClusterOfTheFolderIsAskedOverHttpsAlsoOnLoopback) {
  Put("run/cluster.json", R"({"grpc":"127.0.0.1:1","http":"127.0.0.1:2"})");
  Put("run/store/identity/current/authority.pem", AuthorityOf("c1"));
  EXPECT_EQ(UrlOfCluster(At("run")), "https://127.0.0.1:2");
  EXPECT_EQ(TrustIn(At("run")).cluster, "c1");
  EXPECT_EQ(TrustIn(At("other")).authority_pem, "");
}

TEST_F(TokensTest, AFolderWithAnAuthorityAnswersOverHttps) {
  Put("run/cluster.json", R"({"grpc":"127.0.0.1:1","http":"127.0.0.1:2"})");
  EXPECT_EQ(UrlOfCluster(At("run")), "http://127.0.0.1:2");
  Put("run/identity/authority.pem", AuthorityOf("c1"));
  EXPECT_EQ(UrlOfCluster(At("run")), "https://127.0.0.1:2");
}

TEST_F(TokensTest, AFileWithoutATokenIsNamed) {
  const auto absent = FindToken({At("mine"), ""}, At("run"), kTo);
  EXPECT_THAT(absent.status().message(), HasSubstr("MUSTER_TOKEN_FILE"));
  Put("mine", "two words\n");
  const auto words = FindToken({At("mine"), ""}, At("run"), kTo);
  EXPECT_THAT(words.status().message(), HasSubstr("holds no token"));
}

}  // namespace
}  // namespace muster::cli
