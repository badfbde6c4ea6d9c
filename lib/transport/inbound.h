// Inbound frames are weighed: a session reads on only while its receiver holds little of what it
// brought. Each frame that is handed over carries a receipt; the bytes come back when the last copy
// of it is dropped. Both transports keep their account with this.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace muster {

// Of one frame: as long as a copy lives, the receiver holds its bytes. Dropped on any thread, but
// with no lock held that is held while calling the transport: the session may read on then.
using Receipt = std::shared_ptr<const void>;

// What a frame weighs besides its bytes: about what its header takes when it is parsed.
inline constexpr size_t kFrameWeight = 1024;

// What a receiver may hold of one session. A session reads on while it is less, so it may be more
// by one frame.
struct InboundLimits {
  // Of one frame before Session::Admit. A larger one breaks the session; and the next is read when
  // nothing of the one before is held any more.
  size_t first_frame = SIZE_MAX;
  size_t held = size_t{8} << 20;  // once it is admitted
};

// The account of one session. Thread-safe, without a lock.
class InboundRoom : public std::enable_shared_from_this<InboundRoom> {
 public:
  // `read_on` is called once for each MayReadOn that said no, on the thread that makes room.
  explicit InboundRoom(std::function<void()> read_on) : read_on_(std::move(read_on)) {}

  // Before the first frame.
  void Limit(InboundLimits limits) {
    first_frame_ = limits.first_frame;
    most_held_ = limits.held;
    ReadOn();
  }
  // Of a frame that is about to be handed over.
  Receipt Hold(size_t bytes) {
    const size_t weight = bytes + kFrameWeight;
    held_ += weight;
    return std::make_shared<const Held>(shared_from_this(), weight);
  }
  // By the one that reads, before each read. False: not now; read_on will be called.
  bool MayReadOn() {
    if (HasRoom()) return true;
    waits_ = true;
    return HasRoom() && waits_.exchange(false);  // bytes came back in between
  }
  // kResourceExhausted: more than one who is not admitted yet may say.
  absl::Status CheckFirst(size_t bytes) const {
    const size_t most = first_frame_;
    if (admitted_ || bytes <= most) return absl::OkStatus();
    return absl::ResourceExhaustedError(
        absl::StrCat("a first frame of ", bytes, " bytes; at most ", most,
                     " are read of one who has not said who it is"));
  }
  // On any thread, also before the limits are said, while another closes it, or after.
  void Admit() {
    admitted_ = true;
    ReadOn();
  }
  // The session is broken: what still comes is read and thrown away, for ever.
  void Close() {
    closed_ = true;
    ReadOn();
  }
  size_t held() const { return held_; }

 private:
  struct Held {
    Held(std::shared_ptr<InboundRoom> of, size_t bytes) : room(std::move(of)), weight(bytes) {}
    ~Held() {
      room->held_ -= weight;
      room->ReadOn();
    }
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;
    const std::shared_ptr<InboundRoom> room;
    const size_t weight;
  };

  // Until it is admitted, one frame at a time.
  bool HasRoom() const { return closed_ || held_ < (admitted_ ? most_held_.load() : size_t{1}); }
  // The order counts: who waits says so before it looks for room, and who makes room does so before
  // it looks for one who waits. So one of both sees the other.
  void ReadOn() {
    if (waits_ && HasRoom() && waits_.exchange(false)) read_on_();
  }

  const std::function<void()> read_on_;
  std::atomic<size_t> first_frame_{InboundLimits().first_frame};
  std::atomic<size_t> most_held_{InboundLimits().held};
  std::atomic<size_t> held_{0};
  // Both are set once and for ever, by whichever thread: neither has to look at the other first.
  std::atomic<bool> admitted_{false};
  std::atomic<bool> closed_{false};
  std::atomic<bool> waits_{false};
};

}  // namespace muster
