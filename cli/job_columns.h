// The table of muster list in which people say what they want to see of each job, and in which
// order. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cli/rest_client.h"

namespace muster::cli {

// What a row is put in order by: numbers by their size, before texts; what is not known comes last.
struct SortKey {
  std::optional<double> number;
  std::string text;  // where it is no number; empty, too: not known
};

struct JobRow {
  std::vector<std::string> cells;
  SortKey key;
};

// kInvalidArgument: there is no column of that name; it says which there are.
absl::Status CheckJobColumn(const std::string& option, const std::string& name);

// Likewise of all that are shown; or one is named twice.
absl::Status CheckJobColumns(const std::string& option, const std::vector<std::string>& columns);

// With a cell for each of `columns`, to be put in order by the column `sort` (empty: by none). Both
// name columns that there are: those of the table in job_columns.cc, spec.FIELD for any field of
// the job's specification, or validation.METRIC for what was measured last.
JobRow RowOf(const JobAnswer& job, const std::vector<std::string>& columns,
             const std::string& sort);

// Rows with equal keys stay as they are; what is not known comes last either way.
void SortRows(std::vector<JobRow>& rows, bool is_reverse);

// With a head, in which all is printable; columns are as wide as what is in them.
std::string RowsTable(const std::vector<std::string>& columns, const std::vector<JobRow>& rows);

}  // namespace muster::cli
