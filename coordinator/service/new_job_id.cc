#include "coordinator/service/new_job_id.h"

#include <cstdint>
#include <random>

#include "absl/strings/str_cat.h"
#include "lib/domain/job_id.h"

namespace muster::coordinator {

std::string MakeJobId(const std::string& name) {
  constexpr size_t kLongestNameInId = 60;
  std::string id = name.substr(0, kLongestNameInId);
  for (char& c : id)
    if (!IsJobIdCharacter(c)) c = '-';
  if (id.empty() || IsBadStartOfJobId(id[0])) id.insert(0, "job");
  std::random_device random;
  return absl::StrCat(id, "-", absl::Hex(uint32_t{random()}, absl::kZeroPad8));
}

}  // namespace muster::coordinator
