// This test binary once more, with other arguments, as a child that reports lines on its standard
// output.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

namespace muster {

// Ends with its owner: killed by the destructor, and by its next report once the owner's process is
// gone (SIGPIPE).
class Child {
 public:
  explicit Child(std::vector<std::string> arguments) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return;
    std::string self = "/proc/self/exe";
    std::vector<char*> argv = {self.data()};
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    pid_ = fork();
    if (pid_ == 0) {
      dup2(ends[1], STDOUT_FILENO);
      execv(self.c_str(), argv.data());
      _exit(127);
    }
    close(ends[1]);
    report_ = ends[0];
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    Kill();
    if (report_ >= 0) close(report_);
  }

  // Waits for the next line; false at the end of the child.
  bool ReadLine(std::string& line) {
    line.clear();
    for (char c; read(report_, &c, 1) == 1;) {
      if (c == '\n') return true;
      line += c;
    }
    return false;
  }
  void Kill() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  pid_t pid_ = -1;
  int report_ = -1;
};

// One line to the owner, in one write.
inline void Report(const std::string& text) {
  const std::string line = text + "\n";
  if (write(STDOUT_FILENO, line.data(), line.size()) != static_cast<ssize_t>(line.size())) _exit(1);
}

}  // namespace muster
