#include "coordinator/service/job_api.h"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/runtime/adoption.h"
#include "coordinator/runtime/checkpoint_root.h"
#include "coordinator/runtime/fork_copy.h"
#include "coordinator/service/adoptions.h"
#include "coordinator/service/asked_checkpoint.h"
#include "coordinator/service/job_questions.h"
#include "coordinator/service/namespace_api.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/base/mailbox.h"
#include "lib/base/whole_file.h"
#include "lib/checkpoint/kept_name.h"
#include "lib/checkpoint/load.h"
#include "lib/checkpoint/manifest_file.h"
#include "lib/checkpoint/measure_file.h"
#include "lib/checkpoint/segment.h"
#include "lib/config/field_error.h"
#include "lib/domain/fork.h"
#include "lib/domain/validation.h"
#include "lib/wire/job_codec.h"
#include "tests/coordinator/runtime/driver_rig.h"
#include "tests/coordinator/runtime/kept_events.h"
#include "tests/support/memory_files.h"

namespace muster::coordinator {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class JobApiTest : public DriverRig {
 protected:
  ~JobApiTest() override { Stop(); }

  // Keeps whatever is asked from being answered until `go_on_` is set.
  void HoldUpAnswers() {
    EXPECT_TRUE(Ask([this](const std::stop_token&) {
                  held_up_.set_value();
                  go_on_.get_future().wait();
                }).ok());
    held_up_.get_future().wait();
  }
  void AskDigest(std::optional<int64_t> step = std::nullopt) {
    api_->Digest("a", step, [this](absl::StatusOr<JobDigest> d) { digests_.Post(std::move(d)); });
  }
  absl::Status Submitted(const std::string& id, const JobSpec& spec,
                         const Caller& caller = Anybody()) {
    return SubmittedTo(*api_, id, spec, caller);
  }
  static absl::Status SubmittedTo(JobApi& api, const std::string& id, const JobSpec& spec,
                                  const Caller& caller = Anybody()) {
    std::promise<absl::Status> answer;
    api.Submit(id, spec, {}, caller,
               [&](const absl::StatusOr<SubmittedJob>& job) { answer.set_value(job.status()); });
    return answer.get_future().get();
  }
  absl::StatusOr<JobInfo> Cancelled(const std::string& id) {
    std::promise<absl::StatusOr<JobInfo>> answer;
    api_->Cancel(id, Anybody(),
                 [&](absl::StatusOr<JobInfo> job) { answer.set_value(std::move(job)); });
    return answer.get_future().get();
  }
  absl::Status Scaled(const std::string& id, int32_t workers_min, int32_t workers_max) {
    std::promise<absl::Status> answer;
    api_->Scale(id, workers_min, workers_max, Anybody(),
                [&](const absl::StatusOr<JobInfo>& job) { answer.set_value(job.status()); });
    return answer.get_future().get();
  }
  absl::StatusOr<JobDigest> NextDigest() {
    return digests_.TakeUntil(RealClock().Now() + kPatience)
        .value_or(absl::DeadlineExceededError("no answer"));
  }

  Mailbox<absl::StatusOr<JobDigest>> digests_;
  std::promise<void> held_up_;
  std::promise<void> go_on_;
  const std::unique_ptr<JobApi> api_ = MakeJobApi(*driver_, *journal_, root_);
};

TEST_F(JobApiTest, AnIdThatLooksLikeAnOptionIsRefused) {
  for (const char* id : {"-a", "--yes", ".a", "a b"}) {
    const absl::Status refused = Submitted(id, CountingSpec(1));
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << id;
    EXPECT_EQ(FieldOf(refused), "id");
  }
  EXPECT_TRUE(Submitted("a-b", CountingSpec(1)).ok());
}

TEST_F(JobApiTest, FilesOfCommittedCheckpointsAreReadByTheirRangesAndNothingElse) {
  SubmitJob();
  TrainToTheEnd();
  const auto read = [&](FileQuery query) {
    std::promise<absl::StatusOr<FilePart>> answer;
    api_->ReadFile("a", std::move(query),
                   [&](absl::StatusOr<FilePart> part) { answer.set_value(std::move(part)); });
    return answer.get_future().get();
  };
  const std::string folder = "lineage-1-step-2";
  const std::string path = absl::StrCat(CheckpointDir(root_, "a"), "/", folder);
  const std::string manifest = absl::StrCat(folder, "/", kManifestFile);
  std::string segment;
  for (const auto& entry : std::filesystem::directory_iterator(path))
    if (entry.path().extension() == kSegmentSuffix)
      segment = absl::StrCat(folder, "/", entry.path().filename().string());
  ASSERT_FALSE(segment.empty());
  for (const std::string& file : {manifest, segment}) {
    const std::string all =
        *ReadWholeFile(absl::StrCat(CheckpointDir(root_, "a"), "/", file), size_t{1} << 20);
    const absl::StatusOr<FilePart> whole = read({.file = file});
    ASSERT_TRUE(whole.ok()) << whole.status();
    EXPECT_EQ(whole->bytes, all);
    EXPECT_EQ(whole->of, all.size());
    EXPECT_EQ(read({.file = file, .offset = 3, .bytes = 5})->bytes, all.substr(3, 5));
    const auto size = static_cast<int64_t>(all.size());
    EXPECT_EQ(read({.file = file, .offset = size - 2, .bytes = 50})->bytes, all.substr(size - 2));
    for (const int64_t behind : {size, size + 7, std::numeric_limits<int64_t>::max()}) {
      EXPECT_EQ(read({.file = file, .offset = behind})->bytes, "");
      EXPECT_EQ(read({.file = file, .offset = behind})->of, all.size());
    }
  }
  for (const char* file :
       {"", "a", "/etc/passwd", "../a/lineage-1-step-2/checkpoint.manifest",
        "lineage-1-step-2/../../b/x.segment", "lineage-1-step-2/", "lineage-1-step-2/notes.txt",
        "lineage-01-step-2/checkpoint.manifest", "metrics.jsonl", "lineage-1-step-2/a/b.segment",
        "lineage--1-step-2/checkpoint.manifest", "lineage-1-step--2/checkpoint.manifest"}) {
    const absl::Status refused = read({.file = file}).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << file << " " << refused;
    EXPECT_EQ(FieldOf(refused), "file") << file;
  }
  EXPECT_EQ(FieldOf(read({.file = manifest, .bytes = kMostFileBytes + 1}).status()), "bytes");
  EXPECT_EQ(FieldOf(read({.file = manifest, .offset = -1}).status()), "offset");
  EXPECT_TRUE(absl::IsNotFound(read({.file = absl::StrCat(folder, "/", kKeptFile)}).status()));
  // A folder that no checkpoint was committed in, whatever lies there; and one that was removed.
  std::filesystem::copy(path, absl::StrCat(CheckpointDir(root_, "a"), "/lineage-1-step-7"));
  const absl::Status unknown = read({.file = "lineage-1-step-7/checkpoint.manifest"}).status();
  EXPECT_TRUE(absl::IsNotFound(unknown)) << unknown;
  EXPECT_THAT(std::string(unknown.message()), HasSubstr("no checkpoint of step 7"));
  std::filesystem::remove_all(path);
  EXPECT_TRUE(absl::IsNotFound(read({.file = segment}).status()));
}

// A job of which nothing is left but its checkpoint, in a folder of another cluster.
class AdoptTest : public JobApiTest {
 protected:
  AdoptTest() {
    SubmitJob();
    TrainToTheEnd();
    std::filesystem::create_directories(others_);
    std::filesystem::rename(CheckpointDir(root_, "a"), old_);
  }
  ~AdoptTest() override {
    // The driver of whoever holds it up ends before it is let go.
    if (hold_claims_ && !std::exchange(is_let_go_, true)) disk_.set_value();
    Stop();
    std::error_code ignored;
    std::filesystem::permissions(old_, std::filesystem::perms::owner_all, ignored);
    std::filesystem::remove_all(others_, ignored);
  }

  absl::StatusOr<AdoptionInfo> Begun(JobApi& api, const std::string& folder,
                                     const std::string& id) {
    std::promise<absl::StatusOr<AdoptionInfo>> answer;
    api.Adopt(folder, id, {}, {"ada", UserRole::kAdmin, "*"},
              [&](absl::StatusOr<AdoptionInfo> info) { answer.set_value(std::move(info)); });
    return answer.get_future().get();
  }
  absl::StatusOr<AdoptionInfo> Found(JobApi& api, const std::string& adoption) {
    std::promise<absl::StatusOr<AdoptionInfo>> answer;
    api.FindAdoption(adoption,
                     [&](absl::StatusOr<AdoptionInfo> info) { answer.set_value(std::move(info)); });
    return answer.get_future().get();
  }
  // Looks until it is in one of these states.
  AdoptionInfo Awaited(JobApi& api, AdoptionInfo info, const std::set<std::string>& states) {
    const Time end = RealClock().Now() + kPatience;
    while (!states.contains(info.state) && RealClock().Now() < end) {
      std::this_thread::yield();
      info = *Found(api, info.adoption);
    }
    EXPECT_THAT(states, ::testing::Contains(info.state));
    return info;
  }
  // What became of it.
  absl::StatusOr<AdoptionInfo> AdoptedBy(JobApi& api, const std::string& folder,
                                         const std::string& id) {
    absl::StatusOr<AdoptionInfo> begun = Begun(api, folder, id);
    if (!begun.ok()) return begun;
    AdoptionInfo info = Awaited(api, *std::move(begun), {kAdoptionDone, kAdoptionFailed});
    if (!info.error.ok()) return info.error;
    return info;
  }
  absl::StatusOr<AdoptionInfo> Adopted(const std::string& folder, const std::string& id) {
    return AdoptedBy(*api_, folder, id);
  }
  // From now on the folder of checkpoints hangs, until LetGo.
  std::unique_ptr<JobApi> StartOnAFolderThatHangs() {
    Stop();
    hold_claims_ = disk_.get_future().share();
    Start();
    return MakeJobApi(*driver_, *journal_, root_);
  }
  void LetGo() {
    is_let_go_ = true;
    disk_.set_value();
  }
  std::string ManifestPath() const {
    return old_ + "/" + ManifestFileOf(LineageNumber(1), Step(2));
  }
  // Whoever made it knows how.
  void Forge(const std::function<void(ManifestFile&)>& change) {
    ManifestFile file = *DecodeManifestFile(*ReadWholeFile(ManifestPath()));
    change(file);
    ASSERT_TRUE(ReplaceFile(ManifestPath(), EncodeManifestFile(file)).ok());
  }
  void ExpectNothingLeftOf(const std::string& job) {
    EXPECT_FALSE(std::filesystem::exists(CheckpointDir(root_, job)));
    EXPECT_THAT(*Catalogue(*kv_).Jobs(), ::testing::Not(::testing::Contains(job)));
  }
  void ExpectRefused(const std::string& why) {
    const absl::Status refused = Adopted(old_, "b").status();
    EXPECT_TRUE(absl::IsDataLoss(refused)) << refused;
    EXPECT_THAT(std::string(refused.message()), HasSubstr(why));
    EXPECT_EQ(Look().size(), 1u);
    ExpectNothingLeftOf("b");
  }

