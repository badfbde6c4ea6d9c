#include "lib/identity/identity_folder.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "lib/identity/identity_source.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using absl::StatusCode;

const absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);

class IdentityFolder : public ::testing::Test {
 protected:
  IdentityFolder() {
    std::string pattern = absl::StrCat(::testing::TempDir(), "/identity-XXXXXX");
    root_ = mkdtemp(pattern.data());
  }
  ~IdentityFolder() override { fs::remove_all(root_); }

  Identity Issue() const {
    return IssueIdentity(authority_, {"c1", HostPeer{"alpha"}}, kNow).value();
  }
  std::string folder() const { return root_ + "/identity"; }
  std::string key_file() const {
    return absl::StrCat(folder(), "/", fs::read_symlink(folder() + "/current").string(),
                        "/key.pem");
  }

  const Authority authority_ = MakeAuthority("c1", kNow).value();
  std::string root_;
};

void Write(const std::string& path, const std::string& content, mode_t mode) {
  std::ofstream(path) << content;
  chmod(path.c_str(), mode);
}

TEST_F(IdentityFolder, IsReadAsItWasWritten) {
  const Identity first = Issue(), second = Issue();
  for (const Identity& identity : {first, second}) {
    ASSERT_TRUE(WriteIdentity(folder(), identity).ok());
    const absl::StatusOr<Identity> read = ReadIdentity(folder());
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->key_pem, identity.key_pem);
    EXPECT_EQ(read->certificate_pem, identity.certificate_pem);
    EXPECT_EQ(read->authority_pem, identity.authority_pem);
    EXPECT_EQ(read->name, identity.name);
  }
}

TEST_F(IdentityFolder, KeepsOneEarlierIdentity) {
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(WriteIdentity(folder(), Issue()).ok());
  const auto entries = std::distance(fs::directory_iterator(folder()), fs::directory_iterator());
  EXPECT_EQ(entries, 3);  // the link, the folder it leads to, and the one before
}

TEST_F(IdentityFolder, IsForItsOwnerAlone) {
  ASSERT_TRUE(WriteIdentity(folder(), Issue()).ok());
  for (const std::string& path : {folder(), key_file()}) {
    const fs::perms before = fs::status(path).permissions();
    fs::permissions(path, fs::perms::group_read | before);
    const absl::Status refused = ReadIdentity(folder()).status();
    EXPECT_EQ(refused.code(), StatusCode::kPermissionDenied) << refused;
    EXPECT_TRUE(absl::StrContains(refused.message(), absl::StrCat("'", path, "'"))) << refused;
    fs::permissions(path, before);
  }
  EXPECT_TRUE(ReadIdentity(folder()).ok());
}

TEST_F(IdentityFolder, WithoutAFileSaysWhich) {
  EXPECT_EQ(ReadIdentity(folder()).status().code(), StatusCode::kNotFound);
  ASSERT_TRUE(WriteIdentity(folder(), Issue()).ok());
  fs::remove(key_file());
  const absl::Status missing = ReadIdentity(folder()).status();
  EXPECT_EQ(missing.code(), StatusCode::kNotFound);
  EXPECT_TRUE(absl::StrContains(missing.message(), "key.pem")) << missing;
}

TEST_F(IdentityFolder, LeadsNowhereElse) {
  ASSERT_TRUE(WriteIdentity(folder(), Issue()).ok());
  fs::remove(folder() + "/current");
  fs::create_symlink("../elsewhere", folder() + "/current");
  EXPECT_EQ(ReadIdentity(folder()).status().code(), StatusCode::kDataLoss);
}

// As cert-manager or a person makes it.
TEST_F(IdentityFolder, OfSomebodyElseIsReadAsItIs) {
  const Identity identity = Issue(), other = Issue();
  fs::create_directory(folder());
  Write(folder() + "/authority.pem", identity.authority_pem, 0644);
  Write(folder() + "/certificate.pem", identity.certificate_pem, 0644);
  Write(folder() + "/key.pem", identity.key_pem, 0440);
  const absl::StatusOr<Identity> read = ReadIdentity(folder());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->name, identity.name);
  chmod((folder() + "/key.pem").c_str(), 0444);
  EXPECT_EQ(ReadIdentity(folder()).status().code(), StatusCode::kPermissionDenied);
  chmod((folder() + "/key.pem").c_str(), 0600);
  Write(folder() + "/key.pem", other.key_pem, 0600);  // the certificate is still to come
  EXPECT_EQ(ReadIdentity(folder()).status().code(), StatusCode::kInvalidArgument);
}

// Whoever may write there would say whom we trust.
TEST_F(IdentityFolder, OfSomebodyElseTrustsNobodyWhomOthersMayWriteThere) {
  const Identity identity = Issue();
  fs::create_directory(folder());
  Write(folder() + "/authority.pem", identity.authority_pem, 0646);
  Write(folder() + "/certificate.pem", identity.certificate_pem, 0644);
  Write(folder() + "/key.pem", identity.key_pem, 0600);
  const absl::Status refused = ReadIdentity(folder()).status();
  EXPECT_EQ(refused.code(), StatusCode::kPermissionDenied) << refused;
  EXPECT_TRUE(absl::StrContains(refused.message(), "authority.pem")) << refused;
}

