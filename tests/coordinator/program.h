// The real muster-coordinator as a child of a test.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/text_of.h"

namespace muster::coordinator {

// MUSTER_COORDINATOR, the path of the program, is a compile definition of the test: the one that
// people get, or that of bench/plaintext.
class Program {
 public:
  // `dir` is its --dir; what it logs goes to `dir`.log. Any ports, unless `arguments` name others.
  // `descriptors`: how many files it may open, if not as many as we.
  explicit Program(const std::string& dir, std::vector<std::string> arguments = {},
                   rlim_t descriptors = 0)
      : log_(dir + ".log"), descriptors_(descriptors) {
    std::vector<std::string> command = {MUSTER_COORDINATOR};
    command.insert(command.end(), arguments.begin(), arguments.end());
    const std::pair<std::string, std::string> defaults[] = {{"--dir", dir},
                                                            {"--listen", "127.0.0.1:0"},
                                                            {"--http", "127.0.0.1:0"},
                                                            {"--log", log_},
                                                            {"--slots", "1"}};
    for (const auto& [flag, value] : defaults)
      if (std::find(arguments.begin(), arguments.end(), flag) == arguments.end())
        command.insert(command.end(), {flag, value});
    Spawn(std::move(command));
    ReadReport();
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program() {
    Kill();
    if (report_ >= 0) close(report_);
    if (errors_ >= 0) close(errors_);
  }

  pid_t pid() const { return pid_; }
  bool listens() const { return !http_.empty(); }
  const std::string& http() const { return http_; }
  const std::string& grpc() const { return grpc_; }
  const std::string& metrics() const { return metrics_; }
  const std::string& join() const { return join_; }
  std::string Url(const std::string& path) const { return "http://" + http_ + path; }

  void Kill() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    Wait();
  }
  void Terminate() { kill(pid_, SIGTERM); }
  // No file of it may grow beyond this any more.
  void LimitFileSize(rlim_t bytes) {
    const rlimit limit{bytes, RLIM_INFINITY};
    ASSERT_EQ(prlimit(pid_, RLIMIT_FSIZE, &limit, nullptr), 0);
  }
  // It may open no file and take no connection any more; what it has open stays.
  void LimitDescriptors() {
    const rlimit none{0, 0};
    ASSERT_EQ(prlimit(pid_, RLIMIT_NOFILE, &none, nullptr), 0);
  }
  // The exit code; 128 + n after signal n.
  int Wait() {
    int status = 0;
    waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  // What it has logged, and said on standard error. After Wait.
  std::string Said() {
    std::string said = TextOf(log_);
    char buffer[4096];
    for (ssize_t n; (n = read(errors_, buffer, sizeof buffer)) > 0;)
      said.append(buffer, static_cast<size_t>(n));
    return said;
  }

 private:
  void Spawn(std::vector<std::string> command) {
    int report[2];
    int errors[2];
    ASSERT_EQ(pipe2(report, O_CLOEXEC), 0);
    ASSERT_EQ(pipe2(errors, O_CLOEXEC), 0);
    command.insert(command.end(), {"--report-fd", "3"});
    std::vector<char*> argv;
    for (std::string& argument : command) argv.push_back(argument.data());
    argv.push_back(nullptr);
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      const rlimit few{descriptors_, descriptors_};
      if (descriptors_ > 0 && setrlimit(RLIMIT_NOFILE, &few) != 0) _exit(126);
      dup2(errors[1], STDERR_FILENO);
      dup2(report[1], 3);
      if (report[1] == 3) fcntl(3, F_SETFD, 0);
      execv(argv[0], argv.data());
      _exit(127);
    }
    close(report[1]);
    close(errors[1]);
    report_ = report[0];
    errors_ = errors[0];
  }
  // Until it listens or ends.
  void ReadReport() {
    std::string line;
    for (char c; read(report_, &c, 1) == 1 && c != '\n';) line += c;
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (!json.is_object() || json.value("event", "") != "listening") return;
    http_ = json.value("http", "");
    grpc_ = json.value("grpc", "");
    metrics_ = json.value("metrics", "");
    join_ = json.value("join", "");
  }

  const std::string log_;
  const rlim_t descriptors_;
  pid_t pid_ = -1;
  int report_ = -1;
  int errors_ = -1;
  std::string http_;
  std::string grpc_;
  std::string metrics_;
  std::string join_;  // empty: no host joins there
};

}  // namespace muster::coordinator
