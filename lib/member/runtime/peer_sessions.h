// The sessions between members. Of two members the one with the smaller id connects, and again,
// with growing waits, as long as the other is listed; the first frame of either end is a Hello. Who
// greets before we list him waits, unread (docs/protocol.md section 4). All
// methods run on the exchange thread; the transport's threads only post events, which the exchange
// thread hands back in. Nothing is called back: what an event leads to is returned.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "lib/base/backoff.h"
#include "lib/base/lease.h"
#include "lib/domain/message.h"
#include "lib/log/limited_log.h"
#include "lib/member/runtime/events.h"
#include "lib/transport/transport.h"

namespace muster {

// Of one that has not greeted yet.
inline constexpr size_t kMaxGreetingBytes = size_t{64} << 10;
// Of a session, not dealt with yet by the exchange thread, however long that is busy with something
// else. Some frames of data, so that the next is there when one is done with.
inline constexpr size_t kMaxHeldBytes = size_t{8} << 20;
// Of names that wait to be listed: as many as a view may have.
inline constexpr size_t kMostWaiting = 4096;

class PeerSessions {
 public:
  struct Options {
    std::string job;
    MemberId me;
    uint64_t seed = 0;  // of the jitter
    Duration connect_timeout = std::chrono::seconds(1);
    Duration greeting_timeout = std::chrono::seconds(5);  // then a silent session is closed
    Duration waits = kDefaultLease;                       // so long who is not listed yet
    size_t most_waiting = kMostWaiting;
    size_t held_bytes = kMaxHeldBytes;  // of a session that we make
  };
  // `events` gets what happens; `next_id` gives session ids that are unique in the process.
  PeerSessions(Transport& transport, std::shared_ptr<EventBox> events,
               std::shared_ptr<std::atomic<LinkId>> next_id, Options options);
  ~PeerSessions();

  // What an acceptor does with a new session: any thread, before this object exists too.
  static Acceptor AcceptInto(std::shared_ptr<EventBox> events,
                             std::shared_ptr<std::atomic<LinkId>> next_id,
                             size_t held_bytes = kMaxHeldBytes);

  // Keeps sessions with exactly these peers (ourselves left out): connects to the missing ones and
  // closes all others. Whoever of them waits greets again, as an event. Returns the peers that are
  // down now.
  std::vector<MemberId> Hold(const std::vector<ViewMember>& peers, Time now);

  // What an event led to: a peer's session went down, came up (both, where a newer session replaced
  // it), or a message came; all empty: nothing that concerns the caller.
  struct News {
    std::optional<MemberId> down;
    std::optional<MemberId> up;
    std::optional<MemberId> said;
    PeerMessage message;  // with `said`
    Payload payload;
    Receipt receipt = nullptr;  // kept until the message is dealt with
  };
  void Accept(SessionAccepted accepted, Time now);
  News Handle(FrameCame came, Time now);
  News Handle(const SessionBroke& broke, Time now);

  bool Up(const MemberId& peer) const { return Find(peer) != nullptr; }
  void Send(const MemberId& peer, Frame frame);  // dropped when there is no session
  // Closes; the peer is down from now on. It may connect again.
  void Break(const MemberId& peer, const absl::Status& why, Time now);
  // Reconnects what is due and closes what never greeted, or waited for too long.
  void Tick(Time now);
  Time NextTick() const;  // Time::max(): nothing is due
  size_t QueuedBytes() const;
  int64_t refused() const { return refused_; }  // frames that made us close a session

 private:
  // Has greeted, and is not listed. The receipt of its greeting keeps all behind it unread.
  struct Waiting {
    MemberId who;
    Frame greeting;
    Time until;
  };
  struct Link {
    std::shared_ptr<Session> session;
    std::optional<MemberId> dialed;   // whom we connected to
    std::optional<MemberId> greeted;  // who it is
    Time since;
    std::optional<Waiting> waits = {};
  };
  struct Listed {
    ViewMember member;
    Backoff backoff;
    std::optional<Time> connect_at;  // we connect, and no session or attempt exists
  };

  bool WeConnect(const MemberId& peer) const { return options_.me < peer; }
  void Connect(Listed& listed, Time now);
  const Link* Find(const MemberId& peer) const;
  News Greet(LinkId id, Link& link, const Hello& hello);
  News LetWait(LinkId id, Link& link, Waiting waiting);
  void LetIn(const std::set<MemberId>& wanted);
  News Refuse(Link& link, const absl::Status& why);
  absl::Status CheckHello(const Link& link, const Hello& hello) const;
  void CloseLink(LinkId id, const absl::Status& why);
  void Schedule(const MemberId& peer, Time now);

  Transport& transport_;
  const std::shared_ptr<EventBox> events_;
  const std::shared_ptr<std::atomic<LinkId>> next_id_;
  const Options options_;
  std::map<LinkId, Link> links_;
  std::map<MemberId, LinkId> up_;
  std::map<MemberId, Listed> listed_;
  std::map<MemberId, LinkId> waiting_;
  int64_t refused_ = 0;
  LimitedLog refusals_;  // of strangers, too
};

}  // namespace muster
