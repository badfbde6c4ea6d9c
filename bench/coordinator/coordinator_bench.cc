// How much a coordinator costs as a job grows: a real coordinator process against simulated members
// that speak the real protocol (simulated_members.h). For each number of members: how long they
// take to connect and to be active in one view, what heartbeats and records cost, how long an
// answer takes meanwhile, what a member weighs, how long the view after a loss takes, and how long
// it takes after the coordinator was killed until everybody is told the view again.
//
// With --hosts the same for a cluster that grows: simulated agents of so many hosts
// (simulated_agents.h, host_round.h) say hello, are told of a job of all slots and of one for each
// host, come again one by one, and all at once after the coordinator was killed.
//
// Coordinator and load program share the machine's cores.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/coordinator/coordinator_process.h"
#include "bench/coordinator/host_round.h"
#include "bench/coordinator/simulated_members.h"
#include "bench/coordinator/table.h"
#include "lib/base/mutex.h"
#include "lib/http/client.h"
#include "lib/wire/job_codec.h"
#include "lib/wire/message_codec.h"

namespace muster::bench {
namespace {

struct Settings {
  std::vector<int32_t> members = {100, 500, 2000};
  std::vector<int32_t> hosts;
  int32_t slots = HostSettings().slots;
  double seconds = 6;       // of each steady phase
  double step_seconds = 1;  // between steps whose records everybody sends
  double patience = 120;    // for what must happen
  int32_t chunks = 160;
  std::string program;
  std::string dir;
  std::string json;
};

// Asks again and again while somebody else loads the coordinator: GET of the job and of the
// metrics, and AskJob on a session of its own, which goes through the driver as every member's
// frame does.
class Prober {
 public:
  Prober(const CoordinatorProcess& coordinator, std::string job)
      : url_(coordinator.Url("/v1/jobs/" + job)),
        metrics_url_(coordinator.Url("/metrics")),
        job_(std::move(job)),
        transport_(MakeGrpcTransport({})) {
    session_ = transport_->Connect(coordinator.grpc(), std::chrono::seconds(10),
                                   {[this](const Frame&) {
                                      answered_ = true;
                                      answered_.notify_one();
                                    },
                                    [this](const absl::Status&) {
                                      answered_ = true;
                                      answered_.notify_one();
                                    }});
    thread_ = std::thread([this] { Run(); });
  }
  ~Prober() {
    stop_ = true;
    thread_.join();
    session_.reset();
  }
  // What came since the last call.
  void Collect(std::vector<double>& gets, std::vector<double>& asks, std::vector<double>& scrapes) {
    MutexLock lock(mutex_);
    gets = std::exchange(gets_, {});
    scrapes = std::exchange(scrapes_, {});
    asks = std::exchange(asks_, {});
  }

 private:
  void Run() {
    while (!stop_) {
      const double get = Get(url_);
      const double scrape = Get(metrics_url_);
      const double ask = Ask();
      MutexLock lock(mutex_);
      gets_.push_back(get);
      scrapes_.push_back(scrape);
      asks_.push_back(ask);
      pause_.WaitUntil(mutex_, std::chrono::steady_clock::now() + std::chrono::milliseconds(20));
    }
  }
  // Seconds; of a request that fails without end.
  static double Get(const std::string& url) {
    const Stopwatch watch;
    const auto answer = http::Get(url);
    return answer.ok() && answer->status == 200 ? watch.Seconds() : HUGE_VAL;
  }
  double Ask() {
    const Stopwatch watch;
    answered_ = false;
    session_->Send({Encode(ToCoordinator(AskJob{job_, "prober"})), {}});
    answered_.wait(false);
    return watch.Seconds();
  }

  const std::string url_;
  const std::string metrics_url_;
  const std::string job_;
  const std::unique_ptr<GrpcTransport> transport_;
  std::shared_ptr<Session> session_;
  std::atomic<bool> answered_{false};
  std::atomic<bool> stop_{false};
  Mutex mutex_;
  CondVar pause_;
  std::vector<double> gets_ ABSL_GUARDED_BY(mutex_);
  std::vector<double> scrapes_ ABSL_GUARDED_BY(mutex_);
  std::vector<double> asks_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

// One number of members, from a fresh coordinator to its restart.
class Round {
 public:
  Round(const Settings& settings, int32_t members)
      : settings_(settings),
        simulation_{.members = members, .chunks = settings.chunks},
        dir_(absl::StrCat(settings.dir, "/", members)),
        coordinator_(settings.program, dir_, members) {
    result_["members"] = members;
  }

  // What was measured up to the first thing that did not happen, which "failed" names.
  Json Run() {
    const bool whole = Begin() && Join() && Steady("heartbeats", 0) &&
                       Steady("records", settings_.step_seconds) && Loss() && Restart();
    if (!whole)
      result_["failed"] = absl::StrCat(failed_, members_ ? "; " + members_->Trouble() : "");
    members_.reset();
    return result_;
  }

