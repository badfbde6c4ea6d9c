// What `muster train` shows: one progress line that is kept up to date, and events above it. On a
// terminal the line is redrawn in place, with a chart of the loss above it, and of
// the validation loss, where that is asked for;
// elsewhere it is printed every few seconds. As JSON: one object per event on the output and
// nothing else. Text that could steer a terminal is made harmless. One thread.
#pragma once

#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "cli/format.h"
#include "cli/loss_chart.h"
#include "cli/repeats.h"
#include "lib/base/time.h"

namespace muster::cli {

// Where to print, and how.
struct Terminal {
  std::ostream& out;
  std::ostream& err;
  bool is_terminal = false;  // of `out`, and one that can move its cursor
  // Asked at each drawing: windows change their size.
  std::function<size_t()> width = [] { return size_t{80}; };
  // Likewise, of lines. 0: no chart is wanted here.
  std::function<size_t()> height = [] { return size_t{0}; };
};

class Screen {
 public:
  enum class Kind { kTerminal, kPlain, kJson };
  Screen(
      std::ostream& out, Kind kind, std::function<size_t()> width,
      std::function<size_t()> height = [] { return size_t{0}; })
      : out_(out), kind_(kind), width_(std::move(width)), height_(std::move(height)) {}
  Screen(const Terminal& terminal, bool json)
      : Screen(terminal.out,
               json                   ? Kind::kJson
               : terminal.is_terminal ? Kind::kTerminal
                                      : Kind::kPlain,
               terminal.width, terminal.height) {}

  // A loss for the chart, of a step before those that are shown as progress.
  void AddPast(int64_t step, double loss);
  // For the chart, too, of any step so far.
  void AddValidation(int64_t step, double loss);
  bool shows_chart() const { return kind_ == Kind::kTerminal && height_() > 0; }
  // Not each time, but always at the last step.
  void ShowProgress(const Progress& progress, Time now);
  // Likewise, a line in the place of the one before.
  void ShowLine(const std::string& line, Time now);
  // A sentence for people; not shown as JSON.
  void Say(absl::string_view text);
  // The same, of what happens again and again, each time with another text for the same cause:
  // later times are a line that counts, redrawn in place on a terminal.
  void SayAgain(const std::string& cause, absl::string_view text);
  void NotAgain() { repeats_.Over(); }  // the cause is gone
  // An object for programs; shown only as JSON.
  void Emit(const std::string& json);
  // Shows the newest progress and leaves it; what follows stands below it.
  void Finish();
  bool json() const { return kind_ == Kind::kJson; }

 private:
  bool IsDue(Time now) const;
  void Draw(const Progress& progress);
  void DrawLine(const std::string& text);
  // Moves the cursor to the begin of what stands at the bottom.
  std::string ToTop() const;

  std::ostream& out_;
  const Kind kind_;
  const std::function<size_t()> width_;
  const std::function<size_t()> height_;
  LossChart chart_;
  std::vector<std::string> drawn_;  // the chart as it stands on the terminal, above
  std::string line_;                // the progress line as it stands there
  std::optional<Time> last_;        // of the last progress line shown
  std::optional<Progress> newest_;
  std::optional<Progress> waiting_;  // the newest, where the terminal does not show all of it yet
  Repeats repeats_;
};

}  // namespace muster::cli
