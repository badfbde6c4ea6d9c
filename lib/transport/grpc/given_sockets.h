// The connections that were given to gRPC, which has no bound of its own for what a stranger brings
// on one (1.51): it keeps the bytes of a header that never ends, and makes a call of each stream,
// however fast they are cancelled. So the bytes and the calls are counted here, and who brings too
// many is shut down (docs/decisions/0048).
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "lib/base/mutex.h"
#include "lib/base/time.h"

namespace muster {

// Ours open one on each connection.
inline constexpr int kMostSessionsOfConnection = 8;
// Calls of typed services of which none is answered before its caller leaves: more than twice as
// many as may be open at a time.
inline constexpr int kMostCallsInVain = 256;
// What a connection may bring, from its start or from the last call that was answered on it.
inline constexpr uint64_t kMostOfStranger = 256 << 10;
// On top of that, where typed services are served: more than any of their requests may have, so
// that one that is too large is told so.
inline constexpr uint64_t kMostOfRequests = 8 << 20;
// On top of that, once a session has begun: with its first frame, what is under way behind it while
// we do not read on.
inline constexpr uint64_t kMostBehindFirstFrame = 1 << 20;

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
  // It carries a session of one we know: what it brings is not judged any more.
  void Admit() { admitted_ = true; }
  bool admitted() const { return admitted_; }
  void CallComes();
  void CallIsAnswered();
  // Shuts it down when it has brought too much.
  void Judge() const;

 private:
  std::optional<uint64_t> Brought() const;
  void ShutDown(const std::string& why) const;

  const int fd_;
  const ino_t inode_;
  const std::string peer_;
  const uint64_t most_;
  std::atomic<uint64_t> may_bring_;  // in all
  std::atomic<bool> has_session_{false};
  std::atomic<bool> admitted_{false};
  std::atomic<int> sessions_{0};
  std::atomic<int> calls_in_vain_{0};
  mutable std::atomic<bool> shut_down_{false};
};

class GivenSockets {
 public:
  // `most_of_stranger`: what each may bring between answers before it is admitted.
  GivenSockets(size_t most, uint64_t most_of_stranger)
      : most_(most), most_of_stranger_(most_of_stranger) {}

  // Of the thread that gives them away.
  // Whether one more may be given away. Looks at all of them only when there seem to be `most`,
  // and then at most every 50 ms, so that a flood of connections costs little.
  bool HasRoom(Time now);
  // False: another of the same address is open, so that nobody could tell their calls apart.
  bool Add(int fd, const std::string& peer);
  // Judges those that were not admitted, at most every 50 ms. Whether there may be such.
  bool Judge(Time now);

  // On any thread. Null: it was closed meanwhile.
  std::shared_ptr<GivenSocket> Find(const std::string& peer) const;
  size_t size() const;  // may count some that are closed already

 private:
  void ForgetPeer(const GivenSocket& given) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ForgetClosed();

  const size_t most_;
  const uint64_t most_of_stranger_;
  Time looked_{};
  Time judged_{};
  bool strangers_ = false;
  mutable Mutex mutex_;
  std::map<int, std::shared_ptr<GivenSocket>> by_fd_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::shared_ptr<GivenSocket>> by_peer_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace muster
