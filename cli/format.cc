#include "cli/format.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"

namespace muster::cli {
namespace {

std::string ThreeDigits(double x) {
  if (x < 9.995) return absl::StrFormat("%.2f", x);
  if (x < 99.95) return absl::StrFormat("%.1f", x);
  return absl::StrFormat("%.0f", x);
}

}  // namespace

std::string Rate(double per_second) {
  if (!std::isfinite(per_second) || per_second < 0) return "?";
  if (per_second < 999.5) return ThreeDigits(per_second);
  if (per_second < 999.5e3) return ThreeDigits(per_second / 1e3) + "k";
  return ThreeDigits(per_second / 1e6) + "M";
}

std::string Loss(double loss) {
  if (!std::isfinite(loss)) return "?";
  const double size = std::fabs(loss);
  const bool is_plain = loss == 0 || (size >= 1e-4 && size < 1e6);
  return is_plain ? absl::StrFormat("%.4f", loss) : absl::StrFormat("%.3e", loss);
}

std::string Join(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? " and " : ", ";
    text += names[i];
  }
  return text;
}

std::string DevicesText(const std::vector<std::string>& ids) {
  if (ids.empty()) return "no devices";
  return absl::StrCat(Plural(static_cast<int64_t>(ids.size()), "device"), " (", Join(ids), ")");
}

std::string LostWithThisHost(const std::string& what, const std::string& folder) {
  return absl::StrCat(
      "losing this host loses ", what, ": ", folder,
      " lies on its own disk, with the journal and the checkpoints; what lies in a "
      "--dir on shared storage, or on a disk that moves along, can go on elsewhere");
}

std::string ProgressLine(const Progress& p) {
  const int64_t done = p.step + 1;
  std::string line = absl::StrCat("step ", done);
  if (p.steps > 0) absl::StrAppend(&line, " of ", p.steps);
  absl::StrAppend(&line, " · epoch ", p.epoch + 1);
  if (p.epochs > 0) absl::StrAppend(&line, " of ", p.epochs);
  absl::StrAppend(&line, " · loss ", Loss(p.loss));
  if (p.learning_rate) absl::StrAppend(&line, absl::StrFormat(" · rate %.3g", *p.learning_rate));
  if (p.gradient_norm) absl::StrAppend(&line, absl::StrFormat(" · norm %.3g", *p.gradient_norm));
  if (p.samples_per_second > 0)
    absl::StrAppend(&line, " · ", Rate(p.samples_per_second), " samples/s");
  if (p.seconds_left >= 0 && done != p.steps)
    absl::StrAppend(&line, " · ", HowLong(p.seconds_left), " left");
  return line;
}

namespace {

bool BeginsCharacter(char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }

}  // namespace

size_t ColumnsOf(absl::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), BeginsCharacter));
}

std::string FitWidth(absl::string_view text, size_t width) {
  size_t columns = 0;
  size_t end = 0;
  while (end < text.size()) {
    if (BeginsCharacter(text[end]) && columns++ == width) break;
    ++end;
  }
  return std::string(text.substr(0, end));
}

std::string ShellWord(const std::string& text) {
  constexpr char kPlain[] =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./=:,+-@%";
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string::npos) return text;
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "'\\''"}}), "'");
}

}  // namespace muster::cli
