// A job's specification as people write it: the first byte of the input says whether the rest is
// JSON or YAML.
#include <algorithm>

#include "lib/config/document.h"
#include "lib/domain/job.h"
#include "lib/wire/job_codec.h"
#include "tests/fuzz/fuzz.h"
#include "tests/lib/wire/random_job.h"

namespace muster::fuzz {
namespace {

// "[0,0,…": two bytes make an item of a list, and its place in the text.
constexpr size_t kMostHeld = size_t{4} << 20;
constexpr size_t kMostHeldPerByte = 600;
constexpr size_t kMostSaid = 8192;  // an error's words

bool IsJson(std::string_view input) { return static_cast<uint8_t>(input[0]) % 2 == 0; }

void Refused(const absl::Status& why) {
  Check(why.code() == absl::StatusCode::kInvalidArgument, "refused as an error of the document");
  Check(why.message().size() <= kMostSaid, "an error is short");
  ReachError(why.message());
}

void ReachDocument(const std::string& text, bool json) {
  const auto document = json ? ParseJsonDocument(text, "") : ParseYamlDocument(text, "");
  for (const JobField& field : JobFields()) {
    const size_t dot = field.name.find('.');
    const auto group = document->root.find(field.name.substr(0, dot));
    if (group == document->root.end() || group->is_null()) continue;
    if (dot == std::string::npos || group->contains(field.name.substr(dot + 1)))
      Reach("field", field.name);
  }
}

void Read(const std::string& text, bool json) {
  const auto spec = json ? ParseJobJson(text, "job.json") : ParseJobYaml(text, "job.yaml");
  if (!spec.ok()) {
    const std::string field = FieldOf(spec.status());
    const auto fields = JobFields();
    if (std::any_of(fields.begin(), fields.end(), [&](const auto& f) { return f.name == field; }))
      Reach("refused field", field);
    return Refused(spec.status());
  }
  ReachDocument(text, json);
  const auto from_json = ParseJobJson(ToJson(*spec));
  const auto from_yaml = ParseJobYaml(ToYaml(*spec), "");
  Check(from_json.ok() && *from_json == *spec, "written as JSON and read again");
  Check(from_yaml.ok() && *from_yaml == *spec, "written as YAML and read again");
  Check(TrainingHash(from_yaml->training) == TrainingHash(spec->training), "equal hashes");
}

const std::vector<std::string>& Words() {
  static const auto& words = *[] {
    auto* made = new std::vector<std::string>{
        "{",       "}",       "[",     "]",    ":", ",",    "\"",   "'",     "\n",          "  ",
        "-",       "- ",      "---",   "|",    ">", "&a",   "*a",   "!!str", "? ",          "#",
        "\\u0000", "\\ud800", "1e999", "0x1F", "~", "null", ".nan", ".inf",  "\xEF\xBB\xBF"};
    for (const JobField& field : JobFields()) {
      made->push_back(field.name);
      made->push_back(field.name.substr(field.name.find('.') + 1));
    }
    return made;
  }();
  return words;
}

std::string Make(Random& random) {
  const JobSpec spec = RandomJob(random()).Make();
  return Below(random, 2) == 0 ? std::string(1, '\0') + ToJson(spec)
                               : std::string(1, '\1') + ToYaml(spec);
}

std::string Change(const std::string& input, Random& random) {
  if (input.empty()) return "";
  return input.substr(0, 1) + ChangedWords(std::string_view(input).substr(1), Words(), random);
}

const Form kForm = {Make, Change};

void ExpectAll() {
  std::vector<std::string> names;
  for (const JobField& field : JobFields()) names.push_back(field.name);
  Expect("field", names);
  ExpectAtLeast("refused field", 20);
  ExpectAtLeast("error", 60);
}

void Run(std::string_view input) {
  if (input.empty()) return;
  const MemoryLimit limit(kMostHeld + kMostHeldPerByte * input.size());
  Read(std::string(input.substr(1)), IsJson(input));
}

}  // namespace
}  // namespace muster::fuzz

MUSTER_FUZZ_TARGET(muster::fuzz::kForm, muster::fuzz::ExpectAll, muster::fuzz::Run);
