// What each role exports. And Debian's Prometheus, with examples/prometheus.yml, beside a job of
// the real programs: it finds every process through the targets file of the run's folder, and each
// metric that people need has a sample.
#include "tests/support/prometheus.h"

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/base/clock.h"
#include "lib/http/client.h"
#include "nlohmann/json.hpp"
#include "tests/integration/bad_input/train.h"
#include "tests/support/program.h"

namespace muster::integration {
namespace {

constexpr Duration kLimit = std::chrono::seconds(60);

// Each is an expression that has a result once what it asks for was scraped from everybody.
constexpr const char* kExpressions[] = {
    R"(sum(up) == 3)",
    R"(count(muster_steps_total{role="worker"} > 0) == 2)",
    R"(count(muster_samples_total{role="worker"} > 0) == 2)",
    R"(count(muster_loss{role="worker"}) == 2)",
    R"(muster_loss{role="coordinator"} < Inf)",
    R"(count(muster_step_phase_seconds_total{phase="input"} > 0) == 2)",
    R"(count(muster_step_phase_seconds_total{phase="compute"} > 0) == 2)",
    R"(count(muster_step_phase_seconds_total{phase="exposed_communication"} > 0) == 2)",
    R"(count(muster_step_phase_seconds_total{phase="update"} > 0) == 2)",
    R"(count(muster_bytes_sent_total > 0) == 2)",
    R"(count(muster_bytes_received_total > 0) == 2)",
    R"(count(muster_bytes_copied_total) == 2)",
    R"(muster_members{role="coordinator"} == 2)",
    R"(muster_view{role="coordinator"} > 1)",
    R"(muster_recoveries_total{role="coordinator"} > 0)",
    R"(muster_rewinds_total{role="coordinator"} == 0)",
    R"(muster_checkpoints_committed_total{role="coordinator"} > 0)",
    R"(muster_checkpoint_seconds_sum{role="coordinator"} > 0)",
    R"(sum(muster_checkpoint_bytes_total) > 0)",
    R"(muster_queue_depth{role="coordinator",queue="mailbox"})",
    R"(muster_queue_depth{role="coordinator",queue="checkpoint"})",
    R"(count(muster_queue_depth{role="worker",queue="transport"}) == 2)",
};

std::vector<std::string> Missing(const Prometheus& prometheus) {
  std::vector<std::string> missing;
  for (const char* expression : kExpressions)
    if (prometheus.Query(expression).is_null()) missing.push_back(expression);
  return missing;
}

TEST(PrometheusJobTest, EveryProcessOfAJobIsFoundAndEachMetricHasASample) {
  if (access(kPrometheus, X_OK) != 0)
    GTEST_SKIP() << kPrometheus << " is not installed (Debian package prometheus)";
  const std::string folder = MakeFolder();
  const std::string dir = folder + "/job";
  const std::string spec =
      WriteText(folder + "/spec.yaml", CountingSpec(1'000'000, "workers: 2\n"));
  const std::string faults =
      WriteText(folder + "/faults.yaml", "- {at_step: 20, kill: worker-1}\n");
  Program job(Train(spec, dir, {"--json", "--faults", faults}));
  ASSERT_TRUE(job.WaitFor("\"event\":\"step\"")) << job.output();
  WritePrometheusConfig(dir);
  const Prometheus prometheus(dir);
  ASSERT_TRUE(prometheus.listens()) << prometheus.said();

  // The job's own checkpoints set the pace at which it is looked.
  const Time limit = RealClock().Now() + kLimit;
  std::vector<std::string> missing = Missing(prometheus);
  while (!missing.empty() && RealClock().Now() < limit) {
    ASSERT_TRUE(job.WaitFor("is complete", job.output().size())) << job.output();
    missing = Missing(prometheus);
  }
  EXPECT_TRUE(missing.empty()) << testing::PrintToString(missing);
  job.Signal(SIGINT);
  EXPECT_EQ(job.End(), 75);
  std::filesystem::remove_all(folder);
}

// Without those of the HTTP server, which come with its requests.
std::set<std::string> MetricsIn(const std::string& text) {
  std::set<std::string> names;
  const std::string head = "# TYPE ";
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (line.rfind(head, 0) == 0)
      names.insert(line.substr(head.size(), line.rfind(' ') - head.size()));
  names.erase("muster_http_requests_total");
  return names;
}

// A metric that a role does not measure is absent: 0 would be read as a measurement.
TEST(RolesTest, AMemberExportsOnlyWhatItMeasures) {
  const std::set<std::string> of_both = {"muster_build_info",
                                         "muster_bytes_copied_total",
                                         "muster_bytes_received_total",
                                         "muster_bytes_sent_total",
                                         "muster_certificate_end_timestamp_seconds",
                                         "muster_checkpoint_bytes_total",
                                         "muster_checkpoint_failures_total",
                                         "muster_checkpoint_part_seconds",
                                         "muster_checkpoint_stall_seconds",
                                         "muster_frames_refused_total",
                                         "muster_lineage",
                                         "muster_members",
                                         "muster_queue_depth",
                                         "muster_records_pending",
                                         "muster_term",
                                         "muster_view"};
  std::set<std::string> of_worker = of_both;
  of_worker.insert({"muster_loss", "muster_samples_total", "muster_step_phase_seconds_total",
                    "muster_step_seconds", "muster_steps_total"});
  const std::string folder = MakeFolder();
  const std::string dir = folder + "/job";
  const std::string spec = WriteText(
      folder + "/spec.yaml", CountingSpec(1'000'000, "workers: 1\nservers: 1\nsync: server\n"));
  Program job(Train(spec, dir, {"--json"}));
  ASSERT_TRUE(job.WaitFor("is complete")) << job.output();
  const auto targets = nlohmann::json::parse(std::ifstream(dir + "/prometheus-targets.json"));
  std::set<std::string> seen;
  for (const auto& target : targets) {
    const std::string role = target["labels"].value("role", "");
    if (role == "coordinator") continue;
    seen.insert(role);
    const std::string at = target["targets"][0];
    const auto answer = http::Get("http://" + at + "/metrics");
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(MetricsIn(answer->body), role == "worker" ? of_worker : of_both) << role;
    if (role != "server") continue;
    // The parameters are its own: it copies them, and its workers wait.
    EXPECT_THAT(
        answer->body,
        testing::Not(testing::ContainsRegex("muster_checkpoint_stall_seconds_count[^\n]* 0\n")));
  }
  EXPECT_EQ(seen, (std::set<std::string>{"server", "worker"})) << targets;
  job.Signal(SIGINT);
  EXPECT_EQ(job.End(), 75);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace muster::integration
