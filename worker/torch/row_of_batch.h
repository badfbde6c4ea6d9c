// On an error that is about one row of a batch: which one. Whoever computes with a batch knows no
// samples, and whoever has asked for it knows which sample the row is.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace muster::worker {

inline constexpr char kRowOfBatch[] = "muster/row_of_batch";

// `row` of a batch of `rows`.
inline absl::Status AboutRow(absl::Status status, uint64_t row, uint64_t rows) {
  status.SetPayload(kRowOfBatch, absl::Cord(absl::StrCat(row, " ", rows)));
  return status;
}

// The one of `samples` that the error is about; those at the positions `left_out`, ascending, are
// in no row. Nothing: it is about none, or the batch has other rows than these samples.
inline std::optional<uint64_t> SampleOf(const absl::Status& status,
                                        absl::Span<const uint64_t> samples,
                                        absl::Span<const uint32_t> left_out) {
  const auto told = status.GetPayload(kRowOfBatch);
  if (!told) return std::nullopt;
  const std::string text(*told);
  const std::pair<absl::string_view, absl::string_view> words = absl::StrSplit(text, ' ');
  uint64_t row = 0, rows = 0;
  if (!absl::SimpleAtoi(words.first, &row) || !absl::SimpleAtoi(words.second, &rows) ||
      rows + left_out.size() != samples.size() || row >= rows)
    return std::nullopt;
  for (const uint32_t position : left_out)
    if (position <= row) ++row;
  return samples[row];
}

}  // namespace muster::worker
