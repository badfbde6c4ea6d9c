// Debian's Prometheus, with examples/prometheus.yml, beside a job of the real programs: it finds
// every process through the targets file of the run's folder, and each metric that people need has
// a sample.
#include "tests/support/prometheus.h"

#include <filesystem>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "lib/base/clock.h"
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

}  // namespace
}  // namespace muster::integration
