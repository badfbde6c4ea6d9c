#include "lib/domain/member_name.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "lib/domain/job_id.h"

namespace muster {

bool IsMemberName(absl::string_view name) {
  return !name.empty() && name.size() <= kLongestMemberName && !IsBadStartOfJobId(name[0]) &&
         std::all_of(name.begin(), name.end(), IsJobIdCharacter);
}

std::string MemberNameRule() {
  return absl::StrCat("1 to ", kLongestMemberName,
                      " letters, digits, '.', '_' or '-', not beginning with '.' or '-'");
}

}  // namespace muster
