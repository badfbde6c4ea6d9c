#include "lib/data/csv_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_replace.h"

namespace muster {
namespace {

using testing::ElementsAre;
using Row = std::vector<std::string>;

std::vector<Row> Rows(const std::string& text, char delimiter = ',') {
  CsvRows rows(text, delimiter, 0);
  std::vector<Row> all;
  while (true) {
    const absl::StatusOr<bool> more = rows.Next();
    EXPECT_TRUE(more.ok()) << more.status();
    if (!more.ok() || !*more) return all;
    Row& row = all.emplace_back();
    for (const absl::string_view cell : rows.cells()) row.emplace_back(cell);
  }
}

TEST(CsvRows, CellsAreQuotedOrNot) {
  EXPECT_THAT(Rows("a,b\r\n\"c\",\"d,\n\"\"e\"\"\"\n,\n"),
              ElementsAre(Row{"a", "b"}, Row{"c", "d,\n\"e\""}, Row{"", ""}));
}

TEST(CsvRows, TheLastLineNeedsNoEnd) {
  EXPECT_THAT(Rows("a\nb"), ElementsAre(Row{"a"}, Row{"b"}));
  EXPECT_THAT(Rows("a\n\"b\""), ElementsAre(Row{"a"}, Row{"b"}));
  EXPECT_THAT(Rows("a,"), ElementsAre(Row{"a", ""}));
}

TEST(CsvRows, EmptyLinesAreNoRows) {
  EXPECT_THAT(Rows("\n\r\na\n\n\nb\n\n"), ElementsAre(Row{"a"}, Row{"b"}));
}

TEST(CsvRows, ARowHasSoManyCellsAtMost) {
  const std::string most(kMostCells - 1, ',');
  CsvRows fits(most, ',', 0);
  EXPECT_TRUE(*fits.Next());
  EXPECT_EQ(fits.cells().size(), kMostCells);
  const std::string more = "a\n" + most + ",\n";
  CsvRows rows(more, ',', 0);
  EXPECT_TRUE(*rows.Next());
  EXPECT_EQ(rows.Next().status(),
            absl::DataLossError("line 2 (byte 2): has more than 1048576 cells"));
}

TEST(CsvRows, LinesAndBytesAreCountedThroughQuotedLineEnds) {
  CsvRows rows("a\n\"b\nc\"\nd\n", ',', 0);
  EXPECT_TRUE(*rows.Next() && *rows.Next());
  EXPECT_EQ(rows.line(), 2u);
  EXPECT_TRUE(*rows.Next());
  EXPECT_EQ(rows.line(), 4u);
  EXPECT_EQ(rows.begin(), 8u);
}

// The dumb twin is the writer: everything quoted, marks doubled.
TEST(CsvRows, ReadWhatIsWritten) {
  std::mt19937 random(2);
  const std::vector<std::string> pieces = {"a", "\"", ",", "\n", "\r\n", ";", " ", "ä", "12", ""};
  for (int round = 0; round < 300; ++round) {
    std::vector<Row> rows(1 + random() % 4);
    std::string text;
    const size_t width = 1 + random() % 3;
    for (Row& row : rows)
      for (size_t c = 0; c < width; ++c) {
        std::string& cell = row.emplace_back();
        for (size_t left = random() % 5; left > 0; --left) cell += pieces[random() % pieces.size()];
        const bool must = cell.find_first_of("\",\n\r") != std::string::npos || cell.empty();
        text += must || random() % 2 == 0
                    ? "\"" + absl::StrReplaceAll(cell, {{"\"", "\"\""}}) + "\""
                    : cell;
        text += c + 1 < width ? "," : random() % 2 == 0 ? "\n" : "\r\n";
      }
    EXPECT_EQ(Rows(text), rows) << text;
  }
}

}  // namespace
}  // namespace muster
