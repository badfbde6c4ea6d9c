// What a checkpoint of a transformer with Adam costs the steps: how long a step stands still for
// the copy, in the first round and later, beside a plain copy into warm memory; and how much slower
// the steps are that run while it is written. Three ways of writing take turns: as a member does it
// (paced), as a member does it when it is in a hurry (at once), and what any program does:
// checksums, write and fsync through the page cache. Each is compared with the steps just before
// it, beside which nothing is written. bench/checkpoint_peers.py measures PyTorch on the same
// sizes.
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/statistics.h"
#include "lib/base/bytes.h"
#include "lib/base/check.h"
#include "lib/kernels/add.h"
#include "lib/kernels/crc.h"
#include "lib/member/runtime/segment_writer.h"
#include "lib/wire/tensor_copy.h"

namespace muster {
namespace {

using bench::Figure;

struct Settings {
  int rounds = 10;
  int64_t parameters = 44'140'544;  // of the default nn.Transformer
  double step_seconds = 0.1;
  double seconds = 3;  // of steps that nothing is written beside
  int threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  std::string dir = ".";
  std::string json;
};

double Now() { return Seconds(std::chrono::steady_clock::now().time_since_epoch()); }

double ThreadCpu() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double ProcessCpu() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// Steps of a known work on so many threads, which wait for each other after each: products of
// matrices that stay in the cache, then a sum over gradients that do not.
class Steps {
 public:
  Steps(int threads, double step_seconds) : barrier_(threads + 1) {
    Work work;
    const double begin = ThreadCpu();
    constexpr int kTrial = 50;
    work.Do(kTrial);
    const double each = (ThreadCpu() - begin) / kTrial;
    products_ = std::max(1, static_cast<int>(step_seconds / each));
    cpu_.resize(static_cast<size_t>(threads));
    for (size_t i = 0; i < cpu_.size(); ++i) threads_.emplace_back([this, i] { Loop(i); });
  }
  ~Steps() {
    stopping_ = true;
    barrier_.arrive_and_wait();
    for (std::thread& thread : threads_) thread.join();
  }

  struct Cost {
    double wall = 0;
    double cpu = 0;  // of all threads
  };
  // One step.
  Cost Run() {
    const double begin = Now();
    barrier_.arrive_and_wait();
    barrier_.arrive_and_wait();
    Cost cost{Now() - begin, 0};
    for (double cpu : cpu_) cost.cpu += cpu;
    return cost;
  }

 private:
  class Work {
   public:
    void Do(int products) {
      for (int i = 0; i < products; ++i) Multiply();
      Add(gradients_, sums_, absl::MakeSpan(sums_));
    }

   private:
    static constexpr size_t kSide = 96;

    void Multiply() {
      for (size_t i = 0; i < kSide; ++i)
        for (size_t k = 0; k < kSide; ++k) {
          const float a = a_[i * kSide + k];
          for (size_t j = 0; j < kSide; ++j) c_[i * kSide + j] += a * b_[k * kSide + j];
        }
      for (float& c : c_) c *= 0.5f;
    }

    std::vector<float> a_ = std::vector<float>(kSide * kSide, 0.25f);
    std::vector<float> b_ = std::vector<float>(kSide * kSide, 0.5f);
    std::vector<float> c_ = std::vector<float>(kSide * kSide);
    std::vector<float> gradients_ = std::vector<float>(size_t{2} << 20, 1e-6f);
    std::vector<float> sums_ = std::vector<float>(size_t{2} << 20);
  };

  void Loop(size_t i) {
    Work work;
    while (true) {
      barrier_.arrive_and_wait();
      if (stopping_) return;
      const double begin = ThreadCpu();
      work.Do(products_);
      cpu_[i] = ThreadCpu() - begin;
      barrier_.arrive_and_wait();
    }
  }

  int products_ = 1;
  std::barrier<> barrier_;
  std::atomic<bool> stopping_{false};
  std::vector<double> cpu_;
  std::vector<std::thread> threads_;
};

// The state, and its part of a checkpoint: all of it.
struct State {
  SetupPtr setup;
  StateMemory memory;

