#include "agent/runtime/own_identity.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/identity/identity_folder.h"
#include "lib/join/join_token.h"
#include "tests/agent/runtime/stand_in.h"

namespace muster::agent {
namespace {

namespace fs = std::filesystem;

class OwnIdentityTest : public ::testing::Test {
 protected:
  ~OwnIdentityTest() override { fs::remove_all(folder_); }
  absl::StatusOr<std::unique_ptr<OwnIdentity>> Make(absl::StatusOr<std::string> cluster = "") {
    return OwnIdentity::Make(
        {.authority = authority_, .folder = keys_, .host = "node7", .cluster = [this, cluster] {
           ++asked_;
           return cluster;
         }});
  }

  const std::string folder_ = MakeTestFolder();
  const std::string authority_ = folder_ + "/store/identity";
  const std::string keys_ = folder_ + "/keys";
  int asked_ = 0;
};

TEST_F(OwnIdentityTest, AnAuthorityIsMadeOnceAndSignsThisHost) {
  std::string cluster;
  {
    const auto made = Make();
    ASSERT_TRUE(made.ok()) << made.status();
    const PeerName name = (*made)->source()->Get()->name;
    cluster = name.cluster;
    EXPECT_EQ(name, (PeerName{cluster, HostPeer{"node7"}}));
    EXPECT_TRUE(fs::exists(UnusedMarkOf(authority_))) << "the coordinator has not begun yet";
    EXPECT_TRUE(VerifyPeer(ReadIdentity(authority_).value(),
                           (*made)->source()->Get()->certificate_pem, absl::Now())
                    .ok());
    EXPECT_EQ(fs::status(keys_).permissions(), fs::perms::owner_all);
  }
  EXPECT_FALSE(fs::exists(keys_)) << "keys of processes that have ended";
  const auto again = Make(absl::InternalError("there is an authority, so nobody asks"));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ((*again)->source()->Get()->name.cluster, cluster);
  EXPECT_EQ(asked_, 1);
}

TEST_F(OwnIdentityTest, AStoreThatIsThereKeepsItsCluster) {
  const auto made = Make("cluster-of-before");
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ((*made)->source()->Get()->name.cluster, "cluster-of-before");
}

TEST_F(OwnIdentityTest, AnAuthorityThatIsMissingIsNotMadeAnew) {
  const auto made = Make(absl::FailedPreconditionError("it had one"));
  EXPECT_EQ(made.status().message(), "it had one");
  EXPECT_FALSE(fs::exists(authority_));
}

TEST_F(OwnIdentityTest, WhatAKilledMusterLeftIsRemoved) {
  fs::create_directories(keys_ + "/host-members/old");
  std::ofstream(keys_ + "/host-members/old/key.pem") << "a key";
  const auto made = Make();
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_FALSE(fs::exists(keys_ + "/host-members"));
}

TEST_F(OwnIdentityTest, TheSecretForOtherHostsStays) {
  ASSERT_TRUE(Make().ok());
  const auto file = ProvideJoinSecret(authority_);
  ASSERT_TRUE(file.ok()) << file.status();
  const auto text = ReadSecret(*file);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(ParseJoinToken(text->substr(0, text->size() - 1))->host, "") << "it is for any";
  EXPECT_EQ(ProvideJoinSecret(authority_).value(), *file);
  EXPECT_EQ(ReadSecret(*file).value(), *text);
  chmod(file->c_str(), 0644);
  EXPECT_EQ(ProvideJoinSecret(authority_).status().code(), absl::StatusCode::kPermissionDenied);
}

}  // namespace
}  // namespace muster::agent
