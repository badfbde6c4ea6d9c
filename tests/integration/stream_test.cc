// Streams (docs/decisions/0112) with real processes: the same bits on any number of workers, from a
// folder and from a socket, whoever dies while the samples come, and each of them used once.
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/base/exit_codes.h"
#include "tests/integration/cluster.h"
#include "tests/integration/jobs.h"
#include "tests/integration/measured.h"
#include "tests/integration/stream_feeds.h"
#include "tests/integration/up_cluster.h"
#include "tests/support/program.h"

namespace muster::integration {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr uint64_t kBatch = 8;
constexpr uint64_t kSamples = 12 * kBatch + 3;  // the last step is short
constexpr int kStoppedSome = 75;
constexpr std::chrono::seconds kHangsAfter{200};

int64_t StepOf(const nlohmann::json& event) {
  return event.value("event", "") == "step" ? event.value("step", int64_t{-1}) : -1;
}

class StreamTest : public testing::Test {
 protected:
  TrainOptions Job(const std::string& name, const std::string& source, int workers = 1) const {
    return {.spec = absl::StrCat(
                "name: stream\ntask: layers\n", FeedSpec(source),
                "parameters:\n  loss: mse\n  layers: [{linear: 8}, tanh, {linear: 1}]\nbatch: ",
                kBatch, "\nlanes: 4\nepochs: 1\nseed: 5\n",
                "optimizer: {kind: adamw, learning_rate: 0.02}\ncheckpoint: {every_steps: 4}\n",
                "workers: {min: 1, max: 1}\n"),
            .dir = folder_ / name,
            .workers = workers,
            .hangs_after = kHangsAfter};
  }
  static std::string OfFolder(const FolderFeed& feed) {
    return absl::StrCat("source: folder, path: ", feed.folder());
  }
  static std::string OfSocket(const std::string& path) {
    return absl::StrCat("source: socket, path: ", path);
  }
  static TrainOptions With(TrainOptions options, const std::vector<std::string>& settings) {
    options.settings.insert(options.settings.end(), settings.begin(), settings.end());
    return options;
  }
  // All of them are there before the job begins.
  TrainRun TrainOn(const std::string& name, uint64_t samples, int workers = 1,
                   const std::vector<std::string>& settings = {}) {
    FolderFeed feed(folder_ / (name + "-feed"));
    if (samples > 0) feed.Put(samples);
    feed.PutEnd();
    return Train(With(Job(name, OfFolder(feed), workers), settings));
  }
  std::string CalmDigest() {
    const TrainRun calm = TrainOn("calm", kSamples);
    ExpectDone(calm, folder_ / "calm");
    EXPECT_EQ(calm.result.value("samples", uint64_t{0}), kSamples);
    EXPECT_LT(calm.result.value("final_loss", 9.0), calm.result.value("first_loss", 0.0));
    return calm.result.value("digest", "none");
  }
  static uint64_t SpoolBytes(const std::string& dir) {
    uint64_t bytes = 0;
    for (const auto& file : std::filesystem::recursive_directory_iterator(dir + "/checkpoints"))
      if (file.path().extension() == ".spool") bytes += file.file_size();
    return bytes;
  }

  const Folder folder_;
};

// Files come while the job trains, always more than the steps that are done need. The end comes
// when only the last step is left, which nobody knows before.
class GrowingFeed {
 public:
  explicit GrowingFeed(const std::string& folder) : feed_(folder) { GoOn(-1); }
  FolderFeed& feed() { return feed_; }

  // This step is done, and all before it.
  void GoOn(int64_t step) {
    const auto wanted = (static_cast<uint64_t>(step + 1) + 2) * kBatch + 1;
    while (feed_.samples() < std::min(wanted, kSamples))
      feed_.Put(std::min<uint64_t>(kFile, kSamples - feed_.samples()));
    if (step + 1 < static_cast<int64_t>(kSamples / kBatch) || ended_) return;
    ended_ = true;
    feed_.PutEnd();
  }

