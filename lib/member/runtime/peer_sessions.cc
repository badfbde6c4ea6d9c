#include "lib/member/runtime/peer_sessions.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/hash.h"
#include "lib/base/status.h"
#include "lib/identity/may_say.h"
#include "lib/log/log.h"
#include "lib/wire/message_codec.h"
#include "lib/wire/reader.h"

namespace muster {
namespace {

static_assert(kMostWaiting == kMaxMembers);

// A break comes behind the frames that came before it: they may be the last of a member that died.
SessionHandler PostInto(std::shared_ptr<EventBox> events, LinkId id, size_t held_bytes) {
  return {.on_frame =
              [events, id](Frame frame) {
                events->PostBehind(FrameCame{id, std::move(frame)});
              },
          .on_broken =
              [events, id](absl::Status why) {
                events->PostBehind(SessionBroke{id, std::move(why)});
              },
          .inbound = {.first_frame = kMaxGreetingBytes, .held = held_bytes}};
}

// Of a greeting that waits no more is kept than it says, and its receipt.
Frame WhatCounts(const Hello& hello, Frame frame) {
  return {.header = Encode(PeerMessage(hello)), .payload = {}, .receipt = std::move(frame.receipt)};
}

std::string NameOf(const MemberId& id) {
  return absl::StrCat(id.name, " (", ToHex(id.incarnation).substr(0, 8), ")");
}

}  // namespace

PeerSessions::PeerSessions(Transport& transport, std::shared_ptr<EventBox> events,
                           std::shared_ptr<std::atomic<LinkId>> next_id, Options options)
    : transport_(transport),
      events_(std::move(events)),
      next_id_(std::move(next_id)),
      options_(std::move(options)) {}

PeerSessions::~PeerSessions() {
  for (auto& [id, link] : links_) link.session->Close(absl::CancelledError("the member leaves"));
}

Acceptor PeerSessions::AcceptInto(std::shared_ptr<EventBox> events,
                                  std::shared_ptr<std::atomic<LinkId>> next_id, size_t held_bytes) {
  return [events, next_id, held_bytes](std::shared_ptr<Session> session) {
    const LinkId id = next_id->fetch_add(1);
    events->Post(SessionAccepted{id, std::move(session)});
    return PostInto(events, id, held_bytes);
  };
}

std::vector<MemberId> PeerSessions::Hold(const std::vector<ViewMember>& peers, Time now) {
  std::set<MemberId> wanted;
  for (const ViewMember& peer : peers) {
    if (peer.id == options_.me) continue;
    wanted.insert(peer.id);
    const auto [it, fresh] = listed_.try_emplace(
        peer.id, Listed{peer, Backoff(Mix64(options_.seed, HashBytes(peer.id.name))), {}});
    if (fresh && WeConnect(peer.id) && !Up(peer.id)) Connect(it->second, now);
  }
  std::vector<MemberId> down;
  std::vector<LinkId> unwanted;
  for (const auto& [id, link] : links_) {
    const std::optional<MemberId>& who = link.greeted ? link.greeted : link.dialed;
    if (who && wanted.count(*who) == 0) unwanted.push_back(id);
  }
  for (const auto& [peer, id] : up_)
    if (wanted.count(peer) == 0) down.push_back(peer);
  for (const MemberId& peer : down) up_.erase(peer);
  for (LinkId id : unwanted)
    CloseLink(id, absl::CancelledError("the view goes on without this member"));
  std::erase_if(listed_, [&](const auto& entry) { return wanted.count(entry.first) == 0; });
  LetIn(wanted);
  return down;
}

void PeerSessions::LetIn(const std::set<MemberId>& wanted) {
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    if (wanted.count(it->first) == 0) {
      ++it;
      continue;
    }
    Link& link = links_.at(it->second);
    events_->Post(FrameCame{it->second, std::move(link.waits->greeting)});
    link.waits.reset();
    it = waiting_.erase(it);
  }
}

