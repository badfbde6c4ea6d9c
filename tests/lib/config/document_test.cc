#include "lib/config/document.h"

#include <malloc.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <string>

#include "absl/strings/escaping.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/base/status.h"

namespace muster {
namespace {

using nlohmann::json;
using testing::HasSubstr;

std::string YamlError(const std::string& text) {
  const auto document = ParseYamlDocument(text, "a.yaml");
  EXPECT_FALSE(document.ok()) << document->root.dump();
  EXPECT_EQ(document.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(document.status().message());
}

std::string JsonError(const std::string& text) {
  const auto document = ParseJsonDocument(text, "body");
  EXPECT_FALSE(document.ok()) << document->root.dump();
  EXPECT_EQ(document.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(document.status().message());
}

json Yaml(const std::string& text) {
  const auto document = ParseYamlDocument(text, "a.yaml");
  EXPECT_TRUE(document.ok()) << document.status();
  return document.ok() ? document->root : json("failed");
}

// A document of one field.
Place PlaceOf(const std::vector<std::string>& keys, int line) {
  Place root;
  Place* at = &root;
  for (const std::string& key : keys) {
    at->below.push_back({key, {}});
    at = &at->below.back().place;
  }
  at->line = line;
  return root;
}

std::string Nested(size_t levels) { return std::string(levels, '[') + std::string(levels, ']'); }

// What the process holds, in bytes; 0 where an allocator of a sanitizer is in place.
size_t Held() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

// A path is only put together for an error: it would be long, and there are many of them.
TEST(Document, ALongNameAboveManyValuesTakesLittleMemory) {
  for (const bool is_json : {true, false}) {
    const size_t longest = is_json ? 300'000 : 1000;  // as YAML has it for a key on one line
    std::string text = "{\"" + std::string(longest, 'k') + "\": [0";
    for (int i = 0; i < 200'000; ++i) text += ",0";
    text += "]}";
    const size_t before = Held();
    const auto document =
        is_json ? ParseJsonDocument(text, "body") : ParseYamlDocument(text, "a.yaml");
    ASSERT_TRUE(document.ok()) << document.status();
    EXPECT_LT(Held(), before + (size_t{64} << 20));
    const std::string error(CheckKeys(*document, "", document->root, {"name"}).message());
    EXPECT_LT(error.size(), 4096u);
  }
}

TEST(Document, APlaceIsFoundByItsPathWhateverNamesHold) {
  auto document =
      ParseYamlDocument("a:\n  b: [1,\n   2]\n  c.d: {\"e[0]\": 3}\nf.g: 4\n", "x.yaml").value();
  const auto at = [&](const std::string& field) {
    return std::string(ErrorAt(document, field, "!").message());
  };
  EXPECT_EQ(at(""), "x.yaml:1: !");
  EXPECT_EQ(at("a.b[1]"), "x.yaml:3: a.b[1]: !");
  EXPECT_EQ(at("a.b[2]"), "x.yaml: a.b[2]: !");
  EXPECT_EQ(at("a.c.d.e[0]"), "x.yaml:4: a.c.d.e[0]: !");
  EXPECT_EQ(at("f.g"), "x.yaml:5: f.g: !");
  EXPECT_EQ(at("a.missing"), "x.yaml: a.missing: !");
  ASSERT_TRUE(ApplySetting(document, "a.b=[7, 8]").ok());
  EXPECT_EQ(at("a.b[1]"), "--set: a.b[1]: !");
  EXPECT_EQ(at("a.c.d"), "x.yaml:4: a.c.d: !");
}

TEST(YamlDocument, ResolvesScalarsAsTheCoreSchemaDoes) {
  EXPECT_EQ(Yaml("[1, -1, +7, 0x1F, 010, 1.5, 1e3, .5, -0.25]"),
            json::parse("[1, -1, 7, 31, 10, 1.5, 1000.0, 0.5, -0.25]"));
  EXPECT_EQ(Yaml("[true, False, null, ~, '']"), json::parse(R"([true, false, null, null, ""])"));
  EXPECT_EQ(Yaml("['1', \"true\", !!str 12, yes, 1-2, 1.2.3, e5, '']"),
            json::parse(R"(["1", "true", "12", "yes", "1-2", "1.2.3", "e5", ""])"));
  EXPECT_EQ(Yaml("a:").at("a"), json());
}

TEST(YamlDocument, KeepsLargeWholeNumbersExactly) {
  EXPECT_EQ(Yaml("18446744073709551615").get<uint64_t>(), std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(Yaml("-9223372036854775808").get<int64_t>(), std::numeric_limits<int64_t>::min());
}

TEST(YamlDocument, KnowsTheLineOfEveryField) {
  const auto document = ParseYamlDocument("a: 1\n\nb:\n  c: [x,\n      y]\n", "dir/a.yaml");
  ASSERT_TRUE(document.ok());
  EXPECT_EQ(ErrorAt(*document, "a", "!").message(), "dir/a.yaml:1: a: !");
  EXPECT_EQ(ErrorAt(*document, "b.c", "!").message(), "dir/a.yaml:4: b.c: !");
  EXPECT_EQ(ErrorAt(*document, "b.c[1]", "is odd").message(), "dir/a.yaml:5: b.c[1]: is odd");
  EXPECT_EQ(ErrorAt(*document, "z", "is missing").message(), "dir/a.yaml: z: is missing");
}

TEST(YamlDocument, RefusesWhatItCannotMean) {
  EXPECT_EQ(YamlError(""), "a.yaml: the document is empty; write fields and their values into it");
  EXPECT_EQ(YamlError("# only a comment\n"),
            "a.yaml: the document is empty; write fields and their values into it");
  EXPECT_EQ(YamlError("a: 1\nb:\n  c: 2\n  c: 3\n"),
            "a.yaml:4: b.c: occurs twice; keep one of them");
  EXPECT_EQ(YamlError("a: 1\n---\nb: 2\n"), "a.yaml: more than one document; keep one");
  EXPECT_EQ(YamlError("a: &x 1\nb: 2\n"),
            "a.yaml:1: a: anchors (&name) are not supported; write the value out");
  EXPECT_THAT(YamlError("a: &x [1]\nb: *x\n"), HasSubstr("a: anchors (&name) are not supported"));
  EXPECT_EQ(YamlError("a:\n  b: .inf\n"), "a.yaml:2: a.b: .inf is not a finite number");
  EXPECT_EQ(YamlError("a: -.Inf\n"), "a.yaml:1: a: -.Inf is not a finite number");
  EXPECT_EQ(YamlError("a: .nan\n"), "a.yaml:1: a: .nan is not a finite number");
  EXPECT_EQ(YamlError("a: 1e999\n"), "a.yaml:1: a: 1e999 is not a finite number");
  EXPECT_EQ(YamlError("a: !!binary aGVsbG8=\n"),
            "a.yaml:1: a: the tag tag:yaml.org,2002:binary is not supported");
  EXPECT_EQ(YamlError("[a, b]: 1\n"), "a.yaml:1: a key must be text, not a list or a mapping");
  EXPECT_EQ(YamlError("a: '\xff'\n"), "a.yaml: the text is not UTF-8; save it as UTF-8");
  EXPECT_EQ(YamlError(std::string("a: 1\0b: 2\n", 10)),
            "a.yaml: control character 0x00 at byte 4; remove it");
}

TEST(YamlDocument, TellsTheLineOfASyntaxError) {
  EXPECT_THAT(YamlError("a: 1\nb: [1, 2\nc: 3\n"), HasSubstr("a.yaml:3: "));
  EXPECT_THAT(YamlError("a: 1\n b: 2\n"), HasSubstr("a.yaml:2: "));
  EXPECT_THAT(YamlError("a: 1\nb: }\n"), HasSubstr("a.yaml:2: "));
}

TEST(YamlDocument, TellsWhatToDoAboutASyntaxError) {
  EXPECT_EQ(YamlError("a: 1\nb: [1, 2\n"),
            "a.yaml:3: end of sequence flow not found; close the list with ]");
  EXPECT_EQ(YamlError("a: {b: 1\n"),
            "a.yaml:2: end of map flow not found; close the mapping with }");
  EXPECT_THAT(YamlError("a:\n\tb: 1\n"), HasSubstr("; indent with spaces"));
  EXPECT_THAT(YamlError("a: 1\nb: }\n"), HasSubstr("; correct this line or the one before it"));
}

TEST(YamlDocument, TellsWhereABracketOpensThatIsNotClosed) {
  const std::string error = " that opens here is not closed; close it";
  EXPECT_EQ(YamlError("[1"), "a.yaml:1: the bracket [" + error);
  EXPECT_EQ(YamlError("{a: 1"), "a.yaml:1: the bracket {" + error);
  EXPECT_THAT(YamlError("[']', \"]\\\"]\", it's # ]\n"), HasSubstr("bracket [" + error));
  EXPECT_THAT(YamlError(std::string(100'000, '[')),
              HasSubstr("more than 160 levels; make it flatter"));
  EXPECT_EQ(YamlError("['[', \"[\"]: 1\n"),
            "a.yaml:1: a key must be text, not a list or a mapping");
}

TEST(YamlDocument, TellsWhereAQuoteOpensThatIsNotClosed) {
  const std::string error = ": the quote that opens here is not closed; close it";
  for (const char* text : {"a: 1\nb: \"x\n", "a: 1\nb: \"x", "a: 1\nb: '\n", "a: 1\nb: 'it''\n",
                           "a: 1\nb: \"\\\"\n", "a: 1\nb: \"x\n  y\n\n", "a: 1\nb: ['x', \"y\n"})
    EXPECT_EQ(YamlError(text), "a.yaml:2" + error) << text;
  EXPECT_EQ(YamlError("'a: 1\n"), "a.yaml:1" + error);
  for (const char* text : {"a: 'it''s'\n", "a: it's\n", "a: 1  # don't\n", "a: |\n  \"x\n",
                           "a: \"\\\"\"\n", "a: \"x\"  # 'y\n", "a: 'x\n  y'\n"})
    EXPECT_TRUE(ParseYamlDocument(text, "a.yaml").ok()) << text;
}

TEST(Document, AnEmptyKeyIsToldWithItsLineAndTheFieldThatHoldsIt) {
  const std::string error = "the key \"\" is empty; write the name of a field";
  EXPECT_EQ(YamlError("\"\": 1\n"), "a.yaml:1: " + error);
  EXPECT_EQ(YamlError("a: 1\nb:\n  \"\": 1\n"), "a.yaml:3: b: " + error);
  EXPECT_EQ(JsonError(R"({"x": {"y": [{"": ""}]}})"), "body: x.y[0]: " + error);
}

TEST(Document, HasLimits) {
  EXPECT_TRUE(ParseYamlDocument(Nested(160), "a.yaml").ok());
  EXPECT_THAT(YamlError(Nested(161)), HasSubstr("more than 160 levels; make it flatter"));
  EXPECT_THAT(YamlError(Nested(100'000)), HasSubstr("more than 160 levels; make it flatter"));
  EXPECT_TRUE(ParseJsonDocument(Nested(160), "body").ok());
  EXPECT_THAT(JsonError(Nested(161)), HasSubstr("more than 160 levels; make it flatter"));
  EXPECT_THAT(JsonError(Nested(500'000)), HasSubstr("more than 160 levels; make it flatter"));
  const std::string mebibyte(1 << 20, ' ');
  EXPECT_TRUE(ParseJsonDocument("1" + mebibyte.substr(1), "body").ok());
  EXPECT_EQ(JsonError("1" + mebibyte),
            "body: 1048577 bytes are too many; at most 1048576 are read");
  EXPECT_EQ(YamlError("1" + mebibyte),
            "a.yaml: 1048577 bytes are too many; at most 1048576 are read");
}

TEST(JsonDocument, ReadsWhatYamlReads) {
  const std::string text =
      R"({"a": [1, -2, 2.5, true, null, "x\u00e4"], "b": {"c": "\"quoted\""}})";
  const auto document = ParseJsonDocument(text, "body");
  ASSERT_TRUE(document.ok()) << document.status();
  EXPECT_EQ(document->root, json::parse(text));
  EXPECT_EQ(document->root, Yaml(text));
}

TEST(JsonDocument, RefusesWhatItCannotMean) {
  EXPECT_EQ(JsonError(R"({"a": 1, "b": {"c": 2, "c": 3}})"),
            "body: b.c: occurs twice; keep one of them");
  EXPECT_EQ(JsonError("\xEF\xBB\xBF{}"), "body: the text begins with a byte order mark; remove it");
  EXPECT_EQ(JsonError("{\"a\": \"\xff\"}"), "body: the text is not UTF-8; save it as UTF-8");
  EXPECT_EQ(JsonError(std::string("{}\0x", 4)),
            "body: byte 3 is zero, which is no part of JSON; remove it");
  for (const char* text : {"", "{", "{}x", "{} {}", "[1,]", "{\"a\" 1}", "NaN", "[Infinity]", "'a'",
                           "{a: 1}", "[01]", "\"\\ud800\"", "// comment\n1"})
    EXPECT_THAT(JsonError(text), HasSubstr("body: parse error at line ")) << text;
  EXPECT_THAT(JsonError("[1e999]"), HasSubstr("body: number overflow parsing '1e999'"));
}

// What a name of the suite promises of its text.
void ExpectAsNamed(const std::string& name, const std::string& text) {
  // RFC 8259 leaves it open what a name that comes twice means, and no field of ours has no name.
  const bool is_refused =
      name.starts_with("y_object_duplicated_key") || name == "y_object_empty_key";
  const auto document = ParseJsonDocument(text, "body");
  if (name.starts_with("y_") && !is_refused) {
    EXPECT_TRUE(document.ok()) << name << ": " << document.status();
  } else if (!name.starts_with("i_")) {
    EXPECT_FALSE(document.ok()) << name;
  }
  EXPECT_LE(document.status().message().size(), 1024u) << name;
}

TEST(JsonDocument, TakesAndRefusesWhatTheJsonTestSuiteSays) {
  std::ifstream suite(MUSTER_JSON_SUITE);
  int texts = 0;
  for (std::string line; std::getline(suite, line);) {
    if (line.starts_with('#')) continue;
    const size_t space = line.find(' ');
    std::string text;
    ASSERT_TRUE(space == std::string::npos || absl::Base64Unescape(line.substr(space + 1), &text))
        << line;
    ExpectAsNamed(line.substr(0, space), text);
    ++texts;
  }
  EXPECT_EQ(texts, 316);
  ExpectAsNamed("n_structure_100000_opening_arrays", std::string(100'000, '['));
  std::string objects;
  for (int i = 0; i < 50'000; ++i) objects += "[{\"\":";
  ExpectAsNamed("n_structure_open_array_object", objects + "\n");
}

TEST(ApplySetting, ChangesAndAddsFields) {
  auto document = ParseYamlDocument("a: {b: 1, bc: 2}\n", "a.yaml");
  ASSERT_TRUE(document.ok());
  for (const char* setting : {"a.b=0.5", "a.list=[x, y]", "n.m.o=text", "gone=", "eq=a=b"})
    ASSERT_TRUE(ApplySetting(*document, setting).ok()) << setting;
  EXPECT_EQ(document->root, json::parse(R"({"a": {"b": 0.5, "bc": 2, "list": ["x", "y"]},
      "n": {"m": {"o": "text"}}, "gone": null, "eq": "a=b"})"));
  EXPECT_EQ(ErrorAt(*document, "a.b", "is odd").message(), "--set: a.b: is odd");
  EXPECT_EQ(ErrorAt(*document, "a.list[1]", "is odd").message(), "--set: a.list[1]: is odd");
  EXPECT_EQ(ErrorAt(*document, "a.bc", "is odd").message(), "a.yaml:1: a.bc: is odd");
}

TEST(ApplySetting, ForgetsThePlacesOfWhatItReplaces) {
  auto document = ParseYamlDocument("a:\n  b: 1\n", "a.yaml");
  ASSERT_TRUE(document.ok());
  ASSERT_TRUE(ApplySetting(*document, "a={c: 2}").ok());
  EXPECT_EQ(ErrorAt(*document, "a.c", "is odd").message(), "--set: a.c: is odd");
  EXPECT_EQ(ErrorAt(*document, "a.b", "is odd").message(), "a.yaml: a.b: is odd");
}

TEST(ApplySetting, RefusesWhatItCannotMean) {
  auto document = ParseYamlDocument("workers: 3\n", "a.yaml");
  ASSERT_TRUE(document.ok());
  const auto error = [&](const char* setting) {
    return std::string(ApplySetting(*document, setting).message());
  };
  constexpr char kForm[] = " is not of the form field=value, as in optimizer.learning_rate=0.1";
  EXPECT_EQ(error("steps"), absl::StrCat("--set: 'steps'", kForm));
  EXPECT_EQ(error("=1"), absl::StrCat("--set: '=1'", kForm));
  EXPECT_EQ(error("a..b=1"), absl::StrCat("--set: 'a..b=1'", kForm));
  EXPECT_EQ(error("workers.max=4"), "--set: workers.max: 'workers' holds 3, which has no fields");
  EXPECT_THAT(error("a=[1"), HasSubstr("--set a:1: "));
  EXPECT_EQ(document->root, json::parse(R"({"workers": 3})"));
}

class ReadTest : public testing::Test {
 protected:
  template <class Result>
  static std::string ErrorOf(const Result& result) {
    EXPECT_FALSE(result.ok());
    EXPECT_EQ(FieldOf(result.status()), "f");
    return std::string(result.status().message());
  }
  const Document document_{json::object(), "a.yaml", PlaceOf({"f"}, 3)};
};

TEST_F(ReadTest, WholeNumbers) {
  const auto read = [&](const json& value) { return ReadWhole(document_, "f", value, -3, 4096); };
  EXPECT_EQ(*read(-3), -3);
  EXPECT_EQ(*read(4096u), 4096);
  EXPECT_EQ(*read(1e3), 1000);
  EXPECT_EQ(*read("12"), 12);
  EXPECT_EQ(ErrorOf(read(4097)), "a.yaml:3: f: 4097 is out of range; allowed: -3 to 4096");
  EXPECT_EQ(ErrorOf(read(1e25)), "a.yaml:3: f: 1e+25 is out of range; allowed: -3 to 4096");
  EXPECT_EQ(*read("0"), 0);
  EXPECT_EQ(*read("-3"), -3);
  EXPECT_EQ(*read(-0.0), 0);
  for (const json& bad :
       {json(1.5), json("six"), json(" 1"), json("1 "), json("+1"), json("-0"), json("007"),
        json(""), json(true), json(), json::array({1}), json::object(), json(1e300)})
    EXPECT_THAT(ErrorOf(read(bad)), HasSubstr(" is not a whole number; allowed: -3 to 4096"))
        << bad;
  EXPECT_EQ(
      *ReadWhole(document_, "f", "18446744073709551615", 0, std::numeric_limits<uint64_t>::max()),
      std::numeric_limits<uint64_t>::max());
}

TEST_F(ReadTest, Numbers) {
  const NumberRange open = {.min = 0, .max = 1, .above_min = true, .below_max = true};
  EXPECT_EQ(*ReadNumber(document_, "f", 1, {0, 1}), 1);
  EXPECT_EQ(ErrorOf(ReadNumber(document_, "f", 1.25, {0, 1})),
            "a.yaml:3: f: 1.25 is out of range; allowed: 0 to 1");
  EXPECT_EQ(ErrorOf(ReadNumber(document_, "f", 1, open)),
            "a.yaml:3: f: 1 is out of range; allowed: above 0, below 1");
  EXPECT_EQ(ErrorOf(ReadNumber(document_, "f", 0, open)),
            "a.yaml:3: f: 0 is out of range; allowed: above 0, below 1");
  EXPECT_EQ(ErrorOf(ReadNumber(document_, "f", "1", {0, 1})),
            "a.yaml:3: f: '1' is not a number; allowed: 0 to 1");
  EXPECT_FALSE(ReadNumber(document_, "f", std::numeric_limits<double>::quiet_NaN(), {0, 1}).ok());
  EXPECT_FALSE(std::signbit(*ReadNumber(document_, "f", -0.0, {0, 1})));
}

TEST_F(ReadTest, TextAndChoices) {
  EXPECT_EQ(*ReadText(document_, "f", "x"), "x");
  EXPECT_EQ(ErrorOf(ReadText(document_, "f", 12)), "a.yaml:3: f: 12 is not text; put it in quotes");
  EXPECT_EQ(ErrorOf(ReadText(document_, "f", json::array())), "a.yaml:3: f: a list is not text");
  EXPECT_FALSE(ReadText(document_, "f", std::string("a\0b", 3)).ok());
  EXPECT_FALSE(ReadText(document_, "f", "\xff").ok());
  EXPECT_EQ(*ReadChoice(document_, "f", "b", {"a", "b"}), "b");
  EXPECT_EQ(ErrorOf(ReadChoice(document_, "f", "B\n", {"a", "b"})),
            "a.yaml:3: f: 'B\\n' is not known; allowed: a, b");
}

TEST_F(ReadTest, ASwitchIsTrueOrFalse) {
  EXPECT_TRUE(*ReadSwitch(document_, "f", true));
  EXPECT_FALSE(*ReadSwitch(document_, "f", false));
  EXPECT_EQ(ErrorOf(ReadSwitch(document_, "f", "yes")),
            "a.yaml:3: f: 'yes' is not known; allowed: true, false");
}

TEST(CheckKeys, SuggestsTheNearestName) {
  const Document document{{}, "a.yaml", PlaceOf({"o", "kimd"}, 2)};
  const auto error = [&](const json& value) {
    return std::string(CheckKeys(document, "o", value, {"kind", "learning_rate"}).message());
  };
  EXPECT_TRUE(CheckKeys(document, "o", {{"kind", 1}}, {"kind", "learning_rate"}).ok());
  EXPECT_EQ(error({{"kimd", 1}}), "a.yaml:2: o.kimd: no such field; did you mean 'kind'?");
  EXPECT_EQ(error({{"zzz", 1}}), "a.yaml: o.zzz: no such field; allowed: kind, learning_rate");
  EXPECT_EQ(error(3),
            "a.yaml: o: 3 is not a mapping of fields to values; allowed: kind, learning_rate");
  EXPECT_THAT(error({{std::string(100'000, 'k'), 1}}), HasSubstr("no such field; allowed: "));
}

TEST(FieldError, CarriesTheFieldThroughPrefixes) {
  const absl::Status status =
      Prefix("job code-lm", FieldError("a.yaml:3", "data.paths[2]", "is empty"));
  EXPECT_EQ(status.message(), "job code-lm: a.yaml:3: data.paths[2]: is empty");
  EXPECT_EQ(FieldOf(status), "data.paths[2]");
  EXPECT_EQ(FieldOf(absl::OkStatus()), "");
  EXPECT_EQ(FieldOf(FieldError("a.yaml", "", "is empty")), "");
  const std::string deep = "a" + std::string(200, '[') + "b";
  EXPECT_EQ(FieldError("", deep, "is odd").message(),
            "a" + std::string(77, '[') + "..." + std::string(77, '[') + "b: is odd");
  EXPECT_EQ(FieldOf(FieldError("", deep, "is odd")), deep);
  EXPECT_EQ(FieldError("", "a\nb", "is odd").message(), "a\\nb: is odd");
}

TEST(ToText, WritesTheShortestNumberThatReadsBack) {
  EXPECT_EQ(ToText(0.1), "0.1");
  EXPECT_EQ(ToText(300.0), "300");
  EXPECT_EQ(ToText(1e-8), "1e-08");
  EXPECT_EQ(ToText(1.0 / 3), "0.3333333333333333");
}

}  // namespace
}  // namespace muster
