// For lib/wire alone: messages in and out of the frames of one direction. Each direction has one
// Put per message, which writes it into a frame, and one Open, which reads whatever a frame holds.
#pragma once

#include <array>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/arena.h"
#include "lib/base/frame_limits.h"
#include "lib/base/status.h"
#include "lib/wire/parsed_bytes.h"
#include "lib/wire/parts_proto.h"
#include "lib/wire/reader.h"

namespace muster {

// An arena over memory that the thread keeps: a header of usual size is made and read without
// malloc. One at a time per thread.
class ThreadArena {
 public:
  ThreadArena() : arena_(memory().data(), memory().size()) {}
  template <class Message>
  Message& New() {
    return *google::protobuf::Arena::CreateMessage<Message>(&arena_);
  }

 private:
  static std::array<char, 16 * 1024>& memory() {
    alignas(8) thread_local std::array<char, 16 * 1024> memory;
    return memory;
  }
  google::protobuf::Arena arena_;
};

// `put` writes any message of the variant into the frame.
template <class Frame, class Message, class PutInto>
std::string EncodeIn(const Message& message, const PutInto& put) {
  ThreadArena arena;
  Frame& frame = arena.New<Frame>();
  std::visit([&](const auto& kind) { put(kind, frame); }, message);
  return frame.SerializeAsString();
}

// Of a header that is parsed, in memory: several times what the largest honest one takes.
inline constexpr size_t kMostParsedBytes = 8 * kMaxHeaderBytes;

template <class Frame>
absl::Status CheckParsedBytes(std::string_view header) {
  const auto bytes = ParsedBytes(header, *Frame::descriptor(), kMostParsedBytes);
  if (!bytes)
    return absl::InvalidArgumentError("header: a part of it says that it is longer than the rest");
  if (*bytes <= kMostParsedBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("header: its ", header.size(),
                                                 " bytes would take more than ", kMostParsedBytes,
                                                 " in memory; so many are allowed"));
}

// `open`: the message in the frame; nothing when the frame is of a kind that this reader has no use
// for. kInvalidArgument: names the message and the field. `check`: looks at the frame before its
// fields are read, and may refuse it; null: nothing does.
template <class Frame, class Message>
absl::StatusOr<Message> DecodeFrame(std::string_view header,
                                    std::optional<Message> (*open)(Reader&, const Frame&),
                                    absl::Status (*check)(const Frame&) = nullptr) {
  if (header.size() > kMaxHeaderBytes)
    return absl::InvalidArgumentError(absl::StrCat("header: ", header.size(), " bytes; at most ",
                                                   kMaxHeaderBytes, " are allowed"));
  MUSTER_RETURN_IF_ERROR(CheckParsedBytes<Frame>(header));
  ThreadArena arena;
  Frame& frame = arena.New<Frame>();
  MUSTER_RETURN_IF_ERROR(Parse(header, frame));
  if (check != nullptr) MUSTER_RETURN_IF_ERROR(check(frame));
  Reader reader;
  std::optional<Message> message = open(reader, frame);
  if (!message)
    return absl::InvalidArgumentError(
        "kind: none that this version of muster knows; use equal versions");
  if (!reader.ok()) {
    const auto* kind =
        Frame::GetReflection()->GetOneofFieldDescriptor(frame, Frame::descriptor()->oneof_decl(0));
    return Prefix(kind->name(), reader.status());
  }
  return *std::move(message);
}

// As DecodeFrame. Of a frame that holds anything but these fields of it nothing is parsed: its
// sender has not said who it is. `rule`: what it may say. `check`: calls CheckSpeaks.
template <class Frame, class Message>
absl::StatusOr<Message> DecodeGreeting(std::string_view header,
                                       std::initializer_list<int> greetings, const char* rule,
                                       absl::Status (*check)(const Frame&),
                                       std::optional<Message> (*open)(Reader&, const Frame&)) {
  if (header.size() <= kMaxHeaderBytes && !HoldsOnly(header, greetings))
    return absl::InvalidArgumentError(absl::StrCat("kind: ", rule));
  return DecodeFrame(header, open, check);
}

// The half of a two-way frame that this session is about.
template <class Message, class Either>
absl::StatusOr<Message> Only(absl::StatusOr<Either> either, const char* who) {
  if (!either.ok()) return either.status();
  if (Message* message = std::get_if<Message>(&*either)) return std::move(*message);
  return absl::InvalidArgumentError(absl::StrCat("kind: not a message ", who));
}

}  // namespace muster
