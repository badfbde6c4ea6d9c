#include "lib/base/failpoint.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

namespace muster {
namespace {

TEST(Failpoints, FiresAtTheAskedPassAndNoOther) {
  std::vector<std::string> fired;
  Failpoints points([&](absl::string_view point) { fired.emplace_back(point); });
  points.Pass("forward");
  EXPECT_TRUE(points.Arm("forward:3").ok());
  EXPECT_TRUE(points.Arm("donor:1").ok());
  for (int pass = 0; pass < 5; ++pass) points.Pass("forward");
  EXPECT_EQ(fired, (std::vector<std::string>{"forward"}));
  points.Pass("donor");
  EXPECT_EQ(fired.back(), "donor");
}

TEST(Failpoints, UnknownPointsAndPassesAreRefused) {
  Failpoints points([](absl::string_view) {});
  for (const char* wrong : {"", "forwards:1", "forward", "forward:", "forward:0", "forward:-1",
                            "forward:x", "forward:1:2"})
    EXPECT_TRUE(absl::IsInvalidArgument(points.Arm(wrong))) << wrong;
  EXPECT_NE(points.Arm("nowhere:1").message().find("half_sent"), absl::string_view::npos)
      << "the known ones are named";
}

TEST(Failpoints, DyingIsAKillAndIsReported) {
  int pipes[2];
  ASSERT_EQ(pipe(pipes), 0);
  const pid_t child = fork();
  if (child == 0) DieAt("donor", pipes[1]);
  close(pipes[1]);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  char text[100] = {};
  ASSERT_GT(read(pipes[0], text, sizeof(text) - 1), 0);
  EXPECT_STREQ(text, "{\"event\":\"failpoint\",\"point\":\"donor\"}\n");
  close(pipes[0]);
}

}  // namespace
}  // namespace muster
