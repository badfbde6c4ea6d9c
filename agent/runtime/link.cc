#include "agent/runtime/link.h"

#include <algorithm>
#include <utility>

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
      address_(std::move(address)),
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
  address_ = address;
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
      transport_.Connect(address_, kConnectTimeout,
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
  pause_ = kFirstPause;
  if (!std::exchange(up_, true)) events_.on_up();
  events_.on_wanted(std::get<Wanted>(*message));
}

void CoordinatorLink::OnBroken(int64_t session_number, const absl::Status& why) {
  if (session_number != session_number_ || timer_) return;
  if (std::exchange(up_, false)) {
    events_.on_down(why);
  } else if (events_.on_failed) {
    events_.on_failed(why);
  }
  timer_ = loop_.At(std::chrono::steady_clock::now() + pause_, [this] { Connect(); });
  pause_ = std::min(pause_ * 2, kLongestPause);
}

void CoordinatorLink::SendExit(const ProcessExited& exited) {
  if (up_) session_->Send(FrameOf(exited));
}

}  // namespace muster::agent
