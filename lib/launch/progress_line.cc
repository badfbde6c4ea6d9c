#include "lib/launch/progress_line.h"

#include <unistd.h>

#include <iostream>

#include "absl/strings/str_cat.h"
#include "lib/base/amount_text.h"
#include "lib/base/time.h"

namespace muster {
namespace {

constexpr auto kEvery = std::chrono::milliseconds(200);

}  // namespace

std::string ProgressText(double done, double total, double seconds,
                         const std::function<std::string(double)>& amount) {
  const std::string pace = PaceText(done, total, seconds, amount);
  return absl::StrCat(amount(done), " of ", amount(total), pace.empty() ? "" : ", ", pace);
}

ProgressLine::~ProgressLine() {
  if (is_shown_) std::cerr << "\r\033[K" << std::flush;
}

void ProgressLine::At(double done) {
  const Moment now = std::chrono::steady_clock::now();
  if (now - last_ < kEvery || isatty(STDERR_FILENO) == 0) return;
  last_ = now;
  is_shown_ = true;
  std::cerr << "\r" << ProgressText(done, total_, Seconds(now - begin_), amount_) << "\033[K"
            << std::flush;
}

}  // namespace muster
