#include "lib/member/runtime/coordinator_link.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/lease.h"
#include "lib/base/printable.h"
#include "lib/base/speaks.h"
#include "lib/base/status.h"
#include "lib/log/log.h"
#include "lib/wire/message_codec.h"

namespace muster {
namespace {

constexpr Duration kLookupTimeout = std::chrono::seconds(10);  // a resolver tries several servers

}  // namespace

CoordinatorLink::CoordinatorLink(Transport& transport, std::string address, std::string cluster,
                                 std::shared_ptr<EventBox> events,
                                 std::shared_ptr<std::atomic<LinkId>> next_id, uint64_t seed,
                                 NameLookup names)
    : transport_(transport),
      names_(std::move(names)),
      addresses_(address),
      cluster_(std::move(cluster)),
      events_(std::move(events)),
      next_id_(std::move(next_id)),
      backoff_(seed) {}

CoordinatorLink::~CoordinatorLink() {
  if (session_) session_->Close(absl::CancelledError("the member leaves"));
}

bool CoordinatorLink::Connect(Time now) {
  if (away_since_ == Time()) away_since_ = now;
  connect_at_ = Time::max();
  const std::optional<std::string> name = addresses_.NameToLookUp();
  if (!name) {
    BeginSession(addresses_.current(), now);
    return true;
  }
  id_ = next_id_->fetch_add(1);
  lookup_ends_at_ = now + kLookupTimeout;
  names_.Ask(*name, [events = events_, id = id_](auto found) {
    events->Post(AddressesFound{id, std::move(found)});
  });
  return false;
}

bool CoordinatorLink::Handle(const AddressesFound& answer, Time now) {
  if (answer.id != id_ || lookup_ends_at_ == Time::max()) return false;  // it came too late
  if (!answer.found.ok()) {
    EndTry(answer.found.status(), now);
    return false;
  }
  BeginSession(addresses_.Choose(*answer.found), now);
  return true;
}

void CoordinatorLink::BeginSession(const std::string& address, Time now) {
  lookup_ends_at_ = Time::max();
  heard_ = false;
  is_ours_ = true;
  is_replaced_ = false;
  began_ = now;
  id_ = next_id_->fetch_add(1);
  session_ = transport_.Connect(address, kCoordinatorConnectTimeout,
                                {.on_frame =
                                     [events = events_, id = id_](Frame frame) {
                                       events->Post(FrameCame{id, std::move(frame)});
                                     },
                                 .on_broken =
                                     [events = events_, id = id_](absl::Status why) {
                                       events->Post(SessionBroke{id, std::move(why)});
                                     },
                                 .expected = CoordinatorPeer{}});
  session_->Admit();  // we know whom we called
}

void CoordinatorLink::Send(const ToCoordinator& message) {
  if (session_) session_->Send({Encode(message), Payload()});
}

absl::StatusOr<FromCoordinator> CoordinatorLink::Handle(const FrameCame& came) {
  absl::StatusOr<FromCoordinator> message = DecodeFromCoordinator(came.frame.header);
  if (!message.ok()) {
    session_->Close(message.status());
    return Prefix("what came from the coordinator", message.status());
  }
  const std::string cluster = ClusterOf(*message);
  if (!cluster.empty() && !cluster_.empty() && cluster != cluster_) {
    is_ours_ = false;
    if (std::exchange(met_, cluster) != cluster)
      LogWarning("the coordinator at %s belongs to cluster %s, this member to %s: it is not heard",
                 addresses_.current(), Cut(Printable(met_)), cluster_);
  }
  if (!is_ours_) {
    const absl::Status why =
        absl::FailedPreconditionError("its coordinator is of another cluster than this member");
    session_->Close(why);
    return why;
  }
  // A Leave may come from one that does not know our job: what it belongs to does not bind us.
  if (cluster_.empty() && std::holds_alternative<JobIs>(*message)) cluster_ = cluster;
  if (TermOf(*message) < earliest_) {
    is_replaced_ = true;
    const absl::Status why = absl::FailedPreconditionError(
        absl::StrCat("the coordinator at ", addresses_.current(),
                     " has been replaced: it is of term ", TermOf(*message).value(),
                     ", and this process was started by one of term ", earliest_.value()));
    if (!std::exchange(replaced_told_, true)) LogWarning("%s: it is not heard", why.message());
    session_->Close(why);
    return why;
  }
  if (std::exchange(down_told_, false))
    LogInfo("the coordinator at %s is back", addresses_.current());
  if (addresses_.Answers()) LogInfo("the coordinator is at %s", addresses_.current());
  refusal_told_.clear();
  backoff_.Reset();
  heard_ = true;
  return message;
}

void CoordinatorLink::Handle(const SessionBroke& broke, Time now) {
  refused_.clear();
  if (!heard_ && IsRefusedAsInvalid(broke.why))
    refused_ = absl::StrCat("the coordinator cannot take what this process says of itself or its ",
                            "job: ", broke.why.message());
  EndTry(broke.why, now);
}

// That one is there and does not understand us is said also after it was away.
void CoordinatorLink::SayWhyNone(const absl::Status& why) {
  const std::string text = why.ToString();
  const bool refuses = SaysNotUnderstood(text);
  const bool is_new = refuses && std::exchange(refusal_told_, text) != text;
  if (!std::exchange(down_told_, true))
    LogWarning("no coordinator at %s: %s; training goes on, and we try to connect again",
               addresses_.All(), text);
  else if (is_new)
    LogWarning("the coordinator at %s does not hear this member: %s; we try again",
               addresses_.current(), text);
}

void CoordinatorLink::EndTry(const absl::Status& why, Time now) {
  SayWhyNone(why);
  // One that answered is most likely to come back where it was, so that is tried first.
  if (IsOpen(now)) {
    away_since_ = now;
  } else {
    addresses_.GoOn(/*met_another=*/!is_ours_);
  }
  session_.reset();
  is_ours_ = true;
  lookup_ends_at_ = Time::max();
  connect_at_ = now + backoff_.Next();
}

std::string CoordinatorLink::WhyNoneIsOurs() const {
  if (!addresses_.OthersEverywhere()) return "";
  return absl::StrCat("the coordinator belongs to cluster ", Cut(Printable(met_)),
                      ", this member to ", cluster_);
}

bool CoordinatorLink::IsOpen(Time now) const {
  if (session_ == nullptr || !is_ours_ || is_replaced_) return false;
  return heard_ || now - began_ > 2 * kCoordinatorConnectTimeout;
}

bool CoordinatorLink::Tick(Time now) {
  if (lookup_ends_at_ <= now) {
    EndTry(absl::DeadlineExceededError("its name was not found within 10 s"), now);
    return false;
  }
  return connect_at_ <= now && Connect(now);
}

}  // namespace muster
