// How tests of the doctor look at what it says.
#pragma once

#include <string>

#include "cli/doctor/finding.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster::cli::doctor {

// The finding of a check; of another name: there is none.
inline Finding Of(const Findings& findings, const std::string& check) {
  for (const Finding& finding : findings)
    if (finding.check == check) return finding;
  return {};
}

inline void Expect(const Finding& finding, Verdict verdict, const std::string& text,
                   const std::string& advice = "") {
  EXPECT_EQ(finding.verdict, verdict) << finding.text;
  EXPECT_THAT(finding.text, testing::HasSubstr(text));
  EXPECT_THAT(finding.advice, testing::HasSubstr(advice));
  const bool is_well = verdict == Verdict::kOk || verdict == Verdict::kSkipped;
  EXPECT_EQ(finding.advice.empty(), is_well) << finding.text;
}

}  // namespace muster::cli::doctor
