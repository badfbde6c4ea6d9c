// The body of a job that is submitted by REST, in a sound request.
#include "lib/wire/job_codec.h"
#include "nlohmann/json.hpp"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/rest_wire.h"
#include "tests/lib/wire/random_job.h"

namespace muster::fuzz {
namespace {

using nlohmann::json;

constexpr size_t kMostHeld = size_t{4} << 20;
constexpr size_t kMostHeldPerByte = 600;

const std::vector<std::string>& Words() {
  static const auto& words = *[] {
    auto* made =
        new std::vector<std::string>{"id", "spec", "gone",    "{",       "}",    "[",     "]", ":",
                                     ",",  "\"",   "\\u0000", "\\ud800", "null", "1e999", "{}"};
    for (const JobField& field : JobFields())
      made->push_back(field.name.substr(field.name.find('.') + 1));
    return made;
  }();
  return words;
}

std::string Make(Random& random) {
  const std::string spec = ToJson(RandomJob(random()).Make());
  return (Below(random, 3) == 0 ? R"({"spec":)" : R"({"id":"job-1","spec":)") + spec + "}";
}

std::string Change(const std::string& input, Random& random) {
  return ChangedWords(input, Words(), random);
}

const Form kForm = {Make, Change};

void ExpectAll() {
  std::vector<std::string> names;
  for (const JobField& field : JobFields()) names.push_back(field.name);
  Expect("field", names);
  Expect("status", {"201", "400"});
  ExpectAtLeast("refused field", 12);
  ExpectAtLeast("error", 60);
}

void Taken(const json& asked, const json& answer) {
  // The document of a specification leaves out what has no meaning for it.
  for (const JobField& field : JobFields()) {
    const size_t dot = field.name.find('.');
    const json group = asked.value(field.name.substr(0, dot), json());
    if (dot == std::string::npos ? !group.is_null() : group.contains(field.name.substr(dot + 1)))
      Reach("field", field.name);
  }
  const auto spec = ParseJobJson(asked.dump(-1, ' ', false, json::error_handler_t::replace));
  const auto told = ParseJobJson(answer["spec"].dump());
  Check(spec.ok() && told.ok() && *spec == *told, "the job is the one that was asked for");
}

void Run(std::string_view input) {
  const std::string request = "POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
                              std::to_string(input.size()) + "\r\n\r\n" + std::string(input);
  const MemoryLimit limit(kMostHeld + kMostHeldPerByte * input.size());
  const std::vector<Answer> answers = Split(AnswersTo(request, 0));
  Check(answers.size() == 1, "one answer to one request");
  Reach("status", std::to_string(answers[0].status));
  const json answer = json::parse(answers[0].body, nullptr, /*allow_exceptions=*/false);
  Check(!answer.is_discarded(), "an answer is JSON");
  if (answers[0].status == 201) return Taken(json::parse(input)["spec"], answer);
  const json& error = answer["error"];
  ReachError(error["message"].get<std::string>());
  for (const JobField& field : JobFields())
    if (field.name == error.value("field", "")) Reach("refused field", field.name);
}

}  // namespace
}  // namespace muster::fuzz

MUSTER_FUZZ_TARGET(muster::fuzz::kForm, muster::fuzz::ExpectAll, muster::fuzz::Run);
