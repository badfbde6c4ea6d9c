#include "lib/data/csv_rows.h"

#include <utility>

#include "lib/base/status.h"

namespace muster {

bool CsvRows::SkipLineEnd() {
  if (AtEnd()) return true;
  const size_t was = at_;
  if (text_[at_] == '\r' && at_ + 1 < text_.size() && text_[at_ + 1] == '\n') ++at_;
  if (text_[at_] == '\n') {
    ++at_;
    ++next_line_;
    return true;
  }
  at_ = was;
  return false;
}

absl::StatusOr<bool> CsvRows::Next() {
  while (!AtEnd() && SkipLineEnd()) {
  }
  cells_.clear();
  unquoted_.clear();
  if (AtEnd()) return false;
  begin_ = at_;
  line_ = next_line_;
  MUSTER_RETURN_IF_ERROR(NextCell());
  while (!AtEnd() && text_[at_] == delimiter_) {
    if (cells_.size() == kMostCells)
      return absl::DataLossError(absl::StrCat("line ", line_, " (byte ", begin_,
                                              "): has more than ", kMostCells, " cells"));
    ++at_;
    MUSTER_RETURN_IF_ERROR(NextCell());
  }
  if (SkipLineEnd()) return true;
  return absl::DataLossError(
      absl::StrCat("line ", next_line_, " (byte ", at_, "): something stands after a quoted cell"));
}

absl::Status CsvRows::NextCell() {
  if (!AtEnd() && text_[at_] == '"') return Quoted();
  size_t end = at_;
  while (end < text_.size() && text_[end] != delimiter_ && text_[end] != '\n') ++end;
  const bool carriage =
      end > at_ && end < text_.size() && text_[end] == '\n' && text_[end - 1] == '\r';
  if (carriage) --end;
  cells_.push_back(text_.substr(at_, end - at_));
  at_ = end;
  return absl::OkStatus();
}

absl::Status CsvRows::Quoted() {
  const size_t open = at_, open_line = next_line_;
  std::string cell;
  for (++at_; at_ < text_.size(); ++at_) {
    if (text_[at_] == '\n') ++next_line_;
    if (text_[at_] != '"') continue;
    if (at_ + 1 < text_.size() && text_[at_ + 1] == '"') {
      ++at_;
      continue;
    }
    const absl::string_view inner = text_.substr(open + 1, at_ - open - 1);
    ++at_;
    if (inner.find('"') == absl::string_view::npos) {
      cells_.push_back(inner);
      return absl::OkStatus();
    }
    for (size_t i = 0; i < inner.size(); ++i) {
      cell.push_back(inner[i]);
      if (inner[i] == '"') ++i;  // the second of two
    }
    unquoted_.push_back(std::move(cell));
    cells_.push_back(unquoted_.back());
    return absl::OkStatus();
  }
  return absl::DataLossError(
      absl::StrCat("line ", open_line, " (byte ", open, "): a quoted cell has no end"));
}

}  // namespace muster
