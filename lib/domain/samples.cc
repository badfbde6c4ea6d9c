#include "lib/domain/samples.h"

#include <algorithm>
#include <iterator>

#include "lib/base/hash.h"

namespace muster {
namespace {

constexpr uint64_t kOrderSalt = 0x6f72646572u;  // "order"
constexpr uint64_t kLaneSalt = 0x6c616e65u;     // "lane"

}  // namespace

EpochOrder::EpochOrder(uint64_t seed, int64_t epoch, uint64_t n) : n_(n), half_bits_(1) {
  while (half_bits_ < 32 && (uint64_t{1} << (2 * half_bits_)) < n) ++half_bits_;
  for (uint64_t i = 0; i < 6; ++i)
    keys_[i] = Mix64(Mix64(kOrderSalt, seed), static_cast<uint64_t>(epoch), i);
}

uint64_t EpochOrder::Encrypt(uint64_t x) const {
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  uint64_t left = x >> half_bits_, right = x & mask;
  for (uint64_t key : keys_) {
    const uint64_t next = left ^ (Mix64(right ^ key) & mask);
    left = right;
    right = next;
  }
  return (left << half_bits_) | right;
}

uint64_t EpochOrder::At(uint64_t position) const {
  if (as_they_come_) return position;
  uint64_t x = Encrypt(position);
  while (x >= n_) x = Encrypt(x);
  return x;
}

uint64_t EpochOrder::Decrypt(uint64_t x) const {
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  uint64_t left = x >> half_bits_, right = x & mask;
  for (auto key = std::rbegin(keys_); key != std::rend(keys_); ++key) {
    const uint64_t before = right ^ (Mix64(left ^ *key) & mask);
    right = left;
    left = before;
  }
  return (left << half_bits_) | right;
}

uint64_t EpochOrder::PositionOf(uint64_t sample) const {
  if (as_they_come_) return sample;
  uint64_t x = Decrypt(sample);
  while (x >= n_) x = Decrypt(x);
  return x;
}

SampleRange StepSamples(const TrainingSpec& training, uint64_t n, Step step) {
  const int64_t per_epoch = StepsPerEpoch(training, n);
  const uint64_t first =
      static_cast<uint64_t>(step.value() % per_epoch) * static_cast<uint64_t>(training.batch);
  return {step.value() / per_epoch, first,
          std::min(static_cast<uint64_t>(training.batch), n - first)};
}

SampleRange LaneSamples(const TrainingSpec& training, uint64_t n, Step step, LaneId lane) {
  const SampleRange all = StepSamples(training, n, step);
  const uint64_t lanes = static_cast<uint64_t>(training.lanes),
                 l = static_cast<uint64_t>(lane.value());
  const uint64_t small = all.count / lanes, extra = all.count % lanes;
  return {all.epoch, all.first + l * small + std::min(l, extra), small + (l < extra ? 1 : 0)};
}

std::vector<uint64_t> SampleIds(const TrainingSpec& training, uint64_t n,
                                const SampleRange& range) {
  const EpochOrder order(training, range.epoch, n);
  std::vector<uint64_t> ids;
  ids.reserve(range.count);
  for (uint64_t i = 0; i < range.count; ++i) ids.push_back(order.At(range.first + i));
  return ids;
}

SamplePlace PlaceOfSample(const TrainingSpec& training, uint64_t n, int64_t epoch,
                          uint64_t sample) {
  const uint64_t position = EpochOrder(training, epoch, n).PositionOf(sample);
  const uint64_t batch = static_cast<uint64_t>(training.batch),
                 lanes = static_cast<uint64_t>(training.lanes);
  const Step step(epoch * StepsPerEpoch(training, n) + static_cast<int64_t>(position / batch));
  const SampleRange all = StepSamples(training, n, step);
  const uint64_t small = all.count / lanes, extra = all.count % lanes;
  const uint64_t offset = position - all.first, of_large = extra * (small + 1);
  const uint64_t lane =
      offset < of_large ? offset / (small + 1) : extra + (offset - of_large) / small;
  return {step, LaneId(static_cast<int32_t>(lane))};
}

uint64_t LaneSeed(uint64_t seed, Step step, LaneId lane) {
  return Mix64(Mix64(kLaneSalt, seed), static_cast<uint64_t>(step.value()),
               static_cast<uint64_t>(lane.value()));
}

}  // namespace muster