  const std::string others_ = root_ + "-old";  // the other cluster's folder of checkpoints
  const std::string old_ = others_ + "/a";
  std::promise<void> disk_;
  bool is_let_go_ = false;
};

TEST_F(AdoptTest, TheCheckpointIsCopiedUnderItsNewNameAndTheAuditSaysWhoVouches) {
  const std::string digest = Job().ending.digest;
  const auto adopted = Adopted(old_, "b");
  ASSERT_TRUE(adopted.ok()) << adopted.status();
  EXPECT_EQ(adopted->job, "b");
  EXPECT_EQ(adopted->step, 2);
  EXPECT_GT(adopted->of_bytes, 0u);
  EXPECT_EQ(adopted->bytes, adopted->of_bytes);
  EXPECT_TRUE(adopted->passed_over.empty());
  const KnownJobs jobs = Look();
  ASSERT_EQ(jobs.size(), 2u);
  EXPECT_EQ(jobs[1]->status.checkpoints.size(), 1u);
  EXPECT_EQ(jobs[1]->status.job.owner, "ada");
  std::filesystem::remove_all(old_);  // nobody needs it any more
  std::promise<absl::StatusOr<JobDigest>> found;
  api_->Digest("b", std::nullopt, [&](absl::StatusOr<JobDigest> d) { found.set_value(d); });
  EXPECT_EQ(found.get_future().get()->digest, digest);
  std::promise<absl::StatusOr<JobAudit>> audit;
  api_->Audit("b", [&](absl::StatusOr<JobAudit> a) { audit.set_value(std::move(a)); });
  const JobAudit told = *audit.get_future().get();
  EXPECT_TRUE(told.ok) << told.conclusion;
  EXPECT_THAT(told.conclusion,
              HasSubstr("the steps below 2 are not in this ledger: the checkpoint that was adopted "
                        "from cluster " +
                        journal_->cluster() + ", job a, lineage 1, step 2"));
  // Another start finds all of it.
  Stop();
  Start();
  EXPECT_EQ(Look().at(1)->status.step, Step(2));
  EXPECT_EQ(Look().at(1)->status.checkpoints.size(), 1u);
}

TEST_F(AdoptTest, WhatCannotBeAdoptedIsNamed) {
  EXPECT_EQ(Adopted(old_, "").status().code(), absl::StatusCode::kAlreadyExists) << "job a is here";
  EXPECT_EQ(Begun(*api_, old_, "a").status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(FieldOf(Adopted("relative", "b").status()), "folder");
  EXPECT_EQ(FieldOf(Adopted("/" + std::string(5000, 'x'), "b").status()), "folder");
  EXPECT_EQ(FieldOf(Adopted(std::string("/a\0b", 4), "b").status()), "folder");
  for (const char* id : {"-b", "../b", "b/c", ".b"})
    EXPECT_EQ(FieldOf(Adopted(old_, id).status()), "id") << id;
  EXPECT_TRUE(absl::IsNotFound(Adopted(root_ + "/nowhere", "b").status()));
  const absl::Status none = Adopted(root_, "b").status();
  EXPECT_TRUE(absl::IsNotFound(none)) << none;
  EXPECT_THAT(std::string(none.message()), HasSubstr("CHECKPOINTS/JOB"));
  for (const char* nothing : {"", "1", "9-1", "../1-1"})
    EXPECT_TRUE(absl::IsNotFound(Found(*api_, nothing).status())) << nothing;
  EXPECT_EQ(Look().size(), 1u);
}

TEST_F(AdoptTest, NothingInTheFolderIsBelieved) {
  const ManifestFile sound =
      *ReadManifestFile(*CheckpointFilesIn(old_), ManifestFileOf(LineageNumber(1), Step(2)));
  const auto forge = [&](const std::function<void(ManifestFile&)>& change) {
    Forge([&](ManifestFile& file) {
      file = sound;
      change(file);
    });
  };
  forge([](ManifestFile& file) { file.manifest.step = Step(1); });
  ExpectRefused("is that of lineage 1, step 1");
  forge([](ManifestFile& file) { file.manifest.spec = "{}"; });
  ExpectRefused("its specification");
  forge([](ManifestFile& file) { file.manifest.segments[0].entries.clear(); });
  ExpectRefused("are missing");
  forge([](ManifestFile& file) { file.environment.tensors.clear(); });
  ExpectRefused("its tensors");
  forge([](ManifestFile& file) { file.environment.samples = 1; });
  ExpectRefused("is none of its job");
  forge([](ManifestFile& file) { file.manifest.segments[0].file = "elsewhere.segment"; });
  ExpectRefused("is whole");
  forge([](ManifestFile& file) { file.manifest.segments[0].entries[0].crc32c ^= 1; });
  ExpectRefused("is whole");
  Forge([&](ManifestFile& file) { file = sound; });
  EXPECT_TRUE(Adopted(old_, "b").ok());
}

TEST_F(AdoptTest, ANewerCheckpointThatCannotBeUsedIsPassedOverAndNamed) {
  const std::string newer = old_ + "/lineage-2-step-1";
  std::filesystem::create_directories(newer);
  std::filesystem::copy_file(ManifestPath(), newer + "/" + kManifestFile);
  std::filesystem::resize_file(newer + "/" + kManifestFile, 40);
  std::filesystem::create_directories(old_ + "/lineage-2-step-2");
  std::filesystem::create_symlink("/etc/passwd", old_ + "/lineage-2-step-2/" + kManifestFile);
  std::filesystem::create_directory_symlink(root_, old_ + "/lineage-2-step-3");
  std::filesystem::create_directories(old_ + "/lineage-2-step-4");
  ASSERT_EQ(mkfifo((old_ + "/lineage-2-step-4/" + kManifestFile).c_str(), 0600), 0);
  const auto adopted = Adopted(old_, "b");
  ASSERT_TRUE(adopted.ok()) << adopted.status();
  EXPECT_EQ(adopted->step, 2);
  EXPECT_THAT(adopted->passed_over,
              ::testing::ElementsAre(HasSubstr("is a pipe"), HasSubstr("is a symbolic link"),
                                     HasSubstr("cut short")));
}

TEST_F(AdoptTest, AFolderThatMayNotBeReadIsSaidAndNothingOlderIsTaken) {
  if (geteuid() == 0) GTEST_SKIP() << "whoever is root may read everything";
  std::filesystem::create_directories(old_ + "/lineage-2-step-1");
  std::filesystem::permissions(old_ + "/lineage-2-step-1", std::filesystem::perms::none);
  const auto expect_denied = [&](const std::string& path) {
    const absl::Status denied = Adopted(old_, "b").status();
    EXPECT_TRUE(absl::IsPermissionDenied(denied)) << denied;
    EXPECT_THAT(std::string(denied.message()),
                ::testing::AllOf(HasSubstr(path), HasSubstr("the coordinator's user")));
  };
  expect_denied("lineage-2-step-1");
  std::filesystem::permissions(old_ + "/lineage-2-step-1", std::filesystem::perms::owner_all);
  std::filesystem::permissions(old_, std::filesystem::perms::none);
  expect_denied(old_);
  ExpectNothingLeftOf("b");
}

TEST_F(AdoptTest, AClusterThatLivesKeepsItsJob) {
  const std::string claim = others_ + "/.term-bb-3";
  std::ofstream(claim) << "3 0123\n";
  std::filesystem::create_directory_symlink(old_, root_ + "-link");
  for (const std::string& folder : {old_, old_ + "/", root_ + "-link"}) {
    const absl::Status refused = Adopted(folder, "b").status();
    EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
    EXPECT_THAT(std::string(refused.message()),
                ::testing::AllOf(HasSubstr(".term-bb-3"), HasSubstr("End that coordinator first")));
  }
  std::filesystem::remove(root_ + "-link");
  std::filesystem::last_write_time(claim,
                                   std::filesystem::file_time_type::clock::now() - 2 * kYoungClaim);
  const auto adopted = Adopted(old_, "b");
  EXPECT_TRUE(adopted.ok()) << adopted.status();
}

TEST_F(AdoptTest, AFolderThatIsTheJobsOwnIsNotEmptied) {
  ASSERT_TRUE(Adopted(old_, "b").ok());
  std::filesystem::rename(CheckpointDir(root_, "b"), CheckpointDir(root_, "c"));
  const absl::Status refused = Adopted(CheckpointDir(root_, "c"), "c").status();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("would keep the job itself"));
  EXPECT_TRUE(std::filesystem::exists(CheckpointDir(root_, "c") + "/" +
                                      ManifestFileOf(LineageNumber(1), Step(2))));
}

// Somebody submits it while it is copied: the copy would delete that job's checkpoints, or it would
// go on from the copy.
TEST_F(AdoptTest, WhileItCopiesNobodyElseGetsItsId) {
  const auto api = StartOnAFolderThatHangs();
  const auto begun = Begun(*api, old_, "b");
  ASSERT_TRUE(begun.ok()) << begun.status();
  const AdoptionInfo copies = Awaited(*api, *begun, {kAdoptionCopies});
  const absl::Status submitted = SubmittedTo(*api, "b", CountingSpec(1));
  EXPECT_TRUE(absl::IsAlreadyExists(submitted)) << submitted;
  EXPECT_THAT(std::string(submitted.message()),
              HasSubstr("is being adopted (adoption " + begun->adoption));
  EXPECT_TRUE(absl::IsAlreadyExists(Begun(*api, others_, "b").status()));
  EXPECT_EQ(Begun(*api, old_, "b")->adoption, begun->adoption) << "it was asked for already";
  EXPECT_TRUE(SubmittedTo(*api, "c", CountingSpec(1)).ok());
  // Queries do not wait for it.
  std::promise<absl::StatusOr<JobDigest>> digest;
  api->Digest("nobody", std::nullopt, [&](absl::StatusOr<JobDigest> d) { digest.set_value(d); });
  EXPECT_TRUE(absl::IsNotFound(digest.get_future().get().status()));
  std::promise<absl::Status> audit;
  api->Audit("a", [&](const absl::StatusOr<JobAudit>& a) { audit.set_value(a.status()); });
  EXPECT_TRUE(audit.get_future().get().ok());
  LetGo();
  EXPECT_EQ(Awaited(*api, copies, {kAdoptionDone, kAdoptionFailed}).state, kAdoptionDone);
  EXPECT_EQ(Look().size(), 3u);
  EXPECT_TRUE(absl::IsAlreadyExists(Begun(*api, old_, "b").status())) << "now there is that job";
}

TEST_F(AdoptTest, WhatFailsLeavesNothingAndItsIdIsFree) {
  *full_ = true;  // the store's disk, before the first byte is copied
  const absl::Status full = Adopted(old_, "b").status();
  EXPECT_TRUE(absl::IsResourceExhausted(full)) << full;
  *full_ = false;
  ExpectNothingLeftOf("b");
  EXPECT_TRUE(SubmittedTo(*api_, "b", CountingSpec(1)).ok());
}

// Refused when all is copied: there is no more room for jobs.
TEST_F(AdoptTest, ACopyThatGetsNoJobGoes) {
  int asked = 0;
  const auto may_have = [&](const KnownJobs&, const std::string&, const JobSpec&) {
    return ++asked == 1 ? absl::OkStatus() : absl::ResourceExhaustedError("too many jobs");
  };
  Adoptions adoptions(*driver_, *journal_, root_, may_have);
  std::promise<absl::StatusOr<AdoptionInfo>> begun;
  adoptions.Begin({old_, "b"},
                  [&](absl::StatusOr<AdoptionInfo> info) { begun.set_value(std::move(info)); });
  AdoptionInfo info = *begun.get_future().get();
  const Time end = RealClock().Now() + kPatience;
  while (info.state != kAdoptionFailed && RealClock().Now() < end) {
    std::this_thread::yield();
    info = *adoptions.Find(info.adoption);
  }
  EXPECT_TRUE(absl::IsResourceExhausted(info.error)) << info.error;
  EXPECT_EQ(asked, 2);
  ExpectNothingLeftOf("b");
  EXPECT_TRUE(adoptions.CheckFree("b").ok());
  Stop();  // before those whom it tells
}

// Killed while it copied: a start knows of the folder before there is a byte in it.
TEST_F(AdoptTest, AStartDropsWhatWasCopiedAndNotCommitted) {
  const AdoptionPlan plan = *PlanAdoption({old_, "b"}, journal_->cluster(), root_);
  Catalogue catalogue(*kv_, journal_->cluster());
  std::set<std::string> unfinished;
  bool was_empty = false;
  const auto progress = [&](uint64_t bytes, uint64_t) {
    if (bytes > 0) return;
    was_empty = std::filesystem::is_empty(CheckpointDir(root_, "b"));
    unfinished = *catalogue.Unfinished();
  };
  ASSERT_TRUE(CopyAdopted(plan, catalogue, journal_->cluster(),
                          *CheckpointFilesIn(CheckpointDir(root_, "b")), progress, {})
                  .ok());
  EXPECT_TRUE(was_empty);
  EXPECT_THAT(unfinished, ::testing::ElementsAre("b")) << "nobody would find what is copied";
  EXPECT_THAT(*catalogue.Unfinished(), ::testing::IsEmpty()) << "the catalogue has it";
  ASSERT_TRUE(catalogue.Begin("c").ok());
  std::filesystem::copy(CheckpointDir(root_, "b"), CheckpointDir(root_, "c"),
                        std::filesystem::copy_options::recursive);
  Stop();
  Start();
  ExpectNothingLeftOf("c");
}

TEST_F(AdoptTest, WhateverCallFailsNothingOfTheCopyIsLeft) {
  const AdoptionPlan plan = *PlanAdoption({old_, "b"}, journal_->cluster(), root_);
  Catalogue catalogue(*kv_, journal_->cluster());
  MemoryFiles memory;
  FaultyFiles failing(memory);
  int64_t call = 0;
  for (bool reached = true; reached; ++call) {
    SCOPED_TRACE(absl::StrCat("call ", call, " fails"));
    failing.FailCall(call);
    const absl::Status copied =
        CopyAdopted(plan, catalogue, journal_->cluster(), failing, [](uint64_t, uint64_t) {}, {})
            .status();
    reached = failing.failed();
    EXPECT_EQ(copied.ok(), !reached) << copied;
    EXPECT_EQ(memory.content.empty(), reached);
    EXPECT_EQ(catalogue.Jobs()->contains("b"), !reached);
  }
  EXPECT_GT(call, 5) << "the calls were not counted";
}

// Killed between the commit of the copy and the journalling of the job.
TEST_F(AdoptTest, AStartDropsACopyThatHasNoJob) {
  const AdoptionPlan plan = *PlanAdoption({old_, "b"}, journal_->cluster(), root_);
  ASSERT_TRUE(CopyAdopted(plan, Catalogue(*kv_, journal_->cluster()), journal_->cluster(),
                          *CheckpointFilesIn(CheckpointDir(root_, "b")), [](uint64_t, uint64_t) {},
                          {})
                  .ok());
  EXPECT_THAT(*Catalogue(*kv_).Jobs(), ::testing::Contains("b"));
  Stop();
  Start();
  ExpectNothingLeftOf("b");
  EXPECT_TRUE(Change(Submit{"b", CountingSpec(1)}).ok());
  EXPECT_TRUE(Look().at(1)->status.checkpoints.empty());
}

TEST_F(AdoptTest, ACoordinatorThatStopsEndsItAndTheNextOneKnowsNothingOfIt) {
  const auto api = StartOnAFolderThatHangs();
  const auto begun = Begun(*api, old_, "b");
  ASSERT_TRUE(begun.ok()) << begun.status();
  Awaited(*api, *begun, {kAdoptionCopies});
  std::thread stops([this] { driver_->Stop(); });
  while (driver_->Known().ok()) std::this_thread::yield();
  LetGo();
  stops.join();
  Stop();
  Start();
  EXPECT_EQ(Look().size(), 1u);
  ExpectNothingLeftOf("b");
}

// A job that has ended with a checkpoint of step 2, and others that begin with it.
class ForkTest : public JobApiTest {
 protected:
  ForkTest() {
    SubmitJob();
    TrainToTheEnd();
  }
  static JobSpec ForkSpec(std::optional<int64_t> step = std::nullopt) {
    JobSpec spec = CountingSpec(1);
    spec.training.initial.parent = ParentState{.job = "a", .step = step};
    return spec;
  }
  absl::StatusOr<SubmittedJob> Forked(const std::string& id, const JobSpec& spec,
                                      const Caller& caller = Anybody()) {
    std::promise<absl::StatusOr<SubmittedJob>> answer;
    api_->Submit(id, spec, {}, caller,
                 [&](absl::StatusOr<SubmittedJob> job) { answer.set_value(std::move(job)); });
    return answer.get_future().get();
  }
  std::string DigestOfBeginning(const std::string& id) {
    const Catalogue::Listing listing = *Catalogue(*kv_).List(id);
    EXPECT_EQ(listing.manifests.size(), 1u);
    EXPECT_EQ(listing.manifests.at(0).step, Step(0));
    return muster::Digest(*CheckpointFilesIn(CheckpointDir(root_, id)), listing.manifests.at(0))
        .value_or("none");
  }
  void ExpectNothingLeftOf(const std::string& job) {
    EXPECT_FALSE(std::filesystem::exists(CheckpointDir(root_, job)));
    EXPECT_THAT(*Catalogue(*kv_).Jobs(), ::testing::Not(::testing::Contains(job)));
    EXPECT_THAT(*Catalogue(*kv_).Unfinished(), ::testing::Not(::testing::Contains(job)));
  }
  void ExpectRefused(const JobSpec& spec, const std::string& field, const std::string& why) {
    const absl::Status refused = Forked("b", spec).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << refused;
    EXPECT_EQ(FieldOf(refused), field) << refused;
    EXPECT_THAT(std::string(refused.message()), HasSubstr(why));
    EXPECT_EQ(Look().size(), 1u);
    ExpectNothingLeftOf("b");
  }
  ForkSource Source() {
    const JobJournal parent = Job();
    return {Catalogue(*kv_).List("a")->manifests.back(), parent.spec.training, *parent.environment};
  }
  ForkTarget Target(const std::string& id) {
    ForkTarget target{id, ForkSpec(2), journal_->cluster()};
    target.spec.training =
        ForkedAt(Job().spec.training, Step(2), std::string(64, 'a'), target.spec.training);
    return target;
  }
};

TEST_F(ForkTest, BeginsWithTheStateOfItsParentAndNamesIt) {
  const std::string digest = Job().ending.digest;
  const auto forked = Forked("b", ForkSpec());
  ASSERT_TRUE(forked.ok()) << forked.status();
  EXPECT_TRUE(forked->created);
  EXPECT_EQ(forked->job.step, 0);
  EXPECT_EQ(forked->job.checkpoint_step, 0);
  ASSERT_TRUE(forked->job.parent);
  EXPECT_EQ(forked->job.parent->job, "a");
  EXPECT_EQ(forked->job.parent->step, 2);
  EXPECT_EQ(forked->job.parent->digest, digest);
  EXPECT_EQ(DigestOfBeginning("b"), digest);
  const JobJournal job = Look().at(1)->status.job;
  EXPECT_EQ(job.spec.training.initial.parent, (ParentState{"a", 2, digest, 0, false}));
  EXPECT_EQ(job.environment, std::nullopt) << "its own workers tell it";
  ASSERT_EQ(job.lineages.size(), 1u);
  EXPECT_THAT(job.lineages[0].cause, HasSubstr("forked from job a, step 2, digest "));
}

TEST_F(ForkTest, TheSameAgainIsOneJobAndAnotherParentIsNone) {
  ASSERT_TRUE(Forked("b", ForkSpec()).ok());
  for (const JobSpec& spec : {ForkSpec(), ForkSpec(2), Look().at(1)->status.job.spec}) {
    const auto again = Forked("b", spec);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_FALSE(again->created);
  }
  EXPECT_EQ(Forked("b", ForkSpec(1)).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(Forked("b", CountingSpec(1)).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(Look().size(), 2u);
}

TEST_F(ForkTest, ManyWhoAskForTheSameAtOnceGetTheSame) {
  constexpr int kMany = 8;
  Mailbox<absl::StatusOr<SubmittedJob>> answers;
  for (int i = 0; i < kMany; ++i)
    api_->Submit("b", ForkSpec(), {}, Anybody(),
                 [&](absl::StatusOr<SubmittedJob> job) { answers.Post(std::move(job)); });
  for (int i = 0; i < kMany; ++i) {
    const auto answer = answers.TakeUntil(RealClock().Now() + kPatience);
    ASSERT_TRUE(answer);
    EXPECT_TRUE(answer->ok()) << answer->status();
  }
  EXPECT_EQ(Look().size(), 2u);
}

TEST_F(ForkTest, WhatCannotBeForkedIsNamedAndNothingIsMade) {
  JobSpec spec = ForkSpec();
  spec.training.initial.parent->job = "nobody";
  ExpectRefused(spec, "initial.parent.job", "there is no job nobody");
  spec.training.initial.parent->job = "b";
  ExpectRefused(spec, "initial.parent.job", "is the job itself");
  ExpectRefused(ForkSpec(7), "initial.parent.step", "no checkpoint of step 7; allowed: 2");
  spec = ForkSpec();
  spec.training.initial.parent->digest = std::string(64, 'b');
  ExpectRefused(spec, "initial.parent.digest", "has digest " + Job().ending.digest);
  spec = ForkSpec();
  spec.training.initial.parent->updates = 1;
  ExpectRefused(spec, "initial.parent.updates", "allowed here: 0");
  spec = ForkSpec();
  spec.training.task = "mlp";
  ExpectRefused(spec, "task", "the same model");
}

TEST_F(ForkTest, ANameIsTheStepThatHasItWhenTheForkIsMade) {
  const std::string digest = Job().ending.digest;
  const auto files = CheckpointFilesIn(CheckpointDir(root_, "a"));
  JobSpec spec = ForkSpec();
  spec.training.initial.parent->name = "end";
  ExpectRefused(spec, "initial.parent.step", "kept as 'end'; none has a name");
  ASSERT_TRUE(WriteKeptName(*files, LineageNumber(1), Step(2), "end").ok());
  JobSpec other = spec;
  other.training.initial.parent->name = "other";
  ExpectRefused(other, "initial.parent.step", "kept as 'other'; there are end");
  other.training.initial.parent->name = "best";
  ExpectRefused(other, "initial.parent.step", "no checkpoint that was measured");
  const auto forked = Forked("b", spec);
  ASSERT_TRUE(forked.ok()) << forked.status();
  EXPECT_TRUE(forked->created);
  EXPECT_EQ(Look().at(1)->status.job.spec.training.initial.parent,
            (ParentState{"a", 2, digest, 0, false}));
  // Nobody has that name any more, and the same again is the same fork.
  ASSERT_TRUE(files->Remove(KeptFileOf(LineageNumber(1), Step(2))).ok());
  const auto again = Forked("b", spec);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_FALSE(again->created);
  EXPECT_FALSE(Forked("c", spec).ok());
}

// That checkpoint.keep has let go of it does not matter to whoever has kept it.
class KeptTest : public ForkTest {
 protected:
  KeptTest() {
    Manifest early = Source().manifest;
    early.step = Step(1);
    EXPECT_TRUE(Catalogue(*kv_).Commit(early).ok());
    EXPECT_TRUE(WriteKeptName(*CheckpointFilesIn(CheckpointDir(root_, "a")), early.lineage,
                              early.step, "early")
                    .ok());
  }
  // Job a goes on from there, as a longer one.
  absl::Status GoneOn(const Resume& resume) {
    JobSpec spec = CountingSpec(1);
    spec.training.epochs = 3;
    spec.runtime.resume = resume;
    return Submitted("a", spec);
  }
  absl::StatusOr<ManifestPtr> Found(const std::string& name,
                                    const std::function<void(JobJournal&)>& change) {
    const auto known = std::make_shared<KnownJob>(*Look().at(0));
    change(known->status.job);
    return FindCheckpoint(Catalogue(*kv_), root_, {known, "resume", name, Step(0)});
  }
};

TEST_F(KeptTest, AJobGoesOnFromANameAndTheStepIsJournalled) {
  ASSERT_EQ(Look().at(0)->status.checkpoints.size(), 1u);
  const absl::Status refused = GoneOn({ResumeKind::kNamed, 0, "late"});
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << refused;
  EXPECT_EQ(FieldOf(refused), "resume");
  EXPECT_THAT(std::string(refused.message()), HasSubstr("kept as 'late'; there are early"));
  const absl::Status taken = GoneOn({ResumeKind::kNamed, 0, "early"});
  ASSERT_TRUE(taken.ok()) << taken;
  EXPECT_EQ(Job().spec.runtime.resume, (Resume{ResumeKind::kStep, 1}));
  EXPECT_THAT(Look().at(0)->status.checkpoints,
              ::testing::ElementsAre(CheckpointPlace(LineageNumber(1), Step(1)),
                                     CheckpointPlace(LineageNumber(1), Step(2))));
}

TEST_F(KeptTest, AJobGoesOnFromItsStepToo) {
  const absl::Status refused = GoneOn({ResumeKind::kStep, 7});
  EXPECT_THAT(std::string(refused.message()), HasSubstr("allowed: 2, latest"));
  const absl::Status taken = GoneOn({ResumeKind::kStep, 1});
  ASSERT_TRUE(taken.ok()) << taken;
  EXPECT_EQ(Job().spec.runtime.resume, (Resume{ResumeKind::kStep, 1}));
}

// What is looked after through the coordinator.
class SavedTest : public KeptTest {
 protected:
  SavedCheckpoints Listed() {
    std::promise<absl::StatusOr<SavedCheckpoints>> answer;
    api_->Checkpoints(
        "a", "", [&](absl::StatusOr<SavedCheckpoints> page) { answer.set_value(std::move(page)); });
    absl::StatusOr<SavedCheckpoints> page = answer.get_future().get();
    EXPECT_TRUE(page.ok()) << page.status();
    return page.value_or(SavedCheckpoints{});
  }
  std::vector<int64_t> Steps() {
    std::vector<int64_t> steps;
    for (const SavedCheckpoint& saved : Listed().checkpoints) steps.push_back(saved.step);
    return steps;
  }
  absl::StatusOr<SavedCheckpoint> Keep(const std::string& checkpoint, const std::string& name,
                                       const Caller& caller = Anybody()) {
    std::promise<absl::StatusOr<SavedCheckpoint>> answer;
    api_->KeepCheckpoint("a", checkpoint, name, caller, [&](absl::StatusOr<SavedCheckpoint> saved) {
      answer.set_value(std::move(saved));
    });
    return answer.get_future().get();
  }
  absl::Status Deleted(const std::string& checkpoint, bool force = false,
                       const Caller& caller = Anybody()) {
    std::promise<absl::Status> answer;
    api_->DeleteCheckpoint(
        "a", checkpoint, force, caller,
        [&](const absl::StatusOr<SavedCheckpoint>& saved) { answer.set_value(saved.status()); });
    return answer.get_future().get();
  }
  const Caller stranger_{"eve", UserRole::kSubmitter, "far"};
  const Caller viewer_{"vera", UserRole::kViewer, kFirstNamespace};
};

TEST_F(SavedTest, AllThatIsCommittedIsListed) {
  const SavedCheckpoints page = Listed();
  EXPECT_EQ(page.next_page_token, "");
  ASSERT_EQ(page.checkpoints.size(), 2u);
  const SavedCheckpoint& early = page.checkpoints[0];
  EXPECT_EQ(early.checkpoint, "lineage-1-step-1");
  EXPECT_EQ(early.name, "early");
  EXPECT_FALSE(early.complete) << "its manifest has no file";
  EXPECT_THAT(early.why, HasSubstr("no manifest"));
  const SavedCheckpoint& last = page.checkpoints[1];
  EXPECT_EQ(last.checkpoint, "lineage-1-step-2");
  EXPECT_TRUE(last.complete) << last.why;
  EXPECT_TRUE(last.finite);
  EXPECT_EQ(last.name, "");
  EXPECT_GT(last.bytes, 0u);
  EXPECT_FALSE(last.best || last.left_out || last.deleting);
  // Whoever exports it reads it, though the job would not go back there by itself.
  std::promise<absl::Status> read;
  api_->ReadFile("a", {.file = "lineage-1-step-1/checkpoint.kept"},
                 [&](const absl::StatusOr<FilePart>& part) { read.set_value(part.status()); });
  EXPECT_TRUE(read.get_future().get().ok());
}

TEST_F(SavedTest, ANameIsGivenOnceAndTakenBack) {
  const auto kept = Keep("lineage-1-step-2", "end");
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_EQ(kept->name, "end");
  EXPECT_EQ(Listed().checkpoints[1].name, "end");
  const absl::Status taken = Keep("lineage-1-step-2", "early").status();
  EXPECT_TRUE(absl::IsAlreadyExists(taken)) << taken;
  EXPECT_THAT(std::string(taken.message()), HasSubstr("step 1 is kept as 'early'"));
  EXPECT_EQ(FieldOf(Keep("lineage-1-step-2", "Not A Name").status()), "name");
  // A job's specification means something else by them.
  for (const char* reserved : {"latest", "never"}) {
    const absl::Status refused = Keep("lineage-1-step-2", reserved).status();
    EXPECT_EQ(FieldOf(refused), "name") << refused;
    EXPECT_THAT(std::string(refused.message()), HasSubstr("neither latest nor never"));
  }
  EXPECT_EQ(FieldOf(Keep("../a", "x").status()), "checkpoint");
  EXPECT_TRUE(absl::IsNotFound(Keep("lineage-1-step-9", "x").status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(Keep("lineage-1-step-1", "x").status()))
      << "it is not complete";
  EXPECT_TRUE(absl::IsNotFound(Keep("lineage-1-step-2", "x", stranger_).status()));
  EXPECT_TRUE(absl::IsPermissionDenied(Keep("lineage-1-step-2", "x", viewer_).status()));
  const auto released = Keep("lineage-1-step-2", "");
  ASSERT_TRUE(released.ok()) << released.status();
  EXPECT_EQ(Listed().checkpoints[1].name, "");
}

TEST_F(SavedTest, OldOnesGoAndTheNewestOnlyWhereThatIsSaid) {
  const absl::Status named = Deleted("lineage-1-step-1");
  EXPECT_TRUE(absl::IsFailedPrecondition(named)) << named;
  EXPECT_THAT(std::string(named.message()), HasSubstr("kept as 'early'"));
  const absl::Status newest = Deleted("lineage-1-step-2");
  EXPECT_TRUE(absl::IsFailedPrecondition(newest)) << newest;
  EXPECT_THAT(std::string(newest.message()), HasSubstr("is the newest of job a"));
  EXPECT_TRUE(absl::IsNotFound(Deleted("lineage-1-step-2", true, stranger_)));
  EXPECT_TRUE(absl::IsPermissionDenied(Deleted("lineage-1-step-2", true, viewer_)));
  EXPECT_TRUE(absl::IsNotFound(Deleted("lineage-1-step-9")));
  EXPECT_THAT(Steps(), ::testing::ElementsAre(1, 2));
  const absl::Status gone = Deleted("lineage-1-step-1", true);
  EXPECT_TRUE(gone.ok()) << gone;
  EXPECT_THAT(Steps(), ::testing::ElementsAre(2));
  EXPECT_TRUE(absl::IsNotFound(Deleted("lineage-1-step-1", true))) << "it is gone";
  EXPECT_THAT(std::string(GoneOn({ResumeKind::kNamed, 0, "early"}).message()),
              HasSubstr("none has a name"));
  EXPECT_TRUE(Deleted("lineage-1-step-2", true).ok());
  EXPECT_THAT(Look().at(0)->status.checkpoints, IsEmpty()) << "the job has forgotten it";
  EXPECT_THAT(Look().at(0)->status.removing, IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(CheckpointDir(root_, "a") + "/lineage-1-step-2"));
}

TEST_F(SavedTest, WhoeverHearsThatOneIsGoneMayGoOnFromAnother) {
  ASSERT_TRUE(Deleted("lineage-1-step-2", true).ok());
  const absl::Status taken = GoneOn({ResumeKind::kNamed, 0, "early"});
  EXPECT_TRUE(taken.ok()) << taken;
}

// Of a job that goes on nothing goes that it may go back to.
TEST_F(SavedTest, AJobThatIsUnderWayKeepsWhatItKnows) {
  ASSERT_TRUE(GoneOn({ResumeKind::kNamed, 0, "early"}).ok());
  for (const char* checkpoint : {"lineage-1-step-1", "lineage-1-step-2"}) {
    const absl::Status refused = Deleted(checkpoint, true);
    EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
    EXPECT_THAT(std::string(refused.message()), HasSubstr("stays while job a is under way"));
  }
  EXPECT_THAT(Steps(), ::testing::ElementsAre(1, 2));
}

// It was looked up, and is deleted before that is decided.
TEST_F(SavedTest, NobodyGoesOnFromWhatIsDeletedMeanwhile) {
  HoldUpAnswers();
  JobSpec spec = CountingSpec(1);
  spec.training.epochs = 3;
  spec.runtime.resume = {ResumeKind::kNamed, 0, "early"};
  std::promise<absl::Status> submitted;
  api_->Submit("a", spec, {}, Anybody(),
               [&](const absl::StatusOr<SubmittedJob>& job) { submitted.set_value(job.status()); });
  std::promise<void> decides;
  HoldUp(decides);
  // It is decided before the submission, which waits for the thread of queries.
  std::promise<absl::Status> removed;
  driver_->Change(
      [](const KnownJobs&) {
        return RemoveCheckpoint{"a", LineageNumber(1), Step(1), true, ""};
      },
      [&](const absl::StatusOr<KnownJobs>& jobs) { removed.set_value(jobs.status()); });
  go_on_.set_value();
  std::promise<void> looked_up;
  ASSERT_TRUE(Ask([&](const std::stop_token&) { looked_up.set_value(); }).ok());
  looked_up.get_future().wait();
  decides.set_value();
  ASSERT_TRUE(removed.get_future().get().ok());
  const absl::Status refused = submitted.get_future().get();
  EXPECT_TRUE(absl::IsUnavailable(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("submit it again"));
}

// Where the store fails the checkpoint is as it was, and so is the job.
TEST_F(SavedTest, ADeletionThatFailsIsToldAndCanBeTriedAgain) {
  *full_ = true;
  const absl::Status failed = Deleted("lineage-1-step-2", true);
  EXPECT_TRUE(absl::IsUnavailable(failed)) << failed;
  *full_ = false;
  EXPECT_THAT(Steps(), ::testing::ElementsAre(1, 2));
  EXPECT_EQ(Look().at(0)->status.checkpoints.size(), 1u);
  EXPECT_THAT(Look().at(0)->status.removing, IsEmpty());
  EXPECT_TRUE(Deleted("lineage-1-step-2", true).ok());
  EXPECT_THAT(Steps(), ::testing::ElementsAre(1));
}

TEST_F(KeptTest, ANewJobHasNothingThatIsKept) {
  JobSpec spec = CountingSpec(1);
  spec.runtime.resume = {ResumeKind::kNamed, 0, "early"};
  const absl::Status refused = Submitted("b", spec);
  EXPECT_EQ(FieldOf(refused), "resume") << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("a new job has no checkpoint"));
}

TEST_F(KeptTest, TheBestIsTheOneThatItsMeasureSays) {
  const auto files = CheckpointFilesIn(CheckpointDir(root_, "a"));
  const auto keep_best = [](JobJournal& job) {
    job.spec.runtime.checkpoint.keep_best = "validation.loss";
  };
  for (const auto& [step, loss] : {std::pair(1, 0.5), std::pair(2, 0.7)})
    ASSERT_TRUE(WriteMeasure(*files, LineageNumber(1), Step(step), {"validation.loss", loss}).ok());
  const auto best = Found("best", keep_best);
  ASSERT_TRUE(best.ok()) << best.status();
  EXPECT_EQ((*best)->step, Step(1));
  ASSERT_TRUE(files->Replace(MeasureFileOf(LineageNumber(1), Step(2)), "torn").ok());
  const absl::Status unread = Found("best", keep_best).status();
  EXPECT_EQ(FieldOf(unread), "resume") << unread;
  EXPECT_THAT(std::string(unread.message()), HasSubstr("nobody knows which checkpoint of job a is "
                                                       "'best'"));
  EXPECT_THAT(std::string(unread.message()), HasSubstr("lineage-1-step-2/checkpoint.measure'"));
  ASSERT_TRUE(WriteKeptName(*files, LineageNumber(1), Step(2), "best").ok());
  const auto named = Found("best", keep_best);
  ASSERT_TRUE(named.ok()) << named.status();
  EXPECT_EQ((*named)->step, Step(2)) << "whoever gave that name meant it";
}

TEST_F(KeptTest, ANameThatCannotBeReadMayBeTheOneThatIsAskedFor) {
  const auto files = CheckpointFilesIn(CheckpointDir(root_, "a"));
  ASSERT_TRUE(files->Replace(KeptFileOf(LineageNumber(1), Step(2)), "two words").ok());
  const auto as_it_is = [](JobJournal&) {};
  EXPECT_EQ((*Found("early", as_it_is))->step, Step(1));
  const absl::Status unread = Found("other", as_it_is).status();
  EXPECT_EQ(FieldOf(unread), "resume") << unread;
  EXPECT_THAT(std::string(unread.message()), HasSubstr("lineage-1-step-2/checkpoint.kept'"));
}

TEST_F(KeptTest, NothingGoesOnFromWhatTheJobHasLeftOut) {
  const auto went_back = [](JobJournal& job) {
    job.lineages = {{LineageNumber(1), LineageNumber(0), Step(0), "start"},
                    {LineageNumber(2), LineageNumber(1), Step(0), "resumed"}};
  };
  const absl::Status refused = Found("early", went_back).status();
  EXPECT_EQ(FieldOf(refused), "resume") << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("keeps step 1 as 'early'"));
}

TEST_F(ForkTest, WhoDoesNotSeeTheParentForksNothing) {
  JobSpec spec = ForkSpec();
  spec.queue.name_space = "far";
  const absl::Status refused = Forked("b", spec, {"eve", UserRole::kSubmitter, "far"}).status();
  EXPECT_EQ(FieldOf(refused), "initial.parent.job") << refused;
  ExpectNothingLeftOf("b");
}

TEST_F(ForkTest, ADamagedParentIsSaidAndNothingIsLeft) {
  const Manifest manifest = Source().manifest;
  const std::string path = CheckpointDir(root_, "a") + "/" + manifest.segments.at(0).file;
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  const absl::Status damaged = Forked("b", ForkSpec()).status();
  EXPECT_TRUE(absl::IsDataLoss(damaged)) << damaged;
  ExpectNothingLeftOf("b");
  std::filesystem::remove(path);
  EXPECT_FALSE(Forked("b", ForkSpec()).ok());
  ExpectNothingLeftOf("b");
  EXPECT_TRUE(Submitted("b", CountingSpec(1)).ok()) << "the id is free";
}

TEST_F(ForkTest, StaysWhenItsParentIsDeleted) {
  ASSERT_TRUE(Forked("b", ForkSpec()).ok());
  const std::string digest = DigestOfBeginning("b");
  std::promise<absl::Status> deleted;
  api_->Delete("a", Anybody(),
               [&](const absl::StatusOr<JobInfo>& job) { deleted.set_value(job.status()); });
  ASSERT_TRUE(deleted.get_future().get().ok());
  const Time end = RealClock().Now() + kPatience;
  while (Look().size() > 1 && RealClock().Now() < end) std::this_thread::yield();
  EXPECT_FALSE(std::filesystem::exists(CheckpointDir(root_, "a")));
  EXPECT_EQ(DigestOfBeginning("b"), digest);
  const auto again = Forked("b", ForkSpec());
  EXPECT_TRUE(again.ok()) << again.status() << ": the job is there, and its parent is not needed";
  EXPECT_EQ(FieldOf(Forked("c", ForkSpec()).status()), "initial.parent.job");
  Stop();
  Start();
  EXPECT_EQ(Look().at(0)->status.checkpoints.size(), 1u) << "a start finds it";
}

TEST_F(ForkTest, WhateverCallFailsNothingOfTheCopyIsLeft) {
  Catalogue catalogue(*kv_, journal_->cluster());
  const auto from = CheckpointFilesIn(CheckpointDir(root_, "a"));
  MemoryFiles memory;
  FaultyFiles failing(memory);
  int64_t call = 0;
  for (bool reached = true; reached; ++call) {
    SCOPED_TRACE(absl::StrCat("call ", call, " fails"));
    failing.FailCall(call);
    const absl::Status copied =
        CopyFork(Source(), *from, Target("b"), catalogue, failing, {}).status();
    reached = failing.failed();
    EXPECT_EQ(copied.ok(), !reached) << copied;
    EXPECT_EQ(memory.content.empty(), reached);
    EXPECT_EQ(catalogue.Jobs()->contains("b"), !reached);
  }
  EXPECT_GT(call, 4) << "the calls were not counted";
}

// Killed between the commit of the copy and the journalling of the job.
TEST_F(ForkTest, AStartDropsACopyThatHasNoJob) {
  ASSERT_TRUE(CopyFork(Source(), *CheckpointFilesIn(CheckpointDir(root_, "a")), Target("b"),
                       Catalogue(*kv_, journal_->cluster()),
                       *CheckpointFilesIn(CheckpointDir(root_, "b")), {})
                  .ok());
  EXPECT_THAT(*Catalogue(*kv_).Jobs(), ::testing::Contains("b"));
  Stop();
  Start();
  ExpectNothingLeftOf("b");
  EXPECT_THAT(*Catalogue(*kv_).Jobs(), ::testing::Contains("a"));
}

// Another grid of chunks, and other slots.
TEST_F(ForkTest, TensorsAreCopiedWhateverTheGrid) {
  ForkTarget target = Target("b");
  const std::string digest = Job().ending.digest;
  for (const int64_t chunk_bytes : {64, 128, 4096}) {
    target.spec.training.chunk_bytes = chunk_bytes;
    const auto to = CheckpointFilesIn(CheckpointDir(root_, "b"));
    const auto made = CopyFork(Source(), *CheckpointFilesIn(CheckpointDir(root_, "a")), target,
                               Catalogue(*kv_, journal_->cluster()), *to, {});
    ASSERT_TRUE(made.ok()) << made.status();
    EXPECT_EQ(made->chunk_bytes, chunk_bytes);
    EXPECT_EQ(*muster::Digest(*to, *made), digest) << chunk_bytes;
  }
  target.spec.training.optimizer.kind = OptimizerKind::kAdam;
  const auto to = CheckpointFilesIn(CheckpointDir(root_, "b"));
  const auto made = CopyFork(Source(), *CheckpointFilesIn(CheckpointDir(root_, "a")), target,
                             Catalogue(*kv_, journal_->cluster()), *to, {});
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->slots, 2);
  EXPECT_TRUE(CheckComplete(*made, *LayoutOf(*made), 2).ok())
      << "what does not come along is zeros";
}

// Decided where all submissions are decided, as two users may name the same id at once.
TEST_F(JobApiTest, AJobIsOfWhoeverSubmittedItAndOthersMayNotSubmitItAgain) {
  const auto submitted_by = [&](const std::string& user) {
    std::promise<absl::StatusOr<SubmittedJob>> answer;
    api_->Submit("a", CountingSpec(1), {}, {user, UserRole::kSubmitter, "*"},
                 [&](absl::StatusOr<SubmittedJob> job) { answer.set_value(std::move(job)); });
    return answer.get_future().get();
  };
  const absl::StatusOr<SubmittedJob> first = submitted_by("ada");
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->job.owner, "ada");
  EXPECT_EQ(submitted_by("bob").status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_TRUE(submitted_by("ada").ok());
}

// The door has let them in, by an older picture: the job of that id was another one then.
TEST_F(JobApiTest, WhoMayNotChangeAJobIsToldSoWhereItIsDecided) {
  std::promise<absl::Status> submitted;
  api_->Submit("a", CountingSpec(1), {}, {"ada", UserRole::kSubmitter, "default"},
               [&](const absl::StatusOr<SubmittedJob>& j) { submitted.set_value(j.status()); });
  ASSERT_TRUE(submitted.get_future().get().ok());
  using Answer = JobApi::Reply<JobInfo>;
  const std::pair<const char*, std::function<void(const Caller&, Answer)>> changes[] = {
      {"scale", [&](const Caller& c, Answer a) { api_->Scale("a", 1, 2, c, std::move(a)); }},
      {"set queue",
       [&](const Caller& c, Answer a) { api_->SetQueue("a", {.retries = 1}, c, std::move(a)); }},
      {"stop", [&](const Caller& c, Answer a) { api_->Stop("a", c, std::move(a)); }},
      {"cancel", [&](const Caller& c, Answer a) { api_->Cancel("a", c, std::move(a)); }},
      {"delete", [&](const Caller& c, Answer a) { api_->Delete("a", c, std::move(a)); }}};
  for (const auto& [name, change] : changes) {
    const auto changed = [&, &change = change](const Caller& caller) {
      std::promise<absl::StatusCode> answer;
      change(caller,
             [&](const absl::StatusOr<JobInfo>& j) { answer.set_value(j.status().code()); });
      return answer.get_future().get();
    };
    EXPECT_EQ(changed({"bob", UserRole::kSubmitter, "default"}),
              absl::StatusCode::kPermissionDenied)
        << name << " by one whose job it is not";
    EXPECT_EQ(changed({"far", UserRole::kOperator, "other"}), absl::StatusCode::kNotFound) << name;
    EXPECT_EQ(changed({"ada", UserRole::kSubmitter, "default"}), absl::StatusCode::kOk) << name;
  }
}

TEST_F(JobApiTest, ASubmitterRaisesNoPriorityInAnyWay) {
  const Caller ada{"ada", UserRole::kSubmitter, "default"};
  const auto submitted = [&](int32_t priority) {
    JobSpec spec = CountingSpec(1);
    spec.queue.priority = priority;
    std::promise<absl::StatusCode> answer;
    api_->Submit("a", spec, {}, ada, [&](const absl::StatusOr<SubmittedJob>& job) {
      answer.set_value(job.status().code());
    });
    return answer.get_future().get();
  };
  const auto changed = [&](const QueueChange& change, const Caller& caller) {
    std::promise<absl::StatusCode> answer;
    api_->SetQueue("a", change, caller, [&](const absl::StatusOr<JobInfo>& job) {
      answer.set_value(job.status().code());
    });
    return answer.get_future().get();
  };
  EXPECT_EQ(submitted(1000), absl::StatusCode::kPermissionDenied) << "it is new";
  EXPECT_EQ(submitted(0), absl::StatusCode::kOk);
  EXPECT_EQ(changed({.priority = 1}, ada), absl::StatusCode::kPermissionDenied) << "it is changed";
  EXPECT_EQ(changed({.priority = 3}, {"oda", UserRole::kOperator, "default"}),
            absl::StatusCode::kOk);
  EXPECT_EQ(changed({.retries = 1}, ada), absl::StatusCode::kOk) << "that stays as it is";
  ASSERT_TRUE(Change(coordinator::Stop{"a"}).ok());
  EXPECT_EQ(submitted(4), absl::StatusCode::kPermissionDenied) << "it goes on";
  EXPECT_EQ(submitted(3), absl::StatusCode::kOk);
}

TEST_F(JobApiTest, WhoDoesNotSeeAJobDoesNotWatchIt) {
  ASSERT_TRUE(Submitted("a", CountingSpec(1)).ok());
  const auto watched = [&](const Caller& caller) {
    KeptEvents kept;
    std::promise<absl::StatusCode> answer;
    api_->Watch(
        "a", std::nullopt, caller,
        [&](const absl::StatusOr<bool>& found) { answer.set_value(found.status().code()); },
        kept.NewWatcher());
    return answer.get_future().get();
  };
  EXPECT_EQ(watched({"far", UserRole::kViewer, "other"}), absl::StatusCode::kNotFound);
}

TEST_F(JobApiTest, OneUserWatchesNoMoreThanAShare) {
  const auto api = MakeJobApi(*driver_, *journal_, root_, {}, "", nullptr, /*watchers=*/8);
  ASSERT_TRUE(Submitted("a", CountingSpec(1)).ok());
  KeptEvents first, second, third;
  const auto watched = [&](const std::string& user, KeptEvents& kept) {
    std::promise<absl::StatusCode> answer;
    api->Watch(
        "a", std::nullopt, {user, UserRole::kViewer, "*"},
        [&](const absl::StatusOr<bool>& found) { answer.set_value(found.status().code()); },
        kept.NewWatcher());
    return answer.get_future().get();
  };
  EXPECT_EQ(watched("ada", first), absl::StatusCode::kOk);
  EXPECT_EQ(watched("ada", second), absl::StatusCode::kUnavailable) << "ada watches all";
  EXPECT_EQ(watched("bob", third), absl::StatusCode::kOk);
  ASSERT_TRUE(Cancelled("a").ok());  // its end ends the watching
  EXPECT_TRUE(first.AwaitEnd());
  Stop();
}

TEST_F(JobApiTest, AModelThatNoJobMayHaveIsRefusedBeforeItIsKept) {
  JobSpec spec = CountingSpec(1);
  spec.training.data.samples = uint64_t{1} << 40;
  const absl::Status refused = Submitted("a", spec);
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(FieldOf(refused), "data.samples");
  EXPECT_THAT(std::string(refused.message()), HasSubstr("1099511627776 parameters"));
}

TEST_F(JobApiTest, AStepThatNobodyCanResumeFromIsAnErrorOfThatField) {
  JobSpec spec = CountingSpec(1);
  spec.runtime.resume = {ResumeKind::kStep, 5};
  const absl::Status refused = Submitted("a", spec);
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(FieldOf(refused), "resume");
  EXPECT_EQ(refused.message(), "resume: there is no checkpoint of step 5; allowed: never, latest");
}

TEST_F(JobApiTest, AJobThatIsStoppingIsNotLostWhenItIsSubmittedAgain) {
  SubmitJob();
  ScriptedMember member = Member("worker-0");
  member.JoinJob("a");
  member.FollowIntoView();
  ASSERT_TRUE(Change(coordinator::Stop{"a"}).ok());
  const absl::Status refused = Submitted("a", CountingSpec(1));
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition) << refused;
  EXPECT_EQ(refused.message(), "job a is stopping; submit it again when it is stopped");
  JobSpec other = CountingSpec(1);
  other.runtime.checkpoint.keep += 1;
  EXPECT_THAT(Submitted("a", other).message(), HasSubstr("job a is stopping"));
}

TEST_F(JobApiTest, OfAJobThatHasBegunItDoesNotMatterWhereItWasToBegin) {
  SubmitJob();
  ScriptedMember member = Member("worker-0");
  member.JoinJob("a");
  member.FollowIntoView();
  JobSpec again = CountingSpec(1);
  again.runtime.resume = {ResumeKind::kStep, 5};
  const absl::Status same = Submitted("a", again);
  EXPECT_TRUE(same.ok()) << same;
}

TEST_F(JobApiTest, AStoppedJobIsCancelledForGood) {
  SubmitJob();
  ASSERT_TRUE(Change(coordinator::Stop{"a"}).ok());
  ASSERT_EQ(Job().phase, JobPhase::kStopped);
  const absl::StatusOr<JobInfo> job = Cancelled("a");
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->state, "cancelled");
  EXPECT_EQ(job->reason, "cancelled after it was stopped");
  EXPECT_TRUE(Submitted("a", CountingSpec(1)).ok());
  EXPECT_EQ(Job().phase, JobPhase::kCancelled);
}

