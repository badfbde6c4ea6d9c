#include "agent/runtime/member_identities.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/identity/identity_folder.h"
#include "lib/identity/keys.h"

namespace muster::agent {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::SizeIs;

const ProcessKey kWorker{"job", "worker-0"};
constexpr PlacementNumber kPlace(7);

class MemberIdentitiesTest : public testing::Test {
 protected:
  MemberIdentitiesTest() {
    fs::remove_all(root_);
    fs::create_directories(root_);
    EXPECT_TRUE(WriteIdentity(own_, own_identity_).ok());
    identities_ = MemberIdentities::Open(IdentitySource::Of(own_identity_), own_ + "/").value();
  }
  ~MemberIdentitiesTest() override {
    identities_.reset();
    fs::remove_all(root_);
  }

  MemberSigned SignedBy(const Authority& authority, const SignMember& ask,
                        absl::Time now = absl::Now()) {
    const ProcessName& process = ask.process;
    const PeerName name{
        "c1", MemberPeer{process.job, process.name, process.placement, process.incarnation}};
    return {process, SignLeaf(authority, {.name = name, .public_key = ask.public_key}, now).value(),
            authority.certificates_pem, absl::ToUnixMillis(absl::Now())};
  }
  // Why the process cannot start; empty: it can.
  static std::string WhyNot(const std::optional<SupervisorEvent>& follows) {
    if (!follows) return "nothing follows";
    const auto* failed = std::get_if<SignFailed>(&*follows);
    if (failed != nullptr) return failed->reason;
    EXPECT_EQ(std::get<Signed>(*follows).key, kWorker);
    EXPECT_EQ(std::get<Signed>(*follows).placement, kPlace);
    return "";
  }
  // Without the lock.
  size_t FoldersLeft() const {
    size_t count = 0;
    for (const auto& entry : fs::directory_iterator(members_)) count += entry.is_directory();
    return count;
  }

