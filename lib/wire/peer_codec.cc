#include <optional>
#include <utility>
#include <vector>

#include "lib/wire/frame_proto.h"
#include "lib/wire/message_codec.h"
#include "lib/wire/parts_proto.h"
#include "muster/v1/exchange.pb.h"

namespace muster {
namespace {

// Norms, Results and the like begin with the same fields.
template <class Part, class Message>
void PutPlace(const Part& part, Message& out) {
  out.set_lineage(part.lineage.value());
  out.set_view(part.view.value());
  out.set_step(part.step.value());
}

template <class Part, class Message>
void GetPlace(Reader& reader, const Message& message, Part& part) {
  part.lineage = LineageNumber(reader.Number("lineage", message.lineage()));
  part.view = ViewNumber(reader.Number("view", message.view()));
  part.step = Step(reader.Number("step", message.step()));
}

ChunkId ReadChunk(Reader& reader, uint32_t chunk) {
  return ChunkId(reader.Small("chunks", chunk, 0, kMaxChunks - 1));
}

void Put(const Hello& hello, v1::PeerFrame& frame) {
  v1::Hello& out = *frame.mutable_hello();
  out.set_job(hello.job);
  Write(hello.from, *out.mutable_from());
  Write(hello.to, *out.mutable_to());
  Write(hello.speaks, *out.mutable_speaks());
}

Hello Get(Reader& reader, const v1::Hello& message) {
  return {reader.Text("job", message.job()), ReadSpeaker(reader, "from", message.from()),
          Read(reader, message.to()), Read(reader, message.speaks())};
}

void Put(const Inventory& have, v1::PeerFrame& frame) {
  v1::Inventory& out = *frame.mutable_inventory();
  PutPlace(have, out);
  Write(have.partials, *out.mutable_partials());
  Write(have.results, *out.mutable_results());
}

Inventory Get(Reader& reader, const v1::Inventory& message) {
  Inventory have;
  GetPlace(reader, message, have);
  have.partials = Read(reader, "partials", message.partials());
  have.results = Read(reader, "results", message.results());
  reader.SameCount("results", message.results().size(), message.partials().size());
  return have;
}

void Put(const Partials& partials, v1::PeerFrame& frame) {
  v1::Partials& out = *frame.mutable_partials();
  PutPlace(partials, out);
  for (const ChunkPartials& chunk : partials.chunks) {
    out.add_chunks(static_cast<uint32_t>(chunk.chunk.value()));
    out.add_counts(static_cast<uint32_t>(chunk.partials.size()));
    for (const Partial& partial : chunk.partials) {
      out.add_lo(static_cast<uint32_t>(partial.node.lo));
      out.add_hi(static_cast<uint32_t>(partial.node.hi));
      out.add_weights(partial.weight);
      out.add_losses(partial.loss);
      out.add_crcs(partial.crc);
    }
  }
  Write(partials.commands, *out.mutable_commands());
}

bool PartialListsMatch(Reader& reader, const v1::Partials& message) {
  int64_t subtrees = 0;
  for (const uint32_t count : message.counts()) subtrees += count;
  return reader.Count("chunks", message.chunks_size(), kMaxChunks) &&
         reader.SameCount("counts", message.counts_size(), message.chunks_size()) &&
         reader.SameCount("lo", message.lo_size(), subtrees) &&
         reader.SameCount("hi", message.hi_size(), subtrees) &&
         reader.SameCount("weights", message.weights_size(), subtrees) &&
         reader.SameCount("losses", message.losses_size(), subtrees) &&
         reader.SameCount("crcs", message.crcs_size(), subtrees);
}

Partial ReadPartial(Reader& reader, const v1::Partials& message, int i) {
  Partial partial;
  partial.node.hi = reader.Small("hi", message.hi(i), 1, kMaxLanes);
  partial.node.lo = reader.Small("lo", message.lo(i), 0, partial.node.hi - 1);
  partial.weight = reader.Number("weights", message.weights(i));
  partial.loss = message.losses(i);
  partial.crc = message.crcs(i);
  return partial;
}

Partials Get(Reader& reader, const v1::Partials& message) {
  Partials partials;
  GetPlace(reader, message, partials);
  if (!PartialListsMatch(reader, message)) return partials;
  partials.chunks.reserve(static_cast<size_t>(message.chunks_size()));
  int next = 0;
  for (int c = 0; c < message.chunks_size() && reader.ok(); ++c) {
    ChunkPartials& chunk = partials.chunks.emplace_back();
    chunk.chunk = ReadChunk(reader, message.chunks(c));
    const int end = next + static_cast<int>(message.counts(c));
    chunk.partials.reserve(message.counts(c));
    for (; next < end; ++next) chunk.partials.push_back(ReadPartial(reader, message, next));
  }
  partials.commands = Read(reader, message.commands());
  reader.Require(partials.commands.empty() || partials.chunks.empty(), "commands",
                 "only without chunks");
  return partials;
}

void Write(const std::vector<ChunkResult>& chunks, v1::ChunkResults& out) {
  for (const ChunkResult& chunk : chunks) {
    out.add_chunks(static_cast<uint32_t>(chunk.chunk.value()));
    out.add_weights(chunk.meta.weight);
    out.add_losses(chunk.meta.loss);
    out.add_sums_of_squares(chunk.meta.sum_of_squares);
    out.add_crcs(chunk.meta.crc);
    if (!chunk.meta.finite) out.add_not_finite(static_cast<uint32_t>(out.chunks_size() - 1));
  }
}

std::vector<ChunkResult> ReadChunks(Reader& reader, const v1::ChunkResults& message) {
  const Reader::Scope scope(reader, "chunks");
  std::vector<ChunkResult> chunks;
  const int count = message.chunks_size();
  if (!reader.Count("chunks", count, kMaxChunks) ||
      !reader.SameCount("weights", message.weights_size(), count) ||
      !reader.SameCount("losses", message.losses_size(), count) ||
      !reader.SameCount("sums_of_squares", message.sums_of_squares_size(), count) ||
      !reader.SameCount("crcs", message.crcs_size(), count))
    return chunks;
  chunks.reserve(static_cast<size_t>(count));
  for (int i = 0; i < count && reader.ok(); ++i)
    chunks.push_back({ReadChunk(reader, message.chunks(i)),
                      {reader.Number("weights", message.weights(i)), message.losses(i),
                       message.sums_of_squares(i), message.crcs(i)}});
  for (const int32_t i :
       ReadIndices(reader, "not_finite", message.not_finite(), count, chunks.size(), 0))
    chunks[static_cast<size_t>(i)].meta.finite = false;
  return chunks;
}

void Put(const Results& results, v1::PeerFrame& frame) {
  v1::Results& out = *frame.mutable_results();
  PutPlace(results, out);
  Write(results.chunks, *out.mutable_chunks());
  Write(results.commands, *out.mutable_commands());
}

Results Get(Reader& reader, const v1::Results& message) {
  Results results;
  GetPlace(reader, message, results);
  results.chunks = ReadChunks(reader, message.chunks());
  results.commands = Read(reader, message.commands());
  return results;
}

void Put(const Norms& norms, v1::PeerFrame& frame) {
  v1::Norms& out = *frame.mutable_norms();
  PutPlace(norms, out);
  Write(norms.chunks, *out.mutable_chunks());
}

Norms Get(Reader& reader, const v1::Norms& message) {
  Norms norms;
  GetPlace(reader, message, norms);
  norms.chunks = ReadChunks(reader, message.chunks());
  return norms;
}

void Put(const GlobalNorm& global_norm, v1::PeerFrame& frame) {
  v1::GlobalNorm& out = *frame.mutable_global_norm();
  PutPlace(global_norm, out);
  out.set_norm(global_norm.norm);
  out.set_not_finite(!global_norm.finite);
}

GlobalNorm Get(Reader& reader, const v1::GlobalNorm& message) {
  GlobalNorm global_norm;
  GetPlace(reader, message, global_norm);
  global_norm.norm = message.norm();
  global_norm.finite = !message.not_finite();
  return global_norm;
}

v1::PieceKind WireKind(PieceKind kind) {
  return static_cast<v1::PieceKind>(static_cast<int>(kind) + 1);
}

void Put(const Fetch& fetch, v1::PeerFrame& frame) {
  v1::Fetch& out = *frame.mutable_fetch();
  out.set_view(fetch.view.value());
  out.set_kind(WireKind(fetch.kind));
  out.set_slot(fetch.slot);
  out.set_step(fetch.step.value());
  for (const ChunkId chunk : fetch.chunks) out.add_chunks(static_cast<uint32_t>(chunk.value()));
}

Fetch Get(Reader& reader, const v1::Fetch& message) {
  Fetch fetch;
  fetch.view = ViewNumber(reader.Number("view", message.view()));
  fetch.kind = reader.Enum("kind", message.kind(), PieceKind::kResult);
  fetch.slot = reader.Small("slot", message.slot(), 0, kMaxOptimizerSlots - 1);
  fetch.step = Step(reader.Number("step", message.step()));
  if (!reader.Count("chunks", message.chunks_size(), kMaxChunks)) return fetch;
  fetch.chunks.reserve(static_cast<size_t>(message.chunks_size()));
  for (const uint32_t chunk : message.chunks()) fetch.chunks.push_back(ReadChunk(reader, chunk));
  return fetch;
}

void Put(const Pieces& pieces, v1::PeerFrame& frame) {
  v1::Pieces& out = *frame.mutable_pieces();
  PutPlace(pieces, out);
  out.set_kind(WireKind(pieces.kind));
  out.set_slot(pieces.slot);
  Write(pieces.chunks, *out.mutable_chunks());
  Write(pieces.commands, *out.mutable_commands());
  if (pieces.record) Write(*pieces.record, *out.mutable_record());
}

Pieces Get(Reader& reader, const v1::Pieces& message) {
  Pieces pieces;
  GetPlace(reader, message, pieces);
  pieces.kind = reader.Enum("kind", message.kind(), PieceKind::kResult);
  pieces.slot = reader.Small("slot", message.slot(), 0, kMaxOptimizerSlots - 1);
  pieces.chunks = ReadChunks(reader, message.chunks());
  pieces.commands = Read(reader, message.commands());
  if (message.has_record()) {
    const Reader::Scope scope(reader, "record");
    pieces.record = Read(reader, message.record());
  }
  return pieces;
}

std::optional<PeerMessage> Open(Reader& reader, const v1::PeerFrame& frame) {
  using Kind = v1::PeerFrame;
  switch (frame.kind_case()) {
    case Kind::kHello: return Get(reader, frame.hello());
    case Kind::kInventory: return Get(reader, frame.inventory());
    case Kind::kPartials: return Get(reader, frame.partials());
    case Kind::kResults: return Get(reader, frame.results());
    case Kind::kNorms: return Get(reader, frame.norms());
    case Kind::kGlobalNorm: return Get(reader, frame.global_norm());
    case Kind::kFetch: return Get(reader, frame.fetch());
    case Kind::kPieces: return Get(reader, frame.pieces());
    case Kind::KIND_NOT_SET: return std::nullopt;
  }
  return std::nullopt;
}

absl::Status CheckForm(const v1::PeerFrame& frame) {
  if (!frame.has_hello()) return absl::OkStatus();
  return CheckSpeaks(frame.hello().from().name(), frame.hello().speaks(), "the member it greeted");
}

}  // namespace

std::string Encode(const PeerMessage& message) {
  return EncodeIn<v1::PeerFrame>(message,
                                 [](const auto& kind, v1::PeerFrame& frame) { Put(kind, frame); });
}

absl::StatusOr<PeerMessage> DecodePeerMessage(std::string_view header) {
  return DecodeFrame(header, &Open);
}

absl::StatusOr<Hello> DecodeHello(std::string_view header) {
  return Only<Hello>(
      DecodeGreeting(header, {v1::PeerFrame::kHelloFieldNumber},
                     "who has not greeted may say Hello, and nothing else", &CheckForm, &Open),
      "that greets");
}

}  // namespace muster