TEST_F(JobApiTest, OnlyAJobThatHasNotEndedIsScaled) {
  EXPECT_EQ(Scaled("a", 1, 2).code(), absl::StatusCode::kNotFound);
  SubmitJob();
  EXPECT_TRUE(Scaled("a", 1, 2).ok());
  ASSERT_TRUE(Change(coordinator::Stop{"a"}).ok());
  const absl::Status refused = Scaled("a", 1, 2);
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(refused.message(), HasSubstr("job a is stopped"));
}

TEST_F(JobApiTest, AJobHasAsManyWorkersAsItsSpecificationMaySay) {
  SubmitJob();
  EXPECT_EQ(FieldOf(Scaled("a", 0, 2)), "workers.min");
  EXPECT_EQ(FieldOf(Scaled("a", 1, kMaxProcesses + 1)), "workers.max");
  EXPECT_EQ(FieldOf(Scaled("a", 3, 2)), "workers.min");
  EXPECT_THAT(Scaled("a", 1, 0).message(), HasSubstr("allowed: 1 to 4096"));
}

TEST_F(JobApiTest, WhatTheQueueKnowsOfAJobMayChangeAtAnyTime) {
  const auto changed = [this](const QueueChange& change) {
    std::promise<absl::StatusOr<JobInfo>> answer;
    api_->SetQueue("a", change, Anybody(),
                   [&](absl::StatusOr<JobInfo> job) { answer.set_value(std::move(job)); });
    return answer.get_future().get();
  };
  EXPECT_EQ(changed({.priority = 1}).status().code(), absl::StatusCode::kNotFound);
  JobSpec spec = CountingSpec(1);
  spec.queue.labels = {{"team", "see"}};
  ASSERT_TRUE(Submitted("a", spec).ok());
  const auto job = changed({.priority = 7, .labels = {{"team", std::nullopt}, {"stage", "one"}}});
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->spec->queue.priority, 7);
  EXPECT_EQ(job->spec->queue.labels, (std::map<std::string, std::string>{{"stage", "one"}}));
  EXPECT_EQ(FieldOf(changed({.retries = -1}).status()), "retries");
  // Whoever submits it again changes nothing of that.
  ASSERT_TRUE(Submitted("a", spec).ok());
  EXPECT_EQ(changed({})->spec->queue.priority, 7);
  ASSERT_TRUE(Cancelled("a").ok());
  EXPECT_EQ(changed({.time_to_live = 60})->spec->queue.time_to_live, 60);
}

