#include "agent/state/log_words.h"

#include <string>

#include "gtest/gtest.h"

namespace muster::agent {
namespace {

TEST(LogWords, WhyIsWhatTheFirstErrorSays) {
  EXPECT_EQ(
      WhyOf("t info muster-worker worker-0 b\nt error muster-worker worker-0 data.paths: gone\n"
            "t error muster-worker worker-0 later"),
      "data.paths: gone");
  EXPECT_EQ(WhyOf("t error muster-coordinator --listen: taken\n"), "--listen: taken");
  EXPECT_EQ(WhyOf("{\"level\":\"info\",\"text\":\"b\"}\n"
                  "{\"level\":\"error\",\"text\":\"gone\"}\n{\"level"),
            "gone");
}

TEST(LogWords, WithoutAnErrorWhyIsTheLastWords) {
  EXPECT_EQ(WhyOf("t info muster-worker worker-0 b\nterminate called\n"), "terminate called");
  EXPECT_EQ(WhyOf("t info muster-worker worker-0 b\n"), "b");
  EXPECT_EQ(WhyOf("\n"), "");
  EXPECT_EQ(WhyOf(""), "");
}

TEST(LogWords, LastWordsAreAMessageWithoutItsTime) {
  EXPECT_EQ(LastWords("t info muster-coordinator a\nt error muster-coordinator --dir: full\n\n"),
            "--dir: full");
  EXPECT_EQ(LastWords("{\"text\":7}"), "{\"text\":7}");
  EXPECT_EQ(LastWords("[1]"), "[1]");
  EXPECT_EQ(LastWords("\n"), "its log is empty");
}

}  // namespace
}  // namespace muster::agent
