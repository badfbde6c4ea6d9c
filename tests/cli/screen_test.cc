#include "cli/screen.h"

#include <algorithm>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
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

std::function<size_t()> Always(size_t number) {
  return [number] { return number; };
}

// What a terminal of some columns and rows shows after such output: enough of one for a screen.
class TinyTerminal {
 public:
  explicit TinyTerminal(size_t columns) : columns_(columns) {}

  void Take(const std::string& text) {
    for (size_t at = 0; at < text.size();) {
      if (text.compare(at, 3, "\x1b[K") == 0) {
        lines_[row_].resize(std::min(column_, lines_[row_].size()));
        at += 3;
      } else if (text.compare(at, 3, "\x1b[J") == 0) {
        lines_[row_].resize(std::min(column_, lines_[row_].size()));
        lines_.resize(row_ + 1);
        at += 3;
      } else if (text[at] == '\x1b') {
        const size_t end = text.find('A', at);
        const auto up = static_cast<size_t>(std::stoi(text.substr(at + 2, end - at - 2)));
        ASSERT_LE(up, row_) << "above the first line";
        row_ -= up;
        at = end + 1;
      } else if (text[at] == '\r') {
        column_ = 0;
        ++at;
      } else if (text[at] == '\n') {
        column_ = 0;
        if (++row_ == lines_.size()) lines_.emplace_back();
        ++at;
      } else {
        size_t end = at + 1;
        while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) ++end;
        std::vector<std::string>& line = lines_[row_];
        line.resize(std::max(line.size(), column_ + 1), " ");
        line[column_++] = text.substr(at, end - at);
        ASSERT_LE(column_, columns_) << "wider than the window";
        at = end;
      }
    }
  }
  std::vector<std::string> Lines() const {
    std::vector<std::string> lines;
    for (const std::vector<std::string>& line : lines_) lines.push_back(absl::StrJoin(line, ""));
    return lines;
  }

 private:
  const size_t columns_;
  std::vector<std::vector<std::string>> lines_{1};  // characters
  size_t row_ = 0, column_ = 0;
};

TEST(ScreenTest, AChartOfTheLossStandsAboveTheProgressLineAndMovesNothing) {
  std::ostringstream out;
  Screen screen(out, Screen::Kind::kTerminal, Always(31), Always(24));
  EXPECT_TRUE(screen.shows_chart());
  screen.AddPast(0, 4);
  screen.Say("begun");
  for (int step = 1; step <= 9; ++step)
    screen.ShowProgress({.step = step, .loss = 4.0 - 0.4 * step}, kStart + seconds(step));
  screen.Say("worker-2 was killed");
  screen.ShowProgress({.step = 10, .loss = 0}, kStart + seconds(10));
  screen.Finish();
  screen.Say("done");
  TinyTerminal terminal(31);
  terminal.Take(out.str());
  EXPECT_EQ(absl::StrJoin(terminal.Lines(), "\n"),
            "begun\n"
            "worker-2 was killed\n"
            "        4 ┤⠉⠢⣀\n"
            "          │   ⠉⠒⢄\n"
            "          │      ⠉⠢⣀\n"
            "          │         ⠉⠢⡀\n"
            "          │           ⠈⠑⢄⡀\n"
            "          │              ⠈⠢⢄⡀\n"
            "        0 ┤                 ⠈⠑⢄\n"
            "           0                 10\n"
            "step 11 · epoch 1 · loss 0.0000\n"
            "done\n");
}

TEST(ScreenTest, TheValidationLossIsMarkedOnTheChart) {
  std::ostringstream out;
  Screen screen(out, Screen::Kind::kTerminal, Always(41), Always(24));
  screen.AddPast(0, 4);
  screen.AddValidation(5, 4);
  screen.ShowProgress({.step = 10, .loss = 0}, kStart);
  screen.AddValidation(10, 2);
  screen.ShowProgress({.step = 20, .loss = 0}, kStart + seconds(1));
  screen.Finish();
  TinyTerminal terminal(41);
  terminal.Take(out.str());
  const std::vector<std::string> lines = terminal.Lines();
  EXPECT_EQ(ColumnsOf(lines[0].substr(0, lines[0].find('o'))), 11u + 7u) << lines[0];
  EXPECT_NE(lines[3].find('o'), std::string::npos) << absl::StrJoin(lines, "\n");
  EXPECT_NE(lines[7].find("o validation loss"), std::string::npos) << lines[7];
}

