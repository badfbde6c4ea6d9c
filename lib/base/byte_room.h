// Memory that many connections share, counted in bytes. Values that live as long as whoever holds
// them.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

namespace muster {

// An answer of up to so much, and a stream of events of which no more waits, never lacks room among
// those of others, so that errors, health and metrics get through; connections bound their number.
inline constexpr size_t kSmallAnswerBytes = size_t{64} << 10;
// What is said instead of a larger one that has no room.
inline constexpr char kNoRoomForAnswer[] =
    "too many large answers are on their way to others; ask again in a second, or for less at once";

// What is taken in sum. Thread-safe.
using ByteCount = std::shared_ptr<std::atomic<size_t>>;

// Room for so many bytes among those of all others, until it is let go. It may outlive whoever made
// the count.
class ByteRoom {
 public:
  // Null: all would come to more than `most`.
  static std::unique_ptr<ByteRoom> Take(ByteCount taken, size_t bytes, size_t most) {
    if (taken->fetch_add(bytes) + bytes > most) {
      *taken -= bytes;
      return nullptr;
    }
    return std::unique_ptr<ByteRoom>(new ByteRoom(std::move(taken), bytes));
  }
  ByteRoom(const ByteRoom&) = delete;
  ByteRoom& operator=(const ByteRoom&) = delete;
  ~ByteRoom() { *taken_ -= bytes_; }

  // False: it would grow, and all would come to more than `most`; it stays as it was.
  bool Resize(size_t bytes, size_t most) {
    const size_t more = bytes > bytes_ ? bytes - bytes_ : 0;
    if (more > 0 && taken_->fetch_add(more) + more > most) {
      *taken_ -= more;
      return false;
    }
    if (bytes < bytes_) *taken_ -= bytes_ - bytes;
    bytes_ = bytes;
    return true;
  }

 private:
  ByteRoom(ByteCount taken, size_t bytes) : taken_(std::move(taken)), bytes_(bytes) {}

  const ByteCount taken_;
  size_t bytes_;
};

// Makes `room`, which may be null, that of an answer of so many bytes: before it is made, of about
// as many as it will have; then of as many as it has. A small one needs none. False: all would come
// to more than `most`; `room` is null then.
inline bool FitAnswer(std::unique_ptr<ByteRoom>& room, const ByteCount& taken, size_t bytes,
                      size_t most) {
  const bool is_small = bytes <= kSmallAnswerBytes;
  if (is_small) {
    room.reset();
  } else if (room == nullptr) {
    room = ByteRoom::Take(taken, bytes, most);
  } else if (!room->Resize(bytes, most)) {
    room.reset();
  }
  return is_small || room != nullptr;
}

}  // namespace muster
