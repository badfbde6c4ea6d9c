// What a check of `muster doctor` has found. Plain values.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace muster::cli::doctor {

enum class Verdict {
  kOk,
  kWarning,  // it works, and may not for long, or not well
  kProblem,  // it does not work, or will not
  kSkipped,  // nobody looked; the text says why
};

struct Finding {
  std::string check;  // its name, for programs and people: "descriptors"
  Verdict verdict = Verdict::kOk;
  std::string text;      // what is so, as a sentence
  std::string advice{};  // what to do; empty: nothing
};
using Findings = std::vector<Finding>;

// A message of a status, as a sentence.
inline std::string Sentence(absl::string_view message) {
  const bool has_end = absl::EndsWith(message, ".") || absl::EndsWith(message, "!");
  return absl::StrCat(message, has_end ? "" : ".");
}

inline Finding Ok(std::string check, std::string text) {
  return {std::move(check), Verdict::kOk, std::move(text)};
}
inline Finding Warning(std::string check, std::string text, std::string advice) {
  return {std::move(check), Verdict::kWarning, std::move(text), std::move(advice)};
}
inline Finding Problem(std::string check, std::string text, std::string advice) {
  return {std::move(check), Verdict::kProblem, std::move(text), std::move(advice)};
}
inline Finding Skipped(std::string check, std::string why) {
  return {std::move(check), Verdict::kSkipped, std::move(why)};
}

}  // namespace muster::cli::doctor