TEST_F(JobApiTest, AJobStaysInItsNamespaceAndNoMoreWaitThanItsQuotaSays) {
  const std::unique_ptr<NamespaceApi> namespaces = MakeNamespaceApi(*driver_);
  const auto set = [&](const std::string& name, std::optional<int32_t> slots,
                       std::optional<int32_t> queued, int32_t priority = 0) {
    std::promise<absl::StatusOr<NamespaceInfo>> answer;
    namespaces->SetQuota(name, {slots, queued, priority}, [&](absl::StatusOr<NamespaceInfo> info) {
      answer.set_value(std::move(info));
    });
    return answer.get_future().get();
  };
  const auto info = set("vision", 0, 1);  // so that all of its jobs wait
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->slots, 0);
  EXPECT_EQ(info->queued, 1);
  EXPECT_EQ(FieldOf(set("Vision", 1, 1).status()), "namespace");
  EXPECT_EQ(FieldOf(set("vision", -1, 1).status()), "slots");
  JobSpec spec = CountingSpec(1);
  spec.queue.name_space = "vision";
  ASSERT_TRUE(Submitted("a", spec).ok());
  EXPECT_TRUE(Submitted("a", spec).ok()) << "it waits already";
  const absl::Status refused = Submitted("b", spec);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted) << refused;
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("namespace vision has 1 job waiting, and may have 1"));
  EXPECT_EQ(Submitted("a", CountingSpec(1)).code(), absl::StatusCode::kAlreadyExists);
  ASSERT_TRUE(set("vision", std::nullopt, std::nullopt).ok());
  EXPECT_TRUE(Submitted("b", spec).ok());
  // What submitters of it may give.
  const Caller ada{"ada", UserRole::kSubmitter, "vision"};
  spec.queue.priority = 5;
  EXPECT_EQ(Submitted("c", spec, ada).code(), absl::StatusCode::kPermissionDenied);
  ASSERT_EQ(set("vision", std::nullopt, std::nullopt, 5)->priority, 5);
  EXPECT_TRUE(Submitted("c", spec, ada).ok());
  const auto changed = [&](int32_t priority) {
    std::promise<absl::Status> answer;
    api_->SetQueue("c", {.priority = priority}, ada,
                   [&](absl::StatusOr<JobInfo> job) { answer.set_value(job.status()); });
    return answer.get_future().get();
  };
  EXPECT_EQ(changed(6).code(), absl::StatusCode::kPermissionDenied);
  EXPECT_TRUE(changed(4).ok());
  EXPECT_TRUE(changed(5).ok());
  ASSERT_TRUE(set("vision", std::nullopt, std::nullopt, 0).ok());
  EXPECT_EQ(Submitted("d", spec, ada).code(), absl::StatusCode::kPermissionDenied);
}

