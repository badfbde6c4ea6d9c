// What the reader of a stream and the coordinator say to each other (docs/decisions/0112): the
// reader joins in each session, and the coordinator then says from where it goes on. What is to be
// read, and what is safe, the StreamReader decides, which hears what is passed on to it. In no
// view. Deterministic, single-threaded, no clock; lib/member/runtime/reader_exchange acts. Lives as
// long as its process.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "lib/domain/message.h"
#include "lib/member/state/actions.h"
#include "lib/member/state/config.h"
#include "lib/member/state/obeyed.h"

namespace muster {

// Spooled: as the StreamReader tells it.
using StreamSessionInput = std::variant<CoordinatorUp, CoordinatorSays, Spooled>;

using ToStreamReader = std::variant<SpoolFrom, AckSpooled>;
struct GiveReader {
  ToStreamReader message;
};
using StreamSessionAction = std::variant<TellCoordinator, GiveReader, Quit>;

class StreamSession {
 public:
  explicit StreamSession(MemberConfig config) : config_(std::move(config)) {}

  std::vector<StreamSessionAction> Handle(const StreamSessionInput& input);

  // So many samples are safe, as the coordinator has said.
  uint64_t positions() const { return positions_; }
  // It has said so in this session.
  bool begun() const { return begun_; }
  std::string Phase() const;  // for people

 private:
  using Actions = std::vector<StreamSessionAction>;

  void On(const CoordinatorUp&, Actions& out);
  void On(const CoordinatorSays& says, Actions& out);
  void On(const Spooled& spooled, Actions& out);
  void On(const JobIs& job, Actions& out);
  void On(const SpoolFrom& from, Actions& out);
  void On(const AckSpooled& ack, Actions& out);
  void On(const Leave& leave, Actions& out);
  // The rest is for others.
  template <class M>
  void On(const M&, Actions&) {}

  const MemberConfig config_;
  Obeyed obeyed_;
  uint64_t positions_ = 0;
  bool begun_ = false;
};

}  // namespace muster
