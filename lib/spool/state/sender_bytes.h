// What is said on the socket of a stream, and how much of it a reader takes:
//
//   reader   24 bytes: magic MSTRSTM1, the next position (8), bytes of a sample S (8)
//   sender   any number of times a byte 1 and a sample, S bytes; at the end of the stream a byte 2
//   reader   8 bytes whenever more samples are safe: how many, counted from the first of all;
//            2^64 - 1 and nothing more once no more are taken
//
// All numbers are little-endian. The sender goes on from the position that it is told, and keeps
// what was not answered: after a broken connection it may be asked for that again. A connection
// that ends without a byte 2 is no end, and a part of a sample is nothing. Lives as long as a
// connection. Single-threaded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace muster {

// An answer: all samples that the job uses are safe, and no others are taken.
inline constexpr uint64_t kStreamIsDone = ~uint64_t{0};

std::string StreamGreeting(uint64_t position, uint64_t sample_bytes);
std::string StreamAnswer(uint64_t positions);

// What a sender says.
class SenderBytes {
 public:
  explicit SenderBytes(uint64_t sample_bytes) : sample_bytes_(sample_bytes) {}

  // How many more bytes may be read where `samples` more are wanted, none of which then is behind
  // the last of these; at least 1 of them is wanted.
  uint64_t Wanted(uint64_t samples) const;
  // Takes all of `bytes`, no more than are wanted: whole samples go behind `samples`. Returns how
  // many. kInvalidArgument: that is no stream; the connection is to be broken, and what was whole
  // before has gone to `samples` and is in `count`.
  absl::Status Take(absl::Span<const std::byte> bytes, std::string& samples, uint64_t& count);

  bool has_part() const { return in_sample_; }  // of a sample, whose rest is to come
  bool ended() const { return ended_; }         // it has said so

 private:
  const uint64_t sample_bytes_;
  bool in_sample_ = false;
  std::string part_;  // grows with what comes
  bool ended_ = false;
};

// What a reader says to a sender who may read slowly: of answers that wait only the newest one is
// kept.
class AnswersOut {
 public:
  explicit AnswersOut(std::string greeting) : out_(std::move(greeting)) {}

  void Say(uint64_t positions) { newest_ = positions; }
  // The bytes that go out next; empty: none. Until so many of them are sent.
  absl::Span<const char> Next();
  void Sent(size_t bytes) { out_.erase(0, bytes); }

 private:
  std::string out_;
  uint64_t newest_ = 0;  // 0: none
  uint64_t said_ = 0;
};

}  // namespace muster
