#include "cli/screen.h"

#include <sstream>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace muster::cli {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Time kStart = Time{} + seconds(50);
constexpr Progress At(int64_t steps_done) { return {.step = steps_done - 1, .loss = 1}; }

std::function<size_t()> Columns(size_t columns) {
  return [columns] { return columns; };
}

TEST(ScreenTest, ATerminalKeepsOneLineBelowTheEvents) {
  std::ostringstream out;
  Screen screen(out, Screen::Kind::kTerminal, Columns(12));
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

TEST(ScreenTest, TheLastStepIsShownAndWhatIsNewestAtTheEnd) {
  std::ostringstream out;
  Screen screen(out, Screen::Kind::kPlain, Columns(80));
  screen.ShowProgress(At(1), kStart);
  screen.ShowProgress({.step = 2, .steps = 3, .loss = 1}, kStart);
  EXPECT_EQ(out.str(), "step 1 · epoch 1 · loss 1.0000\nstep 3 of 3 · epoch 1 · loss 1.0000\n");
  out.str("");
  screen.ShowProgress(At(5), kStart);
  screen.Finish();
  EXPECT_EQ(out.str(), "step 5 · epoch 1 · loss 1.0000\n") << "a job that ends before its time";
}

// A line that is wider than the window would be broken into two, and only one of them erased.
TEST(ScreenTest, AWindowThatWasMadeNarrowerHasANarrowerLine) {
  std::ostringstream out;
  size_t columns = 12;
  Screen screen(out, Screen::Kind::kTerminal, [&] { return columns; });
  screen.ShowProgress(At(1), kStart);
  columns = 6;
  screen.Say("x");
  screen.ShowProgress(At(2), kStart + seconds(1));
  EXPECT_EQ(out.str(), "\r\x1b[Kstep 1 · epo\r\x1b[Kx\nstep 1\r\x1b[Kstep 2");
}

TEST(ScreenTest, TextCannotSteerTheTerminal) {
  std::ostringstream out;
  Screen screen(out, Screen::Kind::kTerminal, Columns(80));
  screen.Say("a\x1b]0;title\x07\nb\rc");
  EXPECT_EQ(out.str(), "a\\x1b]0;title\\x07\nb\\x0dc\n");
}

TEST(ScreenTest, ElsewhereALineEveryFewSecondsWithoutControlCharacters) {
  std::ostringstream out;
  Screen screen(out, Screen::Kind::kPlain, Columns(12));
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
  Screen screen(out, Screen::Kind::kJson, Columns(80));
  screen.ShowProgress(At(1), kStart);
  screen.Say("words");
  screen.Emit(R"({"event":"step"})");
  screen.Finish();
  EXPECT_EQ(out.str(), "{\"event\":\"step\"}\n");
}

TEST(ScreenTest, WhatHappensAgainAndAgainIsALineThatCounts) {
  std::ostringstream out;
  Screen plain(out, Screen::Kind::kPlain, [] { return size_t{80}; });
  for (int i = 1; i <= 9; ++i)
    plain.SayAgain("the disk is full", absl::StrCat("the disk is full; again in ", i, " s"));
  EXPECT_EQ(out.str(),
            "the disk is full; again in 1 s\n"
            "the disk is full: 2 times\nthe disk is full: 4 times\nthe disk is full: 8 times\n");
  out.str("");
  plain.NotAgain();
  plain.SayAgain("the disk is full", "the disk is full once more");
  EXPECT_EQ(out.str(), "the disk is full once more\n");

  out.str("");
  Screen terminal(out, Screen::Kind::kTerminal, [] { return size_t{80}; });
  for (int i = 1; i <= 3; ++i) terminal.SayAgain("full", "full; again");
  terminal.Finish();
  EXPECT_EQ(out.str(), "full; again\n\r\x1b[Kfull: 2 times\r\x1b[Kfull: 3 times\n");
}

}  // namespace
}  // namespace muster::cli
