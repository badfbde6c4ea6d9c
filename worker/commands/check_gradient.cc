#include "worker/commands/check_gradient.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "lib/base/hash.h"
#include "lib/base/status.h"
#include "lib/kernels/norm.h"

namespace muster::worker {
namespace {

// Of what a parameter's tensor measures in the mean, each a third of the one before. Wide ones
// suffer from curvature, narrow ones from rounding.
constexpr double kWidths[] = {0.27, 0.09, 0.03, 0.01, 0.0033};
constexpr double kLeastScale = 0.1;  // of a tensor of zeros, such as biases
constexpr double kAgreement = 2e-2;  // relative: what is nearer than that is no error of a formula
// Of an entry: with more of an uncertainty a wrong formula would agree, too.
constexpr double kMostUncertainty = 0.25;
// Of a usual entry: one that is smaller, as those of what has no effect, need not be known better.
constexpr double kLeastSize = 0.1;
constexpr int kTries = 4;          // of as many entries of a tensor
constexpr double kOfBends = 3;     // measured on networks with ReLU and batch norm
constexpr double kRoundings = 16;  // of the loss, in units of its last place
constexpr uint64_t kCandidates = 16;

struct Entry {
  int64_t element = 0;  // of its tensor
  float computed = 0;
};

// The one of a few of a tensor whose gradient is largest.
Entry Draw(const Placed& tensor, uint64_t seed, absl::Span<const float> gradient) {
  Entry best{-1, 0};
  for (uint64_t c = 0; c < kCandidates; ++c) {
    const auto element = static_cast<int64_t>(Mix64(seed, c) % static_cast<uint64_t>(tensor.count));
    const float computed = gradient[static_cast<size_t>(tensor.offset + element)];
    if (best.element < 0 || std::abs(computed) > std::abs(best.computed))
      best = {element, computed};
  }
  return best;
}

// Root of the mean square of all entries that are not zero.
double UsualSize(absl::Span<const float> gradient) {
  const auto zeros = std::count(gradient.begin(), gradient.end(), 0.0F);
  const auto others = static_cast<double>(gradient.size()) - static_cast<double>(zeros);
  return others > 0 ? std::sqrt(SumOfSquares(gradient) / others) : 0;
}

double ScaleOf(const Placed& tensor, absl::Span<const float> parameters) {
  const double squares = SumOfSquares(
      parameters.subspan(static_cast<size_t>(tensor.offset), static_cast<size_t>(tensor.count)));
  return std::max(std::sqrt(squares / static_cast<double>(tensor.count)), kLeastScale);
}

struct Slope {
  double difference = 0;
  double uncertainty = 0;
  double bend = 0;  // how much steeper it is on one side than on the other
};

// Of the loss along one parameter, which is put back. `middle`: the loss where it is.
absl::StatusOr<Slope> SlopeAt(const LossOfLane& loss, double middle, float& parameter,
                              double width) {
  const float held = parameter;
  parameter = static_cast<float>(held + width);
  const float high_at = parameter;
  const absl::StatusOr<double> high = loss();
  parameter = static_cast<float>(held - width);
  const float low_at = parameter;
  const absl::StatusOr<double> low = loss();
  parameter = held;
  MUSTER_RETURN_IF_ERROR(high.status());
  MUSTER_RETURN_IF_ERROR(low.status());
  const double between = static_cast<double>(high_at) - static_cast<double>(low_at);
  const double rounding = kRoundings * std::numeric_limits<float>::epsilon() *
                          std::max(std::abs(*high), std::abs(*low));
  return Slope{(*high - *low) / between, rounding / between,
               2 * std::abs(*high - 2 * middle + *low) / between};
}

// At the width where it is known best. A smooth loss has less of a slope's error, and less of a
// bend, the narrower the width is. One of a network with ReLU or max pooling has kinks: those
// within the width put the difference off by half the bend that they make, and where they lie on
// both sides, either may be small by chance. So both count: how much the two last widths differ,
// and the bend.
absl::StatusOr<Slope> BestSlope(const LossOfLane& loss, double middle, float& parameter,
                                double scale) {
  Slope best, wider;
  best.uncertainty = std::numeric_limits<double>::infinity();
  for (const double width : kWidths) {
    MUSTER_ASSIGN_OR_RETURN(Slope slope, SlopeAt(loss, middle, parameter, width * scale));
    const Slope here = slope;
    if (width != kWidths[0]) {
      slope.uncertainty +=
          std::max(std::abs(slope.difference - wider.difference), kOfBends * slope.bend);
      if (slope.uncertainty < best.uncertainty) best = slope;
    }
    wider = here;
  }
  return best;
}

void Judge(double usual, CheckedGradient& entry) {
  const double size = std::max(std::abs(entry.computed), std::abs(entry.difference));
  const bool is_near =
      std::abs(entry.computed - entry.difference) <= entry.uncertainty + kAgreement * size;
  const bool is_known = entry.uncertainty <= kMostUncertainty * std::max(size, kLeastSize * usual);
  entry.agrees = is_near && is_known;
  entry.is_told = entry.agrees || !is_near;
}

}  // namespace

absl::StatusOr<std::vector<CheckedGradient>> CheckGradient(const Layout& layout, uint64_t seed,
                                                           int entries, const LossOfLane& loss,
                                                           absl::Span<float> parameters,
                                                           absl::Span<const float> gradient) {
  std::vector<const Placed*> tensors;
  for (const Placed& tensor : layout.tensors())
    if (tensor.spec.kind == TensorKind::kParameter) tensors.push_back(&tensor);
  // The loss writes it anew.
  const std::vector<float> computed(gradient.begin(), gradient.end());
  const double usual = UsualSize(
      absl::MakeConstSpan(computed).first(static_cast<size_t>(layout.parameter_elements())));
  std::vector<CheckedGradient> checked;
  MUSTER_ASSIGN_OR_RETURN(const double middle, loss());
  for (uint64_t i = 0; i < static_cast<uint64_t>(entries); ++i) {
    const Placed& tensor = *tensors[i % tensors.size()];
    const double scale = ScaleOf(tensor, parameters);
    CheckedGradient best;
    for (uint64_t t = 0; t < kTries; ++t) {
      const Entry entry =
          Draw(tensor, t == 0 ? Mix64(seed, i) : Mix64(Mix64(seed, i), t + kCandidates), computed);
      float& parameter = parameters[static_cast<size_t>(tensor.offset + entry.element)];
      MUSTER_ASSIGN_OR_RETURN(const Slope slope, BestSlope(loss, middle, parameter, scale));
      CheckedGradient tried{tensor.spec.name,  entry.element, entry.computed, slope.difference,
                            slope.uncertainty, false,         false};
      Judge(usual, tried);
      if (t == 0 || tried.is_told || tried.uncertainty < best.uncertainty) best = std::move(tried);
      if (best.is_told) break;
    }
    checked.push_back(std::move(best));
  }
  return checked;
}

}  // namespace muster::worker
