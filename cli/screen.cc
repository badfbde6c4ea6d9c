#include "cli/screen.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "lib/base/printable.h"

namespace muster::cli {
namespace {

constexpr Duration kRedraw = std::chrono::milliseconds(100);
constexpr Duration kPrint = std::chrono::seconds(5);

}  // namespace

void Screen::ShowProgress(const Progress& progress, Time now) {
  if (kind_ == Kind::kJson) return;
  chart_.Add(progress.step, progress.loss);
  waiting_ = newest_ = progress;
  const bool is_last = progress.steps > 0 && progress.step + 1 >= progress.steps;
  if (!IsDue(now) && !is_last) return;
  last_ = now;
  Draw(progress);
}

void Screen::AddPast(int64_t step, double loss) { chart_.Add(step, loss); }

// It may come after the last step was drawn, and no step follows that would show it.
void Screen::AddValidation(int64_t step, double loss) {
  chart_.AddValidation(step, loss);
  if (shows_chart() && !waiting_) waiting_ = newest_;
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
  DrawLine(ProgressLine(progress));
  waiting_.reset();  // it may be `progress`
}

// In one piece, and each line in the place of the one before: nothing is seen to vanish. A line is
// erased before it is written, as one of full width leaves the cursor on its last character. Where
// the chart had more lines than it has now, what is left of them goes.
void Screen::DrawLine(const std::string& text) {
  if (kind_ == Kind::kPlain) {
    out_ << text << std::endl;
    return;
  }
  std::string all = ToTop();
  const size_t lines_before = drawn_.size();
  drawn_ = chart_.Lines(width_(), height_());
  line_ = FitWidth(text, width_());
  for (const std::string& line : drawn_) absl::StrAppend(&all, "\x1b[K", line, "\n");
  absl::StrAppend(&all, drawn_.size() < lines_before ? "\x1b[J" : "\x1b[K", line_);
  out_ << all << std::flush;
}

// Lines that are wider than a window which was made narrower take several of its rows.
std::string Screen::ToTop() const {
  const size_t width = std::max<size_t>(1, width_());
  const auto rows_of = [&](const std::string& line) {
    return std::max<size_t>(1, (ColumnsOf(line) + width - 1) / width);
  };
  size_t above = drawn_.empty() ? 0 : rows_of(line_) - 1;
  for (const std::string& line : drawn_) above += rows_of(line);
  return above == 0 ? "\r" : absl::StrCat("\r\x1b[", above, "A");
}

void Screen::SayAgain(const std::string& cause, absl::string_view text) {
  if (kind_ == Kind::kJson) return;
  const Repeats::Told told = repeats_.Again(cause);
  if (told.is_first) return Say(text);
  if (kind_ == Kind::kTerminal || told.is_round())
    DrawLine(absl::StrCat(PrintableLines(cause), ": ", told.times, " times"));
}

void Screen::Say(absl::string_view text) {
  if (kind_ == Kind::kJson) return;
  std::string all;
  if (!line_.empty()) absl::StrAppend(&all, ToTop(), drawn_.empty() ? "\x1b[K" : "\x1b[J");
  absl::StrAppend(&all, PrintableLines(text), "\n");
  for (std::string& line : drawn_) {
    line = FitWidth(line, width_());
    absl::StrAppend(&all, line, "\n");
  }
  line_ = FitWidth(line_, width_());
  out_ << all << line_ << std::flush;
}

void Screen::Finish() {
  if (waiting_) Draw(*waiting_);
  if (!line_.empty()) out_ << "\n" << std::flush;
  line_.clear();
  drawn_.clear();
}

void Screen::Emit(const std::string& json) {
  if (kind_ == Kind::kJson) out_ << json << std::endl;
}

}  // namespace muster::cli
