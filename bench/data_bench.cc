// How fast samples are read from the files that a job names: epochs in their order, lane by lane,
// by the train thread alone and with threads that read ahead. bench/data_peers.py makes files of
// each format and reads them with Python, too.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/statistics.h"
#include "lib/base/kept_memory.h"
#include "lib/base/status.h"
#include "lib/base/time.h"
#include "lib/data/runtime/loader.h"
#include "lib/domain/samples.h"
#include "lib/kernels/float_env.h"
#include "lib/wire/job_codec.h"
#include "muster/data_set.h"

namespace muster::bench {
namespace {

// What is read ahead is at most this part of a data set, so that little of an epoch is in memory
// when it begins, however small the data set is.
constexpr size_t kEpochPerAhead = 10;

struct Settings {
  std::string job;
  std::vector<int> threads = {0, 1, 2};
  int lane = 64;  // samples
  size_t ahead_mib = 128;
  int rounds = 5;
  double seconds = 0;
  double warm_up = 0;
  bool memory = false;
  std::string json;
};

using Clock = std::chrono::steady_clock;

// Every batch is looked at, so that nothing of it is left out.
size_t LookAt(absl::Span<const std::byte> bytes) {
  size_t seen = 0;
  for (size_t byte = 0; byte < bytes.size(); byte += 64) seen += static_cast<size_t>(bytes[byte]);
  return seen;
}

// A sum that nobody could foresee, so that no compiler leaves out what it is made of.
void Use(size_t seen) {
  if (seen == SIZE_MAX) std::printf("\n");
}

class Reading {
 public:
  Reading(const DataSet& set, const Settings& settings)
      : set_(set),
        settings_(settings),
        bytes_(Batch::BytesFor(set.Fields(), set.Samples())),
        ahead_(std::min(settings.ahead_mib << 20, bytes_ / kEpochPerAhead)) {}

  double megabytes() const { return static_cast<double>(bytes_) / 1e6; }
  // A lane is read ahead even where it is larger than what may be.
  size_t MostAhead() const { return std::max(ahead_, LaneBytes()); }
  double EpochsPerAhead() const {
    return static_cast<double>(bytes_) / static_cast<double>(MostAhead());
  }

  // MB/s over whole epochs, which take settings.seconds at least, after a warm-up of such.
  absl::StatusOr<double> Rate(int threads) {
    return RateOf([&] { return ReadEpoch(threads); });
  }

  // What no reader can be faster than: as many bytes are copied, lane by lane, as they lie.
  absl::StatusOr<double> RateOfCopies() {
    const std::vector<std::byte> from(bytes_, std::byte{1});
    std::vector<std::byte> lane(LaneBytes());
    return RateOf([&]() -> absl::StatusOr<double> {
      const auto begin = Clock::now();
      size_t seen = 0;
      for (size_t at = 0; at < from.size(); at += lane.size()) {
        const size_t bytes = std::min(lane.size(), from.size() - at);
        std::memcpy(lane.data(), from.data() + at, bytes);
        seen += LookAt(absl::MakeConstSpan(lane).first(bytes));
      }
      const double seconds = Seconds(Clock::now() - begin);
      Use(seen);
      return seconds;
    });
  }

 private:
  size_t LaneBytes() const {
    return Batch::BytesFor(set_.Fields(),
                           std::min(set_.Samples(), static_cast<uint64_t>(settings_.lane)));
  }

  // `epoch` gives the seconds that it took.
  template <typename Epoch>
  absl::StatusOr<double> RateOf(const Epoch& epoch) {
    for (double warm = 0; warm < settings_.warm_up;) {
      MUSTER_ASSIGN_OR_RETURN(const double seconds, epoch());
      warm += seconds;
    }
    double taken = 0;
    int epochs = 0;
    do {
      MUSTER_ASSIGN_OR_RETURN(const double seconds, epoch());
      taken += seconds;
      ++epochs;
    } while (taken < settings_.seconds);
    return epochs * megabytes() / taken;
  }

  // Each time in another order.
  absl::StatusOr<double> ReadEpoch(int threads) {
    const int64_t epoch = next_epoch_++;
    const EpochOrder order(1, epoch, set_.Samples());
    std::vector<ComingLane> lanes;
    for (uint64_t at = 0; at < set_.Samples(); ++at) {
      if (at % static_cast<uint64_t>(settings_.lane) == 0) lanes.push_back({epoch, {}});
      lanes.back().samples.push_back(order.At(at));
    }
    Loader loader(set_, threads, ahead_);
    const auto begin = Clock::now();
    size_t seen = 0;
    for (size_t i = 0; i < lanes.size(); ++i) {
      const size_t end = std::min(lanes.size(), i + 8);
      loader.Coming({lanes.begin() + static_cast<std::ptrdiff_t>(i),
                     lanes.begin() + static_cast<std::ptrdiff_t>(end)});
      MUSTER_ASSIGN_OR_RETURN(const Batch batch, loader.Take(epoch, lanes[i].samples));
      for (size_t f = 0; f < set_.Fields().size(); ++f) seen += LookAt(batch.of(f));
    }
    const double seconds = Seconds(Clock::now() - begin);
    Use(seen);
    return seconds;
  }

