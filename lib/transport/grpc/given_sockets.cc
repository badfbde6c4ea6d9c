#include "lib/transport/grpc/given_sockets.h"

#include <fcntl.h>
#include <linux/tcp.h>  // that of the C library has no tcpi_bytes_received
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/log/limited_log.h"

namespace muster {
namespace {

constexpr Duration kLookEvery = std::chrono::milliseconds(50);

// Strangers cause these lines. Never destroyed: sessions outlive those who accept them.
LimitedLog& Refusals() {
  static LimitedLog& log = *new LimitedLog;
  return log;
}

bool IsSocket(int fd, ino_t inode) {
  struct stat environment {};
  return fstat(fd, &environment) == 0 && S_ISSOCK(environment.st_mode) &&
         environment.st_ino == inode;
}

}  // namespace

GivenSocket::GivenSocket(int fd, ino_t inode, std::string peer, uint64_t most)
    : fd_(fd), inode_(inode), peer_(std::move(peer)), most_(most), may_bring_(most) {}

bool GivenSocket::IsOpen() const { return IsSocket(fd_, inode_); }

bool GivenSocket::SessionComes() {
  if (++sessions_ <= kMostSessionsOfConnection) return true;
  ShutDown(absl::StrCat("it opened more than ", kMostSessionsOfConnection, " sessions"));
  return false;
}

// Once: one who opens and leaves sessions may bring no more than one who stays.
void GivenSocket::SessionMayBring(uint64_t first_frame) {
  if (has_session_.exchange(true)) return;
  const uint64_t so_far = may_bring_ + kMostBehindFirstFrame;
  may_bring_ = first_frame < UINT64_MAX - so_far ? so_far + first_frame : UINT64_MAX;
}

void GivenSocket::CallComes() {
  if (++calls_in_vain_ > kMostCallsInVain)
    ShutDown(absl::StrCat("it left more than ", kMostCallsInVain, " calls before their answers"));
}

void GivenSocket::CallIsAnswered() {
  calls_in_vain_ = 0;
  const std::optional<uint64_t> brought = Brought();
  if (!brought) return;
  const uint64_t may_bring = *brought + most_;
  uint64_t before = may_bring_;
  while (before < may_bring && !may_bring_.compare_exchange_weak(before, may_bring)) {
  }
}

void GivenSocket::Judge() const {
  const uint64_t may_bring = may_bring_;
  const std::optional<uint64_t> brought = Brought();
  if (brought && *brought > may_bring && !admitted_)
    ShutDown(absl::StrCat("it brought ", *brought, " bytes, and ", may_bring,
                          " are all that one who has not said who it is may bring here"));
}

// Nothing: it is closed, or no TCP connection.
std::optional<uint64_t> GivenSocket::Brought() const {
  tcp_info info{};
  socklen_t size = sizeof(info);
  constexpr size_t kNeeded = offsetof(tcp_info, tcpi_bytes_received) + sizeof(uint64_t);
  const bool told = getsockopt(fd_, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 && size >= kNeeded;
  if (!told || !IsOpen()) return std::nullopt;  // looked at last: it was ours before, too
  return info.tcpi_bytes_received;
}

// By a descriptor of our own: the number may become another socket's at any time.
void GivenSocket::ShutDown(const std::string& why) const {
  if (shut_down_.exchange(true)) return;
  const int own = fcntl(fd_, F_DUPFD_CLOEXEC, 0);
  if (own < 0) {
    shut_down_ = false;  // it is closed, or there is no descriptor now; it will be judged again
    return;
  }
  if (IsSocket(own, inode_)) {
    shutdown(own, SHUT_RDWR);
    Refusals().Warn("the connection of %s is closed: %s", peer_, why);
  }
  close(own);
}

bool GivenSockets::HasRoom(Time now) {
  if (size() < most_) return true;
  if (now - looked_ < kLookEvery) return false;
  looked_ = now;
  ForgetClosed();
  return size() < most_;
}

bool GivenSockets::Add(int fd, const std::string& peer) {
  struct stat environment {};
  if (fstat(fd, &environment) != 0) return false;
  auto given = std::make_shared<GivenSocket>(fd, environment.st_ino, peer, most_of_stranger_);
  const MutexLock lock(mutex_);
  const auto same = by_peer_.find(peer);
  if (same != by_peer_.end() && same->second->IsOpen()) return false;
  std::shared_ptr<GivenSocket>& at = by_fd_[fd];
  if (at != nullptr) ForgetPeer(*at);  // closed: its number is given again
  by_peer_[peer] = at = std::move(given);
  strangers_ = true;
  return true;
}

bool GivenSockets::Judge(Time now) {
  if (!strangers_ || now - judged_ < kLookEvery) return strangers_;
  judged_ = now;
  std::vector<std::shared_ptr<GivenSocket>> strangers;
  {
    const MutexLock lock(mutex_);
    for (const auto& [fd, given] : by_fd_)
      if (!given->admitted()) strangers.push_back(given);
  }
  strangers_ = false;
  for (const auto& stranger : strangers) {
    stranger->Judge();
    strangers_ = strangers_ || stranger->IsOpen();
  }
  return strangers_;
}

std::shared_ptr<GivenSocket> GivenSockets::Find(const std::string& peer) const {
  const MutexLock lock(mutex_);
  const auto given = by_peer_.find(peer);
  return given == by_peer_.end() ? nullptr : given->second;
}

size_t GivenSockets::size() const {
  const MutexLock lock(mutex_);
  return by_fd_.size();
}

// A newer one may have its address by now.
void GivenSockets::ForgetPeer(const GivenSocket& given) {
  const auto found = by_peer_.find(given.peer());
  if (found != by_peer_.end() && found->second.get() == &given) by_peer_.erase(found);
}

void GivenSockets::ForgetClosed() {
  const MutexLock lock(mutex_);
  for (auto it = by_fd_.begin(); it != by_fd_.end();) {
    if (it->second->IsOpen()) {
      ++it;
    } else {
      ForgetPeer(*it->second);
      it = by_fd_.erase(it);
    }
  }
}

}  // namespace muster
