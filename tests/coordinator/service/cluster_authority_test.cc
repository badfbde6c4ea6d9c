// The authority of a cluster and its store: made together, and neither goes on without the other.
#include "coordinator/service/cluster_authority.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "coordinator/runtime/signer.h"
#include "lib/identity/certificates.h"
#include "lib/identity/identity_folder.h"
#include "lib/identity/keys.h"
#include "lib/storage/kv.h"

namespace muster::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);

class ClusterAuthorityTest : public ::testing::Test {
 protected:
  ClusterAuthorityTest() : root_(::testing::TempDir() + "authority-" + std::to_string(getpid())) {
    std::filesystem::remove_all(root_);
    std::filesystem::create_directories(root_);
  }
  ~ClusterAuthorityTest() override { std::filesystem::remove_all(root_); }
  static std::unique_ptr<Journal> Store(const std::string& cluster) {
    return Journal::Open(OpenMemory(JournalFamilies()), "", cluster).value();
  }

  const std::string root_;
  const std::string folder_ = AuthorityFolderOf(root_);
};

TEST_F(ClusterAuthorityTest, IsMadeWithItsStoreAndForItsOwnerOnly) {
  const auto store = Store("c1");
  ASSERT_TRUE(ProvideAuthority(folder_, *store, kNow).ok());
  struct stat there {};
  ASSERT_EQ(stat(folder_.c_str(), &there), 0);
  EXPECT_EQ(there.st_mode & 0777, 0700u);
  const Identity own = ReadIdentity(folder_).value();
  EXPECT_EQ(ToUri(own.name), "spiffe://c1/coordinator");
  EXPECT_TRUE(*store->HasAuthority());
  const std::string authority = ReadAuthority(folder_)->key_pem;
  ASSERT_TRUE(ProvideAuthority(folder_, *store, kNow).ok());
  EXPECT_EQ(ReadAuthority(folder_)->key_pem, authority) << "the next start uses it";
}

TEST_F(ClusterAuthorityTest, OneIsRefusedWithoutTheOther) {
  const auto store = Store("c1");
  ASSERT_TRUE(ProvideAuthority(folder_, *store, kNow).ok());
  const absl::Status other = ProvideAuthority(folder_, *Store("c2"), kNow);
  EXPECT_EQ(other.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(other.message()), HasSubstr("the store is of cluster c2"));
  std::filesystem::remove_all(folder_);
  const absl::Status alone = ProvideAuthority(folder_, *store, kNow);
  EXPECT_EQ(alone.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(alone.message()), HasSubstr("is missing"));
  EXPECT_FALSE(std::filesystem::exists(folder_)) << "nothing is made in its place";
}

TEST_F(ClusterAuthorityTest, OneThatWasMadeBeforeNamesTheCluster) {
  const Authority authority = MakeAuthority("c7", kNow).value();
  const Identity own = IssueIdentity(authority, {"c7", CoordinatorPeer{}}, kNow).value();
  ASSERT_TRUE(WriteAuthority(folder_, authority, own).ok());
  EXPECT_EQ(*ClusterMadeFor(folder_), "") << "a store belongs to it";
  ASSERT_TRUE(WriteSecret(UnusedMarkOf(folder_), "").ok());
  EXPECT_EQ(*ClusterMadeFor(folder_), "c7");
  ASSERT_TRUE(ProvideAuthority(folder_, *Store("c7"), kNow).ok());
  EXPECT_EQ(*ClusterMadeFor(folder_), "") << "from now on one does";
}

// As --cluster-id does it at each start: placements would have the numbers of before again.
TEST_F(ClusterAuthorityTest, ANewStoreOfTheSameNameIsNotThatOfTheAuthority) {
  ASSERT_TRUE(ProvideAuthority(folder_, *Store("c1"), kNow).ok());
  const absl::Status lost = ProvideAuthority(folder_, *Store("c1"), kNow);
  EXPECT_EQ(lost.code(), absl::StatusCode::kFailedPrecondition) << lost;
  EXPECT_THAT(std::string(lost.message()), HasSubstr("bring back the store"));
}

TEST_F(ClusterAuthorityTest, AnEndWhileItIsMadeCostsNothing) {
  const auto store = Store("c1");
  ASSERT_TRUE(MakePrivateFolder(folder_).ok());
  ASSERT_TRUE(WriteSecret(UnusedMarkOf(folder_), "").ok());
  EXPECT_EQ(*ClusterMadeFor(folder_), "") << "there is only the mark";
  const Authority authority = MakeAuthority("c1", kNow).value();
  const Identity own = IssueIdentity(authority, {"c1", CoordinatorPeer{}}, kNow).value();
  ASSERT_TRUE(WriteIdentity(folder_, own).ok());
  ASSERT_TRUE(ProvideAuthority(folder_, *store, kNow).ok()) << "its key was never written";
  EXPECT_TRUE(*store->HasAuthority());
  ASSERT_TRUE(WriteSecret(UnusedMarkOf(folder_), "").ok());
  ASSERT_TRUE(ProvideAuthority(folder_, *store, kNow).ok()) << "the mark was not taken away";
  EXPECT_FALSE(std::filesystem::exists(UnusedMarkOf(folder_)));
}

