// Debian's Prometheus, with examples/prometheus.yml, finds a server of ours through its targets
// file and stores what Metrics counts.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "lib/base/mailbox.h"
#include "lib/http/client.h"
#include "lib/http/server.h"

namespace muster::http {
namespace {

namespace fs = std::filesystem;
constexpr char kProgram[] = "/usr/bin/prometheus";
constexpr Duration kLimit = std::chrono::seconds(60);

// A Prometheus on a free port of loopback; ended with this object, or with the test's process.
class Prometheus {
 public:
  explicit Prometheus(const fs::path& folder) {
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    const std::string config = "--config.file=" + (folder / "prometheus.yml").string();
    const std::string data = "--storage.tsdb.path=" + (folder / "data").string();
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      dup2(ends[1], STDERR_FILENO);
      execl(kProgram, kProgram, config.c_str(), data.c_str(), "--web.listen-address=127.0.0.1:0",
            nullptr);
      _exit(127);
    }
    close(ends[1]);
    log_ = fdopen(ends[0], "r");
  }
  ~Prometheus() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    std::fclose(log_);
  }

  // Read from its log; empty where it ended before it listened.
  std::string AwaitAddress() {
    std::array<char, 4096> line;
    while (std::fgets(line.data(), line.size(), log_) != nullptr) {
      const std::string text(line.data());
      const size_t at = text.find("msg=\"Listening on\" address=");
      if (at != std::string::npos)
        return text.substr(at + 27, text.find_first_of(" \n", at + 27) - at - 27);
      said_ += text;
    }
    return "";
  }
  const std::string& said() const { return said_; }

 private:
  pid_t pid_ = -1;
  FILE* log_ = nullptr;
  std::string said_;
};

class PrometheusTest : public testing::Test {
 protected:
  void SetUp() override {
    if (access(kProgram, X_OK) != 0)
      GTEST_SKIP() << kProgram << " is not installed (Debian package prometheus)";
    folder_ = testing::TempDir() + "/prometheus_test_XXXXXX";
    ASSERT_NE(mkdtemp(folder_.data()), nullptr);
  }
  void TearDown() override { fs::remove_all(folder_); }

  // The example as it stands, but for its pace.
  void WriteConfig() {
    std::ifstream in(MUSTER_EXAMPLE);
    std::stringstream text;
    text << in.rdbuf();
    ASSERT_THAT(text.str(), testing::HasSubstr("scrape_interval: 5s"));
    std::ofstream(folder_ + "/prometheus.yml") << absl::StrReplaceAll(
        text.str(), {{"_interval: 5s", "_interval: 1s"}, {"_timeout: 4s", "_timeout: 1s"}});
  }
  void WriteTargets(const std::string& address) {
    const nlohmann::json targets = {{{"targets", {address}}, {"labels", {{"role", "worker"}}}}};
    std::ofstream(folder_ + "/prometheus-targets.json") << targets;
  }

  std::string folder_;
};

// The first series of the query's result, or null.
nlohmann::json Query(const std::string& address, const std::string& query) {
  const auto got = Get("http://" + address + "/api/v1/query?query=" + query,
                       {.timeout = std::chrono::seconds(2)});
  if (!got.ok() || got->status != 200) return nullptr;
  const auto body = nlohmann::json::parse(got->body, nullptr, false);
  if (!body.is_object() || body["data"]["result"].empty()) return nullptr;
  return body["data"]["result"][0];
}

TEST_F(PrometheusTest, ScrapesWhatMetricsCounts) {
  Metrics metrics({.job = "lm", .role = "worker", .member = "w1"}, "0.1.0");
  metrics.GetCounter("muster_steps_total").Add(118);
  metrics.GetHistogram("muster_step_seconds").Observe(0.2);
  Mailbox<int> scrapes;
  const auto text = [&] {
    scrapes.Post(1);
    return metrics.Text();
  };
  auto server = Server::Start("127.0.0.1:0", {MetricsRoute(text)}, {.metrics = &metrics});
  ASSERT_TRUE(server.ok()) << server.status();
  WriteConfig();
  WriteTargets((*server)->Address());
  Prometheus prometheus(folder_);
  const std::string address = prometheus.AwaitAddress();
  ASSERT_NE(address, "") << prometheus.said();

  const Time limit = RealClock().Now() + kLimit;
  nlohmann::json series;
  // A scrape is stored a moment after it is answered: where the first query comes too early, the
  // next scrape brings another.
  while (series.is_null() && scrapes.TakeUntil(limit))
    series = Query(address, "muster_steps_total");
  ASSERT_FALSE(series.is_null()) << "not scraped in time";
  EXPECT_EQ(series["value"][1], "118");
  EXPECT_EQ(series["metric"]["job"], "lm") << "the process's own labels are kept";
  EXPECT_EQ(series["metric"]["role"], "worker");
  EXPECT_EQ(series["metric"]["member"], "w1");
  EXPECT_EQ(Query(address, "muster_step_seconds_count")["value"][1], "1");
  EXPECT_EQ(Query(address, "up")["value"][1], "1");
}

// promtool knows the file's grammar better than we do.
TEST_F(PrometheusTest, PromtoolAcceptsTheExample) {
  if (std::system("promtool --version >/dev/null 2>&1") != 0)
    GTEST_SKIP() << "promtool is not installed";
  WriteConfig();
  WriteTargets("127.0.0.1:1");
  EXPECT_EQ(
      std::system(
          absl::StrCat("promtool check config '", folder_, "/prometheus.yml' >/dev/null").c_str()),
      0);
}

}  // namespace
}  // namespace muster::http
