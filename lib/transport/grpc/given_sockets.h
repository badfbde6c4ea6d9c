// The connections that were given to gRPC, which has no bound of its own for what a stranger brings
// on one (1.51): it keeps the bytes of a header that never ends, and makes a call of each stream,
// however fast they are cancelled. So the bytes and the calls are counted here, and who brings too
// many is shut down (docs/decisions/0048). So is a connection that outlives its session.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/descriptor.h"
#include "lib/base/mutex.h"
#include "lib/base/time.h"
#include "lib/transport/grpc/stream_counts.h"

namespace muster {

// Ours open one on each connection.
inline constexpr int kMostSessionsOfConnection = 8;
// Streams of one connection at a time: programs may ask for much at once.
inline constexpr int kMostStreamsAtATime = 100;
// Calls of typed services of which none is answered before its caller leaves: more than twice as
// many as may be open at a time.
inline constexpr int kMostCallsInVain = 256;
// Streams of a connection that are not answered to their end, because they are still open or their
// caller has left: those calls, and what is under way when the next one is counted. A stream that
// was cancelled may cost 20 KB until gRPC is through with it. They are counted once so many bytes
// have come, again each time, and until gRPC has read them all; so many a second are forgiven, as a
// program may watch one thing after the other.
inline constexpr int64_t kMostStreamsInVain = 2 * kMostCallsInVain;
inline constexpr int64_t kForgivenStreamsASecond = 64;
inline constexpr uint64_t kCountStreamsEvery = 32 << 10;
// Or so many at a look.
inline constexpr uint64_t kCountStreamsAtALook = 1 << 10;
// Streams that all connections of one address have left, which may be many: those that leave more
// are shut down. So many a second are forgiven.
inline constexpr int64_t kMostStreamsOfAddress = 4 * kMostStreamsInVain;
inline constexpr int64_t kForgivenStreamsOfAddress = 4 * kForgivenStreamsASecond;
// What a connection may bring, from its start or from the last call that was answered on it.
inline constexpr uint64_t kMostOfStranger = 256 << 10;
// On top of that, where typed services are served: more than any of their requests may have, so
// that one that is too large is told so.
inline constexpr uint64_t kMostOfRequests = 4 << 20;
// On top of that, once a session has begun: with its first frame, what is under way behind it while
// we do not read on.
inline constexpr uint64_t kMostBehindFirstFrame = 1 << 20;
// How often strangers who stirred are looked at, and how often the others at least.
inline constexpr Duration kLookEvery = std::chrono::milliseconds(50);
inline constexpr Duration kLookAtLatest = std::chrono::seconds(1);
// A stranger who stirred is looked at every time for so long: our answer may be on its way by then.
inline constexpr Duration kLookClosely = 4 * kLookEvery;
// A session has its connection for itself (docs/decisions/0010). When it has ended, its peer has so
// long to read why and to close: gRPC would leave the place to it for 30 s.
inline constexpr Duration kLeaveTime = std::chrono::seconds(2);
// After a flood strangers of that address are turned away for so long, as long as the process holds
// so much more memory than when it began (docs/decisions/0054).
inline constexpr Duration kWatchAfterFlood = std::chrono::seconds(10);
inline constexpr size_t kMostOfFlood = size_t{256} << 20;

// A level that sinks with time. One thread.
class Forgiven {
 public:
  explicit Forgiven(int64_t a_second) : a_second_(static_cast<double>(a_second)) {}

  void Add(double amount, Time now) {
    level_ = std::max(0.0, level_ - Seconds(now - std::exchange(at_, now)) * a_second_) + amount;
  }
  double level() const { return level_; }
  Time at() const { return at_; }

 private:
  const double a_second_;
  double level_ = 0;
  Time at_{};
};

// Thread-safe. gRPC owns the descriptor and closes it without a word: it is used only while it is
// still the socket that was given.
class GivenSocket {
 public:
  // `peer`: its address, as Session::Peer says it. `most`: what it may bring between answers.
  GivenSocket(int fd, ino_t inode, std::string peer, uint64_t most);

  bool IsOpen() const;
  const std::string& peer() const { return peer_; }
  // Whether one more may be; otherwise there are too many, and the connection is shut down.
  bool SessionComes();
  // The session that came, whose first frame may have so much.
  void SessionMayBring(uint64_t first_frame);
  // One that came has ended, and the reason has been handed over. Without another, the connection
  // is shut down after kLeaveTime.
  void SessionEnds() { --open_sessions_; }
  // It carries a session of one we know: what it brings is not judged any more.
  void Admit() { admitted_ = true; }
  bool admitted() const { return admitted_; }
  void CallComes();
  void CallIsAnswered();

