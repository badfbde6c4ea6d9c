// Why members were turned away, so that it is told once and not at each attempt: whoever tries
// again and again, or under ever other names, fills no log. Lives as long as its JobRun.
#pragma once

#include <map>
#include <string>

namespace muster::coordinator {

inline constexpr size_t kMostRefusals = 64;  // names that are told of

class Refusals {
 public:
  // True: it is to be told. `why` is another reason than this name was refused for last, and not
  // too many names were refused.
  bool IsNews(const std::string& name, const std::string& why);

 private:
  std::map<std::string, std::string> last_;  // by name
};

}  // namespace muster::coordinator
