#include "worker/plugins/load_watch.h"

#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/clock.h"
#include "lib/base/exit_codes.h"
#include "lib/base/printable.h"

namespace muster::worker {
namespace {

// Not by the log: whoever hangs may hold a lock that it needs.
void SayLine(const std::string& line) {
  if (write(STDERR_FILENO, line.data(), line.size()) < 0) {
    // There is nobody to tell.
  }
}

// As after a crash of the plug-in.
void EndProcessNow() { std::_Exit(kExitFailed); }

}  // namespace

LoadWatch::LoadWatch(const std::string& file, const LoadPatience& patience)
    : LoadWatch(file, patience, SayLine, EndProcessNow) {}

LoadWatch::LoadWatch(const std::string& file, const LoadPatience& patience,
                     std::function<void(const std::string& line)> say, std::function<void()> end) {
  const std::string what = "what runs when it is loaded (static constructors, muster_plugin)";
  const std::string name = Printable(file);
  const Time begin = RealClock().Now();
  thread_ =
      std::thread([this, begin, patience, say = std::move(say), end = std::move(end),
                   slow = absl::StrCat("plug-in ", name, ": ", what, " has not returned for ",
                                       Seconds(patience.tell), " s; this process waits ",
                                       Seconds(patience.end), " s for it\n"),
                   stuck = absl::StrCat(
                       "plug-in ", name, " is not loaded after ", Seconds(patience.end),
                       " s: ", what, " does not return; mend it, or take it out of its folder\n")] {
        if (loaded_.TakeUntil(begin + patience.tell)) return;
        say(slow);
        if (loaded_.TakeUntil(begin + patience.end)) return;
        say(stuck);
        end();
      });
}

LoadWatch::~LoadWatch() {
  loaded_.Post(true);
  thread_.join();
}

}  // namespace muster::worker
