#include "lib/transport/grpc/given_sockets.h"

#include <fcntl.h>
#include <linux/tcp.h>  // that of the C library has no tcpi_bytes_received
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/log/limited_log.h"

namespace muster {
namespace {

// Strangers cause these lines. Never destroyed: sessions outlive those who accept them.
LimitedLog& Refusals() {
  static LimitedLog& log = *new LimitedLog;
  return log;
}

// Of all that were looked for, so that the next one need not be looked for among the old ones.
std::atomic<ConnectionNumber>& NewestNumber() {
  static std::atomic<ConnectionNumber> newest{0};
  return newest;
}

// Without the port.
std::string HostOf(const std::string& peer) { return peer.substr(0, peer.rfind(':')); }

bool IsSocket(int fd, ino_t inode) {
  struct stat environment {};
  return fstat(fd, &environment) == 0 && S_ISSOCK(environment.st_mode) &&
         environment.st_ino == inode;
}

}  // namespace

GivenSocket::GivenSocket(int fd, ino_t inode, std::string peer, uint64_t most)
    : fd_(fd),
      inode_(inode),
      peer_(std::move(peer)),
      host_(HostOf(peer_)),
      most_(most),
      may_bring_(most),
      after_(NewestNumber()) {}

bool GivenSocket::IsOpen() const { return IsSocket(fd_, inode_); }

// Of what has come the kernel tells only where something can be done with it when it is asked, and
// gRPC may have read it by then. So it is asked for room to write, too, which is there unless the
// peer takes none of our answers; Look sees that.
void GivenSocket::Watch(int stirs) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLOUT | EPOLLET;
  event.data.fd = fd_;
  watched_ = epoll_ctl(stirs, EPOLL_CTL_ADD, fd_, &event) == 0;
}

void GivenSocket::Unwatch(int stirs) {
  if (std::exchange(watched_, false)) epoll_ctl(stirs, EPOLL_CTL_DEL, fd_, nullptr);
}

bool GivenSocket::SessionComes() {
  ++open_sessions_;
  if (++sessions_ <= kMostSessionsOfConnection) return true;
  Flooded(absl::StrCat("it opened more than ", kMostSessionsOfConnection, " sessions"));
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
    Flooded(absl::StrCat("it left more than ", kMostCallsInVain, " calls before their answers"));
}

void GivenSocket::CallIsAnswered() {
  Stir();
  calls_in_vain_ = 0;
  const std::optional<Seen> seen = Look();
  if (!seen) return;
  const uint64_t may_bring = seen->brought + most_;
  uint64_t before = may_bring_;
  while (before < may_bring && !may_bring_.compare_exchange_weak(before, may_bring)) {
  }
}

bool GivenSocket::IsDue(Time now) {
  if (HasLeft(now)) return true;
  return !admitted_ && (stirred_ || !watched_ || now >= look_at_);
}

bool GivenSocket::HasLeft(Time now) {
  const bool left = sessions_ > 0 && open_sessions_ == 0;
  if (!left) {
    left_since_.reset();
  } else if (!left_since_) {
    left_since_ = now;
  }
  return left && now - *left_since_ >= kLeaveTime;
}

bool GivenSocket::Judge(Time now) {
  if (stirred_.exchange(false)) closely_until_ = now + kLookClosely;
  const std::optional<Seen> seen = Look();
  const uint64_t may_bring = may_bring_;  // after what was brought: an answer may raise it
  const bool too_much = seen && seen->brought > may_bring && !admitted_;
  if (too_much)
    Flooded(absl::StrCat("it brought ", seen->brought, " bytes, and ", may_bring,
                         " are all that one who has not said who it is may bring here"));
  if (seen && !admitted_ && LeavesTooMany(seen->brought, now))
    Flooded(
        absl::StrCat("it left more than ", kMostStreamsInVain, " streams before their answers"));
  if (HasLeft(now)) ShutDown("its session has ended, and it stayed");
  const bool closely = too_much || reads_on_ || now < closely_until_ || (seen && !seen->takes_all);
  look_at_ = now + (closely ? kLookEvery : kLookAtLatest);
  return IsOpen();
}

