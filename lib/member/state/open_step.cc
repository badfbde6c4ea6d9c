#include "lib/member/state/open_step.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace muster {
namespace {

bool All(const ChunkSet& set) {
  return std::all_of(set.begin(), set.end(), [](bool b) { return b; });
}

std::vector<ChunkId> ChunksOf(const ChunkSet& set) {
  std::vector<ChunkId> chunks;
  for (size_t c = 0; c < set.size(); ++c)
    if (set[c]) chunks.emplace_back(static_cast<int32_t>(c));
  return chunks;
}

// An owner that applies has only its own results, and was told the norm; others have all results.
double NormOf(const ClosedStep& done) {
  if (done.global_norm) return done.global_norm->norm;
  double sum = 0;
  for (const ResultMeta& m : done.meta) sum += m.sum_of_squares;
  return std::sqrt(sum);
}

}  // namespace

bool ClosedStep::Stops() const {
  return ends_job || std::any_of(commands.begin(), commands.end(), [](const JobCommand& command) {
           return command.kind != JobCommandKind::kCheckpoint;
         });
}

bool ClosedStep::FindsEnough() const { return measures && measured->learned.enough; }

OpenStep::OpenStep(ConfigPtr config, Step step)
    : config_(std::move(config)),
      step_(step),
      lanes_{0, {}, ChunkSet(config_->chunks.size(), false), {}, {}},
      sums_(config_->chunks.size(), false),
      sum_meta_(config_->chunks.size()),
      applied_(config_->chunks.size(), false),
      results_(config_->chunks.size(), false),
      meta_(config_->chunks.size()) {}

std::vector<ChunkId> OpenStep::CompleteSums() const { return ChunksOf(sums_); }

bool OpenStep::computed() const { return All(lanes_.ready); }

bool OpenStep::applying() const {
  return std::find(applied_.begin(), applied_.end(), true) != applied_.end();
}

int64_t OpenStep::result_count() const {
  return std::count(results_.begin(), results_.end(), true);
}

bool OpenStep::HasAll(const std::vector<ChunkId>& chunks) const {
  return std::all_of(chunks.begin(), chunks.end(), [&](ChunkId c) { return HasResult(c); });
}

// ---- our lanes

void OpenStep::BeginIn(const Seat& seat) {
  incomplete_ = Sums(config_->training.lanes, seat.view.LanesAt(step_), config_->chunks,
                     config_->training.order);
}

std::optional<Compute> OpenStep::IssueLanes(const Seat& seat, int64_t id) {
  bool needed = false;
  for (int32_t c = 0; c < config_->chunk_count(); ++c)
    needed = needed || !seat.IsDone(step_, ChunkId(c));
  if (!needed) return std::nullopt;
  const std::vector<LaneId> ours = seat.LanesAt(step_);
  std::vector<LaneId> added, all;
  std::set_difference(ours.begin(), ours.end(), lanes_.issued.begin(), lanes_.issued.end(),
                      std::back_inserter(added));
  if (added.empty()) return std::nullopt;
  std::merge(added.begin(), added.end(), lanes_.issued.begin(), lanes_.issued.end(),
             std::back_inserter(all));
  lanes_ = Lanes{id, std::move(all), ChunkSet(config_->chunks.size(), false), {}, {}};
  Compute compute{id, step_, std::move(added), Subtrees(lanes_.issued, config_->training.lanes)};
  for (ChunkId c : ChunksOf(results_))
    if (config_->is_phase(c)) compute.totals.push_back(c);
  return compute;
}

std::optional<GiveTotals> OpenStep::TakeTotals() {
  if (lanes_.totals.empty()) return std::nullopt;
  return GiveTotals{step_, std::exchange(lanes_.totals, {})};
}

bool OpenStep::Finish(const Ready& ready) {
  if (lanes_.id == 0 || ready.id != lanes_.id) return false;
  lanes_.partials = ready.partials;
  for (ChunkId c : ready.chunks) lanes_.ready[Index(c)] = true;
  return true;
}

std::vector<ChunkId> OpenStep::ReadyChunks() const { return ChunksOf(lanes_.ready); }

std::optional<ChunkId> OpenStep::AwaitedPhase() const {
  for (const auto& [c, layer] : config_->layers)
    if (lanes_.ready[Index(c)] && !HasResult(c)) return c;
  return std::nullopt;
}

int32_t OpenStep::MissingOf(const Seat& seat, ChunkId c) const {
  if (!seat.Owns(c)) return seat.OwnerOf(c);
  for (const int32_t holder : seat.view.LanesAt(step_).holder_of)
    if (!incomplete_.HasFrom(holder, c)) return holder;
  return seat.me;
}

// All subtrees go out; of a buffer chunk only lane 0's. A phase is not divided, and comes before
// the lanes' weights are known.
std::vector<Partial> OpenStep::PartialsOf(ChunkId c) const {
  const std::vector<Partial>& ours = lanes_.partials;
  if (config_->is_phase(c)) {
    std::vector<Partial> terms;
    for (const Partial& of : ours) terms.push_back({of.node, 0, 0, 0});
    return terms;
  }
  if (config_->chunks[Index(c)] != TensorKind::kBuffer) return ours;
  if (ours.empty() || ours.front().node.lo != 0) return {};
  Partial first = ours.front();
  first.node = {0, 1};
  return {first};
}

// ---- sums of the chunks that we own

