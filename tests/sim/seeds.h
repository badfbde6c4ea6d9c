// Makes the options of a world from a seed.
#pragma once

#include <algorithm>

#include "tests/sim/world.h"

namespace muster::sim {

class SeedOptions {
 public:
  explicit SeedOptions(uint64_t seed) : seed_(seed) {}

  // Each job has hosts that are made for it.
  WorldOptions MakeWithLaunches() const {
    WorldOptions options;
    options.seed = seed_;
    options.launches = true;
    options.jobs.clear();
    options.hosts = {7};  // of no job
    options.faults = Pick(8, 2, 14);
    if (OneIn(31, 6)) AddMistake(options);
    options.signs = options.mistake_at == 0 && OneIn(45, 2);
    const char* const ids[] = {"a", "b", "c"};
    for (int32_t i = 0; i < Pick(9, 1, 3); ++i) {
      const auto salt = static_cast<uint64_t>(100 * (i + 1));
      JobOptions& job = options.jobs.emplace_back(Job(ids[i], salt));
      job.steps = Pick(salt + 30, 10, 60);
      job.submit_at = i == 0 ? 0 : Pick(salt + 31, 1, 1500);
      job.devices = OneIn(salt + 32, 3) ? Pick(salt + 33, 1, 2) : 0;
      job.priority = OneIn(salt + 34, 3) ? 1 : 0;
    }
    if (!OneIn(27, 2)) return options;
    options.quota = Pick(28, 2, 8);
    options.quota_at = Pick(29, 1, 1500);
    options.quota_ms = Pick(30, 500, 8000);
    return options;
  }

  // All jobs are measured by followers.
  WorldOptions MakeWithFollowers() const {
    WorldOptions options = Make();
    for (size_t i = 0; i < options.jobs.size(); ++i) {
      JobOptions& job = options.jobs[i];
      const auto salt = static_cast<uint64_t>(100 * (i + 1) + 50);
      if (job.delay > 0) continue;
      if (job.validation_every == 0) job.validation_every = Pick(salt, 1, 6);
      if (job.patience == 0 && OneIn(salt + 1, 4)) job.patience = Pick(salt + 2, 2, 5);
      AddFollower(job, salt + 3);
    }
    return options;
  }

  // The data of all jobs comes while they train.
  WorldOptions MakeWithStreams() const {
    WorldOptions options = Make();
    options.mistake_at = 0;  // a copy of the journal may need what was trimmed after it was made
    for (size_t i = 0; i < options.jobs.size(); ++i)
      AddStream(options.jobs[i], static_cast<uint64_t>(100 * (i + 1) + 60));
    return options;
  }

  WorldOptions Make() const {
    WorldOptions options;
    options.seed = seed_;
    options.faults = Pick(8, 2, 14);
    options.jobs = {Job("a", 100)};
    if (OneIn(31, 8)) AddMistake(options);
    // An older copy of the journal does not know what was signed since.
    options.signs = options.mistake_at == 0 && OneIn(45, 2);
    if (!OneIn(9, 3)) {
      if (OneIn(19, 2)) options.hosts = Hosts(Pick(16, 7, 12));
      AddDevices(options);
      return options;
    }
    options.jobs[0].steps = Pick(10, 10, 40);
    options.jobs.push_back(Job("b", 200));
    options.jobs[1].steps = Pick(11, 10, 40);
    options.jobs[1].submit_at = Pick(12, 1, 1500);
    int32_t slots = Pick(16, 7, 12);  // the largest job needs 7
    if (OneIn(13, 2))
      AddThird(options, slots);
    else if (OneIn(25, 2))
      Prioritize(options, slots);
    options.hosts = Hosts(slots);
    AddDevices(options);
    return options;
  }

 private:
  void AddMistake(WorldOptions& options) const {
    options.mistake_at = Pick(32, 300, 4000);
    options.copy_age = OneIn(33, 2) ? Pick(34, 1, 1500) : 0;
    options.copy_age = std::min(options.copy_age, options.mistake_at - 1);
    options.looks_ms = Pick(35, 0, OneIn(36, 2) ? 8000 : 1000);
  }

  int32_t Pick(uint64_t salt, int32_t low, int32_t high) const {
    return low + static_cast<int32_t>(Mix64(seed_, salt) % static_cast<uint64_t>(high - low + 1));
  }
  bool OneIn(uint64_t salt, int32_t n) const { return Pick(salt, 1, n) == n; }

