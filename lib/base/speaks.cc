#include "lib/base/speaks.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace muster {
namespace {

constexpr char kWhatToDo[] = ": install the same version on all hosts, or one next to it";

std::string Range(const Speaks& speaks) {
  return speaks.oldest == speaks.newest ? absl::StrCat(speaks.newest)
                                        : absl::StrCat(speaks.oldest, " to ", speaks.newest);
}

std::string Sentence(const std::string& is, const Speaks& speaks) {
  if (speaks.version.empty())
    return absl::StrCat(is, " is of a version that does not say which protocol it speaks");
  return absl::StrCat(is, " is Muster ", speaks.version, " and speaks protocol ", Range(speaks));
}

}  // namespace

std::string WhyNotUnderstood(const std::string& one_is, const Speaks& one,
                             const std::string& other_is, const Speaks& other) {
  if (std::max(one.oldest, other.oldest) <= std::min(one.newest, other.newest)) return "";
  return absl::StrCat(Sentence(one_is, one), ", and ", Sentence(other_is, other), kWhatToDo);
}

bool SaysNotUnderstood(absl::string_view text) { return absl::StrContains(text, kWhatToDo); }

}  // namespace muster
