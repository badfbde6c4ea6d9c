// Reads the history of a job through REST, all of it or what is new since the last look.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cli/rest_client.h"
#include "lib/domain/history.h"

namespace muster::cli {

// Gets pages of steps, each of at least one. Where its first step is not behind the last one of the
// page before, a rewind meanwhile has left out those from there on. False: no more is wanted.
using TakeHistory = std::function<bool(const std::vector<HistoryStep>& steps)>;

// From step `from` on; `plugins`, where given, is which file computed them. Page by page, so that
// any number of steps needs the memory of one page.
absl::Status ReadHistory(const RestClient& rest, const std::string& job, int64_t from,
                         const TakeHistory& take, std::vector<PluginUse>* plugins = nullptr);

struct LossAtStep {
  int64_t step = 0;
  double loss = 0;  // not a number: it has none
  std::optional<double> validation_loss{};
};
// Of the newest steps in a metrics.jsonl, as many as some MiB hold. Empty: there is none, or it
// cannot be read.
std::vector<LossAtStep> NewestLosses(const std::string& path);

}  // namespace muster::cli
