#include "worker/commands/growing_text.h"

#include <cstddef>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "lib/base/printable.h"
#include "lib/base/status.h"
#include "lib/base/utf8.h"

namespace muster::worker {

absl::Status WriteGrowingText(
    std::ostream& out, const std::string& begin,
    const std::function<absl::StatusOr<std::string>(const TextListener& told)>& make) {
  size_t heard = 0;
  std::string waits;
  const TextListener writes = [&](absl::string_view piece) {
    absl::StrAppend(&waits, piece);
    const size_t whole = WholeUtf8(waits);
    out << PrintableLines(absl::string_view(waits).substr(0, whole)) << std::flush;
    waits.erase(0, whole);
    return out ? absl::OkStatus() : absl::CancelledError("nobody reads it any more");
  };
  MUSTER_RETURN_IF_ERROR(writes(begin));
  const absl::StatusOr<std::string> text = make([&](absl::string_view piece) {
    heard += piece.size();
    return writes(piece);
  });
  if (text.ok()) absl::StrAppend(&waits, absl::string_view(*text).substr(heard));
  out << PrintableLines(waits) << std::endl;
  return text.status();
}

}  // namespace muster::worker
