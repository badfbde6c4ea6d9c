// What `muster train` shows: one progress line that is kept up to date, and events above it. On a
// terminal the line is redrawn in place; elsewhere it is printed every few seconds. As JSON: one
// object per event on the output and nothing else. One thread.
#pragma once

#include <optional>
#include <ostream>
#include <string>

#include "cli/format.h"
#include "lib/base/time.h"

namespace muster::cli {

class Screen {
 public:
  enum class Kind { kTerminal, kPlain, kJson };
  Screen(std::ostream& out, Kind kind, size_t width) : out_(out), kind_(kind), width_(width) {}

  void ShowProgress(const Progress& progress, Time now);
  // A sentence for people; not shown as JSON.
  void Say(absl::string_view text);
  // An object for programs; shown only as JSON.
  void Emit(const std::string& json);
  // Leaves the progress line as it is; what follows stands below it.
  void Finish();
  bool json() const { return kind_ == Kind::kJson; }

 private:
  void EraseLine();

  std::ostream& out_;
  const Kind kind_;
  const size_t width_;
  std::string line_;          // the progress line as it stands on the terminal
  std::optional<Time> last_;  // of the last progress line shown
};

}  // namespace muster::cli
