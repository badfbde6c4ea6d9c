// Those who follow what members print, and wait for more (docs/rest.md, "Logs"). Between two
// requests nothing is kept of a follower: it says itself how far it is, so that a slow one holds up
// nobody, and a restart of the coordinator changes nothing for it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/runtime/background.h"
#include "coordinator/runtime/driver.h"
#include "coordinator/runtime/log_store.h"
#include "coordinator/service/control_api.h"
#include "lib/base/mutex.h"
#include "lib/base/time.h"

namespace muster::coordinator {

// More that wait are refused.
inline constexpr size_t kMostLogFollowers = 64;
// Of one user, so that nobody keeps the others from following.
inline constexpr size_t kMostLogFollowersOfAUser = kMostLogFollowers / 8;
// One that waits for longer is told that there is nothing new: clients wait for an answer for 10 s.
inline constexpr Duration kLongestFollow = std::chrono::seconds(5);
// Members print their last lines when their job is over, and agents look four times a second; a
// host that is short of processors takes longer.
inline constexpr Duration kQuietAfterEnd = std::chrono::milliseconds(2500);

class LogFollowers {
 public:
  using Reply = JobApi::Reply<LogPage>;
  // What it asks of the others.
  struct Source {
    // Another number each time that the job has more lines (LogStore::Writes).
    std::function<int64_t(const std::string& job)> writes;
    std::function<absl::StatusOr<bool>(const std::string& job)> is_over;
    std::function<absl::StatusOr<LogPage>(const std::string& job, const FollowQuery& query,
                                          bool ends)>
        read;  // as ReadLogPage
  };
  explicit LogFollowers(Source source) : source_(std::move(source)) {}
  ~LogFollowers() { Stop(); }
  LogFollowers(const LogFollowers&) = delete;
  LogFollowers& operator=(const LogFollowers&) = delete;

  // Any thread. The query is one that CheckFollowQuery takes. Replied to by Look, or at once where
  // too many wait, of all or of `user`; empty: nobody is asked who he is.
  void Follow(std::string job, FollowQuery query, const std::string& user, Reply reply);
  // Answers those for whom there is something. By one thread only, which may wait for the disk.
  void Look(Time now);
  // Looks now and then from now on, on a thread of its own.
  void Start();
  // Those who wait, and all that come, are told that we end.
  void Stop();

 private:
  struct Follower {
    std::string job;
    FollowQuery query;
    std::string user;
    Reply reply;
    std::optional<int64_t> writes{};  // at the last look; nothing: there was none
    Time since{};                     // the first look
    Time quiet_since{};
  };
  // Nothing: it waits on.
  std::optional<absl::StatusOr<LogPage>> AnswerTo(Follower& follower, Time now) const;
  void Release(const Follower& follower);
  void AwaitNews(Time deadline);

  const Source source_;
  Mutex mutex_;
  CondVar changed_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  bool has_new_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<Follower> waiting_ ABSL_GUARDED_BY(mutex_);
  size_t looked_at_ ABSL_GUARDED_BY(mutex_) = 0;  // those that Look has taken
  // How many follow, by user; of no user, nobody.
  std::map<std::string, size_t> of_user_ ABSL_GUARDED_BY(mutex_);
  Background thread_;
};

// Of what that store keeps in `folder`. All outlive it.
std::unique_ptr<LogFollowers> MakeLogFollowers(const Driver& driver, const LogStore& store,
                                               std::string folder);

}  // namespace muster::coordinator
