#include "agent/state/exit.h"

#include "absl/strings/str_cat.h"
#include "lib/base/signal_name.h"

namespace muster::agent {

ExitMeaning MeaningOf(const Exit& exit) {
  if (exit.signal != 0 || exit.untold) return ExitMeaning::kFailure;
  switch (exit.code) {
    case kExitDone: return ExitMeaning::kDone;
    case kExitNotFinite:
    case kExitStopped:
    case kExitLater: return ExitMeaning::kLeft;
    case kExitReplaced: return ExitMeaning::kHopeless;
    default: return EndsItsJob(exit.code) ? ExitMeaning::kHopeless : ExitMeaning::kFailure;
  }
}

namespace {

std::string CodeMeaning(int code) {
  switch (code) {
    case kExitDone: return " (done)";
    case kExitBadConfiguration: return " (bad configuration)";
    case kExitBadData: return " (bad data)";
    case kExitNotFinite: return " (its job stopped at a step that was not finite)";
    case kExitStopped: return " (stopped or cancelled by a person)";
    case kExitReplaced: return " (another process has taken its place)";
    case kExitNoPlugin: return " (its host lacks the plug-in)";
    case kExitLater: return " (left as asked)";
    case kExitOtherEnvironment: return " (its numeric environment or version does not fit)";
    case kExitTerminated: return " (told to go by a signal)";
    default: return "";
  }
}

}  // namespace

std::string CauseOf(const Exit& exit) {
  if (!exit.not_started.empty()) return exit.not_started;
  if (exit.out_of_memory)
    return absl::StrCat("out of memory (killed by ", SignalName(exit.signal), ")");
  if (exit.signal != 0) return absl::StrCat("killed by ", SignalName(exit.signal));
  if (exit.untold)
    return absl::StrCat("exit code ", exit.code, ", which nobody told it to end with: its task or ",
                        "plug-in has ended the process (_exit)");
  return absl::StrCat("exit code ", exit.code, CodeMeaning(exit.code));
}

}  // namespace muster::agent