TEST_F(JobApiTest, ManyWhoAskForTheSameDigestAreOneQuery) {
  constexpr int kMany = 40;
  SubmitJob();
  TrainToTheEnd();
  HoldUpAnswers();
  for (int i = 0; i < kMany; ++i) AskDigest(i % 2 == 0 ? std::nullopt : std::optional<int64_t>(2));
  EXPECT_EQ(digests_.size(), 0u);
  go_on_.set_value();
  for (int i = 0; i < kMany; ++i) {
    const absl::StatusOr<JobDigest> digest = NextDigest();
    ASSERT_TRUE(digest.ok()) << digest.status();
    EXPECT_EQ(digest->digest, Job().ending.digest);
  }
}

TEST_F(JobApiTest, OtherDigestsAreOtherQueriesOfWhichSomeMayWait) {
  SubmitJob();
  HoldUpAnswers();
  for (int64_t step = 0; step < 17; ++step) AskDigest(step);
  const absl::Status refused = NextDigest().status();
  EXPECT_TRUE(absl::IsUnavailable(refused)) << refused;
  EXPECT_THAT(refused.message(), HasSubstr("query queue full (16); retry later"));
  go_on_.set_value();
  for (int step = 0; step < 16; ++step) EXPECT_TRUE(absl::IsNotFound(NextDigest().status()));
  AskDigest(17);
  EXPECT_TRUE(absl::IsNotFound(NextDigest().status())) << "there is room again";
}

