#include "agent/runtime/report.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <limits>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "lib/base/exit_codes.h"
#include "nlohmann/json.hpp"

namespace muster::agent {
namespace {

constexpr int kReadsInARow = 16;  // then others have their turn

// The member of that name when it has the right type, else `fallback`: one odd field does not cost
// the whole report.
template <class T>
T ValueOr(const nlohmann::json& object, const char* name, T fallback) {
  const auto it = object.find(name);
  if (it == object.end()) return fallback;
  const bool fits = std::is_integral_v<T>         ? it->is_number_integer()
                    : std::is_floating_point_v<T> ? it->is_number()
                                                  : it->is_string();
  return fits ? it->get<T>() : fallback;
}

}  // namespace

absl::StatusOr<Report> ParseReport(absl::string_view line) {
  const nlohmann::json object =
      nlohmann::json::parse(line.begin(), line.end(), nullptr, /*allow_exceptions=*/false);
  if (!object.is_object())
    return absl::InvalidArgumentError(
        absl::StrCat("a report is not a JSON object: ", line.substr(0, 80)));
  Report report{.event = ValueOr<std::string>(object, "event", ""),
                .text = ValueOr<std::string>(object, "text", ""),
                .metrics = ValueOr<std::string>(object, "metrics", ""),
                .point = ValueOr<std::string>(object, "point", ""),
                .code = {},
                .json = std::string(line)};
  if (report.event.empty())
    return absl::InvalidArgumentError(
        absl::StrCat("a report without 'event': ", line.substr(0, 80)));
  if (report.event == "ends") report.code = ValueOr<int>(object, "code", kExitFailed);
  if (report.event != "step") return report;
  const auto step = object.find("step");
  if (step == object.end() || !step->is_number_integer())
    return absl::InvalidArgumentError(
        absl::StrCat("a step report without 'step': ", line.substr(0, 80)));
  report.step =
      StepReport{.step = step->get<int64_t>(),
                 .epoch = ValueOr<int64_t>(object, "epoch", 0),
                 .loss = ValueOr<double>(object, "loss", std::numeric_limits<double>::quiet_NaN()),
                 .samples = ValueOr<int64_t>(object, "samples", 0),
                 .seconds = ValueOr<double>(object, "seconds", 0)};
  if (const auto norm = object.find("gradient_norm"); norm != object.end() && norm->is_number())
    report.step->gradient_norm = norm->get<double>();
  return report;
}

bool LineReader::ReadFrom(int fd, const std::function<void(absl::string_view line)>& on_line) {
  std::array<char, 16 * 1024> buffer;
  for (int reads = 0; reads < kReadsInARow; ++reads) {
    const ssize_t n = read(fd, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
    if (n == 0) return false;
    Split({buffer.data(), static_cast<size_t>(n)}, on_line);
  }
  return true;
}

void LineReader::Split(absl::string_view bytes,
                       const std::function<void(absl::string_view)>& on_line) {
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    const absl::string_view part = bytes.substr(0, end);
    if (!too_long_) partial_.append(part.data(), part.size());
    if (partial_.size() > kLongestLine) {
      too_long_ = true;
      partial_.clear();
    }
    if (end == absl::string_view::npos) return;
    if (!too_long_ && !partial_.empty()) on_line(partial_);
    too_long_ = false;
    partial_.clear();
    bytes.remove_prefix(end + 1);
  }
}

}  // namespace muster::agent
