// Whole jobs in one process: coordinator, workers and servers over the in-memory transport, with
// the counting task.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "lib/checkpoint/load.h"
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
};

JobSpec SpecOf(const JobShape& shape) {
  JobSpec spec;
  spec.law.task = "counting";
  spec.law.data.samples = shape.samples;
  spec.law.lanes = shape.lanes;
  spec.law.batch = shape.batch;
  spec.law.epochs = shape.epochs;
  spec.law.optimizer.kind = shape.optimizer;
  spec.law.optimizer.learning_rate = 1;
  spec.law.clip_norm = shape.clip_norm;
  spec.law.reduction = shape.reduction;
  spec.law.chunk_bytes = 64;
  spec.law.sync = shape.servers > 0 ? Sync::kServer : Sync::kAllreduce;
  spec.run.workers_min = spec.run.workers_max = shape.workers;
  spec.run.servers = shape.servers;
  spec.run.checkpoint.every_seconds = 0;
  spec.run.checkpoint.every_steps = 10;
  spec.run.fingerprint_every = 4;
  spec.run.first_bucket_bytes = 64;
  spec.run.bucket_bytes = 128;
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
  // The values of the final state, in the order of sample ids.
  std::vector<float> FinalValues() {
    const Manifest manifest = coordinator_.manifests().back();
    const Layout layout = LayoutOf(manifest).value();
    std::vector<float> flat(static_cast<size_t>(layout.elements()));
    std::vector<PartDest> parts;
    for (int32_t c = 0; c < layout.chunk_count(); ++c) {
      const Chunk& chunk = layout.chunk(ChunkId(c));
      parts.push_back({kValuesSlot, ChunkId(c),
                       absl::MakeSpan(flat).subspan(static_cast<size_t>(chunk.offset),
                                                    static_cast<size_t>(chunk.count))});
    }
    EXPECT_TRUE(LoadParts(dir_, manifest, layout, parts).ok());
    std::vector<float> values;
    for (const Placed& p : layout.tensors())
      values.insert(values.end(), flat.begin() + p.offset, flat.begin() + p.offset + p.count);
    return values;
  }

  LoopNetwork& network() { return network_; }
  TestCoordinator& coordinator() { return coordinator_; }
  TestMember& member(size_t i) { return *members_[i]; }

 private:
  static inline int next_ = 0;
  const std::string dir_;
  LoopNetwork network_;
  TestCoordinator coordinator_;
  std::vector<std::unique_ptr<TestMember>> members_;
};

std::string DigestOf(const JobShape& shape) {
  Cluster cluster;
  cluster.Begin(shape);
  return cluster.End().digest;
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

TEST(Training, TheSameBitsWhoeverComputes) {
  for (int32_t lanes : {4, 6}) {
    const JobShape one{.lanes = lanes, .epochs = 2, .optimizer = OptimizerKind::kAdam,
                       .clip_norm = 0.5, .reduction = Reduction::kMean};
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

}  // namespace
}  // namespace muster
