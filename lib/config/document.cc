#include "lib/config/document.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <sstream>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "lib/base/status.h"
#include "lib/base/utf8.h"
#include "yaml-cpp/eventhandler.h"
#include "yaml-cpp/exceptions.h"
#include "yaml-cpp/mark.h"
#include "yaml-cpp/parser.h"

namespace muster {
namespace {

using nlohmann::json;

constexpr size_t kMaxBytes = size_t{1} << 20;
// Layers may be nested in 32 levels, each of which takes four of these where it is written out in
// full: parallel, branches, the list of them and that of its layers.
constexpr size_t kMaxDepth = 160;
constexpr int kNoLine = 0;
constexpr absl::string_view kByteOrderMark = "\xEF\xBB\xBF";

// Puts a document together from the events of a parser. `line` is where the text of the event
// stands; 0: lines are not kept.
class Builder {
 public:
  explicit Builder(absl::string_view source) { document_.source = std::string(source); }

  absl::Status Begin(json empty, int line) {
    if (open_.size() >= kMaxDepth)
      return FieldError(PlaceOf(line), NextField(),
                        absl::StrCat("more than ", kMaxDepth, " levels; make it flatter"));
    open_.push_back({std::move(empty), {line, false, {}}, std::nullopt});
    return absl::OkStatus();
  }

  void End() {
    Level done = std::move(open_.back());
    open_.pop_back();
    Put(std::move(done.value), std::move(done.place));
  }

  bool WantsKey() const {
    return !open_.empty() && open_.back().value.is_object() && !open_.back().key;
  }

  absl::Status Key(std::string key, int line) {
    Level& level = open_.back();
    if (key.empty())
      return FieldError(PlaceOf(line), NextField(),
                        "the key \"\" is empty; write the name of a field");
    if (level.value.contains(key)) {
      level.key = std::move(key);
      return FieldError(PlaceOf(line), NextField(), "occurs twice; keep one of them");
    }
    level.key = std::move(key);
    return absl::OkStatus();
  }

  void Value(json value, int line) { Put(std::move(value), {line, false, {}}); }

  // The path of what comes next: for errors.
  std::string NextField() const {
    std::string field;
    for (const Level& level : open_)
      field = level.value.is_array() ? FieldPath(field, level.value.size())
                                     : FieldPath(field, level.key.value_or(""));
    return field;
  }

  Document Finish() { return std::move(document_); }

 private:
  struct Level {
    json value;
    Place place;
    std::optional<std::string> key;  // of a mapping: the one whose value comes next
  };

  std::string PlaceOf(int line) const { return PlaceText(document_.source, {line, false, {}}); }

  void Put(json value, Place place) {
    if (open_.empty()) {
      document_.root = std::move(value);
      document_.places = std::move(place);
      return;
    }
    Level& level = open_.back();
    std::string key = std::exchange(level.key, std::nullopt).value_or("");
    if (place.line > 0) level.place.below.push_back({key, std::move(place)});
    if (level.value.is_array()) {
      level.value.push_back(std::move(value));
    } else {
      level.value[std::move(key)] = std::move(value);
    }
  }