 private:
  bool Failed(const std::string& what) {
    failed_ = what;
    return false;
  }
  Duration patience() const { return FromSeconds(settings_.patience); }

  bool Begin() {
    std::filesystem::remove_all(dir_);
    std::filesystem::create_directories(dir_);
    if (const absl::Status started = coordinator_.Start(); !started.ok())
      return Failed(std::string(started.message()));
    const std::string body = absl::StrCat(R"({"id":")", simulation_.job, R"(","spec":)",
                                          ToJson(SpecOf(simulation_)), "}");
    const auto answer = http::Post(coordinator_.Url("/v1/jobs"), body);
    if (!answer.ok() || answer->status != 201)
      return Failed(absl::StrCat("the job was not taken: ",
                                 answer.ok() ? answer->body : answer.status().ToString()));
    members_ = std::make_unique<SimulatedMembers>(simulation_, coordinator_.grpc());
    return true;
  }

  bool Join() {
    const double before = coordinator_.RssBytes();
    const double idle_cpu = coordinator_.CpuSeconds();
    const Stopwatch all;
    if (!members_->Connect(patience())) return Failed("not all were told their job");
    result_["connect_seconds"] = all.Seconds();
    result_["connect_cpu_seconds"] = coordinator_.CpuSeconds() - idle_cpu;
    const double connected = coordinator_.RssBytes();
    result_["threads"] = coordinator_.Threads();
    const Stopwatch join;
    const double cpu = coordinator_.CpuSeconds();
    if (!members_->JoinAll(patience())) return Failed("not all became active");
    result_["join_seconds"] = join.Seconds();
    result_["join_cpu_seconds"] = coordinator_.CpuSeconds() - cpu;
    result_["connect_and_join_seconds"] = all.Seconds();
    result_["session_kib"] = PerMember(connected - before) / 1024;
    result_["member_kib"] = PerMember(coordinator_.RssBytes() - before) / 1024;
    return true;
  }

  double PerMember(double x) const { return x / simulation_.members; }

  // First the cost alone, then, as long again, how long answers take meanwhile.
  bool Steady(const std::string& name, double step_seconds) {
    Json& phase = result_[name];
    if (!Cost(phase, step_seconds) || !Answers(phase, step_seconds))
      return Failed(absl::StrCat("trouble with ", name));
    const std::vector<double> acks = members_->CollectAckTimes();
    if (step_seconds > 0) phase["ack_p99_ms"] = P99(acks) * 1e3;
    if (step_seconds > 0) phase["acks"] = acks.size();
    return true;
  }

  bool LetLive(double step_seconds) {
    return members_->Live(FromSeconds(settings_.seconds), FromSeconds(step_seconds));
  }

  bool Cost(Json& phase, double step_seconds) {
    const Stopwatch watch;
    const double cpu = coordinator_.CpuSeconds();
    const int64_t sent = members_->sent();
    if (!LetLive(step_seconds)) return false;
    const double seconds = watch.Seconds();
    const double cores = (coordinator_.CpuSeconds() - cpu) / seconds;
    const auto frames = static_cast<double>(members_->sent() - sent);
    phase["cores"] = cores;
    phase["micros_per_member_and_second"] = PerMember(cores) * 1e6;
    phase["frames_per_second"] = frames / seconds;
    phase["frames_per_core_second"] = cores > 0 ? frames / seconds / cores : 0;
    return true;
  }

  bool Answers(Json& phase, double step_seconds) {
    Prober prober(coordinator_, simulation_.job);
    if (!LetLive(step_seconds)) return false;
    std::vector<double> gets;
    std::vector<double> asks;
    std::vector<double> scrapes;
    prober.Collect(gets, asks, scrapes);
    phase["get_p99_ms"] = P99(gets) * 1e3;
    phase["scrape_p99_ms"] = P99(scrapes) * 1e3;
    phase["ask_p99_ms"] = P99(asks) * 1e3;
    phase["probes"] = gets.size();
    return true;
  }

  bool Loss() {
    const Stopwatch all;
    members_->LoseOne();
    if (!members_->AwaitSeal(patience())) return Failed("no view was begun after a loss");
    result_["loss_noticed_seconds"] = all.Seconds();
    const Stopwatch change;
    if (!members_->AwaitActive(patience())) return Failed("no view became active after a loss");
    result_["view_change_seconds"] = change.Seconds();
    return true;
  }

  bool Restart() {
    members_->ExpectRestart();
    const Stopwatch all;
    coordinator_.Kill();
    if (const absl::Status started = coordinator_.Start(); !started.ok())
      return Failed(std::string(started.message()));
    result_["restart_listens_seconds"] = all.Seconds();
    if (!members_->AwaitActive(patience()))
      return Failed("not all were told the view after a restart");
    result_["restart_seconds"] = all.Seconds();
    return true;
  }

