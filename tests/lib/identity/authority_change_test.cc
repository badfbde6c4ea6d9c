// Changing the authority (docs/identity.md section 7): certificates of two authorities meet, with
// those that vouch, and a folder is left in the middle of a change.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/identity/certificates.h"
#include "lib/identity/identity.h"
#include "lib/identity/identity_folder.h"
#include "lib/identity/keys.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

const absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);

Identity IdentityOf(const Authority& authority, absl::Time now = kNow) {
  return IssueIdentity(authority, {"c1", HostPeer{"alpha"}}, now).value();
}
bool Takes(const Identity& own, const Identity& shown, absl::Time now = kNow) {
  return VerifyPeer(own, shown.certificate_pem, now).ok();
}
// As a change ends.
Authority Alone(const Authority& authority) {
  Authority alone = authority;
  alone.certificates_pem = TrustedBy(authority)->front().pem;
  return alone;
}

TEST(AuthorityChange, WhoeverTrustsOneOfTheTwoTakesWhatTheNewOneSigns) {
  const Authority before = MakeAuthority("c1", kNow).value();
  const absl::StatusOr<Authority> next = SucceedAuthority(before, kNow);
  ASSERT_TRUE(next.ok()) << next.status();
  const Identity trusts_old = IdentityOf(before), trusts_both = IdentityOf(*next),
                 trusts_new = IdentityOf(Alone(*next));
  for (const Identity* own : {&trusts_old, &trusts_both, &trusts_new})
    for (const Identity* shown : {&trusts_both, &trusts_new})
      EXPECT_TRUE(Takes(*own, *shown)) << VerifyPeer(*own, shown->certificate_pem, kNow).status();
  EXPECT_TRUE(Takes(trusts_both, trusts_old));
  EXPECT_FALSE(Takes(trusts_new, trusts_old));
}

TEST(AuthorityChange, NobodyIsTakenWhomNoneOfThemSigned) {
  const Authority before = MakeAuthority("c1", kNow).value();
  const Authority next = SucceedAuthority(before, kNow).value();
  const Authority foreign = MakeAuthority("c1", kNow).value();
  Authority other = SucceedAuthority(foreign, kNow).value();
  for (const Authority& by : {foreign, other})
    EXPECT_FALSE(Takes(IdentityOf(next), IdentityOf(by)));
  // What vouches for the new one helps no other key.
  other.vouched_pem = next.vouched_pem;
  const Leaf leaf{.name = {"c1", HostPeer{"alpha"}},
                  .public_key = PublicKeyOf(MakeKey().value()).value()};
  EXPECT_FALSE(VerifyPeer(IdentityOf(before), SignLeaf(other, leaf, kNow).value(), kNow).ok());
  // A leaf is no authority.
  const Identity host = IdentityOf(before);
  EXPECT_FALSE(SucceedAuthority({host.certificate_pem, host.key_pem}, kNow).ok());
}

TEST(AuthorityChange, WhoeverSleptThroughSomeChangesStillFindsTheWay) {
  Authority now = MakeAuthority("c1", kNow).value();
  std::vector<Identity> identities = {IdentityOf(now)};
  for (int change = 0; change < 5; ++change) {
    now = Alone(SucceedAuthority(now, kNow).value());
    identities.push_back(IdentityOf(now));
    EXPECT_EQ(TrustedBy(now)->size(), 1u);
    const size_t last = identities.size() - 1;
    for (size_t earlier = 0; earlier < last; ++earlier) {
      EXPECT_EQ(Takes(identities[earlier], identities[last]), last - earlier <= 3) << earlier;
      EXPECT_FALSE(Takes(identities[last], identities[earlier]));
    }
  }
}

TEST(AuthorityChange, ItIsToldWhoSignsAndWhoIsTrustedOn) {
  const Authority before = MakeAuthority("c1", kNow).value();
  const Authority next = SucceedAuthority(before, kNow + absl::Hours(1)).value();
  const auto trusted = TrustedBy(next);
  ASSERT_TRUE(trusted.ok()) << trusted.status();
  ASSERT_EQ(trusted->size(), 2u);
  EXPECT_EQ((*trusted)[1].pem, before.certificates_pem);
  EXPECT_EQ((*trusted)[0].begins, kNow + absl::Hours(1) - kBeginsBefore);
  EXPECT_EQ((*trusted)[0].hash.size(), 64u);
  EXPECT_NE(HashOfTrust(next.certificates_pem), HashOfTrust(before.certificates_pem));
}

// Hosts, members and a coordinator: each has a certificate, and what it trusts, of when it renewed
// last; folders are looked at later than they are written. They renew at half of their time at the
// latest, and a change ends as the coordinator ends it. Whoever may take part is taken by
// everybody.
class Cluster {
 public:
  explicit Cluster(uint64_t seed) : random_(seed) {
    const size_t parties = 4 + random_() % 3;
    for (size_t i = 0; i < parties; ++i)
      parties_.push_back({IdentityOf(authority_, now_), std::nullopt});
  }