  Document document_;
  std::vector<Level> open_;
};

// A plain scalar of YAML 1.2's core schema; text if it is nothing else. Numbers may come out
// infinite.
json ResolvePlain(const std::string& text) {
  if (text == "true" || text == "True" || text == "TRUE") return true;
  if (text == "false" || text == "False" || text == "FALSE") return false;
  if (text.find_first_not_of("0123456789+-.eE") == std::string::npos) {
    uint64_t natural = 0;
    int64_t whole = 0;
    double number = 0;
    if (absl::SimpleAtoi(text, &natural)) return natural;
    if (absl::SimpleAtoi(text, &whole)) return whole;
    if (absl::SimpleAtod(text, &number)) return number;
  }
  uint64_t hexadecimal = 0;
  if (absl::StartsWith(text, "0x") && absl::SimpleHexAtoi(text, &hexadecimal)) return hexadecimal;
  const std::string lower = absl::AsciiStrToLower(text);
  if (lower == ".inf" || lower == "+.inf") return HUGE_VAL;
  if (lower == "-.inf") return -HUGE_VAL;
  if (lower == ".nan") return std::nan("");
  return text;
}

// Of a list or mapping in brackets, and with `text` from the bracket that opens it on: why it is
// none, or nothing where it ends. yaml-cpp takes one without an end for a key.
std::string WhyNoEnd(absl::string_view text) {
  size_t depth = 0;
  char before = ' ';  // the last character that is no blank
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool begins_text = absl::StrContains("[{,:", before);
    if ((c == '"' || c == '\'') && begins_text) {
      while (++i < text.size() && text[i] != c) i += c == '"' && text[i] == '\\' ? 1 : 0;
    } else if (c == '#' && i > 0 && absl::ascii_isspace(static_cast<unsigned char>(text[i - 1]))) {
      i = std::min(text.find('\n', i), text.size());
      continue;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxDepth)
        return absl::StrCat("more than ", kMaxDepth, " levels; make it flatter");
    } else if ((c == ']' || c == '}') && --depth == 0) {
      return "";
    }
    if (!absl::ascii_isspace(static_cast<unsigned char>(c))) before = c;
  }
  return absl::StrCat("the bracket ", text.substr(0, 1),
                      " that opens here is not closed; close it");
}

// What stands at `mark` and after it.
absl::string_view From(absl::string_view text, const YAML::Mark& mark) {
  size_t at = 0;
  for (int line = 0; line < mark.line && at != absl::string_view::npos; ++line) {
    at = text.find('\n', at);
    if (at != absl::string_view::npos) ++at;
  }
  if (at == absl::string_view::npos) return "";
  // A column counts characters, of which each has one byte or more.
  at = text.find_first_of("[{", std::min(at + static_cast<size_t>(mark.column), text.size()));
  return at == absl::string_view::npos ? "" : text.substr(at);
}

// yaml-cpp has no other way to stop it than an exception; it ends in ParseYamlDocument.
struct Refused {
  absl::Status status;
};

void OrThrow(absl::Status status) {
  if (!status.ok()) throw Refused{std::move(status)};
}

class YamlEvents final : public YAML::EventHandler {
 public:
  YamlEvents(absl::string_view source, absl::string_view text)
      : source_(source), text_(text), builder_(source) {}

  bool started() const { return started_; }
  int last_scalar_line() const { return last_scalar_line_; }
  Document Finish() { return builder_.Finish(); }

