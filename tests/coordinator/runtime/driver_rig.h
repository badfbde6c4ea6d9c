// A real driver and journal under test, with scripted members on a network in memory.
#pragma once

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <future>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/runtime/checkpoints.h"
#include "coordinator/runtime/driver.h"
#include "gtest/gtest.h"
#include "lib/base/mailbox.h"
#include "lib/storage/kv.h"
#include "lib/transport/loop/loop_network.h"
#include "tests/coordinator/runtime/scripted_member.h"
#include "tests/support/hand_clock.h"

namespace muster::coordinator {

inline constexpr char kAddress[] = "coordinator:1";

// A store that others keep when the journal is gone, on a disk that may be full, or broken.
class SharedKv final : public Kv {
 public:
  using Flag = std::shared_ptr<std::atomic<bool>>;
  SharedKv(std::shared_ptr<Kv> kv, Flag full, Flag broken = nullptr)
      : kv_(std::move(kv)), full_(std::move(full)), broken_(std::move(broken)) {}
  absl::StatusOr<std::string> Get(absl::string_view family, absl::string_view key) const override {
    return kv_->Get(family, key);
  }
  absl::Status Write(const Batch& batch) override {
    if (broken_ != nullptr && *broken_) return absl::UnavailableError("Input/output error");
    if (*full_) return absl::ResourceExhaustedError("No space left on device");
    return kv_->Write(batch);
  }
  absl::Status Scan(absl::string_view family, absl::string_view first, absl::string_view last,
                    const Visit& visit) const override {
    return kv_->Scan(family, first, last, visit);
  }

 private:
  const std::shared_ptr<Kv> kv_;
  const Flag full_;
  const Flag broken_;
};

// Of all jobs, one after another.
inline std::vector<ProcessWanted> ProcessesIn(const Wanted& wanted) {
  std::vector<ProcessWanted> all;
  for (const JobProcesses& job : wanted.jobs)
    all.insert(all.end(), job.processes.begin(), job.processes.end());
  return all;
}

// A coordinator without listeners of the network, on a store in memory, with a clock that the test
// moves.
class DriverRig : public ::testing::Test {
 protected:
  DriverRig()
      : root_(::testing::TempDir() + "driver-" + std::to_string(getpid()) + "-" +
              ::testing::UnitTest::GetInstance()->current_test_info()->name()) {
    std::filesystem::remove_all(root_);
    Start();
  }
  ~DriverRig() override {
    Stop();
    std::filesystem::remove_all(root_);
  }

  void Start() {
    auto journal = Journal::Open(std::make_unique<SharedKv>(kv_, full_, broken_));
    ASSERT_TRUE(journal.ok()) << journal.status();
    journal_ = *std::move(journal);
    std::vector<std::string> damaged;
    auto found = journal_->Load(damaged);
    ASSERT_TRUE(found.ok()) << found.status();
    DriverOptions options{.checkpoint_root = root_, .tick = std::chrono::milliseconds(5)};
    options.logs = logs_;
    options.sign = sign_;
    options.trust = trust_;
    options.settings.slots = 8;
    options.most_waiting_of_job.items = 500;  // fewer than of one session
    options.on_broken = [this](const absl::Status& why) { told_broken_.Post(why); };
    options.check_claim = [this] {
      if (hold_claims_) hold_claims_->wait();
      return *replaced_ ? absl::AbortedError("term 2 has claimed it since") : absl::OkStatus();
    };
    options.look_at_claim = std::chrono::milliseconds(5);
    options.disks = {{"checkpoints", root_}};
    std::set<std::string> ids;
    for (const JobJournal& job : found->jobs) ids.insert(job.id);
    ASSERT_TRUE(DropUnknownJobs(Catalogue(journal_->kv(), journal_->cluster()), ids, root_).ok());
    options.pass = [this](absl::string_view point) {
      if (point == "persisted_unpublished") ++writes_;
      if (point == "forming") ++formings_;
      if (point == "before_commit" && ++commits_ == 1 && hold_first_commit_)
        hold_first_commit_->wait();
    };
    driver_ = std::make_unique<Driver>(*journal_, *std::move(found), clock_, metrics_,
                                       std::move(options));
    auto listener = here_->Listen(kAddress, driver_->MakeAcceptor());
    ASSERT_TRUE(listener.ok()) << listener.status();
    listener_ = *std::move(listener);
  }
  void Stop() {
    listener_.reset();
    driver_.reset();
    journal_.reset();
  }

