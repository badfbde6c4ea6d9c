// `muster demo` from start to end, on a model that is small enough for a test.
#include <cstdlib>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/cluster.h"
#include "tests/integration/jobs.h"
#include "tests/support/program.h"

namespace muster::integration {
namespace {

using ::testing::HasSubstr;

// The number that follows `words` and spaces; -1: none does.
int NumberAfter(const std::string& text, const std::string& words) {
  const size_t at = text.find(words);
  return at == std::string::npos ? -1 : std::atoi(text.c_str() + at + words.size());
}

TEST(DemoTest, KillsAWorkerAndTheCoordinatorAndShowsTheSameBits) {
  constexpr char kSample[] = "What the trained model writes:\n";
  const Folder folder;
  // Four times as many as are done before whoever was killed is back.
  WriteFile(folder / "spec.yaml", LanguageSpec(folder / "data", /*lanes=*/6, /*steps=*/400));
  AdoptOrphans();
  Program demo({std::string(MUSTER_PROGRAMS) + "/muster", "demo", "--spec", folder / "spec.yaml",
                "--dir", folder / "runs", "--set", "fingerprint_every=1", "--set",
                "checkpoint.every_steps=50"});
  const int exit_code = demo.End();
  const std::string& said = demo.output();
  EXPECT_EQ(exit_code, 0) << said;
  EXPECT_THAT(said, HasSubstr("The fingerprints agree"));
  EXPECT_GE(NumberAfter(said, "recoveries "), 1) << said;
  EXPECT_GE(NumberAfter(said, "steps without coordinator "), 20) << said;
  const size_t sample = said.find(kSample);
  ASSERT_NE(sample, std::string::npos) << said;
  EXPECT_GT(said.size(), sample + sizeof kSample) << said;
  ExpectNoChildren();
}

}  // namespace
}  // namespace muster::integration