  const std::string root_ = testing::TempDir() + "member-identities-" + std::to_string(getpid());
  const std::string own_ = root_ + "/host";
  const std::string members_ = root_ + "/host-members";
  const Authority authority_ = MakeAuthority("c1", absl::Now() - absl::Hours(72)).value();
  const Identity own_identity_ =
      IssueIdentity(authority_, {"c1", HostPeer{"a"}}, absl::Now()).value();
  std::unique_ptr<MemberIdentities> identities_;
};

TEST_F(MemberIdentitiesTest, AProcessHasAFolderFromItsCertificateToItsEnd) {
  const SignMember ask = identities_->Begin(kWorker, kPlace).value();
  EXPECT_TRUE(CheckPublicKey(ask.public_key).ok());
  EXPECT_EQ(ask.process.placement, kPlace);
  EXPECT_THAT(identities_->Unanswered(), SizeIs(1));
  EXPECT_EQ(WhyNot(identities_->On(SignedBy(authority_, ask))), "");
  const std::string folder = identities_->FolderOf(kWorker);
  const auto written = ReadIdentity(folder);
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_EQ(std::get<MemberPeer>(written->name.who).incarnation, ask.process.incarnation);
  for (const std::string& path : {members_, folder}) {
    struct stat there {};
    ASSERT_EQ(stat(path.c_str(), &there), 0);
    EXPECT_EQ(there.st_mode & 0777, 0700u) << path;
  }
  identities_->End(kWorker);
  EXPECT_FALSE(fs::exists(folder));
}

// Who has named the folder of the host may have something beside it.
TEST_F(MemberIdentitiesTest, WhatIsNotOfAProcessStays) {
  identities_.reset();
  std::ofstream(members_ + "/notes") << "mine";
  fs::create_directories(members_ + "/00112233445566778899aabbccddeeff/current");
  identities_ = MemberIdentities::Open(IdentitySource::Of(own_identity_), own_).value();
  EXPECT_TRUE(fs::exists(members_ + "/notes"));
  EXPECT_EQ(FoldersLeft(), 0u) << "of an earlier agent";
}

TEST_F(MemberIdentitiesTest, ALinkInItsPlaceLeadsNowhere) {
  identities_.reset();
  fs::remove_all(members_);
  fs::create_directory(root_ + "/precious");
  fs::permissions(root_ + "/precious", fs::perms::all);
  fs::create_symlink("precious", members_);
  EXPECT_FALSE(MemberIdentities::Open(IdentitySource::Of(own_identity_), own_).ok());
  EXPECT_EQ(fs::status(root_ + "/precious").permissions(), fs::perms::all);
  EXPECT_TRUE(fs::is_empty(root_ + "/precious"));
}

TEST_F(MemberIdentitiesTest, ARenewalKeepsTheKeyAndStartsNothing) {
  const SignMember ask = identities_->Begin(kWorker, kPlace).value();
  ASSERT_EQ(WhyNot(identities_->On(SignedBy(authority_, ask, absl::Now() - absl::Hours(20)))), "");
  const Identity first = ReadIdentity(identities_->FolderOf(kWorker)).value();
  const auto questions =
      identities_->Renew(std::chrono::steady_clock::now(), absl::Now() + absl::Hours(3));
  ASSERT_THAT(questions, SizeIs(1));
  EXPECT_EQ(questions[0].public_key, ask.public_key);
  EXPECT_EQ(identities_->On(SignedBy(authority_, questions[0])), std::nullopt);
  const Identity second = ReadIdentity(identities_->FolderOf(kWorker)).value();
  EXPECT_EQ(second.key_pem, first.key_pem);
  EXPECT_GT(second.ends, first.ends);
}

TEST_F(MemberIdentitiesTest, WhatDoesNotFitStartsNothing) {
  const auto begin = [&] { return identities_->Begin(kWorker, kPlace).value(); };
  SignMember ask = begin();
  MemberSigned other_key =
      SignedBy(authority_, {ask.process, PublicKeyOf(MakeKey().value()).value()});
  EXPECT_THAT(WhyNot(identities_->On(other_key)), HasSubstr("not the key"));
  ask = begin();
  SignMember of_another = ask;
  of_another.process.name = "worker-1";
  MemberSigned other_name = SignedBy(authority_, of_another);
  other_name.process = ask.process;
  EXPECT_THAT(WhyNot(identities_->On(other_name)), HasSubstr("it names"));
  ask = begin();
  MemberSigned foreign = SignedBy(MakeAuthority("c1", absl::Now()).value(), ask);
  foreign.authority_pem = authority_.certificates_pem;
  EXPECT_THAT(WhyNot(identities_->On(foreign)), HasSubstr("not of the authority"));
  ask = begin();
  EXPECT_THAT(WhyNot(identities_->On(SignedBy(authority_, ask, absl::Now() + absl::Hours(3)))),
              HasSubstr("clock"));
  ask = begin();
  EXPECT_THAT(WhyNot(identities_->On(SignedBy(authority_, ask, absl::Now() - absl::Hours(25)))),
              HasSubstr("clock"));
  ask = begin();
  MemberSigned late = SignedBy(authority_, ask);
  late.now_unix_ms -= absl::ToInt64Milliseconds(absl::Minutes(6));
  EXPECT_THAT(WhyNot(identities_->On(late)), HasSubstr("at most five minutes apart"));
  ask = begin();
  EXPECT_THAT(WhyNot(identities_->On(SignRefused{ask.process, "why"})), HasSubstr("why"));
  EXPECT_EQ(identities_->On(SignedBy(authority_, ask)), std::nullopt) << "nobody waits for it";
  EXPECT_EQ(FoldersLeft(), 0u);
}

TEST_F(MemberIdentitiesTest, EachProcessIsLaterThanTheOneBefore) {
  const Incarnation first = identities_->Begin(kWorker, kPlace)->process.incarnation;
  EXPECT_GT(identities_->Begin(kWorker, kPlace)->process.incarnation.hi, first.hi);
}

TEST_F(MemberIdentitiesTest, AnotherAgentIsTurnedAwayAndTheNextOneFindsNothing) {
  const auto second = MemberIdentities::Open(IdentitySource::Of(own_identity_), own_);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(second.status().message(), HasSubstr("another agent"));
  identities_.reset();
  fs::create_directories(members_ + "/00112233445566778899aabbccddeeff");
  std::ofstream(members_ + "/00112233445566778899aabbccddeeff/key.pem")
      << "of a process that has ended";
  identities_ = MemberIdentities::Open(IdentitySource::Of(own_identity_), own_).value();
  EXPECT_EQ(FoldersLeft(), 0u);
}

}  // namespace
}  // namespace muster::agent