void PeerSessions::Connect(Listed& listed, Time now) {
  listed.connect_at.reset();
  const LinkId id = next_id_->fetch_add(1);
  Link link{nullptr, listed.member.id, std::nullopt, now};
  SessionHandler handler = PostInto(events_, id, options_.held_bytes);
  handler.expected =
      ExpectedMember{options_.job, listed.member.id.name, listed.member.id.incarnation};
  link.session =
      transport_.Connect(listed.member.address, options_.connect_timeout, std::move(handler));
  link.session->Send(
      {Encode(PeerMessage(Hello{options_.job, options_.me, listed.member.id})), Payload()});
  links_.emplace(id, std::move(link));
}

void PeerSessions::Accept(SessionAccepted accepted, Time now) {
  links_.emplace(accepted.id, Link{std::move(accepted.session), std::nullopt, std::nullopt, now});
}

PeerSessions::News PeerSessions::Handle(FrameCame came, Time now) {
  const auto it = links_.find(came.id);
  if (it == links_.end()) return {};
  Link& link = it->second;
  if (!link.greeted) {
    const absl::StatusOr<Hello> hello = DecodeHello(came.frame.header);
    if (!hello.ok()) return Refuse(link, hello.status());
    if (const absl::Status problem = CheckHello(link, *hello); !problem.ok())
      return Refuse(link, problem);
    if (listed_.count(hello->from) == 0)
      return LetWait(
          came.id, link,
          {hello->from, WhatCounts(*hello, std::move(came.frame)), now + options_.waits});
    return Greet(came.id, link, *hello);
  }
  absl::StatusOr<PeerMessage> message = DecodePeerMessage(came.frame.header);
  if (!message.ok()) return Refuse(link, message.status());
  if (std::holds_alternative<Hello>(*message))
    return Refuse(link, absl::InvalidArgumentError("only the first frame may be a greeting"));
  return {.down = {},
          .up = {},
          .said = link.greeted,
          .message = *std::move(message),
          .payload = std::move(came.frame.payload),
          .receipt = std::move(came.frame.receipt)};
}

PeerSessions::News PeerSessions::Refuse(Link& link, const absl::Status& why) {
  ++refused_;
  refusals_.Warn("session with %s closed: %s", link.session->Peer(), why.ToString());
  News news{.down = link.greeted, .up = {}, .said = {}, .message = {}, .payload = {}};
  link.session->Close(why);  // its break, which we still wait for, schedules the next attempt
  if (link.greeted) up_.erase(*link.greeted);
  link.greeted.reset();
  return news;
}

absl::Status PeerSessions::CheckHello(const Link& link, const Hello& hello) const {
  if (const std::optional<PeerName> who = link.session->ProvenPeer())
    MUSTER_RETURN_IF_ERROR(MaySay(*who, PeerMessage(hello)));
  if (hello.job != options_.job)
    return absl::FailedPreconditionError(
        absl::StrCat("a member of job '", hello.job, "'; this one is of '", options_.job, "'"));
  if (hello.to != options_.me)
    return absl::FailedPreconditionError(
        absl::StrCat("its greeting is for ", NameOf(hello.to), ", not ", NameOf(options_.me)));
  if (link.dialed && hello.from != *link.dialed)
    return absl::FailedPreconditionError(absl::StrCat("we called ", NameOf(*link.dialed), ", but ",
                                                      NameOf(hello.from), " answered"));
  return absl::OkStatus();
}

// A view ahead of ours may have it, and then ours comes soon. One that was evicted waits in vain.
PeerSessions::News PeerSessions::LetWait(LinkId id, Link& link, Waiting waiting) {
  const auto older = waiting_.find(waiting.who);
  if (older == waiting_.end() && waiting_.size() >= options_.most_waiting)
    return Refuse(link, absl::ResourceExhaustedError(absl::StrCat(
                            waiting_.size(), " members wait already to be named by our view")));
  if (older != waiting_.end() && older->second != id)
    CloseLink(older->second, absl::CancelledError("a newer session replaces this one"));
  waiting_[waiting.who] = id;
  link.waits = std::move(waiting);
  return {};
}

