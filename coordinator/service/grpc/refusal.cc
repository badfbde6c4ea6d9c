#include "coordinator/service/grpc/refusal.h"

#include "lib/base/printable.h"
#include "lib/config/field_error.h"

namespace muster {

// absl's codes are gRPC's.
Refusal RefusalOf(const absl::Status& why) {
  return {{static_cast<grpc::StatusCode>(why.code()), Cut(PrintableLines(why.message()))},
          AsciiText(FieldOf(why))};
}

}  // namespace muster
