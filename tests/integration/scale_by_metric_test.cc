// The example of scaling by a metric (deploy/k8s/jobs/scale-by-metric), with Debian's Prometheus
// and a cluster of real programs.
#include <signal.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/cluster.h"
#include "tests/integration/jobs.h"
#include "tests/integration/up_cluster.h"
#include "tests/support/program.h"
#include "tests/support/prometheus.h"

namespace muster::integration {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class ScaleByMetricTest : public ::testing::Test {
 protected:
  // What it says, and its exit code before that.
  std::string Scale(const std::string& query, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {
        "/usr/bin/python3",
        MUSTER_SOURCE "/deploy/k8s/jobs/scale-by-metric/scale_by_metric.py",
        "--job=job",
        "--query=" + query,
        "--per-worker=10",
        "--max=3",
        "--prometheus=http://" + prometheus_->address(),
        "--to=" + cluster_.url(),
        "--authority=" + cluster_.dir() + "/store/identity/current/authority.pem",
        "--token-file=" + cluster_.dir() + "/store/identity/admin.token"};
    words.insert(words.end(), more.begin(), more.end());  // of two the last one counts
    Program program(words);
    const int code = program.End();
    return absl::StrCat(code, " ", program.output());
  }
  int MostWorkers() const {
    return cluster_.Ask({"status", "job", "--json"})["spec"]["workers"].value("max", 0);
  }

  const Folder folder_;
  UpCluster cluster_{folder_ / "cluster", {"--slots", "3"}};
  std::unique_ptr<Prometheus> prometheus_;
};

TEST_F(ScaleByMetricTest, AJobHasAsManyWorkersAsTheMetricAsksFor) {
  if (access(kPrometheus, X_OK) != 0)
    GTEST_SKIP() << kPrometheus << " is not installed (Debian package prometheus)";
  WriteFile(folder_ / "prometheus.yml", "global: {scrape_interval: 1s}\n");
  prometheus_ = std::make_unique<Prometheus>(folder_ / "");
  ASSERT_TRUE(prometheus_->listens()) << prometheus_->said();
  WriteFile(folder_ / "job.yaml", CountingSpec(60'013, 6, 1'000'000));
  ASSERT_EQ(
      cluster_
          .Say({"submit", folder_ / "job.yaml", "--id", "job", "--set", "workers={min: 1, max: 1}"})
          .exit_code,
      0);

  EXPECT_THAT(Scale("vector(18)"), HasSubstr("0 job job: 18 with 10 for each worker: 2 workers"));
  EXPECT_EQ(MostWorkers(), 2);
  EXPECT_THAT(Scale("vector(21)"), HasSubstr("it keeps its 2")) << "within the tolerance";
  EXPECT_THAT(Scale("scalar(vector(1000))", {"--dry-run"}), HasSubstr("3 workers, and not 2"));
  EXPECT_EQ(MostWorkers(), 2);
  EXPECT_THAT(Scale("scalar(vector(1000))"), HasSubstr("3 workers, and not 2"));
  EXPECT_THAT(Scale("vector(0)"), HasSubstr("1 worker, and not 3"));
  EXPECT_EQ(MostWorkers(), 1);

  EXPECT_THAT(Scale("nothing_like_that"), HasSubstr("1 scale_by_metric: --query has 0 results"));
  EXPECT_THAT(Scale("vector(0) / 0"), HasSubstr("not one number"));
  EXPECT_THAT(Scale("sum("), HasSubstr("answers 400"));
  EXPECT_THAT(Scale("vector(1)", {"--job=another"}), HasSubstr("answers 404"));
  EXPECT_THAT(Scale("vector(1)", {"--prometheus=http://127.0.0.1:1"}),
              HasSubstr("does not answer"));
  EXPECT_THAT(Scale("vector(1)", {"--to=https://" + prometheus_->address()}),
              HasSubstr("does not answer"));
  WriteFile(folder_ / "token", "muster-nobody-0123456789abcdef");
  EXPECT_THAT(Scale("vector(1)", {"--token-file=" + (folder_ / "token")}),
              HasSubstr("answers 401"));
  WriteFile(folder_ / "token", "muster-secret\r\nX: y");
  EXPECT_THAT(Scale("vector(1)", {"--token-file=" + (folder_ / "token")}),
              AllOf(HasSubstr("holds no token, which is one word"), Not(HasSubstr("secret"))));
  EXPECT_THAT(Scale("vector(1)", {"--max=0"}), HasSubstr("2 usage:"));
  EXPECT_THAT(Scale("vector(1)", {"--prometheus=127.0.0.1:1"}),
              HasSubstr("--prometheus has to be an address"));

  EXPECT_EQ(cluster_.Say({"cancel", "job"}).exit_code, 0);
  EXPECT_THAT(Scale("vector(30)"), HasSubstr("is cancelled: nothing is scaled"));
  cluster_.up().Signal(SIGINT);
  EXPECT_EQ(cluster_.up().End(), 0) << cluster_.up().output();
}

}  // namespace
}  // namespace muster::integration
