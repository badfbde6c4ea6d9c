#include "lib/member/runtime/data_path.h"

#include <algorithm>
#include <utility>

#include "lib/base/bytes.h"
#include "lib/base/check.h"
#include "lib/kernels/crc.h"
#include "lib/kernels/float_env.h"
#include "lib/wire/message_codec.h"

namespace muster {
namespace {

uint32_t CrcOf(absl::Span<const float> values) { return Crc32c(BytesOf(values)); }

const Part& FindPart(const Incoming& incoming, ChunkId chunk, std::optional<TreeNode> node) {
  const auto it = std::find_if(incoming.parts.begin(), incoming.parts.end(),
                               [&](const Part& p) { return p.chunk == chunk && p.node == node; });
  MUSTER_CHECK(it != incoming.parts.end(), "an action about a chunk that did not come");
  return *it;
}

// Results bring the checksum with them: it was taken when they were made.
bool BringsChecksum(const PeerMessage& message) {
  if (std::holds_alternative<Results>(message)) return true;
  const auto* pieces = std::get_if<Pieces>(&message);
  return pieces != nullptr && pieces->kind == PieceKind::kResult;
}

}  // namespace

DataPath::DataPath(SetupPtr setup, CopyCounter& copied)
    : setup_(std::move(setup)),
      copied_(copied),
      memory_(setup_->pool, setup_->spec.training.sync),
      accumulator_(copied),
      updater_(setup_->spec.training, setup_->rules, setup_->sums, setup_->environment.samples,
               copied),
      sum_meta_(static_cast<size_t>(setup_->layout.chunk_count())) {}

// A buffer chunk's value is lane 0's and stands in whatever subtree holds lane 0: the first one.
DataPath::Source DataPath::OwnSumOf(ChunkId c, TreeNode node) const {
  const Chunk& where = chunk(c);
  if (where.kind == TensorKind::kPhase) {
    const auto phase = own_phases_.find({c, node});
    MUSTER_CHECK(phase != own_phases_.end(), "a sum of a phase that is not held");
    return {{phase->second.get(), static_cast<size_t>(where.count)}, phase->second};
  }
  const bool is_buffer = where.kind == TensorKind::kBuffer;
  const auto it = is_buffer ? own_sums_.begin() : own_sums_.find(node);
  MUSTER_CHECK(it != own_sums_.end(), "a partial sum that is not held");
  MUSTER_CHECK(!is_buffer || it->first.lo == 0);
  return {it->second->of(where), it->second};
}

FlatPtr DataPath::FlatSourceOf(const PeerMessage& message) {
  if (const auto* results = std::get_if<Results>(&message)) return memory_.Results(results->step);
  const auto& pieces = std::get<Pieces>(message);
  if (pieces.kind == PieceKind::kResult) return memory_.Results(pieces.step);
  memory_.Lend();
  return pieces.kind == PieceKind::kValues ? memory_.Values(pieces.step)
                                           : memory_.Slot(pieces.slot);
}

DataPath::Source DataPath::SourceOf(const PeerMessage& message, const Part& part) {
  if (std::holds_alternative<Partials>(message)) return OwnSumOf(part.chunk, *part.node);
  const FlatPtr flat = FlatSourceOf(message);
  return {flat->of(chunk(part.chunk)), flat};
}

std::vector<Frame> DataPath::FramesOf(PeerMessage message) {
  std::vector<Frame> frames;
  for (PeerMessage& piece : Split(std::move(message), setup_->layout, kFramePayloadBytes)) {
    absl::StatusOr<std::vector<Part>> parts = PartsOf(piece, setup_->layout);
    MUSTER_CHECK(parts.ok(), "the machine sends chunks of the layout");
    Frame frame;
    std::vector<std::shared_ptr<const void>> kept;
    for (Part& part : *parts) {
      Source source = SourceOf(piece, part);
      if (!BringsChecksum(piece)) part.crc = CrcOf(source.values);
      frame.payload.slices.push_back(BytesOf(source.values));
      if (kept.empty() || kept.back() != source.keep) kept.push_back(std::move(source.keep));
    }
    if (!kept.empty()) frame.payload.keep = std::make_shared<decltype(kept)>(std::move(kept));
    SetChecksums(piece, *parts);
    frame.header = Encode(piece);
    frames.push_back(std::move(frame));
  }
  return frames;
}

absl::Span<float> DataPath::PlaceOfSum(Step step, ChunkId c) {
  if (!owners_apply()) return memory_.ReceiveBuffer(step)->of(chunk(c));
  if (!sums_) sums_ = memory_.pool().Borrow();
  return sums_->of(chunk(c));
}

std::optional<Summed> DataPath::Fold(const FoldIn& fold, const Incoming* incoming) {
  MUSTER_CHECK(FloatEnvironmentIsSet(), "sums are made where subnormal numbers count as zero");
  const Chunk& where = chunk(fold.chunk);
  std::vector<std::pair<TreeNode, ArrivedSum>> arrived;
  for (TreeNode node : fold.arrived) {
    if (fold.own) {
      Source sum = OwnSumOf(fold.chunk, node);
      arrived.emplace_back(node, OwnSum{sum.values, std::move(sum.keep)});
    } else {
      MUSTER_CHECK(incoming != nullptr, "partials of a peer without a message");
      const Part& part = FindPart(*incoming, fold.chunk, node);
      arrived.emplace_back(node, ReceivedSum{incoming->payload, part.byte_offset});
    }
  }
  const absl::Span<float> out = PlaceOfSum(fold.step, fold.chunk);
  accumulator_.Add(fold.chunk, std::move(arrived), fold.folds, fold.total.has_value(), out);
  if (!fold.total) return std::nullopt;
  if (where.kind == TensorKind::kParameter) setup_->rules.ZeroFrozen(where.offset, out);
  const ResultMeta meta = Reduce(setup_->spec.training, where.kind, *fold.total, out);
  sum_meta_[static_cast<size_t>(fold.chunk.value())] = meta;
  return Summed{fold.step, fold.chunk, meta};
}

Summed DataPath::Write(const WriteFact& write) {
  const absl::Span<float> sum = PlaceOfSum(write.step, write.chunk);
  setup_->sums.WriteMeasured(write.sums, sum);
  ResultMeta& meta = sum_meta_[static_cast<size_t>(write.chunk.value())];
  meta.crc = CrcOf(sum);
  return {write.step, write.chunk, meta};
}

void DataPath::StoreAll(const std::vector<ChunkId>& chunks, const FlatBuffer& to,
                        const Incoming& incoming) {
  for (ChunkId c : chunks) {
    const Part& part = FindPart(incoming, c, std::nullopt);
    CopySlices(absl::MakeConstSpan(incoming.payload->slices), part.byte_offset, to.of(chunk(c)),
               copied_);
  }
}

void DataPath::StoreResultsOf(const StoreResults& store, const Incoming& incoming) {
  StoreAll(store.chunks, *memory_.ReceiveBuffer(store.step), incoming);
}

void DataPath::StoreState(const StorePieces& store, const Incoming& incoming) {
  const FlatPtr& to =
      store.kind == PieceKind::kValues ? memory_.Values(store.step) : memory_.Slot(store.slot);
  StoreAll(store.chunks, *to, incoming);
}

Slots DataPath::SlotsOf(const Chunk& c) const {
  Slots slots;
  if (c.kind != TensorKind::kParameter) return slots;
  for (size_t s = 0; s < memory_.slots().size(); ++s) slots[s] = memory_.slots()[s]->of(c);
  return slots;
}

// Slots live once and are sent to nobody, so they are updated where they are.
ChunksApplied DataPath::ApplySums(const ApplyChunks& apply,
                                  const std::function<void()>& after_each) {
  MUSTER_CHECK(FloatEnvironmentIsSet(), "updates are made where subnormal numbers count as zero");
  ChunksApplied applied{apply.step, {}};
  const FlatPtr from = memory_.Values(apply.step);
  const FlatPtr to = memory_.ReceiveBuffer(apply.step);
  const double rate = updater_.RateOf(apply.step, /*cuts=*/0);  // a plateau needs no server
  for (ChunkId c : apply.chunks) {
    const Chunk& where = chunk(c);
    ResultMeta meta = sum_meta_[static_cast<size_t>(c.value())];
    if (apply.skip) {
      CopyFloats(from->of(where), to->of(where), copied_);
      updater_.MoveAverage(where, apply.step, to->of(where), SlotsOf(where));
      meta.finite = false;
    } else {
      updater_.Apply(where, apply.step, rate, apply.norm, sums_->of(where), from->of(where),
                     to->of(where), SlotsOf(where));
    }
    meta.crc = CrcOf(to->of(where));
    if (where.kind == TensorKind::kSum) applied.measured = setup_->sums.Read(to->of(where));
    applied.chunks.push_back({c, meta});
    after_each();
  }
  return applied;
}

}  // namespace muster
