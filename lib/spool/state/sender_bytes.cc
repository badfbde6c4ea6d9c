#include "lib/spool/state/sender_bytes.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace muster {
namespace {

constexpr char kMagic[] = "MSTRSTM1";
constexpr auto kSample = std::byte{1};
constexpr auto kEnd = std::byte{2};
constexpr size_t kNumberBytes = 8;
constexpr uint64_t kMostAtOnce = uint64_t{1} << 20;  // samples; so the product has room

void AppendNumber(uint64_t number, std::string& out) {
  for (size_t byte = 0; byte < kNumberBytes; ++byte)
    out.push_back(static_cast<char>(number >> (8 * byte)));
}

}  // namespace

std::string StreamGreeting(uint64_t position, uint64_t sample_bytes) {
  std::string greeting = kMagic;
  AppendNumber(position, greeting);
  AppendNumber(sample_bytes, greeting);
  return greeting;
}

std::string StreamAnswer(uint64_t positions) {
  std::string answer;
  AppendNumber(positions, answer);
  return answer;
}

uint64_t SenderBytes::Wanted(uint64_t samples) const {
  const uint64_t has = in_sample_ ? 1 + part_.size() : 0;
  return std::min(samples, kMostAtOnce) * (sample_bytes_ + 1) - has;
}

absl::Status SenderBytes::Take(absl::Span<const std::byte> bytes, std::string& samples,
                               uint64_t& count) {
  count = 0;
  while (!bytes.empty()) {
    if (ended_)
      return absl::InvalidArgumentError("the sender says more after the end of the stream");
    if (!in_sample_) {
      const std::byte kind = bytes.front();
      bytes.remove_prefix(1);
      if (kind == kEnd) {
        ended_ = true;
      } else if (kind != kSample) {
        return absl::InvalidArgumentError(
            absl::StrCat("the sender says ", static_cast<int>(kind),
                         " where a 1 with a sample behind it or a 2 for the end belongs"));
      }
      in_sample_ = !ended_;
      continue;
    }
    const auto left = static_cast<size_t>(sample_bytes_) - part_.size();
    const size_t taken = std::min(left, bytes.size());
    const char* from = reinterpret_cast<const char*>(bytes.data());
    const bool is_whole_here = part_.empty() && taken == left;
    (is_whole_here ? samples : part_).append(from, taken);
    bytes.remove_prefix(taken);
    if (taken < left) continue;
    samples += part_;
    part_.clear();
    in_sample_ = false;
    ++count;
  }
  return absl::OkStatus();
}

absl::Span<const char> AnswersOut::Next() {
  if (out_.empty() && newest_ > said_) {
    out_ = StreamAnswer(newest_);
    said_ = newest_;
  }
  return out_;
}

}  // namespace muster
