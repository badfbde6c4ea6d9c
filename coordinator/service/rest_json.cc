#include "coordinator/service/rest_json.h"

#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "lib/base/printable.h"
#include "lib/base/status.h"
#include "lib/http/server.h"
#include "lib/wire/job_document.h"

namespace muster::coordinator {
namespace {

Json NumberOrNull(std::optional<double> value) {
  return value && std::isfinite(*value) ? Json(*value) : Json(nullptr);
}

Json ToJson(const JobMember& m) {
  return {{"name", m.name},       {"role", m.role},
          {"rank", m.rank},       {"local_rank", m.local_rank},
          {"node", m.node},       {"host", m.host},
          {"address", m.address}, {"incarnation", m.incarnation},
          {"lanes", m.lanes},     {"state", m.state},
          {"phase", m.phase},     {"step", m.step}};
}

// As the body of an answer that is an error says it.
Json ErrorOf(const absl::Status& error) {
  if (error.ok()) return nullptr;
  const http::Response response = http::ErrorResponse(error, FieldOf(error));
  return Json::parse(response.body).at("error");
}

Json ToJson(const LedgerLane& lane) {
  return {{"lane", lane.lane},
          {"worker", lane.worker},
          {"incarnation", lane.incarnation},
          {"count", lane.count},
          {"samples", lane.samples ? Json(*lane.samples) : Json(nullptr)}};
}

Json ToJson(const LedgerStep& step) {
  Json lanes = Json::array();
  for (const LedgerLane& lane : step.lanes) lanes.push_back(ToJson(lane));
  return {{"step", step.step},
          {"epoch", step.epoch},
          {"lineage", step.lineage},
          {"view", step.view},
          {"loss", NumberOrNull(step.loss)},
          {"weight", step.weight},
          {"skipped", step.skipped},
          {"lanes", std::move(lanes)}};
}

Json ToJson(const HistoryStep& step) {
  return {{"step", step.step},
          {"lineage", step.lineage},
          {"epoch", step.epoch},
          {"time", step.unix_ms == 0 ? Json(nullptr) : Json(UtcTime(step.unix_ms))},
          {"loss", NumberOrNull(step.loss)},
          {"learning_rate", NumberOrNull(step.learning_rate)},
          {"gradient_norm", NumberOrNull(step.gradient_norm)},
          {"samples_per_second", NumberOrNull(step.samples_per_second)}};
}

template <class T>
Json OrNull(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json ToJson(const CertificateOfAuthority& one) {
  return {{"sha256", one.hash},
          {"begins", UtcTime(one.begins_unix_ms)},
          {"ends", UtcTime(one.ends_unix_ms)},
          {"certificate", one.pem}};
}

// Fields of events are text; those that are numbers become numbers.
Json FieldValue(const std::string& name, const std::string& text) {
  int64_t whole = 0;
  double number = 0;
  const bool counts = name == "step" || name == "epoch" || name == "samples" || name == "view" ||
                      name == "lineage" || name == "lanes" || name == "recomputed";
  if (counts && absl::SimpleAtoi(text, &whole)) return whole;
  const bool measures = name == "loss" || name == "gradient_norm";
  if (measures && absl::SimpleAtod(text, &number)) return NumberOrNull(number);
  if (text == "true" || text == "false") return text == "true";
  return text;
}

}  // namespace

std::string Text(const Json& json) {
  return PrintableJson(json.dump(-1, ' ', false, Json::error_handler_t::replace));
}

Json ToJson(const JobInfo& job) {
  Json members = Json::array();
  for (const JobMember& m : job.members) members.push_back(ToJson(m));
  Json checkpoints = Json::array();
  for (const CheckpointRef& c : job.checkpoints)
    checkpoints.push_back({{"lineage", c.lineage}, {"step", c.step}});
  Json json = {{"id", job.id},
               {"name", job.name},
               {"state", job.state},
               {"reason", job.reason},
               {"waits_for", job.waits_for},
               {"deleting", job.deleting},
               {"owner", job.owner},
               {"first_start", job.first_start},
               {"step", job.step},
               {"steps", job.steps},
               {"epoch", job.epoch},
               {"epochs", job.epochs},
               {"samples", job.samples},
               {"loss", NumberOrNull(job.loss)},
               {"digest", job.digest.empty() ? Json(nullptr) : Json(job.digest)},
               {"digest_step", job.digest_step},
               {"sample", job.sample},
               {"fingerprint", job.fingerprint},
               {"fingerprint_step", job.fingerprint_step},
               {"view", job.view},
               {"lineage", job.lineage},
               {"workers", job.workers},
               {"members", std::move(members)},
               {"views", job.views},
               {"recoveries", job.recoveries},
               {"rewinds", job.rewinds},
               {"lanes_recomputed", job.lanes_recomputed},
               {"seconds", job.seconds},
               {"seconds_left", NumberOrNull(job.seconds_left)},
               {"checkpoints", std::move(checkpoints)},
               {"spec", Json(ToDocument(*job.spec))}};
  json["exit_code"] = job.exit_code ? Json(*job.exit_code) : Json(nullptr);
  json["checkpoint_step"] = job.checkpoint_step ? Json(*job.checkpoint_step) : Json(nullptr);
  return json;
}

Json ToJson(const SubmittedJob& submitted) { return ToJson(submitted.job); }

Json ToJson(const AdoptionInfo& adoption) {
  return {{"adoption", adoption.adoption},
          {"folder", adoption.folder},
          {"job", adoption.job.empty() ? Json(nullptr) : Json(adoption.job)},
          {"state", adoption.state},
          {"step", adoption.state == kAdoptionDone ? Json(adoption.step) : Json(nullptr)},
          {"bytes", adoption.bytes},
          {"of_bytes", adoption.of_bytes == 0 ? Json(nullptr) : Json(adoption.of_bytes)},
          {"seconds", adoption.seconds},
          {"bytes_per_second", adoption.bytes_per_second},
          {"seconds_left", NumberOrNull(adoption.seconds_left)},
          {"passed_over", adoption.passed_over},
          {"error", ErrorOf(adoption.error)}};
}

Json ToJson(const JobAudit& audit) {
  Json lineages = Json::array();
  for (const JobAudit::Fork& f : audit.lineages)
    lineages.push_back(
        {{"number", f.number}, {"parent", f.parent}, {"fork", f.fork}, {"cause", f.cause}});
  return {{"ok", audit.ok},
          {"conclusion", audit.conclusion},
          {"steps", audit.steps},
          {"full_epochs", audit.full_epochs},
          {"samples", audit.samples},
          {"skipped_steps", audit.skipped_steps},
          {"skipped_samples", audit.skipped_samples},
          {"lanes", audit.lanes},
          {"lineages", std::move(lineages)}};
}

Json ToJson(const JobLedger& ledger) {
  Json steps = Json::array();
  for (const LedgerStep& step : ledger.steps) steps.push_back(ToJson(step));
  return {{"steps", std::move(steps)},
          {"next", ledger.next ? Json(*ledger.next) : Json(nullptr)},
          {"data_left_out", ledger.data_left_out}};
}

Json ToJson(const HistoryPage& page) {
  Json steps = Json::array();
  for (const HistoryStep& step : page.steps) steps.push_back(ToJson(step));
  return {{"steps", std::move(steps)}, {"next", page.next ? Json(*page.next) : Json(nullptr)}};
}

Json ToJson(const JobDigest& digest) {
  return {{"lineage", digest.lineage}, {"step", digest.step}, {"digest", digest.digest}};
}

Json ToJson(const LogPage& page) {
  Json lines = Json::array();
  for (const LogLine& line : page.lines)
    lines.push_back({{"member", line.member}, {"line", line.line}});
  return {{"lines", std::move(lines)}, {"next", page.next}, {"over", page.over}};
}

Json ToJson(const JobFingerprints& part) {
  Json list = Json::array();
  for (const JobFingerprint& f : part.fingerprints)
    list.push_back({{"step", f.step}, {"lineage", f.lineage}, {"value", f.value}});
  return {{"fingerprints", std::move(list)},
          {"next", part.next ? Json(*part.next) : Json(nullptr)}};
}

Json ToJson(const JobPage& page) {
  Json list = Json::array();
  for (const JobInfo& job : page.jobs) list.push_back(ToJson(job));
  return {{"jobs", std::move(list)}, {"next_page_token", page.next_page_token}};
}

Json ToJson(const HostInfo& host) {
  Json members = Json::array();
  for (const HostMember& m : host.members)
    members.push_back({{"job", m.job},
                       {"member", m.member},
                       {"role", m.role},
                       {"placement", m.placement},
                       {"devices", m.devices},
                       {"state", m.state}});
  return {{"name", host.name},
          {"node", host.node},
          {"slots", host.slots},
          {"used", host.used},
          {"free", host.free},
          {"devices", host.devices},
          {"devices_used", host.devices_used},
          {"up", host.up},
          {"away_for_seconds", host.up ? Json(nullptr) : Json(host.away_for_seconds)},
          {"draining", host.draining},
          {"left_out_by", host.left_out_by},
          {"left_out", host.left_out},
          {"namespace", host.name_space.empty() ? Json(nullptr) : Json(host.name_space)},
          {"members", std::move(members)}};
}

Json ToJson(const NamespaceInfo& info) {
  return {{"name", info.name},
          {"slots", OrNull(info.slots)},
          {"queued", OrNull(info.queued)},
          {"priority", info.priority},
          {"slots_held", info.slots_held},
          {"jobs_running", info.jobs_running},
          {"jobs_queued", info.jobs_queued}};
}

Json ToJson(const NamespaceList& all) {
  Json list = Json::array();
  for (const NamespaceInfo& info : all.namespaces) list.push_back(ToJson(info));
  return {{"namespaces", std::move(list)}};
}

Json ToJson(const HostPage& page) {
  Json list = Json::array();
  for (const HostInfo& host : page.hosts) list.push_back(ToJson(host));
  return {{"hosts", std::move(list)},
          {"next_page_token", page.next_page_token},
          {"revoked", page.revoked}};
}

Json ToJson(const TokenInfo& token) {
  return {{"id", token.id},
          {"user", token.user},
          {"role", token.role},
          {"namespace", token.name_space},
          {"made", UtcTime(token.made_unix_ms)},
          {"expires",
           token.expires_unix_ms == 0 ? Json(nullptr) : Json(UtcTime(token.expires_unix_ms))}};
}

Json ToJson(const MadeToken& made) {
  Json json = ToJson(made.info);
  json["token"] = made.token;
  return json;
}

Json ToJson(const TokenList& list) {
  Json tokens = Json::array();
  for (const TokenInfo& token : list.tokens) tokens.push_back(ToJson(token));
  return {{"tokens", std::move(tokens)}};
}

Json ToJson(const AdmittedHost& host) {
  return {{"host", host.host},
          {"namespace", host.name_space.empty() ? Json(nullptr) : Json(host.name_space)},
          {"certified", host.certified},
          {"revoked", host.revoked},
          {"token", host.token.empty() ? Json(nullptr) : Json(host.token)}};
}

Json ToJson(const SignedCertificate& made) {
  return {{"cluster", made.cluster},
          {"certificate", made.certificate_pem},
          {"authority", made.authority_pem},
          {"now", UtcTime(made.now_unix_ms)}};
}

Json ToJson(const AuthorityInfo& info) {
  Json trusted_on = Json::array(), hosts = Json::array();
  for (const CertificateOfAuthority& one : info.trusted_on) trusted_on.push_back(ToJson(one));
  for (const HostTrust& host : info.hosts)
    hosts.push_back({{"name", host.name}, {"state", host.state}});
  return {{"signs", ToJson(info.signs)},
          {"trusted_on", std::move(trusted_on)},
          {"change_ends",
           info.change_ends_unix_ms ? Json(UtcTime(*info.change_ends_unix_ms)) : Json(nullptr)},
          {"hosts", std::move(hosts)}};
}

Json ToJson(const JobEvent& event) {
  Json json = {{"seq", event.seq},
               {"time", UtcTime(event.unix_ms)},
               {"event", event.event},
               {"text", event.text}};
  for (const auto& [name, text] : event.fields) json[name] = FieldValue(name, text);
  return json;
}

}  // namespace muster::coordinator
