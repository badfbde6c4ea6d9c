// Debian's Prometheus, with examples/prometheus.yml, finds a server of ours through its targets
// file and stores what Metrics counts.
#include "tests/support/prometheus.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "lib/base/mailbox.h"
#include "lib/http/server.h"
#include "nlohmann/json.hpp"

namespace muster::http {
namespace {

constexpr Duration kLimit = std::chrono::seconds(60);

class PrometheusTest : public testing::Test {
 protected:
  void SetUp() override {
    if (access(kPrometheus, X_OK) != 0)
      GTEST_SKIP() << kPrometheus << " is not installed (Debian package prometheus)";
    folder_ = testing::TempDir() + "/prometheus_test_XXXXXX";
    ASSERT_NE(mkdtemp(folder_.data()), nullptr);
    WritePrometheusConfig(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void WriteTargets(const std::string& address) {
    const nlohmann::json targets = {{{"targets", {address}}, {"labels", {{"role", "worker"}}}}};
    std::ofstream(folder_ + "/prometheus-targets.json") << targets;
  }

  std::string folder_;
};

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
  WriteTargets((*server)->Address());
  const Prometheus prometheus(folder_);
  ASSERT_TRUE(prometheus.listens()) << prometheus.said();

  const Time limit = RealClock().Now() + kLimit;
  nlohmann::json series;
  // A scrape is stored a moment after it is answered: where the first query comes too early, the
  // next scrape brings another.
  while (series.is_null() && scrapes.TakeUntil(limit))
    series = prometheus.Query("muster_steps_total");
  ASSERT_FALSE(series.is_null()) << "not scraped in time";
  EXPECT_EQ(series["value"][1], "118");
  EXPECT_EQ(series["metric"]["job"], "lm") << "the process's own labels are kept";
  EXPECT_EQ(series["metric"]["role"], "worker");
  EXPECT_EQ(series["metric"]["member"], "w1");
  EXPECT_EQ(prometheus.Query("muster_step_seconds_count")["value"][1], "1");
  EXPECT_EQ(prometheus.Query("up")["value"][1], "1");
}

// promtool knows the file's grammar better than we do.
TEST_F(PrometheusTest, PromtoolAcceptsTheExample) {
  if (std::system("promtool --version >/dev/null 2>&1") != 0)
    GTEST_SKIP() << "promtool is not installed";
  WriteTargets("127.0.0.1:1");
  EXPECT_EQ(
      std::system(
          absl::StrCat("promtool check config '", folder_, "/prometheus.yml' >/dev/null").c_str()),
      0);
}

}  // namespace
}  // namespace muster::http
