#include <algorithm>

#include "absl/strings/str_cat.h"
#include "lib/base/version.h"

namespace muster {
namespace {

std::string Range(const Speaks& speaks) {
  return speaks.oldest == speaks.newest ? absl::StrCat(speaks.newest)
                                        : absl::StrCat(speaks.oldest, " to ", speaks.newest);
}

}  // namespace

std::string WhyNotUnderstood(const Speaks& own, const std::string& other_is, const Speaks& other) {
  if (std::max(own.oldest, other.oldest) <= std::min(own.newest, other.newest)) return "";
  if (other.version.empty())
    return absl::StrCat(other_is, " is of a version that does not say which protocol it speaks, ",
                        "and this one, Muster ", own.version, ", speaks protocol ", Range(own),
                        ": install the same version on all hosts");
  return absl::StrCat(other_is, " is Muster ", other.version, " and speaks protocol ", Range(other),
                      ", this one is Muster ", own.version, " and speaks protocol ", Range(own),
                      ": install the same version on all hosts, or one next to it");
}

}  // namespace muster
