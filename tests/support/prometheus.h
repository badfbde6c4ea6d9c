// Debian's Prometheus as a child of a test, with examples/prometheus.yml.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/http/client.h"
#include "nlohmann/json.hpp"

namespace muster {

inline constexpr char kPrometheus[] = "/usr/bin/prometheus";

// The example as it stands, but for its pace. MUSTER_EXAMPLE, its path, is a compile definition of
// the test.
inline void WritePrometheusConfig(const std::string& folder) {
  std::ifstream in(MUSTER_EXAMPLE);
  std::stringstream text;
  text << in.rdbuf();
  ASSERT_THAT(text.str(), testing::HasSubstr("scrape_interval: 5s"));
  std::ofstream(folder + "/prometheus.yml") << absl::StrReplaceAll(
      text.str(), {{"_interval: 5s", "_interval: 1s"}, {"_timeout: 4s", "_timeout: 1s"}});
}

// On a free port of loopback, with the prometheus.yml of `folder`; ended with this object, or with
// the test's process.
class Prometheus {
 public:
  explicit Prometheus(const std::string& folder) {
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    const std::string config = "--config.file=" + folder + "/prometheus.yml";
    const std::string data = "--storage.tsdb.path=" + folder + "/data";
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      dup2(ends[1], STDERR_FILENO);
      execl(kPrometheus, kPrometheus, config.c_str(), data.c_str(),
            "--web.listen-address=127.0.0.1:0", nullptr);
      _exit(127);
    }
    close(ends[1]);
    log_ = fdopen(ends[0], "r");
    ReadAddress();
  }
  Prometheus(const Prometheus&) = delete;
  Prometheus& operator=(const Prometheus&) = delete;
  ~Prometheus() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    std::fclose(log_);
  }

  bool listens() const { return !address_.empty(); }
  const std::string& said() const { return said_; }
  const std::string& address() const { return address_; }

  // The first series of the query's result, or null.
  nlohmann::json Query(const std::string& query) const {
    std::string url = "http://" + address_ + "/api/v1/query?query=";
    for (const unsigned char c : query) absl::StrAppendFormat(&url, "%%%02X", c);
    const auto got = http::Get(url, {.timeout = std::chrono::seconds(2)});
    if (!got.ok() || got->status != 200) return nullptr;
    const auto body = nlohmann::json::parse(got->body, nullptr, false);
    if (!body.is_object() || body["data"]["result"].empty()) return nullptr;
    return body["data"]["result"][0];
  }

 private:
  // From its log; none where it ended before it listened.
  void ReadAddress() {
    std::array<char, 4096> line;
    while (std::fgets(line.data(), line.size(), log_) != nullptr) {
      const std::string text(line.data());
      const size_t at = text.find("msg=\"Listening on\" address=");
      if (at != std::string::npos) {
        address_ = text.substr(at + 27, text.find_first_of(" \n", at + 27) - at - 27);
        return;
      }
      said_ += text;
    }
  }

  pid_t pid_ = -1;
  FILE* log_ = nullptr;
  std::string address_;
  std::string said_;
};

}  // namespace muster