bool GivenSocket::LeavesTooMany(uint64_t brought, Time now) {
  if (forgiven_at_ == Time{}) forgiven_at_ = now;  // it is new
  const uint64_t more = brought - counted_at_;
  const bool has_more = more >= kCountStreamsEvery ||
                        (more >= kCountStreamsAtALook && now - counted_last_ >= kLookEvery);
  if (!has_more && !(reads_on_ && now > counted_last_)) return false;
  counted_last_ = now;
  if (!number_ && (number_ = NumberOfConnection(peer_, after_)))
    NewestNumber() = std::max<ConnectionNumber>(NewestNumber(), *number_);
  const std::optional<StreamCounts> streams = number_ ? CountStreams(*number_) : std::nullopt;
  reads_on_ = true;
  if (!streams) return false;  // gRPC does not know it yet, or does not any more
  counted_at_ = brought;
  // Of more than may be open at a time the others have been left, though gRPC has not ended them.
  const int64_t left =
      std::max(streams->left, streams->started - streams->answered - kMostStreamsAtATime);
  left_ += std::max<int64_t>(left - left_in_all_, 0);
  left_in_all_ = std::max(left_in_all_, left);
  int unread = 0;
  const bool all_read = ioctl(fd_, FIONREAD, &unread) == 0 && unread == 0;
  reads_on_ = !all_read || streams->started > std::exchange(counted_, streams->started);
  const auto in_vain = static_cast<double>(streams->started - streams->answered);
  const double since = Seconds(now - std::exchange(forgiven_at_, now));
  forgiven_ = std::min(in_vain, forgiven_ + since * kForgivenStreamsASecond);
  return in_vain - forgiven_ > kMostStreamsInVain;
}

void GivenSocket::TooManyAreLeft() {
  Flooded(absl::StrCat("from its address more than ", kMostStreamsOfAddress,
                       " streams were left before their answers, and some by it"));
}

// Nothing: it is closed, or no TCP connection.
std::optional<GivenSocket::Seen> GivenSocket::Look() const {
  tcp_info info{};
  socklen_t size = sizeof(info);
  constexpr size_t kNeeded = offsetof(tcp_info, tcpi_notsent_bytes) + sizeof(uint32_t);
  const bool told = getsockopt(fd_, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 && size >= kNeeded;
  if (!told || !IsOpen()) return std::nullopt;  // looked at last: it was ours before, too
  return Seen{.brought = info.tcpi_bytes_received,
              .takes_all = info.tcpi_unacked == 0 && info.tcpi_notsent_bytes == 0};
}

void GivenSocket::Flooded(const std::string& why) {
  flooded_ = true;
  Stir();
  ShutDown(why);
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
    char rest[16 << 10];  // gRPC would read that all the same
    while (recv(own, rest, sizeof(rest), MSG_DONTWAIT) > 0) {
    }
    Refusals().Warn("the connection of %s is closed: %s", peer_, why);
  }
  close(own);
}

size_t MemoryHeld() {
  std::ifstream statm("/proc/self/statm");
  size_t all = 0, resident = 0;
  statm >> all >> resident;
  return statm ? resident * static_cast<size_t>(sysconf(_SC_PAGESIZE)) : 0;
}

GivenSockets::GivenSockets(size_t most, uint64_t most_of_stranger, std::function<size_t()> memory)
    : most_(most),
      most_of_stranger_(most_of_stranger),
      stirs_(epoll_create1(EPOLL_CLOEXEC)),
      memory_(std::move(memory)) {}

void GivenSockets::NoteFlood(const GivenSocket& given, Time now) {
  if (!given.has_flooded()) return;
  last_flood_ = now;
  constexpr size_t kMostHosts = 1024;
  std::erase_if(flooded_, [&](const auto& host) { return now - host.second > kWatchAfterFlood; });
  if (flooded_.empty()) memory_before_ = memory_();
  if (flooded_.size() < kMostHosts) flooded_[given.host()] = now;
}

