// What lib/domain/message.h says, as headers of frames. Encoding never fails; thread-safe.
//
// Decoding trusts nothing. What it returns is whole: numbers are not negative (and at most 2^62, so
// that one may add to them), enums known, indices inside the list they point into (or -1 where
// message.h says so), lists of equal length where they describe the same things, subtrees 0 ≤ lo <
// hi ≤ 4096, chunks below 2^22. What it cannot know is left to the receiver: the job's own number
// of chunks and lanes, and whether the message is timely. kInvalidArgument otherwise; the message
// names the field. Limits: 2^22 chunks, 4096 members, 4096 lanes, 100,000 tensors, 256 bytes a
// member's name, 64 KiB another text, kMaxHeaderBytes in all, and eight times as much in memory
// while it is parsed. What is returned takes at most some tens of times the bytes of its header.
//
// Decode…(Encode(x)) is x for every x within the limits.
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "absl/status/statusor.h"
#include "lib/domain/message.h"

namespace muster {

std::string Encode(const ToCoordinator& message);
std::string Encode(const FromCoordinator& message);  // specification valid
std::string Encode(const PeerMessage& message);
std::string Encode(const FromAgent& message);
std::string Encode(const ToAgent& message);

absl::StatusOr<ToCoordinator> DecodeToCoordinator(std::string_view header);
absl::StatusOr<FromCoordinator> DecodeFromCoordinator(std::string_view header);
absl::StatusOr<PeerMessage> DecodePeerMessage(std::string_view header);
absl::StatusOr<FromAgent> DecodeFromAgent(std::string_view header);
absl::StatusOr<ToAgent> DecodeToAgent(std::string_view header);

// What arrives at the coordinator: the first frame of a session tells whether a member or an agent
// speaks.
absl::StatusOr<std::variant<ToCoordinator, FromAgent>> DecodeAtCoordinator(std::string_view header);

// Of one who has not said yet who it is: only what says so is read, AskJob, Join or AgentHello; of
// a peer, Hello. kFailedPrecondition, with the versions of both: it has no form of the protocol in
// common with us; nothing else of it was looked at.
absl::StatusOr<std::variant<ToCoordinator, FromAgent>> DecodeGreetingAtCoordinator(
    std::string_view header);
absl::StatusOr<Hello> DecodeHello(std::string_view header);
// Whether it is an AskJob, whatever that says.
bool AsksForItsJob(std::string_view header);

}  // namespace muster
