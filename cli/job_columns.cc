#include "cli/job_columns.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "cli/format.h"
#include "lib/base/printable.h"
#include "lib/base/status.h"
#include "lib/config/field_error.h"
#include "lib/domain/best_state.h"
#include "lib/wire/job_codec.h"
#include "nlohmann/json.hpp"

namespace muster::cli {
namespace {

struct Cell {
  std::string text;  // empty: not known
  std::optional<double> number = std::nullopt;
};

Cell Text(const std::string& text) { return {text}; }
Cell Count(int64_t number) { return {absl::StrCat(number), static_cast<double>(number)}; }
// -1: not known.
Cell CountOrNone(int64_t number) { return number < 0 ? Cell{} : Count(number); }
Cell OfTotal(int64_t done, int64_t total) {
  Cell cell = Count(done);
  if (total > 0) absl::StrAppend(&cell.text, " of ", total);
  return cell;
}
Cell Period(double seconds) {
  if (seconds < 0) return {};
  return {HowLong(seconds), seconds};
}

struct Column {
  const char* name;
  Cell (*of)(const JobAnswer& job);
};

constexpr Column kColumns[] = {
    {"job", [](const JobAnswer& job) { return Text(job.id); }},
    {"name", [](const JobAnswer& job) { return Text(job.name); }},
    {"state", [](const JobAnswer& job) { return Text(job.state); }},
    {"reason", [](const JobAnswer& job) { return Text(job.reason); }},
    {"step", [](const JobAnswer& job) { return OfTotal(job.step, job.steps); }},
    {"epoch",
     [](const JobAnswer& job) {
       // After the last step all of them are complete.
       const int64_t epoch = job.epochs > 0 ? std::min(job.epoch + 1, job.epochs) : job.epoch + 1;
       return OfTotal(epoch, job.epochs);
     }},
    {"samples", [](const JobAnswer& job) { return Count(job.samples); }},
    {"loss",
     [](const JobAnswer& job) {
       return std::isfinite(job.loss) ? Cell{Loss(job.loss), job.loss} : Cell{};
     }},
    {"workers", [](const JobAnswer& job) { return IsOver(job) ? Cell{} : Count(job.workers); }},
    {"seconds", [](const JobAnswer& job) { return Period(job.seconds); }},
    {"left", [](const JobAnswer& job) { return Period(job.seconds_left); }},
    {"checkpoint", [](const JobAnswer& job) { return CountOrNone(job.checkpoint_step); }},
    {"recoveries", [](const JobAnswer& job) { return Count(job.recoveries); }},
    {"rewinds", [](const JobAnswer& job) { return Count(job.rewinds); }},
    {"digest", [](const JobAnswer& job) { return Text(job.digest); }},
};

constexpr char kSpec[] = "spec.";

// nullptr: there is none.
const nlohmann::json* FieldAt(const nlohmann::json& spec, absl::string_view path) {
  const nlohmann::json* at = &spec;
  while (!path.empty()) {
    const size_t end = std::min(path.find('.'), path.size());
    if (!at->is_object()) return nullptr;
    const auto field = at->find(std::string(path.substr(0, end)));
    if (field == at->end()) return nullptr;
    at = &*field;
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return at->is_null() ? nullptr : at;
}

// Of a field that a specification leaves out, where it is the same for all jobs.
nlohmann::json DefaultOf(absl::string_view path) {
  for (const JobField& field : JobFields())
    if (field.name == path)
      return nlohmann::json::parse(field.default_value, nullptr, /*allow_exceptions=*/false);
  return nullptr;
}

// A field of the specification; one of a list or an object is told as JSON.
Cell SpecCell(const JobAnswer& job, absl::string_view path) {
  const auto spec = nlohmann::json::parse(job.spec, nullptr, /*allow_exceptions=*/false);
  if (spec.is_discarded()) return {};
  const nlohmann::json* const given = FieldAt(spec, path);
  const nlohmann::json value = given == nullptr ? DefaultOf(path) : *given;
  if (value.is_null() || value.is_discarded()) return {};  // or its default is computed
  if (value.is_string()) return Text(value.get<std::string>());
  Cell cell{value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)};
  if (value.is_number()) cell.number = value.get<double>();
  return cell;
}

// What a metric was when the job was measured last.
Cell MeasuredCell(const JobAnswer& job, absl::string_view metric) {
  for (const MetricValue& of : job.validation)
    if (of.metric == metric && of.value) return {absl::StrFormat("%.4g", *of.value), *of.value};
  return {};
}

Cell CellOf(const JobAnswer& job, const std::string& column) {
  absl::string_view path = column;
  if (absl::ConsumePrefix(&path, kSpec)) return SpecCell(job, path);
  if (absl::ConsumePrefix(&path, kMeasuredPrefix)) return MeasuredCell(job, path);
  for (const Column& known : kColumns)
    if (column == known.name) return known.of(job);
  return {};
}

// What is known stands before what is not.
int RankOf(const SortKey& key) { return key.number ? 0 : key.text.empty() ? 2 : 1; }

bool IsLess(const SortKey& a, const SortKey& b, bool is_reverse) {
  const bool is_unknown = RankOf(a) == 2 || RankOf(b) == 2;
  if (is_unknown) return RankOf(a) < RankOf(b);
  const SortKey& first = is_reverse ? b : a;
  const SortKey& second = is_reverse ? a : b;
  if (RankOf(first) != RankOf(second)) return RankOf(first) < RankOf(second);
  return first.number ? *first.number < *second.number : first.text < second.text;
}

// A field, what fields are below, or what is below a field, such as a parameter of a task.
absl::Status CheckSpecPath(const std::string& option, absl::string_view path) {
  const std::string asked = absl::StrCat(path, ".");
  std::vector<std::string> names;
  for (const JobField& field : JobFields()) {
    const std::string known = absl::StrCat(field.name, ".");
    if (absl::StartsWith(asked, known) || absl::StartsWith(known, asked)) return absl::OkStatus();
    names.push_back(field.name);
  }
  return absl::InvalidArgumentError(absl::StrCat(option, ": a job's specification has no field '",
                                                 Cut(Printable(path)), "'",
                                                 DidYouMean(path, names)));
}

}  // namespace

absl::Status CheckJobColumn(const std::string& option, const std::string& name) {
  if (absl::string_view path = name; absl::ConsumePrefix(&path, kSpec) && !path.empty())
    return CheckSpecPath(option, path);
  std::vector<std::string> names;
  for (const Column& column : kColumns) names.emplace_back(column.name);
  const auto is_of = [&](absl::string_view prefix) {
    return absl::StartsWith(name, prefix) && name.size() > prefix.size();
  };
  const bool is_known =
      std::find(names.begin(), names.end(), name) != names.end() || is_of(kMeasuredPrefix);
  if (is_known) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(option, ": there is no column '", Cut(Printable(name)), "'; there are ",
                   absl::StrJoin(names, ", "),
                   ", spec.FIELD for each field of a job's specification, as in spec.batch, and "
                   "validation.METRIC for each metric that it measures, as in validation.loss"));
}

