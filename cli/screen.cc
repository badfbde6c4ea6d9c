#include "cli/screen.h"

namespace muster::cli {
namespace {

constexpr Duration kRedraw = std::chrono::milliseconds(100);
constexpr Duration kPrint = std::chrono::seconds(5);

}  // namespace

void Screen::ShowProgress(const Progress& progress, Time now) {
  if (kind_ == Kind::kJson) return;
  if (last_ && now - *last_ < (kind_ == Kind::kTerminal ? kRedraw : kPrint)) return;
  last_ = now;
  const std::string text = ProgressLine(progress);
  if (kind_ == Kind::kPlain) {
    out_ << text << std::endl;
    return;
  }
  line_ = FitWidth(text, width_);
  out_ << "\r\x1b[K" << line_ << std::flush;
}

void Screen::EraseLine() {
  if (!line_.empty()) out_ << "\r\x1b[K";
}

void Screen::Say(absl::string_view text) {
  if (kind_ == Kind::kJson) return;
  EraseLine();
  out_ << text << "\n" << line_ << std::flush;
}

void Screen::Finish() {
  if (!line_.empty()) out_ << "\n" << std::flush;
  line_.clear();
}

void Screen::Emit(const std::string& json) {
  if (kind_ == Kind::kJson) out_ << json << std::endl;
}

}  // namespace muster::cli
