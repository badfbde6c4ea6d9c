#include "lib/domain/layout.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "lib/base/hash.h"
#include "lib/base/printable.h"
#include "lib/base/status.h"
#include "lib/base/utf8.h"
#include "lib/domain/tensor_type.h"

namespace muster {
namespace {

constexpr int64_t kMaxElements = int64_t{1} << 40;

int64_t AlignUp(int64_t n) { return (n + kAlignElements - 1) / kAlignElements * kAlignElements; }

int64_t ChunksIn(int64_t elements, int64_t size) { return (elements + size - 1) / size; }

int64_t FloatsOf(const TensorSpec& tensor) {
  constexpr auto kBytes = static_cast<int64_t>(sizeof(float));
  return (tensor.Bytes() + kBytes - 1) / kBytes;
}

void CutChunks(int64_t begin, int64_t end, int64_t size, TensorKind kind, std::vector<Chunk>& out) {
  for (int64_t at = begin; at < end; at += size)
    out.push_back({at, std::min(size, end - at), kind});
}

// At most, of what describes it in a frame: its names, a number for each dimension, and what says
// which is which.
int64_t SentBytesOf(const TensorSpec& t) {
  int64_t bytes = 6 * static_cast<int64_t>(t.shape.size()) + 24;
  for (const std::string& name : t.Names()) bytes += static_cast<int64_t>(name.size()) + 4;
  return bytes;
}

absl::Status CheckAmount(const std::vector<TensorSpec>& tensors) {
  const auto count = static_cast<int64_t>(tensors.size());
  if (count > kMostTensors)
    return absl::InvalidArgumentError(
        absl::StrCat("the model has ", count, " tensors, with what is measured of it; at most ",
                     kMostTensors, " are allowed: make fewer and larger ones"));
  int64_t bytes = 0;
  for (const TensorSpec& t : tensors) bytes += SentBytesOf(t);
  if (bytes <= kMostTensorBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the names and shapes of the model's ", count, " tensors take ", bytes, " bytes; at most ",
      kMostTensorBytes, " are allowed: take shorter names, or fewer tensors"));
}

absl::Status CheckName(const std::string& name, std::set<std::string>& names) {
  if (name.empty()) return absl::InvalidArgumentError("a tensor has no name");
  if (static_cast<int64_t>(name.size()) > kLongestTensorName)
    return absl::InvalidArgumentError(absl::StrCat(
        "the name of tensor '", Cut(Printable(absl::string_view(name).substr(0, 256)), 64),
        "' has ", name.size(), " bytes; at most ", kLongestTensorName, " are allowed"));
  // The manifest of a checkpoint with another name could never be read again.
  if (!IsUtf8(name))
    return absl::InvalidArgumentError(
        absl::StrCat("the name of tensor '", Cut(Printable(name)), "' is not UTF-8"));
  if (!names.insert(name).second)
    return absl::InvalidArgumentError(absl::StrCat("tensor '", name, "' occurs twice"));
  return absl::OkStatus();
}

absl::Status CheckTensor(const TensorSpec& t, std::set<std::string>& names) {
  for (const std::string& name : t.Names()) MUSTER_RETURN_IF_ERROR(CheckName(name, names));
  if (static_cast<int64_t>(t.shape.size()) > kMostDimensions)
    return absl::InvalidArgumentError(absl::StrCat("tensor '", Cut(Printable(t.name)), "' has ",
                                                   t.shape.size(), " dimensions; at most ",
                                                   kMostDimensions, " are allowed"));
  if (t.kind != TensorKind::kBuffer && t.type != TensorType::kFloat32)
    return absl::InvalidArgumentError(absl::StrCat("tensor '", t.name, "' is a parameter of ",
                                                   NameOf(t.type), "; parameters are float32"));
  int64_t n = 1;
  for (int64_t d : t.shape) {
    if (d < 1 || n > kMaxElements / d)
      return absl::InvalidArgumentError(
          absl::StrCat("tensor '", t.name, "': dimension ", d, " is out of range"));
    n *= d;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Layout> Layout::Make(const std::vector<TensorSpec>& tensors, int64_t chunk_bytes) {
  if (chunk_bytes < 64 || chunk_bytes > kMaxChunkBytes || chunk_bytes % 64 != 0)
    return absl::InvalidArgumentError("chunk_bytes: a multiple of 64 up to 262144 is needed");
  Layout layout;
  std::set<std::string> names;
  for (const TensorSpec& t : tensors) MUSTER_RETURN_IF_ERROR(CheckTensor(t, names));
  MUSTER_RETURN_IF_ERROR(CheckAmount(tensors));
  for (const TensorSpec& t : tensors) layout.space_.tensors.push_back({t, 0, FloatsOf(t)});
  int64_t at = 0;
  auto put = [&](size_t i) {
    Placed& p = layout.space_.tensors[i];
    p.offset = at;
    at = AlignUp(at + p.count);
    layout.by_offset_.push_back(i);
    return at <= kMaxElements;
  };
  auto place = [&](TensorKind kind) {
    for (size_t i = layout.space_.tensors.size(); i-- > 0;)
      if (layout.space_.tensors[i].spec.kind == kind && !put(i)) return false;
    return true;
  };
  if (!place(TensorKind::kParameter))
    return absl::InvalidArgumentError("the model has more than 2^40 elements");
  if (at == 0) return absl::InvalidArgumentError("the model has no parameter");
  const int64_t size = chunk_bytes / 4;
  layout.parameter_elements_ = at;
  if (!place(TensorKind::kBuffer))
    return absl::InvalidArgumentError("the model has more than 2^40 elements");
  const int64_t sums = at;
  if (!place(TensorKind::kSum) || 4 * (at - sums) > kMaxChunkBytes)
    return absl::InvalidArgumentError("the job has more sums than one chunk holds");
  const int64_t phases = at;
  int64_t chunks = ChunksIn(layout.parameter_elements_, size) +
                   ChunksIn(sums - layout.parameter_elements_, size) + (phases > sums ? 1 : 0);
  for (size_t i = 0; i < layout.space_.tensors.size(); ++i) {
    const Placed& p = layout.space_.tensors[i];
    if (p.spec.kind != TensorKind::kPhase) continue;
    if (!put(i)) return absl::InvalidArgumentError("the model has more than 2^40 elements");
    chunks += ChunksIn(p.count, size);
    layout.phases_.push_back({i, ChunkId(), 0});
  }
  if (chunks > kMostChunks)  // before anything is allocated for them
    return absl::InvalidArgumentError(absl::StrCat(
        "chunk_bytes: the model has ", chunks, " chunks of ", chunk_bytes, " bytes; at most ",
        kMostChunks, " are allowed: make them larger, or the model smaller"));
  CutChunks(0, layout.parameter_elements_, size, TensorKind::kParameter, layout.chunks_);
  layout.parameter_chunks_ = layout.chunk_count();
  CutChunks(layout.parameter_elements_, sums, size, TensorKind::kBuffer, layout.chunks_);
  // What is learned of sums is a function of all of them, so they are not cut.
  if (phases > sums) layout.chunks_.push_back({sums, phases - sums, TensorKind::kSum});
  for (PhasePlace& phase : layout.phases_) {
    const Placed& p = layout.space_.tensors[phase.tensor];
    phase.first_chunk = ChunkId(layout.chunk_count());
    CutChunks(p.offset, AlignUp(p.offset + p.count), size, TensorKind::kPhase, layout.chunks_);
    phase.chunks = layout.chunk_count() - phase.first_chunk.value();
  }
  layout.model_elements_ = sums;
  layout.space_.elements = at;
  return layout;
}

std::string LayerOfPhase(const std::string& name) {
  constexpr std::string_view kPrefix = "sync/";
  const size_t end = name.rfind('/');
  if (!name.starts_with(kPrefix) || end < kPrefix.size()) return name;
  return name.substr(kPrefix.size(), end - kPrefix.size());
}

FlatSpace Layout::ModelSpace() const {
  FlatSpace model{space_.tensors, model_elements_};
  std::erase_if(model.tensors, [](const Placed& t) { return !IsOfModel(t.spec.kind); });
  return model;
}

std::vector<size_t> Layout::TensorsIn(int64_t offset, int64_t count) const {
  std::vector<size_t> found;
  auto ends_after = [&](int64_t at, size_t i) {
    return at < space_.tensors[i].offset + space_.tensors[i].count;
  };
  auto it = std::upper_bound(by_offset_.begin(), by_offset_.end(), offset, ends_after);
  for (; it != by_offset_.end() && space_.tensors[*it].offset < offset + count; ++it)
    found.push_back(*it);
  return found;
}

uint64_t Layout::Hash() const {
  uint64_t h = Mix64(chunks_.size(), space_.tensors.size());
  // The grid: the first chunk of each kind, since parameters may fill less than one.
  for (size_t first : {size_t{0}, static_cast<size_t>(parameter_chunks_)})
    h = Mix64(h, static_cast<uint64_t>(first < chunks_.size() ? chunks_[first].count : 0));
  for (const Placed& p : space_.tensors) {
    h = HashBytes(p.spec.name, Mix64(h, static_cast<uint64_t>(p.spec.kind), p.spec.shape.size()));
    for (int64_t d : p.spec.shape) h = Mix64(h, static_cast<uint64_t>(d));
    // Of a buffer: before there were types, all were of this one.
    if (p.spec.type != TensorType::kFloat32) h = Mix64(h, static_cast<uint64_t>(p.spec.type));
    for (const std::string& alias : p.spec.aliases) h = HashBytes(alias, Mix64(h, h));
  }
  return h;
}

}  // namespace muster