// So nothing that is decided waits for whoever reads, however many they are, and a heartbeat counts
// as it came.
TEST_F(JobApiTest, AThousandReadersAreAnsweredWithoutTheThreadThatDecides) {
  using std::chrono::milliseconds;
  constexpr size_t kThreads = 8, kReaders = 1000;
  constexpr int kMostRequests = 256;  // that may wait for a decision
  SubmitJob(2);
  ScriptedMember speaks = Member("worker-0", 1);
  ScriptedMember silent = Member("worker-1", 2);
  for (ScriptedMember* member : {&speaks, &silent}) member->JoinJob("a");
  std::thread second([&] { silent.FollowIntoView(); });
  const View view = speaks.FollowIntoView();
  second.join();
  ASSERT_EQ(view.members.size(), 2u);
  clock_.Advance(milliseconds(1400));  // a lease is a little longer

  std::promise<void> enough;
  HoldUp(enough);
  const auto answers = std::make_shared<std::atomic<size_t>>(0);
  const auto count = [answers](bool as_it_should_be) { *answers += as_it_should_be ? 1 : 0; };
  const auto ask = [&](KeptEvents& events) {
    api_->Get("a", [count](const absl::StatusOr<JobInfo>& job) { count(job.ok()); });
    api_->Get("b", [count](const absl::StatusOr<JobInfo>& job) {
      count(absl::IsNotFound(job.status()));
    });
    api_->List({}, [count](const absl::StatusOr<JobPage>& page) {
      count(page.ok() && page->jobs.size() == 1);
    });
    api_->Watch(
        "a", std::nullopt, Anybody(),
        [count](const absl::StatusOr<bool>& found) { count(found.ok()); }, events.NewWatcher());
  };
  std::vector<KeptEvents> events(kReaders);
  std::vector<std::thread> threads;
  for (size_t first = 0; first < kThreads; ++first)
    threads.emplace_back([&, first] {
      for (size_t reader = first; reader < kReaders; reader += kThreads) ask(events[reader]);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(answers->load(), 4 * kReaders) << "before anything is decided";
  size_t told = 0;
  while (told < kReaders && !events[told].Next().event.empty()) ++told;
  EXPECT_EQ(told, kReaders) << "of the job's events";
  const auto refused = std::make_shared<std::atomic<int>>(0);
  for (int i = 0; i < kMostRequests; ++i)
    driver_->Change([](const KnownJobs&) { return std::nullopt; },
                    [refused](const auto& jobs) { *refused += jobs.ok() ? 0 : 1; });
  EXPECT_EQ(refused->load(), 0) << "no reader has taken the place of who wants a decision";

  speaks.Say(Alive{Step(0), ""});
  ScriptedMember other = Member("worker-2");  // heard after what was said has come
  other.SayBytes("garbage");
  EXPECT_FALSE(other.Broken().ok());
  clock_.Advance(milliseconds(600));
  enough.set_value();
  EXPECT_GT(speaks.Next<Seal>().view, view.number) << "it spoke within its lease";
  EXPECT_EQ(silent.Next<Leave>().reason, "evicted: silent for longer than its lease");
  for (KeptEvents& kept : events) kept.Close();
}

TEST_F(JobApiTest, QueriesThatWaitAreToldThatTheCoordinatorEnds) {
  SubmitJob();
  HoldUpAnswers();
  AskDigest();
  AskDigest();
  std::promise<absl::Status> audit;
  api_->Audit("a", [&](const absl::StatusOr<JobAudit>& a) { audit.set_value(a.status()); });
  Look();
  go_on_.set_value();
  driver_->Stop();
  // Those that were not begun; the others were answered.
  for (int i = 0; i < 2; ++i) {
    const absl::Status told = NextDigest().status();
    EXPECT_TRUE(absl::IsUnavailable(told) || absl::IsNotFound(told)) << told;
  }
  const absl::Status told = audit.get_future().get();
  EXPECT_TRUE(told.ok() || absl::IsUnavailable(told)) << told;
}

JobInfo Described(const KnownJob& known) {
  return Describe(std::make_shared<const KnownJob>(known), 0);
}

TEST(DescribeTest, ASpecificationIsNotCopied) {
  const auto known = std::make_shared<const KnownJob>();
  EXPECT_EQ(Describe(known, 0).spec.get(), &known->status.job.spec);
}

TEST(DescribeTest, StepsOfAJobThatWaitsAreKnown) {
  KnownJob known;
  TrainingSpec& training = known.status.job.spec.training;
  training.task = "counting";
  training.batch = 100;
  training.epochs = 3;
  EXPECT_EQ(Described(known).steps, 33) << "1009 samples";
  training.data.samples = 150;
  EXPECT_EQ(Described(known).steps, 6);
  training.task = "code-lm";
  EXPECT_EQ(Described(known).steps, 0) << "nobody has read the files";
  training.epochs = 0;
  training.steps = 7;
  EXPECT_EQ(Described(known).steps, 7);
  known.status.steps = 12;
  EXPECT_EQ(Described(known).steps, 12) << "the state machine knows better";
}

TEST(DescribeTest, WhatWasMeasuredLastIsToldByName) {
  KnownJob known;
  JobJournal& job = known.status.job;
  EXPECT_THAT(Described(known).validation, IsEmpty()) << "nobody has said what the task measures";
  job.lineages = {{LineageNumber(1), LineageNumber(0), Step(0), ""},
                  {LineageNumber(2), LineageNumber(1), Step(5), ""}};
  NumericEnvironment& environment = job.environment.emplace();
  environment.samples = 100;
  environment.tensors = {{"weight", {32}, TensorKind::kParameter}};
  EXPECT_THAT(Described(known).validation, IsEmpty()) << "it has no validation";
  const auto sums = SumTensors(job.spec.training.validation, {{"loss"}, {"accuracy"}});
  environment.tensors.insert(environment.tensors.end(), sums->begin(), sums->end());
  const std::vector<MetricValue> none = {{"loss", std::nullopt}, {"accuracy", std::nullopt}};
  const struct {
    std::optional<MeasuredEntry> last;
    std::vector<MetricValue> told;
    std::optional<int64_t> step;
  } cases[] = {
      {std::nullopt, none, std::nullopt},
      {MeasuredEntry{LineageNumber(2), Step(8), {{6, 3}, {1, 4}}},
       {{"loss", 2.0}, {"accuracy", 0.25}},
       8},
      {MeasuredEntry{LineageNumber(1), Step(5), {{6, 3}, {1, 0}}},
       {{"loss", 2.0}, {"accuracy", std::nullopt}},
       5},
      {MeasuredEntry{LineageNumber(1), Step(6), {{6, 3}, {1, 4}}}, none, std::nullopt},  // rewound
  };
  for (const auto& c : cases) {
    known.tail.measured = c.last;
    const JobInfo info = Described(known);
    EXPECT_EQ(info.validation, c.told);
    EXPECT_EQ(info.validation_step, c.step);
  }
  // State 5, which lineage 2 goes on from, a follower measured; a step 7 of lineage 1 never was.
  job.spec.training.validation = {.on = MeasuredOn::kFollower, .delay = 3};
  known.tail.measured = MeasuredEntry{LineageNumber(1), Step(7), {{6, 3}, {1, 4}}};
  EXPECT_EQ(Described(known).validation_step, 5);
  known.tail.measured->step = Step(8);
  EXPECT_EQ(Described(known).validation, none) << "rewound";
}

TEST(DescribeTest, TheTimeThatIsLeftFollowsFromThePaceOfLate) {
  KnownJob known;
  known.status.job.phase = JobPhase::kRunning;
  known.status.steps = 100;
  known.status.step = Step(40);
  EXPECT_FALSE(Described(known).seconds_left);
  for (int64_t step = 30; step < 40; ++step)
    known.tail.pace.Add(1'000'000 + step * 500, Step(step));
  EXPECT_DOUBLE_EQ(Described(known).seconds_left.value_or(-1), 30);
  known.tail.pace.Add(1'020'500, Step(35));
  EXPECT_FALSE(Described(known).seconds_left) << "back to a checkpoint";
  known.tail.pace.Add(1'022'500, Step(36));
  known.tail.pace.Add(1'022'500, Step(37));
  EXPECT_DOUBLE_EQ(Described(known).seconds_left.value_or(-1), 60) << "two at once";
  known.status.job.phase = JobPhase::kStopped;
  EXPECT_FALSE(Described(known).seconds_left);
}

TEST_F(JobApiTest, MoreEpochsReopenAJobThatIsDone) {
  SubmitJob();
  TrainToTheEnd();
  ASSERT_EQ(Job().phase, JobPhase::kDone);
  JobSpec longer = CountingSpec(1);
  longer.training.epochs = 0;
  const absl::Status none = Submitted("a", longer);
  EXPECT_EQ(FieldOf(none), "epochs");
  longer.training.epochs = 3;
  longer.training.lanes = 1;
  EXPECT_TRUE(absl::IsAlreadyExists(Submitted("a", longer))) << "that is another training";
  EXPECT_EQ(Job().phase, JobPhase::kDone);
  longer.training.lanes = CountingSpec(1).training.lanes;
  EXPECT_TRUE(Submitted("a", longer).ok());
  EXPECT_FALSE(Ended(Job().phase));
  EXPECT_EQ(Job().spec.training.epochs, 3);
}

TEST_F(JobApiTest, MoreFingerprintsThanOneAnswerHoldsComeInParts) {
  SubmitJob();
  TrainToTheEnd();
  Stop();
  const int64_t most = static_cast<int64_t>(kMostFingerprints);
  {
    const auto journal = Journal::Open(std::make_unique<SharedKv>(kv_, full_));
    ASSERT_TRUE(journal.ok()) << journal.status();
    std::vector<Persisted> changes;
    for (int64_t step = 1; step <= most + 5; ++step)
      changes.emplace_back(PersistFingerprint{"a", LineageNumber(1), Step(step), {1, 2, true}});
    ASSERT_TRUE((*journal)->Write(changes, 1).ok());
  }
  Start();
  const auto api = MakeJobApi(*driver_, *journal_, root_);
  const auto ask = [&](int64_t from) {
    std::promise<absl::StatusOr<JobFingerprints>> answer;
    api->Fingerprints("a", from,
                      [&](absl::StatusOr<JobFingerprints> f) { answer.set_value(std::move(f)); });
    return answer.get_future().get().value_or(JobFingerprints{});
  };
  const JobFingerprints first = ask(0);
  ASSERT_EQ(first.fingerprints.size(), kMostFingerprints);
  EXPECT_EQ(first.fingerprints.front().step, 1);
  ASSERT_EQ(first.next, most + 1);
  const JobFingerprints last = ask(*first.next);
  ASSERT_EQ(last.fingerprints.size(), 5u);
  EXPECT_EQ(last.fingerprints.back().step, most + 5);
  EXPECT_FALSE(last.next);
  EXPECT_TRUE(ask(most + 6).fingerprints.empty());
  Stop();
}

TEST_F(JobApiTest, JobsAreKeptUpToABoundAndADeletedOneMakesRoom) {
  const auto api = MakeJobApi(*driver_, *journal_, root_, {.jobs = 2});
  const auto submitted = [&](const std::string& id) {
    return SubmittedTo(*api, id, CountingSpec(1));
  };
  EXPECT_TRUE(submitted("a").ok());
  EXPECT_TRUE(submitted("b").ok());
  const absl::Status refused = submitted("c");
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted) << refused;
  EXPECT_THAT(refused.message(), HasSubstr("may keep 2; delete jobs that are over"));
  ASSERT_TRUE(Change(coordinator::Stop{"a"}).ok());
  EXPECT_EQ(submitted("c").code(), absl::StatusCode::kResourceExhausted) << "what ended counts";
  EXPECT_TRUE(submitted("a").ok()) << "it is kept already";
  ASSERT_TRUE(Change(coordinator::Cancel{"a"}).ok());
  ASSERT_TRUE(Change(coordinator::Delete{"a"}).ok());
  const Time limit = RealClock().Now() + kPatience;
  while (Look().size() > 1 && RealClock().Now() < limit) std::this_thread::yield();
  EXPECT_TRUE(submitted("c").ok());
}

TEST_F(JobApiTest, OneUserLeavesRoomForOthers) {
  const auto api = MakeJobApi(*driver_, *journal_, root_, {.jobs = 2 * kSharesOfUsers});
  const auto submitted = [&](const std::string& id, const Caller& caller, const std::string& in) {
    JobSpec spec = CountingSpec(1);
    spec.queue.name_space = in;
    std::promise<absl::Status> answer;
    api->Submit(id, spec, {}, caller,
                [&](const absl::StatusOr<SubmittedJob>& job) { answer.set_value(job.status()); });
    return answer.get_future().get();
  };
  const Caller ada{"ada", UserRole::kSubmitter, "*"};
  EXPECT_TRUE(submitted("a1", ada, "one").ok());
  EXPECT_TRUE(submitted("a2", ada, "two").ok());
  ASSERT_TRUE(Change(coordinator::Cancel{"a1"}).ok());
  const absl::Status refused = submitted("a3", ada, "three");
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted) << "one user fills the room";
  EXPECT_THAT(refused.message(), HasSubstr("user ada keeps 2 jobs and may keep 2; delete"));
  for (size_t i = 1; i < kSharesOfUsers; ++i)
    EXPECT_TRUE(
        submitted(absl::StrCat("b", i), {absl::StrCat("u", i), UserRole::kSubmitter, "*"}, "one")
            .ok());
  const Caller late{"late", UserRole::kOperator, "one"};
  EXPECT_THAT(submitted("c1", late, "one").message(),
              HasSubstr("namespace one keeps 8 jobs and may keep 8; delete"));
  EXPECT_TRUE(submitted("c2", {"other", UserRole::kSubmitter, "two"}, "two").ok());
  EXPECT_TRUE(submitted("c3", {"root", UserRole::kAdmin, "*"}, "one").ok());
}

