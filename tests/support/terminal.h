// A program under test that has a terminal.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <string>
#include <vector>

#include "tests/support/program.h"

namespace muster {

struct Shown {
  int exit_code = -1;
  std::string text;
};

// What the program writes to a terminal of that kind.
inline Shown OnATerminal(std::vector<std::string> command, const char* term) {
  Shown shown;
  const int ours = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  std::array<char, 64> name{};
  if (ours < 0 || grantpt(ours) != 0 || unlockpt(ours) != 0 ||
      ptsname_r(ours, name.data(), name.size()) != 0)
    return shown;
  const int theirs = open(name.data(), O_RDWR | O_NOCTTY | O_CLOEXEC);
  std::vector<char*> words;
  for (std::string& word : command) words.push_back(word.data());
  words.push_back(nullptr);
  const pid_t pid = fork();
  if (pid == 0) {
    setenv("TERM", term, 1);
    dup2(open("/dev/null", O_RDONLY | O_CLOEXEC), 0);
    dup2(theirs, 1);
    dup2(theirs, 2);
    execv(words[0], words.data());
    _exit(127);
  }
  close(theirs);
  std::array<char, 4096> buffer{};
  pollfd wait{.fd = ours, .events = POLLIN, .revents = 0};
  while (poll(&wait, 1, kWaitMilliseconds) == 1) {
    const ssize_t n = read(ours, buffer.data(), buffer.size());
    if (n <= 0) break;  // it has ended
    shown.text.append(buffer.data(), static_cast<size_t>(n));
  }
  close(ours);
  int status = 0;
  if (waitpid(pid, &status, 0) == pid && WIFEXITED(status)) shown.exit_code = WEXITSTATUS(status);
  return shown;
}

}  // namespace muster
