#include "coordinator/runtime/outbox.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "lib/base/digits.h"
#include "lib/base/plural.h"
#include "lib/base/printable.h"
#include "lib/base/status.h"
#include "lib/wire/journal_codec.h"

namespace muster::coordinator {
namespace {

constexpr char kFamily[] = "journal";
constexpr char kOutboxPrefix[] = "outbox/";
constexpr char kWebhookPrefix[] = "webhook/";
constexpr size_t kPlaceBytes = 16;

void AppendNumber(std::string& key, int64_t number) {
  for (int shift = 56; shift >= 0; shift -= 8)
    key.push_back(static_cast<char>((static_cast<uint64_t>(number) >> shift) & 0xff));
}

int64_t NumberIn(absl::string_view bytes) {
  uint64_t number = 0;
  for (const char c : bytes.substr(0, 8)) number = number << 8 | static_cast<unsigned char>(c);
  return static_cast<int64_t>(number);
}

std::string BytesOf(OutboxPlace place) {
  std::string bytes;
  AppendNumber(bytes, place.term);
  AppendNumber(bytes, place.seq);
  return bytes;
}

std::optional<OutboxPlace> PlaceIn(absl::string_view bytes) {
  if (bytes.size() != kPlaceBytes) return std::nullopt;
  return OutboxPlace{NumberIn(bytes), NumberIn(bytes.substr(8))};
}

std::string KeyOf(OutboxPlace place) { return absl::StrCat(kOutboxPrefix, BytesOf(place)); }

absl::StatusOr<OutboxEvent> Decode(absl::string_view bytes) {
  MUSTER_ASSIGN_OR_RETURN(auto fields, DecodeFields({bytes.data(), bytes.size()}));
  OutboxEvent event{.type = fields["type"],
                    .job = fields["job"],
                    .name_space = fields["namespace"],
                    .owner = fields["owner"],
                    .state = fields["state"],
                    .reason = fields["reason"],
                    .digest = fields["digest"]};
  if (event.type.empty()) return absl::InvalidArgumentError("type: is missing");
  if (!ParseDigits(fields["time"], &event.unix_ms))
    return absl::InvalidArgumentError("time: is no number");
  if (!ParseDigits(fields["start"], &event.start))
    return absl::InvalidArgumentError("start: is no number");
  if (!ParseDigits(fields["step"], &event.step))
    return absl::InvalidArgumentError("step: is no number");
  int code = 0;
  if (const std::string& text = fields["exit_code"]; !text.empty()) {
    if (!absl::SimpleAtoi(text, &code))
      return absl::InvalidArgumentError("exit_code: is no number");
    event.exit_code = code;
  }
  return event;
}

std::string TypeOf(JobPhase phase) { return absl::StrCat("job.", std::string(PhaseName(phase))); }

OutboxEvent About(const JobJournal& job, int64_t unix_ms) {
  return {.unix_ms = unix_ms,
          .job = job.id,
          .name_space = job.spec.queue.name_space,
          .owner = job.owner,
          .state = std::string(PhaseName(job.phase)),
          .reason = Cut(Printable(job.reason)),
          .digest = job.ending.digest,
          .start = job.start.value(),
          .step = job.recorded.value()};
}

}  // namespace

bool TellsOfAnEnd(const OutboxEvent& event) {
  return std::any_of(std::begin(kJobPhases), std::end(kJobPhases),
                     [&](JobPhase phase) { return Ended(phase) && event.type == TypeOf(phase); });
}

std::vector<OutboxEvent> EventsOfChange(std::optional<JobPhase> before, const JobJournal& now,
                                        int64_t unix_ms) {
  if (before == now.phase) return {};
  std::vector<OutboxEvent> events;
  const bool was_queued_unseen =
      (!before || Ended(*before)) && now.phase != JobPhase::kQueued && !Ended(now.phase);
  OutboxEvent event = About(now, unix_ms);
  event.type = TypeOf(now.phase);
  if (was_queued_unseen) {
    OutboxEvent queued = event;
    queued.type = TypeOf(JobPhase::kQueued);
    queued.state = PhaseName(JobPhase::kQueued);
    queued.reason.clear();
    events.push_back(std::move(queued));
  }
  if (Ended(now.phase)) event.exit_code = now.ending.exit_code;
  events.push_back(std::move(event));
  return events;
}

std::optional<OutboxEvent> EventOfAnnouncement(const std::string& event, const std::string& text,
                                               const std::map<std::string, std::string>& fields,
                                               const JobJournal& job, int64_t unix_ms) {
  if (event != "checkpoint" || !fields.contains("saves")) return std::nullopt;
  OutboxEvent told = About(job, unix_ms);
  told.type = std::string(fields.at("saves") == "true" ? kCheckpointCommitted : kCheckpointFailed);
  told.reason = Cut(Printable(text));
  if (const auto step = fields.find("step"); step != fields.end())
    if (int64_t number = 0; ParseDigits(step->second, &number)) told.step = number;
  return told;
}

bool FailedCheckpoints::Take(OutboxEvent& event, Time now) {
  OfJob& job = jobs_[event.job];
  // Each of its members tells it.
  if (event.start == job.start && event.step == job.step) return false;
  job.start = event.start;
  job.step = event.step;
  const std::optional<int64_t> left_out = job.allowance.Take(now);
  if (!left_out) return false;
  if (*left_out > 0)
    absl::StrAppend(&event.reason, " (", Plural(*left_out, "failure"),
                    " before it are not told: there were too many)");
  return true;
}

void PutEvent(Batch& batch, OutboxPlace place, const OutboxEvent& event) {
  batch.Put(kFamily, KeyOf(place),
            EncodeFields({{"type", event.type},
                          {"time", absl::StrCat(event.unix_ms)},
                          {"job", event.job},
                          {"namespace", event.name_space},
                          {"owner", event.owner},
                          {"state", event.state},
                          {"reason", event.reason},
                          {"digest", event.digest},
                          {"start", absl::StrCat(event.start)},
                          {"step", absl::StrCat(event.step)},
                          {"exit_code", event.exit_code ? absl::StrCat(*event.exit_code) : ""}}));
}

absl::Status ScanOutbox(const Kv& kv, OutboxPlace from,
                        const std::function<bool(PlacedEvent)>& visit,
                        const std::function<void(const DamagedEvent&)>& damaged) {
  const auto take = [&](absl::string_view key, absl::string_view value) {
    const auto place = PlaceIn(absl::StripPrefix(key, kOutboxPrefix));
    absl::StatusOr<OutboxEvent> event = Decode(value);
    if (place && event.ok()) return visit({*place, *std::move(event)});
    damaged({place, absl::StrCat("an event for webhooks cannot be read: ",
                                 place ? absl::StrCat("term ", place->term, ", number ", place->seq,
                                                      ": ", event.status().message())
                                       : "its key is not one")});
    return true;
  };
  const absl::Status scanned = kv.Scan(kFamily, KeyOf(from), PrefixEnd(kOutboxPrefix), take);
  if (!absl::IsDataLoss(scanned)) return scanned;
  return absl::DataLossError(
      absl::StrCat("the journal is damaged: what webhooks are to be told: ", scanned.message(),
                   ". Bring back the newest copy of the directory; or leave --webhooks out, and "
                   "nobody is told"));
}

absl::Status DeleteEvents(Kv& kv, const std::vector<OutboxPlace>& places) {
  Batch batch;
  for (const OutboxPlace place : places) batch.Delete(kFamily, KeyOf(place));
  return batch.empty() ? absl::OkStatus() : kv.Write(batch);
}

absl::StatusOr<size_t> WriteCursors(Kv& kv, const std::map<std::string, OutboxPlace>& cursors,
                                    OutboxPlace end, size_t most) {
  MUSTER_ASSIGN_OR_RETURN(const auto before, ReadCursors(kv));
  Batch batch;
  for (const auto& [name, place] : before)
    if (!cursors.contains(name)) batch.Delete(kFamily, absl::StrCat(kWebhookPrefix, name));
  for (const auto& [name, place] : cursors)
    if (const auto old = before.find(name); old == before.end() || old->second != place)
      batch.Put(kFamily, absl::StrCat(kWebhookPrefix, name), BytesOf(place));
  size_t deleted = 0;
  MUSTER_RETURN_IF_ERROR(
      kv.Scan(kFamily, kOutboxPrefix, KeyOf(end), [&](absl::string_view key, absl::string_view) {
        if (deleted == most) return false;
        batch.Delete(kFamily, key);
        ++deleted;
        return true;
      }));
  if (!batch.empty()) MUSTER_RETURN_IF_ERROR(kv.Write(batch));
  return deleted;
}

// One that cannot be read is as if there were none: that webhook begins with what is new.
absl::StatusOr<std::map<std::string, OutboxPlace>> ReadCursors(const Kv& kv) {
  std::map<std::string, OutboxPlace> cursors;
  MUSTER_RETURN_IF_ERROR(kv.Scan(kFamily, kWebhookPrefix, PrefixEnd(kWebhookPrefix),
                                 [&](absl::string_view key, absl::string_view value) {
                                   if (const auto place = PlaceIn(value))
                                     cursors[std::string(absl::StripPrefix(key, kWebhookPrefix))] =
                                         *place;
                                   return true;
                                 }));
  return cursors;
}

}  // namespace muster::coordinator
