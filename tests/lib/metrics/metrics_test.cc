#include "lib/metrics/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace muster {
namespace {

using testing::HasSubstr;
using testing::Not;

// Resolves every entry of the catalogue. A name added to the table and not here fails
// NamesEqualTheCatalogue.
void ResolveAll(Metrics& metrics) {
  metrics.GetCounter("muster_steps_total");
  metrics.GetCounter("muster_samples_total");
  metrics.GetGauge("muster_loss");
  metrics.GetHistogram("muster_step_seconds").Observe(0.2);
  for (const char* phase : {"input", "compute", "validation", "exposed_communication", "update"}) {
    metrics.GetCounter("muster_step_phase_seconds_total", phase);
  }
  metrics.GetCounter("muster_bytes_sent_total");
  metrics.GetCounter("muster_bytes_received_total");
  metrics.GetCounter("muster_bytes_copied_total");
  metrics.GetGauge("muster_members");
  metrics.GetGauge("muster_view");
  metrics.GetGauge("muster_term");
  metrics.GetGauge("muster_lineage");
  metrics.GetCounter("muster_recoveries_total");
  metrics.GetCounter("muster_rewinds_total");
  metrics.GetCounter("muster_lanes_recomputed_total");
  metrics.GetHistogram("muster_checkpoint_seconds");
  metrics.GetHistogram("muster_checkpoint_part_seconds");
  metrics.GetHistogram("muster_checkpoint_stall_seconds");
  metrics.GetCounter("muster_checkpoint_bytes_total");
  metrics.GetCounter("muster_checkpoints_committed_total");
  metrics.GetCounter("muster_checkpoint_failures_total", "disk_slow");
  metrics.GetGauge("muster_disk_free_bytes", "store");
  metrics.GetGauge("muster_disk_size_bytes", "store");
  metrics.GetGauge("muster_journal_writable");
  metrics.GetGauge("muster_launcher_trouble");
  metrics.GetGauge("muster_certificate_end_timestamp_seconds");
  for (const char* queue : {"mailbox", "transport", "checkpoint"})
    metrics.GetGauge("muster_queue_depth", queue);
  metrics.GetGauge("muster_jobs", "running");
  metrics.GetGauge("muster_job_step", "a");
  metrics.GetGauge("muster_job_steps_wanted", "a");
  metrics.GetGauge("muster_job_loss", "a");
  metrics.GetGauge("muster_job_checkpoint_step", "a");
  metrics.GetGauge("muster_job_stream_samples", "a");
  metrics.GetGauge("muster_job_stream_spool_bytes", "a");
  metrics.GetCounter("muster_job_recoveries_total", "a");
  metrics.GetCounter("muster_job_rewinds_total", "a");
  metrics.GetGauge("muster_hosts", "up");
  metrics.GetGauge("muster_host_slots", "used");
  metrics.GetGauge("muster_host_devices", "used");
  metrics.GetGauge("muster_records_pending");
  metrics.GetCounter("muster_measures_total");
  metrics.GetHistogram("muster_measure_seconds");
  metrics.GetGauge("muster_stream_positions");
  metrics.GetCounter("muster_stream_bytes_total");
  metrics.GetCounter("muster_stream_retries_total");
  metrics.GetCounter("muster_http_requests_total", "200");
  metrics.GetCounter("muster_sse_dropped_total");
  metrics.GetCounter("muster_webhook_deliveries_total", "delivered");
  metrics.GetCounter("muster_frames_refused_total", "old_view");
}

// name → type, of the "# TYPE" lines.
std::map<std::string, std::string> TypesIn(const std::string& text) {
  std::map<std::string, std::string> types;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    if (words.size() == 4 && words[0] == "#" && words[1] == "TYPE") types[words[2]] = words[3];
  }
  return types;
}

const char* TypeName(MetricKind kind) {
  switch (kind) {
    case MetricKind::kCounter: return "counter";
    case MetricKind::kGauge: return "gauge";
    case MetricKind::kHistogram: return "histogram";
  }
  return "";
}

TEST(Metrics, NamesEqualTheCatalogue) {
  Metrics metrics({.role = "coordinator"}, "0.1.0");  // who alone has series of jobs
  ResolveAll(metrics);
  std::map<std::string, std::string> expected;
  for (const MetricEntry& entry : kCatalog)
    expected[std::string(entry.name)] = TypeName(entry.kind);
  EXPECT_EQ(TypesIn(metrics.Text()), expected);
}

TEST(Metrics, CatalogueFollowsTheConventions) {
  std::set<std::string_view> names;
  for (const MetricEntry& entry : kCatalog) {
    EXPECT_TRUE(names.insert(entry.name).second) << entry.name << " stands twice";
    EXPECT_TRUE(entry.name.starts_with("muster_")) << entry.name;
    EXPECT_EQ(entry.name.ends_with("_total"), entry.kind == MetricKind::kCounter) << entry.name;
    EXPECT_FALSE(entry.help.empty()) << entry.name;
    const bool named = entry.name.find(entry.unit) != std::string_view::npos;
    EXPECT_TRUE(entry.unit == "1" || named) << entry.name;
    EXPECT_TRUE(entry.kind != MetricKind::kHistogram || entry.unit == "seconds") << entry.name;
  }
}