  // Of the thread that gives them away.
  // Has `stirs`, an epoll, tell of it. Where that cannot be, it is due every time.
  void Watch(int stirs);
  void Unwatch(int stirs);
  // Bytes may have come, or an answer goes out. On any thread.
  void Stir() { stirred_ = true; }
  bool IsDue(Time now);
  // Shuts it down when it has brought too much, or when its sessions have ended and it stays.
  // False: it is closed.
  bool Judge(Time now);
  // Streams that it has left since this was asked last.
  int64_t TakeLeft() { return std::exchange(left_, 0); }
  // From its address, and it has left some: it is shut down.
  void TooManyAreLeft();
  int fd() const { return fd_; }
  // It brought too much, or too many, and was shut down.
  bool has_flooded() const { return flooded_; }
  const std::string& host() const { return host_; }

 private:
  struct Seen {
    uint64_t brought = 0;
    bool takes_all = true;  // nothing of what we sent is still on its way
  };
  std::optional<Seen> Look() const;
  bool HasLeft(Time now);
  bool LeavesTooMany(uint64_t brought, Time now);
  void Flooded(const std::string& why);
  void ShutDown(const std::string& why) const;

  const int fd_;
  const ino_t inode_;
  const std::string peer_;
  const std::string host_;  // of that address
  const uint64_t most_;
  std::atomic<uint64_t> may_bring_;  // in all
  std::atomic<bool> has_session_{false};
  std::atomic<bool> admitted_{false};
  std::atomic<bool> stirred_{true};
  std::atomic<int> sessions_{0};
  std::atomic<int> open_sessions_{0};
  std::atomic<int> calls_in_vain_{0};
  mutable std::atomic<bool> shut_down_{false};
  std::atomic<bool> flooded_{false};
  // Of the thread that gives them away.
  const ConnectionNumber after_;  // that of the newest connection before this one
  std::optional<ConnectionNumber> number_{};
  uint64_t counted_at_ = 0;  // bytes that had come when streams were counted last
  int64_t counted_ = 0;
  bool reads_on_ = false;  // there were more streams than the time before, or there may be
  Time counted_last_{};
  int64_t left_in_all_ = 0;
  int64_t left_ = 0;
  Time forgiven_at_{};
  double forgiven_ = 0;  // of those that are in vain now: one that is answered needs none any more
  bool watched_ = false;
  Time look_at_{};  // at the latest
  Time closely_until_{};
  std::optional<Time> left_since_{};  // as far as was seen
};

// Of this process, in bytes, which lie in memory; 0: the system does not say.
size_t MemoryHeld();

class GivenSockets {
 public:
  // `most_of_stranger`: what each may bring between answers before it is admitted. `memory`: bytes
  // that the process holds.
  GivenSockets(size_t most, uint64_t most_of_stranger, std::function<size_t()> memory = MemoryHeld);

  // Of the thread that gives them away.
  // Whether one more may be given away. Looks at all of them only when there seem to be `most`,
  // and then at most every kLookEvery, so that a flood of connections costs little.
  bool HasRoom(Time now);
  // Empty: one more of that address may be given away. Else why not, for the peer.
  std::string WhyNot(const std::string& peer, Time now) const;
  // False: another of the same address is open, so that nobody could tell their calls apart.
  bool Add(int fd, const std::string& peer);
  // Judges those that are due (docs/decisions/0050), at most every kLookEvery. How long until it is
  // to be called again; nothing: none is left.
  std::optional<Duration> Judge(Time now);
  // Judges those on which something came since it was last asked, without waiting for the interval:
  // on a fast link that is many megabytes.
  void JudgeStirred(Time now);
  // When somebody has been shut down for a flood, or was seen to be there still, last.
  std::optional<Time> last_flood() const { return last_flood_; }
  // Readable when somebody stirs.
  int stirs() const { return stirs_.get(); }
  size_t looks() const { return looks_; }  // at one, by Judge

  // On any thread. Null: it was closed meanwhile.
  std::shared_ptr<GivenSocket> Find(const std::string& peer) const;
  size_t size() const;  // may count some that are closed already

 private:
  using Sockets = std::vector<std::shared_ptr<GivenSocket>>;

  std::vector<int> Stirred() const;
  Sockets TakeDue(const std::vector<int>& stirred, Time now);
  void Forget(const Sockets& closed);
  void ForgetPeer(const GivenSocket& given) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ForgetClosed();
  void NoteFlood(const GivenSocket& given, Time now);
  void NoteLeft(GivenSocket& given, Time now);

  const size_t most_;
  const uint64_t most_of_stranger_;
  const Descriptor stirs_;  // epoll, which tells of strangers on whose connections something came
  Time looked_{};
  Time judged_{};
  std::map<std::string, Time> flooded_;  // by host, the last time
  std::optional<Time> last_flood_{};
  std::map<std::string, Forgiven> left_;  // streams, by host
  const std::function<size_t()> memory_;
  size_t memory_before_ = 0;  // the first of these floods
  bool strangers_ = false;
  size_t looks_ = 0;
  mutable Mutex mutex_;
  std::map<int, std::shared_ptr<GivenSocket>> by_fd_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::shared_ptr<GivenSocket>> by_peer_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace muster
