#include "cli/doctor/report.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/json_text.h"
#include "lib/base/plural.h"
#include "lib/base/printable.h"

namespace muster::cli::doctor {
namespace {

struct Words {
  const char* name;
  const char* colour;
};
constexpr std::array<Words, 4> kVerdicts = {
    {{"ok", "\x1b[32m"}, {"warning", "\x1b[33m"}, {"problem", "\x1b[31m"}, {"skipped", "\x1b[2m"}}};
constexpr char kPlain[] = "\x1b[0m";

const Words& WordsOf(Verdict verdict) { return kVerdicts.at(static_cast<size_t>(verdict)); }

}  // namespace

Counts CountsOf(const std::vector<Section>& sections) {
  Counts counts;
  for (const Section& section : sections)
    for (const Finding& finding : section.findings) {
      if (finding.verdict == Verdict::kProblem) ++counts.problems;
      if (finding.verdict == Verdict::kWarning) ++counts.warnings;
    }
  return counts;
}

std::string TextOf(const std::vector<Section>& sections, bool colour) {
  constexpr int kWidth = 7;  // of the longest verdict
  std::string text;
  for (const Section& section : sections) {
    absl::StrAppend(&text, Printable(section.title), "\n");
    for (const Finding& finding : section.findings) {
      const Words& words = WordsOf(finding.verdict);
      const std::string verdict = absl::StrFormat("%-*s", kWidth, words.name);
      absl::StrAppend(&text, "  ", colour ? words.colour : "", verdict, colour ? kPlain : "", "  ",
                      Printable(finding.check), ": ", Printable(finding.text), "\n");
      if (!finding.advice.empty())
        absl::StrAppend(&text, std::string(kWidth + 4, ' '), "-> ", Printable(finding.advice),
                        "\n");
    }
    absl::StrAppend(&text, "\n");
  }
  const Counts counts = CountsOf(sections);
  return absl::StrCat(text, Plural(counts.problems, "problem"), ", ",
                      Plural(counts.warnings, "warning"), "\n");
}

std::string JsonOf(const std::vector<Section>& sections) {
  const Counts counts = CountsOf(sections);
  nlohmann::ordered_json object = {{"ok", counts.problems == 0},
                                   {"problems", counts.problems},
                                   {"warnings", counts.warnings},
                                   {"findings", nlohmann::ordered_json::array()}};
  for (const Section& section : sections)
    for (const Finding& finding : section.findings)
      object["findings"].push_back({{"section", section.name},
                                    {"check", finding.check},
                                    {"verdict", WordsOf(finding.verdict).name},
                                    {"text", finding.text},
                                    {"advice", finding.advice}});
  return Text(object);
}

}  // namespace muster::cli::doctor
