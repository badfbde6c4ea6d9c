#include "agent/runtime/event_loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "lib/base/check.h"

namespace muster::agent {
namespace {

Time Now() { return std::chrono::steady_clock::now(); }

}  // namespace

absl::StatusOr<std::unique_ptr<EventLoop>> EventLoop::Make() {
  const int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  const int wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (epoll_fd < 0 || wake_fd < 0) {
    const int error = errno;
    if (epoll_fd >= 0) close(epoll_fd);
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot make an event loop: ", std::strerror(error)));
  }
  return std::unique_ptr<EventLoop>(new EventLoop(epoll_fd, wake_fd));
}

EventLoop::EventLoop(int epoll_fd, int wake_fd) : epoll_fd_(epoll_fd), wake_fd_(wake_fd) {
  Watch(wake_fd_, [this] { RunPosted(); });
}

EventLoop::~EventLoop() {
  close(wake_fd_);
  close(epoll_fd_);
}

void EventLoop::Watch(int fd, std::function<void()> on_readable) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  MUSTER_CHECK(epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fd, &event) == 0);
  watched_[fd] = std::make_shared<std::function<void()>>(std::move(on_readable));
}

void EventLoop::Unwatch(int fd) {
  if (watched_.erase(fd) > 0) epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, fd, nullptr);
}

EventLoop::TimerId EventLoop::At(Time when, std::function<void()> call) {
  const TimerId id{when, next_timer_++};
  timers_[id] = std::move(call);
  return id;
}

void EventLoop::Cancel(TimerId timer) { timers_.erase(timer); }

void EventLoop::Post(std::function<void()> call) {
  {
    MutexLock lock(mutex_);
    posted_.push_back(std::move(call));
  }
  const uint64_t one = 1;
  while (write(wake_fd_, &one, sizeof one) < 0 && errno == EINTR) {
  }
}

void EventLoop::RunPosted() {
  uint64_t count = 0;
  while (read(wake_fd_, &count, sizeof count) < 0 && errno == EINTR) {
  }
  std::vector<std::function<void()>> calls;
  {
    MutexLock lock(mutex_);
    calls.swap(posted_);
  }
  for (const auto& call : calls) call();
}

void EventLoop::RunTimers() {
  const Time now = Now();
  while (!quit_ && !timers_.empty() && timers_.begin()->first.first <= now) {
    const auto call = std::move(timers_.begin()->second);
    timers_.erase(timers_.begin());
    call();
  }
}

int EventLoop::WaitMilliseconds() const {
  if (timers_.empty()) return -1;
  const auto wait =
      std::chrono::ceil<std::chrono::milliseconds>(timers_.begin()->first.first - Now()).count();
  return static_cast<int>(std::clamp<int64_t>(wait, 0, INT_MAX));
}

void EventLoop::Run() {
  quit_ = false;
  while (!quit_) {
    std::array<epoll_event, 32> events;
    const int n =
        epoll_wait(epoll_fd_, events.data(), static_cast<int>(events.size()), WaitMilliseconds());
    MUSTER_CHECK(n >= 0 || errno == EINTR);
    for (int i = 0; i < n && !quit_; ++i) {
      const auto it = watched_.find(events[static_cast<size_t>(i)].data.fd);
      if (it == watched_.end()) continue;  // unwatched by a call before this one
      const auto call = it->second;        // outlives an Unwatch inside the call
      (*call)();
    }
    RunTimers();
  }
}

void EventLoop::Quit() { quit_ = true; }

}  // namespace muster::agent
