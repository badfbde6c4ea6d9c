// Where a coordinator may be: some addresses, of which one at a time has it.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace muster {

inline constexpr size_t kMostAddresses = 16;

// "10.0.0.1:7070,[fd00::7]:7070,db:7070": in their order, each once. kInvalidArgument names the
// entry that is wrong.
absl::StatusOr<std::vector<std::string>> ParseAddressList(absl::string_view list);

// The name that is to be looked up before somebody connects there; nothing where the host is
// numeric or localhost.
std::optional<std::string> NameIn(absl::string_view address);

// The addresses of a list that was checked, tried in turn.
class AddressRound {
 public:
  explicit AddressRound(absl::string_view list) : addresses_(absl::StrSplit(list, ',')) {}
  const std::string& current() const { return addresses_[at_]; }
  // Where the current entry has a name, which is to be looked up anew for each attempt.
  std::optional<std::string> NameToLookUp() const { return NameIn(current()); }
  // The address to try now, of those that the name of the current entry has (sorted, at least one):
  // first the one that answered last, else one after the other.
  std::string Choose(const std::vector<std::string>& found);
  // To the next address of the entry, or, after its last one, to the next entry. `met_another`: a
  // coordinator answered, of another cluster than ours.
  void GoOn(bool met_another = false) {
    met_only_others_ = met_only_others_ && met_another;
    if (std::exchange(has_more_, false)) return;
    tried_.clear();
    at_ = (at_ + 1) % addresses_.size();
    if (at_ == 0) others_everywhere_ = std::exchange(met_only_others_, true);
  }
  // In the last whole round each attempt met a coordinator of another cluster.
  bool OthersEverywhere() const { return others_everywhere_; }
  // True when what answers now is not where one answered before, and there is a choice.
  bool Answers() {
    const bool moved = last_ != at_;
    last_ = at_;
    answered_ = tried_;
    met_only_others_ = others_everywhere_ = false;
    return moved && addresses_.size() > 1;
  }
  // The list as others are to begin with it.
  std::string FromWhatAnswered() const;
  // For people.
  std::string All() const { return absl::StrJoin(addresses_, " or "); }

 private:
  std::vector<std::string> addresses_;
  size_t at_ = 0;
  std::string tried_;            // of the addresses of the current entry, the last one
  bool has_more_ = false;        // behind that
  std::string answered_;         // is tried first when its session breaks
  std::optional<size_t> last_;   // where one answered last
  bool met_only_others_ = true;  // in this round so far
  bool others_everywhere_ = false;
};

}  // namespace muster
