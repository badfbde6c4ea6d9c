#include "coordinator/state/refusals.h"

namespace muster::coordinator {

bool Refusals::IsNews(const std::string& name, const std::string& why) {
  const auto known = last_.find(name);
  if (known == last_.end()) return last_.size() < kMostRefusals && last_.emplace(name, why).second;
  if (known->second == why) return false;
  known->second = why;
  return true;
}

}  // namespace muster::coordinator