 private:
  static constexpr uint64_t kFile = 11;  // no multiple of a step's
  FolderFeed feed_;
  bool ended_ = false;
};

TEST_F(StreamTest, AGrowingFolderGivesTheSameBitsOnAnyNumberOfWorkersWhoeverDies) {
  const std::string digest = CalmDigest();
  const struct {
    int workers;
    int servers;
    std::vector<std::string> faults;
    std::vector<std::string> killed;
  } kRows[] = {
      {1, 0, {"{at_point: \"spooled_untold:2\", kill: reader-0}"}, {"reader-0"}},
      // Nobody has the state any more: back to a checkpoint, whose samples are still there.
      {1, 0, {"{at_point: \"forward:23\", kill: worker-0}"}, {"worker-0"}},
      {2, 0, {"{at_point: \"spooled_told:3\", kill: reader-0}"}, {"reader-0"}},
      {3,
       0,
       {"{at_point: \"spooled_told:1\", kill: reader-0}",
        "{at_point: \"spooled_untold:2\", kill: reader-0}",
        "{at_point: \"forward:5\", kill: worker-1}"},
       {"reader-0", "worker-1"}},
      // Longer than its lease: another one reads, and this one comes back too late.
      {2, 0, {"{at_step: 2, pause: reader-0, for_seconds: 4}"}, {}},
      {2, 0, {"{at_step: 3, kill: coordinator, for_seconds: 1}"}, {"coordinator"}},
  };
  int number = 0;
  for (const auto& row : kRows) {
    SCOPED_TRACE(absl::StrCat("row ", number));
    const std::string name = absl::StrCat("job-", number++);
    GrowingFeed growing(folder_ / (name + "-feed"));
    TrainOptions options = Job(name, OfFolder(growing.feed()), row.workers);
    options.servers = row.servers;
    options.faults = row.faults;
    options.on_event = [&](const nlohmann::json& event) {
      if (const int64_t step = StepOf(event); step >= 0) growing.GoOn(step);
    };
    const TrainRun run = Train(options);
    for (const std::string& process : row.killed)
      EXPECT_TRUE(run.Killed(process)) << process << "\n" << run.Trace();
    ExpectSameBits(run, options.dir, digest);
    EXPECT_EQ(run.result.value("samples", uint64_t{0}), kSamples) << run.Trace();
  }
}

TEST_F(StreamTest, ServersGiveTheSameBits) {
  const std::string digest = CalmDigest();
  const struct {
    int workers;
    int servers;
    std::vector<std::string> faults;
    std::string killed;
  } kRows[] = {
      {2, 1, {"{at_point: \"spooled_untold:2\", kill: reader-0}"}, "reader-0"},
      {3, 2, {"{at_point: \"before_apply:5\", kill: worker-1}"}, "worker-1"},
      {2, 2, {"{at_step: 5, kill: server-1}"}, "server-1"},
  };
  int number = 0;
  for (const auto& row : kRows) {
    SCOPED_TRACE(absl::StrCat("row ", number));
    const std::string name = absl::StrCat("job-", number++);
    GrowingFeed growing(folder_ / (name + "-feed"));
    TrainOptions options = Job(name, OfFolder(growing.feed()), row.workers);
    options.servers = row.servers;
    options.faults = row.faults;
    options.on_event = [&](const nlohmann::json& event) {
      if (const int64_t step = StepOf(event); step >= 0) growing.GoOn(step);
    };
    const TrainRun run = Train(options);
    EXPECT_TRUE(run.Killed(row.killed)) << run.Trace();
    ExpectSameBits(run, options.dir, digest);
  }
}

TEST_F(StreamTest, ASenderThatIsSlowBreaksOffAndSaysTooMuchGivesTheBitsOfAFolder) {
  const std::string digest = CalmDigest();
  const struct {
    int workers;
    SenderHabits habits;
    std::vector<std::string> faults;
    size_t cut_off;  // at least so often
  } kRows[] = {
      {1, {.samples = kSamples, .unanswered = 50}, {}, 0},
      {2, {.samples = kSamples, .unanswered = 3, .breaks_off_in = {0, 11, 12, 98}}, {}, 4},
      {2, {.samples = kSamples, .unanswered = 20, .says_too_much = true}, {}, 1},
      {3,
       {.samples = kSamples, .unanswered = 10, .breaks_off_in = {40}},
       {"{at_point: \"spooled_untold:2\", kill: reader-0}",
        "{at_point: \"spooled_told:3\", kill: reader-0}",
        "{at_point: \"forward:3\", kill: worker-1}"},
       3},
  };
  int number = 0;
  for (const auto& row : kRows) {
    SCOPED_TRACE(absl::StrCat("row ", number));
    const std::string path = folder_ / absl::StrCat("socket-", number);
    SocketFeed feed(path, row.habits);
    TrainOptions options = Job(absl::StrCat("job-", number++), OfSocket(path), row.workers);
    options.faults = row.faults;
    const TrainRun run = Train(options);
    feed.Stop();
    EXPECT_EQ(row.faults.empty(), !run.Killed("reader-0")) << run.Trace();
    ExpectSameBits(run, options.dir, digest);
    EXPECT_EQ(feed.answered(), kSamples);
    EXPECT_GE(feed.greetings().size(), row.cut_off + 1);
    EXPECT_EQ(feed.greetings().front(), 0u);
    EXPECT_FALSE(std::filesystem::exists(path)) << "it goes with its reader";
  }
}

TEST_F(StreamTest, EndsWhereTheStreamEnds) {
  const struct {
    uint64_t samples;
    int64_t steps;
  } kRows[] = {{1, 1}, {kBatch, 1}, {kBatch + 1, 2}};
  std::string digest_of_a_batch;
  for (const auto& row : kRows) {
    SCOPED_TRACE(absl::StrCat(row.samples, " samples"));
    std::string digest;
    for (const int workers : {1, 2}) {
      const std::string name = absl::StrCat("job-", row.samples, "-", workers);
      const TrainRun run = TrainOn(name, row.samples, workers);
      if (workers == 1) digest = run.result.value("digest", "none");
      ExpectSameBits(run, folder_ / name, digest);
      EXPECT_EQ(run.result.value("steps", int64_t{-1}), row.steps) << run.Trace();
      EXPECT_EQ(run.result.value("samples", uint64_t{0}), row.samples) << run.Trace();
    }
    if (row.samples == kBatch) digest_of_a_batch = digest;
  }
  // With `steps` there is nothing behind them: neither more samples nor an end is waited for.
  FolderFeed feed(folder_ / "feed");
  feed.Put(kBatch);
  const TrainOptions options = With(Job("steps", OfFolder(feed), 2), {"epochs=", "steps=1"});
  ExpectSameBits(Train(options), options.dir, digest_of_a_batch);
}

TEST_F(StreamTest, AStreamWithoutASampleIsBadData) {
  const TrainRun run = TrainOn("empty", 0);
  EXPECT_EQ(run.exit_code, kExitBadData) << run.Trace();
  EXPECT_THAT(run.result.value("reason", ""), HasSubstr("no sample")) << run.Trace();
}

// It is stopped though nobody has data, before the first step or in the midst, and goes on.
TEST_F(StreamTest, AJobIsStoppedWhileItsSourceStandsStillAndGoesOn) {
  const std::string digest = CalmDigest();
  for (const int64_t last : {int64_t{-1}, int64_t{2}, int64_t{3}}) {
    SCOPED_TRACE(absl::StrCat("after step ", last));
    const std::string name = absl::StrCat("job-", last + 1);
    FolderFeed feed(folder_ / (name + "-feed"));
    // Steps up to `last` are known, and no other.
    feed.Put(static_cast<uint64_t>(last + 1) * kBatch + kBatch / 2);
    TrainOptions options = Job(name, OfFolder(feed), 2);
    options.interrupt_at = [last](const nlohmann::json& event) {
      return last < 0 ? event.value("event", "") == "stream" : StepOf(event) == last;
    };
    const TrainRun stopped = Train(options);
    EXPECT_EQ(stopped.exit_code, kStoppedSome) << stopped.Trace();
    EXPECT_EQ(stopped.result.value("steps", int64_t{-1}), last + 1) << stopped.Trace();
    feed.Put(kSamples - feed.samples());
    feed.PutEnd();
    options.interrupt_at = {};
    options.workers = 3;
    const TrainRun run = Train(options);
    ExpectSameBits(run, options.dir, digest);
    EXPECT_EQ(run.result.value("samples", uint64_t{0}), kSamples) << run.Trace();
  }
}

TEST_F(StreamTest, GoesOnAfterAllOfItWasKilledAtOnce) {
  const std::string digest = CalmDigest();
  const std::string path = folder_ / "socket";
  SocketFeed feed(path, {.samples = kSamples, .unanswered = 30});
  TrainOptions options = Job("job", OfSocket(path), 2);
  options.kill_all_at = [](const nlohmann::json& event) { return StepOf(event) == 6; };
  Train(options);
  options.kill_all_at = {};
  const TrainRun run = Train(options);
  feed.Stop();
  ExpectSameBits(run, options.dir, digest);
  EXPECT_EQ(run.result.value("samples", uint64_t{0}), kSamples) << run.Trace();
  EXPECT_EQ(feed.answered(), kSamples);
}

// The smallest spool there may be, while checkpoints need all samples since four steps before them:
// the reader waits, the job does not. What no checkpoint needs is deleted.
TEST_F(StreamTest, ASmallSpoolSlowsTheReaderAndIsTrimmed) {
  const std::string digest = CalmDigest();
  constexpr uint64_t kSmall = 4 * (kBatch + 1) * kFeedSampleBytes;
  for (const int keep : {1, 3}) {
    SCOPED_TRACE(absl::StrCat("keep ", keep));
    const std::string name = absl::StrCat("job-", keep);
    const TrainRun run = TrainOn(
        name, kSamples, 2,
        {absl::StrCat("data.stream.max_bytes=", kSmall), absl::StrCat("checkpoint.keep=", keep)});
    ExpectSameBits(run, folder_ / name, digest);
    // What the steps between two checkpoints need may be more than that, and is in longer segments,
    // of which the last one stays.
    if (keep == 1) {
      EXPECT_LE(SpoolBytes(folder_ / name), 2 * kSmall) << run.Trace();
    }
  }
}

TEST_F(StreamTest, WhatAStreamCannotHaveIsSaidWithItsFile) {
  const struct {
    std::string name;  // of the file
    std::string bytes;
    std::vector<std::string> says;
  } kRows[] = {
      {"part-00000-late", FeedSamples(0, 2), {"part-00000-late", "after 'part-00001' was taken"}},
      {"part-00002", FeedSamples(0, 2) + "x", {"part-00002", "no whole samples of 16"}},
      {"sub-folder/", "", {"sub-folder", "it is no file"}},
      {"END", FeedSamples(0, 2), {"END: it has 32 bytes", "ends the stream"}},
  };
  int number = 0;
  for (const auto& row : kRows) {
    SCOPED_TRACE(row.name);
    const std::string name = absl::StrCat("job-", number++);
    FolderFeed feed(folder_ / (name + "-feed"));
    feed.Put(kBatch);
    feed.Put(kBatch);
    TrainOptions options = Job(name, OfFolder(feed));
    bool is_put = false;
    options.on_event = [&](const nlohmann::json& event) {
      // Both files were taken.
      if (StepOf(event) != 0 || std::exchange(is_put, true)) return;
      if (row.name.back() == '/')
        std::filesystem::create_directory(absl::StrCat(feed.folder(), "/", row.name));
      else
        feed.PutFile(row.name, row.bytes);
    };
    const TrainRun run = Train(options);
    EXPECT_EQ(run.exit_code, kExitBadData) << run.Trace();
    for (const std::string& words : row.says)
      EXPECT_THAT(run.result.value("reason", ""), HasSubstr(words)) << run.Trace();
  }
}

TEST_F(StreamTest, AnImpossibleSocketIsBadConfiguration) {
  const std::string path = folder_ / "taken";
  WriteFile(path, "a file of somebody's");
  const TrainRun run = Train(Job("job", OfSocket(path)));
  EXPECT_EQ(run.exit_code, kExitBadConfiguration) << run.Trace();
  EXPECT_THAT(run.result.value("reason", ""), HasSubstr("it is no socket")) << run.Trace();
  EXPECT_TRUE(std::filesystem::exists(path));
}

TEST_F(StreamTest, AFileInPlaceOfTheFolderIsBadConfiguration) {
  const std::string path = folder_ / "taken";
  WriteFile(path, "a file of somebody's");
  const TrainRun run = Train(Job("job", absl::StrCat("source: folder, path: ", path)));
  EXPECT_EQ(run.exit_code, kExitBadConfiguration) << run.Trace();
  EXPECT_THAT(run.result.value("reason", ""), HasSubstr(path + " is no folder")) << run.Trace();
}

// It waits, and whoever looks at the job is told for what.
TEST_F(StreamTest, AFolderThatIsNotThereIsToldUntilItIs) {
  FolderFeed feed(folder_ / "feed");
  feed.Put(kSamples);
  feed.PutEnd();
  const std::string path = folder_ / "later";
  TrainOptions options = Job("job", absl::StrCat("source: folder, path: ", path));
  bool is_told = false;
  options.on_event = [&](const nlohmann::json& event) {
    const bool tells = event.value("event", "") == "stream" &&
                       event.value("text", "").find("cannot bring samples") != std::string::npos;
    if (!tells || std::exchange(is_told, true)) return;
    EXPECT_THAT(event.value("text", ""), HasSubstr(path));
    std::filesystem::rename(feed.folder(), path);
  };
  const TrainRun run = Train(options);
  EXPECT_TRUE(is_told) << run.Trace();
  ExpectDone(run, options.dir);
  EXPECT_EQ(run.result.value("samples", uint64_t{0}), kSamples) << run.Trace();
}

// Files of the same fields, which workers read or a follower does while the stream comes.
TEST_F(StreamTest, IsMeasuredWithFilesOfItsForm) {
  WriteFile(folder_ / "held-out/samples", FeedSamples(1000, 40));
  const std::vector<std::string> settings = {
      "validation.every_steps=4", absl::StrCat("validation.paths=[", folder_ / "held-out", "]")};
  const TrainRun calm = TrainOn("calm", kSamples, 1, settings);
  ExpectDone(calm, folder_ / "calm");
  const std::vector<Measured> measured = MeasuredIn(folder_ / "calm", calm);
  ASSERT_EQ(measured.size(), 4u) << calm.Trace();
  EXPECT_LT(measured.back().loss, measured.front().loss) << "it learns";
  std::vector<std::string> by_follower = settings;
  by_follower.emplace_back("validation.on=follower");
  const std::vector<std::string> kRows[] = {settings, by_follower};
  int number = 0;
  for (const std::vector<std::string>& row : kRows) {
    const std::string name = absl::StrCat("job-", number++);
    const TrainRun run = TrainOn(name, kSamples, 2, row);
    ExpectSameBits(run, folder_ / name, calm.result.value("digest", "none"));
    EXPECT_EQ(MeasuredIn(folder_ / name, run), measured) << run.Trace();
  }
}

// Of what it was trained with nothing need be left.
TEST_F(StreamTest, ItsModelIsMeasuredWithFilesThatAreNamed) {
  const TrainRun run = TrainOn("job", kSamples);
  ExpectDone(run, folder_ / "job");
  const std::vector<std::string> words = {MUSTER_PROGRAMS "/muster", "evaluate", "--dir",
                                          folder_ / "job"};
  Program without(words);
  EXPECT_EQ(without.End(), kExitBadConfiguration) << without.output();
  EXPECT_THAT(without.output(), HasSubstr("--data"));
  WriteFile(folder_ / "held-out/samples", FeedSamples(1000, 40));
  std::vector<std::string> with_data = words;
  with_data.insert(with_data.end(), {"--data", folder_ / "held-out", "--json"});
  Program with(with_data);
  ASSERT_EQ(with.End(), 0) << with.output();
  EXPECT_EQ(nlohmann::json::parse(with.output()).value("samples", 0), 40);
}

TEST_F(StreamTest, IsShownAndGoesWithItsJob) {
  const std::string dir = folder_ / "job";
  const TrainRun run = TrainOn("job", kSamples);
  ExpectDone(run, dir);
  EXPECT_GT(SpoolBytes(dir), 0u);
  const std::string job = run.result.value("job", "");
  const UpCluster cluster(dir);
  const UpCluster::Said shown = cluster.Say({"status", job});
  EXPECT_THAT(shown.text, HasSubstr(absl::StrCat("stream: ended after ", kSamples, " samples")));
  EXPECT_THAT(shown.text, HasSubstr("all files are taken"));
  const UpCluster::Said removed = cluster.Say({"delete", job, "--yes"});
  EXPECT_EQ(removed.exit_code, 0) << removed.text;
  EXPECT_EQ(SpoolBytes(dir), 0u);
}

// As its head says that it is started: one program makes samples and another trains on them.
TEST_F(StreamTest, TheExampleTrains) {
  const std::string path = folder_ / "readings.sock";
  const std::string example = MUSTER_SOURCE "/examples/stream.yaml";
  Program sender({"/usr/bin/python3", MUSTER_SOURCE "/examples/stream/send.py", path, "--count",
                  "2000", "--rate", "0"});
  Program train({MUSTER_PROGRAMS "/muster", "train", example, "--dir", folder_ / "job", "--workers",
                 "2", "--set", "data.stream.path=" + path});
  EXPECT_EQ(train.End(), 0) << train.output();
  EXPECT_THAT(train.output(), HasSubstr("2000 samples"));
  EXPECT_EQ(sender.End(), 0) << sender.output();
  EXPECT_THAT(sender.output(), HasSubstr("all 2000 samples are safe"));
}

}  // namespace
}  // namespace muster::integration
