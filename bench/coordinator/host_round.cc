#include "bench/coordinator/host_round.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "bench/coordinator/coordinator_process.h"
#include "bench/coordinator/simulated_agents.h"
#include "bench/statistics.h"
#include "lib/http/client.h"
#include "lib/wire/job_codec.h"

namespace muster::bench {
namespace {

constexpr int32_t kMostWorkers = 4096;  // of a job
constexpr int kProbes = 50;             // at most, of what is done again and again

JobSpec SpecOf(int32_t workers) {
  JobSpec spec;
  spec.training.task = "counting";
  spec.training.lanes = workers;
  spec.training.batch = workers;
  spec.training.steps = 1'000'000;
  spec.training.data.samples = 1'000'000;
  spec.training.reduction = Reduction::kSum;
  spec.training.optimizer.learning_rate = 1;
  spec.runtime.workers_min = workers;
  spec.runtime.workers_max = workers;
  return spec;
}

class HostRound {
 public:
  HostRound(const HostSettings& settings, int32_t hosts)
      : settings_(settings),
        hosts_(hosts),
        dir_(absl::StrCat(settings.dir, "/hosts-", hosts)),
        coordinator_(settings.program, dir_, /*slots=*/0) {
    result_["hosts"] = hosts;
  }

  Json Run() {
    const bool whole = Connect() && OneJob() && ManyJobs() && Answers() && Replaced() && Restart();
    if (!whole) result_["failed"] = absl::StrCat(failed_, agents_ ? "; " + agents_->Trouble() : "");
    agents_.reset();
    return result_;
  }

 private:
  bool Failed(const std::string& what) {
    failed_ = what;
    return false;
  }
  int32_t slots() const { return hosts_ * settings_.slots; }

  bool Submit(const std::string& id, int32_t workers) {
    const std::string body =
        absl::StrCat(R"({"id":")", id, R"(","spec":)", ToJson(SpecOf(workers)), "}");
    const auto answer = http::Post(coordinator_.Url("/v1/jobs"), body);
    if (answer.ok() && answer->status == 201) return true;
    return Failed(absl::StrCat("the job was not taken: ",
                               answer.ok() ? answer->body : answer.status().ToString()));
  }

  // Each agent says hello, and is told that nothing is to run.
  bool Connect() {
    std::filesystem::remove_all(dir_);
    std::filesystem::create_directories(dir_);
    if (const absl::Status started = coordinator_.Start(); !started.ok())
      return Failed(std::string(started.message()));
    const double before = coordinator_.RssBytes();
    const double cpu = coordinator_.CpuSeconds();
    const Stopwatch watch;
    agents_ = std::make_unique<SimulatedAgents>(hosts_, settings_.slots, coordinator_.grpc());
    agents_->Connect();
    if (!agents_->AwaitProcesses(0, settings_.patience))
      return Failed("not all agents were told what to run");
    result_["connect_seconds"] = watch.Seconds();
    result_["connect_cpu_seconds"] = coordinator_.CpuSeconds() - cpu;
    result_["host_kib"] = (coordinator_.RssBytes() - before) / 1024 / hosts_;
    return true;
  }

  // One job of all slots is submitted, and cancelled.
  bool OneJob() {
    const int32_t workers = std::min(slots(), kMostWorkers);
    double cpu = coordinator_.CpuSeconds();
    const Stopwatch start;
    if (!Submit("large", workers)) return false;
    if (!agents_->AwaitProcesses(workers, settings_.patience))
      return Failed("not all agents were told of the large job");
    result_["large_workers"] = workers;
    result_["large_seconds"] = start.Seconds();
    result_["large_cpu_seconds"] = coordinator_.CpuSeconds() - cpu;
    const Stopwatch cancel;
    const auto answer = http::Post(coordinator_.Url("/v1/jobs/large:cancel"), "");
    if (!answer.ok() || answer->status / 100 != 2)
      return Failed(absl::StrCat("the large job was not cancelled: ",
                                 answer.ok() ? answer->body : answer.status().ToString()));
    if (!agents_->AwaitProcesses(0, settings_.patience))
      return Failed("not all agents were told of the end of the large job");
    result_["cancel_seconds"] = cancel.Seconds();
    return true;
  }

