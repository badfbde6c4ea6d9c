// A host that joins, starts again, and renews what it has.
#include "agent/runtime/host_identity.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "lib/base/mutex.h"
#include "lib/identity/certificates.h"
#include "lib/identity/identity_folder.h"
#include "lib/join/join_listener.h"

namespace muster::agent {
namespace {

const JoinToken kToken{"a", std::string(32, 's')};

class HostIdentityTest : public ::testing::Test {
 protected:
  HostIdentityTest()
      : root_(::testing::TempDir() + "host-identity-" + std::to_string(getpid())),
        folder_(root_ + "/identity") {
    std::filesystem::remove_all(root_);
    std::filesystem::create_directories(root_);
    WriteToken(kToken);
    Listen();
  }
  ~HostIdentityTest() override { std::filesystem::remove_all(root_); }

  void WriteToken(const JoinToken& token) const {
    ASSERT_TRUE(WriteSecret(root_ + "/token", TextOf(token) + "\n").ok());
  }
  void Listen() {
    listener_ = JoinListener::Start(
                    "127.0.0.1:0",
                    [](const std::string& name) -> std::optional<std::string> {
                      if (name == "host:a") return JoinKeyOf(kToken.secret);
                      return std::nullopt;
                    },
                    [this](const std::string&, const JoinHost& ask,
                           const std::function<void(JoinAnswer)>& answer) { answer(Decide(ask)); })
                    .value();
  }
  JoinAnswer Decide(const JoinHost& ask) {
    const MutexLock lock(mutex_);
    keys_.push_back(ask.public_key);
    came_.NotifyAll();
    if (refusals_ > 0) {
      --refusals_;
      return JoinRefused{"it is not time yet", true};
    }
    const absl::Time now = absl::Now();
    return HostJoined{
        "c1",
        SignLeaf(
            authority_,
            {.name = {"c1", HostPeer{ask.host}}, .public_key = ask.public_key, .lasts = lasts_},
            now)
            .value(),
        authority_.certificates_pem, absl::ToUnixMillis(now)};
  }
  absl::StatusOr<std::unique_ptr<HostIdentity>> Make(bool with_file = true, bool goes_on = true) {
    return HostIdentity::Make({.folder = folder_,
                               .join = listener_->Address(),
                               .token_file = with_file ? root_ + "/token" : "",
                               .host = "a",
                               .node = "n",
                               .first_pause = std::chrono::milliseconds(1)},
                              {.say = [this](const std::string& text) { said_.push_back(text); },
                               .wait = [goes_on](Duration) { return goes_on; }});
  }
  std::vector<std::string> Keys() {
    const MutexLock lock(mutex_);
    return keys_;
  }
  void AwaitQuestions(size_t count) {
    const MutexLock lock(mutex_);
    while (keys_.size() < count) came_.Wait(mutex_);
  }