TEST(Metrics, ValuesAndLabelsAreInTheText) {
  Metrics metrics({"lm", "worker", "w1"}, "0.1.0");
  Counter& steps = metrics.GetCounter("muster_steps_total");
  steps.Add();
  steps.Add(2);
  steps.Add(-5);
  metrics.GetGauge("muster_loss").Set(2.5);
  metrics.GetCounter("muster_step_phase_seconds_total", "compute").Add(1.5);
  metrics.GetHistogram("muster_step_seconds").Observe(0.2);
  const std::string text = metrics.Text();
  EXPECT_THAT(text, HasSubstr("muster_steps_total{job=\"lm\",member=\"w1\",role=\"worker\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("muster_loss{job=\"lm\",member=\"w1\",role=\"worker\"} 2.5\n"));
  EXPECT_THAT(text, HasSubstr("phase=\"compute\"} 1.5\n"));
  EXPECT_THAT(text, HasSubstr("le=\"0.25\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("le=\"0.1\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("version=\"0.1.0\"} 1\n"));
}

TEST(Metrics, EmptyConstantLabelsAreLeftOut) {
  Metrics metrics({.role = "coordinator"}, "0.1.0");
  metrics.GetGauge("muster_view").Set(3);
  EXPECT_THAT(metrics.Text(), HasSubstr("muster_view{role=\"coordinator\"} 3\n"));
}

TEST(Metrics, TheSameNameAndValueIsTheSameHandle) {
  Metrics metrics({}, "0.1.0");
  Counter& a = metrics.GetCounter("muster_http_requests_total", "200");
  EXPECT_EQ(&a, &metrics.GetCounter("muster_http_requests_total", "200"));
  EXPECT_NE(&a, &metrics.GetCounter("muster_http_requests_total", "404"));
}

TEST(Metrics, SeriesOfAJobEndWithIt) {
  Metrics metrics({.role = "coordinator"}, "0.1.0");
  for (const char* job : {"a", "b"}) {
    metrics.GetGauge("muster_job_step", job).Set(7);
    metrics.GetCounter("muster_job_rewinds_total", job).Add();
  }
  metrics.ForgetJob("a");
  metrics.ForgetJob("never there");
  const std::string text = metrics.Text();
  EXPECT_THAT(text, Not(HasSubstr("job=\"a\"")));
  EXPECT_THAT(text, HasSubstr("muster_job_step{role=\"coordinator\",job=\"b\"} 7\n"));
  EXPECT_EQ(metrics.GetCounter("muster_job_rewinds_total", "a").Value(), 0) << "it begins anew";
}

TEST(Metrics, SeriesAreBounded) {
  Metrics metrics({}, "0.1.0");
  for (int i = 0; i < 10'000; ++i)
    metrics.GetCounter("muster_frames_refused_total", absl::StrCat("r", i)).Add();
  const std::string text = metrics.Text();
  int series = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    series += absl::StartsWith(line, "muster_frames_refused_total{");
  }
  EXPECT_EQ(series, 65);
  EXPECT_THAT(text, HasSubstr("muster_frames_refused_total{reason=\"other\"} 9936\n"));
}

TEST(Metrics, HostileLabelValuesStayOneWellFormedLine) {
  Metrics metrics({.job = "a\"b\n\\c\xff"}, "0.1.0");
  metrics.GetCounter("muster_frames_refused_total", "x\"} 1\nfake_total 9").Add();
  const std::string text = metrics.Text();
  EXPECT_THAT(text, HasSubstr("job=\"a\\\"b?\\\\c?\""));
  EXPECT_THAT(text, Not(HasSubstr("\nfake_total")));
}

TEST(Metrics, LongLabelValuesAreCut) {
  Metrics metrics({.member = std::string(100'000, 'm')}, "0.1.0");
  metrics.GetCounter("muster_steps_total").Add();
  EXPECT_THAT(metrics.Text(), Not(HasSubstr(std::string(1025, 'm'))));
}

TEST(Metrics, ThreadsMayAddAndAskAtOnce) {
  Metrics metrics({}, "0.1.0");
  Counter& steps = metrics.GetCounter("muster_steps_total");
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 500; ++i) {
        steps.Add();
        metrics.GetHistogram("muster_step_seconds").Observe(i);
        metrics.GetCounter("muster_http_requests_total", absl::StrCat(t * 100 + i % 7)).Add();
        if (i % 100 == 0) {
          EXPECT_THAT(metrics.Text(), HasSubstr("muster_steps_total"));
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(steps.Value(), 2000);
}

// Prometheus' own linter: parses the page and knows the conventions.
TEST(Metrics, PromtoolFindsNothingToSay) {
  if (std::system("promtool --version >/dev/null 2>&1") != 0) {
    GTEST_SKIP() << "promtool is not installed (Debian package prometheus)";
  }
  Metrics metrics({.role = "coordinator"}, "0.1.0");
  ResolveAll(metrics);
  const std::string said = testing::TempDir() + "/promtool_said";
  FILE* pipe = popen(absl::StrCat("promtool check metrics >'", said, "' 2>&1").c_str(), "w");
  ASSERT_NE(pipe, nullptr);
  const std::string text = metrics.Text();
  ASSERT_EQ(std::fwrite(text.data(), 1, text.size(), pipe), text.size());
  EXPECT_EQ(pclose(pipe), 0) << "promtool check metrics; see " << said;
}

}  // namespace
}  // namespace muster
