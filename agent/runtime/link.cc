#include "agent/runtime/link.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/printable.h"
#include "lib/log/log.h"
#include "lib/wire/message_codec.h"

namespace muster::agent {
namespace {

constexpr Duration kConnectTimeout = std::chrono::seconds(2);
constexpr Duration kFirstPause = std::chrono::milliseconds(50);
constexpr Duration kLongestPause = std::chrono::milliseconds(500);

Frame FrameOf(const FromAgent& message) { return {.header = Encode(message), .payload = {}}; }

}  // namespace

CoordinatorLink::CoordinatorLink(EventLoop& loop, Transport& transport, std::string address,
                                 AgentHello hello, LinkEvents events)
    : loop_(loop),
      transport_(transport),
      addresses_(address),
      hello_(std::move(hello)),
      events_(std::move(events)),
      self_(std::make_shared<CoordinatorLink*>(this)),
      pause_(kFirstPause) {}

CoordinatorLink::~CoordinatorLink() {
  if (timer_) loop_.Cancel(*timer_);
  self_.reset();
  session_.reset();
}

void CoordinatorLink::Start() { Connect(); }

// Whoever answers at the old one is somebody else.
void CoordinatorLink::GoTo(const std::string& address) {
  addresses_ = AddressRound(address);
  if (session_ == nullptr) return;  // not started yet
  if (timer_) loop_.Cancel(*timer_);
  if (std::exchange(up_, false)) events_.on_down(absl::CancelledError("it listens elsewhere now"));
  pause_ = kFirstPause;
  Connect();
}

void CoordinatorLink::Connect() {
  timer_.reset();
  const int64_t number = ++session_number_;
  const auto post = [&loop = loop_, weak = std::weak_ptr(self_)](auto call) {
    loop.Post([weak, call = std::move(call)] {
      if (const auto self = weak.lock()) call(**self);
    });
  };
  session_ =
      transport_.Connect(addresses_.current(), kConnectTimeout,
                         {.on_frame =
                              [post, number](Frame frame) {
                                post([number, frame = std::move(frame)](CoordinatorLink& link) {
                                  link.OnFrame(number, frame);
                                });
                              },
                          .on_broken =
                              [post, number](absl::Status why) {
                                post([number, why = std::move(why)](CoordinatorLink& link) {
                                  link.OnBroken(number, why);
                                });
                              }});
  session_->Admit();  // we know whom we called
  session_->Send(FrameOf(hello_));
}

void CoordinatorLink::OnFrame(int64_t session_number, const Frame& frame) {
  if (session_number != session_number_) return;
  const auto message = DecodeToAgent(frame.header);
  if (!message.ok()) {
    LogWarning("a message of the coordinator cannot be read: %s", message.status().message());
    session_->Close(message.status());
    return;
  }
  const Wanted& wanted = std::get<Wanted>(*message);
  if (const std::string why = WhyNotObeyed(wanted); !why.empty()) {
    LogWarning("%s: it is not obeyed", why);
    return session_->Close(absl::FailedPreconditionError(why));
  }
  cluster_ = wanted.cluster;
  term_ = wanted.term;
  pause_ = kFirstPause;
  if (!std::exchange(up_, true)) {
    if (addresses_.Answers()) LogInfo("the coordinator is at %s", addresses_.current());
    events_.on_up();
  }
  events_.on_wanted(wanted);
}

// One that was replaced, and does not know it yet, would end what its successor wants.
std::string CoordinatorLink::WhyNotObeyed(const Wanted& wanted) const {
  if (!cluster_.empty() && wanted.cluster != cluster_)
    return absl::StrCat("the coordinator at ", addresses_.current(), " is of another cluster (",
                        Cut(Printable(wanted.cluster)), ") than the one before (", cluster_, ")");
  if (wanted.term < term_)
    return absl::StrCat("the coordinator at ", addresses_.current(),
                        " has been replaced: it is of term ", wanted.term.value(),
                        ", and a later one of term ", term_.value(), " was heard");
  return "";
}

void CoordinatorLink::OnBroken(int64_t session_number, const absl::Status& why) {
  if (session_number != session_number_ || timer_) return;
  // One that answered is most likely to come back where it was, so that is tried first.
  if (std::exchange(up_, false)) {
    events_.on_down(why);
  } else {
    addresses_.GoOn();
    if (events_.on_failed) events_.on_failed(why);
  }
  timer_ = loop_.At(std::chrono::steady_clock::now() + pause_, [this] { Connect(); });
  pause_ = std::min(pause_ * 2, kLongestPause);
}

void CoordinatorLink::SendExit(const ProcessExited& exited) {
  if (up_) session_->Send(FrameOf(exited));
}

void CoordinatorLink::SendEnds() {
  if (up_) session_->Send(FrameOf(AgentEnds{}));
}

void CoordinatorLink::SendLog(const LogLines& lines) {
  if (up_) session_->Send(FrameOf(lines));
}

}  // namespace muster::agent
