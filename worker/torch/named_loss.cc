#include "muster/torch/named_loss.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/binary_cross_entropy_with_logits.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/huber_loss.h>
#include <ATen/ops/l1_loss.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/nll_loss_nd.h>
#include <ATen/ops/smooth_l1_loss.h>

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "worker/torch/flat_module.h"
#include "worker/torch/row_of_batch.h"

namespace muster::torch {
namespace {

constexpr int64_t kLeftOut = -100;
constexpr auto kSum = at::Reduction::Sum;

[[noreturn]] void Refuse(const std::string& why) {
  throw TaskError(absl::FailedPreconditionError(why));
}

std::string Shape(absl::Span<const int64_t> sizes) {
  return sizes.empty() ? "one number" : absl::StrJoin(sizes, " × ");
}

std::vector<int64_t> WithoutOnes(absl::Span<const int64_t> sizes) {
  std::vector<int64_t> others;
  for (const int64_t size : sizes)
    if (size != 1) others.push_back(size);
  return others;
}

absl::Span<const int64_t> SampleOf(const at::Tensor& batch) {
  return absl::MakeConstSpan(batch.sizes().data(), batch.sizes().size()).subspan(1);
}

double Count(const at::Tensor& which) { return which.sum().item<double>(); }

// By data.label; other formats have a label or not.
bool LabelIsNamed(DataFormat format) {
  switch (format) {
    case DataFormat::kCsv:
    case DataFormat::kNumpy:
    case DataFormat::kSafetensors:
    case DataFormat::kPt:
    case DataFormat::kHdf5:
    case DataFormat::kStream: return true;
    case DataFormat::kText:
    case DataFormat::kIdx:
    case DataFormat::kCifar10:
    case DataFormat::kCifar100:
    case DataFormat::kImages:
    case DataFormat::kWebDataset: return false;
  }
  return false;
}

// By ScoreBin. A score that is no number makes all of it none.
std::vector<double> CountScores(const at::Tensor& scores, const at::Tensor& is_positive) {
  const at::Tensor logits = scores.detach().to(at::kCPU, at::kDouble).flatten();
  if (logits.isnan().any().item<bool>()) return std::vector<double>(2 * kScoreBins, std::nan(""));
  const at::Tensor positive = is_positive.to(at::kCPU, at::kBool).flatten();
  std::vector<double> counts(2 * kScoreBins);
  const auto score = logits.accessor<double, 1>();
  const auto in_positive = positive.accessor<bool, 1>();
  for (int64_t i = 0; i < logits.numel(); ++i)
    ++counts[ScoreBin(score[i]) + (in_positive[i] ? kScoreBins : 0)];
  return counts;
}

}  // namespace

// What is compared, of one type and with shapes that the loss takes.
struct NamedLoss::Pair {
  at::Tensor output;
  at::Tensor labels;
};

struct NamedLoss::Kind {
  const char* name;
  bool has_classes;  // labels are numbers of classes
  bool smooths;      // takes label_smoothing
  at::Tensor (*sum)(const Pair& pair, double label_smoothing, double beta);

