#include "lib/wire/join_codec.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "lib/base/status.h"
#include "lib/wire/parts_proto.h"
#include "lib/wire/reader.h"
#include "muster/v1/join.pb.h"

namespace muster {
namespace {

constexpr size_t kMostKeyBytes = 4096;  // whether it is a key is seen by who signs

struct Put {
  v1::JoinAnswer& out;
  void operator()(const HostJoined& joined) const {
    v1::HostJoined& to = *out.mutable_joined();
    to.set_cluster(joined.cluster);
    to.set_certificate(joined.certificate_pem);
    to.set_authority(joined.authority_pem);
    to.set_now_unix_ms(joined.now_unix_ms);
  }
  void operator()(const JoinRefused& refused) const {
    out.mutable_refused()->set_why(refused.why);
    out.mutable_refused()->set_passes(refused.passes);
  }
};

std::optional<JoinAnswer> Open(Reader& reader, const v1::JoinAnswer& message) {
  if (message.kind_case() == v1::JoinAnswer::kJoined) {
    const v1::HostJoined& joined = message.joined();
    return HostJoined{reader.OwnName("cluster", joined.cluster()),
                      reader.Text("certificate", joined.certificate()),
                      reader.Text("authority", joined.authority()),
                      reader.Number("now_unix_ms", joined.now_unix_ms())};
  }
  if (message.kind_case() == v1::JoinAnswer::kRefused)
    return JoinRefused{Reader::Words(message.refused().why()), message.refused().passes()};
  return std::nullopt;
}

}  // namespace

std::string Encode(const JoinHost& ask) {
  v1::JoinHost message;
  message.set_host(ask.host);
  message.set_node(ask.node);
  message.set_public_key(ask.public_key);
  message.set_now_unix_ms(ask.now_unix_ms);
  Write(ask.speaks, *message.mutable_speaks());
  return message.SerializeAsString();
}

std::string Encode(const JoinAnswer& answer) {
  v1::JoinAnswer message;
  std::visit(Put{message}, answer);
  return message.SerializeAsString();
}

absl::StatusOr<JoinHost> DecodeJoinHost(std::string_view bytes) {
  if (bytes.size() > kMostJoinBytes)
    return absl::InvalidArgumentError("JoinHost: it is longer than it may be");
  v1::JoinHost message;
  MUSTER_RETURN_IF_ERROR(Parse(bytes, message));
  MUSTER_RETURN_IF_ERROR(
      CheckSpeaks(absl::StrCat("host ", message.host()), message.speaks(), "the coordinator"));
  Reader reader;
  JoinHost ask{.host = reader.OwnName("host", message.host()),
               .node = Reader::Words(message.node()),
               .public_key = message.public_key(),
               .now_unix_ms = reader.Number("now_unix_ms", message.now_unix_ms()),
               .speaks = Read(reader, message.speaks())};
  reader.Require(ask.public_key.size() <= kMostKeyBytes, "public_key", "it is none");
  if (!reader.ok()) return Prefix("JoinHost", reader.status());
  return ask;
}

absl::StatusOr<JoinAnswer> DecodeJoinAnswer(std::string_view bytes) {
  if (bytes.size() > kMostJoinAnswerBytes)
    return absl::InvalidArgumentError("JoinAnswer: it is longer than it may be");
  v1::JoinAnswer message;
  MUSTER_RETURN_IF_ERROR(Parse(bytes, message));
  Reader reader;
  std::optional<JoinAnswer> answer = Open(reader, message);
  if (!answer)
    return absl::InvalidArgumentError(
        "JoinAnswer: none that this version of muster knows; use equal versions");
  if (!reader.ok()) return Prefix("JoinAnswer", reader.status());
  return *std::move(answer);
}

}  // namespace muster
