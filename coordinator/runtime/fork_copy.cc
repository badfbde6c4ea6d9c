#include "coordinator/runtime/fork_copy.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "coordinator/runtime/checkpoints.h"
#include "coordinator/runtime/parts_copy.h"
#include "lib/base/status.h"
#include "lib/checkpoint/manifest_file.h"
#include "lib/checkpoint/tensor_reader.h"
#include "lib/domain/fork.h"
#include "lib/domain/grid.h"
#include "lib/wire/job_codec.h"

namespace muster::coordinator {
namespace {

constexpr LineageNumber kForkLineage{1};

// The chunks of one slot, filled front to back; what nobody puts is +0.0.
class SlotWriter {
 public:
  SlotWriter(const Layout& layout, int32_t slot, PartsCopy& copy)
      : layout_(layout),
        slot_(slot),
        chunks_(slot == kValuesSlot ? layout.chunk_count() : layout.parameter_chunk_count()),
        copy_(copy) {
    Begin();
  }

  // Ascending offsets.
  absl::Status Put(int64_t offset, absl::Span<const float> values) {
    while (!values.empty()) {
      while (offset >= chunk().offset + chunk().count) MUSTER_RETURN_IF_ERROR(Next());
      const auto at = static_cast<size_t>(offset - chunk().offset);
      const size_t count = std::min(values.size(), values_.size() - at);
      std::copy_n(values.begin(), count, values_.begin() + static_cast<std::ptrdiff_t>(at));
      values.remove_prefix(count);
      offset += static_cast<int64_t>(count);
    }
    return absl::OkStatus();
  }

  absl::Status Finish() {
    while (next_ < chunks_) MUSTER_RETURN_IF_ERROR(Next());
    return absl::OkStatus();
  }

 private:
  const Chunk& chunk() const { return layout_.chunk(ChunkId(next_)); }
  void Begin() { values_.assign(static_cast<size_t>(chunk().count), 0.0f); }
  absl::Status Next() {
    MUSTER_RETURN_IF_ERROR(copy_.Add(slot_, ChunkId(next_), std::move(values_)));
    if (++next_ < chunks_) Begin();
    return absl::OkStatus();
  }

  const Layout& layout_;
  const int32_t slot_;
  const int32_t chunks_;
  PartsCopy& copy_;
  int32_t next_ = 0;
  std::vector<float> values_;
};

// `parents`: where the fork's tensors stand in the parent's state. Ascending offsets in the one are
// ascending in the other.
absl::Status CopySlot(TensorReader& reader, const std::vector<Placed>& parents,
                      const Layout& layout, int32_t from, int32_t slot, PartsCopy& copy,
                      const std::stop_token& stop) {
  SlotWriter writer(layout, slot, copy);
  for (const size_t t : layout.TensorsIn(0, layout.elements())) {
    const Placed& to = layout.tensors()[t];
    if (from < 0) break;
    if (slot != kValuesSlot && to.spec.kind != TensorKind::kParameter) continue;
    int64_t at = to.offset;
    const auto put = [&](absl::Span<const float> run) -> absl::Status {
      if (stop.stop_requested()) return absl::CancelledError("the fork was stopped");
      MUSTER_RETURN_IF_ERROR(writer.Put(at, run));
      at += static_cast<int64_t>(run.size());
      return absl::OkStatus();
    };
    MUSTER_RETURN_IF_ERROR(reader.Read(parents[t], from, put));
  }
  return writer.Finish();
}

absl::Status CopyState(const ForkSource& source, const CheckpointFiles& from, const JobSpec& spec,
                       const Layout& layout, PartsCopy& copy, const std::stop_token& stop) {
  MUSTER_ASSIGN_OR_RETURN(TensorReader reader, TensorReader::Open(from, source.manifest));
  std::vector<Placed> parents = reader.layout().tensors();
  std::erase_if(parents, [](const Placed& t) { return !IsOfModel(t.spec.kind); });
  const std::vector<int32_t> slots = SlotsOfParent(source.training, spec.training);
  copy.finite = IsFinite(source.manifest);
  for (size_t s = 0; s < slots.size(); ++s)
    MUSTER_RETURN_IF_ERROR(
        CopySlot(reader, parents, layout, slots[s], static_cast<int32_t>(s), copy, stop));
  return copy.Write();
}

}  // namespace

absl::StatusOr<Manifest> CopyFork(const ForkSource& source, const CheckpointFiles& from,
                                  const ForkTarget& target, Catalogue catalogue,
                                  CheckpointFiles& to, const std::stop_token& stop) {
  ManifestFile own{target.cluster, {}, source.environment, {}};
  Manifest& manifest = own.manifest;
  manifest.job = target.id;
  manifest.lineage = kForkLineage;
  manifest.spec = ToJson(target.spec);
  manifest.tensors = OfModel(source.manifest.tensors);
  manifest.chunk_bytes = ChunkBytes(target.spec.training);
  manifest.slots = SlotCount(target.spec.training);
  own.environment.tensors = manifest.tensors;
  own.lineages = {{kForkLineage,
                   {},
                   manifest.step,
                   absl::StrCat("forked from ", Describe(*target.spec.training.initial.parent))}};
  MUSTER_ASSIGN_OR_RETURN(const Layout layout, LayoutOf(manifest));
  // What an earlier try left: there is no job of that id.
  MUSTER_RETURN_IF_ERROR(catalogue.RemoveAll(target.id, to));
  // Before the first byte, so that a start finds what we leave if we are killed.
  MUSTER_RETURN_IF_ERROR(catalogue.Begin(target.id));
  PartsCopy copy(to, {target.id, kForkLineage, manifest.step, target.cluster}, "forked");
  absl::Status copied = to.MakeFolder();
  if (copied.ok()) copied = CopyState(source, from, target.spec, layout, copy, stop);
  if (copied.ok()) {
    manifest.segments = copy.Release();
    absl::StatusOr<Manifest> committed =
        CommitCheckpoint(catalogue, own, to, false, absl::ToUnixSeconds(absl::Now()));
    if (committed.ok()) return committed;
    copied = committed.status();
  } else {
    copy.Drop();
  }
  // Where another coordinator has taken our place, nothing is deleted any more.
  const absl::Status dropped = catalogue.RemoveAll(target.id, to);
  return dropped.ok() ? copied : dropped;
}

}  // namespace muster::coordinator
