#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "lib/base/status.h"
#include "lib/data/array_set.h"
#include "lib/data/csv_rows.h"
#include "lib/data/formats.h"

namespace muster {
namespace {

constexpr absl::string_view kByteOrderMark = "\xef\xbb\xbf";

// The names in a column of data.classes. They are numbered in byte-wise order once all are known;
// where all are whole numbers from 0, each stands for itself.
class Classes {
 public:
  // In order of appearance.
  int32_t Add(absl::string_view name) {
    const auto next = static_cast<int32_t>(numbers_.size());
    return numbers_.try_emplace(std::string(name), next).first->second;
  }

  // By order of appearance.
  std::vector<int64_t> Final() const {
    std::vector<int64_t> final(numbers_.size());
    const bool themselves = std::all_of(numbers_.begin(), numbers_.end(), [](const auto& named) {
      return WholeNumber(named.first).has_value();
    });
    int64_t place = 0;
    for (const auto& [name, appeared] : numbers_)
      final[static_cast<size_t>(appeared)] = themselves ? *WholeNumber(name) : place++;
    return final;
  }

 private:
  static std::optional<int64_t> WholeNumber(const std::string& name) {
    int64_t number = 0;
    if (!absl::SimpleAtoi(name, &number) || number < 0 || absl::StrCat(number) != name ||
        number > std::numeric_limits<int32_t>::max())
      return std::nullopt;
    return number;
  }

  std::map<std::string, int32_t> numbers_;
};

// The columns that are used, of all files: inputs in their order, and the label last.
class Table {
 public:
  explicit Table(const DataSpec& data) : data_(data) {}

  absl::Status Add(const ByteSource& file) {
    MUSTER_ASSIGN_OR_RETURN(const std::string text, ReadAll(file, MostInMemory()));
    CsvRows rows(text, data_.delimiter[0],
                 absl::StartsWith(text, kByteOrderMark) ? kByteOrderMark.size() : 0);
    std::vector<size_t> places;  // of the columns that are used, in the file
    size_t width = 0;
    while (true) {
      const absl::StatusOr<bool> more = rows.Next();
      if (!more.ok()) return Prefix(file.name(), more.status());
      if (!*more) return absl::OkStatus();
      if (places.empty()) {
        width = rows.cells().size();
        MUSTER_ASSIGN_OR_RETURN(places, Find(file, Header(rows.cells())));
        if (data_.header) continue;
      }
      if (rows.cells().size() != width)
        return BadRow(
            file, rows,
            absl::StrCat("has ", rows.cells().size(), " cells, and the first has ", width));
      MUSTER_RETURN_IF_ERROR(AddRow(file, rows, places));
    }
  }

  absl::StatusOr<std::vector<Array>> Finish() && {
    const size_t inputs = names_.size() - (has_label() ? 1 : 0);
    std::vector<Array> arrays;
    if (names_.empty() || rows_ == 0) return arrays;
    if (inputs == 0)
      return absl::FailedPreconditionError("data.columns: there is no column but the label");
    for (size_t column = 0; column < names_.size(); ++column)
      if (is_class_[column]) MUSTER_RETURN_IF_ERROR(Number(column));
    MUSTER_RETURN_IF_ERROR(
        AddPart(arrays, {"input", TensorType::kFloat32, {static_cast<int64_t>(inputs)}}, false,
                {MemorySource("the rows of CSV", std::move(inputs_)), 0, rows_, inputs * 4}));
    if (!has_label()) return arrays;
    const bool is_class = is_class_.back();
    const TensorType type = is_class ? TensorType::kInt64 : TensorType::kFloat32;
    MUSTER_RETURN_IF_ERROR(
        AddPart(arrays, {"label", type, {}}, false,
                {MemorySource("the labels of CSV", std::move(is_class ? classes_ : labels_)), 0,
                 rows_, static_cast<uint64_t>(BytesOfElement(type))}));
    return arrays;
  }

 private:
  bool has_label() const { return !data_.label.empty(); }

  std::vector<std::string> Header(absl::Span<const absl::string_view> cells) const {
    std::vector<std::string> names;
    for (size_t i = 0; i < cells.size(); ++i)
      names.push_back(data_.header ? std::string(cells[i]) : absl::StrCat(i + 1));
    return names;
  }

  // Where the columns stand in a file with this header. The first file says which ones they are,
  // where data.columns does not.
  absl::StatusOr<std::vector<size_t>> Find(const ByteSource& file,
                                           const std::vector<std::string>& header) {
    if (names_.empty()) MUSTER_RETURN_IF_ERROR(Choose(header));
    std::vector<size_t> places;
    for (size_t i = 0; i < names_.size(); ++i) {
      const auto found = std::find(header.begin(), header.end(), names_[i]);
      if (found == header.end())
        return absl::FailedPreconditionError(absl::StrCat(
            has_label() && i + 1 == names_.size() ? "data.label" : "data.columns", ": ",
            file.name(), " has no column '", names_[i], "'; it has: ",
            absl::StrJoin(
                header.begin(),
                header.begin() + static_cast<std::ptrdiff_t>(std::min<size_t>(header.size(), 20)),
                ", ")));
      if (std::find(found + 1, header.end(), names_[i]) != header.end())
        return Bad(file, absl::StrCat("two columns are called '", names_[i], "'"));
      places.push_back(static_cast<size_t>(found - header.begin()));
    }
    return places;
  }