  void OnDocumentStart(const YAML::Mark&) override { started_ = true; }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    RefuseAnchor(mark, anchor);
    if (builder_.WantsKey()) Refuse(mark, "a key is empty; write the name of a field");
    builder_.Value(nullptr, Line(mark));
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    Refuse(mark, "aliases (*name) are not supported; write the value out");
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    last_scalar_line_ = Line(mark);
    RefuseAnchor(mark, anchor);
    if (builder_.WantsKey()) return OrThrow(builder_.Key(value, Line(mark)));
    const bool text = tag == "!" || tag == "tag:yaml.org,2002:str";
    if (!text) RefuseTag(mark, tag);
    json resolved = text ? json(value) : ResolvePlain(value);
    if (resolved.is_number_float() && !std::isfinite(resolved.get<double>()))
      Refuse(mark, absl::StrCat(value, " is not a finite number"));
    builder_.Value(std::move(resolved), Line(mark));
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    Begin(mark, tag, anchor, json::array());
  }
  void OnSequenceEnd() override { builder_.End(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    Begin(mark, tag, anchor, json::object());
  }
  void OnMapEnd() override { builder_.End(); }

 private:
  static int Line(const YAML::Mark& mark) { return mark.line + 1; }

  [[noreturn]] void Refuse(const YAML::Mark& mark, absl::string_view message) const {
    throw Refused{FieldError(PlaceText(source_, {Line(mark), false, {}}),
                             builder_.WantsKey() ? "" : builder_.NextField(), message)};
  }

  void RefuseAnchor(const YAML::Mark& mark, YAML::anchor_t anchor) const {
    if (anchor != YAML::NullAnchor)
      Refuse(mark, "anchors (&name) are not supported; write the value out");
  }

  void RefuseTag(const YAML::Mark& mark, const std::string& tag) const {
    if (!tag.empty() && tag != "?" && tag != "!")
      Refuse(mark, absl::StrCat("the tag ", tag, " is not supported"));
  }

  void Begin(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, json empty) {
    RefuseAnchor(mark, anchor);
    RefuseTag(mark, tag);
    if (builder_.WantsKey()) {
      const absl::string_view rest = From(text_, mark);
      const std::string no_end = rest.empty() ? "" : WhyNoEnd(rest);
      Refuse(mark, no_end.empty() ? "a key must be text, not a list or a mapping" : no_end);
    }
    OrThrow(builder_.Begin(std::move(empty), Line(mark)));
  }

  const std::string source_;
  const absl::string_view text_;
  Builder builder_;
  bool started_ = false;
  int last_scalar_line_ = kNoLine;
};

class JsonEvents final : public nlohmann::json_sax<json> {
 public:
  explicit JsonEvents(absl::string_view source) : source_(source), builder_(source) {}

  const absl::Status& status() const { return status_; }
  Document Finish() { return builder_.Finish(); }

  bool null() override { return Value(nullptr); }
  bool boolean(bool value) override { return Value(value); }
  bool number_integer(int64_t value) override { return Value(value); }
  bool number_unsigned(uint64_t value) override { return Value(value); }
  bool number_float(double value, const std::string&) override { return Value(value); }
  bool string(std::string& value) override { return Value(std::move(value)); }
  bool binary(json::binary_t&) override { return false; }  // JSON has none
  bool start_object(size_t) override { return Keep(builder_.Begin(json::object(), kNoLine)); }
  bool key(std::string& key) override { return Keep(builder_.Key(std::move(key), kNoLine)); }
  bool end_object() override { return End(); }
  bool start_array(size_t) override { return Keep(builder_.Begin(json::array(), kNoLine)); }
  bool end_array() override { return End(); }

  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception& error) override {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: ..." without the library's
    // own name for it.
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(error.what(), absl::MaxSplits("] ", 1));
    return Keep(FieldError(source_, "", parts.second));
  }

 private:
  bool Keep(absl::Status status) {
    status_ = std::move(status);
    return status_.ok();
  }
  bool Value(json value) {
    builder_.Value(std::move(value), kNoLine);
    return true;
  }
  bool End() {
    builder_.End();
    return true;
  }

  std::string source_;
  Builder builder_;
  absl::Status status_;
};

absl::Status CheckText(absl::string_view text, absl::string_view source) {
  if (text.size() > kMaxBytes)
    return FieldError(
        source, "",
        absl::StrCat(text.size(), " bytes are too many; at most ", kMaxBytes, " are read"));
  if (!IsUtf8(text)) return FieldError(source, "", "the text is not UTF-8; save it as UTF-8");
  return absl::OkStatus();
}

// yaml-cpp takes some control characters for the end of the text.
absl::Status CheckPrintable(absl::string_view text, absl::string_view source) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (static_cast<unsigned char>(text[i]) >= ' ' || absl::StrContains("\t\n\r", text[i]))
      continue;
    return FieldError(
        source, "",
        absl::StrCat("control character 0x", absl::BytesToHexString(text.substr(i, 1)), " at byte ",
                     i, "; remove it"));
  }
  return absl::OkStatus();
}

