// The rows of a text of comma-separated values (RFC 4180).
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace muster {

inline constexpr size_t kMostCells = size_t{1} << 20;  // of a row

// Lines end in "\n" or "\r\n". A cell that begins with a quotation mark ends with the next single
// one and may hold anything; two of them there stand for one. Empty lines are no rows.
class CsvRows {
 public:
  // `text` outlives it; rows are looked for from `begin`.
  CsvRows(absl::string_view text, char delimiter, size_t begin)
      : text_(text), delimiter_(delimiter), at_(begin) {}

  // False: there is no further row. kDataLoss: the text is no CSV, or a row has more than
  // kMostCells cells; the message names the line.
  absl::StatusOr<bool> Next();

  // Of the row that Next found, until it is called again.
  absl::Span<const absl::string_view> cells() const { return cells_; }
  size_t begin() const { return begin_; }
  size_t line() const { return line_; }  // from 1

 private:
  bool AtEnd() const { return at_ >= text_.size(); }
  bool SkipLineEnd();
  absl::Status NextCell();
  absl::Status Quoted();

  const absl::string_view text_;
  const char delimiter_;
  size_t at_ = 0;
  size_t begin_ = 0;
  size_t line_ = 0;
  size_t next_line_ = 1;
  std::vector<absl::string_view> cells_;
  std::deque<std::string> unquoted_;  // what cells_ points at where marks were doubled
};

}  // namespace muster
