// How numbers and progress read to people. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "lib/base/amount_text.h"
#include "lib/base/plural.h"

namespace muster::cli {

std::string Rate(
    double per_second);         // three digits that matter: "0.85", "12.3", "512", "1.23k", "4.56M"
std::string Loss(double loss);  // "2.3456"; "?" when not finite
std::string Join(const std::vector<std::string>& names);  // "a", "a and b", "a, b and c"

// "no devices", "1 device (0)", "2 devices (0 and 1)".
std::string DevicesText(const std::vector<std::string>& ids);

// Where `folder`, with journal and checkpoints, lies on this host's own disk. `what`: "the run".
std::string LostWithThisHost(const std::string& what, const std::string& folder);

// The one line that `muster train` keeps up to date.
struct Progress {
  int64_t step = 0;    // the newest complete one, from 0
  int64_t steps = 0;   // of the job; 0: not known yet
  int64_t epoch = 0;   // from 0; people read it from 1
  int64_t epochs = 0;  // 0: the job is measured in steps
  double loss = 0;
  double samples_per_second = 0;  // 0: not known yet
  double seconds_left = -1;       // negative: not known yet
  std::optional<double> learning_rate =
      {};  // of the step, as the norm before clipping; shown where
  std::optional<double> gradient_norm = {};  // they are there
};
std::string ProgressLine(const Progress& progress);

// As one word of a shell.
std::string ShellWord(const std::string& text);

// Characters, of UTF-8.
size_t ColumnsOf(absl::string_view text);

// Cut to what a line of the terminal holds (bytes of UTF-8 sequences are kept together).
std::string FitWidth(absl::string_view text, size_t width);

}  // namespace muster::cli