TEST_F(JobApiTest, SpecificationsAreKeptUpToABoundInSum) {
  JobSpec large = CountingSpec(1);
  large.training.data.paths = {absl::StrCat("/", std::string(10'000, 'x'))};
  const auto api = MakeJobApi(*driver_, *journal_, root_, {.spec_bytes = 2 * BytesOf(large)});
  EXPECT_TRUE(SubmittedTo(*api, "a", large).ok());
  EXPECT_TRUE(SubmittedTo(*api, "b", large).ok());
  const absl::Status refused = SubmittedTo(*api, "c", large);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted) << refused;
  EXPECT_THAT(refused.message(), HasSubstr("`muster delete JOB`"));
}

// Labels of a job may be many times what its specification took when it was submitted.
TEST_F(JobApiTest, LabelsThatComeLaterCountToo) {
  const JobSpec spec = CountingSpec(1);
  const auto api =
      MakeJobApi(*driver_, *journal_, root_, {.spec_bytes = BytesOf(spec) + size_t{500}});
  ASSERT_TRUE(SubmittedTo(*api, "a", spec).ok());
  const auto labelled = [&](const std::string& key) {
    std::promise<absl::Status> answer;
    api->SetQueue("a", {.labels = {{key, std::string(60, 'x')}}}, Anybody(),
                  [&](const absl::StatusOr<JobInfo>& job) { answer.set_value(job.status()); });
    return answer.get_future().get();
  };
  EXPECT_TRUE(labelled("one").ok());
  EXPECT_TRUE(labelled("two").ok());
  EXPECT_EQ(labelled("three").code(), absl::StatusCode::kResourceExhausted) << "labels go around";
}

// The store of an earlier coordinator may hold more.
TEST_F(JobApiTest, MoreJobsThanMayBeKeptAreServedAfterARestart) {
  EXPECT_TRUE(Submitted("a", CountingSpec(1)).ok());
  EXPECT_TRUE(Submitted("b", CountingSpec(1)).ok());
  Stop();
  Start();
  const auto api = MakeJobApi(*driver_, *journal_, root_, {.jobs = 1});
  EXPECT_EQ(Look().size(), 2u);
  EXPECT_TRUE(SubmittedTo(*api, "b", CountingSpec(1)).ok());
  EXPECT_EQ(SubmittedTo(*api, "c", CountingSpec(1)).code(), absl::StatusCode::kResourceExhausted);
  Stop();
}

}  // namespace
}  // namespace muster::coordinator
