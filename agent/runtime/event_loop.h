// The agent's one loop: descriptors, timers and work posted by other threads, all run on the thread
// that calls Run. That must be the process's main thread where processes are started (process.h
// says why). Never blocks anywhere else.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/base/mutex.h"
#include "lib/base/time.h"

namespace muster::agent {

class EventLoop {
 public:
  // kResourceExhausted: no descriptors left.
  static absl::StatusOr<std::unique_ptr<EventLoop>> Make();
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // On the loop's thread. `on_readable` is called again and again while the descriptor is readable
  // or hung up. The descriptor stays the caller's and must be unwatched before it is closed.
  void Watch(int fd, std::function<void()> on_readable);
  void Unwatch(int fd);

  // On the loop's thread. Called once, at or after `when`; cancelling what was called or cancelled
  // does nothing.
  using TimerId = std::pair<Time, int64_t>;
  TimerId At(Time when, std::function<void()> call);
  void Cancel(TimerId timer);

  // Any thread. Posted calls run in order, on the loop's thread. What was posted and not run is
  // dropped with the loop.
  void Post(std::function<void()> call);

  void Run();   // until Quit
  void Quit();  // on the loop's thread: Run returns after the current call

 private:
  EventLoop(int epoll_fd, int wake_fd);
  int WaitMilliseconds() const;
  void RunPosted();
  void RunTimers();

  const int epoll_fd_;
  const int wake_fd_;
  bool quit_ = false;
  int64_t next_timer_ = 0;
  std::map<int, std::shared_ptr<std::function<void()>>> watched_;
  std::map<TimerId, std::function<void()>> timers_;

  Mutex mutex_;
  std::vector<std::function<void()>> posted_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace muster::agent