TEST_F(ClusterAuthorityTest, TheCoordinatorSignsItselfAnewInTimeAndForNewNames) {
  ASSERT_TRUE(ProvideAuthority(folder_, *Store("c1"), kNow).ok());
  const absl::Status early = RenewOwn(folder_, {"10.0.0.7"}, kNow - absl::Hours(48)).status();
  EXPECT_TRUE(absl::IsUnavailable(early)) << early;
  EXPECT_THAT(std::string(early.message()), HasSubstr("by this machine's clock it is"));
  EXPECT_TRUE(*RenewOwn(folder_, {"10.0.0.7"}, kNow)) << "it is reached by another name";
  EXPECT_FALSE(*RenewOwn(folder_, {"10.0.0.7"}, kNow + absl::Hours(11)));
  const Identity before = ReadIdentity(folder_).value();
  EXPECT_TRUE(*RenewOwn(folder_, {"10.0.0.7"}, kNow + absl::Hours(12)));
  const Identity after = ReadIdentity(folder_).value();
  EXPECT_EQ(after.ends, kNow + absl::Hours(36));
  EXPECT_EQ(after.authority_pem, before.authority_pem);
  EXPECT_THAT(ReadCertificate(after.certificate_pem)->reached_by, ElementsAre("10.0.0.7"));
}

TEST_F(ClusterAuthorityTest, KnowsByWhatItIsReached) {
  EXPECT_THAT(
      *ReachedBy({"10.0.0.7:7070", "[fd00:0::1]:7080", "0.0.0.0:1"}, {"db.example"}, "m"),
      ElementsAre("10.0.0.7", "127.0.0.1", "::1", "db.example", "fd00::1", "localhost", "m"));
  EXPECT_FALSE(ReachedBy({}, {"no name"}, "m").ok());
}

