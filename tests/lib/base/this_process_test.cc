#include "lib/base/this_process.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

namespace muster {
namespace {

constexpr char kBoot[] = "ceb7b9fc-ff2f-4e10-957c-6a023ded4239\n";

// Of one length whatever the numbers, so that columns stay as wide as they are.
TEST(Node, IsOfTheBootAndTheNetwork) {
  EXPECT_EQ(NodeOf(kBoot, 4026531833), "ceb7b9fcff2f-effffff9");
  EXPECT_EQ(NodeOf(kBoot, 7), "ceb7b9fcff2f-00000007");
  EXPECT_EQ(NodeOf("CEB7B9FC-FF2F-4E10", 7), "ceb7b9fcff2f-00000007");
  for (const char* none : {"", "\n", "ceb7b9fc-ff2", "no boot at all"})
    EXPECT_EQ(NodeOf(none, 7), "") << none;
}

TEST(Node, IsTheSameForAllProcessesOfAMachine) {
  const std::string own = OwnNode();
  EXPECT_FALSE(own.empty());
  EXPECT_EQ(OwnNode(), own);
  const pid_t child = fork();
  if (child == 0) {
    // Whatever its machine is called.
    if (unshare(CLONE_NEWUTS) == 0 && sethostname("another", 7) != 0) _exit(2);
    _exit(OwnNode() == own ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// As a host of a test is, and a container with a network of its own.
TEST(Node, IsAnotherInANetworkOfItsOwn) {
  const std::string own = OwnNode();
  if (own == HostName()) GTEST_SKIP() << "the kernel does not tell which boot it is";
  constexpr int kNotAllowed = 77;
  const pid_t child = fork();
  if (child == 0) {
    if (unshare(CLONE_NEWNET) != 0) _exit(kNotAllowed);
    const std::string there = OwnNode();
    _exit(there != own && there.size() == own.size() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kNotAllowed) GTEST_SKIP() << "network namespaces are not allowed here";
  EXPECT_EQ(WEXITSTATUS(status), 0) << "the node is the same in another network";
}

}  // namespace
}  // namespace muster