  const DataSet& set_;
  const Settings& settings_;
  const size_t bytes_;  // as they are given to a task
  const size_t ahead_;
  int64_t next_epoch_ = 0;
};

// The same samples as arrays in memory.
absl::StatusOr<std::unique_ptr<DataSet>> InMemory(const DataSet& set) {
  std::vector<uint64_t> ids(set.Samples());
  std::iota(ids.begin(), ids.end(), uint64_t{0});
  MUSTER_ASSIGN_OR_RETURN(const Batch all, set.Read(/*epoch=*/-1, ids));
  std::vector<std::string> rows;
  for (size_t f = 0; f < set.Fields().size(); ++f) {
    const absl::Span<const std::byte> bytes = all.of(f);
    rows.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  return DataSetInMemory(set.Fields(), std::move(rows));
}

absl::Status Run(const Settings& settings) {
  std::ifstream in(settings.job);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  MUSTER_ASSIGN_OR_RETURN(const JobSpec spec, ParseJobYaml(text, settings.job, {}));
  const auto begin = Clock::now();
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<DataSet> set, OpenDataSet(spec.training.data, 1));
  const double opened = Seconds(Clock::now() - begin);
  if (settings.memory) {
    MUSTER_ASSIGN_OR_RETURN(set, InMemory(*set));
  }
  Reading reading(*set, settings);
  const double megabytes = reading.megabytes();
  std::printf("%llu samples, %.1f MB as they are given to a task; opened and hashed in %.2f s\n",
              static_cast<unsigned long long>(set->Samples()), megabytes, opened);  // NOLINT
  std::printf("%.1f MB are read ahead at most; the data set has %.1f times as much\n",
              static_cast<double>(reading.MostAhead()) / 1e6, reading.EpochsPerAhead());
  std::vector<Figure> rates;
  for (const int threads : settings.threads)
    rates.push_back({absl::StrCat("MB/s, ", threads, " threads read ahead"), ""});
  if (settings.memory) rates.push_back({"MB/s, memcpy", ""});
  for (int round = 0; round < settings.rounds; ++round) {
    for (size_t t = 0; t < settings.threads.size(); ++t) {
      MUSTER_ASSIGN_OR_RETURN(const double rate, reading.Rate(settings.threads[t]));
      rates[t].values.push_back(rate);
    }
    if (!settings.memory) continue;
    MUSTER_ASSIGN_OR_RETURN(const double rate, reading.RateOfCopies());
    rates.back().values.push_back(rate);
  }
  nlohmann::json record = {{"samples", set->Samples()},
                           {"opened", opened},
                           {"mb", megabytes},
                           {"epochs_per_ahead", reading.EpochsPerAhead()}};
  for (const Figure& rate : rates) {
    rate.Print();
    record["figures"][rate.name] = rate.Record();
  }
  if (!settings.json.empty()) std::ofstream(settings.json) << record.dump(1) << "\n";
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  Settings settings;
  CLI::App app("Measures how fast a data set is read.");
  app.add_option("job", settings.job, "a job specification whose data is read")->required();
  app.add_option("--threads", settings.threads, "how many read ahead; each number is measured");
  app.add_option("--lane", settings.lane, "samples of a lane")->check(CLI::Range(1, 1 << 20));
  app.add_option("--ahead-mib", settings.ahead_mib,
                 "how much is read ahead at most, and never more than a tenth of the data set");
  app.add_option("--rounds", settings.rounds, "for each number")->check(CLI::Range(1, 1000));
  app.add_option("--seconds", settings.seconds,
                 "of a round at least, in whole epochs; 0: one epoch")
      ->check(CLI::Range(0.0, 3600.0));
  app.add_option("--warm-up", settings.warm_up, "seconds at least of epochs before, not counted")
      ->check(CLI::Range(0.0, 3600.0));
  app.add_flag("--memory", settings.memory,
               "read the samples from memory, where all of them are put first, beside memcpy");
  app.add_option("--json", settings.json, "a file for the figures");
  CLI11_PARSE(app, argc, argv);
  SetFloatEnvironment();
  KeepFreedMemory(size_t{128} << 20);  // as workers do
  const absl::Status status = Run(settings);
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return 1;
}

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) { return muster::bench::Main(argc, argv); }
