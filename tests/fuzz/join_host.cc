// What comes in at the join port: its messages, and the bytes of TLS before anybody has shown that
// he knows a key. The first byte of the input says which of them the rest is.
#include <optional>

#include "lib/join/join_token.h"
#include "lib/join/join_wire.h"
#include "lib/join/psk_channel.h"
#include "lib/wire/join_codec.h"
#include "muster/v1/join.pb.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/proto_mutator.h"

namespace muster::fuzz {
namespace {

enum Kind { kQuestion, kAnswer, kHello, kKinds };

constexpr size_t kMostHeld = size_t{8} << 20;
constexpr size_t kMostHeldPerByte = 1000;

std::string Key() { return std::string(32, 'k'); }

std::string Make(Random& random) {
  const auto kind = static_cast<Kind>(Below(random, kKinds));
  std::string body;
  if (kind == kQuestion) {
    body = WithLength(Encode(JoinHost{Below(random, 2) == 0 ? "node-7" : UglyText(random),
                                      UglyText(random), UglyText(random), UglyNumber(random)}));
  } else if (kind == kAnswer) {
    const JoinAnswer joined = HostJoined{"c1", UglyText(random), UglyText(random), 17};
    const JoinAnswer refused = JoinRefused{UglyText(random), true};
    body = WithLength(Encode(Below(random, 2) == 0 ? joined : refused));
  } else {
    const auto client = PskChannel::Connecting(Below(random, 2) == 0 ? "host:a" : "host:b", Key());
    if (client.ok()) body = (*client)->Give();
  }
  return std::string(1, static_cast<char>(kind)) + body;
}

std::string Change(const std::string& input, Random& random) {
  if (input.size() <= 1 + kLengthBytes) return "";
  const std::string_view message = std::string_view(input).substr(1 + kLengthBytes);
  const int kind = static_cast<unsigned char>(input[0]) % kKinds;
  if (kind == kHello) return "";
  const std::string changed = kind == kQuestion ? ChangedMessage<v1::JoinHost>(message, random)
                                                : ChangedMessage<v1::JoinAnswer>(message, random);
  return changed.empty() ? "" : input.substr(0, 1) + WithLength(changed);
}

const Form kForm = {Make, Change};

void ExpectAll() {
  PskChannel::Accepting([](const std::string&) { return std::nullopt; }).status().IgnoreError();
  Expect("end", {"question read", "question refused", "answer read", "answer refused",
                 "hello taken", "hello refused"});
  ExpectAtLeast("error", 4);
}

template <class Message>
void ReadMessage(std::string_view bytes, const char* name,
                 absl::StatusOr<Message> (*decode)(std::string_view)) {
  const auto message = MessageIn(absl::string_view(bytes.data(), bytes.size()), kMostJoinBytes);
  if (!message.ok()) return ReachError(message.status().message());
  if (!*message) return;
  const absl::StatusOr<Message> read = decode(**message);
  Reach("end", std::string(name) + (read.ok() ? " read" : " refused"));
  if (!read.ok()) return ReachError(read.status().message());
  const absl::StatusOr<Message> again = decode(Encode(*read));
  Check(again.ok() && *again == *read, "written and read again");
}

void Run(std::string_view input) {
  if (input.empty()) return;
  const std::string_view bytes = input.substr(1);
  const MemoryLimit limit(kMostHeld + kMostHeldPerByte * input.size());
  switch (static_cast<unsigned char>(input[0]) % kKinds) {
    case kQuestion: return ReadMessage<JoinHost>(bytes, "question", DecodeJoinHost);
    case kAnswer: return ReadMessage<JoinAnswer>(bytes, "answer", DecodeJoinAnswer);
    default: break;
  }
  const auto server = PskChannel::Accepting([](const std::string& name) {
    return name == "host:a" ? std::optional(Key()) : std::nullopt;
  });
  if (!server.ok()) return;
  const bool taken = (*server)->Take(absl::string_view(bytes.data(), bytes.size())).ok();
  Reach("end", taken ? "hello taken" : "hello refused");
  Check(!(*server)->is_open(), "nobody is let in by what was said before the server spoke");
}

}  // namespace
}  // namespace muster::fuzz

MUSTER_FUZZ_TARGET(muster::fuzz::kForm, muster::fuzz::ExpectAll, muster::fuzz::Run);
