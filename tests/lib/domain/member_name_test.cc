#include "lib/domain/member_name.h"

#include <string>

#include "gtest/gtest.h"

namespace muster {
namespace {

TEST(MemberNameTest, LettersDigitsAndThreeSigns) {
  for (const char* name : {"worker-0", "server-12", "a", "7", "_", "a-b_c.d", "a."})
    EXPECT_TRUE(IsMemberName(name)) << name;
  for (const char* name :
       {"", " ", "a b", "a/b", "..", ".a", "-a", "a\nb", "\x1b[2J", "\xc3\xa4", "a\xff", "a:0"})
    EXPECT_FALSE(IsMemberName(name)) << name;
  EXPECT_FALSE(IsMemberName(std::string("a\0b", 3)));
}

TEST(MemberNameTest, OfBoundedLength) {
  EXPECT_TRUE(IsMemberName(std::string(kLongestMemberName, 'a')));
  EXPECT_FALSE(IsMemberName(std::string(kLongestMemberName + 1, 'a')));
  constexpr size_t kLongestFileName = 255;
  EXPECT_LE(kLongestMemberName + std::string(".log.1").size(), kLongestFileName);
}

}  // namespace
}  // namespace muster