  void GoOn() {
    now_ += absl::Minutes(random_() % 90);
    if (!changed_ && random_() % 12 == 0) {
      authority_ = SucceedAuthority(authority_, now_).value();
      changed_ = now_;
      ++changes_;
    }
    if (changed_ && now_ >= *changed_ + kLeafLasts + absl::Hours(1)) {
      authority_ = Alone(authority_);
      changed_.reset();
    }
    for (Party& party : parties_) {
      // Who was told may not be there to hear it.
      const bool hears = random_() % 4 == 0;
      const bool others = party.written().authority_pem != authority_.certificates_pem;
      if (now_ >= RenewAt(party.written()) || (hears && others))
        party.next = IdentityOf(authority_, now_);
      if (party.next && random_() % 2 == 0) party.used = *std::exchange(party.next, std::nullopt);
      // What it has not looked at by half of the rest it looks at by then.
      if (party.next && now_ >= party.used.ends - absl::Hours(6))
        party.used = *std::exchange(party.next, std::nullopt);
    }
  }
  std::string WhoIsNotTaken() const {
    for (size_t own = 0; own < parties_.size(); ++own)
      for (size_t shown = 0; shown < parties_.size(); ++shown)
        if (now_ < parties_[own].used.ends && now_ < parties_[shown].used.ends &&
            !Takes(parties_[own].used, parties_[shown].used, now_))
          return absl::StrCat(own, " does not take ", shown, " at ", absl::FormatTime(now_));
    return "";
  }
  int changes() const { return changes_; }

 private:
  struct Party {
    Identity used;
    std::optional<Identity> next;  // lies in its folder
    const Identity& written() const { return next ? *next : used; }
  };

  std::mt19937_64 random_;
  absl::Time now_ = kNow;
  Authority authority_ = MakeAuthority("c1", kNow).value();
  std::optional<absl::Time> changed_;
  int changes_ = 0;
  std::vector<Party> parties_;
};

TEST(AuthorityChange, WhoeverHasACertificateThatHoldsIsTakenByEverybodyAtEachMoment) {
  int changes = 0;
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    Cluster cluster(seed);
    for (int step = 0; step < 120; ++step) {
      cluster.GoOn();
      const std::string who = cluster.WhoIsNotTaken();
      ASSERT_EQ(who, "") << "seed " << seed << ", step " << step;
    }
    changes += cluster.changes();
  }
  EXPECT_GT(changes, 12);
}

class ChangedFolder : public ::testing::Test {
 protected:
  ChangedFolder() {
    std::string pattern = absl::StrCat(::testing::TempDir(), "/change-XXXXXX");
    root_ = mkdtemp(pattern.data());
    EXPECT_TRUE(WriteAuthority(folder(), before_, Coordinator(before_)).ok());
  }
  ~ChangedFolder() override { fs::remove_all(root_); }
  static Identity Coordinator(const Authority& authority) {
    return IssueIdentity(authority, {"c1", CoordinatorPeer{}}, kNow).value();
  }
  std::string folder() const { return root_ + "/identity"; }
  std::string next_file() const { return folder() + "/authority.key.next"; }

  const Authority before_ = MakeAuthority("c1", kNow).value();
  const Authority next_ = SucceedAuthority(before_, kNow).value();
  std::string root_;
};

TEST_F(ChangedFolder, HoldsTheNextOneWithWhatVouchesForIt) {
  ASSERT_TRUE(ChangeAuthority(folder(), next_, Coordinator(next_)).ok());
  const absl::StatusOr<Authority> read = ReadAuthority(folder());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->key_pem, next_.key_pem);
  EXPECT_EQ(read->vouched_pem, next_.vouched_pem);
  EXPECT_EQ(read->certificates_pem, next_.certificates_pem);
  EXPECT_FALSE(fs::exists(next_file()));
  EXPECT_TRUE(Takes(Coordinator(before_), IdentityOf(*read)));
  EXPECT_FALSE(*FinishChange(folder()));
}

TEST_F(ChangedFolder, AnEndBeforeTheIdentityTrustsItIsNoChange) {
  ASSERT_TRUE(WriteSecret(next_file(), next_.key_pem + next_.vouched_pem).ok());
  EXPECT_EQ(ReadAuthority(folder())->key_pem, before_.key_pem);
  EXPECT_FALSE(*FinishChange(folder()));
  EXPECT_FALSE(fs::exists(next_file()));
  EXPECT_EQ(ReadAuthority(folder())->key_pem, before_.key_pem);
}

TEST_F(ChangedFolder, AnEndAfterThatIsOneThatIsFinished) {
  ASSERT_TRUE(WriteSecret(next_file(), next_.key_pem + next_.vouched_pem).ok());
  ASSERT_TRUE(WriteIdentity(folder(), Coordinator(next_)).ok());
  EXPECT_EQ(ReadAuthority(folder())->key_pem, before_.key_pem) << "both are trusted";
  EXPECT_TRUE(*FinishChange(folder()));
  EXPECT_EQ(ReadAuthority(folder())->key_pem, next_.key_pem);
  EXPECT_FALSE(*FinishChange(folder()));
}

}  // namespace
}  // namespace muster
