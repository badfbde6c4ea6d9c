// What the programs that people get say of plain text; the test is linked as they are.
#include "lib/launch/plaintext.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(PlaintextTest, WithoutACertificateAProgramIsRefusedAndToldWhatToDo) {
  EXPECT_TRUE(CheckHasIdentity("/etc/muster/a", "ask for one").ok());
  const absl::Status refused = CheckHasIdentity("", "ask for one");
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("--identity: it is missing"), HasSubstr("ask for one")));
}

}  // namespace
}  // namespace muster
