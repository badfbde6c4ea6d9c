#include "cli/screen.h"

#include <sstream>

#include "gtest/gtest.h"

namespace muster::cli {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Time kStart = Time{} + seconds(50);
constexpr Progress At(int64_t step) { return {.step = step, .loss = 1}; }

TEST(ScreenTest, ATerminalKeepsOneLineBelowTheEvents) {
  std::ostringstream out;
  Screen screen(out, Screen::Kind::kTerminal, 12);
  screen.ShowProgress(At(1), kStart);
  screen.Say("worker-2 was killed");
  screen.ShowProgress(At(2), kStart + milliseconds(50));  // too soon
  screen.ShowProgress(At(3), kStart + milliseconds(150));
  screen.Finish();
  screen.Say("done");
  EXPECT_EQ(out.str(),
            "\r\x1b[Kstep 1 · epo"
            "\r\x1b[Kworker-2 was killed\nstep 1 · epo"
            "\r\x1b[Kstep 3 · epo\n"
            "done\n");
}

TEST(ScreenTest, ElsewhereALineEveryFewSecondsWithoutControlCharacters) {
  std::ostringstream out;
  Screen screen(out, Screen::Kind::kPlain, 12);
  screen.ShowProgress(At(1), kStart);
  screen.ShowProgress(At(2), kStart + seconds(1));
  screen.Say("worker-2 was killed");
  screen.ShowProgress(At(9), kStart + seconds(5));
  screen.Finish();
  screen.Emit("{}");
  EXPECT_EQ(
      out.str(),
      "step 1 · epoch 1 · loss 1.0000\nworker-2 was killed\nstep 9 · epoch 1 · loss 1.0000\n");
}

TEST(ScreenTest, JsonIsObjectsAndNothingElse) {
  std::ostringstream out;
  Screen screen(out, Screen::Kind::kJson, 80);
  screen.ShowProgress(At(1), kStart);
  screen.Say("words");
  screen.Emit(R"({"event":"step"})");
  screen.Finish();
  EXPECT_EQ(out.str(), "{\"event\":\"step\"}\n");
}

}  // namespace
}  // namespace muster::cli