  static const Kind* Find(const std::string& name);
  // Of samples' shapes; empty: they fit.
  std::string WhyNotFit(absl::Span<const int64_t> output, absl::Span<const int64_t> label) const;
};

const NamedLoss::Kind* NamedLoss::Kind::Find(const std::string& name) {
  static constexpr Kind kKinds[] = {
      {"cross_entropy", true, true,
       [](const Pair& p, double smoothing, double) {
         return at::cross_entropy_loss(p.output, p.labels, {}, kSum, kLeftOut, smoothing);
       }},
      {"nll", true, false,
       [](const Pair& p, double, double) {
         return at::nll_loss_nd(p.output, p.labels, {}, kSum, kLeftOut);
       }},
      {"bce_with_logits", false, true,
       [](const Pair& p, double smoothing, double) {
         const at::Tensor smooth = p.labels * (1 - smoothing) + smoothing / 2;
         return at::binary_cross_entropy_with_logits(p.output, smooth, {}, {}, kSum);
       }},
      {"mse", false, false,
       [](const Pair& p, double, double) { return at::mse_loss(p.output, p.labels, kSum); }},
      {"l1", false, false,
       [](const Pair& p, double, double) { return at::l1_loss(p.output, p.labels, kSum); }},
      {"smooth_l1", false, false,
       [](const Pair& p, double, double beta) {
         return at::smooth_l1_loss(p.output, p.labels, kSum, beta);
       }},
      {"huber", false, false,
       [](const Pair& p, double, double beta) {
         return at::huber_loss(p.output, p.labels, kSum, beta);
       }},
  };
  for (const Kind& kind : kKinds)
    if (name == kind.name) return &kind;
  Refuse(absl::StrCat("parameters.loss: '", name, "' is no loss"));
}

std::string NamedLoss::Kind::WhyNotFit(absl::Span<const int64_t> output,
                                       absl::Span<const int64_t> label) const {
  if (has_classes) {
    if (!output.empty() && WithoutOnes(output.subspan(1)) == WithoutOnes(label)) return "";
    return absl::StrCat("loss ", name, " needs a score for each class in the first dimension of a ",
                        "sample's output, and behind it the label's dimensions; the output is ",
                        Shape(output), ", the label ", Shape(label));
  }
  if (WithoutOnes(output) == WithoutOnes(label)) return "";
  return absl::StrCat("loss ", name, " needs an output of the label's shape; the output is ",
                      Shape(output), ", the label ", Shape(label));
}

NamedLoss::NamedLoss(const TaskOptions& options)
    : kind_(Kind::Find(options.Text("loss"))),
      label_smoothing_(options.Real("label_smoothing")),
      beta_(options.Real("loss_beta")),
      top_k_(options.Integer("top_k")) {
  if (label_smoothing_ > 0 && !kind_->smooths)
    Refuse(absl::StrCat("parameters.label_smoothing: loss ", kind_->name,
                        " has none; take cross_entropy or bce_with_logits, or 0"));
}

absl::Status NamedLoss::Check(absl::Span<const int64_t> output, const DataField& label) const {
  if (kind_->has_classes && !at::isIntegralType(worker::TorchTypeOf(label.type), false))
    return absl::FailedPreconditionError(
        absl::StrCat("loss ", kind_->name, " needs labels that are numbers of classes, and these ",
                     "are no whole numbers; of CSV, data.classes names the column"));
  const std::string why = kind_->WhyNotFit(output, label.shape);
  return why.empty() ? absl::OkStatus() : absl::FailedPreconditionError(why);
}

NamedLoss::Pair NamedLoss::Fitting(const at::Tensor& output, const at::Tensor& labels) const {
  if (!output.is_floating_point() || output.dim() == 0 || output.size(0) != labels.size(0))
    Refuse(absl::StrCat("the model's output must have reals for each of ", labels.size(0),
                        " samples; it is a tensor of ", c10::toString(output.scalar_type()), " of ",
                        Shape({output.sizes().data(), output.sizes().size()})));
  const std::string why = kind_->WhyNotFit(SampleOf(output), SampleOf(labels));
  if (!why.empty()) Refuse(why);
  if (!kind_->has_classes) return {output, labels.to(output.scalar_type()).reshape_as(output)};
  if (!at::isIntegralType(labels.scalar_type(), /*includeBool=*/false))
    Refuse(absl::StrCat("loss ", kind_->name, " needs labels that are numbers of classes, not ",
                        c10::toString(labels.scalar_type()),
                        "; of CSV, data.classes names the column"));
  std::vector<int64_t> shape = output.sizes().vec();
  shape.erase(shape.begin() + 1);
  const at::Tensor classes = labels.to(at::kLong).reshape(shape);
  const at::Tensor is_wrong =
      classes.ne(kLeftOut).logical_and(classes.lt(0).logical_or(classes.ge(output.size(1))));
  if (is_wrong.any().item<bool>())
    throw TaskError(worker::AboutRow(
        absl::DataLossError(absl::StrCat(
            "label ", classes.masked_select(is_wrong)[0].item<int64_t>(),
            " is no class of a model that tells ", output.size(1), " apart: its classes are 0 to ",
            output.size(1) - 1, "; look at the labels, or let the model tell more apart")),
        static_cast<uint64_t>(is_wrong.nonzero()[0][0].item<int64_t>()),
        static_cast<uint64_t>(classes.size(0))));
  return {output, classes};
}

at::Tensor NamedLoss::Sum(const at::Tensor& output, const at::Tensor& labels) const {
  return kind_->sum(Fitting(output, labels), label_smoothing_, beta_);
}

int64_t NamedLoss::Terms(const at::Tensor& labels) const {
  return kind_->has_classes ? labels.ne(kLeftOut).sum().item<int64_t>() : labels.numel();
}

std::vector<TaskMetric> NamedLoss::Metrics() const {
  if (kind_->has_classes)
    return {{"loss"},
            {"accuracy"},
            {absl::StrCat("top", top_k_, "_accuracy")},
            {"perplexity", TaskMetricKind::kExpOfMean}};
  if (kind_->smooths) return {{"loss"}, {"accuracy"}, {"auc", TaskMetricKind::kAuc}};
  return {{"loss"}, {"mean_absolute_error"}};
}

std::vector<TaskMetricSum> NamedLoss::Measure(const at::Tensor& output,
                                              const at::Tensor& labels) const {
  const Pair pair = Fitting(output, labels);
  const auto terms = static_cast<double>(Terms(labels));
  const double loss = kind_->sum(pair, label_smoothing_, beta_).item<double>();
  if (!kind_->has_classes && kind_->smooths) {
    const at::Tensor is_positive = pair.labels.gt(0.5);
    return {{loss, terms},
            {Count(pair.output.gt(0).eq(is_positive)), terms},
            {0, 0, CountScores(pair.output, is_positive)}};
  }
  if (!kind_->has_classes)
    return {{loss, terms}, {at::l1_loss(pair.output, pair.labels, kSum).item<double>(), terms}};
  const at::Tensor counts = pair.labels.ne(kLeftOut);
  const at::Tensor own = pair.output.gather(1, pair.labels.clamp_min(0).unsqueeze(1));
  // A score that is no number is no lower one.
  const at::Tensor not_lower = pair.output.lt(own).logical_not().sum(1);
  const at::Tensor is_first = pair.output.argmax(1).eq(pair.labels);
  // A smoothed loss is no perplexity: that of a perfect model is 1.
  const double plain = label_smoothing_ == 0 ? loss : kind_->sum(pair, 0, beta_).item<double>();
  return {{loss, terms},
          {Count(is_first.logical_and(counts)), terms},
          {Count(not_lower.le(top_k_).logical_and(counts)), terms},
          {plain, terms}};
}

void NamedLoss::Try(const std::function<at::Tensor()>& output, const at::Tensor& labels) const {
  const absl::Status tried = worker::CatchTorch([&] {
    const at::NoGradGuard no_grad;
    Sum(output(), labels);
  });
  if (absl::IsInternal(tried))
    Refuse(absl::StrCat("the model fails on the first samples: ", tried.message()));
  if (!tried.ok()) throw TaskError(tried);
}

void CheckHasLabel(const DataSet& set, const DataSpec& data) {
  const std::vector<DataField>& fields = set.Fields();
  if (fields.size() > 1 && (fields.back().name == "label" || fields.back().name == data.label))
    return;
  const std::string missing =
      fields.size() == 1 && fields.back().name == data.label
          ? absl::StrCat("data.label: the files hold nothing beside '", data.label, "'")
      : LabelIsNamed(data.format) ? "data.label: is missing"
                                  : "data.paths: the samples of these files have no label";
  Refuse(missing + "; this task learns to tell a label from the rest of a sample");
}

}  // namespace muster::torch