  // As many jobs as there are hosts are submitted, one after the other.
  bool ManyJobs() {
    const double cpu = coordinator_.CpuSeconds();
    const int64_t told = agents_->told();
    const Stopwatch watch;
    std::vector<double> taken;
    for (int32_t i = 0; i < hosts_; ++i) {
      const Stopwatch one;
      if (!Submit(absl::StrCat("job-", i), settings_.slots)) return false;
      taken.push_back(one.Seconds());
    }
    if (!agents_->AwaitProcesses(slots(), settings_.patience))
      return Failed("not all agents were told of their jobs");
    result_["jobs_seconds"] = watch.Seconds();
    result_["jobs_cpu_seconds"] = coordinator_.CpuSeconds() - cpu;
    result_["submit_median_ms"] = 1e3 * Median(taken);
    result_["submit_p99_ms"] = 1e3 * P99(taken);
    result_["told"] = agents_->told() - told;
    return true;
  }

  // What people see of all hosts, while nothing happens.
  bool Answers() {
    std::vector<double> times;
    for (int i = 0; i < kProbes; ++i) {
      const Stopwatch watch;
      const auto answer = http::Get(coordinator_.Url("/v1/hosts?limit=1000"));
      if (!answer.ok() || answer->status != 200) return Failed("hosts are not listed");
      times.push_back(watch.Seconds());
    }
    result_["list_median_ms"] = 1e3 * Median(times);
    return true;
  }

  // An agent is started again in the full cluster: from its connection, its members are placed anew
  // and it is told so.
  bool Replaced() {
    std::vector<double> times;
    const double cpu = coordinator_.CpuSeconds();
    for (int32_t host = 0; host < std::min(hosts_, kProbes); ++host) {
      const Stopwatch watch;
      if (!agents_->Replace(host, settings_.patience))
        return Failed("an agent that came again was not told what to run");
      times.push_back(watch.Seconds());
    }
    result_["replace_median_ms"] = 1e3 * Median(times);
    result_["replace_p99_ms"] = 1e3 * P99(times);
    result_["replace_cpu_ms"] =
        1e3 * (coordinator_.CpuSeconds() - cpu) / static_cast<double>(times.size());
    return true;
  }

  bool Restart() {
    agents_->ExpectRestart();
    const Stopwatch watch;
    coordinator_.Kill();
    if (const absl::Status started = coordinator_.Start(); !started.ok())
      return Failed(std::string(started.message()));
    result_["restart_listens_seconds"] = watch.Seconds();
    agents_->Connect();
    if (!agents_->AwaitProcesses(slots(), settings_.patience))
      return Failed("not all agents were told what to run after a restart");
    result_["restart_seconds"] = watch.Seconds();
    return true;
  }

  const HostSettings& settings_;
  const int32_t hosts_;
  const std::string dir_;
  CoordinatorProcess coordinator_;
  std::unique_ptr<SimulatedAgents> agents_;
  Json result_;
  std::string failed_;
};

constexpr Row kRows[] = {
    {"hello until all are told (s)", "", "connect_seconds", "%.2f"},
    {"  CPU of it (s)", "", "connect_cpu_seconds", "%.2f"},
    {"memory of a host (KiB)", "", "host_kib", "%.1f"},
    {"workers of one large job", "", "large_workers", "%.0f"},
    {"  submitted until all are told (s)", "", "large_seconds", "%.3f"},
    {"  CPU of it (s)", "", "large_cpu_seconds", "%.2f"},
    {"  cancelled until all are told (s)", "", "cancel_seconds", "%.3f"},
    {"a job for each host, all told (s)", "", "jobs_seconds", "%.2f"},
    {"  CPU of it (s)", "", "jobs_cpu_seconds", "%.2f"},
    {"  median of a submission (ms)", "", "submit_median_ms", "%.1f"},
    {"  p99 of a submission (ms)", "", "submit_p99_ms", "%.1f"},
    {"  words to agents", "", "told", "%.0f"},
    {"median of GET hosts (ms)", "", "list_median_ms", "%.1f"},
    {"an agent again until told: median (ms)", "", "replace_median_ms", "%.1f"},
    {"  p99 (ms)", "", "replace_p99_ms", "%.1f"},
    {"  CPU (ms)", "", "replace_cpu_ms", "%.1f"},
    {"restart until it listens (s)", "", "restart_listens_seconds", "%.2f"},
    {"restart until all are told (s)", "", "restart_seconds", "%.2f"},
};

}  // namespace

Json MeasureHosts(const HostSettings& settings, int32_t hosts) {
  return HostRound(settings, hosts).Run();
}

absl::Span<const Row> RowsOfHosts() { return kRows; }

}  // namespace muster::bench
