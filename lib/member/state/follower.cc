#include "lib/member/state/follower.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace muster {

std::vector<FollowerAction> Follower::Handle(const FollowerInput& input) {
  Actions out;
  std::visit([&](const auto& x) { On(x, out); }, input);
  return out;
}

std::string Follower::Phase() const {
  if (running_) return absl::StrCat("measuring the state of step ", step_.value());
  if (answer_) return absl::StrCat("telling its measure of step ", step_.value());
  return "waiting for a checkpoint to measure";
}

// In each session anew: what was said in the one before may be lost.
void Follower::On(const CoordinatorUp&, Actions& out) {
  out.push_back(TellCoordinator{IntroductionOf(config_, obeyed_)});
  if (answer_) out.push_back(TellCoordinator{*answer_});
}

void Follower::On(const CoordinatorSays& says, Actions& out) {
  if (!obeyed_.WhyNot(says.message).empty()) return;
  std::visit([&](const auto& message) { On(message, out); }, says.message);
}

void Follower::On(const JobIs& job, Actions&) {
  if (obeyed_.cluster.empty()) obeyed_.cluster = job.cluster;
}

void Follower::On(const MeasureState& measure, Actions& out) {
  const Asked asked{measure.lineage, measure.step};
  if (answer_ && asked == Asked{answer_->lineage, answer_->step})
    return out.push_back(TellCoordinator{*answer_});
  if (running_ && running_->what == asked) return;
  answer_.reset();
  running_ = Running{++last_id_, asked};
  step_ = asked.step;
  out.push_back(StartMeasure{last_id_, measure.manifest});
}

void Follower::On(const AckMeasured& ack, Actions& out) {
  const Asked acknowledged{ack.lineage, ack.step};
  if (answer_ && acknowledged == Asked{answer_->lineage, answer_->step}) answer_.reset();
  if (!running_ || running_->what != acknowledged) return;
  running_.reset();  // another follower, or this one in an earlier life, has told it
  out.push_back(GiveUpMeasure{++last_id_});
}

void Follower::On(const Leave& leave, Actions& out) {
  out.push_back(Quit{leave.exit_code, leave.reason});
}

// Where it failed, the coordinator asks once more if it still needs it.
void Follower::On(const MeasureEnded& ended, Actions& out) {
  if (!running_ || running_->id != ended.id) return;
  const Asked what = running_->what;
  running_.reset();
  if (!ended.sums.ok()) {
    out.push_back(TellCoordinator{MeasureFailed{what.lineage, what.step,
                                                std::string(ended.sums.status().message()),
                                                absl::IsDataLoss(ended.sums.status())}});
    return;
  }
  answer_ = Measured{what.lineage, what.step, *ended.sums};
  out.push_back(TellCoordinator{*answer_});
}

}  // namespace muster
