// Private to the room: memory that many connections share, counted in bytes.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

namespace muster::http {

// What is taken in sum. Thread-safe.
using ByteCount = std::shared_ptr<std::atomic<size_t>>;

// Room for so many bytes among those of all others, until it is let go. It may outlive the server.
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

}  // namespace muster::http
