// The program itself with its real coordinator: what it leaves behind when it ends, and when it is killed.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace muster {
namespace {

constexpr int kWaitMilliseconds = 40'000;

// `muster` with arguments; its standard output and error come through one pipe.
class Program {
 public:
  explicit Program(std::vector<std::string> arguments) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) std::abort();
    arguments.insert(arguments.begin(), MUSTER_PROGRAM);
    std::vector<char*> words;
    for (std::string& word : arguments) words.push_back(word.data());
    words.push_back(nullptr);
    pid_ = fork();
    if (pid_ == 0) {
      dup2(ends[1], 1);
      dup2(ends[1], 2);
      execv(words[0], words.data());
      _exit(127);
    }
    close(ends[1]);
    out_ = ends[0];
  }
  ~Program() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    close(out_);
  }

  // Reads until the output holds `text` at or after `from`; false at its end, or when it does not come.
  bool WaitFor(const std::string& text, size_t from = 0) {
    while (output_.find(text, from) == std::string::npos) {
      pollfd wait{.fd = out_, .events = POLLIN, .revents = 0};
      char buffer[4096];
      const ssize_t n = poll(&wait, 1, kWaitMilliseconds) == 1 ? read(out_, buffer, sizeof buffer) : 0;
      if (n <= 0) return false;
      output_.append(buffer, static_cast<size_t>(n));
    }
    return true;
  }
  std::vector<pid_t> Children() const {
    const std::string pid = std::to_string(pid_);
    std::ifstream in("/proc/" + pid + "/task/" + pid + "/children");
    std::vector<pid_t> children;
    for (pid_t child = 0; in >> child;) children.push_back(child);
    return children;
  }
  void Signal(int signal) const { kill(pid_, signal); }
  // Exit code, or minus the signal.
  int Wait() {
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
  }
  const std::string& output() const { return output_; }

 private:
  pid_t pid_ = -1;
  int out_ = -1;
  std::string output_;
};

std::string MakeFolder() {
  std::string folder = ::testing::TempDir() + "/muster-program-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) std::abort();
  return folder;
}

std::vector<int> Watch(const std::vector<pid_t>& pids) {
  std::vector<int> watches;
  for (const pid_t pid : pids) watches.push_back(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  return watches;
}

void ExpectGone(const std::vector<int>& watches) {
  for (const int watch : watches) {
    pollfd wait{.fd = watch, .events = POLLIN, .revents = 0};
    EXPECT_EQ(poll(&wait, 1, kWaitMilliseconds), 1) << "a process was left behind";
    close(watch);
  }
}

TEST(MusterTest, CtrlCEndsAnIdleClusterAndAllOfIt) {
  Program program({"up", "--dir", MakeFolder(), "--listen", "127.0.0.1:0"});
  ASSERT_TRUE(program.WaitFor("ready at")) << program.output();
  const std::vector<int> watches = Watch(program.Children());
  ASSERT_EQ(watches.size(), 1u) << "the coordinator";
  program.Signal(SIGINT);
  EXPECT_EQ(program.Wait(), 0);
  ExpectGone(watches);
}

TEST(MusterTest, AKilledClusterLeavesNothingBehind) {
  Program program({"up", "--dir", MakeFolder(), "--listen", "127.0.0.1:0"});
  ASSERT_TRUE(program.WaitFor("ready at")) << program.output();
  const std::vector<int> watches = Watch(program.Children());
  ASSERT_EQ(watches.size(), 1u) << "the coordinator";
  program.Signal(SIGKILL);
  EXPECT_EQ(program.Wait(), -SIGKILL);
  ExpectGone(watches);
}

TEST(MusterTest, AKilledCoordinatorComesBack) {
  Program program({"up", "--dir", MakeFolder(), "--listen", "127.0.0.1:0"});
  ASSERT_TRUE(program.WaitFor("ready at")) << program.output();
  const std::vector<pid_t> before = program.Children();
  ASSERT_EQ(before.size(), 1u);
  kill(before[0], SIGKILL);
  ASSERT_TRUE(program.WaitFor("coordinator was killed by SIGKILL; it starts again in 0.2 s")) << program.output();
  EXPECT_TRUE(program.WaitFor("ready at", program.output().find("SIGKILL"))) << program.output();
}

TEST(MusterTest, OneFolderOneCluster) {
  const std::string folder = MakeFolder();
  Program first({"up", "--dir", folder, "--listen", "127.0.0.1:0"});
  ASSERT_TRUE(first.WaitFor("ready at")) << first.output();
  Program second({"up", "--dir", folder, "--listen", "127.0.0.1:0"});
  EXPECT_TRUE(second.WaitFor("is in use by another muster")) << second.output();
  EXPECT_EQ(second.Wait(), 64);
}

TEST(MusterTest, BadWordsAndFilesAreBadConfiguration) {
  Program unknown({"trian"});
  EXPECT_TRUE(unknown.WaitFor("--help")) << unknown.output();
  EXPECT_EQ(unknown.Wait(), 64);
  Program missing({"train", "nowhere.yaml"});
  EXPECT_TRUE(missing.WaitFor("cannot read nowhere.yaml")) << missing.output();
  EXPECT_EQ(missing.Wait(), 64);
  const std::string spec = MakeFolder() + "/spec.yaml";
  std::ofstream(spec) << "task: counting\nepohcs: 2\nbatch: 8\n";
  Program wrong({"train", spec, "--dir", MakeFolder()});
  EXPECT_TRUE(wrong.WaitFor("epohcs")) << wrong.output();
  EXPECT_EQ(wrong.Wait(), 64);
}

}  // namespace
}  // namespace muster