PeerSessions::News PeerSessions::Greet(LinkId id, Link& link, const Hello& hello) {
  link.session->Admit();
  News news;
  if (const auto old = up_.find(hello.from); old != up_.end()) {
    news.down = hello.from;
    CloseLink(old->second, absl::CancelledError("a newer session replaces this one"));
  }
  link.greeted = hello.from;
  up_[hello.from] = id;
  if (const auto listed = listed_.find(hello.from); listed != listed_.end()) {
    listed->second.backoff.Reset();
    listed->second.connect_at.reset();
  }
  if (!link.dialed)
    link.session->Send(
        {Encode(PeerMessage(Hello{options_.job, options_.me, hello.from})), Payload()});
  news.up = hello.from;
  return news;
}

PeerSessions::News PeerSessions::Handle(const SessionBroke& broke, Time now) {
  const auto it = links_.find(broke.id);
  if (it == links_.end()) return {};
  Link link = std::move(it->second);
  links_.erase(it);
  if (link.waits) waiting_.erase(link.waits->who);
  News news;
  const std::optional<MemberId>& who = link.greeted ? link.greeted : link.dialed;
  if (!who) return news;
  if (link.greeted && up_.erase(*link.greeted) > 0) {
    news.down = link.greeted;
    LogInfo("session with %s broke: %s", NameOf(*who), broke.why.ToString());
  }
  Schedule(*who, now);
  return news;
}

void PeerSessions::Schedule(const MemberId& peer, Time now) {
  const auto it = listed_.find(peer);
  if (it == listed_.end() || !WeConnect(peer) || Up(peer)) return;
  it->second.connect_at = now + it->second.backoff.Next();
}

const PeerSessions::Link* PeerSessions::Find(const MemberId& peer) const {
  const auto up = up_.find(peer);
  return up == up_.end() ? nullptr : &links_.at(up->second);
}

void PeerSessions::Send(const MemberId& peer, Frame frame) {
  if (const Link* link = Find(peer)) link->session->Send(std::move(frame));
}

void PeerSessions::CloseLink(LinkId id, const absl::Status& why) {
  const auto it = links_.find(id);
  if (it == links_.end()) return;
  it->second.session->Close(why);
  if (it->second.waits) waiting_.erase(it->second.waits->who);
  links_.erase(it);  // its last events find no link
}

void PeerSessions::Break(const MemberId& peer, const absl::Status& why, Time now) {
  const auto up = up_.find(peer);
  if (up == up_.end()) return;
  ++refused_;
  const LinkId id = up->second;
  up_.erase(up);
  LogWarning("session with %s closed: %s", NameOf(peer), why.ToString());
  CloseLink(id, why);
  Schedule(peer, now);
}

void PeerSessions::Tick(Time now) {
  for (auto& [peer, listed] : listed_)
    if (listed.connect_at && *listed.connect_at <= now) Connect(listed, now);
  std::vector<LinkId> silent;
  std::vector<LinkId> in_vain;
  for (const auto& [id, link] : links_) {
    if (link.waits) {
      if (link.waits->until <= now) in_vain.push_back(id);
    } else if (!link.greeted && link.since + options_.greeting_timeout <= now) {
      silent.push_back(id);
    }
  }
  for (LinkId id : in_vain) {
    const Link& link = links_.at(id);
    const absl::Status why = absl::FailedPreconditionError(
        absl::StrCat("no view of ", NameOf(options_.me), " names ", NameOf(link.waits->who)));
    ++refused_;
    refusals_.Warn("session with %s closed: %s", link.session->Peer(), why.ToString());
    CloseLink(id, why);
  }
  for (LinkId id : silent) {
    const std::optional<MemberId> dialed = links_.at(id).dialed;
    CloseLink(id, absl::DeadlineExceededError("no greeting came"));
    if (dialed) Schedule(*dialed, now);
  }
}

Time PeerSessions::NextTick() const {
  Time next = Time::max();
  for (const auto& [peer, listed] : listed_)
    if (listed.connect_at) next = std::min(next, *listed.connect_at);
  for (const auto& [id, link] : links_)
    if (link.waits)
      next = std::min(next, link.waits->until);
    else if (!link.greeted)
      next = std::min(next, link.since + options_.greeting_timeout);
  return next;
}

size_t PeerSessions::QueuedBytes() const {
  size_t bytes = 0;
  for (const auto& [id, link] : links_) bytes += link.session->QueuedBytes();
  return bytes;
}

}  // namespace muster
