#include "lib/export/export.h"

#include <algorithm>
#include <bit>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/bytes.h"
#include "lib/base/printable.h"
#include "lib/base/status.h"
#include "lib/checkpoint/tensor_reader.h"
#include "lib/domain/moving_average.h"
#include "lib/export/export_plan.h"
#include "lib/export/pickle.h"
#include "lib/export/safetensors_header.h"
#include "lib/export/zip_writer.h"

namespace muster {
namespace {

uint64_t BytesOfItem(const ExportItem& item) {
  return static_cast<uint64_t>(item.tensor->spec.Bytes());
}

// Reads items and counts what it has read.
class Source {
 public:
  // `parameters`: the slot that is read in the place of their values.
  Source(TensorReader& reader, const std::vector<ExportItem>& items, const ExportOptions& options,
         int32_t parameters)
      : reader_(reader), options_(options), parameters_(parameters) {
    for (const ExportItem& item : items) of_ += BytesOfItem(item);
  }

  using Take = std::function<absl::Status(absl::Span<const std::byte>)>;
  // Without what fills its last float.
  absl::Status Read(const ExportItem& item, const Take& take) {
    uint64_t left = BytesOfItem(item);
    const bool is_parameter = item.tensor->spec.kind == TensorKind::kParameter;
    const int32_t slot = item.slot == kValuesSlot && is_parameter ? parameters_ : item.slot;
    return reader_.Read(*item.tensor, slot, [&](absl::Span<const float> run) -> absl::Status {
      const absl::Span<const std::byte> bytes = BytesOf(run).subspan(0, left);
      left -= bytes.size();
      MUSTER_RETURN_IF_ERROR(take(bytes));
      options_.progress(done_ += bytes.size(), of_);
      return absl::OkStatus();
    });
  }
  uint64_t bytes() const { return of_; }

