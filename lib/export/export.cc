#include "lib/export/export.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/bytes.h"
#include "lib/base/status.h"
#include "lib/checkpoint/tensor_reader.h"
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
  Source(TensorReader& reader, const std::vector<ExportItem>& items, const ExportOptions& options)
      : reader_(reader), options_(options) {
    for (const ExportItem& item : items) of_ += BytesOfItem(item);
  }

  using Take = std::function<absl::Status(absl::Span<const std::byte>)>;
  // Without what fills its last float.
  absl::Status Read(const ExportItem& item, const Take& take) {
    uint64_t left = BytesOfItem(item);
    return reader_.Read(*item.tensor, item.slot, [&](absl::Span<const float> run) -> absl::Status {
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
  uint64_t of_ = 0, done_ = 0;
};

std::string SlotName(const TrainingSpec& training, int32_t slot) {
  const std::vector<std::string> names = SlotNames(training.optimizer.kind);
  const auto index = static_cast<size_t>(slot - 1);
  return index < names.size() ? names[index] : absl::StrCat("slot_", slot);
}

absl::Status WriteSafetensors(const std::vector<ExportItem>& items, const Manifest& manifest,
                              const TrainingSpec& training, Source& source, Appender& to) {
  std::vector<SafetensorsEntry> entries;
  for (const ExportItem& item : items) {
    const TensorSpec& spec = item.tensor->spec;
    const std::string before =
        item.slot == 0 ? "" : absl::StrCat("optimizer.", SlotName(training, item.slot), ".");
    entries.push_back({before + spec.name, spec.type, spec.shape, BytesOfItem(item)});
  }
  MUSTER_RETURN_IF_ERROR(to.Append(
      BytesOf(SafetensorsHeader(entries, {{"format", "pt"},
                                          {"muster.job", manifest.job},
                                          {"muster.task", training.task},
                                          {"muster.step", absl::StrCat(manifest.step.value())}}))));
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

void PickleModel(const std::vector<ExportItem>& items, Pickle& pickle) {
  pickle.BeginDict();
  for (size_t i = 0; i < items.size(); ++i) {
    if (items[i].slot != 0) continue;
    pickle.Text(items[i].tensor->spec.name);
    PickleTensor(items[i], i, pickle);
  }
  pickle.EndDict();
}

bool IsAdam(OptimizerKind kind) {
  return kind == OptimizerKind::kAdam || kind == OptimizerKind::kAdamW;
}

// What load_state_dict of the optimizer of that kind takes in the place of its own.
void PickleGroup(const OptimizerSpec& spec, int64_t parameters, Pickle& pickle) {
  const auto real = [&](const char* name, double value) {
    pickle.Text(name);
    pickle.Real(value);
  };
  const auto boolean = [&](const char* name) {
    pickle.Text(name);
    pickle.Boolean(false);
  };
  pickle.BeginDict();
  real("lr", spec.learning_rate);
  real("weight_decay", spec.weight_decay);
  if (IsAdam(spec.kind)) {
    pickle.Text("betas");
    pickle.BeginTuple();
    pickle.Real(spec.beta1);
    pickle.Real(spec.beta2);
    pickle.EndTuple();
    real("eps", spec.epsilon);
    boolean("amsgrad");
    boolean("capturable");
    pickle.Text("decoupled_weight_decay");
    pickle.Boolean(spec.kind == OptimizerKind::kAdamW);
  } else {
    real("momentum", spec.kind == OptimizerKind::kMomentum ? spec.momentum : 0);
    real("dampening", 0);
    boolean("nesterov");
  }
  boolean("maximize");
  boolean("differentiable");
  for (const char* name : {"foreach", "fused"}) {
    pickle.Text(name);
    pickle.None();
  }
  pickle.Text("params");
  pickle.BeginList();
  for (int64_t p = 0; p < parameters; ++p) pickle.Integer(p);
  pickle.EndList();
  pickle.EndDict();
}

size_t ParametersIn(const std::vector<ExportItem>& items) {
  return static_cast<size_t>(std::count_if(items.begin(), items.end(), [](const ExportItem& item) {
    return item.slot == 0 && item.tensor->spec.kind == TensorKind::kParameter;
  }));
}

void PickleOptimizer(const std::vector<ExportItem>& items, int32_t slots,
                     const TrainingSpec& training, Pickle& pickle) {
  const size_t parameters = ParametersIn(items);
  const size_t values = items.size() - parameters * static_cast<size_t>(slots);
  pickle.BeginDict();
  pickle.Text("state");
  pickle.BeginDict();
  for (size_t p = 0; p < parameters && slots > 0; ++p) {
    pickle.Integer(static_cast<int64_t>(p));
    pickle.BeginDict();
    if (IsAdam(training.optimizer.kind)) {
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
  PickleGroup(training.optimizer, static_cast<int64_t>(parameters), pickle);
  pickle.EndList();
  pickle.EndDict();
}

absl::Status WritePt(const std::vector<ExportItem>& items, const Manifest& manifest,
                     const TrainingSpec& training, bool optimizer, Source& source, Appender& to) {
  Pickle pickle;
  if (optimizer) {
    pickle.BeginDict();
    pickle.Text("model");
    PickleModel(items, pickle);
    pickle.Text("optimizer");
    PickleOptimizer(items, manifest.slots, training, pickle);
    pickle.EndDict();
  } else {
    PickleModel(items, pickle);
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
  if (optimizer && IsAdam(training.optimizer.kind)) {
    const float step = static_cast<float>(manifest.step.value());
    for (size_t p = 0; p < ParametersIn(items); ++p) {
      MUSTER_RETURN_IF_ERROR(zip.Begin(name(items.size() + p), sizeof step));
      MUSTER_RETURN_IF_ERROR(zip.Append(BytesOf(absl::MakeConstSpan(&step, 1))));
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
  const std::vector<ExportItem> items =
      PlanExport(reader.layout(), options.optimizer ? manifest.slots : 0);
  Source source(reader, items, options);
  MUSTER_RETURN_IF_ERROR(options.format == ExportFormat::kSafetensors
                             ? WriteSafetensors(items, manifest, training, source, to)
                             : WritePt(items, manifest, training, options.optimizer, source, to));
  return Exported{items.size(), source.bytes()};
}

}  // namespace muster