TEST_F(ClusterAuthorityTest, SignsForOthersWhereItHasTheKey) {
  const Leaf leaf{.name = {"c1", HostPeer{"a"}},
                  .public_key = PublicKeyOf(MakeKey().value()).value()};
  ASSERT_TRUE(ProvideAuthority(folder_, *Store("c1"), kNow).ok());
  const auto signing = SigningAuthority::Open(folder_).value();
  const auto made = signing->Sign(leaf, kNow);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(*Verify(made->authority_pem, made->certificate_pem, kNow),
            (PeerName{"c1", HostPeer{"a"}}));
  EXPECT_EQ(signing->trust(), HashOfTrust(made->authority_pem));
  EXPECT_FALSE(*signing->Look());
  std::filesystem::remove(folder_ + "/authority.key");
  const auto without = SigningAuthority::Open(folder_).value();
  EXPECT_EQ(without->Sign(leaf, kNow).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(without->trust(), "");
  EXPECT_FALSE(SignerOfMembers(without, absl::Hours(1)));
}

// A change while the coordinator runs; the dates are those of now, as its own looks have them.
class AuthorityChangeTest : public ClusterAuthorityTest {
 protected:
  AuthorityChangeTest() {
    EXPECT_TRUE(ProvideAuthority(folder_, *store_, now_).ok());
    signing_ = SigningAuthority::Open(folder_).value();
  }
  std::unique_ptr<ClusterAuthority> Open(bool own = true) {
    return std::make_unique<ClusterAuthority>(ClusterAuthority::Options{
        .folder = folder_,
        .reached_by = own ? std::optional(std::vector<std::string>{"10.0.0.7"}) : std::nullopt,
        .signs = signing_,
        .note = [this](const auto& hashes) { return store_->NoteAuthority(hashes); },
        .on_change =
            [this](bool fewer) {
              ++told_;
              told_fewer_ += fewer ? 1 : 0;
            },
        .due_for = {}});
  }

  const absl::Time now_ = absl::Now();
  const std::unique_ptr<Journal> store_ = Store("c1");
  std::shared_ptr<SigningAuthority> signing_;
  std::atomic<int> told_ = 0;
  std::atomic<int> told_fewer_ = 0;
};

TEST_F(AuthorityChangeTest, AnotherOneSignsFromThenOnAndTheOneBeforeIsTrustedOn) {
  const auto authority = Open();
  const Identity before = ReadIdentity(folder_).value();
  const std::string trust = signing_->trust();
  ASSERT_EQ(authority->Standing()->trusted.size(), 1u);
  ASSERT_TRUE(authority->Change(now_).ok());
  EXPECT_EQ(told_, 1);
  EXPECT_NE(signing_->trust(), trust);
  const absl::StatusOr<AuthorityStanding> standing = authority->Standing();
  ASSERT_TRUE(standing.ok()) << standing.status();
  ASSERT_EQ(standing->trusted.size(), 2u);
  EXPECT_EQ(standing->trusted[1].pem, before.authority_pem);
  ASSERT_TRUE(standing->change_ends);
  EXPECT_EQ(absl::ToUnixSeconds(*standing->change_ends), absl::ToUnixSeconds(now_ + kTrustedOn));
  const Identity after = ReadIdentity(folder_).value();
  EXPECT_TRUE(VerifyPeer(before, after.certificate_pem, now_).ok())
      << "who trusts the one before alone takes the coordinator";
  EXPECT_THAT(ReadCertificate(after.certificate_pem)->reached_by, ElementsAre("10.0.0.7"));
  const absl::Status again = authority->Change(now_);
  EXPECT_EQ(again.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(again.message()), HasSubstr("muster certs finish"));
  EXPECT_FALSE(*RenewOwn(folder_, {"10.0.0.7"}, now_ + absl::Hours(1)));
}

TEST_F(AuthorityChangeTest, EndsOnceAndLeavesTheNewOne) {
  const auto authority = Open();
  EXPECT_EQ(authority->Finish(now_).code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(authority->Change(now_).ok());
  const std::string next = authority->Standing()->trusted[0].pem;
  ASSERT_TRUE(authority->Finish(now_).ok());
  EXPECT_EQ(told_, 2);
  EXPECT_EQ(told_fewer_, 1) << "whom the one before signed is nobody";
  const AuthorityStanding standing = authority->Standing().value();
  ASSERT_EQ(standing.trusted.size(), 1u);
  EXPECT_EQ(standing.trusted[0].pem, next);
  EXPECT_FALSE(standing.change_ends);
  EXPECT_EQ(ReadIdentity(folder_)->authority_pem, next);
  EXPECT_EQ(authority->Finish(now_).code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(authority->Change(now_).ok()) << "the next change";
  ASSERT_TRUE(ProvideAuthority(folder_, *store_, now_).ok()) << "the next start";
}

// The first look of one that starts, here of a change that was begun 25 hours ago.
TEST_F(AuthorityChangeTest, EndsByItselfWhenWhatTheOneBeforeSignedHasEnded) {
  const absl::Time made = now_ - absl::Hours(48), changed = now_ - kTrustedOn;
  const Authority before = MakeAuthority("c1", made).value();
  const Authority next = SucceedAuthority(before, changed).value();
  ASSERT_TRUE(
      WriteAuthority(folder_, next, IssueIdentity(next, {"c1", CoordinatorPeer{}}, now_).value())
          .ok());
  const auto authority = Open();
  authority->LookSoon();
  while (told_fewer_ == 0) std::this_thread::yield();
  EXPECT_EQ(authority->Standing()->trusted.size(), 1u);
  EXPECT_EQ(ReadAuthority(folder_)->key_pem, next.key_pem);
}

// A backup that was made before the change: the key that signs there may be in other hands.
TEST_F(AuthorityChangeTest, AnOlderCopyOfTheFolderIsNotTheOneOfTheStore) {
  const std::string copy = root_ + "/copy";
  std::filesystem::copy(
      folder_, copy,
      std::filesystem::copy_options::recursive | std::filesystem::copy_options::copy_symlinks);
  {
    const auto authority = Open();
    ASSERT_TRUE(authority->Change(now_).ok());
  }
  ASSERT_TRUE(ProvideAuthority(folder_, *store_, now_).ok());
  std::filesystem::remove_all(folder_);
  std::filesystem::rename(copy, folder_);
  const absl::Status older = ProvideAuthority(folder_, *store_, now_);
  EXPECT_EQ(older.code(), absl::StatusCode::kFailedPrecondition) << older;
  EXPECT_THAT(std::string(older.message()), HasSubstr("from before it was changed"));
}

TEST_F(AuthorityChangeTest, IsNotChangedByAClockThatIsBehind) {
  const auto authority = Open();
  const absl::Status refused = authority->Change(now_ - absl::Hours(2));
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("set the clock right"));
}

TEST_F(AuthorityChangeTest, OneFromOutsideIsChangedWhereItIsKeptAndReadAgain) {
  const auto authority = Open(/*own=*/false);
  const absl::Status refused = authority->Change(now_);
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("from outside"));
  const Authority other = SucceedAuthority(ReadAuthority(folder_).value(), now_).value();
  ASSERT_TRUE(
      ChangeAuthority(folder_, other, IssueIdentity(other, {"c1", CoordinatorPeer{}}, now_).value())
          .ok());
  authority->LookSoon();
  while (told_ == 0) std::this_thread::yield();
  EXPECT_EQ(signing_->trust(), HashOfTrust(other.certificates_pem));
}

}  // namespace
}  // namespace muster::coordinator
