#include "lib/member/runtime/life_signs.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_format.h"
#include "lib/base/clock.h"
#include "lib/wire/message_codec.h"

namespace muster {

std::vector<ThreadAge> AgesOf(const std::vector<const ThreadProgress*>& threads,
                              const OwnGaps& gaps, Time now) {
  std::vector<ThreadAge> ages;
  for (const ThreadProgress* thread : threads)
    if (const std::optional<Duration> age = thread->Age(now))
      ages.push_back({thread->name(), Seconds(gaps.Since(*age))});
  return ages;
}

std::string WhyItHangs(const ThreadAge& hung, const std::string& runs) {
  if (runs.empty())
    return absl::StrFormat("its %s thread has stood still for %.0f s", hung.thread, hung.seconds);
  return absl::StrFormat(
      "nothing has gone on for %.0f s in %s: its constructor, a first pass through its model or "
      "what it prepares has not returned; where it needs so long, give the job a larger "
      "thread_patience",
      hung.seconds, runs);
}

LifeSigns::LifeSigns(Options options, std::vector<const ThreadProgress*> threads)
    : options_(std::move(options)),
      threads_(std::move(threads)),
      patience_(options_.patience),
      thread_([this] { Run(); }) {}

LifeSigns::~LifeSigns() {
  {
    MutexLock lock(mutex_);
    ends_ = true;
  }
  changed_.NotifyAll();
  thread_.join();
}

void LifeSigns::BePatient(Duration patience) {
  MutexLock lock(mutex_);
  patience_ = std::max(patience_, patience);
}

void LifeSigns::SayTo(std::shared_ptr<Session> coordinator) {
  MutexLock lock(mutex_);
  coordinator_.swap(coordinator);  // the old one ends without the lock
}

void LifeSigns::Note(Step step, std::string phase, Unreachable unreachable, Time now) {
  MutexLock lock(mutex_);
  alive_.step = step;
  alive_.phase = std::move(phase);
  missed_.Note(std::move(unreachable));
  noted_ = now;
}

void LifeSigns::NoteLack(std::string why) {
  {
    MutexLock lock(mutex_);
    alive_.lacks = std::move(why);
  }
  SayNow();
}

void LifeSigns::SayNow() {
  {
    MutexLock lock(mutex_);
    has_news_ = true;
  }
  changed_.NotifyAll();
}

// True: we are to end. False: it is time to say something, for which there may have been news.
bool LifeSigns::EndsBeforeWord(WordPace& pace) {
  const RealClock clock;
  MutexLock lock(mutex_);
  do {
    const Time next = pace.Next(has_news_);
    if (!ends_) changed_.WaitUntil(mutex_, next);
  } while (!ends_ && !pace.Wake(clock.Now(), has_news_));
  has_news_ = false;
  return ends_;
}

void LifeSigns::Run() {
  const RealClock clock;
  // A shorter gap is little beside the patience, and a busy machine makes many.
  OwnGaps gaps(std::max(2 * options_.every, options_.patience / 10), clock.Now());
  WordPace pace(options_.every, clock.Now());
  while (!EndsBeforeWord(pace)) {
    const Time now = clock.Now();
    const Saying saying = WhatToSay(now, pace);
    pace.Spoke(now, saying.misses_somebody);
    gaps.Wake(now);
    Alive alive = saying.alive;
    alive.threads = AgesOf(threads_, gaps, now);
    if (saying.to) saying.to->Send({Encode(ToCoordinator(alive)), Payload()});
    Judge(alive.threads, saying.patience);
  }
}

LifeSigns::Saying LifeSigns::WhatToSay(Time now, const WordPace& pace) {
  MutexLock lock(mutex_);
  alive_.unreachable = missed_.Name();
  Saying saying{coordinator_, alive_, patience_, !missed_.missed().members.empty()};
  if (!pace.MayName(now, noted_)) saying.alive.unreachable = {};
  return saying;
}

void LifeSigns::Judge(const std::vector<ThreadAge>& ages, Duration patience) {
  const auto hung = std::find_if(ages.begin(), ages.end(), [&](const ThreadAge& age) {
    return IsJudged(age) && age.seconds > Seconds(patience);
  });
  if (hung == ages.end() || std::exchange(told_, true) || !options_.hangs) return;
  options_.hangs(*hung);
}

}  // namespace muster
