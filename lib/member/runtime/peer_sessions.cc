#include "lib/member/runtime/peer_sessions.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/hash.h"
#include "lib/base/status.h"
#include "lib/log/log.h"
#include "lib/wire/message_codec.h"

namespace muster {
namespace {

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
  return down;
}

void PeerSessions::Connect(Listed& listed, Time now) {
  listed.connect_at.reset();
  const LinkId id = next_id_->fetch_add(1);
  Link link{nullptr, listed.member.id, std::nullopt, now};
  link.session = transport_.Connect(listed.member.address, options_.connect_timeout,
                                    PostInto(events_, id, options_.held_bytes));
  link.session->Send(
      {Encode(PeerMessage(Hello{options_.job, options_.me, listed.member.id})), Payload()});
  links_.emplace(id, std::move(link));
}

void PeerSessions::Accept(SessionAccepted accepted, Time now) {
  links_.emplace(accepted.id, Link{std::move(accepted.session), std::nullopt, std::nullopt, now});
}

PeerSessions::News PeerSessions::Handle(FrameCame came) {
  const auto it = links_.find(came.id);
  if (it == links_.end()) return {};
  Link& link = it->second;
  if (!link.greeted) {
    const absl::StatusOr<Hello> hello = DecodeHello(came.frame.header);
    return hello.ok() ? Greet(came.id, link, *hello) : Refuse(link, hello.status());
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

PeerSessions::News PeerSessions::Greet(LinkId id, Link& link, const Hello& hello) {
  if (absl::Status problem = CheckHello(link, hello); !problem.ok()) {
    ++refused_;
    refusals_.Warn("session with %s closed: %s", link.session->Peer(), problem.ToString());
    link.session->Close(problem);
    return {};
  }
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
  for (const auto& [id, link] : links_)
    if (!link.greeted && link.since + options_.greeting_timeout <= now) silent.push_back(id);
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
    if (!link.greeted) next = std::min(next, link.since + options_.greeting_timeout);
  return next;
}

size_t PeerSessions::QueuedBytes() const {
  size_t bytes = 0;
  for (const auto& [id, link] : links_) bytes += link.session->QueuedBytes();
  return bytes;
}

}  // namespace muster
