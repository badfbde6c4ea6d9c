#include "lib/domain/job_id.h"

#include <string>

#include "gtest/gtest.h"

namespace muster {
namespace {

TEST(JobIdTest, LettersDigitsAndThreeSigns) {
  for (const char* id : {"a", "7", "_", "a-b_c.d", "code-lm-00ff12", "a.", "a-"})
    EXPECT_TRUE(IsJobId(id)) << id;
  for (const char* id : {"", " ", "a b", "a/b", "..", "a\nb", "\x1b[2J", "\xc3\xa4", "a:stop"})
    EXPECT_FALSE(IsJobId(id)) << id;
  EXPECT_FALSE(IsJobId(std::string("a\0b", 3)));
}

TEST(JobIdTest, NoHiddenFileAndNoOption) {
  for (const char* id : {".a", "-a", "--yes", "-"}) EXPECT_FALSE(IsJobId(id)) << id;
  EXPECT_FALSE(IsJobId("muster-folder")) << "a file of that name marks the folder";
}

TEST(JobIdTest, OfBoundedLength) {
  EXPECT_TRUE(IsJobId(std::string(kLongestJobId, 'a')));
  EXPECT_FALSE(IsJobId(std::string(kLongestJobId + 1, 'a')));
}

}  // namespace
}  // namespace muster
