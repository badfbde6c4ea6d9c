#include "lib/member/runtime/reporter.h"

#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lib/base/utf8.h"

namespace muster {

void Reporter::Line(absl::string_view event, absl::string_view fields) const {
  if (fd_ < 0) return;
  const std::string line = absl::StrCat("{\"event\":", JsonText(event),
                                        ",\"member\":", JsonText(member_), fields, "}\n");
  if (line.size() > PIPE_BUF) return;  // up to that, a pipe takes all of it or nothing
  if (write(fd_, line.data(), line.size()) < 0) {
    // Nobody reads (EAGAIN, EPIPE): training does not depend on being watched.
  }
}

void Reporter::Step(const StepRecord& record, Rank rank, double seconds) const {
  const double loss = record.weight > 0 ? record.loss / static_cast<double>(record.weight) : 0;
  const std::string shown = std::isfinite(loss) ? absl::StrFormat("%.9g", loss) : "null";
  const bool has_norm = record.norm && std::isfinite(*record.norm);
  const std::string norm = has_norm ? absl::StrFormat(",\"gradient_norm\":%.9g", *record.norm) : "";
  Line("step", absl::StrCat(",\"rank\":", rank.value(), ",\"step\":", record.step.value(),
                            ",\"epoch\":", record.samples.epoch, ",\"loss\":", shown,
                            ",\"samples\":", record.samples.count,
                            absl::StrFormat(",\"seconds\":%.6f", seconds), norm));
}

void Reporter::Joined(const View& view, Rank rank, Incarnation incarnation) const {
  Line("joined",
       absl::StrCat(",\"rank\":", rank.value(), ",\"view\":", view.number.value(),
                    ",\"lineage\":", view.lineage.value(), ",\"step\":", view.first_step.value(),
                    ",\"incarnation\":\"", ToHex(incarnation), "\""));
}

void Reporter::MetricsAt(absl::string_view address) const {
  Line("metrics", absl::StrCat(",\"metrics\":", JsonText(address)));
}

void Reporter::Prepares(absl::string_view text) const {
  Line("prepares", text.empty() ? "" : absl::StrCat(",\"text\":", JsonText(text)));
}

void Reporter::Sample(absl::string_view text) const {
  Line("sample", absl::StrCat(",\"text\":", JsonText(text)));
}

void Reporter::Spooled(uint64_t positions) const {
  Line("stream", absl::StrCat(",\"positions\":", positions));
}

void Reporter::Ends(int exit_code) const { Line("ends", absl::StrCat(",\"code\":", exit_code)); }

std::string JsonText(absl::string_view text) {
  std::string quoted = "\"";
  while (!text.empty()) {
    const size_t length = Utf8Length(text);
    const unsigned char first = static_cast<unsigned char>(text[0]);
    if (length == 0) {
      quoted += "\\ufffd";
    } else if (first == '"' || first == '\\') {
      absl::StrAppend(&quoted, "\\", text.substr(0, 1));
    } else if (first < 0x20) {
      absl::StrAppendFormat(&quoted, "\\u%04x", first);
    } else {
      absl::StrAppend(&quoted, text.substr(0, length));
    }
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return quoted + "\"";
}

}  // namespace muster
