#include "lib/launch/own_address.h"

#include <algorithm>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(OwnAddress, IsTheOneThatAPersonOrTheLauncherNames) {
  const std::vector<OwnAddress> own = {
      {"lo", "127.0.0.1"}, {"eth0", "10.0.0.7"}, {"ib0", "10.1.0.7"}, {"ib0", "fd00::7"}};
  struct Row {
    const char* interface;
    std::vector<std::string> named;
    const char* chosen;
  };
  for (const Row& row :
       {Row{"", {"10.1.0.7"}, "10.1.0.7"}, Row{"", {"127.0.1.1"}, "10.0.0.7"},
        Row{"", {"127.0.1.1", "fd00::7"}, "fd00::7"}, Row{"", {"127.0.0.1"}, "127.0.0.1"},
        Row{"", {"::1"}, "10.0.0.7"}, Row{"", {}, "10.0.0.7"}, Row{"ib0", {"10.0.0.7"}, "10.1.0.7"},
        Row{"10.1.0.0/16", {}, "10.1.0.7"}, Row{"fd00::/8", {}, "fd00::7"},
        Row{"lo", {"10.0.0.7"}, "127.0.0.1"}}) {
    const auto chosen = ChooseAddress(own, row.interface, row.named);
    ASSERT_TRUE(chosen.ok()) << chosen.status();
    EXPECT_EQ(*chosen, row.chosen) << row.interface;
  }
  EXPECT_EQ(ChooseAddress({}, "", {}).value(), "127.0.0.1");
}

TEST(OwnAddress, AnInterfaceThatIsNotThereIsRefusedWithThoseThatAre) {
  for (const char* wrong : {"ib1", "10.9.0.0/16", "10.0.0.0", "10.0.0.0/99", "../x"}) {
    const auto chosen = ChooseAddress({{"eth0", "10.0.0.7"}}, wrong, {});
    EXPECT_EQ(chosen.status().code(), absl::StatusCode::kInvalidArgument) << wrong;
    EXPECT_THAT(std::string(chosen.status().message()), HasSubstr("eth0 (10.0.0.7)"));
  }
}

TEST(OwnAddress, AnOptionNamesAnAddressAnInterfaceOrANetwork) {
  const std::vector<OwnAddress> own = {
      {"lo", "127.0.0.1"}, {"eth0", "10.0.0.7"}, {"ib0", "10.1.0.7"}, {"ib0", "fd00::7"}};
  for (const auto& [wanted, chosen] :
       std::vector<std::pair<const char*, const char*>>{{"10.0.0.7", "10.0.0.7"},
                                                        {"ib0", "10.1.0.7"},
                                                        {"fd00::7", "fd00::7"},
                                                        {"FD00:0::7", "fd00::7"},
                                                        {"10.0.0.0/16", "10.0.0.7"},
                                                        {"127.0.0.2", "127.0.0.2"},
                                                        {"lo", "127.0.0.1"}}) {
    EXPECT_EQ(NamedAddress(own, "--metrics-address", wanted).value_or("none"), chosen);
  }
  for (const char* wrong : {"10.0.0.8", "0.0.0.0", "eth1", "10.9.0.0/16", "10.0.0.7:80", "[::1]"}) {
    const absl::Status said = NamedAddress(own, "--metrics-address", wrong).status();
    EXPECT_EQ(said.code(), absl::StatusCode::kInvalidArgument) << wrong;
    for (const char* says : {"--metrics-address: '", wrong, "eth0 (10.0.0.7)"})
      EXPECT_THAT(std::string(said.message()), HasSubstr(says));
  }
}

TEST(OwnAddress, WhereWeListenIsThisMachine) {
  const std::vector<OwnAddress> own = {{"eth0", "10.0.0.7"}, {"ib0", "fd00::7"}};
  for (const char* right : {"10.0.0.7:80", "[fd00:0::7]:0", "127.0.0.9:0", "[::1]:80", "0.0.0.0:80",
                            "[::]:80", "[0:0:0:0:0:0:0:0]:80", "localhost:0"})
    EXPECT_TRUE(CheckListensHere(own, "--listen", right).ok()) << right;
  for (const char* wrong : {"10.0.0.8:80", "[fd00::8]:80", "node-1:80", "eth0:80", "256.1.1.1:80",
                            "10.0.0.7", "10.0.0.7:99999"}) {
    const absl::Status said = CheckListensHere(own, "--listen", wrong);
    EXPECT_EQ(said.code(), absl::StatusCode::kInvalidArgument) << wrong;
    EXPECT_THAT(std::string(said.message()), HasSubstr("--listen: ")) << wrong;
  }
}

TEST(OwnAddress, NumericOnesStandForThemselves) {
  EXPECT_THAT(AddressesOf("10.0.0.7"), ElementsAre("10.0.0.7"));
  EXPECT_THAT(AddressesOf("fd00::7"), ElementsAre("fd00::7"));
  EXPECT_THAT(AddressesOf(std::string(300, 'a')), ElementsAre());
  EXPECT_EQ(BeforePort("fd00::7"), "[fd00::7]");
  EXPECT_EQ(BeforePort("10.0.0.7"), "10.0.0.7");
}

TEST(OwnAddress, LoopbackIsOneOfThem) {
  std::vector<std::string> ips;
  for (const OwnAddress& own : OwnAddresses()) ips.push_back(own.ip);
  EXPECT_THAT(ips, Contains("127.0.0.1"));
}

}  // namespace
}  // namespace muster
