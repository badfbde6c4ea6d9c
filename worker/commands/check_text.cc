#include "worker/commands/check_text.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "lib/base/amount_text.h"
#include "lib/base/plural.h"
#include "lib/base/printable.h"
#include "lib/domain/tensor_text.h"
#include "lib/domain/tensor_type.h"
#include "lib/wire/job_document.h"
#include "lib/wire/json_text.h"
#include "nlohmann/json.hpp"
#include "worker/runtime/check_syncs.h"

namespace muster::worker {
namespace {

using nlohmann::ordered_json;

constexpr size_t kShownHash = 16;

std::string Size(int64_t bytes) { return Bytes(static_cast<double>(bytes)); }

std::string ShapeOf(const TensorSpec& tensor) {
  return tensor.shape.empty() ? "scalar" : absl::StrJoin(tensor.shape, "×");
}

int64_t BytesOfAll(const CheckReport& report) {
  int64_t bytes = 0;
  for (const TensorSpec& tensor : report.tensors) bytes += tensor.Bytes();
  return bytes;
}

int64_t LanesOfWorker(const JobSpec& spec) {
  const int64_t workers = spec.runtime.workers_max;
  return (spec.training.lanes + workers - 1) / workers;
}

std::string Line(const std::string& name, const std::string& text) {
  return absl::StrFormat("%-12s %s\n", name, text);
}

std::string LaneLine(const CheckedLane& lane) {
  return absl::StrFormat("%s, loss %.6g, gradient's norm %.6g, %.3f s (of these input %.3f s), %s",
                         Plural(lane.samples, "sample"), lane.loss, lane.gradient_norm,
                         lane.seconds, lane.input_seconds,
                         lane.is_repeatable ? "the same bits again" : "OTHER BITS AGAIN");
}

std::string MemoryLine(const CheckedMemory& m, bool phases) {
  std::string text = absl::StrCat("a worker needs about ", Size(m.worker()), ": program ",
                                  Size(m.program), ", state ", Size(m.state));
  const auto add = [&](const char* what, int64_t bytes) {
    if (bytes > 0) absl::StrAppend(&text, ", ", what, " ", Size(bytes));
  };
  add("optimizer", m.slots);
  add("sums of gradients", m.sums);
  add("copies for checkpoints", m.copies);
  add(phases ? "lanes" : "a lane", m.lane);
  if (m.server > 0)
    absl::StrAppend(&text, "; a server, beside its program, about ", Size(m.server));
  if (m.follower > 0) absl::StrAppend(&text, "; the follower about ", Size(m.follower));
  return text;
}

// Where the values come from that it begins with; empty: the job names no file.
std::string OriginOf(const CheckReport& report, size_t tensor) {
  if (!report.initial) return "";
  return report.initial->loaded[tensor] ? "  from the file" : "  the task's own values";
}

std::string TensorTable(const CheckReport& report) {
  const std::vector<TensorSpec>& tensors = report.tensors;
  size_t name = 6, shape = 5;
  for (const TensorSpec& tensor : tensors) {
    name = std::max(name, Printable(tensor.name).size());
    shape = std::max(shape, ShapeOf(tensor).size());
  }
  std::string table;
  for (size_t t = 0; t < tensors.size(); ++t) {
    const TensorSpec& tensor = tensors[t];
    absl::StrAppend(
        &table, absl::StrFormat("  %-*s  %-*s  %-8s  %-9s  %s%s\n", name, Printable(tensor.name),
                                shape, ShapeOf(tensor), NameOf(tensor.type), KindOf(tensor),
                                Size(tensor.Bytes()), OriginOf(report, t)));
    for (const std::string& alias : PrintableAliases(tensor))
      absl::StrAppend(&table, "    also ", alias, "\n");
  }
  return table;
}

std::string GradientTable(const std::vector<CheckedGradient>& gradients) {
  std::string table =
      absl::StrFormat("  %-14s %-14s %-12s %s\n", "computed", "difference", "uncertainty", "entry");
  for (const CheckedGradient& g : gradients)
    absl::StrAppend(
        &table, absl::StrFormat("  %-14.6g %-14.6g %-12.2g %s[%d]%s\n", g.computed, g.difference,
                                g.uncertainty, Printable(g.tensor), g.element,
                                g.agrees    ? ""
                                : g.is_told ? "  DIFFERS"
                                            : "  cannot be told"));
  return table;
}

std::string InitialLine(const CheckedInitial& initial) {
  const auto loaded = std::count(initial.loaded.begin(), initial.loaded.end(), true);
  return absl::StrCat(Plural(loaded, "tensor"), loaded == 1 ? " begins" : " begin", " as ",
                      initial.file, " has ", loaded == 1 ? "it" : "them", ", content ",
                      initial.hash.substr(0, kShownHash),
                      initial.left_out.empty() ? "" : absl::StrCat("; ", initial.left_out));
}

std::string SamplesOf(const CheckReport& report) {
  if (report.sample_bytes > 0)
    return absl::StrCat("a stream of samples of ", report.sample_bytes, " bytes");
  return absl::StrCat(
      Plural(static_cast<int64_t>(report.samples), "sample"),
      report.bytes ? absl::StrCat(" of ", Size(static_cast<int64_t>(*report.bytes))) : "");
}

std::string StepsOf(const CheckReport& report) {
  if (report.sample_bytes > 0)
    return report.steps > 0 ? absl::StrCat(report.steps, " at most") : "to the end of the stream";
  return absl::StrCat(report.steps, " in all, ", report.steps_per_epoch, " an epoch");
}

// JSON has no infinity and no NaN.
ordered_json Number(double value) {
  return std::isfinite(value) ? ordered_json(value) : ordered_json(nullptr);
}

}  // namespace

std::string CheckAsText(const CheckReport& report) {
  const TrainingSpec& training = report.spec.training;
  std::string text =
      Line("task", absl::StrCat(training.task, report.plugin.empty() ? ", part of Muster"
                                                                     : ", of " + report.plugin));
  text += Line("model", absl::StrCat(Plural(static_cast<int64_t>(report.tensors.size()), "tensor"),
                                     ", ", Plural(report.parameters, "parameter"), ", ",
                                     Size(BytesOfAll(report))));
  text += TensorTable(report);
  if (report.initial) text += Line("initial", Printable(InitialLine(*report.initial)));
  text += Line("data", absl::StrCat(SamplesOf(report), ", content ",
                                    report.data_hash.substr(0, kShownHash)));
  if (!report.left_out.empty())
    text += Line("", absl::StrCat("left out: ", Printable(report.left_out)));
  if (report.validation) {
    const CheckedValidation& validation = *report.validation;
    std::vector<std::string> values;
    for (const MetricValue& of : validation.values)
      values.push_back(absl::StrCat(of.metric, " ",
                                    of.value ? absl::StrFormat("%.4g", *of.value) : "not finite"));
    text +=
        Line("validation", absl::StrCat(Plural(static_cast<int64_t>(validation.samples), "sample"),
                                        ", content ", validation.data_hash.substr(0, kShownHash),
                                        "; the first weights have ", absl::StrJoin(values, ", ")));
    if (!validation.left_out.empty())
      text += Line("", absl::StrCat("left out: ", Printable(validation.left_out)));
  }
  text += Line("steps", absl::StrCat(StepsOf(report), ", each of ", training.batch, " samples in ",
                                     Plural(training.lanes, "lane"), "; a worker computes ",
                                     LanesOfWorker(report.spec), " at most"));
  if (!report.phases.empty())
    text += Line("phases", absl::StrCat(report.phases.size(),
                                        " in which all lanes of a step wait "
                                        "for each other; a worker holds up to ",
                                        MostLanesHeld(report.spec), " of them at once"));
  text += Line("first lane", LaneLine(report.lane));
  if (report.follower)
    text += Line("follower", absl::StrFormat("measures a state in about %.3g s, as long as %.2g "
                                             "steps; takes effect after %d",
                                             report.follower->seconds, report.follower->steps,
                                             training.validation.delay));
  text += Line("memory", MemoryLine(report.memory, !report.phases.empty()));
  if (!report.gradients.empty())
    text += (report.phases.empty() ? "gradient\n" : "gradient of the first two lanes\n") +
            GradientTable(report.gradients);
  for (const std::string& note : report.notes) text += Line("note", note);
  for (const std::string& problem : report.problems) text += Line("problem", problem);
  if (report.problems.empty()) text += "The job is fit to run.\n";
  return text;
}

std::string CheckAsJson(const CheckReport& report) {
  ordered_json json;
  json["task"] = report.spec.training.task;
  if (!report.plugin.empty()) json["plugin"] = report.plugin;
  json["spec"] = ShownDocument(report.spec, report.declared);
  for (const TensorSpec& tensor : report.tensors)
    json["tensors"].push_back({{"name", Printable(tensor.name)},
                               {"shape", tensor.shape},
                               {"type", NameOf(tensor.type)},
                               {"kind", KindOf(tensor)},
                               {"bytes", tensor.Bytes()},
                               {"aliases", PrintableAliases(tensor)}});
  if (report.initial) {
    json["initial"] = {{"file", report.initial->file}, {"hash", report.initial->hash}};
    for (size_t t = 0; t < report.tensors.size(); ++t)
      json["tensors"][t]["loaded"] = static_cast<bool>(report.initial->loaded[t]);
    json["initial"]["unused"] = ordered_json::array();
    for (const std::string& name : report.initial->unused)
      json["initial"]["unused"].push_back(Printable(name));
  }
  json["parameters"] = report.parameters;
  // How many will come nobody knows.
  if (report.sample_bytes > 0)
    json["sample_bytes"] = report.sample_bytes;
  else
    json["samples"] = report.samples;
  if (report.bytes) json["data_bytes"] = *report.bytes;
  json["data_hash"] = report.data_hash;
  if (!report.left_out.empty()) json["data_left_out"] = report.left_out;
  if (report.validation) {
    ordered_json& validation = json["validation"];
    validation = {{"samples", report.validation->samples},
                  {"data_hash", report.validation->data_hash}};
    if (!report.validation->left_out.empty())
      validation["data_left_out"] = report.validation->left_out;
    for (const MetricValue& of : report.validation->values)
      validation["metrics"][of.metric] = of.value ? Number(*of.value) : ordered_json(nullptr);
  }
  if (report.sample_bytes == 0) json["steps_per_epoch"] = report.steps_per_epoch;
  if (report.steps > 0) json["steps"] = report.steps;
  if (!report.phases.empty()) {
    json["phases"] = report.phases.size();
    json["lanes_held"] = MostLanesHeld(report.spec);
  }
  const CheckedLane& lane = report.lane;
  json["lane"] = {{"samples", lane.samples},         {"weight", lane.weight},
                  {"loss", Number(lane.loss)},       {"gradient_norm", Number(lane.gradient_norm)},
                  {"seconds", lane.seconds},         {"input_seconds", lane.input_seconds},
                  {"repeatable", lane.is_repeatable}};
  const CheckedMemory& m = report.memory;
  json["memory"] = {{"worker", m.worker()}, {"program", m.program}, {"state", m.state},
                    {"slots", m.slots},     {"sums", m.sums},       {"copies", m.copies},
                    {"lane", m.lane}};
  if (m.server > 0) json["memory"]["server"] = m.server;
  if (m.follower > 0) json["memory"]["follower"] = m.follower;
  if (report.follower)
    json["follower"] = {{"seconds", report.follower->seconds}, {"steps", report.follower->steps}};
  for (const CheckedGradient& g : report.gradients)
    json["gradients"].push_back({{"tensor", Printable(g.tensor)},
                                 {"element", g.element},
                                 {"computed", Number(g.computed)},
                                 {"difference", Number(g.difference)},
                                 {"uncertainty", Number(g.uncertainty)},
                                 {"agrees", g.agrees},
                                 {"told", g.is_told}});
  json["notes"] = report.notes;
  json["problems"] = report.problems;
  return TextOfJson(json) + "\n";
}

}  // namespace muster::worker