  const std::string root_;
  const std::string folder_;
  Mutex mutex_;
  Authority authority_ ABSL_GUARDED_BY(mutex_) = MakeAuthority("c1", absl::Now()).value();
  CondVar came_;
  std::vector<std::string> keys_ ABSL_GUARDED_BY(mutex_);  // that asked
  int refusals_ ABSL_GUARDED_BY(mutex_) = 0;               // that are to come
  absl::Duration lasts_ ABSL_GUARDED_BY(mutex_) = kLeafLasts;
  std::vector<std::string> said_;
  std::unique_ptr<JoinListener> listener_;
};

TEST_F(HostIdentityTest, JoinsOnceAndKeepsWhatItNeedsForItself) {
  ASSERT_TRUE(Make().ok());
  const absl::StatusOr<Identity> identity = ReadIdentity(folder_);
  ASSERT_TRUE(identity.ok()) << identity.status();
  EXPECT_EQ(ToUri(identity->name), "spiffe://c1/host/a");
  struct stat there {};
  ASSERT_EQ(stat((folder_ + "/join.token").c_str(), &there), 0);
  EXPECT_EQ(there.st_mode & 0777, 0600u);
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/join.key"));
  ASSERT_TRUE(Make(/*with_file=*/false).ok()) << "the token was kept";
  EXPECT_EQ(Keys().size(), 1u) << "its certificate is of use";
}

TEST_F(HostIdentityTest, AnAnswerThatWasLostCostsNothing) {
  {
    const MutexLock lock(mutex_);
    refusals_ = 2;
  }
  ASSERT_TRUE(Make().ok());
  const std::vector<std::string> keys = Keys();
  ASSERT_EQ(keys.size(), 3u);
  EXPECT_EQ(keys[0], keys[2]) << "the same key again";
  ASSERT_EQ(said_.size(), 2u);
  EXPECT_NE(said_[0].find("it is not time yet; trying again"), std::string::npos) << said_[0];
}

TEST_F(HostIdentityTest, AfterAnEndInBetweenItIsTheSameKey) {
  {
    const MutexLock lock(mutex_);
    refusals_ = 1;
  }
  EXPECT_EQ(Make(true, /*goes_on=*/false).status().code(), absl::StatusCode::kCancelled);
  ASSERT_TRUE(Make().ok());
  const std::vector<std::string> keys = Keys();
  ASSERT_EQ(keys.size(), 2u);
  EXPECT_EQ(keys[0], keys[1]);
}

TEST_F(HostIdentityTest, TheFileOfTheTokenMayBeTakenAwayOnceItHasJoined) {
  ASSERT_TRUE(Make().ok());
  std::filesystem::remove(root_ + "/token");
  EXPECT_TRUE(Make().ok());
  std::filesystem::remove(folder_ + "/join.token");
  EXPECT_EQ(Make().status().code(), absl::StatusCode::kNotFound);
}

// As after an end between the certificate and its removal.
TEST_F(HostIdentityTest, TheKeyOfAJoiningHostLiesInOnePlace) {
  ASSERT_TRUE(Make().ok());
  ASSERT_TRUE(WriteSecret(folder_ + "/join.key", ReadIdentity(folder_)->key_pem).ok());
  ASSERT_TRUE(Make().ok());
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/join.key"));
}

// Another key would be refused, with a reason that helps nobody.
TEST_F(HostIdentityTest, AKeyThatOthersMayReadIsSaidToBeSo) {
  ASSERT_TRUE(Make().ok());
  const std::string key =
      folder_ + "/" + std::filesystem::read_symlink(folder_ + "/current").string() + "/key.pem";
  ASSERT_EQ(chmod(key.c_str(), 0644), 0);
  const absl::Status refused = Make().status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied) << refused;
  EXPECT_NE(refused.message().find("chmod 600"), std::string::npos) << refused;
  EXPECT_EQ(Keys().size(), 1u) << "no other key was shown";
}

TEST_F(HostIdentityTest, AWrongTokenEndsItAtOnce) {
  WriteToken({"a", std::string(32, 'x')});
  EXPECT_EQ(Make().status().code(), absl::StatusCode::kUnauthenticated);
  WriteToken({"b", std::string(32, 's')});
  EXPECT_EQ(Make().status().code(), absl::StatusCode::kUnauthenticated);
  EXPECT_TRUE(Keys().empty());
  ASSERT_TRUE(WriteSecret(root_ + "/token", "no token").ok());
  const absl::Status none = Make().status();
  EXPECT_EQ(none.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(none.message().find("muster token host"), std::string::npos) << none;
  ASSERT_EQ(chmod((root_ + "/token").c_str(), 0644), 0);
  EXPECT_EQ(Make().status().code(), absl::StatusCode::kPermissionDenied);
}

TEST_F(HostIdentityTest, WhoNobodyAnswersGivesUpInTheEnd) {
  const std::string address = listener_->Address();
  listener_.reset();
  const absl::Status status =
      HostIdentity::Make({.folder = folder_,
                          .join = address,
                          .token_file = root_ + "/token",
                          .host = "a",
                          .patience = Duration{}},
                         {.say = [](const std::string&) {}, .wait = [](Duration) { return true; }})
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(status.message().find("gives up"), std::string::npos) << status;
}

// However long it would pause otherwise.
TEST_F(HostIdentityTest, WhoNobodyAnswersWaitsNoLongerThanItsPatience) {
  const std::string address = listener_->Address();
  listener_.reset();
  std::vector<Duration> pauses;
  const absl::Status status = HostIdentity::Make({.folder = folder_,
                                                  .join = address,
                                                  .token_file = root_ + "/token",
                                                  .host = "a",
                                                  .patience = std::chrono::seconds(2),
                                                  .first_pause = std::chrono::seconds(30)},
                                                 {.say = [](const std::string&) {},
                                                  .wait =
                                                      [&](Duration pause) {
                                                        pauses.push_back(pause);
                                                        return false;
                                                      }})
                                  .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
  ASSERT_EQ(pauses.size(), 1u);
  EXPECT_LE(pauses[0], std::chrono::seconds(2));
}

TEST_F(HostIdentityTest, HalfOfItsTimeOverItAsksAgainWithItsKey) {
  {
    const MutexLock lock(mutex_);
    lasts_ = absl::Minutes(30);  // which began an hour ago
  }
  const auto identity = Make();
  ASSERT_TRUE(identity.ok()) << identity.status();
  AwaitQuestions(2);
  const std::vector<std::string> keys = Keys();
  EXPECT_EQ(keys[0], keys[1]);
}

TEST_F(HostIdentityTest, AnotherTokenJoinsAnew) {
  ASSERT_TRUE(Make().ok());
  ASSERT_TRUE(WriteSecret(folder_ + "/join.token", TextOf({"a", std::string(32, 'o')})).ok());
  ASSERT_TRUE(Make().ok());
  const std::vector<std::string> keys = Keys();
  ASSERT_EQ(keys.size(), 2u);
  EXPECT_EQ(keys[0], keys[1]) << "with the key that it has";
}

TEST_F(HostIdentityTest, ARefusedCertificateIsAskedForAgain) {
  const auto identity = Make();
  ASSERT_TRUE(identity.ok());
  identity.value()->JoinSoon();
  AwaitQuestions(2);
}

TEST(PauseAfter, GrowsToAnEnd) {
  using std::chrono::seconds;
  EXPECT_EQ(PauseAfter(seconds(1), 1), seconds(1));
  EXPECT_EQ(PauseAfter(seconds(1), 2), seconds(2));
  EXPECT_EQ(PauseAfter(seconds(1), 5), seconds(16));
  EXPECT_EQ(PauseAfter(seconds(1), 1000), std::chrono::minutes(5));
}

TEST_F(HostIdentityTest, AsksForAnotherOneWhenOthersAreToBeTrusted) {
  const auto identity = Make().value();
  AwaitQuestions(1);
  const std::string key = ReadIdentity(folder_)->key_pem;
  identity->Trust(HashOfTrust(ReadIdentity(folder_)->authority_pem));  // as it has it
  std::string now;
  {
    const MutexLock lock(mutex_);
    authority_ = SucceedAuthority(authority_, absl::Now()).value();
    now = authority_.certificates_pem;
  }
  identity->Trust(HashOfTrust(now));
  AwaitQuestions(2);
  while (ReadIdentity(folder_)->authority_pem != now) std::this_thread::yield();
  EXPECT_EQ(ReadIdentity(folder_)->key_pem, key) << "with the key that it has";
  EXPECT_EQ(Keys().size(), 2u);
}

}  // namespace
}  // namespace muster::agent