  // In two of three worlds the third job is small enough to pass the second, which waits for the
  // first. For that the second must not fit beside the first, and must leave a slot.
  void AddThird(WorldOptions& options, int32_t& slots) const {
    JobOptions job = Job("c", 300);
    job.steps = Pick(14, 10, 30);
    job.submit_at = Pick(15, 1, 1500);
    if (!OneIn(17, 3)) {
      JobOptions& second = options.jobs[1];
      second.workers_min = second.workers;
      job.sync = Sync::kAllreduce;
      job.workers = Pick(18, 1, 2);
      job.workers_min = 1;
      job.submit_at = second.submit_at + Pick(15, 1, 400);
      slots = Pick(16, 8, 9);
    }
    options.jobs.push_back(job);
  }

  // The second job goes first, and often there is no room for it beside the first; in half of these
  // worlds the two may hold fewer slots for some time.
  void Prioritize(WorldOptions& options, int32_t& slots) const {
    JobOptions& second = options.jobs[1];
    second.priority = Pick(26, 1, 2);
    second.workers_min = second.workers;
    slots = 7;
    if (!OneIn(27, 2)) return;
    options.quota = Pick(28, 2, 6);
    options.quota_at = Pick(29, 1, 1500);
    options.quota_ms = Pick(30, 500, 8000);
  }

  // In a third of the worlds with few slots. Each job fits, whatever number of workers it is given
  // (at most four) and of devices (at most two each); two jobs often do not.
  void AddDevices(WorldOptions& options) const {
    if (!OneIn(31, 3) || options.hosts == WorldOptions().hosts) return;
    for (size_t i = 0; i < options.jobs.size(); ++i) options.jobs[i].devices = Pick(32 + i, 0, 2);
    int32_t workers = Pick(36, 4, 6), hosts = static_cast<int32_t>(options.hosts.size());
    for (const int32_t slots : options.hosts) {
      const int32_t here = std::min(slots, (workers + hosts - 1) / hosts);
      options.devices.push_back(2 * here + Pick(37 + static_cast<uint64_t>(hosts), 0, 1));
      workers -= here;
      --hosts;
    }
  }

  // So many slots on one to three hosts.
  std::vector<int32_t> Hosts(int32_t slots) const {
    std::vector<int32_t> hosts;
    for (int32_t left = Pick(20, 1, 3); left > 0; --left) {
      const int32_t here = left == 1 ? slots : slots / left;
      hosts.push_back(here);
      slots -= here;
    }
    return hosts;
  }

  // It takes a slot of those that the largest job needs, and the devices of a worker.
  void AddFollower(JobOptions& job, uint64_t salt) const {
    job.delay = Pick(salt + 48, 1, static_cast<int32_t>(job.validation_every));
    job.workers = std::min(job.workers, 3);
    job.workers_min = std::min(job.workers_min, job.workers);
    job.steps = std::min<int64_t>(job.steps, 40);  // each may have to wait for it
  }

  // The reader takes a slot of those that the largest job needs.
  void AddStream(JobOptions& job, uint64_t salt) const {
    job.workers = std::min(job.workers, job.delay > 0 ? 2 : 3);
    job.workers_min = std::min(job.workers_min, job.workers);
    job.bad_every = 0;
    job.checkpoint_every = std::max<int64_t>(job.checkpoint_every, 1);
    job.checkpoint_epochs = 0;
    job.checkpoint_at_end = true;
    const auto batch = static_cast<int32_t>(job.batch > 0 ? job.batch : job.lanes);
    StreamOptions stream;
    // The least that may be, or files of some samples each.
    stream.max_bytes = LeastSpoolOf(batch);
    if (OneIn(salt, 2)) stream.max_bytes += static_cast<uint64_t>(Pick(salt + 1, 0, 40000));
    stream.samples = SamplesOfStream(batch, stream.max_bytes, salt + 2);
    const auto samples = static_cast<int32_t>(stream.samples);
    if (OneIn(salt + 6, 3)) stream.steps = Pick(salt + 7, 1, samples / batch + 3);
    stream.from = OneIn(salt + 8, 2) ? StreamFrom::kFolder : StreamFrom::kSocket;
    stream.file_samples = static_cast<uint64_t>(Pick(salt + 9, 1, 3 * batch));
    stream.pace = Pick(salt + 10, 1, job.lanes > 3 ? 30 : 60);
    stream.salt = Mix64(seed_, salt);
    if (OneIn(salt + 11, 3))
      stream.stands_still_at = static_cast<uint64_t>(Pick(salt + 12, 0, samples));
    TakeStream(job, stream);
  }