 private:
  TensorReader& reader_;
  const ExportOptions& options_;
  const int32_t parameters_;
  uint64_t of_ = 0, done_ = 0;
};

std::string SlotName(const TrainingSpec& training, int32_t slot) {
  const std::vector<std::string> names = SlotNames(training.optimizer.kind);
  const auto index = static_cast<size_t>(slot - 1);
  return index < names.size() ? names[index] : absl::StrCat("slot_", slot);
}

// The moving average of parameters is the slot behind those of the optimizer.
int32_t AverageSlot(const TrainingSpec& training) {
  return training.ema_decay > 0 ? SlotCount(training) : 0;
}

std::string Before(const TrainingSpec& training, int32_t slot) {
  if (slot == 0) return "";
  if (slot == AverageSlot(training)) return "ema.";
  return absl::StrCat("optimizer.", SlotName(training, slot), ".");
}

// Entries of a safetensors file have one name each, and so does what it says of itself.
absl::Status CheckNames(const std::vector<SafetensorsEntry>& entries) {
  std::set<std::string> names = {"__metadata__"};
  for (const SafetensorsEntry& entry : entries)
    if (!names.insert(entry.name).second)
      return absl::FailedPreconditionError(
          absl::StrCat("a file of safetensors would have two entries '", Cut(Printable(entry.name)),
                       "'; write it with --format pt, which keeps the ",
                       "model, its optimizer and the moving average apart"));
  return absl::OkStatus();
}

absl::Status WriteSafetensors(const std::vector<ExportItem>& items, const Manifest& manifest,
                              const TrainingSpec& training, const ExportOptions& options,
                              Source& source, Appender& to) {
  std::vector<SafetensorsEntry> entries;
  for (const ExportItem& item : items) {
    const TensorSpec& spec = item.tensor->spec;
    entries.push_back(
        {Before(training, item.slot) + item.name, spec.type, spec.shape, BytesOfItem(item)});
  }
  MUSTER_RETURN_IF_ERROR(CheckNames(entries));
  std::vector<std::pair<std::string, std::string>> about = {
      {"format", "pt"},
      {"muster.job", manifest.job},
      {"muster.task", training.task},
      {"muster.step", absl::StrCat(manifest.step.value())}};
  if (options.average) about.emplace_back("muster.parameters", "average");
  MUSTER_RETURN_IF_ERROR(to.Append(BytesOf(SafetensorsHeader(entries, about))));
  for (const ExportItem& item : items)
    MUSTER_RETURN_IF_ERROR(
        source.Read(item, [&](absl::Span<const std::byte> bytes) { return to.Append(bytes); }));
  return absl::OkStatus();
}

// The records data/0, data/1 … are the items, and then a step count for each parameter.
std::string KeyOf(size_t record) { return absl::StrCat(record); }

void PickleTensor(const ExportItem& item, size_t record, Pickle& pickle) {
  pickle.Tensor(KeyOf(record), item.tensor->spec.type, item.tensor->spec.shape);
}

// The values (slot 0), or all of another slot, by all names of their tensors: one record has them.
void PickleTensors(const std::vector<ExportItem>& items, int32_t slot, Pickle& pickle) {
  pickle.BeginDict();
  for (size_t i = 0; i < items.size(); ++i) {
    if (items[i].slot != slot) continue;
    for (const std::string& name : items[i].tensor->spec.Names()) {
      pickle.Text(name);
      PickleTensor(items[i], i, pickle);
    }
  }
  pickle.EndDict();
}

bool CountsSteps(OptimizerKind kind) {
  return kind != OptimizerKind::kSgd && kind != OptimizerKind::kMomentum &&
         kind != OptimizerKind::kLars;
}

void PickleNumbers(const std::vector<std::pair<const char*, double>>& numbers, Pickle& pickle) {
  for (const auto& [name, value] : numbers) {
    pickle.Text(name);
    pickle.Real(value);
  }
}

void PickleSwitches(const std::vector<std::pair<const char*, bool>>& switches, Pickle& pickle) {
  for (const auto& [name, value] : switches) {
    pickle.Text(name);
    pickle.Boolean(value);
  }
}

void PickleBetas(const OptimizerSpec& spec, Pickle& pickle) {
  pickle.Text("betas");
  pickle.BeginTuple();
  pickle.Real(spec.beta1);
  pickle.Real(spec.beta2);
  pickle.EndTuple();
}

// torch.optim has neither of the two; these are the names that timm has. There a group adapts if it
// has a weight decay, or always; and LAMB counts the steps of a group.
void PickleLamb(const OptimizerSpec& spec, int64_t step, Pickle& pickle) {
  PickleBetas(spec, pickle);
  pickle.Text("step");
  pickle.Integer(step);
  PickleNumbers({{"eps", spec.epsilon}}, pickle);
  PickleSwitches({{"bias_correction", true},
                  {"grad_averaging", true},
                  {"trust_clip", false},
                  {"always_adapt", spec.weight_decay_on == DecayOn::kAll}},
                 pickle);
  pickle.Text("max_grad_norm");
  pickle.None();
}

void PickleLars(const OptimizerSpec& spec, Pickle& pickle) {
  PickleNumbers({{"momentum", spec.momentum},
                 {"dampening", 0},
                 {"trust_coeff", spec.trust},
                 {"eps", spec.epsilon}},
                pickle);
  PickleSwitches({{"nesterov", false},
                  {"trust_clip", false},
                  {"always_adapt", spec.weight_decay_on == DecayOn::kAll}},
                 pickle);
}

void PickleOptions(const OptimizerSpec& spec, int64_t step, Pickle& pickle) {
  switch (spec.kind) {
    case OptimizerKind::kAdam:
    case OptimizerKind::kAdamW:
      PickleBetas(spec, pickle);
      PickleNumbers({{"eps", spec.epsilon}}, pickle);
      return PickleSwitches({{"amsgrad", false},
                             {"capturable", false},
                             {"decoupled_weight_decay", spec.kind == OptimizerKind::kAdamW}},
                            pickle);
    case OptimizerKind::kLamb: return PickleLamb(spec, step, pickle);
    case OptimizerKind::kLars: return PickleLars(spec, pickle);
    case OptimizerKind::kRmsprop:
      PickleNumbers({{"alpha", spec.alpha}, {"eps", spec.epsilon}, {"momentum", 0}}, pickle);
      return PickleSwitches({{"centered", false}, {"capturable", false}}, pickle);
    case OptimizerKind::kAdagrad:
      return PickleNumbers(
          {{"eps", spec.epsilon}, {"lr_decay", 0}, {"initial_accumulator_value", 0}}, pickle);
    case OptimizerKind::kSgd:
      PickleNumbers({{"momentum", 0}, {"dampening", 0}}, pickle);
      return PickleSwitches({{"nesterov", false}}, pickle);
    case OptimizerKind::kMomentum:
      PickleNumbers({{"momentum", spec.momentum}, {"dampening", 0}}, pickle);
      return PickleSwitches({{"nesterov", spec.nesterov}}, pickle);
  }
}

// What load_state_dict of the optimizer of that kind takes in the place of its own. What is frozen
// stays as it is there, too.
void PickleGroup(const OptimizerSpec& spec, const ExportedGroup& group, int64_t step,
                 Pickle& pickle) {
  const UpdateRule& rule = group.rule;
  pickle.BeginDict();
  PickleNumbers({{"lr", rule.frozen ? 0 : spec.learning_rate * rule.learning_rate_factor},
                 {"weight_decay", rule.frozen ? 0 : rule.weight_decay}},
                pickle);
  PickleOptions(spec, step, pickle);
  PickleSwitches({{"maximize", false}, {"differentiable", false}}, pickle);
  for (const char* name : {"foreach", "fused"}) {
    pickle.Text(name);
    pickle.None();
  }
  pickle.Text("params");
  pickle.BeginList();
  for (const int64_t p : group.parameters) pickle.Integer(p);
  pickle.EndList();
  pickle.EndDict();
}

size_t ParametersIn(const std::vector<ExportItem>& items) {
  return static_cast<size_t>(std::count_if(items.begin(), items.end(), [](const ExportItem& item) {
    return item.slot == 0 && item.tensor->spec.kind == TensorKind::kParameter;
  }));
}

void PickleOptimizer(const std::vector<ExportItem>& items, const TrainingSpec& training,
                     const std::vector<ExportedGroup>& groups, int64_t step, Pickle& pickle) {
  const int32_t slots = SlotCount(training.optimizer.kind);
  const size_t parameters = ParametersIn(items);
  const size_t values = items.size() - parameters * static_cast<size_t>(SlotCount(training));
  pickle.BeginDict();
  pickle.Text("state");
  pickle.BeginDict();
  for (size_t p = 0; p < parameters && slots > 0; ++p) {
    pickle.Integer(static_cast<int64_t>(p));
    pickle.BeginDict();
    if (CountsSteps(training.optimizer.kind)) {
      pickle.Text("step");
      pickle.Tensor(KeyOf(items.size() + p), TensorType::kFloat32, {});
    }
    for (int32_t slot = 1; slot <= slots; ++slot) {
      const size_t item = values + static_cast<size_t>(slot - 1) * parameters + p;
      pickle.Text(SlotName(training, slot));
      PickleTensor(items[item], item, pickle);
    }
    pickle.EndDict();
  }
  pickle.EndDict();
  pickle.Text("param_groups");
  pickle.BeginList();
  for (const ExportedGroup& group : groups) PickleGroup(training.optimizer, group, step, pickle);
  pickle.EndList();
  pickle.EndDict();
}

absl::Status WritePt(const std::vector<ExportItem>& items, const Manifest& manifest,
                     const TrainingSpec& training, const std::vector<ExportedGroup>& groups,
                     Source& source, Appender& to) {
  const bool optimizer = !groups.empty();
  // Of a fork also those that its slots have seen before, as the updates count them.
  const int64_t step = UpdatesBefore(training.initial) + manifest.step.value();
  Pickle pickle;
  if (optimizer) {
    pickle.BeginDict();
    pickle.Text("model");
    PickleTensors(items, 0, pickle);
    pickle.Text("optimizer");
    PickleOptimizer(items, training, groups, step, pickle);
    if (const int32_t average = AverageSlot(training); average > 0) {
      pickle.Text("ema");
      PickleTensors(items, average, pickle);
    }
    pickle.EndDict();
  } else {
    PickleTensors(items, 0, pickle);
  }
  ZipWriter zip(to);
  MUSTER_RETURN_IF_ERROR(zip.Add("archive/data.pkl", pickle.Finish()));
  MUSTER_RETURN_IF_ERROR(zip.Add("archive/byteorder", "little"));
  const auto name = [](size_t record) { return absl::StrCat("archive/data/", KeyOf(record)); };
  for (size_t i = 0; i < items.size(); ++i) {
    MUSTER_RETURN_IF_ERROR(zip.Begin(name(i), BytesOfItem(items[i])));
    MUSTER_RETURN_IF_ERROR(source.Read(
        items[i], [&](absl::Span<const std::byte> bytes) { return zip.Append(bytes); }));
  }
  if (optimizer && CountsSteps(training.optimizer.kind)) {
    const auto number = static_cast<float>(step);
    for (size_t p = 0; p < ParametersIn(items); ++p) {
      MUSTER_RETURN_IF_ERROR(zip.Begin(name(items.size() + p), sizeof number));
      MUSTER_RETURN_IF_ERROR(zip.Append(BytesOf(absl::MakeConstSpan(&number, 1))));
    }
  }
  MUSTER_RETURN_IF_ERROR(zip.Add("archive/version", "3\n"));
  return zip.Finish();
}

}  // namespace

std::optional<ExportFormat> ExportFormatOf(absl::string_view name) {
  if (name == "safetensors") return ExportFormat::kSafetensors;
  if (name == "pt") return ExportFormat::kPt;
  return std::nullopt;
}

absl::StatusOr<Exported> Export(const CheckpointFiles& files, const Manifest& manifest,
                                const TrainingSpec& training, const ExportOptions& options,
                                Appender& to) {
  MUSTER_ASSIGN_OR_RETURN(TensorReader reader, TensorReader::Open(files, manifest));
  std::vector<ExportItem> items =
      PlanExport(reader.layout(), options.optimizer ? manifest.slots : 0);
  // Its entries cannot share bytes.
  if (options.format == ExportFormat::kSafetensors)
    items = UnderEachName(items, AverageSlot(training));
  int32_t parameters = kValuesSlot;
  if (options.average) {
    MUSTER_ASSIGN_OR_RETURN(parameters, AverageSlotOf(training, manifest));
  }
  Source source(reader, items, options, parameters);
  std::vector<ExportedGroup> groups;  // a model has parameters, and so at least one
  if (options.optimizer) {
    if (manifest.slots != SlotCount(training))
      return absl::DataLossError(absl::StrCat("the checkpoint has ", manifest.slots,
                                              " slots, and its optimizer ", SlotCount(training)));
    MUSTER_ASSIGN_OR_RETURN(groups, GroupsOf(training, reader.layout()));
  }
  MUSTER_RETURN_IF_ERROR(options.format == ExportFormat::kSafetensors
                             ? WriteSafetensors(items, manifest, training, options, source, to)
                             : WritePt(items, manifest, training, groups, source, to));
  return Exported{items.size(), source.bytes()};
}

}  // namespace muster
