#include "lib/member/runtime/follower_exchange.h"

#include <limits>
#include <utility>

#include "lib/log/log.h"

namespace muster {

FollowerExchange::FollowerExchange(ExchangeOptions options, const ExchangeParts& parts)
    : LoneExchange(std::move(options), parts, parts.train->progress), followed_(*parts.metrics) {}

FollowerExchange::~FollowerExchange() = default;

void FollowerExchange::End(const Quit&) {
  parts().train->abandoned = std::numeric_limits<int64_t>::max();
  parts().train->box.Close();
}

void FollowerExchange::NoteWhatWeDo() { Note(follower_->step(), follower_->Phase()); }

// A numeric environment is first found by a worker. Until one has joined, the coordinator tells
// none, and tells the job again once it can.
void FollowerExchange::Learn(const JobIs& job) {
  if (!job.environment || std::exchange(preparing_, true)) return;
  LogInfo("reads its data and makes its model; then it joins");
  parts().reporter->Prepares();
  parts().train->box.Post(DoPrepare{job});
}

// ---- events

void FollowerExchange::HandleOwn(Event event) {
  std::visit([this](auto& e) { Handle(std::move(e)); }, event);
}

void FollowerExchange::Handle(Prepared event) {
  if (!event.setup.ok()) return Handle(TrainFailed{event.setup.status()});
  follower_ = std::make_unique<Follower>(ConfigOf(**event.setup, options().place));
  BecomeMember();
}

void FollowerExchange::Handle(StateMeasured event) {
  if (event.ended.sums.ok()) {
    followed_.measures.Add();
    followed_.measure_seconds.Observe(event.seconds);
    parts().failpoints->Pass("measured_untold");
  } else if (!absl::IsCancelled(event.ended.sums.status())) {
    LogWarning("%s", event.ended.sums.status().message());
  }
  Carry(std::move(event.ended));
}

void FollowerExchange::Handle(TrainFailed event) { EndWith(EndAfter(event)); }

// ---- the state machine

void FollowerExchange::Carry(const FollowerInput& input) {
  for (const FollowerAction& action : follower_->Handle(input))
    std::visit([this](const auto& a) { Do(a); }, action);
  NoteWhatWeDo();
}

void FollowerExchange::Do(const TellCoordinator& action) {
  Tell(action.message);
  if (std::holds_alternative<Measured>(action.message)) parts().failpoints->Pass("measured_told");
}

void FollowerExchange::Do(const StartMeasure& action) {
  parts().train->abandoned = action.id;
  parts().train->box.Post(DoMeasure{action});
}

void FollowerExchange::Do(const GiveUpMeasure& action) { parts().train->abandoned = action.below; }

void FollowerExchange::Do(const Quit& action) { EndWith(action); }

}  // namespace muster
