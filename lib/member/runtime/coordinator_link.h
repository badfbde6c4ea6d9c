// The session to the coordinator: kept up for ever, with growing waits between attempts; steps go
// on without it. Exchange thread only.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>

#include "lib/base/address_list.h"
#include "lib/base/backoff.h"
#include "lib/base/name_lookup.h"
#include "lib/domain/message.h"
#include "lib/member/runtime/events.h"
#include "lib/transport/transport.h"

namespace muster {

class CoordinatorLink {
 public:
  // `address`: one, or a list of those at which the coordinator may be; while none answers they are
  // tried in turn, and names are looked up anew each time. `cluster`: of the coordinator; empty: of
  // the first that tells a job. What another one says is not heard.
  CoordinatorLink(Transport& transport, std::string address, std::string cluster,
                  std::shared_ptr<EventBox> events, std::shared_ptr<std::atomic<LinkId>> next_id,
                  uint64_t seed, NameLookup names = NameLookup());
  ~CoordinatorLink();

  // What one of an earlier term says is not heard: it has been replaced and does not know it.
  void HearFrom(TermNumber earliest) { earliest_ = earliest; }

  // True when a session was begun; else a name is looked up first.
  bool Connect(Time now);
  bool Owns(LinkId id) const { return session_ != nullptr && id == id_; }
  // Null while there is none.
  const std::shared_ptr<Session>& session() const { return session_; }
  // Queued while the session is being set up, dropped while there is none.
  void Send(const ToCoordinator& message);
  // kInvalidArgument: not a message; kFailedPrecondition: of another cluster or an earlier term.
  // The session is closed.
  absl::StatusOr<FromCoordinator> Handle(const FrameCame& came);
  void Handle(const SessionBroke& broke, Time now);
  // True when a new session was begun: the member introduces itself again.
  bool Handle(const AddressesFound& answer, Time now);
  bool Tick(Time now);  // likewise
  Time NextTick() const { return std::min(connect_at_, lookup_ends_at_); }
  // How long there has been no session; zero while there is one, however silent it is.
  Duration Away(Time now) const { return IsOpen(now) ? Duration() : now - away_since_; }
  // Not empty when the last session ended before anything came in it, as the coordinator cannot
  // take what this process says of itself: it says the same each time. Of one that is of another
  // version, and may be changed back, it is empty.
  const std::string& WhyRefused() const { return refused_; }
  // Not empty when coordinators of other clusters answer at all addresses, and nobody else.
  std::string WhyNoneIsOurs() const;

 private:
  // A transport does not tell when it has connected. We take the session for open when a message
  // came, or when the time to connect has passed without an error.
  bool IsOpen(Time now) const;
  void BeginSession(const std::string& address, Time now);
  void EndTry(const absl::Status& why, Time now);
  void SayWhyNone(const absl::Status& why);

  Transport& transport_;
  NameLookup names_;
  AddressRound addresses_;
  std::string cluster_;  // that we obey; empty: not known yet
  const std::shared_ptr<EventBox> events_;
  const std::shared_ptr<std::atomic<LinkId>> next_id_;
  Backoff backoff_;
  std::shared_ptr<Session> session_;
  LinkId id_ = 0;  // of the session, or of the lookup before it
  TermNumber earliest_;
  bool heard_ = false;   // a message came in this session
  std::string met_;      // the other cluster whose coordinator answered in this or the last one
  bool is_ours_ = true;  // the one of this session, as far as is known
  bool is_replaced_ = false;    // the one of this session, as far as is known
  bool replaced_told_ = false;  // the log knows of one
  Time began_{};                // of this session
  Time away_since_{};           // while none is open
  bool down_told_ = false;      // the log knows that the coordinator is away
  std::string refused_;         // as WhyRefused says
  std::string refusal_told_;    // why one does not hear us, as the log knows
  Time connect_at_ = Time::max();
  Time lookup_ends_at_ = Time::max();
};

}  // namespace muster
