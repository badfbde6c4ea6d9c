#include "tests/integration/jobs.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "gtest/gtest.h"
#include "lib/task/counting.h"
#include "tests/lib/checkpoint/state_digest.h"

namespace muster::integration {
namespace {

constexpr int64_t kCountingChunkBytes = 256;

std::string Text() {
  const std::vector<std::string> words = {"the", "server", "adds",  "what", "lanes", "send", "and",
                                          "a",   "view",   "holds", "for",  "each",  "step"};
  std::string text;
  for (uint64_t x = 7; text.size() < 6000; x = x * 6364136223846793005u + 1442695040888963407u)
    absl::StrAppend(&text, words[(x >> 33) % words.size()], " ");
  return text;
}

}  // namespace

std::string CountingSpec(int samples, int lanes, int epochs) {
  return absl::StrFormat(
      "name: counting\ntask: counting\ndata: {samples: %d}\nbatch: 16\nlanes: %d\nepochs: "
      "%d\nreduction: sum\n"
      "optimizer: {kind: sgd, learning_rate: 1}\nchunk_bytes: %d\nbucket_bytes: "
      "512\nfirst_bucket_bytes: 256\n"
      "checkpoint: {every_steps: 16}\nworkers: {min: 1, max: 1}\n",
      samples, lanes, epochs, kCountingChunkBytes);
}

std::string CountingDigest(int samples, float value) {
  TrainingSpec training;
  training.data.samples = static_cast<uint64_t>(samples);
  const Layout layout =
      Layout::Make(MakeCounting(training)->Tensors(), kCountingChunkBytes).value();
  const std::vector<float> weights(static_cast<size_t>(layout.elements()), value);
  return StateDigest(layout, {weights});
}

std::string LanguageSpec(const std::string& data, int lanes, int steps) {
  WriteFile(data + "/text.txt", Text());
  return absl::StrFormat(
      "name: language\ntask: code-lm\nparameters: {layers: 1, width: 32, heads: 2, context: 16}\n"
      "data: {paths: [%s]}\nbatch: 8\nlanes: %d\nsteps: %d\nseed: 3\nclip_norm: 0.5\n"
      "optimizer: {kind: adamw, learning_rate: 0.003, weight_decay: 0.01}\n"
      "chunk_bytes: 4096\nbucket_bytes: 8192\nfirst_bucket_bytes: 4096\nfingerprint_every: 4\n"
      "checkpoint: {every_steps: 4}\nworkers: {min: 1, max: 1}\n",
      data, lanes, steps);
}

std::string UndisturbedDigest(const std::string& spec, const std::string& dir) {
  // As many steps as another job made until a test had seen enough of it.
  const TrainRun run = Train({.spec = spec, .dir = dir, .hangs_after = std::chrono::seconds(300)});
  EXPECT_EQ(run.exit_code, 0) << run.Trace();
  if (!run.result.is_object()) return "";
  const std::string digest = run.result.value("digest", "");
  EXPECT_EQ(digest.size(), 64u) << run.Trace();
  return digest;
}

void ExpectDone(const TrainRun& run, const std::string& dir) {
  ASSERT_TRUE(run.result.is_object()) << run.Trace();
  EXPECT_EQ(run.exit_code, 0) << run.Trace();
  EXPECT_EQ(run.result.value("state", ""), "done") << run.Trace();
  const nlohmann::json audit = Audit(dir, run.result.value("job", ""));
  EXPECT_TRUE(audit.value("ok", false)) << audit << "\n" << run.Trace();
  EXPECT_EQ(audit.value("steps", int64_t{-1}), run.result.value("steps", int64_t{-2})) << audit;
  EXPECT_EQ(audit.value("samples", int64_t{-1}) + audit.value("skipped_samples", int64_t{0}) +
                audit.value("left_out_samples", int64_t{0}),
            run.result.value("samples", int64_t{-2}))
      << audit;
}

void ExpectSameBits(const TrainRun& run, const std::string& dir, const std::string& digest) {
  ASSERT_NO_FATAL_FAILURE(ExpectDone(run, dir));
  EXPECT_EQ(run.result["digest"], digest) << run.Trace();
}

void ExpectSameBitsOnAnyNumber(const TrainOptions& job,
                               const std::function<void(const TrainRun&)>& also) {
  std::string digest;
  for (int workers = 1; workers <= 3; ++workers) {
    SCOPED_TRACE(absl::StrCat(workers, " workers"));
    TrainOptions options = job;
    options.workers = workers;
    options.dir = absl::StrCat(job.dir, "-", workers);
    if (workers > 1) options.faults = {"{at_point: \"forward:9\", kill: worker-1}"};
    const TrainRun run = Train(options);
    if (workers == 1) digest = run.result.value("digest", "none");
    ExpectSameBits(run, options.dir, digest);
    if (workers > 1) {
      EXPECT_TRUE(run.Fired("worker-1", "forward")) << run.Trace();
    }
    if (also) also(run);
  }
}

void ExpectLanesAddUp(const TrainRun& run, const std::string& dir, int lanes) {
  const int64_t steps = run.result.value("steps", int64_t{0});
  const int64_t again = run.result.value("lanes_recomputed", int64_t{-1});
  EXPECT_EQ(TotalLanes(dir), steps * lanes + again) << run.Trace();
}

int64_t FirstStepOf(const TrainRun& run) {
  for (const nlohmann::json& event : run.events)
    if (event.contains("lineage")) return event.value("step", int64_t{-1});  // of an active view
  return -1;
}

void ExpectNoWayBack(const TrainRun& run, const std::string& dir) {
  EXPECT_EQ(run.result.value("rewinds", -1), 0) << run.Trace();
  EXPECT_FALSE(AMemberSays(dir, "reads the checkpoint of step")) << run.Trace();
}

}  // namespace muster::integration