absl::Status CheckJobColumns(const std::string& option, const std::vector<std::string>& columns) {
  std::set<std::string> seen;
  for (const std::string& column : columns) {
    if (column.empty())
      return absl::InvalidArgumentError(
          absl::StrCat(option,
                       ": between two commas, or at an end, no column is named; write "
                       "job,state"));
    MUSTER_RETURN_IF_ERROR(CheckJobColumn(option, column));
    if (!seen.insert(column).second)
      return absl::InvalidArgumentError(
          absl::StrCat(option, ": '", Cut(Printable(column)), "' is named twice; name it once"));
  }
  return absl::OkStatus();
}

JobRow RowOf(const JobAnswer& job, const std::vector<std::string>& columns,
             const std::string& sort) {
  JobRow row;
  for (const std::string& column : columns) {
    const std::string text = Printable(CellOf(job, column).text);
    row.cells.push_back(text.empty() ? "-" : text);
  }
  if (!sort.empty()) {
    Cell key = CellOf(job, sort);
    row.key = {key.number, std::move(key.text)};
  }
  return row;
}

void SortRows(std::vector<JobRow>& rows, bool is_reverse) {
  std::stable_sort(rows.begin(), rows.end(), [is_reverse](const JobRow& a, const JobRow& b) {
    return IsLess(a.key, b.key, is_reverse);
  });
}

std::string RowsTable(const std::vector<std::string>& columns, const std::vector<JobRow>& rows) {
  std::vector<std::string> head;
  std::vector<size_t> widths;
  for (size_t i = 0; i < columns.size(); ++i) {
    head.push_back(Printable(columns[i]));
    size_t width = ColumnsOf(head.back());
    for (const JobRow& row : rows) width = std::max(width, ColumnsOf(row.cells[i]));
    widths.push_back(width);
  }
  std::string table;
  const auto append = [&](const std::vector<std::string>& cells) {
    for (size_t i = 0; i < cells.size(); ++i) {
      table += cells[i];
      const bool is_last = i + 1 == cells.size();
      table += is_last ? "\n" : std::string(widths[i] - ColumnsOf(cells[i]) + 2, ' ');
    }
  };
  append(head);
  for (const JobRow& row : rows) append(row.cells);
  return table;
}

}  // namespace muster::cli