void GivenSockets::NoteLeft(GivenSocket& given, Time now) {
  const int64_t left = given.TakeLeft();
  if (left <= 0 || given.admitted()) return;
  constexpr size_t kMostHosts = 1024;
  constexpr Duration kForgotten =
      std::chrono::seconds(kMostStreamsOfAddress / kForgivenStreamsOfAddress + 1);
  if (left_.size() >= kMostHosts)
    std::erase_if(left_, [&](const auto& of) { return now - of.second.at() > kForgotten; });
  if (left_.size() >= kMostHosts && !left_.contains(given.host())) return;
  Forgiven& all = left_.try_emplace(given.host(), kForgivenStreamsOfAddress).first->second;
  all.Add(static_cast<double>(left), now);
  if (all.level() > kMostStreamsOfAddress) given.TooManyAreLeft();
}

// Others of that address, and members among them, wait too: but only where the process would come
// to more than it can hold.
std::string GivenSockets::WhyNot(const std::string& peer, Time now) const {
  const std::string host = HostOf(peer);
  const auto flooded = flooded_.find(host);
  if (flooded == flooded_.end() || now - flooded->second > kWatchAfterFlood ||
      memory_() < memory_before_ + kMostOfFlood)
    return "";
  return absl::StrCat("too much was brought from ", host, "; try again later");
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
  at->Watch(stirs_.get());
  strangers_ = true;
  return true;
}

std::optional<Duration> GivenSockets::Judge(Time now) {
  if (now - judged_ >= kLookEvery) {
    judged_ = now;
    Sockets closed;
    for (const auto& due : TakeDue(Stirred(), now)) {
      ++looks_;
      if (!due->Judge(now)) closed.push_back(due);
      NoteLeft(*due, now);
      NoteFlood(*due, now);
    }
    Forget(closed);
  }
  if (strangers_) return kLookEvery;
  return size() > 0 ? std::optional(kLookAtLatest) : std::nullopt;
}

void GivenSockets::JudgeStirred(Time now) {
  Sockets stirred;
  for (const int fd : Stirred()) {
    const MutexLock lock(mutex_);
    const auto given = by_fd_.find(fd);
    if (given == by_fd_.end()) continue;
    if (given->second->admitted())
      given->second->Unwatch(stirs_.get());
    else
      stirred.push_back(given->second);
  }
  for (const auto& given : stirred) {
    ++looks_;
    given->Stir();
    given->Judge(now);
    NoteLeft(*given, now);
    NoteFlood(*given, now);
  }
}

// Descriptors on which something came since the last time.
std::vector<int> GivenSockets::Stirred() const {
  std::vector<int> fds;
  std::array<epoll_event, 256> events;
  const auto most = static_cast<int>(events.size());
  // Bounded: whoever is told of may stir again meanwhile.
  for (size_t told = 0; told <= most_; told += events.size()) {
    const int count = epoll_wait(stirs_.get(), events.data(), most, 0);
    for (int i = 0; i < count; ++i) fds.push_back(events[static_cast<size_t>(i)].data.fd);
    if (count < most) break;
  }
  return fds;
}

// Passes over all of them in memory; the system is asked about those that it returns.
GivenSockets::Sockets GivenSockets::TakeDue(const std::vector<int>& stirred, Time now) {
  Sockets due;
  strangers_ = false;
  const MutexLock lock(mutex_);
  for (const int fd : stirred)
    if (const auto given = by_fd_.find(fd); given != by_fd_.end()) given->second->Stir();
  for (const auto& [fd, given] : by_fd_) {
    if (given->admitted()) given->Unwatch(stirs_.get());
    strangers_ = strangers_ || !given->admitted();
    if (given->IsDue(now)) due.push_back(given);
  }
  return due;
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

void GivenSockets::Forget(const Sockets& closed) {
  const MutexLock lock(mutex_);
  for (const auto& given : closed) {
    ForgetPeer(*given);
    by_fd_.erase(given->fd());  // nobody else has been given away since
  }
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