void HandleFirstDocument(const std::string& text, YamlEvents& events) {
  std::istringstream in(text);
  YAML::Parser(in).HandleNextDocument(events);
}

// yaml-cpp takes the end of a text that ends with a line for the end of quotes, too. It tells them
// only from within a line: with one that is added, and of which nothing else is asked.
bool EndsWithinQuotes(absl::string_view text) {
  try {
    YamlEvents unused("", text);
    HandleFirstDocument(absl::StrCat(text, "\nx"), unused);
  } catch (const Refused&) {
  } catch (const YAML::Exception& error) {
    return error.msg == YAML::ErrorMsg::EOF_IN_SCALAR;
  }
  return false;
}

// Of a text that ends within quotes: with the end of a line they count as closed, and as the last
// text that there is.
absl::Status OpenQuotesError(absl::string_view text, absl::string_view source) {
  YamlEvents events("", text);
  try {
    HandleFirstDocument(absl::StrCat(text, "\n"), events);
  } catch (const Refused&) {
  } catch (const YAML::Exception&) {
  }
  return FieldError(PlaceText(source, {events.last_scalar_line(), false, {}}), "",
                    "the quote that opens here is not closed; close it");
}

// `line`: from 0, as yaml-cpp counts.
bool IsIndentedByTabs(absl::string_view text, int line) {
  const std::vector<absl::string_view> lines = absl::StrSplit(text, '\n');
  if (line < 0 || static_cast<size_t>(line) >= lines.size()) return false;
  const absl::string_view at = lines[static_cast<size_t>(line)];
  return absl::StrContains(at.substr(0, at.find_first_not_of(" \t")), '\t');
}

absl::string_view NextStepFor(const YAML::Exception& error, absl::string_view text) {
  namespace Said = YAML::ErrorMsg;
  const std::string& message = error.msg;
  if (message == Said::TAB_IN_INDENTATION || IsIndentedByTabs(text, error.mark.line))
    return "indent with spaces";
  if (message == Said::END_OF_SEQ || message == Said::END_OF_MAP)
    return "begin the lines of a list or a mapping in one column";
  if (message == Said::END_OF_SEQ_FLOW) return "close the list with ]";
  if (message == Said::END_OF_MAP_FLOW) return "close the mapping with }";
  return "correct this line or the one before it";
}

absl::StatusOr<Document> ParseCheckedYaml(absl::string_view text, absl::string_view source) {
  try {
    std::istringstream in{std::string(text)};
    YAML::Parser parser(in);
    YamlEvents events(source, text);
    parser.HandleNextDocument(events);
    if (EndsWithinQuotes(text)) return OpenQuotesError(text, source);
    if (!events.started())
      return FieldError(source, "", "the document is empty; write fields and their values into it");
    YamlEvents more(source, text);
    if (parser.HandleNextDocument(more))
      return FieldError(source, "", "more than one document; keep one");
    return events.Finish();
  } catch (const Refused& refused) {
    return refused.status;
  } catch (const YAML::Exception& error) {
    if (EndsWithinQuotes(text)) return OpenQuotesError(text, source);
    return FieldError(PlaceText(source, {error.mark.line + 1, false, {}}), "",
                      absl::StrCat(error.msg, "; ", NextStepFor(error, text)));
  }
}

std::string ToText(absl::int128 number) {
  std::ostringstream out;
  out << number;
  return out.str();
}

std::optional<absl::int128> AsWhole(const json& value) {
  constexpr double kExactBelow = 1e30;  // far inside int128, far outside every field's range
  if (value.is_number_unsigned()) return absl::int128(value.get<uint64_t>());
  if (value.is_number_integer()) return absl::int128(value.get<int64_t>());
  if (value.is_number_float()) {
    const double number = value.get<double>();
    if (std::abs(number) < kExactBelow && std::floor(number) == number) return absl::int128(number);
  }
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    absl::int128 number;
    // As it is written back alone: "-0", "007" and "7 " are no numbers that a program writes.
    if (absl::SimpleAtoi(text, &number) && ToText(number) == text) return number;
  }
  return std::nullopt;
}

