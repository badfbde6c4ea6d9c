#include "cli/screen.h"

#include "absl/strings/str_cat.h"
#include "lib/base/printable.h"

namespace muster::cli {
namespace {

constexpr Duration kRedraw = std::chrono::milliseconds(100);
constexpr Duration kPrint = std::chrono::seconds(5);

}  // namespace

void Screen::ShowProgress(const Progress& progress, Time now) {
  if (kind_ == Kind::kJson) return;
  waiting_ = progress;
  const bool is_last = progress.steps > 0 && progress.step + 1 >= progress.steps;
  if (!IsDue(now) && !is_last) return;
  last_ = now;
  Draw(progress);
}

void Screen::ShowLine(const std::string& line, Time now) {
  if (kind_ == Kind::kJson || !IsDue(now)) return;
  last_ = now;
  DrawLine(line);
}

bool Screen::IsDue(Time now) const {
  const Duration pause = kind_ == Kind::kTerminal ? kRedraw : kPrint;
  return !last_ || now - *last_ >= pause;
}

void Screen::Draw(const Progress& progress) {
  waiting_.reset();
  DrawLine(ProgressLine(progress));
}

void Screen::DrawLine(const std::string& text) {
  if (kind_ == Kind::kPlain) {
    out_ << text << std::endl;
    return;
  }
  line_ = FitWidth(text, width_());
  out_ << "\r\x1b[K" << line_ << std::flush;
}

void Screen::SayAgain(const std::string& cause, absl::string_view text) {
  if (kind_ == Kind::kJson) return;
  const Repeats::Told told = repeats_.Again(cause);
  if (told.is_first) return Say(text);
  if (kind_ == Kind::kTerminal || told.is_round())
    DrawLine(absl::StrCat(PrintableLines(cause), ": ", told.times, " times"));
}

void Screen::EraseLine() {
  if (!line_.empty()) out_ << "\r\x1b[K";
}

void Screen::Say(absl::string_view text) {
  if (kind_ == Kind::kJson) return;
  EraseLine();
  line_ = FitWidth(line_, width_());
  out_ << PrintableLines(text) << "\n" << line_ << std::flush;
}

void Screen::Finish() {
  if (waiting_) Draw(*waiting_);
  if (!line_.empty()) out_ << "\n" << std::flush;
  line_.clear();
}

void Screen::Emit(const std::string& json) {
  if (kind_ == Kind::kJson) out_ << json << std::endl;
}

}  // namespace muster::cli