// A full disk may last, and each attempt has a key.
TEST_F(IdentityFolder, OfAWriterThatFailedNothingIsLeft) {
  const Identity before = Issue();
  ASSERT_TRUE(WriteIdentity(folder(), before).ok());
  fs::create_directory(folder() + "/current.writing");  // in the place of the link to be
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(WriteIdentity(folder(), Issue()).ok());
  const auto entries = std::distance(fs::directory_iterator(folder()), fs::directory_iterator());
  EXPECT_EQ(entries, 3) << "the link, the folder it leads to, and what stood in its way";
  EXPECT_EQ(ReadIdentity(folder())->key_pem, before.key_pem);
}

TEST_F(IdentityFolder, IsClosedToOthersUnlessItIsALinkThatMayBeNone) {
  fs::create_directory(folder());
  fs::permissions(folder(), fs::perms::all);
  ASSERT_TRUE(CloseToOthers(folder(), false).ok());
  EXPECT_EQ(fs::status(folder()).permissions(), fs::perms::owner_all);
  ASSERT_TRUE(CloseToOthers(root_ + "/new", false).ok());
  EXPECT_EQ(fs::status(root_ + "/new").permissions(), fs::perms::owner_all);
  fs::create_directory(root_ + "/elsewhere");
  fs::permissions(root_ + "/elsewhere", fs::perms::all);
  fs::create_symlink("elsewhere", root_ + "/link");
  EXPECT_EQ(CloseToOthers(root_ + "/link", false).code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(fs::status(root_ + "/elsewhere").permissions(), fs::perms::all);
  ASSERT_TRUE(CloseToOthers(root_ + "/link", true).ok());
  EXPECT_EQ(fs::status(root_ + "/elsewhere").permissions(), fs::perms::owner_all);
}

TEST_F(IdentityFolder, HoldsTheAuthorityOfTheCoordinator) {
  const Identity own = IssueIdentity(authority_, {"c1", CoordinatorPeer{}}, kNow).value();
  EXPECT_EQ(ReadAuthority(folder()).status().code(), StatusCode::kNotFound);
  ASSERT_TRUE(WriteAuthority(folder(), authority_, own).ok());
  const absl::StatusOr<Authority> read = ReadAuthority(folder());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->key_pem, authority_.key_pem);
  EXPECT_EQ(read->certificates_pem, authority_.certificates_pem);
  chmod((folder() + "/authority.key").c_str(), 0640);
  EXPECT_EQ(ReadAuthority(folder()).status().code(), StatusCode::kPermissionDenied);
}

TEST_F(IdentityFolder, IsTheSourceOfAnIdentity) {
  const auto issue = [](absl::Time now) {
    return IssueIdentity(MakeAuthority("c1", now).value(), {"c1", HostPeer{"alpha"}}, now).value();
  };
  ASSERT_TRUE(WriteIdentity(folder(), issue(absl::Now())).ok());
  auto source = IdentitySource::Open(folder());
  ASSERT_TRUE(source.ok()) << source.status();
  const auto before = (*source)->Get();
  const Identity fresh = Issue();
  (*source)->Set(fresh);
  EXPECT_EQ((*source)->Get()->key_pem, fresh.key_pem);
  EXPECT_NE(before->key_pem, fresh.key_pem);
  // Of a machine whose clock was wrong, or of long ago.
  for (const absl::Duration wrong : {absl::Hours(24 * 365), -absl::Hours(24 * 365)}) {
    ASSERT_TRUE(WriteIdentity(folder(), issue(absl::Now() + wrong)).ok());
    const absl::Status refused = IdentitySource::Open(folder()).status();
    EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition) << wrong << ": " << refused;
    EXPECT_TRUE(absl::StrContains(refused.message(), "by this machine's clock")) << refused;
  }
}

TEST_F(IdentityFolder, IsTheSourceOfNobodyElsesIdentity) {
  const Authority authority = MakeAuthority("c1", absl::Now()).value();
  const auto issue = [&](PeerName name) {
    return IssueIdentity(authority, std::move(name), absl::Now()).value();
  };
  const PeerName ours{"c1", CoordinatorPeer{}};
  const Identity renewed = issue(ours);
  ASSERT_TRUE(WriteIdentity(folder(), issue(ours)).ok());
  const auto source = IdentitySource::Open(folder()).value();
  ASSERT_TRUE(WriteIdentity(folder(), issue({"c1", UserPeer{"eve"}})).ok());
  source->LookSoon();
  while (source->looks_soon()) std::this_thread::yield();
  // What is read after that is read after what was there has been judged.
  ASSERT_TRUE(WriteIdentity(folder(), renewed).ok());
  source->LookSoon();
  while (source->Get()->key_pem != renewed.key_pem) {
    ASSERT_EQ(source->Get()->name, ours);
    std::this_thread::yield();
  }
}

TEST_F(IdentityFolder, ACertificateIsValidFromItsBeginningAndNoMoreAtItsEnd) {
  const Identity identity = Issue();
  EXPECT_TRUE(CheckTime(identity, identity.begins).ok());
  EXPECT_TRUE(CheckTime(identity, identity.ends - absl::Seconds(1)).ok());
  EXPECT_FALSE(CheckTime(identity, identity.begins - absl::Seconds(1)).ok());
  EXPECT_FALSE(CheckTime(identity, identity.ends).ok());
}

}  // namespace
}  // namespace muster