  CheckpointPartCopy Copy(int64_t step) const {
    CopyCounter copied{0};
    return CopyCheckpointPart(*setup, memory, LineageNumber(1), Step(step),
                              AllChunks(setup->layout), copied);
  }
  // As many bytes as a part has, one slot after the other.
  void CopyInto(const std::vector<FlatPtr>& to) const {
    CopyCounter counter{0};
    CopyFloats(memory.values->all(), to[0]->all(), counter);
    for (size_t s = 0; s < memory.slots.size(); ++s)
      CopyFloats(memory.slots[s]->all(), to[s + 1]->all(), counter);
  }
};

State MakeState(const Settings& settings, const std::string& dir) {
  JobIs job;
  job.job = "bench";
  job.cluster = "bench";
  job.checkpoint_dir = dir;
  job.spec.training.optimizer.kind = OptimizerKind::kAdam;
  NumericEnvironment environment;
  environment.samples = 1;
  environment.tensors = {{"weight", {settings.parameters}, TensorKind::kParameter}};
  auto setup = MakeSetup(job, environment);
  MUSTER_CHECK(setup.ok());
  State state{*std::move(setup), {}};
  const auto filled = [&](float first) {
    FlatPtr flat = state.setup->pool->BorrowZeroed();
    for (float& value : flat->all()) value = first += 1e-3f;
    return flat;
  };
  state.memory.values = filled(1);
  for (int s = 0; s < state.setup->slots; ++s) state.memory.slots.push_back(filled(2));
  return state;
}

// What writes a part on a thread of its own.
class Writing {
 public:
  virtual ~Writing() = default;
  virtual void Begin(CheckpointPartCopy part) = 0;
  virtual bool IsDone() = 0;  // true once
};

class ByMember : public Writing {
 public:
  ByMember(const State& state, const std::string& name, bool training)
      : writer_(state.setup, name, events_, failpoints_, progress_) {
    writer_.SetTraining(training);
  }
  void Begin(CheckpointPartCopy part) override { writer_.Write(std::move(part)); }
  void Touch(size_t elements) {
    writer_.Expect(elements);
    writer_.Expect(0);  // is taken when the memory was touched
    while (writer_.waiting() > 0) std::this_thread::yield();
  }
  bool IsDone() override {
    const std::optional<Event> event = events_->TryTake();
    if (!event) return false;
    MUSTER_CHECK(std::holds_alternative<SegmentWritten>(*event), "the disk failed");
    return true;
  }

 private:
  std::shared_ptr<EventBox> events_ = std::make_shared<EventBox>();
  Failpoints failpoints_{[](absl::string_view) {}};
  ThreadProgress progress_{kCheckpointThread};
  SegmentWriter writer_;
};

class ThroughPageCache : public Writing {
 public:
  explicit ThroughPageCache(std::string path) : path_(std::move(path)) {}
  void Begin(CheckpointPartCopy part) override {
    done_ = false;
    thread_ = std::thread([this, part = std::move(part)] { Write(part); });
  }
  bool IsDone() override {
    if (!done_ || !thread_.joinable()) return false;
    thread_.join();
    return true;
  }

 private:
  void Write(const CheckpointPartCopy& part) {
    uint32_t crc = 0;
    for (const PartView& view : part.parts) crc ^= Crc32c(BytesOf(view.values));
    checksum_ = crc;
    const int fd = open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    MUSTER_CHECK(fd >= 0);
    for (const PartView& view : part.parts) {
      absl::Span<const std::byte> bytes = BytesOf(view.values);
      while (!bytes.empty()) {
        const ssize_t n = write(fd, bytes.data(), bytes.size());
        MUSTER_CHECK(n > 0, "the disk failed");
        bytes.remove_prefix(static_cast<size_t>(n));
      }
    }
    MUSTER_CHECK(fsync(fd) == 0);
    close(fd);
    done_ = true;
  }

  const std::string path_;
  std::atomic<uint32_t> checksum_{0};
  std::atomic<bool> done_{false};
  std::thread thread_;
};

class Bench {
 public:
  explicit Bench(const Settings& settings)
      : settings_(settings),
        dir_(settings.dir + "/muster-checkpoint-bench"),
        state_(MakeState(settings, dir_)),
        steps_(settings.threads, settings.step_seconds) {
    std::filesystem::create_directories(dir_);
    for (int s = 0; s <= state_.setup->slots; ++s)
      warm_.push_back(state_.setup->pool->BorrowZeroed());
    ways_.push_back({"paced", std::make_unique<ByMember>(state_, "paced", true)});
    ways_.push_back({"at once", std::make_unique<ByMember>(state_, "at-once", false)});
    ways_.push_back(
        {"through the page cache", std::make_unique<ThroughPageCache>(dir_ + "/plain")});
  }
  ~Bench() {
    ways_.clear();
    std::filesystem::remove_all(dir_);
  }

  void Run() {
    const double untouched = state_.Copy(0).stall_seconds;
    const double touched = FirstStallAfterTouching();
    for (int round = 0; round < settings_.rounds; ++round) {
      for (Way& way : ways_) {
        const Steps::Cost alone = StepsAlone();
        const double begin = Now(), begin_cpu = ThreadCpu();
        state_.CopyInto(warm_);
        const double copy = Now() - begin, copy_cpu = ThreadCpu() - begin_cpu;
        CheckpointPartCopy part = state_.Copy(++step_);
        const double stall_cpu = ThreadCpu() - begin_cpu - copy_cpu;
        Of("copy into warm memory", "s").push_back(copy);
        if (step_ == 1) {
          Of("first stall ÷ copy, memory touched ahead", "").push_back(touched / copy);
          Of("first stall ÷ copy, memory not touched", "").push_back(untouched / copy);
        }
        Of("stall", "s").push_back(part.stall_seconds);
        Of("stall ÷ copy", "").push_back(part.stall_seconds / copy);
        Of("stall ÷ copy, processor time", "").push_back(stall_cpu / copy_cpu);
        WriteBesideSteps(way, std::move(part), alone);
      }
    }
  }