// Those of a job that lasts less than the time between two drawings came after the last one.
TEST(ScreenTest, AValidationLossThatComesAfterTheLastStepIsOnTheChartThatStays) {
  std::ostringstream out;
  Screen screen(out, Screen::Kind::kTerminal, Always(41), Always(24));
  screen.AddPast(0, 4);
  screen.ShowProgress({.step = 59, .steps = 60, .loss = 0}, kStart);
  screen.AddValidation(30, 2);
  screen.Say("validation at step 30: loss 2");
  screen.Finish();
  TinyTerminal terminal(41);
  terminal.Take(out.str());
  const std::string shown = absl::StrJoin(terminal.Lines(), "\n");
  EXPECT_NE(shown.find("o validation loss"), std::string::npos) << shown;

  // Where there is no chart, the line is there already.
  for (const Screen::Kind kind : {Screen::Kind::kTerminal, Screen::Kind::kPlain}) {
    out.str("");
    Screen small(out, kind, Always(80), Always(0));
    small.ShowProgress({.step = 59, .steps = 60, .loss = 0}, kStart);
    const std::string before = out.str();
    small.AddValidation(30, 2);
    small.Finish();
    EXPECT_EQ(out.str(), kind == Screen::Kind::kPlain ? before : before + "\n");
  }
}

TEST(LossChartTest, ARewindTakesTheValidationOfLaterStepsAway) {
  LossChart chart;
  for (int64_t step = 0; step < 40; ++step) chart.Add(step, 1);
  chart.AddValidation(10, 3);
  chart.AddValidation(20, 5);
  chart.AddValidation(30, 9);
  EXPECT_EQ(chart.Lines(80, 24)[0].substr(0, 9), "        9");
  chart.AddValidation(20, 5);  // it may be told before the step is done again
  chart.Add(20, 1);
  EXPECT_EQ(chart.Lines(80, 24)[0].substr(0, 9), "        5") << "that of step 20 is the same";
  chart.Add(12, 1);
  EXPECT_EQ(chart.Lines(80, 24)[0].substr(0, 9), "        3");
}

TEST(ScreenTest, AfterARewindTheChartGoesOnFromThere) {
  std::ostringstream out;
  Screen screen(out, Screen::Kind::kTerminal, Always(40), Always(24));
  int count = 0;
  for (const auto& [step, loss] :
       {std::pair(0, 1.0), std::pair(1, 50.0), std::pair(2, 99.0), std::pair(1, 2.0)})
    screen.ShowProgress({.step = step, .loss = loss}, kStart + seconds(10 * count++));
  screen.Finish();
  TinyTerminal terminal(40);
  terminal.Take(out.str());
  EXPECT_EQ(terminal.Lines()[0].substr(0, 9), "        2") << "99 is not its height any more";
}

TEST(ScreenTest, ASmallWindowAndPlainOutputHaveNoChart) {
  using Window = std::pair<size_t, size_t>;
  for (const auto& [columns, rows] : {Window(80, 19), Window(20, 50), Window(80, 0)}) {
    std::ostringstream out;
    Screen screen(out, Screen::Kind::kTerminal, Always(columns), Always(rows));
    screen.ShowProgress(At(1), kStart);
    EXPECT_EQ(out.str().find('\n'), std::string::npos) << columns << " " << rows;
  }
  std::ostringstream out;
  Screen screen(out, Screen::Kind::kPlain, Always(80), Always(50));
  EXPECT_FALSE(screen.shows_chart());
  screen.ShowProgress(At(1), kStart);
  EXPECT_EQ(out.str(), "step 1 · epoch 1 · loss 1.0000\n");
}

// The lines before are as many rows as the narrow window breaks them into.
TEST(ScreenTest, AChartInAWindowThatWasMadeNarrowerIsDrawnOverTheOneBefore) {
  std::ostringstream out;
  size_t columns = 40;
  Screen screen(
      out, Screen::Kind::kTerminal, [&] { return columns; }, Always(24));
  screen.AddPast(0, 5);
  screen.ShowProgress(At(2), kStart);
  columns = 30;
  out.str("");
  screen.ShowProgress(At(3), kStart + seconds(1));
  EXPECT_EQ(out.str().substr(0, 6), "\r\x1b[12A") << "eight lines, of which four are too wide";
}

TEST(LossChartTest, MillionsOfStepsKeepTheirOutlierInBoundedMemory) {
  LossChart chart;
  for (int64_t step = 0; step < 300'000; ++step) chart.Add(step, step == 77'777 ? 1e6 : 1);
  const std::vector<std::string> lines = chart.Lines(80, 24);
  ASSERT_EQ(lines.size(), 8u);
  EXPECT_EQ(lines[0].substr(0, 9), "    1e+06");
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
