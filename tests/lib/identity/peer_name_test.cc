#include "lib/identity/peer_name.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

const MemberPeer kMember{"demo", "worker-0", PlacementNumber(7), Incarnation{1, 0xff}};

TEST(PeerName, IsWrittenAndReadBack) {
  const std::pair<PeerName, std::string> all[] = {
      {{"c1", CoordinatorPeer{}}, "spiffe://c1/coordinator"},
      {{"c1", HostPeer{"node7"}}, "spiffe://c1/host/node7"},
      {{"c1", UserPeer{"eve"}}, "spiffe://c1/user/eve"},
      {{"c1", kMember}, "spiffe://c1/job/demo/worker-0/7/000000000000000100000000000000ff"},
  };
  for (const auto& [name, uri] : all) {
    EXPECT_EQ(ToUri(name), uri);
    const absl::StatusOr<PeerName> read = ParsePeerName(uri);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(*read, name);
  }
}

TEST(PeerName, IsWrittenInOneWayOnly) {
  const std::string hex(32, '0');
  const std::string all[] = {"",
                             "spiffe://",
                             "spiffe://c1",
                             "spiffe://c1/",
                             "spiffe:///coordinator",
                             "http://c1/coordinator",
                             "SPIFFE://c1/coordinator",
                             "spiffe://c1/coordinator/",
                             "spiffe://c1//coordinator",
                             "spiffe://c1/coordinators",
                             "spiffe://c1/host",
                             "spiffe://c1/host/",
                             "spiffe://c1/host/a/b",
                             "spiffe://c1/host/..",
                             "spiffe://c1/host/a b",
                             "spiffe://c1/host/a%20b",
                             "spiffe://c1/host/a\n",
                             std::string("spiffe://c1/host/a\0b", 20),
                             "spiffe://c1/user/-x",
                             "spiffe://c1:443/coordinator",
                             "spiffe://u@c1/coordinator",
                             "spiffe://c1/coordinator?x",
                             "spiffe://c1/coordinator#x",
                             "spiffe://c1/job/j/w/7",
                             "spiffe://c1/job/j/w//" + hex,
                             "spiffe://c1/job/j/w/07/" + hex,
                             "spiffe://c1/job/j/w/-7/" + hex,
                             "spiffe://c1/job/j/w/+7/" + hex,
                             "spiffe://c1/job/j/w/99999999999999999999/" + hex,
                             "spiffe://c1/job/j/w/7/" + hex + "0",
                             "spiffe://c1/job/j/w/7/" + hex.substr(1),
                             "spiffe://c1/job/j/w/7/" + std::string(32, 'A'),
                             "spiffe://c1/job/j/w/7/" + std::string(32, 'g'),
                             "spiffe://c1/job/j/w/7/0x" + hex.substr(2),
                             "spiffe://c1/job/j/w/7/" + hex + "/",
                             "spiffe://" + std::string(2000, 'c') + "/coordinator"};
  for (const std::string& uri : all) {
    const absl::StatusOr<PeerName> read = ParsePeerName(uri);
    EXPECT_EQ(read.status().code(), absl::StatusCode::kInvalidArgument) << uri;
  }
}

TEST(PeerName, IsComparedWithWhoIsExpected) {
  const PeerName coordinator{"c1", CoordinatorPeer{}}, host{"c1", HostPeer{"a"}},
      member{"c1", kMember};
  EXPECT_TRUE(CheckExpected(CoordinatorPeer{}, coordinator).ok());
  const Incarnation its = kMember.incarnation;
  EXPECT_TRUE(CheckExpected(ExpectedMember{"demo", "worker-0", its}, member).ok());
  const std::pair<ExpectedPeer, PeerName> others[] = {
      {CoordinatorPeer{}, host},
      {CoordinatorPeer{}, member},
      {ExpectedMember{"demo", "worker-0", its}, coordinator},
      {ExpectedMember{"demo", "worker-1", its}, member},
      {ExpectedMember{"other", "worker-0", its}, member},
      {ExpectedMember{"demo", "worker-0", Incarnation{1, 0xfe}}, member},
  };
  for (const auto& [expected, there] : others)
    EXPECT_EQ(CheckExpected(expected, there).code(), absl::StatusCode::kPermissionDenied);
}

}  // namespace
}  // namespace muster
