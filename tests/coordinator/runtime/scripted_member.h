// A member as a test speaks for it: real sessions, hand-written answers.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "lib/base/mailbox.h"
#include "lib/checkpoint/segment.h"
#include "lib/domain/layout.h"
#include "lib/domain/message.h"
#include "lib/domain/samples.h"
#include "lib/transport/transport.h"
#include "lib/wire/message_codec.h"

namespace muster::coordinator {

inline constexpr uint64_t kSamples = 10;
inline constexpr Duration kPatience = std::chrono::seconds(20);  // only a broken test waits so long

// Two steps over ten samples, one chunk of values.
inline JobSpec CountingSpec(int32_t workers = 1) {
  JobSpec spec;
  spec.training.task = "counting";
  spec.training.data.samples = kSamples;
  spec.training.lanes = 2;
  spec.training.batch = 5;
  spec.training.epochs = 1;
  spec.training.reduction = Reduction::kSum;
  spec.training.optimizer.learning_rate = 1;
  spec.runtime.name = "count";
  spec.runtime.workers_max = workers;
  return spec;
}

inline NumericEnvironment CountingEnvironment() {
  return {kSamples,
          "made",
          {{"weights", {static_cast<int64_t>(kSamples)}, TensorKind::kParameter}},
          {{"isa", "any"}}};
}

// A connected end that keeps what it hears. One thread, except for the transport's.
template <class Out, class In>
class ScriptedPeer {
 public:
  using Decoder = absl::StatusOr<In> (*)(std::string_view);
  ScriptedPeer(Transport& transport, const std::string& address, Decoder decode)
      : heard_(std::make_shared<Mailbox<In>>()),
        broken_(std::make_shared<Mailbox<absl::Status>>()) {
    session_ = transport.Connect(
        address, std::chrono::seconds(10),
        {.on_frame =
             [heard = heard_, decode](const Frame& frame) {
               auto message = decode(frame.header);
               if (message.ok()) heard->Post(*std::move(message));
             },
         .on_broken = [broken = broken_](absl::Status why) { broken->Post(std::move(why)); }});
  }
  void Say(const Out& message) { session_->Send({Encode(message), {}}); }
  void SayBytes(std::string header) { session_->Send({std::move(header), {}}); }
  void SayBytes(std::shared_ptr<const std::string> header) {
    session_->Send(FrameOfMany(std::move(header)));
  }

  // The next message of that kind; those before it are passed over.
  template <class T>
  T Next() {
    while (auto message = heard_->TakeUntil(std::chrono::steady_clock::now() + kPatience))
      if (T* wanted = std::get_if<T>(&*message)) return std::move(*wanted);
    ADD_FAILURE() << "the coordinator did not say what was waited for";
    return {};
  }
  absl::Status Broken() {
    const auto why = broken_->TakeUntil(std::chrono::steady_clock::now() + kPatience);
    return why ? *why : absl::OkStatus();
  }
  // Whether something is said before the session breaks.
  bool HeardBeforeBroken() const {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (heard_->size() == 0 && broken_->size() == 0 && std::chrono::steady_clock::now() < end)
      std::this_thread::yield();
    return heard_->size() > 0;
  }
  bool Heard() const { return heard_->size() > 0; }
  void Hang() { session_.reset(); }
  size_t QueuedBytes() const { return session_->QueuedBytes(); }

 private:
  std::shared_ptr<Mailbox<In>> heard_;
  std::shared_ptr<Mailbox<absl::Status>> broken_;
  std::shared_ptr<Session> session_;
};

inline constexpr StartNumber kFirstStart((int64_t{1} << 32) + 1);

using ScriptedAgent = ScriptedPeer<FromAgent, ToAgent>;

class ScriptedMember : public ScriptedPeer<ToCoordinator, FromCoordinator> {
 public:
  ScriptedMember(Transport& transport, const std::string& address, MemberId id,
                 Role role = Role::kWorker)
      : ScriptedPeer(transport, address, DecodeFromCoordinator), id_(std::move(id)), role_(role) {}

  // Of the first job that was started in a cluster's first term, unless `start` says another.
  Join JoinOf(const std::string& job, StartNumber start = kFirstStart) const {
    Join join{.job = job,
              .start = start,
              .id = id_,
              .role = role_,
              .node = "here",
              .address = id_.name + ":1"};
    join.environment = CountingEnvironment();
    return join;
  }
  void JoinJob(const std::string& job, StartNumber start = kFirstStart) { Say(JoinOf(job, start)); }

  // Has nothing and follows the coordinator into its next view.
  View FollowIntoView() {
    const Seal seal = Next<Seal>();
    Say(Sealed{seal.view, {}});
    const Heal heal = Next<Heal>();
    EXPECT_EQ(heal.view, seal.view);
    Say(HoldsBase{heal.view, 0});
    return Next<Activate>().view;
  }

  StepRecord RecordOf(const View& view, Step step) const {
    StepRecord record{.lineage = view.lineage, .step = step, .view = view.number};
    record.lane_holders = view.LaneHoldersAt(step);
    record.samples = StepSamples(CountingSpec().training, kSamples, step);
    record.weight = static_cast<int64_t>(record.samples.count);
    record.loss = static_cast<double>(record.weight) * 0.5;
    record.fingerprint = FingerprintPart{7, static_cast<uint64_t>(step.value() + 1), true};
    return record;
  }

  // Writes all of state(step), every weight the same, and says so.
  void SaveState(const std::string& dir, const View& view, Step step, float weight) {
    const std::unique_ptr<CheckpointFiles> files = CheckpointFilesIn(dir);
    // As the coordinator does, a little later perhaps.
    ASSERT_TRUE(files->MakeFolder().ok());
    const auto layout =
        Layout::Make(CountingEnvironment().tensors, CountingSpec().training.chunk_bytes);
    ASSERT_TRUE(layout.ok());
    const std::vector<float> values(static_cast<size_t>(layout->elements()), weight);
    const PartView part{kValuesSlot, ChunkId(0), values};
    const auto segment = WriteSegment(*files, SegmentFile(view.lineage, step, id_.name),
                                      {view.job, view.lineage, step}, {&part, 1});
    ASSERT_TRUE(segment.ok()) << segment.status();
    Say(SegmentWritten{1, view.lineage, step, *segment, 0.1});
  }

  const MemberId& id() const { return id_; }

 private:
  const MemberId id_;
  const Role role_;
};

}  // namespace muster::coordinator
