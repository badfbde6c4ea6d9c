#include "tests/sim/job.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "lib/domain/left_out.h"

namespace muster::sim {

using coordinator::OnAncestry;

namespace {

int64_t BatchOf(const JobOptions& options) {
  return options.batch > 0 ? options.batch : options.lanes;
}

// Of the training data. What is computed of no sample is used by nobody.
uint64_t SampleCountOf(const JobOptions& options) {
  if (options.stream) return std::max<uint64_t>(1, options.stream->samples);
  return static_cast<uint64_t>(BatchOf(options) * 7 + 3);
}

void AddStream(JobSpec& spec, const StreamOptions& stream) {
  spec.training.data.format = DataFormat::kStream;
  spec.training.data.fields = {{.name = "position", .type = TensorType::kInt64, .shape = {}}};
  static_assert(kSimSampleBytes == sizeof(int64_t));
  spec.training.stream = stream.from;
  spec.training.steps = stream.steps;
  spec.training.epochs = stream.steps > 0 ? 0 : 1;
  spec.runtime.stream.path = "/stream";
  spec.runtime.stream.max_bytes = stream.max_bytes;
}

}  // namespace

void TakeStream(JobOptions& options, const StreamOptions& stream) {
  options.stream = stream;
  const StreamSteps steps{static_cast<uint64_t>(BatchOf(options)), stream.steps};
  options.steps = KnownTotal(steps, {stream.samples, stream.samples}).value();
}

JobSpec SpecOf(const JobOptions& options) {
  JobSpec spec;
  spec.training.task = "counting";
  spec.training.lanes = options.lanes;
  spec.training.batch = BatchOf(options);
  spec.training.steps = options.steps;
  spec.training.sync = options.sync;
  spec.training.clip_norm = options.clip_norm;
  spec.training.on_nan = options.on_nan;
  spec.training.order = options.order;
  spec.training.sync_batch_norm = options.phases > 0;
  spec.training.chunk_bytes = 64;
  spec.training.optimizer.kind = options.optimizer;
  spec.training.validation.every_steps = options.validation_every;
  spec.training.validation.patience = options.patience;
  if (options.delay > 0) {
    spec.training.validation.on = MeasuredOn::kFollower;
    spec.training.validation.delay = options.delay;
  }
  if (options.bad_every > 0) spec.training.data.on_bad_sample = OnBadSample::kSkip;
  spec.runtime.workers_max = options.workers;
  spec.runtime.workers_min = options.workers_min;
  spec.runtime.servers = options.sync == Sync::kServer ? options.servers : 0;
  spec.runtime.devices = options.devices;
  spec.runtime.restarts = kMostRestarts;  // processes die more often here than any job puts up with
  spec.runtime.checkpoint.every_steps = options.checkpoint_every;
  spec.runtime.checkpoint.every_epochs = options.checkpoint_epochs;
  spec.runtime.checkpoint.every_seconds = options.checkpoint_seconds;
  if (options.keeps_best) spec.runtime.checkpoint.keep_best = "validation.loss";
  spec.runtime.checkpoint.at_end = options.checkpoint_at_end;
  spec.queue.priority = options.priority;
  spec.runtime.bucket_bytes = 64;
  spec.runtime.fingerprint_every = 3;
  if (options.stream) AddStream(spec, *options.stream);
  return spec;
}

NumericEnvironment EnvironmentOf(const JobOptions& options) {
  NumericEnvironment environment;
  const JobSpec spec = SpecOf(options);
  environment.samples = options.stream ? kMostSamples : SampleCountOf(options);
  for (int32_t c = 0; c < options.chunks; ++c)
    environment.tensors.push_back({absl::StrCat("t", c), {16}, TensorKind::kParameter});
  for (int32_t c = 0; c < options.buffers; ++c)
    environment.tensors.push_back({absl::StrCat("b", c), {16}, TensorKind::kBuffer});
  if (options.validation_every > 0)
    for (const char* name : {"validation/loss", "validation/learned"})
      environment.tensors.push_back({name, {16}, TensorKind::kSum});
  if (LeavesOut(spec.training)) environment.tensors.push_back(LeftOutTensor(spec.training));
  for (int32_t p = 0; p < options.phases; ++p)
    environment.tensors.push_back(
        {absl::StrCat("sync/layer", p, "/forward"), {16}, TensorKind::kPhase});
  return environment;
}

std::vector<StepRecord> JobStore::Records() const {
  std::vector<StepRecord> records;
  for (const auto& [key, record] : ledger) records.push_back(record);
  return records;
}

Step JobStore::Recorded() const {
  if (!journal || journal->lineages.empty()) return Step(0);
  const Lineage& last = journal->lineages.back();
  Step next = last.fork;
  while (ledger.count({last.number, next}) > 0) next = next + 1;
  return next;
}

coordinator::RecentSteps JobStore::Recent() const {
  coordinator::RecentSteps recent;
  if (!journal || journal->lineages.empty()) return recent;
  const std::vector<Lineage>& lineages = journal->lineages;
  for (const auto& [of, sums] : facts) recent.Add({of.first, of.second, sums}, lineages);
  const Step next = Recorded();
  Step end = next;
  for (auto l = lineages.rbegin(); l != lineages.rend() && end > Step(0); ++l) {
    if (!OnAncestry(lineages, l->number, end)) continue;
    for (Step s = l->fork; s < end; s = s + 1) {
      if (const auto r = ledger.find({l->number, s}); r != ledger.end()) recent.Add(r->second);
      if (const auto f = fingerprints.find({l->number, s + 1}); f != fingerprints.end())
        recent.fingerprints[s + 1] = f->second;
    }
    end = std::min(end, l->fork);
  }
  const LineageNumber before = lineages.back().parent;
  if (before == LineageNumber(0)) return recent;
  for (const auto& [key, record] : ledger)
    if (key.first == before && key.second >= next) recent.voided_records[key.second] = record;
  for (const auto& [key, part] : fingerprints)
    if (key.first == before && key.second > next) recent.voided_fingerprints[key.second] = part;
  return recent;
}

void JobStore::Take(const coordinator::PersistStream& news) {
  std::map<int64_t, SpoolSegment> rows;
  for (const SpoolSegment& row : stream.segments) rows[row.number] = row;
  for (const SpoolSegment& row : news.segments) rows[row.number] = row;
  for (const SpoolSegment& row : news.trimmed) rows.erase(row.number);
  stream = {};
  for (const auto& [number, row] : rows) stream.segments.push_back(row);
  stream.mark = news.mark;
}

std::vector<Manifest> JobStore::Staying(const std::vector<Lineage>& lineages, const KeepRule& keep,
                                        const BestRule& best) const {
  std::vector<Manifest> usable;
  std::vector<std::optional<StateMeasure>> values;
  for (const Manifest& m : catalogue) {
    if (!OnAncestry(lineages, m.lineage, m.step)) continue;
    usable.push_back(m);
    const auto measure = measures.find({m.lineage, m.step});
    values.push_back(measure == measures.end() ? std::nullopt : std::optional(measure->second));
  }
  std::vector<bool> kept = Kept(usable, keep);
  if (const std::optional<size_t> found = BestOf(values, best)) kept[*found] = true;
  std::erase_if(usable, [&, i = size_t{0}](const Manifest&) mutable { return !kept[i++]; });
  return usable;
}

void JobStore::Prune(const coordinator::PruneManifests& prune) {
  catalogue = Staying(prune.lineages, prune.keep, prune.best);
}

SimJob::SimJob(const JobOptions& job_options)
    : options(job_options),
      spec(SpecOf(job_options)),
      environment(EnvironmentOf(job_options)),
      terms(spec.training, SampleCountOf(options), options.steps, Kinds(), SlotCount(spec.training),
            options.not_finite_every, options.bad_every),
      reference(terms) {
  if (options.stream) source.emplace(*options.stream);
}

std::vector<TensorKind> SimJob::Kinds() const {
  std::vector<TensorKind> kinds(static_cast<size_t>(options.chunks), TensorKind::kParameter);
  kinds.insert(kinds.end(), static_cast<size_t>(options.buffers), TensorKind::kBuffer);
  if (options.validation_every > 0 || options.bad_every > 0) kinds.push_back(TensorKind::kSum);
  kinds.insert(kinds.end(), static_cast<size_t>(options.phases), TensorKind::kPhase);
  return kinds;
}

}  // namespace muster::sim
