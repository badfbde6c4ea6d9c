#include "cli/queue.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/json_text.h"
#include "lib/base/exit_codes.h"
#include "lib/base/printable.h"
#include "lib/base/status.h"
#include "nlohmann/json.hpp"

namespace muster::cli {
namespace {

// JSON has no such number, and would say null, which is the default.
absl::Status PutSeconds(const char* field, const char* option, std::optional<double> seconds,
                        nlohmann::ordered_json& change) {
  if (!seconds) return absl::OkStatus();
  if (!std::isfinite(*seconds))
    return absl::InvalidArgumentError(absl::StrCat(
        option, ": '", *seconds, "' is not a number of seconds; 0 takes what there is away"));
  change[field] = *seconds;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> QueueChangeOf(const RemoteArguments& arguments) {
  nlohmann::ordered_json change = nlohmann::ordered_json::object();
  if (arguments.priority) change["priority"] = *arguments.priority;
  MUSTER_RETURN_IF_ERROR(PutSeconds("deadline", "--deadline", arguments.deadline, change));
  MUSTER_RETURN_IF_ERROR(
      PutSeconds("time_to_live", "--time-to-live", arguments.time_to_live, change));
  if (arguments.retries) change["retries"] = *arguments.retries;
  for (const std::string& label : arguments.labels) {
    const size_t equals = label.find('=');
    if (equals == std::string::npos)
      return absl::InvalidArgumentError(
          absl::StrCat("--label: '", label, "' is not KEY=VALUE; --no-label takes one away"));
    change["labels"][label.substr(0, equals)] = label.substr(equals + 1);
  }
  for (const std::string& key : arguments.no_labels) change["labels"][key] = nullptr;
  if (change.empty())
    return absl::InvalidArgumentError(
        "say what is to change: --priority, --deadline, --time-to-live, --retries, --label or "
        "--no-label");
  return Text(change);
}

absl::StatusOr<int> SetQueue(const RemoteArguments& arguments, const RestClient& rest,
                             std::ostream& out) {
  MUSTER_ASSIGN_OR_RETURN(const std::string change, QueueChangeOf(arguments));
  MUSTER_ASSIGN_OR_RETURN(const JobAnswer job, rest.SetQueue(arguments.job, change));
  const std::string waits =
      job.waits_for.empty() ? "" : absl::StrCat("; it waits: ", job.waits_for);
  out << (arguments.json
              ? job.json
              : PrintableLines(absl::StrCat("job ", job.id, " is changed, and ", job.state, waits)))
      << std::endl;
  return kExitDone;
}

std::string NamespaceTable(const std::vector<NamespaceAnswer>& namespaces) {
  if (namespaces.empty()) return "No namespace has a job or a quota.\n";
  size_t width = 9;
  for (const NamespaceAnswer& one : namespaces) width = std::max(width, one.name.size());
  std::string text;
  const auto add = [&](const std::string& name, const std::string& slots,
                       const std::string& running, const std::string& queued,
                       const std::string& priority) {
    absl::StrAppendFormat(&text, "%-*s  %-13s  %-7s  %-13s  %s\n", static_cast<int>(width), name,
                          slots, running, queued, priority);
  };
  const auto of = [](int64_t held, int64_t most) {
    return most < 0 ? absl::StrCat(held) : absl::StrCat(held, "/", most);
  };
  add("namespace", "slots", "running", "queued", "priority");
  for (const NamespaceAnswer& one : namespaces)
    add(one.name, of(one.slots_held, one.slots), absl::StrCat(one.jobs_running),
        of(one.jobs_queued, one.queued), absl::StrCat(one.priority));
  return text;
}

absl::StatusOr<int> Quota(const RemoteArguments& arguments, const RestClient& rest,
                          std::ostream& out) {
  std::vector<NamespaceAnswer> shown;
  const std::string& name = arguments.name_space;
  const bool sets = arguments.quota_slots || arguments.quota_queued || arguments.priority;
  if (sets && name.empty())
    return absl::InvalidArgumentError("say which namespace, as in muster quota vision --slots 8");
  if (name.empty()) {
    MUSTER_ASSIGN_OR_RETURN(shown, rest.Namespaces());
  } else {
    MUSTER_ASSIGN_OR_RETURN(NamespaceAnswer one, rest.Namespace(name));
    // What is not named stays as it is.
    if (sets) {
      MUSTER_ASSIGN_OR_RETURN(one, rest.SetQuota(name, arguments.quota_slots.value_or(one.slots),
                                                 arguments.quota_queued.value_or(one.queued),
                                                 arguments.priority.value_or(one.priority)));
    }
    shown.push_back(std::move(one));
  }
  if (!arguments.json) out << PrintableLines(NamespaceTable(shown)) << std::flush;
  if (arguments.json)
    for (const NamespaceAnswer& one : shown) out << one.json << std::endl;
  return kExitDone;
}

}  // namespace muster::cli
