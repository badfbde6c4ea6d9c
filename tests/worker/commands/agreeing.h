// Of the gradients that a check has compared.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "worker/commands/check.h"

namespace muster::worker {

inline std::string TextOf(const CheckedGradient& g) {
  return absl::StrCat(g.tensor, "[", g.element, "] ", g.computed, " against ", g.difference, " ± ",
                      g.uncertainty);
}

// How many agree. None of which that can be told may disagree.
inline int64_t AgreeingOf(const CheckReport& report) {
  for (const CheckedGradient& g : report.gradients)
    EXPECT_TRUE(g.agrees || !g.is_told) << TextOf(g);
  return std::count_if(report.gradients.begin(), report.gradients.end(),
                       [](const CheckedGradient& g) { return g.agrees; });
}

}  // namespace muster::worker
