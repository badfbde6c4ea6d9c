#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "lib/base/bytes.h"
#include "lib/base/printable.h"
#include "lib/base/status.h"
#include "lib/data/array_set.h"
#include "lib/data/csv_rows.h"
#include "lib/data/formats.h"
#include "lib/data/held_files.h"
#include "lib/domain/tensor_type.h"
#include "lib/kernels/sha256.h"

namespace muster {
namespace {

constexpr absl::string_view kByteOrderMark = "\xef\xbb\xbf";
constexpr size_t kMostOfACell = 40;  // bytes of one that is wrong
constexpr uint64_t kNameCosts = 96;  // bytes that the name of a class takes beside its own

constexpr int64_t kMostInFloat = int64_t{1} << 24;     // above it two classes would become one
constexpr uint64_t kHeaderBytes = uint64_t{64} << 10;  // in which a header is looked for first

// A table that is too large for this machine can be read where it lies once it is no text any more.
absl::Status Take(DataMemory& memory, const std::string& file, uint64_t bytes) {
  const absl::Status taken = memory.Take(file, bytes);
  if (taken.ok()) return taken;
  return absl::ResourceExhaustedError(
      absl::StrCat(taken.message(),
                   "; tables of CSV are read as a whole: leave out what is not "
                   "needed, or give arrays (data.format: numpy or safetensors), "
                   "which stay on the disk"));
}

// The names in a column of data.classes. They are numbered in byte-wise order once all are known;
// where all are whole numbers from 0, each stands for itself.
class Classes {
 public:
  // In order of appearance.
  int32_t Add(absl::string_view name) {
    const auto next = static_cast<int32_t>(numbers_.size());
    return numbers_.try_emplace(std::string(name), next).first->second;
  }

  size_t size() const { return numbers_.size(); }

  // By order of appearance.
  std::vector<int64_t> Final() const {
    std::vector<int64_t> final(numbers_.size());
    const bool themselves = StandForThemselves();
    int64_t place = 0;
    for (const auto& [name, appeared] : numbers_)
      final[static_cast<size_t>(appeared)] = themselves ? *WholeNumber(name) : place++;
    return final;
  }

  // Once all are known: NumberOf tells numbers from then on.
  void Settle() {
    themselves_ = StandForThemselves();
    int32_t place = 0;
    for (auto& [name, number] : numbers_) number = place++;
  }
  // Nothing: the name has none. One that stands for itself need not be among those that are known.
  std::optional<int64_t> NumberOf(absl::string_view name) const {
    if (themselves_) return WholeNumber(std::string(name));
    const auto found = numbers_.find(std::string(name));
    return found == numbers_.end() ? std::nullopt : std::optional<int64_t>(found->second);
  }

  void AddTo(Sha256& hash) const {
    for (const auto& [name, number] : numbers_)
      hash.Update(BytesOf(absl::StrCat(name.size(), ":", name)));
    hash.Update(BytesOf(absl::string_view("\n")));
  }

 private:
  bool StandForThemselves() const {
    return std::all_of(numbers_.begin(), numbers_.end(),
                       [](const auto& named) { return WholeNumber(named.first).has_value(); });
  }

  static std::optional<int64_t> WholeNumber(const std::string& name) {
    int64_t number = 0;
    if (!absl::SimpleAtoi(name, &number) || number < 0 || absl::StrCat(number) != name ||
        number > std::numeric_limits<int32_t>::max())
      return std::nullopt;
    return number;
  }

  std::map<std::string, int32_t> numbers_;
  bool themselves_ = false;
};

// Where columns stand, by their names, which outlive it: of thousands none is looked for one by
// one.
struct PlacesOfName {
  size_t first = 0;
  bool is_twice = false;
};
using Places = absl::flat_hash_map<absl::string_view, PlacesOfName>;

Places PlacesOf(const std::vector<std::string>& names) {
  Places places;
  places.reserve(names.size());
  for (size_t i = 0; i < names.size(); ++i)
    if (const auto [at, is_new] = places.try_emplace(names[i], PlacesOfName{i}); !is_new)
      at->second.is_twice = true;
  return places;
}

// The columns that are used, of all files: inputs in their order, and the label last.
class Table {
 public:
  // `trained`: columns and names of classes are those of this one, which outlives it; nullptr: its
  // own.
  explicit Table(const DataSpec& data, const Table* trained = nullptr)
      : data_(data), trained_(trained) {}

