#include "lib/launch/host_list.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(HostFile, NamesHostsOnceInTheirOrder) {
  const auto hosts = ParseHostFile("# of PBS\nn2\nn2\n\n  n1 # the old one\nx[01-02],n2\r\n");
  ASSERT_TRUE(hosts.ok()) << hosts.status();
  EXPECT_THAT(hosts->hosts, ElementsAre("n2", "n1", "x01", "x02"));
  EXPECT_EQ(hosts->slots, std::nullopt);
}

TEST(HostFile, MaySayHowManySlotsEachHas) {
  const auto hosts = ParseHostFile("a slots=4\nb slots=4\n");
  ASSERT_TRUE(hosts.ok()) << hosts.status();
  EXPECT_EQ(hosts->slots, 4);
}

TEST(HostFile, SaysWhichLineIsWrong) {
  struct Row {
    const char* text;
    const char* says;
  };
  for (const Row& row :
       {Row{"", "names no host"}, Row{"# a\n", "names no host"}, Row{"a\nme@b\n", "'me@b'"},
        Row{"a slots=0", "slots=N"}, Row{"a slots=", "slots=N"}, Row{"a port=22", "~/.ssh/config"},
        Row{"a slots=2\nb slots=3", "another number of slots"},
        Row{"a slots=2\nb", "another number of slots"}, Row{"-oProxyCommand=x", "not the name"},
        Row{"n[1-9999]", "more than"}}) {
    const auto hosts = ParseHostFile(row.text);
    ASSERT_FALSE(hosts.ok()) << row.text;
    EXPECT_THAT(std::string(hosts.status().message()), HasSubstr(row.says));
  }
}

TEST(Exclude, TakesHostsOutAndRefusesNamesThatAreNone) {
  const NamedHosts all{.hosts = {"n1", "n2", "n3"}};
  EXPECT_THAT(WithoutHosts(all, {"n1,n3"})->hosts, ElementsAre("n2"));
  EXPECT_THAT(WithoutHosts(all, {"n[1-2]"})->hosts, ElementsAre("n3"));
  EXPECT_EQ(*WithoutHosts(all, {}), all);
  EXPECT_THAT(std::string(WithoutHosts(all, {"n4"}).status().message()),
              HasSubstr("n4 is not among the hosts"));
  EXPECT_THAT(std::string(WithoutHosts(all, {"n[1-3]"}).status().message()),
              HasSubstr("leaves no host"));
}

}  // namespace
}  // namespace muster
