// Which coordinator a host agent obeys (docs/hosts.md section 3). Plain values.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lib/domain/message.h"

namespace muster::agent {

struct Obeyed {
  std::string cluster;
  TermNumber term;  // the highest that was heard of it
  bool operator==(const Obeyed&) const = default;
};

// What agents that used one folder have heard: each cluster once, the one that was heard last at
// the end.
using KnownTerms = std::vector<Obeyed>;
inline constexpr size_t kMostKnownTerms = 16;

// As it stands on the disk. kDataLoss: that is none.
std::string TextOf(const KnownTerms& terms);
absl::StatusOr<KnownTerms> ParseKnownTerms(absl::string_view text);

// Of one agent, from its start to its end.
class Obedience {
 public:
  // `known`: what agents before it have heard.
  explicit Obedience(KnownTerms known = {}) : known_(std::move(known)) {}

  // What is wrong with the coordinator that says this, for people, as words after its name; empty:
  // it may be obeyed.
  std::string WhyNot(const Wanted& wanted) const;
  // It is obeyed from now on. True: what is known has changed.
  bool Obey(const Wanted& wanted);

  // Of the first coordinator that this agent obeyed; empty: none yet.
  const std::string& cluster() const { return cluster_; }
  const KnownTerms& known() const { return known_; }

 private:
  TermNumber Highest(const std::string& cluster) const;

  std::string cluster_;
  TermNumber term_;  // the highest that this agent has heard
  KnownTerms known_;
};

}  // namespace muster::agent
