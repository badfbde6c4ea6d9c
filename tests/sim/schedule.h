// Time and chance of the simulation: one queue of events, one random generator. Lives as long as
// the world; everything that happens follows from the seed.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <queue>
#include <random>
#include <tuple>
#include <vector>

namespace muster::sim {

class Schedule {
 public:
  // `smooth`: nothing happens by chance; scenarios want that.
  Schedule(uint64_t seed, bool smooth) : random_(seed), smooth_(smooth) {}

  int64_t now() const { return now_; }  // milliseconds
  int64_t events() const { return events_run_; }
  bool smooth() const { return smooth_; }
  // Draws a number of [low, high]; gives the lowest when smooth.
  int64_t Random(int64_t low, int64_t high);
  bool OneIn(int64_t n) { return !smooth_ && Random(1, n) == n; }

  void At(int64_t delay, std::function<void()> run);
  bool RunNext();  // false: nothing is left to happen

 private:
  struct Event {
    int64_t at;
    int64_t order;
    std::function<void()> run;
    bool operator<(const Event& o) const { return std::tie(at, order) > std::tie(o.at, o.order); }
  };

  std::mt19937_64 random_;
  const bool smooth_;
  int64_t now_ = 0;
  int64_t next_order_ = 0;
  int64_t events_run_ = 0;
  std::priority_queue<Event> events_;
};

// Runs what happens inside one process. While the process stands still its events wait; when it has
// died they are forgotten. Lives as long as the process.
class Runner {
 public:
  explicit Runner(Schedule& schedule) : schedule_(schedule), life_(std::make_shared<Life>()) {}

  void Later(int64_t delay, std::function<void()> run);
  void Stall(int64_t ms);
  void Continue();  // ends a stall at once
  void Die() { life_.reset(); }
  // The end of the last time in which it stands or stood still; 0: it never did.
  int64_t stalled_until() const { return life_ ? life_->stalled_until : 0; }
  // Runs it then if the process lives and still stands still.
  void IfStalledIn(int64_t ms, std::function<void()> run);

 private:
  struct Life {
    int64_t stalled_until = 0;
  };
  static void RunOrWait(Schedule& schedule, const std::weak_ptr<Life>& life,
                        const std::function<void()>& run);

  Schedule& schedule_;
  std::shared_ptr<Life> life_;
};

// Things that come to a process one after the other, each with a delay of its own: none overtakes
// another, not even when the process stands still meanwhile.
class OrderedQueue {
 public:
  void Push(Schedule& schedule, Runner& to, int64_t delay, std::function<void()> run);

 private:
  int64_t last_ = 0;
  std::shared_ptr<std::deque<std::function<void()>>> waiting_ =
      std::make_shared<std::deque<std::function<void()>>>();
};

}  // namespace muster::sim
