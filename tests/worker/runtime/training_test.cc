// Whole jobs in one process: coordinator, workers and servers over the in-memory transport, with
// the counting task.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lib/base/exit_codes.h"
#include "lib/base/mailbox.h"
#include "lib/checkpoint/load.h"
#include "lib/domain/samples.h"
#include "lib/wire/message_codec.h"
#include "tests/support/around_counting.h"
#include "tests/support/cluster.h"

namespace muster {
namespace {

struct JobShape {
  int workers = 1;
  int servers = 0;
  int32_t lanes = 4;
  int64_t epochs = 3;
  uint64_t samples = 97;
  int64_t batch = 13;
  OptimizerKind optimizer = OptimizerKind::kSgd;
  double clip_norm = 0;
  Reduction reduction = Reduction::kSum;
  OnNan on_nan = OnNan::kStop;
  std::vector<ParameterGroup> groups;
  double ema_decay = 0;
};

JobSpec SpecOf(const JobShape& shape) {
  JobSpec spec;
  spec.training.task = "counting";
  spec.training.data.samples = shape.samples;
  spec.training.lanes = shape.lanes;
  spec.training.batch = shape.batch;
  spec.training.epochs = shape.epochs;
  spec.training.optimizer.kind = shape.optimizer;
  spec.training.optimizer.learning_rate = 1;
  spec.training.clip_norm = shape.clip_norm;
  spec.training.reduction = shape.reduction;
  spec.training.on_nan = shape.on_nan;
  spec.training.groups = shape.groups;
  spec.training.ema_decay = shape.ema_decay;
  spec.training.chunk_bytes = 64;
  spec.training.sync = shape.servers > 0 ? Sync::kServer : Sync::kAllreduce;
  spec.runtime.workers_min = spec.runtime.workers_max = shape.workers;
  spec.runtime.servers = shape.servers;
  spec.runtime.checkpoint.every_seconds = 0;
  spec.runtime.checkpoint.every_steps = 10;
  spec.runtime.fingerprint_every = 4;
  spec.runtime.first_bucket_bytes = 64;
  spec.runtime.bucket_bytes = 128;
  return spec;
}

class Cluster {
 public:
  Cluster()
      : dir_(testing::TempDir() + "training-" + std::to_string(getpid()) + "-" +
             std::to_string(next_++)),
        coordinator_(network_, dir_) {
    std::filesystem::create_directories(dir_);
  }
  ~Cluster() {
    members_.clear();
    std::filesystem::remove_all(dir_);
  }

  TestMember& Start(TestMemberOptions options) {
    members_.push_back(
        std::make_unique<TestMember>(network_, coordinator_.address(), std::move(options)));
    return *members_.back();
  }
  void Begin(const JobShape& shape) {
    coordinator_.Submit("job", SpecOf(shape));
    for (int w = 0; w < shape.workers; ++w) Start({.name = "worker-" + std::to_string(w)});
    for (int s = 0; s < shape.servers; ++s)
      Start({.name = "server-" + std::to_string(s), .role = Role::kServer});
  }
  coordinator::JobJournal End() {
    coordinator::JobJournal job = coordinator_.AwaitEnd("job");
    EXPECT_EQ(job.phase, coordinator::JobPhase::kDone) << job.reason;
    for (auto& member : members_)
      if (!member->fired()) {
        EXPECT_THAT(member->AwaitExit(), testing::AnyOf(0, 137));
      }
    return job;
  }
  // The values of the final state, or one of its slots (from 1), in the order of sample ids.
  std::vector<float> FinalValues(int32_t slot = kValuesSlot) {
    const Manifest manifest = coordinator_.manifests().back();
    const Layout layout = LayoutOf(manifest).value();
    std::vector<float> flat(static_cast<size_t>(layout.elements()));
    std::vector<PartDest> parts;
    for (int32_t c = 0; c < layout.chunk_count(); ++c) {
      const Chunk& chunk = layout.chunk(ChunkId(c));
      parts.push_back({slot, ChunkId(c),
                       absl::MakeSpan(flat).subspan(static_cast<size_t>(chunk.offset),
                                                    static_cast<size_t>(chunk.count))});
    }
    EXPECT_TRUE(LoadParts(*CheckpointFilesIn(dir_), manifest, layout, parts).ok());
    std::vector<float> values;
    for (const Placed& p : layout.tensors())
      values.insert(values.end(), flat.begin() + p.offset, flat.begin() + p.offset + p.count);
    return values;
  }

