#include "lib/metrics/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <map>
#include <utility>

#include "absl/strings/string_view.h"
#include "lib/base/check.h"
#include "lib/base/mutex.h"
#include "lib/base/printable.h"

namespace muster {
namespace {

constexpr size_t kMaxLabelValues = 64;
constexpr size_t kMaxJobs = 1024;
constexpr char kOther[] = "other";

size_t MostValuesOf(std::string_view label) {
  return label == kJobLabel ? kMaxJobs : kMaxLabelValues;
}

// A series is there as long as its handle.
class CounterHandle final : public Counter {
 public:
  CounterHandle(prometheus::Family<prometheus::Counter>& family, prometheus::Counter& counter)
      : family_(family), counter_(counter) {}
  ~CounterHandle() override { family_.Remove(&counter_); }
  void Add(double by) override {
    if (by > 0) counter_.Increment(by);
  }
  double Value() const override { return counter_.Value(); }

 private:
  prometheus::Family<prometheus::Counter>& family_;
  prometheus::Counter& counter_;
};

class GaugeHandle final : public Gauge {
 public:
  GaugeHandle(prometheus::Family<prometheus::Gauge>& family, prometheus::Gauge& gauge)
      : family_(family), gauge_(gauge) {}
  ~GaugeHandle() override { family_.Remove(&gauge_); }
  void Set(double value) override { gauge_.Set(value); }
  void Add(double by) override { gauge_.Increment(by); }
  double Value() const override { return gauge_.Value(); }

 private:
  prometheus::Family<prometheus::Gauge>& family_;
  prometheus::Gauge& gauge_;
};

class HistogramHandle final : public Histogram {
 public:
  HistogramHandle(prometheus::Family<prometheus::Histogram>& family,
                  prometheus::Histogram& histogram)
      : family_(family), histogram_(histogram) {}
  ~HistogramHandle() override { family_.Remove(&histogram_); }
  void Observe(double value) override { histogram_.Observe(value); }

 private:
  prometheus::Family<prometheus::Histogram>& family_;
  prometheus::Histogram& histogram_;
};

// Collectors refuse a whole page for one byte that is not UTF-8, so label values are printable
// ASCII, and a page is not to grow with what others say.
std::string LabelValue(absl::string_view text) {
  std::string out = Cut(text);
  for (char& c : out) {
    if (c < 0x20 || c > 0x7e) c = '?';
  }
  return out;
}

prometheus::Labels MakeLabels(const ConstantLabels& labels) {
  prometheus::Labels out;
  if (!labels.job.empty()) out["job"] = LabelValue(labels.job);
  if (!labels.role.empty()) out["role"] = LabelValue(labels.role);
  if (!labels.member.empty()) out["member"] = LabelValue(labels.member);
  return out;
}

}  // namespace

class Metrics::Impl {
 public:
  explicit Impl(const ConstantLabels& labels) : labels_(MakeLabels(labels)) {}

  Counter& GetCounter(size_t index, absl::string_view value) {
    MutexLock lock(mutex_);
    return Get<CounterHandle>(counters_, prometheus::BuildCounter(), index, value);
  }
  Gauge& GetGauge(size_t index, absl::string_view value) {
    MutexLock lock(mutex_);
    return Get<GaugeHandle>(gauges_, prometheus::BuildGauge(), index, value);
  }
  Histogram& GetHistogram(size_t index) {
    MutexLock lock(mutex_);
    static const prometheus::Histogram::BucketBoundaries buckets(kSecondsBuckets.begin(),
                                                                 kSecondsBuckets.end());
    return Get<HistogramHandle>(histograms_, prometheus::BuildHistogram(), index, "", buckets);
  }
  void ForgetJob(absl::string_view job) {
    MutexLock lock(mutex_);
    const auto forget = [text = LabelValue(job)](auto& all) {
      for (auto& [index, handles] : all)
        if (kCatalog[index].label == kJobLabel) handles.erase(text);
    };
    forget(counters_);
    forget(gauges_);
  }
  std::string Text() const { return prometheus::TextSerializer().Serialize(registry_.Collect()); }

 private:
  template <class Handle>
  using Handles = std::map<std::string, std::unique_ptr<Handle>>;  // by label value

  template <class Handle, class Builder, class... Args>
  Handle& Get(std::map<size_t, Handles<Handle>>& all, Builder builder, size_t index,
              absl::string_view value, const Args&... args) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const MetricEntry& entry = kCatalog[index];
    MUSTER_CHECK(entry.label.empty() == value.empty(),
                 "(a label value goes with a label of the catalogue)");
    Handles<Handle>& handles = all[index];
    std::string text = LabelValue(value);
    if (handles.size() >= MostValuesOf(entry.label) && !handles.contains(text)) text = kOther;
    std::unique_ptr<Handle>& handle = handles[text];
    if (!handle) {
      prometheus::Labels own;
      if (!entry.label.empty()) own[std::string(entry.label)] = text;
      auto& family = builder.Name(std::string(entry.name))
                         .Help(std::string(entry.help))
                         .Labels(labels_)
                         .Register(registry_);
      handle = std::make_unique<Handle>(family, family.Add(own, args...));
    }
    return *handle;
  }

  const prometheus::Labels labels_;
  prometheus::Registry registry_;
  Mutex mutex_;
  std::map<size_t, Handles<CounterHandle>> counters_ ABSL_GUARDED_BY(mutex_);
  std::map<size_t, Handles<GaugeHandle>> gauges_ ABSL_GUARDED_BY(mutex_);
  std::map<size_t, Handles<HistogramHandle>> histograms_ ABSL_GUARDED_BY(mutex_);
};

Metrics::Metrics(const ConstantLabels& labels, absl::string_view version)
    : impl_(std::make_unique<Impl>(labels)) {
  GetGauge("muster_build_info", version.empty() ? "unknown" : version).Set(1);
}
Metrics::~Metrics() = default;

Counter& Metrics::GetCounter(MetricName<MetricKind::kCounter> name, absl::string_view value) {
  return impl_->GetCounter(name.index, value);
}
Gauge& Metrics::GetGauge(MetricName<MetricKind::kGauge> name, absl::string_view value) {
  return impl_->GetGauge(name.index, value);
}
Histogram& Metrics::GetHistogram(MetricName<MetricKind::kHistogram> name) {
  return impl_->GetHistogram(name.index);
}
void Metrics::ForgetJob(absl::string_view job) { impl_->ForgetJob(job); }
std::string Metrics::Text() const { return impl_->Text(); }

}  // namespace muster
