// Which file the task of a job came from, step by step, where it is no part of Muster: the file of
// a plug-in, or of TorchScript. A job goes on with another one only where a person has said so
// (docs/decisions/0114-accepted-plugins.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/ids.h"
#include "lib/domain/ledger.h"
#include "lib/domain/message.h"

namespace muster {

// Keys of NumericEnvironment::numeric: the file's name and SHA-256, and what the task made of the
// first samples.
inline constexpr char kPlugin[] = "plugin";
inline constexpr char kProbeLane[] = "probe_lane";
inline constexpr char kValidationProbe[] = "validation_probe";

// Another file may compute otherwise, and nothing else may be another with it.
inline bool FollowsFromPlugin(std::string_view key) {
  return key == kPlugin || key == kProbeLane || key == kValidationProbe;
}

// Empty: its task is a part of Muster.
inline std::string PluginOf(const NumericEnvironment& environment) {
  return NumericOf(environment, kPlugin);
}

inline bool IsOfOtherPlugin(const NumericEnvironment& a, const NumericEnvironment& b) {
  return !PluginOf(a).empty() && !PluginOf(b).empty() && PluginOf(a) != PluginOf(b);
}

// What a person lets be another than it was, for one start of a job.
struct Accepts {
  bool plugin = false;
  bool operator==(const Accepts&) const = default;
};
inline constexpr char kAcceptsPlugin[] = "plugin";  // how it is written

// From this step of this lineage on another file computed.
struct PluginChange {
  LineageNumber lineage;
  Step step;
  std::string before, after;  // as the numeric environment has them
  std::string by;             // who accepted it; empty: nobody was asked who he is
  bool operator==(const PluginChange&) const = default;
};
// Of a job. Each one takes a person.
inline constexpr size_t kMostPluginChanges = 1000;

// The file of the steps from this one on, in the history that made the newest state.
struct PluginUse {
  int64_t from = 0;
  std::string file;
  std::optional<std::string> accepted_by;  // nothing: the job began with it; empty as above
  bool operator==(const PluginUse&) const = default;
};
// In the order of their steps. A job that went back to before a change did its steps anew with the
// file that it had by then. Empty: the task is a part of Muster. `first`: the file and the step
// that the job began with here.
std::vector<PluginUse> PluginUses(const std::string& first, Step first_step,
                                  const std::vector<PluginChange>& changes,
                                  const std::vector<Lineage>& lineages);

// "from step 12 on b.so sha256:… computes in place of a.so sha256:…, which ann accepted"; one
// sentence for each change, none where there was none.
std::vector<std::string> DescribeChanges(const std::vector<PluginUse>& uses);

}  // namespace muster
