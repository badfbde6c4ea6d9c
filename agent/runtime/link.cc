#include "agent/runtime/link.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "lib/base/speaks.h"
#include "lib/base/time.h"
#include "lib/log/log.h"
#include "lib/wire/message_codec.h"

namespace muster::agent {
namespace {

constexpr Duration kConnectTimeout = std::chrono::seconds(2);
constexpr Duration kLookupTimeout = std::chrono::seconds(10);  // a resolver tries several servers
constexpr Duration kFirstPause = std::chrono::milliseconds(50);
constexpr Duration kLongestPause = std::chrono::milliseconds(500);

Frame FrameOf(const FromAgent& message) { return {.header = Encode(message), .payload = {}}; }

}  // namespace

CoordinatorLink::CoordinatorLink(EventLoop& loop, Transport& transport, std::string address,
                                 AgentHello hello, LinkEvents events, KnownTerms known,
                                 NameLookup names)
    : loop_(loop),
      transport_(transport),
      names_(std::move(names)),
      addresses_(address),
      hello_(std::move(hello)),
      events_(std::move(events)),
      self_(std::make_shared<CoordinatorLink*>(this)),
      ear_(std::make_shared<Ear>()),
      obedience_(std::move(known)),
      pause_(kFirstPause) {
  const MutexLock lock(ear_->mutex);
  ear_->loop = &loop_;
}

CoordinatorLink::~CoordinatorLink() {
  {
    const MutexLock lock(ear_->mutex);
    ear_->loop = nullptr;
  }
  if (timer_) loop_.Cancel(*timer_);
  self_.reset();
  session_.reset();
}

void CoordinatorLink::Start() { Connect(); }

// Whoever answers at the old one is somebody else.
void CoordinatorLink::GoTo(const std::string& address) {
  addresses_ = AddressRound(address);
  if (session_number_ == 0) return;  // not started yet
  if (timer_) loop_.Cancel(*timer_);
  if (std::exchange(up_, false)) events_.on_down(absl::CancelledError("it listens elsewhere now"));
  pause_ = kFirstPause;
  Connect();
}

void CoordinatorLink::Connect() {
  timer_.reset();
  ++session_number_;
  session_.reset();
  if (const std::optional<std::string> name = addresses_.NameToLookUp()) return LookUp(*name);
  BeginSession(addresses_.current());
}

void CoordinatorLink::LookUp(const std::string& name) {
  const int64_t number = session_number_;
  timer_ = loop_.At(std::chrono::steady_clock::now() + kLookupTimeout, [this, number, name] {
    OnFound(number,
            absl::DeadlineExceededError(absl::StrCat("the name ", name, " was not found within ",
                                                     Seconds(kLookupTimeout), " s")));
  });
  names_.Ask(name, [ear = ear_, weak = std::weak_ptr(self_), number](auto found) {
    const MutexLock lock(ear->mutex);
    if (ear->loop == nullptr) return;
    ear->loop->Post([weak, number, found = std::move(found)] {
      if (const auto self = weak.lock()) (*self)->OnFound(number, found);
    });
  });
}

void CoordinatorLink::OnFound(int64_t session_number,
                              const absl::StatusOr<std::vector<std::string>>& found) {
  if (session_number != session_number_) return;
  if (timer_) loop_.Cancel(*timer_);
  timer_.reset();
  ++session_number_;  // the answer, or the end of waiting for it, that comes later is stale
  if (!found.ok()) return EndTry(found.status());
  BeginSession(addresses_.Choose(*found));
}

void CoordinatorLink::BeginSession(const std::string& address) {
  if (events_.on_try)
    if (const absl::Status may = events_.on_try(address); !may.ok()) return EndTry(may);
  const int64_t number = session_number_;
  const auto post = [&loop = loop_, weak = std::weak_ptr(self_)](auto call) {
    loop.Post([weak, call = std::move(call)] {
      if (const auto self = weak.lock()) call(**self);
    });
  };
  session_ =
      transport_.Connect(address, kConnectTimeout,
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
                              },
                          .expected = CoordinatorPeer{}});
  session_->Admit();  // we know whom we called
  hello_.now_unix_ms = absl::ToUnixMillis(absl::Now());
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
  std::visit([this](const auto& said) { On(said); }, *message);
}

void CoordinatorLink::On(const MemberSigned& answer) const {
  if (up_ && events_.on_signed) events_.on_signed(answer);
}

void CoordinatorLink::On(const SignRefused& refused) const {
  if (up_ && events_.on_sign_refused) events_.on_sign_refused(refused);
}

void CoordinatorLink::On(const AuthorityIs& authority) const {
  if (up_ && events_.on_authority) events_.on_authority(authority);
}

void CoordinatorLink::On(const Wanted& wanted) {
  // Whoever hears of each try that failed says it, once.
  if (const std::string why =
          WhyNotUnderstood(absl::StrCat("the coordinator at ", addresses_.current()), wanted.speaks,
                           absl::StrCat("host ", hello_.agent.host), Speaks{});
      !why.empty())
    return session_->Close(absl::FailedPreconditionError(why));
  if (const std::string what = obedience_.WhyNot(wanted); !what.empty()) {
    const std::string why = absl::StrCat("the coordinator at ", addresses_.current(), " ", what);
    LogWarning("%s: it is not obeyed", why);
    return session_->Close(absl::FailedPreconditionError(why));
  }
  if (obedience_.Obey(wanted) && events_.on_new_term) events_.on_new_term(obedience_.known());
  pause_ = kFirstPause;
  if (!std::exchange(up_, true)) {
    if (addresses_.Answers()) LogInfo("the coordinator is at %s", addresses_.current());
    events_.on_up();
  }
  events_.on_wanted(wanted);
}

void CoordinatorLink::OnBroken(int64_t session_number, const absl::Status& why) {
  if (session_number != session_number_ || timer_) return;
  EndTry(why);
}

void CoordinatorLink::EndTry(const absl::Status& why) {
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

void CoordinatorLink::SendDevices(const std::vector<HostDevice>& devices) {
  hello_.devices = devices;
  if (up_) session_->Send(FrameOf(DevicesHeld{devices}));
}

void CoordinatorLink::SendQuestion(const SignMember& question) {
  if (up_) session_->Send(FrameOf(question));
}

void CoordinatorLink::SendTrusts(const AgentTrusts& trusts) {
  if (up_) session_->Send(FrameOf(trusts));
}

void CoordinatorLink::SendLog(const LogLines& lines) {
  if (up_) session_->Send(FrameOf(lines));
}

}  // namespace muster::agent
