// How fast samples are read from the files that a job names: one epoch in its order, lane by lane,
// by the train thread alone and with threads that read ahead. bench/data_peers.py makes files of
// each format and reads them with Python, too.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/statistics.h"
#include "lib/base/status.h"
#include "lib/base/time.h"
#include "lib/data/runtime/loader.h"
#include "lib/domain/samples.h"
#include "lib/kernels/float_env.h"
#include "lib/wire/job_codec.h"
#include "muster/data_set.h"

namespace muster::bench {
namespace {

struct Settings {
  std::string job;
  std::vector<int> threads = {0, 1, 2};
  int lane = 64;  // samples
  size_t ahead_mib = 128;
  int rounds = 5;
  std::string json;
};

using Clock = std::chrono::steady_clock;

// Seconds of an epoch. Every batch is looked at, so that nothing of it is left out.
absl::StatusOr<double> ReadEpoch(const DataSet& set, const Settings& settings, int threads,
                                 int64_t epoch) {
  const EpochOrder order(1, epoch, set.Samples());
  std::vector<ComingLane> lanes;
  for (uint64_t at = 0; at < set.Samples(); ++at) {
    if (at % static_cast<uint64_t>(settings.lane) == 0) lanes.push_back({epoch, {}});
    lanes.back().samples.push_back(order.At(at));
  }
  Loader loader(set, threads, settings.ahead_mib << 20);
  const auto begin = Clock::now();
  size_t seen = 0;
  for (size_t i = 0; i < lanes.size(); ++i) {
    const size_t end = std::min(lanes.size(), i + 8);
    loader.Coming({lanes.begin() + static_cast<std::ptrdiff_t>(i),
                   lanes.begin() + static_cast<std::ptrdiff_t>(end)});
    MUSTER_ASSIGN_OR_RETURN(const Batch batch, loader.Take(epoch, lanes[i].samples));
    for (size_t f = 0; f < set.Fields().size(); ++f)
      for (size_t byte = 0; byte < batch.of(f).size(); byte += 64)
        seen += static_cast<size_t>(batch.of(f)[byte]);
  }
  const double seconds = Seconds(Clock::now() - begin);
  if (seen == SIZE_MAX) std::printf("\n");
  return seconds;
}

absl::Status Run(const Settings& settings) {
  std::ifstream in(settings.job);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  MUSTER_ASSIGN_OR_RETURN(const JobSpec spec, ParseJobYaml(text, settings.job, {}));
  const auto begin = Clock::now();
  MUSTER_ASSIGN_OR_RETURN(const auto set, OpenDataSet(spec.training.data, 1));
  const double opened = Seconds(Clock::now() - begin);
  const double megabytes =
      static_cast<double>(Batch::BytesFor(set->Fields(), set->Samples())) / 1e6;
  std::printf("%llu samples, %.1f MB as they are given to a task; opened and hashed in %.2f s\n",
              static_cast<unsigned long long>(set->Samples()), megabytes, opened);  // NOLINT
  std::vector<Figure> rates;
  for (const int threads : settings.threads)
    rates.push_back({absl::StrCat("MB/s, ", threads, " threads read ahead"), ""});
  for (int round = 0; round < settings.rounds; ++round)
    for (size_t t = 0; t < settings.threads.size(); ++t) {
      MUSTER_ASSIGN_OR_RETURN(const double seconds,
                              ReadEpoch(*set, settings, settings.threads[t], round));
      rates[t].values.push_back(megabytes / seconds);
    }
  nlohmann::json record = {{"samples", set->Samples()}, {"opened", opened}, {"mb", megabytes}};
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
  app.add_option("--ahead-mib", settings.ahead_mib, "how much is read ahead at most");
  app.add_option("--rounds", settings.rounds, "epochs for each number")->check(CLI::Range(1, 1000));
  app.add_option("--json", settings.json, "a file for the figures");
  CLI11_PARSE(app, argc, argv);
  SetFloatEnvironment();
  const absl::Status status = Run(settings);
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return 1;
}

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) { return muster::bench::Main(argc, argv); }
