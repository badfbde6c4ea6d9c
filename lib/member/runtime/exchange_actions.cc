// What the state machine's actions do (exchange.h).
#include <utility>

#include "lib/base/check.h"
#include "lib/log/log.h"
#include "lib/member/runtime/exchange.h"
#include "lib/member/runtime/load_state.h"
#include "lib/member/runtime/step_boundary.h"

namespace muster {
namespace {

constexpr size_t kSampleBytes =
    200;  // made well within the time that an agent gives a process to leave

}  // namespace

Exchange::Answer Exchange::Do(const Connect& action, const Incoming*) {
  for (const MemberId& peer : sessions_.Hold(action.peers, clock_.Now())) {
    early_->Forget(peer);
    Carry(member_->Handle(PeerDown{peer}).actions, nullptr);
  }
  return std::nullopt;
}

Exchange::Answer Exchange::Do(const TellCoordinator& action, const Incoming*) {
  if (std::holds_alternative<Sealed>(action.message)) parts_.failpoints->Pass("sealed_unanswered");
  if (const auto* failed = std::get_if<SegmentFailed>(&action.message)) {
    LogWarning("no part of the checkpoint of step %d: %s", failed->step.value(), failed->reason);
    (failed->disk_is_slow ? metrics_.parts_skipped : metrics_.parts_not_written).Add();
  }
  coordinator_.Send(action.message);
  if (std::holds_alternative<HoldsBase>(action.message))
    parts_.failpoints->Pass("base_acknowledged");
  return std::nullopt;
}

Exchange::Answer Exchange::Do(Send action, const Incoming*) {
  const bool donates = std::holds_alternative<Pieces>(action.message);
  for (Frame& frame : data_->FramesOf(action.message)) sessions_.Send(action.to, std::move(frame));
  if (donates) parts_.failpoints->Pass("donor");
  if (const auto* partials = std::get_if<Partials>(&action.message)) PassHalfSent(*partials);
  return std::nullopt;
}

// At the send that brings the step's chunks to at least a half of those we send.
void Exchange::PassHalfSent(const Partials& partials) {
  if (!parts_.failpoints->armed()) return;
  if (std::exchange(sending_step_, partials.step) != partials.step) chunks_sent_ = 0;
  const size_t all = static_cast<size_t>(setup_->layout.chunk_count()) - OwnChunks().size();
  const size_t before = std::exchange(chunks_sent_, chunks_sent_ + partials.chunks.size());
  if (2 * before < all && 2 * chunks_sent_ >= all) parts_.failpoints->Pass("half_sent");
}

void Exchange::PassHalfReceived(const StoreResults& store) {
  if (!parts_.failpoints->armed()) return;
  if (std::exchange(receive_buffer_step_, store.step) != store.step) chunks_stored_ = 0;
  const size_t all = static_cast<size_t>(setup_->layout.chunk_count()) - OwnChunks().size();
  const size_t before = std::exchange(chunks_stored_, chunks_stored_ + store.chunks.size());
  if (2 * before < all && 2 * chunks_stored_ >= all) parts_.failpoints->Pass("half_received");
}

Exchange::Answer Exchange::Do(const Compute& action, const Incoming*) {
  MUSTER_CHECK(parts_.train != nullptr, "a server computes no lanes");
  compute_id_ = action.id;
  data_->ForgetOwnPhases();
  DoCompute compute{action, member_->lineage(), data_->memory().Values(action.step), nullptr};
  if (!action.totals.empty()) compute.totals = data_->memory().Results(action.step);
  parts_.train->box.Post(std::move(compute));
  return std::nullopt;
}

Exchange::Answer Exchange::Do(const GiveTotals& action, const Incoming*) {
  parts_.train->box.Post(DoGiveTotals{action, data_->memory().Results(action.step)});
  return std::nullopt;
}

Exchange::Answer Exchange::Do(const Abandon& action, const Incoming*) {
  compute_id_ = action.id;
  data_->ForgetOwnSums();
  if (parts_.train == nullptr) return Abandoned{action.id};
  parts_.train->abandoned = action.id;
  parts_.train->box.Post(DoAbandon{action.id});
  return std::nullopt;
}

Exchange::Answer Exchange::Do(const FoldIn& action, const Incoming* incoming) {
  const std::optional<Summed> summed = data_->Fold(action, incoming);
  if (!summed) return std::nullopt;
  parts_.failpoints->Pass("summed_unreplied");
  return *summed;
}

Exchange::Answer Exchange::Do(const WriteFact& action, const Incoming*) {
  return data_->Write(action);
}

Exchange::Answer Exchange::Do(const KeepParts& action, const Incoming*) {
  writer_->KeepOnly(action.lineage);
  return std::nullopt;
}

Exchange::Answer Exchange::Do(const ForgetSums&, const Incoming*) {
  data_->ForgetSums();
  return std::nullopt;
}

Exchange::Answer Exchange::Do(const StoreResults& action, const Incoming* incoming) {
  data_->StoreResultsOf(action, *incoming);
  if (member_->active()) {
    PassHalfReceived(action);
  } else {
    parts_.failpoints->Pass("receiver");
  }
  return std::nullopt;
}

Exchange::Answer Exchange::Do(const StorePieces& action, const Incoming* incoming) {
  data_->StoreState(action, *incoming);
  parts_.failpoints->Pass("receiver");
  return std::nullopt;
}

Exchange::Answer Exchange::Do(const ApplyChunks& action, const Incoming*) {
  return data_->ApplySums(action, [this] { GoOn(); });
}

Exchange::Answer Exchange::Do(const Apply& action, const Incoming*) {
  parts_.failpoints->Pass("before_apply");
  DoApply apply{action, nullptr, {}, false, nullptr};
  if (action.skip) apply.values = data_->memory().Values(action.step);
  if (setup_->spec.training.sync == Sync::kAllreduce) {
    apply.results = data_->memory().Results(action.step);
    apply.state = data_->memory().State(action.step);
    apply.lent = data_->memory().ClearLent();
  }
  parts_.train->box.Post(std::move(apply));
  return std::nullopt;
}

Exchange::Answer Exchange::Do(const StepBoundary& action, const Incoming*) {
  StateMemory state = data_->memory().State(action.step);
  if (parts_.train != nullptr) {
    parts_.train->box.Post(DoStepBoundary{action, member_->lineage(), std::move(state)});
    return std::nullopt;
  }
  StepBoundaryDone done{action.step, std::nullopt};
  if (action.fingerprint)
    done.fingerprint =
        FingerprintOfState(*setup_, state, OwnChunks(), /*whole=*/false, [this] { GoOn(); });
  if (!action.part.empty()) {
    CheckpointPartCopy part = CopyCheckpointPart(*setup_, state, member_->lineage(), action.step,
                                                 action.part, *parts_.copied, [this] { GoOn(); });
    metrics_.checkpoint_stall.Observe(part.stall_seconds);
    writer_->Write(std::move(part));
    parts_.failpoints->Pass("part_copied");
  }
  return done;
}

Exchange::Answer Exchange::Do(const Make& action, const Incoming*) {
  if (parts_.train != nullptr) {
    parts_.train->box.Post(DoMake{action});
    return std::nullopt;
  }
  absl::StatusOr<StateMemory> state = LoadState(*setup_, action, [this] { GoOn(); });
  if (!state.ok()) return Made{state.status()};
  data_->memory().Restart(action.step, *std::move(state));
  return Made{};
}

Exchange::Answer Exchange::Do(const MeasureHeld& action, const Incoming*) {
  LogInfo("measures the last state, that of step %d", action.step.value());
  DoMeasure held;
  held.measure.id = action.id;
  held.values = data_->memory().Values(action.step);
  parts_.train->box.Post(std::move(held));
  return std::nullopt;
}

Exchange::Answer Exchange::Do(const GiveUpMeasure& action, const Incoming*) {
  parts_.train->abandoned = action.below;
  return std::nullopt;
}

Exchange::Answer Exchange::Do(const PrepareCopy& action, const Incoming*) {
  const bool applies =
      setup_->spec.training.sync == Sync::kAllreduce || options_.place.role == Role::kServer;
  data_->memory().Restart(action.step, EmptyState(*setup_, applies));
  return std::nullopt;
}

Exchange::Answer Exchange::Do(const DropState&, const Incoming*) {
  data_->memory().Restart(Step(), {});
  return std::nullopt;
}

Exchange::Answer Exchange::Do(const Completed& action, const Incoming*) {
  const Time now = clock_.Now();
  const Time since = std::exchange(last_completed_, now);
  const double seconds = since == Time() ? 0 : Seconds(now - since);
  steps_->steps.Add();
  steps_->step_seconds.Observe(seconds);
  if (action.record.weight > 0)
    steps_->loss.Set(action.record.loss / static_cast<double>(action.record.weight));
  parts_.reporter->Step(action.record, OurRank(), seconds);
  return std::nullopt;
}

// After the last step one worker shows what was learned, where the task can. Where no checkpoint is
// waited for, the job may have ended while this worker still applies that step.
Exchange::Answer Exchange::Do(const Quit& action, const Incoming*) {
  const bool at_end = member_->halted() || member_->applies_last_step();
  const bool shows = action.exit_code == 0 && parts_.train != nullptr && member_->has_state() &&
                     at_end && OurRank() == Rank(0);
  if (!shows) {
    quit_ = action;
  } else if (!leaving_) {
    leaving_ = action;
  }
  return std::nullopt;
}

void Exchange::ShowWhatWasLearned() {
  if (!leaving_ || !member_->halted() || std::exchange(shows_, true)) return;
  parts_.train->box.Post(DoGenerate{data_->memory().Values(member_->step()), "", kSampleBytes});
}

}  // namespace muster