bool Contains(const NumberRange& range, double number) {
  const bool above = range.above_min ? number > range.min : number >= range.min;
  const bool below = range.below_max ? number < range.max : number <= range.max;
  return above && below;  // false for NaN
}

// Puts `value` at `field`, making the mappings on the way.
absl::Status SetField(Document& document, absl::string_view field, json value) {
  json* at = &document.root;
  std::string path;
  for (absl::string_view key : absl::StrSplit(field, '.')) {
    if (at->is_null()) *at = json::object();
    if (!at->is_object())
      return FieldError(
          "--set", field,
          absl::StrCat("'", path, "' holds ", Describe(*at), ", which has no fields"));
    path = FieldPath(path, key);
    at = &(*at)[std::string(key)];
  }
  *at = std::move(value);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Document> ParseYamlDocument(absl::string_view text, absl::string_view source) {
  MUSTER_RETURN_IF_ERROR(CheckText(text, source));
  MUSTER_RETURN_IF_ERROR(CheckPrintable(text, source));
  return ParseCheckedYaml(text, source);
}

absl::StatusOr<Document> ParseJsonDocument(absl::string_view text, absl::string_view source) {
  MUSTER_RETURN_IF_ERROR(CheckText(text, source));
  if (absl::StartsWith(text, kByteOrderMark))
    return FieldError(source, "", "the text begins with a byte order mark; remove it");
  // nlohmann::json takes it for the end of the text, whatever follows.
  if (const size_t zero = text.find('\0'); zero != absl::string_view::npos)
    return FieldError(
        source, "",
        absl::StrCat("byte ", zero + 1, " is zero, which is no part of JSON; remove it"));
  JsonEvents events(source);
  if (!json::sax_parse(text.begin(), text.end(), &events)) return events.status();
  return events.Finish();
}

absl::Status ApplySetting(Document& document, absl::string_view setting) {
  const std::pair<std::string, std::string> parts =
      absl::StrSplit(setting, absl::MaxSplits('=', 1));
  const auto& [field, text] = parts;
  const std::vector<std::string> keys = absl::StrSplit(field, '.');
  if (!absl::StrContains(setting, '=') || std::find(keys.begin(), keys.end(), "") != keys.end())
    return FieldError(
        "--set", "",
        absl::StrCat("'", absl::Utf8SafeCHexEscape(setting.substr(0, 80)),
                     "' is not of the form field=value, as in optimizer.learning_rate=0.1"));
  if (keys.size() > kMaxDepth)
    return FieldError("--set", "", absl::StrCat("more than ", kMaxDepth, " levels"));
  Document value;
  if (!absl::StripAsciiWhitespace(text).empty()) {
    MUSTER_ASSIGN_OR_RETURN(value, ParseYamlDocument(text, absl::StrCat("--set ", field)));
  }
  MUSTER_RETURN_IF_ERROR(SetField(document, field, std::move(value.root)));
  SetPlace(document.places, keys, std::move(value.places));
  return absl::OkStatus();
}

absl::Status ErrorAt(const Document& document, absl::string_view field, absl::string_view message) {
  const Place* place = FindPlace(document.places, field);
  return FieldError(place == nullptr ? document.source : PlaceText(document.source, *place), field,
                    message);
}

std::string ToText(double number) {
  constexpr double kExactBelow = 9007199254740992;  // 2^53
  if (std::abs(number) < kExactBelow && std::floor(number) == number)
    return absl::StrCat(static_cast<int64_t>(number));  // not 1e+09
  char text[32];
  return std::string(text, std::to_chars(text, text + sizeof(text), number).ptr);
}

std::string ToText(const NumberRange& range) {
  if (!range.above_min && !range.below_max)
    return absl::StrCat(ToText(range.min), " to ", ToText(range.max));
  return absl::StrCat(range.above_min ? "above " : "at least ", ToText(range.min),
                      range.below_max ? ", below " : ", at most ", ToText(range.max));
}

std::string ToText(absl::int128 min, absl::int128 max) {
  return absl::StrCat(ToText(min), " to ", ToText(max));
}

std::string Describe(const nlohmann::json& value) {
  constexpr size_t kShown = 60;
  if (value.is_null()) return "nothing";
  if (value.is_array()) return "a list";
  if (value.is_object()) return "a mapping";
  if (value.is_number_float()) return ToText(value.get<double>());
  if (!value.is_string()) return value.dump();
  const auto& text = value.get_ref<const std::string&>();
  std::string shown = absl::Utf8SafeCHexEscape(text.substr(0, kShown));
  return absl::StrCat("'", shown, text.size() > kShown ? "..." : "", "'");
}

absl::Status CheckKeys(const Document& document, absl::string_view field,
                       const nlohmann::json& value, const std::vector<std::string>& allowed) {
  if (!value.is_object())
    return ErrorAt(document, field,
                   absl::StrCat(Describe(value), " is not a mapping of fields to values; allowed: ",
                                absl::StrJoin(allowed, ", ")));
  for (const auto& item : value.items()) {
    if (std::find(allowed.begin(), allowed.end(), item.key()) != allowed.end()) continue;
    const std::string near = DidYouMean(item.key(), allowed);
    return ErrorAt(
        document, FieldPath(field, item.key()),
        absl::StrCat(
            "no such field",
            near.empty() ? absl::StrCat("; allowed: ", absl::StrJoin(allowed, ", ")) : near));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadText(const Document& document, absl::string_view field,
                                     const nlohmann::json& value) {
  if (!value.is_string())
    return ErrorAt(document, field,
                   absl::StrCat(Describe(value), " is not text",
                                value.is_structured() ? "" : "; put it in quotes"));
  const auto& text = value.get_ref<const std::string&>();
  if (!IsUtf8(text) || absl::StrContains(text, '\0'))
    return ErrorAt(document, field,
                   absl::StrCat(Describe(value), " is not UTF-8 text without zero bytes"));
  return text;
}

absl::StatusOr<std::string> ReadChoice(const Document& document, absl::string_view field,
                                       const nlohmann::json& value,
                                       const std::vector<std::string>& allowed) {
  if (value.is_string() &&
      std::find(allowed.begin(), allowed.end(), value.get<std::string>()) != allowed.end())
    return value.get<std::string>();
  return ErrorAt(
      document, field,
      absl::StrCat(Describe(value), " is not known; allowed: ", absl::StrJoin(allowed, ", ")));
}

absl::StatusOr<bool> ReadSwitch(const Document& document, absl::string_view field,
                                const json& value) {
  if (value.is_boolean()) return value.get<bool>();
  return ErrorAt(document, field,
                 absl::StrCat(Describe(value), " is not known; allowed: true, false"));
}

absl::StatusOr<absl::int128> ReadWhole(const Document& document, absl::string_view field,
                                       const nlohmann::json& value, absl::int128 min,
                                       absl::int128 max) {
  const std::optional<absl::int128> number = AsWhole(value);
  if (number && *number >= min && *number <= max) return *number;
  return ErrorAt(
      document, field,
      absl::StrCat(Describe(value), number ? " is out of range" : " is not a whole number",
                   "; allowed: ", ToText(min, max)));
}

absl::StatusOr<double> ReadNumber(const Document& document, absl::string_view field,
                                  const nlohmann::json& value, const NumberRange& range) {
  if (value.is_number() && Contains(range, value.get<double>()))
    return value.get<double>() + 0.0;  // no -0
  return ErrorAt(
      document, field,
      absl::StrCat(Describe(value), value.is_number() ? " is out of range" : " is not a number",
                   "; allowed: ", ToText(range)));
}

}  // namespace muster
