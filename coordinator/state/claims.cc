#include "coordinator/state/claims.h"

#include "absl/strings/str_cat.h"
#include "lib/base/digits.h"

namespace muster::coordinator {

std::string ClaimOf(TermNumber term, const std::string& token) {
  return absl::StrCat(term.value(), " ", token);
}

TermNumber TermOfClaim(const std::string& claim) {
  int64_t term = 0;
  return ParseDigits(claim.substr(0, claim.find(' ')), &term) ? TermNumber(term) : TermNumber();
}

bool IsOfAnother(const std::string& latest, const std::string& ours) {
  const TermNumber there = TermOfClaim(latest), last = TermOfClaim(ours);
  if (latest.empty() || there < last) return false;
  return there > last || latest != ours;
}

}  // namespace muster::coordinator
