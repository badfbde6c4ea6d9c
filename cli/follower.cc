#include "cli/follower.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cli/json_text.h"
#include "lib/base/time.h"

namespace muster::cli {
namespace {

constexpr Duration kPause = std::chrono::milliseconds(100);
// More wrong tokens than a few a minute are not even looked at.
constexpr Duration kPauseOfStrangers = std::chrono::seconds(1);

// The token is not known any more, or too many were wrong.
bool IsNotLetIn(const absl::Status& why) {
  return absl::IsUnauthenticated(why) || absl::IsPermissionDenied(why) ||
         absl::IsResourceExhausted(why);
}

// How often we ask a coordinator that is away: the job is over by then, and its result is known.
constexpr int kFingerprintTries = 100;

// All of them, page by page. `pause` waits for a moment; it returns false when we are to give up.
absl::StatusOr<std::vector<StepFingerprint>> AllFingerprints(const RestClient& rest,
                                                             const std::string& id,
                                                             const std::function<bool()>& pause) {
  std::vector<StepFingerprint> all;
  int64_t from = 0;
  for (int failures = 0;;) {
    absl::StatusOr<FingerprintPage> page = rest.Fingerprints(id, from);
    if (page.ok()) {
      std::move(page->fingerprints.begin(), page->fingerprints.end(), std::back_inserter(all));
      if (page->next <= from) return all;
      from = page->next;
      failures = 0;
    } else if (!IsPassing(page.status()) || ++failures == kFingerprintTries || !pause()) {
      return page.status();
    }
  }
}

EventAnswer Note(const std::string& text) {
  return {.name = "state", .text = text, .json = Text(nlohmann::ordered_json({{"text", text}}))};
}

EventAnswer NoFingerprints(const absl::Status& why) {
  return Note(absl::StrCat("warning: the fingerprints cannot be read: ", why.message()));
}

EventAnswer StoppedFirst(const absl::Status& refused) {
  return Note(absl::StrCat(refused.message(), ": that is done now, as it was cut off with those"));
}

// Nobody decided to begin anew, whatever the file says of the beginning.
std::string FromWhereItIs(const std::string& spec_json) {
  auto spec = nlohmann::ordered_json::parse(spec_json, nullptr, /*allow_exceptions=*/false);
  if (!spec.is_object()) return spec_json;
  spec["resume"] = "latest";
  return Text(spec);
}

}  // namespace

Follower::Follower(RestClient rest, std::string id, std::string spec_json,
                   std::vector<std::string> accept, Poster post, FollowerEvents events)
    : rest_(std::move(rest)),
      id_(std::move(id)),
      spec_json_(std::move(spec_json)),
      accept_(std::move(accept)),
      post_(std::move(post)),
      events_(std::move(events)),
      following_([this] { Follow(); }),
      carrying_([this] { CarryWishes(); }) {}

Follower::~Follower() {
  stop_.Stop();
  SetWish(Wish::kEnd);
  following_.join();
  carrying_.join();
}

void Follower::Follow() {
  JobAnswer job;
  if (!Submit(job)) return;
  {
    MutexLock lock(mutex_);
    accepted_ = true;
  }
  changed_.NotifyAll();
  post_([this, job] { events_.on_job(job); });
  std::string last_id;
  do {
    const absl::Status followed = rest_.Follow(id_, last_id, [&](const EventAnswer& event) {
      last_id = event.id;
      return OnEvent(event);
    });
    // A stream that ended in order ended with the job.
    if (!followed.ok() && PauseAfter(followed)) return;
  } while (!FinishIfOver());
}

// False after the last one. A job may be over before: what happened until then is still to come.
bool Follower::OnEvent(const EventAnswer& event) {
  post_([this, event] { events_.on_event(event); });
  if (event.name == "state" || event.name == "checkpoint") {
    const absl::StatusOr<JobAnswer> job = rest_.Job(id_);
    if (job.ok()) post_([this, job = *job] { events_.on_job(job); });
  }
  return !stop_.stopped() && event.name != "done";
}

// False: refused, or this is being destroyed.
bool Follower::Submit(JobAnswer& job) {
  std::string spec = spec_json_;
  while (true) {
    absl::StatusOr<JobAnswer> accepted = rest_.Submit(id_, spec, accept_);
    if (accepted.ok()) {
      job = *std::move(accepted);
      return true;
    }
    const AfterRefusal next = WhatAfter(accepted.status());
    if (next == AfterRefusal::kGiveUp) {
      post_([this, why = accepted.status()] { events_.on_refused(why); });
      return false;
    }
    if (next == AfterRefusal::kStopFirst) {
      post_([this, event = StoppedFirst(accepted.status())] { events_.on_event(event); });
      spec = FromWhereItIs(spec);
      absl::Status stops;
      while (IsPassing(stops = rest_.Stop(id_).status()))
        if (stop_.WaitFor(kPause)) return false;
      if (!stops.ok() && WhatAfter(accepted.status()) == AfterRefusal::kStopFirst) {
        post_([this, stops] { events_.on_refused(stops); });
        return false;
      }
    }
    if (stop_.WaitFor(kPause)) return false;
  }
}

Follower::AfterRefusal Follower::WhatAfter(const absl::Status& refused) const {
  if (IsPassing(refused)) return AfterRefusal::kAskAgain;
  if (!absl::IsFailedPrecondition(refused)) return AfterRefusal::kGiveUp;
  const absl::StatusOr<JobAnswer> job = rest_.Job(id_);
  if (!job.ok() || job->deleting) return AfterRefusal::kGiveUp;
  // A stop that was asked for before everything was cut off comes to its end first: then the job
  // goes on. It may have come there since it was refused.
  if (job->state == "stopping" || job->state == "stopped") return AfterRefusal::kAskAgain;
  // When everything was cut off, the job ran with other values, and since the coordinator is back,
  // its members are, too. Nobody but this command has it run now.
  return IsOver(*job) ? AfterRefusal::kGiveUp : AfterRefusal::kStopFirst;
}

// Also true when this is being destroyed.
bool Follower::FinishIfOver() {
  const absl::StatusOr<JobAnswer> job = rest_.Job(id_);
  if (!job.ok() || !IsOver(*job)) return stop_.stopped();
  const absl::StatusOr<std::vector<StepFingerprint>> fingerprints =
      AllFingerprints(rest_, id_, [this] { return !stop_.WaitFor(kPause); });
  if (stop_.stopped()) return true;
  if (!fingerprints.ok())
    post_([this, event = NoFingerprints(fingerprints.status())] { events_.on_event(event); });
  post_([this, job = *job, list = fingerprints.value_or(std::vector<StepFingerprint>())] {
    events_.on_over(job, list);
  });
  return true;
}

// True: this is being destroyed.
bool Follower::PauseAfter(const absl::Status& failed) {
  if (!IsNotLetIn(failed)) return stop_.WaitFor(kPause);
  post_([this, failed] { events_.on_not_let_in(failed); });
  return stop_.WaitFor(kPauseOfStrangers);
}

void Follower::SetWish(Wish wish) {
  {
    MutexLock lock(mutex_);
    wish_ = wish;
  }
  changed_.NotifyAll();
}

void Follower::AskStop() { SetWish(Wish::kStop); }
void Follower::AskCancel() { SetWish(Wish::kCancel); }

void Follower::CarryWishes() {
  while (true) {
    Wish wish = Wish::kNone;
    {
      MutexLock lock(mutex_);
      while (wish_ == Wish::kNone || (!accepted_ && wish_ != Wish::kEnd)) changed_.Wait(mutex_);
      wish = wish_;
    }
    if (wish == Wish::kEnd) return;
    const absl::Status heard =
        wish == Wish::kStop ? rest_.Stop(id_).status() : rest_.Cancel(id_).status();
    if (!IsPassing(heard) && !IsNotLetIn(heard)) {
      MutexLock lock(mutex_);
      if (wish_ == wish) wish_ = Wish::kNone;
    } else if (PauseAfter(heard)) {
      return;
    }
  }
}

}  // namespace muster::cli
