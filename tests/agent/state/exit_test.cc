#include "agent/state/exit.h"

#include <csignal>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace muster::agent {
namespace {

struct ExitCase {
  Exit exit;
  ExitMeaning meaning;
  std::string cause;
};

TEST(Exit, MeansAndIsCalled) {
  const std::vector<ExitCase> cases = {
      {{.code = 0}, ExitMeaning::kDone, "exit code 0 (done)"},
      {{.code = 66},
       ExitMeaning::kLeft,
       "exit code 66 (its job stopped at a step that was not finite)"},
      {{.code = 67}, ExitMeaning::kLeft, "exit code 67 (stopped or cancelled by a person)"},
      {{.code = 75}, ExitMeaning::kLeft, "exit code 75 (left as asked)"},
      {{.code = 64}, ExitMeaning::kHopeless, "exit code 64 (bad configuration)"},
      {{.code = 65}, ExitMeaning::kHopeless, "exit code 65 (bad data)"},
      {{.code = 69}, ExitMeaning::kHopeless, "exit code 69 (another process has taken its place)"},
      {{.code = 72}, ExitMeaning::kHopeless, "exit code 72 (its host lacks the plug-in)"},
      {{.code = 78},
       ExitMeaning::kHopeless,
       "exit code 78 (its numeric environment or version does not fit)"},
      {{.code = 143}, ExitMeaning::kFailure, "exit code 143 (told to go by a signal)"},
      {{.code = 1}, ExitMeaning::kFailure, "exit code 1"},
      {{.code = 255}, ExitMeaning::kFailure, "exit code 255"},
      {{.signal = SIGKILL}, ExitMeaning::kFailure, "killed by SIGKILL"},
      {{.signal = SIGSEGV}, ExitMeaning::kFailure, "killed by SIGSEGV"},
      // Nobody had told it to go.
      {{.code = 67, .untold = true},
       ExitMeaning::kFailure,
       "exit code 67, which nobody told it to end with: its task or plug-in has ended the process "
       "(_exit)"},
      {{.code = 0, .untold = true},
       ExitMeaning::kFailure,
       "exit code 0, which nobody told it to end with: its task or plug-in has ended the process "
       "(_exit)"},
      // A code beside a signal says nothing.
      {{.code = 64, .signal = SIGTERM}, ExitMeaning::kFailure, "killed by SIGTERM"},
      {{.signal = SIGKILL, .out_of_memory = true},
       ExitMeaning::kFailure,
       "out of memory (killed by SIGKILL)"},
      {{.code = 1, .not_started = "cannot run worker: no such file"},
       ExitMeaning::kFailure,
       "cannot run worker: no such file"},
  };
  for (const ExitCase& c : cases) {
    EXPECT_EQ(MeaningOf(c.exit), c.meaning) << c.cause;
    EXPECT_EQ(CauseOf(c.exit), c.cause);
  }
}

}  // namespace
}  // namespace muster::agent
