#include "agent/runtime/devices.h"

#include <filesystem>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster::agent {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> Ids(const std::string& said, std::optional<std::string> visible = {}) {
  const auto ids = DevicesOfHost(said, visible, "/nowhere");
  EXPECT_TRUE(ids.ok()) << ids.status();
  return ids.value_or(std::vector<std::string>{"bad"});
}

TEST(DevicesOfHost, AreAsManyAsWereSaidOrThoseThatWereNamed) {
  EXPECT_THAT(Ids("none", "0,1"), IsEmpty());
  EXPECT_THAT(Ids("0"), IsEmpty());
  EXPECT_THAT(Ids("3"), ElementsAre("0", "1", "2"));
  EXPECT_THAT(Ids("3,"), ElementsAre("3"));
  EXPECT_THAT(Ids("5,2"), ElementsAre("5", "2"));
  EXPECT_THAT(Ids("GPU-8932f937"), ElementsAre("GPU-8932f937"));
}

TEST(DevicesOfHost, AreThoseThatCudaWouldSee) {
  EXPECT_THAT(Ids("auto"), IsEmpty());
  EXPECT_THAT(Ids("auto", ""), IsEmpty());
  EXPECT_THAT(Ids("auto", "2, 3"), ElementsAre("2", "3"));
  EXPECT_THAT(Ids("auto", "1,-1,2"), ElementsAre("1")) << "nothing after what is no device";
  EXPECT_THAT(Ids("auto", "NoDevFiles"), IsEmpty());
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / "devices_of_host";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  for (const char* name : {"nvidia0", "nvidia5", "nvidiactl", "nvidia-uvm", "null"})
    std::ofstream(folder / name) << "";
  EXPECT_THAT(DevicesOfHost("auto", {}, folder).value(), ElementsAre("0", "1"));
  EXPECT_THAT(DevicesOfHost("auto", "7", folder).value(), ElementsAre("7"));
  std::filesystem::remove_all(folder);
}

TEST(DevicesOfHost, WhatIsNoListIsRefusedWithWhatIsOne) {
  for (const char* said : {"", ",", "0,,1", "a b", "1,1", "-1", "1000", "99999999999999999999",
                           "00", "007", "0,01", "00,"}) {
    const absl::Status refused = DevicesOfHost(said, {}, "/nowhere").status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << said;
    EXPECT_THAT(refused.message(), HasSubstr("--devices")) << said;
    EXPECT_THAT(refused.message(), HasSubstr("such as 0,1")) << said;
  }
}

}  // namespace
}  // namespace muster::agent
