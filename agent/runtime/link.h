// The agent's session with the coordinator: made again whenever it breaks, for as long as this
// lives. On the loop's thread; transport threads only post.
//
// A session counts as up once the coordinator's first word arrives: it answers AgentHello with
// Wanted. What is sent before is dropped, because the supervisor tells what matters again
// (SessionUp).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/runtime/event_loop.h"
#include "agent/state/obedience.h"
#include "lib/base/address_list.h"
#include "lib/base/mutex.h"
#include "lib/base/name_lookup.h"
#include "lib/domain/message.h"
#include "lib/transport/transport.h"

namespace muster::agent {

struct LinkEvents {
  std::function<void()> on_up;
  std::function<void(const Wanted&)> on_wanted;        // after on_up
  std::function<void(const MemberSigned&)> on_signed;  // both after on_up, too; may be null
  std::function<void(const SignRefused&)> on_sign_refused;
  std::function<void(const AuthorityIs&)> on_authority;  // likewise
  std::function<void(const absl::Status&)> on_down;      // an up session broke
  std::function<void(const absl::Status&)> on_failed;    // a try to get one; may be null
  // A coordinator is to be obeyed of which the folder of this host does not know yet: all that it
  // is to know. Before on_up; may be null.
  std::function<void(const KnownTerms&)> on_new_term;
  // Before each try, with the numeric address; an error is the failure of that try. May be null.
  std::function<absl::Status(const std::string& address)> on_try;
};

class CoordinatorLink {
 public:
  // `address`: one, or a list of those at which the coordinator may be; while none answers they are
  // tried in turn, and names are looked up anew each time. `hello`: what we say first in each
  // session. `known`: which coordinators agents of this folder have obeyed before.
  CoordinatorLink(EventLoop& loop, Transport& transport, std::string address, AgentHello hello,
                  LinkEvents events, KnownTerms known = {}, NameLookup names = NameLookup());
  ~CoordinatorLink();
  CoordinatorLink(const CoordinatorLink&) = delete;
  CoordinatorLink& operator=(const CoordinatorLink&) = delete;

  void Start();
  // The coordinator listens there from now on.
  void GoTo(const std::string& address);
  // Does nothing while no session is up: the supervisor tells it again when one is.
  void SendExit(const ProcessExited& exited);
  void SendEnds();                                // likewise
  void SendQuestion(const SignMember& question);  // likewise, who asks asks again
  void SendTrusts(const AgentTrusts& trusts);     // likewise
  // Likewise; each new session begins with the newest ones, too.
  void SendDevices(const std::vector<HostDevice>& devices);
  // Likewise, and nobody tells it again.
  void SendLog(const LogLines& lines);
  // What the network has not taken yet.
  size_t QueuedBytes() const { return up_ ? session_->QueuedBytes() : 0; }
  bool up() const { return up_; }
  // For the members that start here: the list, first what answered last, and of which cluster that
  // was (empty: none has answered).
  std::string FromWhatAnswered() const { return addresses_.FromWhatAnswered(); }
  const std::string& cluster() const { return obedience_.cluster(); }

 private:
  // Where answers of lookups, which may outlive us and the loop, are brought.
  struct Ear {
    Mutex mutex;
    EventLoop* loop ABSL_GUARDED_BY(mutex) = nullptr;  // null: nobody listens any more
  };

  void Connect();
  void LookUp(const std::string& name);
  void OnFound(int64_t session_number, const absl::StatusOr<std::vector<std::string>>& found);
  void BeginSession(const std::string& address);
  void EndTry(const absl::Status& why);
  void OnFrame(int64_t session_number, const Frame& frame);
  void On(const Wanted& wanted);
  void On(const MemberSigned& answer) const;
  void On(const SignRefused& refused) const;
  void On(const AuthorityIs& authority) const;
  void OnBroken(int64_t session_number, const absl::Status& why);

  EventLoop& loop_;
  Transport& transport_;
  NameLookup names_;
  AddressRound addresses_;
  AgentHello hello_;
  const LinkEvents events_;
  // Calls that transport threads posted do nothing once this is gone.
  std::shared_ptr<CoordinatorLink*> self_;
  const std::shared_ptr<Ear> ear_;
  std::shared_ptr<Session> session_;
  int64_t session_number_ = 0;  // what older sessions, and their lookups, still post is stale
  bool up_ = false;
  Obedience obedience_;
  Duration pause_{};
  std::optional<EventLoop::TimerId> timer_;  // for the next try, or for the end of a lookup
};

}  // namespace muster::agent
