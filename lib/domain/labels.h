// What may be a label of a job, and the name of a namespace or of a checkpoint: the rules of
// Kubernetes, so that what is one there is one here.
#pragma once

#include <map>
#include <string>

#include "absl/strings/string_view.h"

namespace muster {

// A namespace, the name of a job: what IsDnsLabel takes, for people.
inline constexpr char kDnsLabelRule[] = "1 to 63 lower-case letters, digits and inner hyphens";
bool IsDnsLabel(absl::string_view name);

// The name by which a person keeps a checkpoint, likewise. A step could be taken for a name of
// digits alone.
inline constexpr char kKeptNameRule[] =
    "1 to 63 lower-case letters, digits and inner hyphens, with a letter among them";
bool IsKeptName(absl::string_view name);
// What a person may name one from now on: `resume` of a job means something else by the words that
// are no such name. Folders of before may hold one that has such a word for its name.
inline constexpr char kNewKeptNameRule[] =
    "1 to 63 lower-case letters, digits and inner hyphens, with a letter among them, but neither "
    "latest nor never, by which a job says where it resumes";
bool IsNewKeptName(absl::string_view name);

// Why this is no label, for people, with what is allowed; empty: it is one. A key is a name of 1 to
// 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends; before it may stand a
// DNS name of at most 253 characters and '/'. A value is such a name, or empty.
std::string WhyNotLabel(absl::string_view key, absl::string_view value);

// All of `wanted` are among `labels`, with these values.
bool HasLabels(const std::map<std::string, std::string>& labels,
               const std::map<std::string, std::string>& wanted);

}  // namespace muster