  // Not so many that their files, of which a few are written each second, take minutes.
  uint64_t SamplesOfStream(int32_t batch, uint64_t max_bytes, uint64_t salt) const {
    const int32_t whole = batch * Pick(salt, 0, 30);
    int32_t samples = whole + Pick(salt + 1, 1, batch);
    const int32_t drawn = Pick(salt + 2, 0, 9);
    if (drawn == 0) samples = Pick(salt + 3, 0, 1);
    if (drawn == 1) samples = batch + Pick(salt + 3, 0, 1);
    if (drawn == 2) samples = whole + batch;
    const uint64_t most = 150 * muster::SamplesOfSegment(max_bytes, kSimSampleBytes);
    return std::min(static_cast<uint64_t>(samples), most);
  }

  JobOptions Job(const std::string& id, uint64_t salt) const {
    JobOptions job;
    job.id = id;
    job.sync = OneIn(salt, 2) ? Sync::kServer : Sync::kAllreduce;
    job.workers = Pick(salt + 1, 2, 4);
    job.workers_min = OneIn(salt + 18, 2) ? job.workers : 1;
    job.servers = Pick(salt + 2, 2, 3);
    job.lanes = Pick(salt + 3, 1, 7);
    const bool wide = OneIn(salt + 4, 6);  // more than one fetch carries
    job.chunks = wide ? Pick(salt + 5, 9, 40) : Pick(salt + 5, 3, 6);
    job.buffers = OneIn(salt + 6, 3) ? Pick(salt + 7, 1, 3) : 0;
    if (job.buffers > 0 && OneIn(salt + 20, 3)) job.chunks = 1;  // some server owns only buffers
    job.steps = wide ? Pick(salt + 8, 10, 40) : Pick(salt + 8, 20, 80);
    job.batch = OneIn(salt + 9, 3) ? Pick(salt + 10, 1, 20) : 0;  // also fewer than lanes
    job.checkpoint_every = Pick(salt + 11, 0, 8);
    job.checkpoint_epochs = Pick(salt + 46, 0, 3) == 0 ? 1 : 0;
    job.checkpoint_seconds = OneIn(salt + 12, 3) ? 2 : 0;
    job.checkpoint_at_end = !OneIn(salt + 23, 5);
    job.clip_norm = Pick(salt + 13, 0, 1);
    const OnNan on_nan[] = {OnNan::kStop, OnNan::kSkip, OnNan::kContinue};
    job.on_nan = on_nan[Pick(salt + 20, 0, 2)];
    if (OneIn(salt + 21, 3)) job.not_finite_every = static_cast<uint64_t>(Pick(salt + 22, 4, 20));
    job.order = OneIn(salt + 14, 4) ? SumOrder::kFree : SumOrder::kCanonical;
    if (job.sync == Sync::kAllreduce && job.order == SumOrder::kCanonical && OneIn(salt + 47, 2))
      job.phases = Pick(salt + 48, 1, 6);
    const OptimizerKind kinds[] = {OptimizerKind::kSgd, OptimizerKind::kMomentum,
                                   OptimizerKind::kAdam};
    job.optimizer = kinds[Pick(salt + 15, 0, 2)];
    job.may_be_cancelled = OneIn(salt + 16, 5);
    job.changes_runtime = OneIn(salt + 17, 2);
    job.is_deleted = OneIn(salt + 19, 4);
    if (OneIn(salt + 44, 3)) job.bad_every = static_cast<uint64_t>(Pick(salt + 45, 1, 12));
    if (!OneIn(salt + 40, 3)) return job;
    job.validation_every = Pick(salt + 41, 1, 6);
    job.keeps_best = Pick(salt + 45, 0, 1) == 1;
    job.patience = OneIn(salt + 42, 2) ? Pick(salt + 43, 2, 5) : 0;
    if (OneIn(salt + 47, 2)) AddFollower(job, salt);
    return job;
  }

  const uint64_t seed_;
};

inline WorldOptions OptionsOf(uint64_t seed) { return SeedOptions(seed).Make(); }
inline WorldOptions FollowerOptionsOf(uint64_t seed) {
  return SeedOptions(seed).MakeWithFollowers();
}
inline WorldOptions StreamOptionsOf(uint64_t seed) { return SeedOptions(seed).MakeWithStreams(); }
inline WorldOptions LaunchOptionsOf(uint64_t seed) { return SeedOptions(seed).MakeWithLaunches(); }

}  // namespace muster::sim