  TestMember* Find(const std::string& name) {
    for (auto& member : members_)
      if (member->id().name == name) return member.get();
    return nullptr;
  }
  // Every session between members breaks, with what is on its way.
  void BreakAll() {
    for (auto& a : members_)
      for (auto& b : members_)
        if (a->host() < b->host()) network_.Break(a->host(), b->host());
  }
  // Gives the frame a payload of its own, with one bit flipped.
  void Spoil(Frame& frame) {
    auto bytes = std::make_shared<std::vector<std::byte>>();
    for (const auto& slice : frame.payload.slices)
      bytes->insert(bytes->end(), slice.begin(), slice.end());
    (*bytes)[bytes->size() / 2] ^= std::byte{1};
    frame.payload = {{absl::MakeConstSpan(*bytes)}, bytes};
    ++spoiled_;
  }
  int spoiled() const { return spoiled_; }
  LoopNetwork& network() { return network_; }
  TestCoordinator& coordinator() { return coordinator_; }
  TestMember& member(size_t i) { return *members_[i]; }

 private:
  static inline int next_ = 0;
  const std::string dir_;
  std::atomic<int> spoiled_{0};
  LoopNetwork network_;
  TestCoordinator coordinator_;
  std::vector<std::unique_ptr<TestMember>> members_;
};

std::string DigestOf(const JobShape& shape) {
  Cluster cluster;
  cluster.Begin(shape);
  return cluster.End().ending.digest;
}

TEST(Training, OneWorkerUsesEverySampleOncePerEpoch) {
  Cluster cluster;
  cluster.Begin({});
  cluster.End();
  EXPECT_EQ(cluster.FinalValues(), std::vector<float>(97, 3.0f));
}

TEST(Training, SoDoThreeWorkersAndMoreThanThereAreLanes) {
  for (int workers : {2, 3, 5}) {
    Cluster cluster;
    cluster.Begin({.workers = workers});
    cluster.End();
    EXPECT_EQ(cluster.FinalValues(), std::vector<float>(97, 3.0f)) << workers << " workers";
  }
}

TEST(Training, SoDoServers) {
  for (int servers : {1, 2}) {
    Cluster cluster;
    cluster.Begin({.workers = 2, .servers = servers});
    cluster.End();
    EXPECT_EQ(cluster.FinalValues(), std::vector<float>(97, 3.0f)) << servers << " servers";
  }
}

// It was told more, which may be of workers that are gone.
TEST(Training, AServerSaysItsOwnKernelsOnly) {
  const JobShape shape{.servers = 1};
  Mailbox<Join> joins;
  Cluster cluster;
  cluster.coordinator().Submit("job", SpecOf(shape));
  cluster.Start({.name = "worker-0"});
  const auto keep = [&joins](const Frame& frame) {
    const absl::StatusOr<ToCoordinator> said = DecodeToCoordinator(frame.header);
    const Join* join = said.ok() ? std::get_if<Join>(&*said) : nullptr;
    if (join != nullptr && join->id.name == "server-0") joins.Post(*join);
  };
  cluster.Start({.name = "server-0", .role = Role::kServer, .spoil = keep});
  const NumericEnvironment jobs = cluster.End().environment.value();
  const std::optional<Join> join = joins.TryTake();
  ASSERT_TRUE(join.has_value());
  const NumericEnvironment& said = join->environment;
  EXPECT_EQ(said.samples, jobs.samples);
  EXPECT_EQ(said.data_hash, jobs.data_hash);
  EXPECT_EQ(said.tensors, jobs.tensors);
  EXPECT_THAT(jobs.numeric, testing::Contains(testing::Key(kThreads))) << "as the worker found out";
  EXPECT_THAT(said.numeric, testing::ElementsAre(testing::Key("float_environment"),
                                                 testing::Key("instruction_set"),
                                                 testing::Key("optimizer_probe")))
      << "a server says what only a worker can find out";
}

// Nothing of its job is begun.
TEST(Training, AMemberOfAnotherVersionThanItsCoordinatorEnds) {
  LoopNetwork network;
  const std::unique_ptr<Transport> transport = network.MakeTransport("coordinator");
  Mailbox<std::shared_ptr<Session>> open;
  const auto accept = [&open](const std::shared_ptr<Session>& session) {
    open.Post(session);
    const auto answer = [weak = std::weak_ptr(session)](const Frame&) {
      const std::shared_ptr<Session> asks = weak.lock();
      if (asks == nullptr) return;
      JobIs job{.job = "job", .term = TermNumber(1), .spec = SpecOf({})};
      job.speaks = {kProtocol + 1, kProtocol + 1, "9.9.9"};
      asks->Send({Encode(FromCoordinator(job)), {}});
    };
    return SessionHandler{.on_frame = answer, .on_broken = [](const absl::Status&) {}};
  };
  const std::unique_ptr<Listener> listener = transport->Listen("10.0.0.1:1", accept).value();
  for (const Role role : {Role::kWorker, Role::kServer}) {
    TestMember member(network, listener->Address(), {.name = "member", .role = role});
    EXPECT_EQ(member.AwaitExit(), kExitOtherEnvironment);
  }
}

TEST(Training, TheSameBitsWhoeverComputes) {
  for (int32_t lanes : {4, 6}) {
    const JobShape one{.lanes = lanes,
                       .epochs = 2,
                       .optimizer = OptimizerKind::kAdam,
                       .clip_norm = 0.5,
                       .reduction = Reduction::kMean};
    const std::string digest = DigestOf(one);
    EXPECT_EQ(digest.size(), 64u);
    for (int workers : {2, 3}) {
      JobShape more = one;
      more.workers = workers;
      EXPECT_EQ(DigestOf(more), digest) << lanes << " lanes, " << workers << " workers";
      more.servers = 2;
      EXPECT_EQ(DigestOf(more), digest) << lanes << " lanes, " << workers << " workers, 2 servers";
    }
  }
}

// The three tensors of the counting task hold about a half, a third and a sixth of the ids.
TEST(Training, GroupsAndTheMovingAverageAreTheSameWhoeverApplies) {
  JobShape shape{.lanes = 6,
                 .epochs = 2,
                 .optimizer = OptimizerKind::kAdam,
                 .clip_norm = 0.5,
                 .reduction = Reduction::kMean,
                 .groups = {{.match = "count.0", .learning_rate_factor = 0.5, .weight_decay = 0.1},
                            {.match = "*.1", .frozen = true}},
                 .ema_decay = 0.75};
  const std::string digest = DigestOf(shape);
  JobShape without_average = shape;
  without_average.ema_decay = 0;
  EXPECT_NE(DigestOf(without_average), digest);
  for (const int servers : {0, 2}) {
    shape.workers = 3;
    shape.servers = servers;
    Cluster cluster;
    cluster.Begin(shape);
    EXPECT_EQ(cluster.End().ending.digest, digest) << servers << " servers";
    const std::vector<float> values = cluster.FinalValues(), average = cluster.FinalValues(3);
    ASSERT_EQ(values.size(), 97u);
    for (size_t id = 0; id < values.size(); ++id) {
      const bool frozen = id >= 49 && id < 49 + 32;
      EXPECT_EQ(values[id] == 0, frozen) << id;
      EXPECT_EQ(average[id] == 0, frozen) << id;
    }
  }
}

// The moving average is what plain arithmetic makes of the values after each step.
TEST(Training, TheMovingAverageFollowsTheValues) {
  const JobShape shape{.workers = 2, .samples = 12, .batch = 12, .ema_decay = 0.5};
  Cluster cluster;
  cluster.Begin(shape);
  cluster.End();
  // One is added to each in each of three steps: 1, then 0.5·1 + 0.5·2, and so on.
  EXPECT_THAT(cluster.FinalValues(), testing::Each(3.0f));
  EXPECT_THAT(cluster.FinalValues(1), testing::Each(2.25f));
}

TEST(Training, AGroupWithoutAParameterEndsTheWorkerWithBadConfiguration) {
  Cluster cluster;
  cluster.Begin({.workers = 1, .groups = {{.match = "*.bias"}}});
  EXPECT_EQ(cluster.member(0).AwaitExit(), kExitBadConfiguration);
}

// ---- members that may hold little of what their peers send

// Lets everybody else go ahead. Where other programs take a slice of time at each yield, a few are
// enough.
void Dawdle() {
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(1);
  for (int i = 0; i < 100 && std::chrono::steady_clock::now() < until; ++i)
    std::this_thread::yield();
}

class Slow final : public AroundCounting {
 public:
  using AroundCounting::AroundCounting;
  absl::StatusOr<LaneOutput> RunLane(const LaneInput& input, GradientSink sink) override {
    Dawdle();
    return AroundCounting::RunLane(input, sink);
  }
};

struct Held {
  std::string digest;
  size_t at_most = 0;  // of one session at any member, when its next frame came
};

// worker-0 is slow to compute, the others are slow to deal with what comes: so each is ahead of
// another for a while, and has sent what that one is not ready for.
Held RunHolding(const JobShape& shape, size_t held_bytes) {
  Cluster cluster;
  cluster.coordinator().Submit("job", SpecOf(shape));
  const int members = shape.workers + shape.servers;
  for (int m = 0; m < members; ++m) {
    TestMemberOptions options;
    options.role = m < shape.workers ? Role::kWorker : Role::kServer;
    options.name =
        m < shape.workers ? absl::StrCat("worker-", m) : absl::StrCat("server-", m - shape.workers);
    options.held_bytes = held_bytes;
    if (m == 0) {
      options.make_task = [](const TrainingSpec& training, DataPart,
                             const auto&) -> absl::StatusOr<std::unique_ptr<Task>> {
        return std::make_unique<Slow>(training);
      };
    } else {
      options.spoil = [](Frame&) { Dawdle(); };
    }
    cluster.Start(std::move(options));
  }
  Held held{cluster.End().ending.digest};
  for (int m = 0; m < members; ++m)
    held.at_most = std::max(held.at_most, cluster.member(static_cast<size_t>(m)).held_at_most());
  return held;
}

// A session stands still while its receiver holds as much of it as it may, be that less than one
// chunk: the steps go on all the same, with the same bits.
TEST(Training, GoesOnWithRoomForLessThanAChunk) {
  const JobShape workers{.workers = 3, .lanes = 6, .epochs = 1, .optimizer = OptimizerKind::kAdam};
  JobShape servers = workers;
  servers.servers = 2;
  servers.clip_norm = 0.5;
  for (const JobShape& shape : {workers, servers}) {
    const Held free = RunHolding(shape, kMaxHeldBytes);
    EXPECT_GT(free.at_most, kFrameWeight) << "nobody was ever behind, so nothing is shown";
    for (const size_t held_bytes : {size_t{1}, 3 * kFrameWeight}) {
      const Held held = RunHolding(shape, held_bytes);
      EXPECT_EQ(held.digest, free.digest) << shape.servers << " servers, " << held_bytes;
      EXPECT_LT(held.at_most, held_bytes)
          << "another frame was taken in while so much was held, " << shape.servers << " servers";
    }
  }
}

// ---- steps that are not finite

// Counts, but one sample's gradient is not a number.
class WithABadSample final : public AroundCounting {
 public:
  WithABadSample(const TrainingSpec& training, uint64_t bad)
      : AroundCounting(training), bad_(bad) {}
  absl::StatusOr<LaneOutput> RunLane(const LaneInput& input, GradientSink sink) override {
    GradientSink spoilt = sink;
    spoilt.outcome = [&](LaneOutput output) {
      if (std::find(input.samples.begin(), input.samples.end(), bad_) != input.samples.end())
        sink.gradient[0] = std::numeric_limits<float>::quiet_NaN();
      sink.outcome(output);
    };
    return AroundCounting::RunLane(input, spoilt);
  }