  absl::Status Choose(const std::vector<std::string>& header) {
    names_ = data_.columns.empty() ? header : data_.columns;
    std::erase(names_, data_.label);
    if (has_label()) names_.push_back(data_.label);
    for (const std::string& name : names_)
      is_class_.push_back(std::find(data_.classes.begin(), data_.classes.end(), name) !=
                          data_.classes.end());
    for (const std::string& name : data_.classes)
      if (std::find(names_.begin(), names_.end(), name) == names_.end())
        return absl::FailedPreconditionError(
            absl::StrCat("data.classes: '", name, "' is no column that is used"));
    named_.resize(names_.size());
    return absl::OkStatus();
  }

  absl::Status AddRow(const ByteSource& file, const CsvRows& rows,
                      const std::vector<size_t>& places) {
    for (size_t i = 0; i < places.size(); ++i) {
      const absl::string_view cell = absl::StripAsciiWhitespace(rows.cells()[places[i]]);
      const bool is_label = has_label() && i + 1 == places.size();
      float number = 0;
      if (is_class_[i]) {
        const int32_t named = named_[i].Add(cell);
        if (is_label) Append(classes_, int64_t{named});
        number = static_cast<float>(named);
      } else if (!ReadNumber(cell, number)) {
        return BadRow(file, rows,
                      absl::StrCat("column '", names_[i], "': '", cell.substr(0, 40),
                                   "' is no number; where its cells are names, give it in "
                                   "data.classes"));
      }
      Append(is_label ? labels_ : inputs_, number);
    }
    ++rows_;
    return absl::OkStatus();
  }

  // The numbers of names are known only at the end.
  absl::Status Number(size_t column) {
    const std::vector<int64_t> final = named_[column].Final();
    if (has_label() && column + 1 == names_.size()) {
      for (size_t at = 0; at < classes_.size(); at += sizeof(int64_t)) {
        int64_t named = 0;
        std::memcpy(&named, classes_.data() + at, sizeof(named));
        std::memcpy(classes_.data() + at, &final[static_cast<size_t>(named)], sizeof(named));
      }
      return absl::OkStatus();
    }
    if (final.size() > (size_t{1} << 24))
      return absl::DataLossError(absl::StrCat("data.classes: column '", names_[column], "' has ",
                                              final.size(), " names; at most 2^24 are allowed"));
    const size_t inputs = names_.size() - (has_label() ? 1 : 0);
    for (size_t at = column * 4; at < inputs_.size(); at += inputs * 4) {
      float named = 0;
      std::memcpy(&named, inputs_.data() + at, sizeof(named));
      const auto number = static_cast<float>(final[static_cast<size_t>(named)]);
      std::memcpy(inputs_.data() + at, &number, sizeof(number));
    }
    return absl::OkStatus();
  }

  static bool ReadNumber(absl::string_view cell, float& number) {
    if (!cell.empty() && cell[0] == '+') cell.remove_prefix(1);
    double value = 0;
    const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
    number = static_cast<float>(value);
    return error == std::errc() && end == cell.data() + cell.size() && std::isfinite(number);
  }

  template <class T>
  static void Append(std::string& bytes, T value) {
    char stored[sizeof(T)];
    std::memcpy(stored, &value, sizeof(T));
    bytes.append(stored, sizeof(T));
  }

  static absl::Status BadRow(const ByteSource& file, const CsvRows& rows, absl::string_view why) {
    return absl::DataLossError(
        absl::StrCat(file.name(), ": line ", rows.line(), " (byte ", rows.begin(), "): ", why));
  }

  const DataSpec& data_;
  std::vector<std::string> names_;
  std::vector<bool> is_class_;   // by name
  std::vector<Classes> named_;   // by name; of those that are classes
  std::string inputs_, labels_;  // of float
  std::string classes_;          // of int64_t
  uint64_t rows_ = 0;
};

}  // namespace

absl::StatusOr<StoredSet> OpenCsv(const DataFiles& files, const DataSpec& data) {
  if (data.delimiter.size() != 1 || data.delimiter == "\"" || data.delimiter == "\n" ||
      data.delimiter == "\r")
    return absl::FailedPreconditionError(
        absl::StrCat("data.delimiter: '", data.delimiter, "' is no character that can part cells"));
  Table table(data);
  for (const DataFile& file : files) MUSTER_RETURN_IF_ERROR(table.Add(*file.source));
  MUSTER_ASSIGN_OR_RETURN(std::vector<Array> arrays, std::move(table).Finish());
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<StoredDataSet> set, MakeArraySet(std::move(arrays)));
  return StoredSet{std::move(set), !data.label.empty()};
}

}  // namespace muster
