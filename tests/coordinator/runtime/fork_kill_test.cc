// A real process that copies a fork's state and is killed at each of its calls, on a real store: a
// start leaves nothing of it. The process of the test itself opens no store and has no threads.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <string>

#include "coordinator/runtime/checkpoints.h"
#include "coordinator/runtime/fork_copy.h"
#include "lib/checkpoint/load.h"
#include "lib/domain/fork.h"
#include "lib/storage/kv.h"
#include "tests/lib/checkpoint/saver.h"

namespace muster::coordinator {
namespace {

constexpr char kCluster[] = "aa";
constexpr int64_t kForkedAt = 3;

// Passes all on, and kills this process at one call.
class KillingFiles final : public CheckpointFiles {
 public:
  KillingFiles(CheckpointFiles& files, int64_t call) : files_(files), until_(call) {}
  std::string PathOf(const std::string& file) const override { return files_.PathOf(file); }
  absl::StatusOr<std::unique_ptr<CheckpointFile>> Open(const std::string& file) const override {
    Count();
    return files_.Open(file);
  }
  absl::Status Create(const std::string& file, const Write& write) override {
    Count();
    return files_.Create(file, [&](Appender& out) {
      const absl::Status written = write(out);
      Count();  // half of it may be on disk
      return written;
    });
  }
  absl::Status Replace(const std::string& file, absl::string_view content) override {
    Count();
    return files_.Replace(file, content);
  }
  absl::Status List(const std::string& folder, const Visit& visit) const override {
    Count();
    return files_.List(folder, visit);
  }
  absl::Status Remove(const std::string& file) override {
    Count();
    return files_.Remove(file);
  }
  absl::Status MakeFolder() override {
    Count();
    return files_.MakeFolder();
  }
  void RemoveFolder(const std::string& folder) override { files_.RemoveFolder(folder); }

 private:
  void Count() const {
    if (until_-- == 0) raise(SIGKILL);
  }
  CheckpointFiles& files_;
  mutable int64_t until_;
};

// How a process ended that did this: its exit code, or 128 and the signal.
int InAProcess(const std::function<bool()>& work) {
  const pid_t pid = fork();
  if (pid == 0) _exit(work() ? 0 : 1);
  int status = 0;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

class ForkKillTest : public DirTest {
 protected:
  template <class Work>
  int WithStore(const Work& work) {
    return InAProcess([&] {
      auto kv = OpenRocks(dir_ + "/store", {kCatalogueFamily});
      return kv.ok() && work(**kv);
    });
  }
  std::string FilesOf(const std::string& job) const { return CheckpointDir(dir_, job); }

  bool SaveParent(Kv& kv) {
    Catalogue catalogue(kv, kCluster);
    return SaveOne(catalogue, *CheckpointFilesIn(FilesOf(kJob)), LargeLayout(), kForkedAt, 1,
                   [](const std::string&) {})
        .ok();
  }
  bool CopyUntil(Kv& kv, int64_t call) {
    const Catalogue catalogue(kv, kCluster);
    const auto listing = catalogue.List(kJob);
    if (!listing.ok() || listing->manifests.empty()) return false;
    ForkSource source{listing->manifests.back(), {}, {}};
    source.training.task = "counting";
    source.training.steps = 10;
    source.training.optimizer.kind = OptimizerKind::kAdam;  // as many slots as were saved
    ForkTarget target{"fork", {}, kCluster};
    target.spec.training = source.training;
    target.spec.training.initial.parent = ParentState{kJob};
    target.spec.training =
        ForkedAt(source.training, Step(kForkedAt), std::string(64, 'a'), target.spec.training);
    const auto to = CheckpointFilesIn(FilesOf("fork"));
    KillingFiles killing(*to, call);
    return CopyFork(source, *CheckpointFilesIn(FilesOf(kJob)), target, catalogue, killing, {}).ok();
  }
  // What a start does, which knows of no fork; then its parent is whole and nothing else is there.
  bool StartsWithoutIt(Kv& kv) {
    const Catalogue catalogue(kv, kCluster);
    if (!DropUnknownJobs(catalogue, {kJob}, dir_).ok()) return false;
    const auto jobs = catalogue.Jobs();
    const auto unfinished = catalogue.Unfinished();
    const auto listing = catalogue.List(kJob);
    return jobs.ok() && *jobs == std::set<std::string>{kJob} && unfinished.ok() &&
           unfinished->empty() && listing.ok() && listing->manifests.size() == 1 &&
           Digest(*CheckpointFilesIn(FilesOf(kJob)), listing->manifests[0]).ok() &&
           !std::filesystem::exists(FilesOf("fork"));
  }
};

TEST_F(ForkKillTest, WhereverItIsKilledAStartLeavesNothingOfIt) {
  ASSERT_EQ(WithStore([&](Kv& kv) { return SaveParent(kv); }), 0);
  int64_t call = 0;
  for (bool killed = true; killed; ++call) {
    SCOPED_TRACE(call);
    const int ended = WithStore([&](Kv& kv) { return CopyUntil(kv, call); });
    killed = ended == 128 + SIGKILL;
    EXPECT_TRUE(killed || ended == 0) << ended;
    ASSERT_EQ(WithStore([&](Kv& kv) { return StartsWithoutIt(kv); }), 0);
    ASSERT_LT(call, 100);
  }
  EXPECT_GT(call, 4) << "the calls were not counted";
}

}  // namespace
}  // namespace muster::coordinator
