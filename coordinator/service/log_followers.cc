#include "coordinator/service/log_followers.h"

#include <stop_token>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/runtime/known_job.h"
#include "coordinator/runtime/once.h"
#include "coordinator/service/job_questions.h"
#include "lib/base/clock.h"
#include "lib/base/status.h"

namespace muster::coordinator {

namespace {
// Between two looks of the thread; whoever is new is looked at at once.
constexpr Duration kBetweenLooks = std::chrono::milliseconds(200);
}  // namespace

void LogFollowers::Stop() {
  thread_.Stop();
  std::vector<Follower> left;
  {
    const MutexLock lock(mutex_);
    stopped_ = true;
    left.swap(waiting_);
  }
  for (const Follower& follower : left) follower.reply(ShuttingDown());
}

void LogFollowers::Follow(std::string job, FollowQuery query, const std::string& user,
                          Reply reply) {
  bool is_taken = false, stopped = false, is_often = false;
  {
    const MutexLock lock(mutex_);
    stopped = stopped_;
    const auto held = of_user_.find(user);
    is_often = held != of_user_.end() && held->second >= kMostLogFollowersOfAUser;
    is_taken = !stopped && !is_often && waiting_.size() + looked_at_ < kMostLogFollowers;
    if (is_taken)
      waiting_.push_back({.job = std::move(job),
                          .query = std::move(query),
                          .user = user,
                          .reply = std::move(reply)});
    if (is_taken && !user.empty()) ++of_user_[user];
    has_new_ |= is_taken;
  }
  if (is_taken) return changed_.NotifyOne();
  if (stopped) return reply(ShuttingDown());
  if (is_often)
    return reply(absl::UnavailableError(
        absl::StrCat(kMostLogFollowersOfAUser, " requests of ", user,
                     " wait for lines of logs already; end some of them, or retry later")));
  reply(absl::UnavailableError(absl::StrCat(
      kMostLogFollowers, " requests wait for lines of logs already; retry in a moment")));
}

void LogFollowers::Look(Time now) {
  std::vector<Follower> looked_at;
  {
    const MutexLock lock(mutex_);
    has_new_ = false;
    looked_at.swap(waiting_);
    looked_at_ = looked_at.size();
  }
  std::erase_if(looked_at, [&](Follower& follower) {
    const auto page = AnswerTo(follower, now);
    if (!page) return false;
    Release(follower);  // before it hears, so that it can ask again at once
    follower.reply(*page);
    return true;
  });
  const MutexLock lock(mutex_);
  looked_at_ = 0;
  for (Follower& follower : looked_at) waiting_.push_back(std::move(follower));
}

void LogFollowers::Release(const Follower& follower) {
  const MutexLock lock(mutex_);
  --looked_at_;
  const auto of = of_user_.find(follower.user);
  if (of != of_user_.end() && --of->second == 0) of_user_.erase(of);
}

// What was written after `writes` was asked for is found by the next look.
std::optional<absl::StatusOr<LogPage>> LogFollowers::AnswerTo(Follower& follower, Time now) const {
  const absl::StatusOr<bool> over = source_.is_over(follower.job);
  if (!over.ok()) return over.status();
  if (!follower.writes) follower.since = now;
  if (!*over) follower.quiet_since = now;  // the last lines come after the end
  if (const int64_t writes = source_.writes(follower.job); follower.writes != writes) {
    follower.writes = writes;
    follower.quiet_since = now;
    absl::StatusOr<LogPage> page = source_.read(follower.job, follower.query, /*ends=*/false);
    if (!page.ok() || !page->lines.empty()) return page;
    follower.query.after = page->next;
  }
  if (*over && now - follower.quiet_since >= kQuietAfterEnd)
    return source_.read(follower.job, follower.query, /*ends=*/true);
  if (now - follower.since < kLongestFollow) return std::nullopt;
  return LogPage{.lines = {}, .next = follower.query.after};
}

void LogFollowers::AwaitNews(Time deadline) {
  const MutexLock lock(mutex_);
  while (!has_new_ && changed_.WaitUntil(mutex_, deadline)) {
  }
}

void LogFollowers::Start() {
  thread_.Run([this](const std::stop_token& stop) {
    const RealClock clock;
    while (!stop.stop_requested()) {
      Look(clock.Now());
      AwaitNews(clock.Now() + kBetweenLooks);
    }
  });
}

std::unique_ptr<LogFollowers> MakeLogFollowers(const Driver& driver, const LogStore& store,
                                               std::string folder) {
  return std::make_unique<LogFollowers>(LogFollowers::Source{
      .writes = [&store](const std::string& job) { return store.Writes(job); },
      .is_over = [&driver](const std::string& job) -> absl::StatusOr<bool> {
        MUSTER_ASSIGN_OR_RETURN(const KnownJobsPtr jobs, driver.Known());
        MUSTER_ASSIGN_OR_RETURN(const KnownJobPtr known, FindJob(*jobs, job));
        return Ended(known->status.job.phase);
      },
      .read = [folder = std::move(folder)](
                  const std::string& job, const FollowQuery& query,
                  bool ends) { return ReadLogPage(folder, job, query, ends); }});
}

}  // namespace muster::coordinator
