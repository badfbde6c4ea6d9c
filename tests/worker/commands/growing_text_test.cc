#include "worker/commands/growing_text.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace muster::worker {
namespace {

TEST(GrowingText, IsThereAsSoonAsItIsToldInWholeCharacters) {
  std::ostringstream out;
  const absl::Status written =
      WriteGrowingText(out, "so ", [&](const TextListener& told) -> absl::StatusOr<std::string> {
        EXPECT_EQ(out.str(), "so ");
        EXPECT_TRUE(told("z\xc3").ok());
        EXPECT_EQ(out.str(), "so z");
        EXPECT_TRUE(told("\xbc\x1b").ok());
        EXPECT_EQ(out.str(), "so z\xc3\xbc\\x1b");
        return "z\xc3\xbc\x1brich\xe2";
      });
  EXPECT_TRUE(written.ok()) << written;
  EXPECT_EQ(out.str(), "so z\xc3\xbc\\x1brich?\n");
}

TEST(GrowingText, OfOneThatTellsNothingAllIsThereAtItsEnd) {
  std::ostringstream out;
  EXPECT_TRUE(WriteGrowingText(out, "", [](const TextListener&) { return "all"; }).ok());
  EXPECT_EQ(out.str(), "all\n");
}

TEST(GrowingText, WhereItFailsWhatIsThereEndsItsLine) {
  std::ostringstream out;
  const absl::Status failed =
      WriteGrowingText(out, "a", [](const TextListener& told) -> absl::StatusOr<std::string> {
        EXPECT_TRUE(told("b").ok());
        return absl::DataLossError("no more");
      });
  EXPECT_EQ(failed, absl::DataLossError("no more"));
  EXPECT_EQ(out.str(), "ab\n");
}

TEST(GrowingText, WhoeverMakesItHearsThatNobodyReads) {
  std::ostringstream out;
  const absl::Status failed =
      WriteGrowingText(out, "a", [&](const TextListener& told) -> absl::StatusOr<std::string> {
        out.setstate(std::ios::badbit);
        const absl::Status heard = told("b");
        EXPECT_TRUE(absl::IsCancelled(heard)) << heard;
        return heard;
      });
  EXPECT_TRUE(absl::IsCancelled(failed)) << failed;
}

}  // namespace
}  // namespace muster::worker
