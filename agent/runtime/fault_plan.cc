#include "agent/runtime/fault_plan.h"

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "lib/base/failpoint.h"
#include "lib/base/status.h"
#include "lib/config/document.h"
#include "lib/domain/view.h"

namespace muster::agent {
namespace {

constexpr double kLongestSeconds = 1e6;

bool IsTarget(absl::string_view name, const ProcessCounts& processes) {
  if (name == kRandomWorker || name == kCoordinatorKey.name) return true;
  if (name == kFollowerName) return processes.has_follower;
  if (name == kReaderName) return processes.has_reader;
  const bool is_worker = absl::ConsumePrefix(&name, "worker-");
  if (!is_worker && !absl::ConsumePrefix(&name, "server-")) return false;
  int number = 0;
  return absl::SimpleAtoi(name, &number) && absl::StrCat(number) == name && number >= 0 &&
         number < (is_worker ? processes.workers : processes.servers);
}

// "worker-0 to worker-2"; nothing for none.
std::vector<std::string> Range(absl::string_view role, int count) {
  if (count == 0) return {};
  if (count == 1) return {absl::StrCat(role, "-0")};
  return {absl::StrCat(role, "-0 to ", role, "-", count - 1)};
}

std::string Targets(const ProcessCounts& processes) {
  std::vector<std::string> all = Range("worker", processes.workers);
  for (std::string& servers : Range("server", processes.servers)) all.push_back(std::move(servers));
  if (processes.has_follower) all.emplace_back(kFollowerName);
  if (processes.has_reader) all.emplace_back(kReaderName);
  all.insert(all.end(), {kCoordinatorKey.name, kRandomWorker});
  return absl::StrJoin(all, ", ");
}

absl::StatusOr<std::string> ReadTarget(const Document& document, const std::string& field,
                                       const nlohmann::json& value,
                                       const ProcessCounts& processes) {
  MUSTER_ASSIGN_OR_RETURN(std::string target, ReadText(document, field, value));
  if (IsTarget(target, processes)) return target;
  return ErrorAt(document, field,
                 absl::StrCat(muster::Describe(value),
                              " is not a process of this job; it has: ", Targets(processes)));
}

absl::StatusOr<Duration> ReadSeconds(const Document& document, const std::string& field,
                                     const nlohmann::json& value) {
  MUSTER_ASSIGN_OR_RETURN(const double seconds,
                          ReadNumber(document, field, value, {.min = 0, .max = kLongestSeconds}));
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

absl::StatusOr<int64_t> ReadSteps(const Document& document, const std::string& field,
                                  const nlohmann::json& value, int64_t min) {
  MUSTER_ASSIGN_OR_RETURN(const absl::int128 steps, ReadWhole(document, field, value, min,
                                                              std::numeric_limits<int64_t>::max()));
  return static_cast<int64_t>(steps);
}

absl::StatusOr<std::string> ReadPoint(const Document& document, const std::string& field,
                                      const nlohmann::json& value) {
  MUSTER_ASSIGN_OR_RETURN(std::string point, ReadText(document, field, value));
  const absl::Status known = Failpoints([](absl::string_view) {}).Arm(point);
  if (!known.ok())
    return ErrorAt(document, field, absl::StripPrefix(known.message(), "--fail-at: "));
  return point;
}

absl::Status ReadField(const Document& document, const std::string& field, const std::string& key,
                       const nlohmann::json& value, const ProcessCounts& processes, Fault& fault) {
  if (key == "kill" || key == "pause") {
    fault.kind = key == "kill" ? Fault::Kind::kKill : Fault::Kind::kPause;
    MUSTER_ASSIGN_OR_RETURN(fault.target, ReadTarget(document, field, value, processes));
  } else if (key == "job") {
    MUSTER_ASSIGN_OR_RETURN(fault.job, ReadText(document, field, value));
  } else if (key == "at_step") {
    MUSTER_ASSIGN_OR_RETURN(fault.at_step, ReadSteps(document, field, value, 0));
  } else if (key == "at_second") {
    MUSTER_ASSIGN_OR_RETURN(fault.at_time, ReadSeconds(document, field, value));
  } else if (key == "at_point") {
    MUSTER_ASSIGN_OR_RETURN(fault.at_point, ReadPoint(document, field, value));
  } else if (key == "for_steps") {
    MUSTER_ASSIGN_OR_RETURN(fault.for_steps, ReadSteps(document, field, value, 1));
  } else if (key == "for_seconds") {
    MUSTER_ASSIGN_OR_RETURN(fault.for_time, ReadSeconds(document, field, value));
  }
  return absl::OkStatus();
}

absl::Status CheckWhole(const Document& document, const std::string& field,
                        const nlohmann::json& value, const Fault& fault) {
  if (value.contains("kill") == value.contains("pause"))
    return ErrorAt(document, field, "give exactly one of kill and pause");
  if (fault.at_step.has_value() + fault.at_time.has_value() + fault.at_point.has_value() != 1)
    return ErrorAt(document, field, "give exactly one of at_step, at_second and at_point");
  const bool only_kills = fault.kind == Fault::Kind::kKill && !fault.for_steps && !fault.for_time;
  if (fault.at_point && (!only_kills || fault.target == kRandomWorker))
    return ErrorAt(document, field,
                   "at_point goes with kill and the name of a process, and with nothing else");
  if (fault.for_steps && fault.for_time)
    return ErrorAt(document, field, "give for_steps or for_seconds, not both");
  if (fault.kind == Fault::Kind::kPause && !fault.for_steps && !fault.for_time)
    return ErrorAt(document, field, "a pause needs for_steps or for_seconds");
  return absl::OkStatus();
}

absl::StatusOr<Fault> ReadFault(const Document& document, const std::string& field,
                                const nlohmann::json& value, const ProcessCounts& processes) {
  MUSTER_RETURN_IF_ERROR(CheckKeys(
      document, field, value,
      {"job", "at_step", "at_second", "at_point", "kill", "pause", "for_steps", "for_seconds"}));
  Fault fault;
  for (const auto& [key, part] : value.items())
    MUSTER_RETURN_IF_ERROR(ReadField(document, FieldPath(field, key), key, part, processes, fault));
  MUSTER_RETURN_IF_ERROR(CheckWhole(document, field, value, fault));
  return fault;
}

}  // namespace

absl::StatusOr<FaultPlan> ParseFaultPlan(absl::string_view yaml, absl::string_view source,
                                         const ProcessCounts& processes) {
  MUSTER_ASSIGN_OR_RETURN(const Document document, ParseYamlDocument(yaml, source));
  FaultPlan plan;
  const nlohmann::json* list = &document.root;
  std::string field;
  if (!list->is_array()) {
    MUSTER_RETURN_IF_ERROR(CheckKeys(document, "", document.root, {"seed", "faults"}));
    if (document.root.contains("seed")) {
      MUSTER_ASSIGN_OR_RETURN(const absl::int128 seed,
                              ReadWhole(document, "seed", document.root["seed"], 0,
                                        std::numeric_limits<uint64_t>::max()));
      plan.seed = static_cast<uint64_t>(seed);
    }
    if (!document.root.contains("faults") || !document.root["faults"].is_array())
      return ErrorAt(document, "faults",
                     "a list of faults is needed, such as [{at_step: 40, kill: worker-1}]");
    list = &document.root["faults"];
    field = "faults";
  }
  for (size_t i = 0; i < list->size(); ++i) {
    MUSTER_ASSIGN_OR_RETURN(Fault fault,
                            ReadFault(document, FieldPath(field, i), (*list)[i], processes));
    plan.faults.push_back(std::move(fault));
  }
  return plan;
}

}  // namespace muster::agent
