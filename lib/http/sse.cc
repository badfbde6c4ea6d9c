#include "lib/http/sse.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace muster::http {
namespace {

constexpr size_t kMaxEventBytes = size_t{4} << 20;

std::string OneLine(absl::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c != '\n' && c != '\r' && c != '\0') out += c;
  }
  return out;
}

}  // namespace

std::string FormatEvent(absl::string_view id, absl::string_view event, absl::string_view data) {
  std::string out;
  if (!id.empty()) absl::StrAppend(&out, "id: ", OneLine(id), "\n");
  if (!event.empty()) absl::StrAppend(&out, "event: ", OneLine(event), "\n");
  for (const absl::string_view line : absl::StrSplit(data, '\n')) {
    absl::StrAppend(&out, "data: ", OneLine(line), "\n");
  }
  return out + "\n";
}

absl::Status EventParser::Feed(absl::string_view bytes, std::vector<Event>& out) {
  for (const char c : bytes) {
    const bool second_half = c == '\n' && after_return_;
    after_return_ = c == '\r';
    if (second_half) continue;
    if (c == '\n' || c == '\r') {
      ReadLine(line_, out);
      line_.clear();
      continue;
    }
    line_ += c;
    if (line_.size() + data_.size() > kMaxEventBytes) {
      return absl::ResourceExhaustedError("event stream: one event is larger than 4 MiB");
    }
  }
  return absl::OkStatus();
}

void EventParser::ReadLine(absl::string_view line, std::vector<Event>& out) {
  if (line.empty()) {
    if (!data_.empty()) {
      data_.pop_back();
      out.push_back({id_, name_, std::move(data_)});
    }
    data_.clear();
    name_.clear();
    return;
  }
  const size_t colon = line.find(':');
  const absl::string_view field = line.substr(0, colon);
  absl::string_view value = colon == absl::string_view::npos ? "" : line.substr(colon + 1);
  if (!value.empty() && value[0] == ' ') value.remove_prefix(1);
  if (field == "data") absl::StrAppend(&data_, value, "\n");
  if (field == "event") name_ = std::string(value);
  if (field == "id" && value.find('\0') == absl::string_view::npos) id_ = std::string(value);
}

}  // namespace muster::http