 private:
  const uint64_t bad_;
};

std::vector<uint64_t> SamplesOf(const JobShape& shape, int64_t step) {
  const TrainingSpec training = SpecOf(shape).training;
  return SampleIds(training, shape.samples, StepSamples(training, shape.samples, Step(step)));
}

bool Uses(const JobShape& shape, int64_t step, uint64_t sample) {
  const std::vector<uint64_t> samples = SamplesOf(shape, step);
  return std::find(samples.begin(), samples.end(), sample) != samples.end();
}

// "lane 1 (samples 17, 4)", the one with that sample.
std::string LaneWith(const JobShape& shape, int64_t step, uint64_t sample) {
  const TrainingSpec training = SpecOf(shape).training;
  for (int32_t lane = 0; lane < shape.lanes; ++lane) {
    const auto ids = SampleIds(training, shape.samples,
                               LaneSamples(training, shape.samples, Step(step), LaneId(lane)));
    if (std::find(ids.begin(), ids.end(), sample) != ids.end())
      return absl::StrCat("lane ", lane, ids.size() == 1 ? " (sample " : " (samples ",
                          absl::StrJoin(ids, ", "), ")");
  }
  return "";
}

constexpr uint64_t kBadSample = 5;

void BeginWithABadSample(Cluster& cluster, const JobShape& shape) {
  cluster.coordinator().Submit("job", SpecOf(shape));
  const auto make_task = [](const TrainingSpec& training, DataPart,
                            const auto&) -> absl::StatusOr<std::unique_ptr<Task>> {
    return std::make_unique<WithABadSample>(training, kBadSample);
  };
  for (int w = 0; w < shape.workers; ++w)
    cluster.Start({.name = "worker-" + std::to_string(w), .make_task = make_task});
  for (int s = 0; s < shape.servers; ++s)
    cluster.Start({.name = "server-" + std::to_string(s), .role = Role::kServer});
}

TEST(NotFinite, ASkippedStepCountsNoneOfItsSamplesAndNamesTheLane) {
  for (int servers : {0, 1, 2}) {
    const JobShape shape{.workers = 2, .servers = servers, .on_nan = OnNan::kSkip};
    Cluster cluster;
    BeginWithABadSample(cluster, shape);
    const coordinator::JobJournal job = cluster.End();
    std::vector<float> counts(shape.samples, 0.0f);
    int64_t skipped = 0;
    for (int64_t step = 0; step < TotalSteps(job.spec.training, shape.samples); ++step) {
      if (Uses(shape, step, kBadSample)) {
        ++skipped;
        EXPECT_THAT(cluster.coordinator().told(),
                    testing::Contains(testing::HasSubstr(
                        absl::StrCat("step ", step, ": ", LaneWith(shape, step, kBadSample)))));
        continue;
      }
      for (uint64_t sample : SamplesOf(shape, step)) ++counts[sample];
    }
    EXPECT_EQ(cluster.FinalValues(), counts) << servers << " servers";
    EXPECT_EQ(skipped, shape.epochs);
    EXPECT_EQ(job.tally.skipped, skipped);
  }
}

// The bad sample spoils the first element of the flat space, which is of the last tensor.
TEST(NotFinite, TheGradientOfWhatIsFrozenMayBeAnything) {
  for (int servers : {0, 2}) {
    Cluster cluster;
    BeginWithABadSample(cluster, {.workers = 2,
                                  .servers = servers,
                                  .clip_norm = 1e6,
                                  .groups = {{.match = "count.2", .frozen = true}}});
    EXPECT_EQ(cluster.End().tally.skipped, 0);
    const std::vector<float> values = cluster.FinalValues();
    for (size_t id = 0; id < values.size(); ++id)
      EXPECT_EQ(values[id], id < 49 + 32 ? 3.0f : 0.0f) << id << ", " << servers << " servers";
  }
}

TEST(NotFinite, TheMovingAverageGoesOnInASkippedStepWhoeverApplies) {
  std::string digest;
  for (int servers : {0, 2}) {
    const JobShape shape{
        .workers = 2, .servers = servers, .on_nan = OnNan::kSkip, .ema_decay = 0.5};
    Cluster cluster;
    BeginWithABadSample(cluster, shape);
    const coordinator::JobJournal job = cluster.End();
    std::vector<float> counts(shape.samples, 0.0f), average;
    for (int64_t step = 0; step < TotalSteps(job.spec.training, shape.samples); ++step) {
      if (!Uses(shape, step, kBadSample))
        for (uint64_t sample : SamplesOf(shape, step)) ++counts[sample];
      if (average.empty()) average = counts;
      for (size_t id = 0; id < counts.size(); ++id)
        average[id] = 0.5f * average[id] + 0.5f * counts[id];
    }
    EXPECT_EQ(cluster.FinalValues(1), average) << servers << " servers";
    if (digest.empty()) digest = job.ending.digest;
    EXPECT_EQ(job.ending.digest, digest);
  }
}

TEST(NotFinite, AJobStopsThereWithTheStateOfTheStepBefore) {
  for (int servers : {0, 2}) {
    const JobShape shape{.workers = 2, .servers = servers};
    Cluster cluster;
    BeginWithABadSample(cluster, shape);
    const coordinator::JobJournal job = cluster.coordinator().AwaitEnd("job");
    std::vector<float> counts(shape.samples, 0.0f);
    int64_t step = 0;
    for (; !Uses(shape, step, kBadSample); ++step)
      for (uint64_t sample : SamplesOf(shape, step)) ++counts[sample];
    EXPECT_EQ(job.phase, coordinator::JobPhase::kFailed);
    EXPECT_EQ(job.ending.exit_code, kExitNotFinite);
    EXPECT_THAT(job.reason, testing::HasSubstr(absl::StrCat("step ", step, " is not finite: ",
                                                            LaneWith(shape, step, kBadSample))));
    EXPECT_EQ(job.ending.stop_at, Step(step + 1));
    EXPECT_EQ(cluster.FinalValues(), counts) << servers << " servers";
    EXPECT_EQ(cluster.member(0).AwaitExit(), kExitNotFinite);
  }
}

TEST(NotFinite, AJobThatContinuesAppliesIt) {
  const JobShape shape{.workers = 2, .on_nan = OnNan::kContinue};
  Cluster cluster;
  BeginWithABadSample(cluster, shape);
  EXPECT_EQ(cluster.End().tally.skipped, 0);
  const std::vector<float> values = cluster.FinalValues();
  EXPECT_TRUE(std::any_of(values.begin(), values.end(), [](float v) { return std::isnan(v); }));
  EXPECT_FALSE(IsFinite(cluster.coordinator().manifests().back()));
}

// A network that breaks every session again and again: nothing is lost, nothing is added twice.
TEST(Training, SurvivesSessionsThatBreak) {
  const JobShape shape{.workers = 3, .lanes = 6, .epochs = 20};
  for (int servers : {0, 2}) {
    JobShape broken = shape;
    broken.servers = servers;
    Cluster cluster;
    cluster.Begin(broken);
    for (int64_t step = 5; step < 150; step += 5) {
      cluster.coordinator().AwaitStep(Step(step));
      cluster.BreakAll();
    }
    const coordinator::JobJournal job = cluster.End();
    EXPECT_EQ(job.views, 1) << "a broken session alone changes no view";
    EXPECT_EQ(cluster.FinalValues(), std::vector<float>(97, 20.0f)) << servers << " servers";
  }
}

// One flipped bit in a payload: it is found before it is used, the session breaks and comes back.
TEST(Training, ADamagedFrameIsFoundAndSentAgain) {
  for (int servers : {0, 1}) {
    Cluster cluster;
    std::atomic<int> damaged{0};
    cluster.coordinator().Submit("job", SpecOf({.workers = 2, .servers = servers}));
    for (const char* name : {"worker-0", "worker-1"})
      cluster.Start({.name = name, .spoil = [&](Frame& frame) {
                       if (frame.payload.size() == 0 || damaged.fetch_add(1) % 40 != 10) return;
                       cluster.Spoil(frame);
                     }});
    if (servers > 0) cluster.Start({.name = "server-0", .role = Role::kServer});
    const coordinator::JobJournal job = cluster.End();
    EXPECT_EQ(job.views, 1);
    EXPECT_GT(damaged, 11) << "nothing was damaged";
    EXPECT_GT(cluster.spoiled(), 0);
    EXPECT_EQ(cluster.FinalValues(), std::vector<float>(97, 3.0f)) << servers << " servers";
  }
}

// Every point at which a member can be cut off, at several passes, for workers and for servers: the
// rest goes on or goes back, the member comes again, and the result has the same bits.
struct Cut {
  std::string point;
  int pass;
  bool server_mode;
  std::string victim;
};
void PrintTo(const Cut& cut, std::ostream* out) {
  *out << cut.victim << " at " << cut.point << ":" << cut.pass
       << (cut.server_mode ? ", server mode" : ", all-reduce");
}

class Recovery : public testing::TestWithParam<Cut> {};

TEST_P(Recovery, EndsWithTheSameBits) {
  const Cut cut = GetParam();
  JobShape shape{.workers = 3, .lanes = 6, .epochs = 3, .optimizer = OptimizerKind::kAdam};
  if (cut.server_mode) shape.servers = 2;
  const std::string undisturbed = DigestOf(shape);
  Cluster cluster;
  cluster.coordinator().Submit("job", SpecOf(shape));
  for (const char* name : {"worker-0", "worker-1", "worker-2"})
    cluster.Start(
        {.name = name,
         .fail_at = cut.victim == name ? cut.point + ":" + std::to_string(cut.pass) : ""});
  for (int s = 0; s < shape.servers; ++s) {
    const std::string name = "server-" + std::to_string(s);
    cluster.Start(
        {.name = name,
         .role = Role::kServer,
         .fail_at = cut.victim == name ? cut.point + ":" + std::to_string(cut.pass) : ""});
  }
  TestMember* victim = cluster.Find(cut.victim);
  victim->AwaitFired();
  cluster.coordinator().Killed("job", victim->id());
  cluster.Start({.name = cut.victim, .role = cut.victim[0] == 's' ? Role::kServer : Role::kWorker});
  const coordinator::JobJournal job = cluster.End();
  EXPECT_EQ(job.ending.digest, undisturbed);
  const bool before_any_state = job.views == 1;
  if (!before_any_state && cut.victim[0] == 'w') {
    EXPECT_EQ(job.rewinds, 0) << "the loss of a worker is no rewind";
  }
}

std::vector<Cut> Cuts() {
  std::vector<Cut> cuts;
  for (bool server_mode : {false, true}) {
    for (int pass : {1, 7}) {
      for (const char* point :
           {"forward", "last_backward", "half_sent", "half_received", "before_apply"})
        cuts.push_back({point, pass, server_mode, "worker-1"});
      cuts.push_back(
          {"summed_unreplied", pass, server_mode, server_mode ? "server-1" : "worker-1"});
    }
    cuts.push_back({"part_copied", 1, server_mode, server_mode ? "server-0" : "worker-2"});
    cuts.push_back({"sealed_unanswered", 1, server_mode, "worker-1"});
    cuts.push_back({"base_acknowledged", 1, server_mode, "worker-1"});
    cuts.push_back({"receiver", 1, server_mode, "worker-2"});
    cuts.push_back({"donor", 1, server_mode, "worker-0"});
  }
  return cuts;
}
INSTANTIATE_TEST_SUITE_P(Points, Recovery, testing::ValuesIn(Cuts()));

}  // namespace
}  // namespace muster
