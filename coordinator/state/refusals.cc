#include "coordinator/state/refusals.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace muster::coordinator {
namespace {

constexpr size_t kMostRemembered = 64;  // names
constexpr size_t kMostNamed = 8;        // of those that were counted
constexpr size_t kMostKinds = 64;       // that are told apart
constexpr char kOtherKind[] = "for various reasons";

}  // namespace

std::string Refusals::Rest(const std::string& kind, OfKind& of, int64_t count) const {
  std::string text = absl::StrCat(count, " more ", count == 1 ? one_ : many_,
                                  count == 1 ? " was" : " were", " turned away: ", kind);
  if (!of.wanted.empty())
    absl::StrAppend(&text, " (", absl::StrJoin(std::exchange(of.wanted, {}), ", "), ")");
  return text;
}

std::vector<std::string> Refusals::Tell(const Refusal& refusal, Time now) {
  if (const auto known = last_.find(refusal.name);
      known != last_.end() && known->second == refusal.text)
    return {};
  // Made up names do not keep the memory of others' for ever.
  if (last_.size() >= kMostRemembered && last_.count(refusal.name) == 0) last_.clear();
  last_[refusal.name] = refusal.text;
  const bool is_apart = kinds_.count(refusal.kind) > 0 || kinds_.size() < kMostKinds;
  const std::string kind = is_apart ? refusal.kind : kOtherKind;
  OfKind& of = kinds_[kind];
  const std::optional<int64_t> left_out = of.allowance.Take(now);
  if (!left_out) {
    if (refusal.is_wanted && of.wanted.size() < kMostNamed) of.wanted.insert(refusal.name);
    return {};
  }
  if (*left_out == 0) return {refusal.text};
  return {Rest(kind, of, *left_out), refusal.text};
}

std::vector<std::string> Refusals::TellRest(Time now) {
  std::vector<std::string> told;
  for (auto& [kind, of] : kinds_)
    if (of.allowance.Owes(now)) told.push_back(Rest(kind, of, *of.allowance.Take(now)));
  return told;
}

}  // namespace muster::coordinator
