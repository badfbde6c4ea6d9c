#include "worker/commands/check_gradient.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <set>
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
constexpr int kTries = 4;          // of as many entries, until one is told
constexpr double kOfBends = 3;     // measured on networks with ReLU and batch norm
constexpr double kRoundings = 16;  // of the loss, in units of its last place
constexpr int kCandidates = 16;

struct Entry {
  const Placed* tensor = nullptr;
  int64_t element = 0;  // of its tensor
  size_t At() const { return static_cast<size_t>(tensor->offset + element); }
};

// All entries of some tensors, of which each is drawn once.
class Urn {
 public:
  Urn(const std::vector<Placed>& tensors, uint64_t seed, absl::Span<const float> gradient)
      : tensors_(tensors), seed_(seed), gradient_(gradient) {
    for (const Placed& tensor : tensors) all_ += tensor.count;
  }

  int64_t left() const { return all_ - static_cast<int64_t>(drawn_.size()); }

  Entry DrawFirst() {
    while (drawn_.contains(first_)) ++first_;
    return Take(first_);
  }

  // Each that is left is as likely as any other.
  Entry DrawAny() {
    int64_t number = Random(all_);
    while (drawn_.contains(number)) number = Random(all_);
    return Take(number);
  }

  // The one of a few of a tensor whose gradient is largest. Nothing: none of these is left.
  std::optional<Entry> DrawLarge(size_t of) {
    const Placed& tensor = tensors_[of];
    int64_t before = 0;
    for (size_t t = 0; t < of; ++t) before += tensors_[t].count;
    std::optional<int64_t> best;  // element
    for (int c = 0; c < kCandidates; ++c) {
      const int64_t element = Random(tensor.count);
      if (drawn_.contains(before + element)) continue;
      if (!best || SizeOf({&tensor, element}) > SizeOf({&tensor, *best})) best = element;
    }
    if (!best) return std::nullopt;
    return Take(before + *best);
  }

 private:
  int64_t Random(int64_t below) {
    return static_cast<int64_t>(Mix64(seed_, draws_++) % static_cast<uint64_t>(below));
  }
  float SizeOf(const Entry& entry) const { return std::abs(gradient_[entry.At()]); }
  // By its number among all.
  Entry Take(int64_t number) {
    drawn_.insert(number);
    size_t t = 0;
    for (; number >= tensors_[t].count; ++t) number -= tensors_[t].count;
    return {&tensors_[t], number};
  }

  const std::vector<Placed>& tensors_;
  const uint64_t seed_;
  const absl::Span<const float> gradient_;
  int64_t all_ = 0;
  int64_t first_ = 0;  // all before it are drawn
  uint64_t draws_ = 0;
  std::set<int64_t> drawn_;  // by their numbers
};

absl::Span<const float> Of(const Placed& tensor, absl::Span<const float> flat) {
  return flat.subspan(static_cast<size_t>(tensor.offset), static_cast<size_t>(tensor.count));
}

// Root of the mean square of all entries that are not zero.
double UsualSize(const std::vector<Placed>& tensors, absl::Span<const float> gradient) {
  double squares = 0;
  int64_t others = 0;
  for (const Placed& tensor : tensors) {
    const absl::Span<const float> of = Of(tensor, gradient);
    squares += SumOfSquares(of);
    others += tensor.count - std::count(of.begin(), of.end(), 0.0F);
  }
  return others > 0 ? std::sqrt(squares / static_cast<double>(others)) : 0;
}

double ScaleOf(const Placed& tensor, absl::Span<const float> parameters) {
  const double squares = SumOfSquares(Of(tensor, parameters));
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
// and the bend. Where the gradient is 0 and the loss has the same bits at all widths, as with a row
// of an embedding that no sample asks for, it can have lost one rounding at the widest.
absl::StatusOr<Slope> BestSlope(const LossOfLane& loss, double middle, float& parameter,
                                double scale, float computed) {
  Slope best, widest, wider;
  best.uncertainty = std::numeric_limits<double>::infinity();
  bool is_still = computed == 0;
  for (const double width : kWidths) {
    MUSTER_ASSIGN_OR_RETURN(Slope slope, SlopeAt(loss, middle, parameter, width * scale));
    const Slope here = slope;
    is_still = is_still && here.difference == 0 && here.bend == 0;
    if (width == kWidths[0]) {
      widest = here;
    } else {
      slope.uncertainty +=
          std::max(std::abs(slope.difference - wider.difference), kOfBends * slope.bend);
      if (slope.uncertainty < best.uncertainty) best = slope;
    }
    wider = here;
  }
  if (is_still) return Slope{0, widest.uncertainty / kRoundings, 0};
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

absl::StatusOr<std::vector<CheckedGradient>> CheckGradient(const std::vector<Placed>& tensors,
                                                           uint64_t seed, int entries,
                                                           const LossOfLane& loss,
                                                           absl::Span<float> parameters,
                                                           absl::Span<const float> gradient) {
  // The loss writes it anew.
  const std::vector<float> computed(gradient.begin(), gradient.end());
  const double usual = UsualSize(tensors, computed);
  Urn urn(tensors, seed, computed);
  const bool takes_all = urn.left() <= entries;
  const int64_t count = std::min<int64_t>(urn.left(), entries);
  const int64_t by_chance = (count + 1) / 2;
  const auto draw = [&](int64_t i) {
    if (takes_all) return urn.DrawFirst();
    if (i < by_chance) return urn.DrawAny();
    const auto tensor = static_cast<size_t>(i - by_chance) % tensors.size();
    const std::optional<Entry> large = urn.DrawLarge(tensor);
    return large ? *large : urn.DrawAny();
  };
  std::vector<CheckedGradient> checked;
  MUSTER_ASSIGN_OR_RETURN(const double middle, loss());
  for (int64_t i = 0; i < count; ++i) {
    CheckedGradient best;
    // As many are left for those that come after it.
    for (int t = 0; t < kTries && urn.left() >= count - i; ++t) {
      const Entry entry = draw(i);
      MUSTER_ASSIGN_OR_RETURN(const Slope slope,
                              BestSlope(loss, middle, parameters[entry.At()],
                                        ScaleOf(*entry.tensor, parameters), computed[entry.At()]));
      CheckedGradient tried{entry.tensor->spec.name,
                            entry.element,
                            computed[entry.At()],
                            slope.difference,
                            slope.uncertainty,
                            false,
                            false};
      Judge(usual, tried);
      if (t == 0 || tried.is_told || tried.uncertainty < best.uncertainty) best = std::move(tried);
      if (best.is_told) break;
    }
    checked.push_back(std::move(best));
  }
  return checked;
}

}  // namespace muster::worker
