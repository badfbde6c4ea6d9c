#include "lib/domain/job_id.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "lib/base/own_folder.h"

namespace muster {

bool IsJobIdCharacter(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.';
}

bool IsBadStartOfJobId(char c) { return c == '.' || c == '-'; }

bool IsJobId(absl::string_view id) {
  return !id.empty() && id.size() <= kLongestJobId && !IsBadStartOfJobId(id[0]) &&
         std::all_of(id.begin(), id.end(), IsJobIdCharacter) && id != kOwnFolderMark;
}

std::string JobIdRule() {
  return absl::StrCat("1 to ", kLongestJobId,
                      " letters, digits, '.', '_' or '-', not beginning with '.' or '-', and not ",
                      kOwnFolderMark);
}

}  // namespace muster
