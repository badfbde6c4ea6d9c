// Where a coordinator may be: some addresses, of which one at a time has it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace muster {

inline constexpr size_t kMostAddresses = 16;

// "10.0.0.1:7070,[fd00::7]:7070": in their order, each once. kInvalidArgument names the entry that
// is wrong.
absl::StatusOr<std::vector<std::string>> ParseAddressList(absl::string_view list);

// The addresses of a list that was checked, tried in turn.
class AddressRound {
 public:
  explicit AddressRound(absl::string_view list) : addresses_(absl::StrSplit(list, ',')) {}
  const std::string& current() const { return addresses_[at_]; }
  void GoOn() { at_ = (at_ + 1) % addresses_.size(); }
  // True when what answers now is not where one answered before, and there is a choice.
  bool Answers() {
    const bool moved = last_ != at_;
    last_ = at_;
    return moved && addresses_.size() > 1;
  }
  // For people.
  std::string All() const { return absl::StrJoin(addresses_, " or "); }

 private:
  std::vector<std::string> addresses_;
  size_t at_ = 0;
  std::optional<size_t> last_;  // where one answered last
};

}  // namespace muster
