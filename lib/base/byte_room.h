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

 private:
  ByteRoom(ByteCount taken, size_t bytes) : taken_(std::move(taken)), bytes_(bytes) {}

  const ByteCount taken_;
  const size_t bytes_;
};

}  // namespace muster
