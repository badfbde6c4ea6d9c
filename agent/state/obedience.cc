#include "agent/state/obedience.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "lib/base/printable.h"
#include "lib/domain/member_name.h"

namespace muster::agent {

std::string TextOf(const KnownTerms& terms) {
  std::string text;
  for (const Obeyed& known : terms)
    absl::StrAppend(&text, known.cluster, " ", known.term.value(), "\n");
  return text;
}

absl::StatusOr<KnownTerms> ParseKnownTerms(absl::string_view text) {
  const absl::Status wrong =
      absl::DataLossError("it is no list of clusters and terms, each with a line feed after it");
  KnownTerms terms;
  if (text.empty()) return terms;
  if (text.back() != '\n') return wrong;
  text.remove_suffix(1);
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::pair<std::string, std::string> words = absl::StrSplit(line, absl::MaxSplits(' ', 1));
    int64_t term = 0;
    if (!IsMemberName(words.first) || !absl::SimpleAtoi(words.second, &term) || term < 0 ||
        terms.size() == kMostKnownTerms)
      return wrong;
    terms.push_back({words.first, TermNumber(term)});
  }
  return terms;
}

TermNumber Obedience::Highest(const std::string& cluster) const {
  TermNumber highest = cluster == cluster_ ? term_ : TermNumber();
  for (const Obeyed& known : known_)
    if (known.cluster == cluster) highest = std::max(highest, known.term);
  return highest;
}

// One that was replaced, and does not know it yet, would end what its successor wants.
std::string Obedience::WhyNot(const Wanted& wanted) const {
  if (!cluster_.empty() && wanted.cluster != cluster_)
    return absl::StrCat("is of another cluster (", Cut(Printable(wanted.cluster)),
                        ") than the one before (", cluster_, ")");
  const TermNumber highest = Highest(wanted.cluster);
  if (wanted.term >= highest) return "";
  const bool was_here = wanted.cluster == cluster_ && term_ == highest;
  return absl::StrCat("has been replaced: it is of term ", wanted.term.value(),
                      ", and a later one of term ", highest.value(), " was heard",
                      was_here ? ""
                               : " by an agent before this one, as the file terms of this host's "
                                 "folder says; where that one's journal is gone for good, end this "
                                 "agent, remove that file, and start it again");
}

bool Obedience::Obey(const Wanted& wanted) {
  cluster_ = wanted.cluster;
  term_ = wanted.term;
  // Each id of a cluster is such a word; what is none would spoil the lines of the others.
  const Obeyed now{cluster_, term_};
  if (!IsMemberName(cluster_) || (!known_.empty() && known_.back() == now)) return false;
  std::erase_if(known_, [this](const Obeyed& known) { return known.cluster == cluster_; });
  known_.push_back(now);
  if (known_.size() > kMostKnownTerms) known_.erase(known_.begin());
  return true;
}

}  // namespace muster::agent
