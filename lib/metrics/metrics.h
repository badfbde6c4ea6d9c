// What a process counts. Handles are resolved once, when parts are put together, and then are cheap
// (an atomic add; a short lock for histograms) and usable from any thread for as long as the
// Metrics lives. No global.
//
//   Counter& steps = metrics.GetCounter("muster_steps_total");
//   steps.Add();
//   Counter& compute = metrics.GetCounter("muster_step_phase_seconds_total", "compute");
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/strings/string_view.h"
#include "lib/metrics/catalog.h"

namespace muster {

class Counter {
 public:
  virtual ~Counter() = default;
  virtual void Add(double by = 1) = 0;  // by >= 0; less is ignored
  virtual double Value() const = 0;
};

class Gauge {
 public:
  virtual ~Gauge() = default;
  virtual void Set(double value) = 0;
  virtual void Add(double by) = 0;  // may be negative
  virtual double Value() const = 0;
};

class Histogram {
 public:
  virtual ~Histogram() = default;
  virtual void Observe(double value) = 0;
};

// A name of the catalogue, checked when compiled.
template <MetricKind kind>
struct MetricName {
  // NOLINTNEXTLINE: implicit on purpose
  consteval MetricName(const char* name) : index(FindMetric(name, kind)) {}
  size_t index;
};

// On every series of the process; empty ones are left out.
struct ConstantLabels {
  std::string job;
  std::string role;    // coordinator, worker, server
  std::string member;  // w1
};

// All methods thread-safe. The same name and label value give the same handle.
class Metrics {
 public:
  // `muster_build_info` carries `version`.
  Metrics(const ConstantLabels& labels, absl::string_view version);
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  // `label_value` exactly where the catalogue names a label. A family holds at most 64 values, one
  // with the label `job` 1,024; whatever comes after is counted under "other", so that nothing from
  // outside can make series without bound.
  Counter& GetCounter(MetricName<MetricKind::kCounter> name, absl::string_view label_value = "");
  Gauge& GetGauge(MetricName<MetricKind::kGauge> name, absl::string_view label_value = "");
  Histogram& GetHistogram(MetricName<MetricKind::kHistogram> name);
  // Ends all series with that job in the label `job` that the catalogue gives them. Handles of them
  // are gone then.
  void ForgetJob(absl::string_view job);

  // Prometheus text format, version 0.0.4: the series resolved so far.
  std::string Text() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// The label of series that the coordinator has for each job.
inline constexpr std::string_view kJobLabel = "job";

inline constexpr char kMetricsContentType[] = "text/plain; version=0.0.4; charset=utf-8";

}  // namespace muster
