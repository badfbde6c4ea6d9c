#include "lib/owner/runtime/accumulator.h"

#include <algorithm>

#include "lib/base/check.h"
#include "lib/kernels/add.h"

namespace muster {
namespace {

ByteSlices SlicesOf(const ReceivedSum& sum) { return absl::MakeConstSpan(sum.frame->slices); }

// Sums are IEEE additions, which commute: where only one operand is in slices it is given first.
void AddTo(const ReceivedSum* left_slices, absl::Span<const float> left,
           const ReceivedSum* right_slices, absl::Span<const float> right, absl::Span<float> to) {
  if (left_slices != nullptr && right_slices != nullptr) {
    SumTwoSlices(SlicesOf(*left_slices), left_slices->byte_offset, SlicesOf(*right_slices),
                 right_slices->byte_offset, to);
  } else if (left_slices != nullptr) {
    SumSlices(SlicesOf(*left_slices), left_slices->byte_offset, right, to);
  } else if (right_slices != nullptr) {
    SumSlices(SlicesOf(*right_slices), right_slices->byte_offset, left, to);
  } else {
    muster::Add(left, right, to);
  }
}

}  // namespace

void Accumulator::Add(ChunkId chunk, std::vector<std::pair<TreeNode, ArrivedSum>> arrived,
                      const std::vector<Fold>& folds, bool complete, absl::Span<float> out) {
  Sums& sums = chunks_[chunk];
  for (auto& [node, sum] : arrived)
    std::visit([&, &where = node](auto& s) { sums[where] = std::move(s); }, sum);
  for (const Fold& fold : folds) FoldOne(sums, fold, out);
  if (!complete) return;
  MUSTER_CHECK(sums.size() == 1, "a complete chunk has one sum");
  Settle(std::move(sums.begin()->second), out);
  chunks_.erase(chunk);
}

void Accumulator::FoldOne(Sums& sums, const Fold& fold, absl::Span<float> out) {
  auto left = sums.extract(fold.left), right = sums.extract(fold.right);
  MUSTER_CHECK(!left.empty() && !right.empty(), "a fold of sums that are not here");
  auto values = [&](const Sum& sum) -> absl::Span<const float> {
    if (const auto* own = std::get_if<OwnSum>(&sum)) return own->values;
    if (const auto* scratch = std::get_if<Scratch>(&sum)) return {scratch->get(), out.size()};
    return std::holds_alternative<InPlace>(sum) ? absl::Span<const float>(out)
                                                : absl::Span<const float>();
  };
  Sum& a = left.mapped();
  Sum& b = right.mapped();
  const absl::Span<const float> a_values = values(a), b_values = values(b);
  Sum place = PlaceFor(sums);
  absl::Span<float> to = out;
  if (const auto* scratch = std::get_if<Scratch>(&place)) to = {scratch->get(), out.size()};
  AddTo(std::get_if<ReceivedSum>(&a), a_values, std::get_if<ReceivedSum>(&b), b_values, to);
  Release(std::move(a));
  Release(std::move(b));
  sums[fold.into] = std::move(place);
}

// In `out` unless another sum stands there (the operands are no longer among `others`).
Accumulator::Sum Accumulator::PlaceFor(const Sums& others) {
  const bool taken = std::any_of(others.begin(), others.end(), [](const auto& other) {
    return std::holds_alternative<InPlace>(other.second);
  });
  if (!taken) return InPlace{};
  return NewScratch();
}

void Accumulator::Settle(Sum sum, absl::Span<float> out) {
  if (const auto* received = std::get_if<ReceivedSum>(&sum))
    CopySlices(SlicesOf(*received), received->byte_offset, out, copied_);
  if (const auto* own = std::get_if<OwnSum>(&sum)) CopyFloats(own->values, out, copied_);
  MUSTER_CHECK(!std::holds_alternative<Scratch>(sum), "the last sum grows in its place");
}

Accumulator::Scratch Accumulator::NewScratch() {
  if (free_.empty()) return std::make_unique<float[]>(kMaxChunkBytes / sizeof(float));
  Scratch scratch = std::move(free_.back());
  free_.pop_back();
  return scratch;
}

void Accumulator::Release(Sum sum) {
  if (auto* scratch = std::get_if<Scratch>(&sum)) free_.push_back(std::move(*scratch));
}

}  // namespace muster
