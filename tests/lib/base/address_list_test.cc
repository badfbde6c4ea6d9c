#include "lib/base/address_list.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(AddressList, KeepsTheOrderAndDropsWhatIsThereTwice) {
  EXPECT_THAT(ParseAddressList("10.0.0.1:7070").value(), ElementsAre("10.0.0.1:7070"));
  EXPECT_THAT(ParseAddressList("10.0.0.2:7070,[fd00::7]:1,10.0.0.2:7070,10.0.0.1:7070").value(),
              ElementsAre("10.0.0.2:7070", "[fd00::7]:1", "10.0.0.1:7070"));
}

TEST(AddressList, WhatIsWrongIsNamed) {
  for (const auto& [list, words] : std::vector<std::pair<std::string, std::string>>{
           {"", "has no port"},
           {"10.0.0.1:1,", "entry 2"},
           {",10.0.0.1:1", "entry 1"},
           {"10.0.0.1:1,10.0.0.2", "\"10.0.0.2\" has no port"},
           {"10.0.0.1:1,fd00::7:1", "\"fd00::7:1\" needs brackets"},
           {"10.0.0.1:1,10.0.0.2:70000", "\"10.0.0.2:70000\" has a wrong port"}}) {
    const absl::Status status = ParseAddressList(list).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << list;
    EXPECT_THAT(status.message(), HasSubstr(words)) << list;
  }
}

TEST(AddressList, SixteenAndNoMore) {
  std::string list = "10.0.0.1:1";
  for (int i = 2; i <= 16; ++i) list += ",10.0.0.1:" + std::to_string(i);
  EXPECT_EQ(ParseAddressList(list).value().size(), 16u);
  EXPECT_THAT(ParseAddressList(list + ",10.0.0.1:17").status().message(), HasSubstr("at most 16"));
}

TEST(AddressRound, BeginsAnewAfterTheLast) {
  AddressRound round("a:1,b:1");
  EXPECT_EQ(round.current(), "a:1");
  round.GoOn();
  EXPECT_EQ(round.current(), "b:1");
  round.GoOn();
  EXPECT_EQ(round.current(), "a:1");
}

}  // namespace
}  // namespace muster