  void Print() const {
    std::printf("%lld parameters with Adam, %.0f MB; %d thread(s), steps of %.0f ms, %d rounds\n",
                static_cast<long long>(settings_.parameters), StateBytes() * 1e-6,
                settings_.threads, settings_.step_seconds * 1e3, settings_.rounds);
    std::printf("%-52s %10s   5 … 95 %%\n", "", "median");
    nlohmann::json record = {{"bench", "checkpoint"},
                             {"parameters", settings_.parameters},
                             {"threads", settings_.threads},
                             {"rounds", settings_.rounds}};
    for (const Figure& figure : figures_) {
      figure.Print();
      record["figures"][figure.name] = figure.Record();
    }
    if (!settings_.json.empty()) std::ofstream(settings_.json) << record.dump(2) << "\n";
  }

 private:
  struct Way {
    std::string name;
    std::unique_ptr<Writing> writing;
  };

  double StateBytes() const {
    return 4.0 * static_cast<double>(settings_.parameters) * (1 + state_.setup->slots);
  }

  // A member touches the memory while the steps before the first checkpoint run.
  double FirstStallAfterTouching() {
    const State fresh = MakeState(settings_, dir_);
    ByMember member(fresh, "first", false);
    member.Touch(PartElements(*fresh.setup, AllChunks(fresh.setup->layout)));
    const double stall = fresh.Copy(0).stall_seconds;
    MUSTER_CHECK(fresh.setup->part_memory->made() == 1);
    return stall;
  }

  // The mean of the steps while `go_on` says so; at least two.
  Steps::Cost MeanStep(const std::function<bool()>& go_on) {
    Steps::Cost sum;
    int count = 0;
    for (bool more = true; more || count < 2; ++count) {
      const Steps::Cost step = steps_.Run();
      sum.wall += step.wall;
      sum.cpu += step.cpu;
      more = more && go_on();
    }
    steps_cpu_ = sum.cpu;
    return {sum.wall / count, sum.cpu / count};
  }

  Steps::Cost StepsAlone() {
    const double end = Now() + settings_.seconds;
    return MeanStep([&] { return Now() < end; });
  }

  void WriteBesideSteps(Way& way, CheckpointPartCopy part, const Steps::Cost& alone) {
    const double begin = Now(), cpu_before = ProcessCpu();
    double took = 0;
    way.writing->Begin(std::move(part));
    const Steps::Cost beside = MeanStep([&] {
      if (!way.writing->IsDone()) return true;
      took = Now() - begin;
      return false;
    });
    const double writing = ProcessCpu() - cpu_before - steps_cpu_;
    Of(way.name + ": written after", "s").push_back(took);
    Of(way.name + ": processor time of writing", "s").push_back(writing);
    Of(way.name + ": steps, wall ÷ alone", "").push_back(beside.wall / alone.wall);
    Of(way.name + ": steps, processor time ÷ alone", "").push_back(beside.cpu / alone.cpu);
    for (const auto& entry : std::filesystem::directory_iterator(dir_))
      std::filesystem::remove_all(entry.path());
  }

  std::vector<double>& Of(const std::string& name, const std::string& unit) {
    for (Figure& figure : figures_)
      if (figure.name == name) return figure.values;
    return figures_.emplace_back(Figure{name, unit}).values;
  }

  const Settings settings_;
  const std::string dir_;
  State state_;
  std::vector<FlatPtr> warm_;
  Steps steps_;
  std::vector<Way> ways_;
  std::vector<Figure> figures_;
  int64_t step_ = 0;
  double steps_cpu_ = 0;  // of the last MeanStep
};

int Run(const Settings& settings) {
  Bench bench(settings);
  bench.Run();
  bench.Print();
  return 0;
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) {
  muster::Settings settings;
  CLI::App app("What a checkpoint costs the steps: the stall, and the steps beside its writing");
  app.add_option("--rounds", settings.rounds)->check(CLI::Range(1, 1000));
  app.add_option("--parameters", settings.parameters)->check(CLI::Range(1000, 1'000'000'000));
  app.add_option("--step-seconds", settings.step_seconds)->check(CLI::Range(0.001, 10.0));
  app.add_option("--seconds", settings.seconds, "of the steps beside which nothing is written")
      ->check(CLI::Range(0.0, 60.0));
  app.add_option("--threads", settings.threads, "that compute steps")->check(CLI::Range(1, 256));
  app.add_option("--dir", settings.dir, "folder for the files, which are deleted");
  app.add_option("--json", settings.json, "file for a machine-readable record");
  CLI11_PARSE(app, argc, argv);
  return muster::Run(settings);
}
