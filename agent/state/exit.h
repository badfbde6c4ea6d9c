// How a process ended and what follows from it for its host agent: plain values and pure functions
// of them.
#pragma once

#include <string>

#include "lib/base/exit_codes.h"
#include "lib/domain/message.h"

namespace muster::agent {

struct Exit {
  int code = 0;                // when signal is 0
  int signal = 0;              // that ended it; 0: it ended by itself
  bool out_of_memory = false;  // the kernel killed it for memory
  std::string not_started;     // why it never ran; empty: it did
  bool host_is_short = false;  // it never ran, as the host lacked something: it may another time
  std::string last_lines;      // of its log
  LaneCount lanes;             // of a worker: what it had run
  std::string sample{};        // of a worker: text that the trained model made; empty: none
  // The code says that the member was told to go, and its program has not said so: what it runs,
  // such as a plug-in, has ended the process past it.
  bool untold = false;
};

enum class ExitMeaning {
  kDone,      // 0: its work is done
  kLeft,      // 67, 75: it left as it was asked to; of a coordinator: it cannot work for now
  kHopeless,  // 64, 65, 69, 72, 78: starting it again would end the same way
  kFailure,   // everything else: worth another start
};
// Codes that a member ends with only where its coordinator told it to.
constexpr bool SaysThatItWasTold(int code) {
  return code == kExitDone || code == kExitNotFinite || code == kExitStopped ||
         code == kExitReplaced || code == kExitLater;
}

ExitMeaning MeaningOf(const Exit& exit);

// For people: "killed by SIGKILL", "out of memory (killed by SIGKILL)", "exit code 64 (bad
// configuration)".
std::string CauseOf(const Exit& exit);

}  // namespace muster::agent