  absl::StatusOr<KnownJobs> Change(Input input) {
    std::promise<absl::StatusOr<KnownJobs>> answer;
    driver_->Change([&](const KnownJobs&) { return input; },
                    [&](absl::StatusOr<KnownJobs> jobs) { answer.set_value(std::move(jobs)); });
    return answer.get_future().get();
  }
  // All that was said before has been decided.
  KnownJobs Look() {
    std::promise<absl::StatusOr<KnownJobs>> answer;
    driver_->Change([](const KnownJobs&) { return std::nullopt; },
                    [&](absl::StatusOr<KnownJobs> jobs) { answer.set_value(std::move(jobs)); });
    absl::StatusOr<KnownJobs> jobs = answer.get_future().get();
    EXPECT_TRUE(jobs.ok()) << jobs.status();
    return jobs.value_or(KnownJobs{});
  }
  // What readers see.
  KnownJobs Published() { return **driver_->Known(); }
  absl::Status Ask(Background::Call call) { return driver_->Ask(std::move(call)); }
  // Holds up the driver's thread until `enough`; it is held when this returns.
  void HoldUp(std::promise<void>& enough) {
    const auto busy = std::make_shared<std::promise<void>>();
    driver_->Change(
        [busy, until = enough.get_future().share()](
            const KnownJobs&) -> absl::StatusOr<std::optional<Input>> {
          busy->set_value();
          until.wait();
          return std::nullopt;
        },
        [](const absl::StatusOr<KnownJobs>&) {});
    busy->get_future().wait();
  }
  JobJournal Job() { return Look().at(0)->status.job; }
  void SubmitJob(int32_t workers = 1) {
    ASSERT_TRUE(Change(Submit{"a", CountingSpec(workers)}).ok());
  }
  ScriptedMember Member(const std::string& name, uint64_t incarnation = 1,
                        Role role = Role::kWorker) {
    return ScriptedMember(*there_, kAddress, {name, {incarnation, incarnation}}, role);
  }

  // One worker does the job's two steps and leaves the checkpoint of its end.
  void TrainToTheEnd() {
    ScriptedMember member = Member("worker-0");
    member.JoinJob("a");
    const View view = member.FollowIntoView();
    member.Say(Records{{member.RecordOf(view, Step(0)), member.RecordOf(view, Step(1))}});
    member.SaveState(CheckpointDir(root_, "a"), view, Step(2), 1.0f);
    EXPECT_EQ(member.Next<AckSegments>().ids, std::vector<int64_t>{1});
    EXPECT_EQ(member.Next<Leave>().exit_code, 0);
  }

  const std::string root_;
  const std::shared_ptr<Kv> kv_{OpenMemory(JournalFamilies())};
  const std::shared_ptr<std::atomic<bool>> full_ = std::make_shared<std::atomic<bool>>(false);
  const std::shared_ptr<std::atomic<bool>> broken_ = std::make_shared<std::atomic<bool>>(false);
  LogStore* logs_ = nullptr;            // of the next Start
  Signer sign_;                         // likewise; null: nobody signs
  std::function<std::string()> trust_;  // likewise
  const std::shared_ptr<std::atomic<bool>> replaced_ = std::make_shared<std::atomic<bool>>(false);
  Mailbox<absl::Status> told_broken_;
  std::atomic<int> writes_{0};
  std::atomic<int> formings_{0};
  std::atomic<int> commits_{0};
  std::optional<std::shared_future<void>> hold_first_commit_;
  // A folder of checkpoints that hangs; of the next Start.
  std::optional<std::shared_future<void>> hold_claims_;
  HandClock clock_;
  Metrics metrics_{{.role = "coordinator"}, "test"};
  LoopNetwork network_;
  std::unique_ptr<Transport> here_ = network_.MakeTransport("coordinator");
  std::unique_ptr<Transport> there_ = network_.MakeTransport("members");
  std::unique_ptr<Journal> journal_;
  std::unique_ptr<Driver> driver_;
  std::unique_ptr<Listener> listener_;
};

}  // namespace muster::coordinator
