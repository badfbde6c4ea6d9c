// What strangers send over a session, from the message of gRPC to the last field of each kind of
// frame, in each direction: the first byte of the input names it, the second says where the message
// is cut into slices.
#include <grpcpp/support/slice.h>

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "lib/transport/grpc/frame_codec.h"
#include "lib/wire/message_codec.h"
#include "muster/v1/exchange.pb.h"
#include "muster/v1/membership.pb.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/proto_mutator.h"
#include "tests/lib/wire/random_message.h"

namespace muster::fuzz {
namespace {

constexpr size_t kDirections = 3;  // between members, to the coordinator, from it
constexpr size_t kHead = 2;
// An empty part of a list takes two bytes of a frame and some hundred in memory, twice.
constexpr size_t kMostHeld = size_t{2} << 20;
constexpr size_t kMostHeldPerByte = 500;

grpc::ByteBuffer Sliced(std::string_view message, size_t cut) {
  std::vector<grpc::Slice> slices;
  const size_t piece = cut == 0 ? message.size() : cut;
  for (; !message.empty(); message.remove_prefix(std::min(piece, message.size())))
    slices.emplace_back(message.data(), std::min(piece, message.size()));
  return grpc::ByteBuffer(slices.data(), slices.size());
}

std::string MessageOf(const std::string& header) {
  std::string message(kFramePrefixBytes, '\0');
  for (size_t i = 0; i < kFramePrefixBytes; ++i)
    message[i] = static_cast<char>(header.size() >> (8 * i) & 0xff);
  return message + header;
}

template <class Proto>
void ReachProto(std::string_view header) {
  Proto message;
  if (message.ParseFromArray(header.data(), static_cast<int>(header.size()))) ReachFields(message);
}

// What was read is written again and read again: it must come out the same.
template <class Proto, class Decode>
void ReadTwice(std::string_view header, const std::string& direction, const Decode& decode) {
  const auto message = decode(header);
  if (!message.ok()) return ReachError(message.status().message());
  ReachProto<Proto>(header);
  Reach("kind", direction + " " + std::to_string(message->index()));
  const std::string written = Encode(*message);
  const auto again = decode(written);
  Check(again.ok(), again.status().ToString());
  // Losses may be NaN, which equals nothing; the parameters of a job have no order in Protobuf.
  Check(Encode(*again) == written || Same(*again, *message), "read, written and read again");
}

// What a stranger may say is what anybody may, and nothing else.
void ReadHello(std::string_view header) {
  const auto hello = DecodeHello(header);
  if (!hello.ok()) return ReachError(hello.status().message());
  const auto message = DecodePeerMessage(header);
  Check(message.ok() && Encode(*message) == Encode(PeerMessage(*hello)), "a greeting is a message");
  Reach("kind", "greeting of a member 0");
}

void ReadGreeting(std::string_view header) {
  const auto greeting = DecodeGreetingAtCoordinator(header);
  if (!greeting.ok()) return ReachError(greeting.status().message());
  const auto message = DecodeAtCoordinator(header);
  Check(message.ok() && Same(*message, *greeting), "a greeting is a message");
  const auto* member = std::get_if<ToCoordinator>(&*greeting);
  const size_t kind = member == nullptr ? 2 : member->index();
  Check(kind < 3, "a stranger says AskJob, Join or AgentHello");
  Reach("kind", "greeting at the coordinator " + std::to_string(kind));
}

void ReadAtCoordinator(std::string_view header) {
  ReadGreeting(header);
  const auto message = DecodeAtCoordinator(header);
  if (!message.ok()) return ReachError(message.status().message());
  if (std::holds_alternative<ToCoordinator>(*message))
    return ReadTwice<v1::CoordinatorFrame>(header, "of a member", DecodeToCoordinator);
  ReadTwice<v1::CoordinatorFrame>(header, "of an agent", DecodeFromAgent);
}

void ReadFromCoordinator(std::string_view header) {
  if (DecodeToAgent(header).ok())
    return ReadTwice<v1::MemberFrame>(header, "to an agent", DecodeToAgent);
  ReadTwice<v1::MemberFrame>(header, "to a member", DecodeFromCoordinator);
}

void ReadHeader(size_t direction, std::string_view header) {
  switch (direction) {
    case 0:
      ReadHello(header);
      return ReadTwice<v1::PeerFrame>(header, "between members", DecodePeerMessage);
    case 1: return ReadAtCoordinator(header);
    default: return ReadFromCoordinator(header);
  }
}

std::string MakeHeader(size_t direction, Random& random) {
  RandomMessage message(random(), /*printable=*/false);
  const bool agent = Below(random, 6) == 0;
  switch (direction) {
    case 0: return Encode(message.Make<PeerMessage>());
    case 1:
      return agent ? Encode(message.Make<FromAgent>()) : Encode(message.Make<ToCoordinator>());
    default:
      return agent ? Encode(message.Make<ToAgent>()) : Encode(message.Make<FromCoordinator>());
  }
}

std::string ChangeHeader(size_t direction, std::string_view header, Random& random) {
  switch (direction) {
    case 0: return ChangedMessage<v1::PeerFrame>(header, random);
    case 1: return ChangedMessage<v1::CoordinatorFrame>(header, random);
    default: return ChangedMessage<v1::MemberFrame>(header, random);
  }
}

std::string Make(Random& random) {
  const size_t direction = Below(random, kDirections);
  const std::string head = {static_cast<char>(direction), static_cast<char>(Below(random, 64))};
  return head + MessageOf(MakeHeader(direction, random));
}

std::string Change(const std::string& input, Random& random) {
  if (input.size() < kHead + kFramePrefixBytes) return "";
  const auto frame = DecodeFrame(Sliced(std::string_view(input).substr(kHead), 0));
  if (!frame.ok()) return "";
  const size_t direction = static_cast<uint8_t>(input[0]) % kDirections;
  const std::string changed = ChangeHeader(direction, frame->header, random);
  return changed.empty() ? "" : input.substr(0, kHead) + MessageOf(changed);
}

const Form kForm = {Make, Change};

void ExpectKinds(const std::vector<std::pair<std::string, size_t>>& directions) {
  for (const auto& [direction, kinds] : directions)
    for (size_t kind = 0; kind < kinds; ++kind)
      Expect("kind", {direction + " " + std::to_string(kind)});
}

void ExpectAll() {
  ExpectKinds({{"between members", std::variant_size_v<PeerMessage>},
               {"of a member", std::variant_size_v<ToCoordinator>},
               {"of an agent", std::variant_size_v<FromAgent>},
               {"to a member", std::variant_size_v<FromCoordinator>},
               {"to an agent", std::variant_size_v<ToAgent>},
               {"greeting of a member", 1},
               {"greeting at the coordinator", 3}});
  Expect("field", FieldsOfType(*v1::PeerFrame::descriptor()));
  Expect("field", FieldsOfType(*v1::CoordinatorFrame::descriptor()));
  Expect("field", FieldsOfType(*v1::MemberFrame::descriptor()));
  ExpectAtLeast("error", 100);
}

void Run(std::string_view input) {
  if (input.size() < kHead) return;
  const auto message = Sliced(input.substr(kHead), static_cast<uint8_t>(input[1]));
  const MemoryLimit limit(kMostHeld + kMostHeldPerByte * input.size());
  const auto frame = DecodeFrame(message);
  if (!frame.ok()) return ReachError(frame.status().message());
  Check(kHead + kFramePrefixBytes + frame->header.size() + frame->payload.size() == input.size(),
        "a frame is as long as its message");
  ReadHeader(static_cast<uint8_t>(input[0]) % kDirections, frame->header);
}

}  // namespace
}  // namespace muster::fuzz

MUSTER_FUZZ_TARGET(muster::fuzz::kForm, muster::fuzz::ExpectAll, muster::fuzz::Run);