  // Columns and names of classes alone, which another one is to have, too.
  absl::Status LearnNames(const DataFiles& files) {
    if (data_.classes.empty()) {
      for (size_t i = 0; i < files.size() && names_.empty(); ++i)
        MUSTER_RETURN_IF_ERROR(AddHeader(*files[i].source));
      return absl::OkStatus();
    }
    names_alone_ = true;
    for (const DataFile& file : files) MUSTER_RETURN_IF_ERROR(Add(*file.source));
    for (Classes& named : named_) named.Settle();
    return absl::OkStatus();
  }
  std::string HashOfNames() const {
    Sha256 hash;
    for (const std::string& name : names_)
      hash.Update(BytesOf(absl::StrCat(name.size(), ":", name)));
    for (const Classes& named : named_) named.AddTo(hash);
    return hash.HexFinish();
  }

  absl::Status Add(const ByteSource& file) {
    DataMemory memory;
    MUSTER_RETURN_IF_ERROR(Take(memory, file.name(), file.size()));
    MUSTER_ASSIGN_OR_RETURN(const std::string text, ReadString(file, 0, file.size()));
    MUSTER_RETURN_IF_ERROR(CheckText(file, text));
    CsvRows rows(text, data_.delimiter[0], BeginOf(text));
    std::vector<size_t> places;  // of the columns that are used, in the file
    size_t width = 0;
    const uint64_t rows_before = rows_;
    while (true) {
      const absl::StatusOr<bool> more = rows.Next();
      if (!more.ok()) return Prefix(file.name(), more.status());
      if (!*more) {
        if (rows_ > rows_before) rows_of_files_.emplace_back(file.name(), rows_ - rows_before);
        return absl::OkStatus();
      }
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

  // `check` tells of the files. The label is read along with the inputs, which it is asked for.
  absl::StatusOr<std::vector<Array>> Finish(std::function<absl::Status()> check) && {
    const size_t inputs = names_.size() - (has_label() ? 1 : 0);
    std::vector<Array> arrays;
    if (names_.empty() || rows_ == 0) return arrays;
    if (inputs == 0)
      return absl::FailedPreconditionError("data.columns: there is no column but the label");
    for (size_t column = 0; column < names_.size(); ++column)
      if (is_class_[column] && trained_ == nullptr) MUSTER_RETURN_IF_ERROR(Number(column));
    const DataField input{"input", TypeOf(0), {static_cast<int64_t>(inputs)}};
    MUSTER_RETURN_IF_ERROR(AddPart(
        arrays, input, false,
        {HeldSource("the rows of CSV", std::move(inputs_), std::move(check), std::move(memory_)), 0,
         rows_, static_cast<uint64_t>(input.Bytes())}));
    if (!has_label()) return arrays;
    // One part for each file, so that a label's place is known.
    const DataField label{"label", TypeOf(inputs), {}};
    const auto label_bytes = static_cast<uint64_t>(label.Bytes());
    uint64_t first = 0;
    for (const auto& [file, rows] : rows_of_files_) {
      SourcePtr labels =
          MemorySource(file, labels_.substr(first * label_bytes, rows * label_bytes));
      MUSTER_RETURN_IF_ERROR(
          AddPart(arrays, label, false, {std::move(labels), 0, rows, label_bytes}));
      first += rows;
    }
    return arrays;
  }

 private:
  bool has_label() const { return !data_.label.empty(); }
  bool IsLabel(size_t column) const { return has_label() && column + 1 == names_.size(); }

  // Inputs stand in one array, so that one column of numbers makes all of them reals.
  bool InputIsWhole() const {
    return std::all_of(is_class_.begin(), is_class_.end() - (has_label() ? 1 : 0),
                       [](bool is_class) { return is_class; });
  }
  TensorType TypeOf(size_t column) const {
    return is_whole_[column] ? TensorType::kInt64 : TensorType::kFloat32;
  }

  // Where a second row begins in what was read of the file, the first is whole.
  absl::Status AddHeader(const ByteSource& file) {
    for (uint64_t bytes = kHeaderBytes;; bytes *= 2) {
      MUSTER_ASSIGN_OR_RETURN(const std::string text,
                              ReadString(file, 0, std::min(bytes, file.size())));
      CsvRows rows(text, data_.delimiter[0], BeginOf(text));
      const absl::StatusOr<bool> more = rows.Next();
      const bool has_row = more.ok() && *more;
      const std::vector<std::string> header =
          has_row ? Header(rows.cells()) : std::vector<std::string>();
      const bool is_all = bytes >= file.size();
      if (is_all) MUSTER_RETURN_IF_ERROR(CheckText(file, text));
      if (!is_all && !(has_row && rows.Next().value_or(false))) continue;
      if (!more.ok()) return Prefix(file.name(), more.status());
      return has_row ? Choose(header) : absl::OkStatus();
    }
  }

  // Which other programs save as CSV, and would be one strange column here.
  static absl::Status CheckText(const ByteSource& file, absl::string_view text) {
    if (absl::StartsWith(text, "\xff\xfe") || absl::StartsWith(text, "\xfe\xff"))
      return Bad(file, "it is UTF-16; save it as UTF-8");
    const size_t end = text.find_first_of("\r\n");
    if (end != absl::string_view::npos && text[end] == '\r' && end + 1 < text.size() &&
        text[end + 1] != '\n' && !absl::StrContains(text, '\n'))
      return BadAt(file, end,
                   "its lines end in CR alone; save it with ends of LF or CRLF, as others have "
                   "them");
    return absl::OkStatus();
  }

  static size_t BeginOf(absl::string_view text) {
    return absl::StartsWith(text, kByteOrderMark) ? kByteOrderMark.size() : 0;
  }

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
    const Places in_file = PlacesOf(header);
    std::vector<size_t> places;
    for (size_t i = 0; i < names_.size(); ++i) {
      const auto found = in_file.find(names_[i]);
      if (found == in_file.end())
        return absl::FailedPreconditionError(absl::StrCat(
            IsLabel(i) ? "data.label" : "data.columns", ": ", file.name(), " has no column '",
            names_[i], "'; it has: ",
            absl::StrJoin(
                header.begin(),
                header.begin() + static_cast<std::ptrdiff_t>(std::min<size_t>(header.size(), 20)),
                ", ")));
      if (found->second.is_twice)
        return Bad(file, absl::StrCat("two columns are called '", names_[i], "'"));
      places.push_back(found->second.first);
    }
    return places;
  }

  absl::Status Choose(const std::vector<std::string>& header) {
    names_ = data_.columns.empty() ? header : data_.columns;
    std::erase(names_, data_.label);
    if (has_label()) names_.push_back(data_.label);
    if (trained_ != nullptr) names_ = trained_->names_;
    const absl::flat_hash_set<absl::string_view> classes(data_.classes.begin(),
                                                         data_.classes.end());
    for (const std::string& name : names_) is_class_.push_back(classes.contains(name));
    const Places used = PlacesOf(names_);
    for (const std::string& name : data_.classes)
      if (!used.contains(name))
        return absl::FailedPreconditionError(
            absl::StrCat("data.classes: '", name, "' is no column that is used"));
    MUSTER_RETURN_IF_ERROR(TakeTypes(used));
    named_.resize(names_.size());
    const bool input_is_whole = InputIsWhole();
    for (size_t i = 0; i < names_.size(); ++i) {
      is_whole_.push_back(IsLabel(i) ? is_class_[i] : input_is_whole);
      row_bytes_ += static_cast<uint64_t>(BytesOfElement(TypeOf(i)));
    }
    return absl::OkStatus();
  }

  // Cells are texts: what a type says of them is which numbers they may be.
  absl::Status TakeTypes(const Places& used) {
    declared_whole_.resize(names_.size());
    for (const auto& [name, type] : data_.types) {
      const auto bad = [&, of = name](absl::string_view why) {
        return absl::FailedPreconditionError(absl::StrCat("data.types: '", of, "' ", why));
      };
      const auto found = used.find(name);
      if (found == used.end()) return bad("is no column that is used");
      if (type != TensorType::kFloat32 && type != TensorType::kInt64)
        return bad(absl::StrCat("is a column of CSV, which is float32 or int64, and never ",
                                NameOf(type)));
      const size_t column = found->second.first;
      if (is_class_[column]) return bad("stands in data.classes, so that its cells are names");
      declared_whole_[column] = type == TensorType::kInt64;
    }
    return absl::OkStatus();
  }

  absl::Status AddRow(const ByteSource& file, const CsvRows& rows,
                      const std::vector<size_t>& places) {
    if (names_alone_) return AddNames(file, rows, places);
    MUSTER_RETURN_IF_ERROR(Take(memory_, file.name(), row_bytes_));
    for (size_t i = 0; i < places.size(); ++i) {
      const absl::string_view cell = absl::StripAsciiWhitespace(rows.cells()[places[i]]);
      std::string& cells = IsLabel(i) ? labels_ : inputs_;
      float number = 0;
      if (is_class_[i]) {
        MUSTER_ASSIGN_OR_RETURN(const int64_t named, trained_ == nullptr
                                                         ? AddName(file, i, cell)
                                                         : TrainedNumber(file, rows, i, cell));
        if (is_whole_[i])
          Append(cells, named);
        else
          Append(cells, static_cast<float>(named));
      } else if (ReadNumber(cell, number)) {
        if (declared_whole_[i] && !IsWholeNumber(cell))
          return BadRow(
              file, rows,
              absl::StrCat("column '", names_[i], "': '", Cut(cell, kMostOfACell),
                           "' is no whole number, and data.types.", names_[i], " declares int64"));
        Append(cells, number);
      } else {
        return BadRow(file, rows,
                      absl::StrCat("column '", names_[i], "': '", Cut(cell, kMostOfACell),
                                   "' is no number; where its cells are names, give it in "
                                   "data.classes"));
      }
    }
    ++rows_;
    return absl::OkStatus();
  }

  absl::Status AddNames(const ByteSource& file, const CsvRows& rows,
                        const std::vector<size_t>& places) {
    for (size_t i = 0; i < places.size(); ++i)
      if (is_class_[i])
        MUSTER_RETURN_IF_ERROR(
            AddName(file, i, absl::StripAsciiWhitespace(rows.cells()[places[i]])).status());
    return absl::OkStatus();
  }

  // Its place in the order of appearance.
  absl::StatusOr<int64_t> AddName(const ByteSource& file, size_t column, absl::string_view name) {
    const size_t names = named_[column].size();
    const int32_t named = named_[column].Add(name);
    if (named_[column].size() > names)
      MUSTER_RETURN_IF_ERROR(Take(memory_of_names_, file.name(), kNameCosts + name.size()));
    return named;
  }

  absl::StatusOr<int64_t> TrainedNumber(const ByteSource& file, const CsvRows& rows, size_t column,
                                        absl::string_view name) const {
    const std::optional<int64_t> number = trained_->named_[column].NumberOf(name);
    if (!number)
      return BadRow(file, rows,
                    absl::StrCat("column '", names_[column], "': '", Cut(name, kMostOfACell),
                                 "' is no class of this column in data.paths, and so the model "
                                 "does not know it"));
    if (!is_whole_[column] && *number > kMostInFloat) return TooLarge(column, *number);
    return *number;
  }

  absl::Status TooLarge(size_t column, int64_t number) const {
    return absl::DataLossError(
        absl::StrCat("data.classes: column '", names_[column], "' has a class of number ", number,
                     "; at most 2^24 is allowed where other columns of the input are no classes"));
  }

  // The numbers of names are known only at the end.
  absl::Status Number(size_t column) {
    const std::vector<int64_t> final = named_[column].Final();
    const size_t inputs = names_.size() - (has_label() ? 1 : 0);
    std::string& cells = IsLabel(column) ? labels_ : inputs_;
    const size_t place = IsLabel(column) ? 0 : column, width = IsLabel(column) ? 1 : inputs;
    if (is_whole_[column]) {
      Renumber<int64_t>(final, place, width, cells);
      return absl::OkStatus();
    }
    const int64_t most = *std::max_element(final.begin(), final.end());
    if (most > kMostInFloat) return TooLarge(column, most);
    Renumber<float>(final, place, width, cells);
    return absl::OkStatus();
  }

  // Of every row of `width` elements the one at `place`: from a name's place in the order of
  // appearance to its number.
  template <class T>
  static void Renumber(const std::vector<int64_t>& final, size_t place, size_t width,
                       std::string& cells) {
    for (size_t at = place * sizeof(T); at < cells.size(); at += width * sizeof(T)) {
      T named = 0;
      std::memcpy(&named, cells.data() + at, sizeof(T));
      const T number = static_cast<T>(final[static_cast<size_t>(named)]);
      std::memcpy(cells.data() + at, &number, sizeof(T));
    }
  }

  static bool ReadNumber(absl::string_view cell, float& number) {
    if (!cell.empty() && cell[0] == '+') cell.remove_prefix(1);
    double value = 0;
    const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
    number = static_cast<float>(value);
    return error == std::errc() && end == cell.data() + cell.size() && std::isfinite(number);
  }

  static bool IsWholeNumber(absl::string_view cell) {
    int64_t ignored = 0;
    return absl::SimpleAtoi(cell, &ignored);
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
  const Table* const trained_;
  bool names_alone_ = false;
  std::vector<std::string> names_;
  std::vector<bool> is_class_;        // by name
  std::vector<bool> is_whole_;        // by name: its cells are held as int64_t, and not as float
  std::vector<bool> declared_whole_;  // by name: data.types says so
  std::vector<Classes> named_;        // by name; of those that are classes
  DataMemory memory_of_names_;
  DataMemory memory_;  // of these
  std::string inputs_, labels_;
  uint64_t row_bytes_ = 0;  // of inputs and label
  uint64_t rows_ = 0;
  std::vector<std::pair<std::string, uint64_t>> rows_of_files_;  // of those that have some
};

absl::Status CheckDelimiter(const DataSpec& data) {
  if (data.delimiter.size() != 1 || data.delimiter == "\"" || data.delimiter == "\n" ||
      data.delimiter == "\r")
    return absl::FailedPreconditionError(
        absl::StrCat("data.delimiter: '", data.delimiter, "' is no character that can part cells"));
  return absl::OkStatus();
}

absl::StatusOr<StoredSet> Opened(Table table, const DataFiles& files, const DataSpec& data) {
  std::vector<SourcePtr> sources;
  for (const DataFile& file : files) {
    MUSTER_RETURN_IF_ERROR(table.Add(*file.source));
    sources.push_back(file.source);
  }
  MUSTER_ASSIGN_OR_RETURN(std::vector<Array> arrays,
                          std::move(table).Finish(CheckInTurn(std::move(sources))));
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<StoredDataSet> set, MakeArraySet(std::move(arrays)));
  return StoredSet{std::move(set), !data.label.empty()};
}

}  // namespace

absl::StatusOr<StoredSet> OpenCsv(const DataFiles& files, const DataSpec& data) {
  MUSTER_RETURN_IF_ERROR(CheckDelimiter(data));
  return Opened(Table(data), files, data);
}

absl::StatusOr<StoredSet> OpenCsvToMeasure(const DataFiles& files, const DataFiles& trained,
                                           const DataSpec& data) {
  MUSTER_RETURN_IF_ERROR(CheckDelimiter(data));
  Table names(data);
  MUSTER_RETURN_IF_ERROR(names.LearnNames(trained));
  MUSTER_ASSIGN_OR_RETURN(StoredSet stored, Opened(Table(data, &names), files, data));
  stored.names = names.HashOfNames();
  return stored;
}

}  // namespace muster
