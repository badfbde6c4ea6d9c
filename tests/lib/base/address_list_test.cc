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
           {"10.0.0.1:1,10.0.0.2:70000", "\"10.0.0.2:70000\" has a wrong port"},
           {"10.0.0.256:1", "neither a numeric host nor the name of one"},
           {"10.1:1", "neither a numeric host nor the name of one"},
           {"db:1,a b:1", "\"a b:1\" has neither a numeric host nor the name of one"},
           {"[fd00::7::1]:1", "neither a numeric host nor the name of one"}}) {
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

TEST(AddressList, TellsNamesFromWhatNeedsNoLookup) {
  EXPECT_THAT(ParseAddressList("coordinator-0.muster.svc.:7070,db_1:1").value(),
              ElementsAre("coordinator-0.muster.svc.:7070", "db_1:1"));
  EXPECT_EQ(NameIn("coordinator-0.muster.svc.:7070"), "coordinator-0.muster.svc.");
  for (const char* address : {"localhost:1", "10.0.0.1:1", "[fd00::7]:1", "no port"})
    EXPECT_EQ(NameIn(address), std::nullopt) << address;
}

TEST(AddressRound, BeginsAnewAfterTheLast) {
  AddressRound round("a:1,b:1");
  EXPECT_EQ(round.current(), "a:1");
  round.GoOn();
  EXPECT_EQ(round.current(), "b:1");
  round.GoOn();
  EXPECT_EQ(round.current(), "a:1");
}

TEST(AddressRound, TriesEachAddressOfANameAndThenTheNextEntry) {
  using Found = std::vector<std::string>;
  AddressRound round("db:7,10.0.0.9:1");
  const auto next = [&](const Found& found) {
    const std::string address =
        round.NameToLookUp() ? round.Choose(found) : std::string(round.current());
    round.GoOn();
    return address;
  };
  const Found two = {"10.0.0.1", "[fd00::1]"};
  EXPECT_EQ(next(two), "10.0.0.1:7");
  EXPECT_EQ(next(two), "[fd00::1]:7");
  EXPECT_EQ(next(two), "10.0.0.9:1");
  EXPECT_EQ(next(two), "10.0.0.1:7");
  // The answer has changed meanwhile, and nothing in it is behind the one that was tried.
  EXPECT_EQ(next({"10.0.0.0"}), "10.0.0.0:7");
  EXPECT_EQ(next(two), "10.0.0.9:1");
}

TEST(AddressRound, OthersMustBeMetEverywhereInOneRound) {
  constexpr bool kOther = true, kNobody = false;
  AddressRound round("10.0.0.1:1,10.0.0.2:1");
  round.GoOn(kOther);
  EXPECT_FALSE(round.OthersEverywhere());
  round.GoOn(kNobody);
  EXPECT_FALSE(round.OthersEverywhere()) << "ours may come back there";
  round.GoOn(kNobody);
  round.GoOn(kOther);
  EXPECT_FALSE(round.OthersEverywhere());
  round.GoOn(kOther);
  round.GoOn(kOther);
  EXPECT_TRUE(round.OthersEverywhere());

  AddressRound named("db:7");
  named.Choose({"10.0.0.1", "10.0.0.2"});
  named.GoOn(kOther);
  EXPECT_FALSE(named.OthersEverywhere()) << "the name has another address";
  named.Choose({"10.0.0.1", "10.0.0.2"});
  named.GoOn(kOther);
  EXPECT_TRUE(named.OthersEverywhere());
  named.Answers();
  EXPECT_FALSE(named.OthersEverywhere());
}

TEST(AddressRound, SaysTheListFromWhatAnswered) {
  AddressRound round("a:1,b:1,c:1");
  EXPECT_EQ(round.FromWhatAnswered(), "a:1,b:1,c:1");
  round.GoOn();
  EXPECT_EQ(round.FromWhatAnswered(), "a:1,b:1,c:1") << "nobody answered";
  round.Answers();
  round.GoOn();
  EXPECT_EQ(round.FromWhatAnswered(), "b:1,c:1,a:1");
}

TEST(AddressRound, WhatAnsweredIsTriedFirstWhileItsNameHasIt) {
  AddressRound round("db:7,10.0.0.9:1");
  const std::vector<std::string> two = {"10.0.0.1", "10.0.0.2"};
  round.Choose(two);
  round.GoOn();
  EXPECT_EQ(round.Choose(two), "10.0.0.2:7");
  round.Answers();
  EXPECT_EQ(round.Choose(two), "10.0.0.2:7");
  round.Answers();
  EXPECT_EQ(round.Choose({"10.0.0.3"}), "10.0.0.3:7");
}

}  // namespace
}  // namespace muster
