#include "cli/format.h"

#include <cmath>
#include <limits>

#include "gtest/gtest.h"

namespace muster::cli {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(FormatTest, Times) {
  EXPECT_EQ(HowLong(0), "0.0 s");
  EXPECT_EQ(HowLong(0.42), "0.4 s");
  EXPECT_EQ(HowLong(9.94), "9.9 s");
  EXPECT_EQ(HowLong(9.96), "10 s");
  EXPECT_EQ(HowLong(59.4), "59 s");
  EXPECT_EQ(HowLong(59.6), "1:00 min");
  EXPECT_EQ(HowLong(187), "3:07 min");
  EXPECT_EQ(HowLong(3599.6), "1:00 h");
  EXPECT_EQ(HowLong(2 * 3600 + 3 * 60 + 59), "2:03 h");
  EXPECT_EQ(HowLong(76 * 3600 + 30), "3 d 4 h");
  EXPECT_EQ(HowLong(kNan), "?");
  EXPECT_EQ(HowLong(-1), "?");
}

TEST(FormatTest, Rates) {
  EXPECT_EQ(Rate(0.854), "0.85");
  EXPECT_EQ(Rate(9.996), "10.0");
  EXPECT_EQ(Rate(12.34), "12.3");
  EXPECT_EQ(Rate(99.96), "100");
  EXPECT_EQ(Rate(512.3), "512");
  EXPECT_EQ(Rate(999.6), "1.00k");
  EXPECT_EQ(Rate(1234), "1.23k");
  EXPECT_EQ(Rate(45678), "45.7k");
  EXPECT_EQ(Rate(4.56e6), "4.56M");
  EXPECT_EQ(Rate(INFINITY), "?");
}

TEST(FormatTest, LossesBytesAndLists) {
  EXPECT_EQ(Loss(5.54518), "5.5452");
  EXPECT_EQ(Loss(kNan), "?");
  EXPECT_EQ(Loss(0), "0.0000");
  EXPECT_EQ(Loss(-1.445e32), "-1.445e+32");
  EXPECT_EQ(Loss(0.00003), "3.000e-05");
  EXPECT_EQ(Bytes(640), "640 B");
  EXPECT_EQ(Bytes(1536), "1.5 KiB");
  EXPECT_EQ(Bytes(25 * 1024.0 * 1024), "25 MiB");
  EXPECT_EQ(Join({}), "");
  EXPECT_EQ(Join({"a"}), "a");
  EXPECT_EQ(Join({"a", "b"}), "a and b");
  EXPECT_EQ(Join({"a", "b", "c"}), "a, b and c");
}

TEST(FormatTest, TheProgressLineShowsDetailsThatAreThere) {
  EXPECT_EQ(ProgressLine({.step = 0, .loss = 1, .learning_rate = 0.00025, .gradient_norm = 12.345}),
            "step 1 · epoch 1 · loss 1.0000 · rate 0.00025 · norm 12.3");
}

TEST(FormatTest, TheProgressLine) {
  EXPECT_EQ(ProgressLine({.step = 117,
                          .steps = 300,
                          .epoch = 0,
                          .loss = 2.34561,
                          .samples_per_second = 61.4,
                          .seconds_left = 71}),
            "step 118 of 300 · epoch 1 · loss 2.3456 · 61.4 samples/s · 1:11 min left");
  EXPECT_EQ(ProgressLine({.step = 0, .epoch = 1, .epochs = 3, .loss = kNan}),
            "step 1 · epoch 2 of 3 · loss ?");
  EXPECT_EQ(ProgressLine({.step = 299, .steps = 300, .loss = 1, .seconds_left = 0}),
            "step 300 of 300 · epoch 1 · loss 1.0000");
}

TEST(FormatTest, FitsTheTerminalByCharacters) {
  EXPECT_EQ(FitWidth("step · loss", 6), "step ·");
  EXPECT_EQ(FitWidth("step · loss", 5), "step ");
  EXPECT_EQ(FitWidth("step", 80), "step");
  EXPECT_EQ(FitWidth("", 0), "");
}

TEST(FormatTest, WordsOfAShell) {
  EXPECT_EQ(ShellWord("epochs=300"), "epochs=300");
  EXPECT_EQ(ShellWord("data.paths=[a b]"), "'data.paths=[a b]'");
  EXPECT_EQ(ShellWord("it's"), "'it'\\''s'");
  EXPECT_EQ(ShellWord(""), "''");
}

}  // namespace
}  // namespace muster::cli