absl::StatusOr<FoldIn> OpenStep::Fold(int32_t sender, const ChunkPartials& arrival, bool own) {
  absl::StatusOr<Additions> additions = incomplete_.Add(sender, arrival);
  if (!additions.ok()) return additions.status();
  FoldIn fold{step_, arrival.chunk, own, {}, std::move(additions->folds), additions->total};
  for (const Partial& p : arrival.partials) fold.arrived.push_back(p.node);
  return fold;
}

void OpenStep::AddSum(ChunkId c, const ResultMeta& meta) {
  sums_[Index(c)] = true;
  sum_meta_[Index(c)] = meta;
}

ApplyChunks OpenStep::BeginApplying() {
  ApplyChunks apply{step_, {}, std::nullopt};
  if (config_->needs_global_norm() && !global_norm_) return apply;
  if (config_->clips()) apply.norm = global_norm_->norm;
  apply.skip = Skips();
  for (ChunkId c : CompleteSums()) {
    if (applied_[Index(c)]) continue;
    applied_[Index(c)] = true;
    apply.chunks.push_back(c);
  }
  return apply;
}

// ---- the global norm

void OpenStep::AddNorms(const std::vector<ChunkResult>& norms) {
  for (const ChunkResult& n : norms) norms_[n.chunk] = n.meta;
}

bool OpenStep::DecideGlobalNorm() {
  if (global_norm_ || norms_.size() < config_->chunks.size()) return false;
  StepNorm global;
  for (const auto& [chunk, meta] : norms_) {  // in chunk order
    global.norm += meta.sum_of_squares;
    global.finite = global.finite && meta.finite;
  }
  global.norm = std::sqrt(global.norm);
  global_norm_ = global;
  return true;
}

// ---- results

void OpenStep::AddResult(const ChunkResult& result, std::vector<JobCommand> commands) {
  const bool is_new = !HasResult(result.chunk);
  results_[Index(result.chunk)] = true;
  if (is_new && lanes_.id != 0 && config_->is_phase(result.chunk))
    lanes_.totals.push_back(result.chunk);
  meta_[Index(result.chunk)] = result.meta;
  if (result.chunk == ChunkId(0)) commands_ = std::move(commands);
}

std::optional<Apply> OpenStep::ApplyWhenComplete() const {
  if (!All(results_)) return std::nullopt;
  Apply apply{step_, std::nullopt, Skips(), {}};
  if (config_->clips() && !config_->owner_applies()) apply.norm = NormOfResults();
  if (apply.skip) apply.examine = lanes_.issued;
  return apply;
}

// Each result's header tells the sum of squares of its chunk; they are added in chunk order.
double OpenStep::NormOfResults() const {
  double sum = 0;
  for (const ResultMeta& m : meta_) sum += m.sum_of_squares;
  return std::sqrt(sum);
}

// Known once all results are here, or, to an owner that applies, the norm: every member finds the
// same, from the same bits.
bool OpenStep::Skips() const {
  if (!config_->skips()) return false;
  if (global_norm_ && !global_norm_->finite) return true;
  return std::any_of(meta_.begin(), meta_.end(), [](const ResultMeta& m) { return !m.finite; });
}

ClosedStep OpenStep::Close() && {
  const bool skipped = Skips();
  // A skipped step left what was measured before.
  const bool measures = measured_ && !measured_->measures.empty() && !skipped &&
                        BringerOf(config_->training.validation, measured_->step) == step_;
  return {step_,
          std::move(meta_),
          std::move(commands_),
          global_norm_,
          std::move(record_),
          skipped,
          skipped && config_->training.on_nan == OnNan::kStop,
          std::move(measured_),
          measures};
}

void HeldState::Advance(const ConfigPtr& config) {
  closed = std::move(open).Close();
  open = OpenStep(config, closed->step + 1);
}

void TakeWeight(const MemberConfig& config, const View& view, const ClosedStep& done,
                StepRecord& record) {
  const int32_t me = view.IndexOf(config.id);
  record.weight = 0;
  record.loss = 0;
  record.without_weight = true;
  // Also of the steps that measure nothing: records that count leave no gap.
  if (config.has_sums() && !done.measured) return;
  if (done.measured) {
    if (done.measures) record.measures = done.measured->measures;
    record.cuts = CutsIn(config.training.validation, *done.measured, done.step);
    if (!done.skipped) record.left_out = done.measured->left_out;
  }
  for (size_t c = 0; c < done.meta.size(); ++c) {
    const bool has = config.role == Role::kWorker || view.owner_of[c] == me;
    if (!has || config.chunks[c] == TensorKind::kBuffer || config.chunks[c] == TensorKind::kPhase)
      continue;
    record.weight = done.meta[c].weight;
    record.loss = done.meta[c].loss;
    record.without_weight = false;
    return;
  }
}

StepRecord RecordOf(const MemberConfig& config, const KnownSteps& known, const View& view,
                    LineageNumber lineage, const ClosedStep& done) {
  StepRecord record;
  record.lineage = lineage;
  record.step = done.step;
  record.view = view.number;
  record.lane_holders = view.LaneHoldersAt(done.step);
  record.samples = StepSamples(config.training, known.samples(), done.step);
  TakeWeight(config, view, done, record);
  record.commands = done.commands;
  record.skipped = done.skipped;
  if (IsMeasured(config.training)) record.norm = NormOf(done);
  return record;
}

}  // namespace muster