  const Settings& settings_;
  const Simulation simulation_;
  const std::string dir_;
  CoordinatorProcess coordinator_;
  std::unique_ptr<SimulatedMembers> members_;
  Json result_;
  std::string failed_;
};

constexpr Row kRows[] = {
    {"connect, told the job (s)", "", "connect_seconds", "%.2f"},
    {"  CPU of it (s)", "", "connect_cpu_seconds", "%.2f"},
    {"join until all are active (s)", "", "join_seconds", "%.2f"},
    {"  both (s)", "", "connect_and_join_seconds", "%.2f"},
    {"  CPU of the join (s)", "", "join_cpu_seconds", "%.2f"},
    {"memory of a session (KiB)", "", "session_kib", "%.1f"},
    {"threads", "", "threads", "%.0f"},
    {"memory of a member, joined (KiB)", "", "member_kib", "%.1f"},
    {"heartbeats: cores", "heartbeats", "cores", "%.3f"},
    {"  µs per member and second", "heartbeats", "micros_per_member_and_second", "%.0f"},
    {"  frames per second of a core", "heartbeats", "frames_per_core_second", "%.0f"},
    {"  p99 of GET job (ms)", "heartbeats", "get_p99_ms", "%.1f"},
    {"  p99 of a scrape (ms)", "heartbeats", "scrape_p99_ms", "%.1f"},
    {"  p99 of a control round trip (ms)", "heartbeats", "ask_p99_ms", "%.1f"},
    {"with records: cores", "records", "cores", "%.3f"},
    {"  µs per member and second", "records", "micros_per_member_and_second", "%.0f"},
    {"  p99 of an acknowledgement (ms)", "records", "ack_p99_ms", "%.1f"},
    {"  p99 of GET job (ms)", "records", "get_p99_ms", "%.1f"},
    {"  p99 of a scrape (ms)", "records", "scrape_p99_ms", "%.1f"},
    {"  p99 of a control round trip (ms)", "records", "ask_p99_ms", "%.1f"},
    {"a loss is noticed (s)", "", "loss_noticed_seconds", "%.2f"},
    {"view change after it (s)", "", "view_change_seconds", "%.2f"},
    {"restart until it listens (s)", "", "restart_listens_seconds", "%.2f"},
    {"restart until all have the view (s)", "", "restart_seconds", "%.2f"},
};

int Main(int argc, char** argv) {
  Settings settings;
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  // It speaks plain text: what members and hosts cost is measured, and not their certificates.
  settings.program = self.parent_path().parent_path() / "plaintext/muster-coordinator";
  settings.dir =
      std::filesystem::temp_directory_path() / absl::StrCat("muster-coordinator-bench-", getpid());
  CLI::App app("What a coordinator costs as its job grows");
  app.add_option("--members", settings.members,
                 "how many simulated members; several: one after the other")
      ->check(CLI::Range(2, 4096))
      ->capture_default_str();
  app.add_option("--hosts", settings.hosts, "how many simulated hosts, in place of members")
      ->check(CLI::Range(2, 4096));
  app.add_option("--slots", settings.slots, "of each simulated host")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option("--seconds", settings.seconds, "of each steady phase")->capture_default_str();
  app.add_option("--step-seconds", settings.step_seconds, "between the steps that all record")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--patience", settings.patience, "seconds for what must happen")
      ->capture_default_str();
  app.add_option("--chunks", settings.chunks, "of the model")->capture_default_str();
  app.add_option("--coordinator", settings.program, "the program to measure")
      ->capture_default_str();
  app.add_option("--dir", settings.dir, "for stores and logs; kept when named")
      ->capture_default_str();
  app.add_option("--json", settings.json, "file for the figures");
  CLI11_PARSE(app, argc, argv);
  std::vector<Json> rounds;
  bool whole = true;
  const bool of_hosts = !settings.hosts.empty();
  for (const int32_t size : of_hosts ? settings.hosts : settings.members) {
    rounds.push_back(of_hosts ? MeasureHosts({settings.slots, FromSeconds(settings.patience),
                                              settings.program, settings.dir},
                                             size)
                              : Round(settings, size).Run());
    whole = whole && !rounds.back().contains("failed");
    std::fprintf(stderr, "%s\n", rounds.back().dump().c_str());
  }
  if (of_hosts) {
    std::printf("%d slots a host\n\n", settings.slots);
    PrintTable("hosts", RowsOfHosts(), rounds);
  } else {
    std::printf("a lease of 1.5 s, three heartbeats in each; records of one step every %g s\n\n",
                settings.step_seconds);
    PrintTable("members", kRows, rounds);
  }
  if (app.count("--dir") == 0) std::filesystem::remove_all(settings.dir, error);
  if (!settings.json.empty()) std::ofstream(settings.json) << Json(rounds).dump(1) << "\n";
  return whole ? 0 : 1;
}

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) { return muster::bench::Main(argc, argv); }
