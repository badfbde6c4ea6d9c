#include "coordinator/service/grpc/refusal.h"

#include "absl/strings/str_replace.h"
#include "lib/base/printable.h"
#include "lib/config/field_error.h"

namespace muster {

// absl's codes are gRPC's.
Refusal RefusalOf(const absl::Status& why) {
  return {{static_cast<grpc::StatusCode>(why.code()), Cut(PrintableLines(why.message()))},
          AsciiText(FieldOf(why))};
}

std::string AddressInPeer(const std::string& peer) {
  const size_t kind = peer.find(':'), port = peer.rfind(':');
  if (kind == std::string::npos || port <= kind) return peer;
  return absl::StrReplaceAll(peer.substr(kind + 1, port - kind - 1), {{"%5B", ""}, {"%5D", ""}});
}

}  // namespace muster
