#include "coordinator/service/rest_json.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "lib/base/status.h"
#include "lib/http/server.h"
#include "lib/wire/job_document.h"
#include "lib/wire/json_text.h"

namespace muster::coordinator {
namespace {

constexpr char kErrorDetail[] = "Error";

Json ErrorSchema() {
  return {{"type", "object"},
          {"description", "What went wrong."},
          {"properties",
           {{"code", {{"type", "string"}, {"description", "not_found and the like, for programs"}}},
            {"message", {{"type", "string"}, {"description", "for people: what to do, too"}}},
            {"field",
             {{"type", "string"},
              {"description", "which field or parameter; left out where it is none"}}}}},
          {"required", {"code", "message"}}};
}

// As the body of an answer that is an error says it.
Json ErrorOf(const absl::Status& error) {
  if (error.ok()) return nullptr;
  const http::Response response = http::ErrorResponse(error, FieldOf(error));
  return Json::parse(response.body).at("error");
}

// Fields of events are text; those that are numbers become numbers.
constexpr const char* kCounts[] = {"step",    "epoch", "samples",   "view",
                                   "lineage", "lanes", "recomputed"};
constexpr const char* kMeasures[] = {"loss", "gradient_norm"};
constexpr char kValidation[] = "validation.";  // and a metric of the task

bool IsAmong(const auto& names, const std::string& name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

Json FieldValue(const std::string& name, const std::string& text) {
  int64_t whole = 0;
  double number = 0;
  if (IsAmong(kCounts, name) && absl::SimpleAtoi(text, &whole)) return whole;
  const bool is_measure = IsAmong(kMeasures, name) || absl::StartsWith(name, kValidation);
  if (is_measure && absl::SimpleAtod(text, &number)) return ToJson(number);
  if (text == "true" || text == "false") return text == "true";
  return text;
}

Json EventSchema() {
  Json schema = ObjectSchema(ShapeOf<JobEvent>());
  for (const char* name : kCounts) schema["properties"][name] = {{"type", "integer"}};
  for (const char* name : kMeasures) schema["properties"][name] = {{"type", {"number", "null"}}};
  schema["patternProperties"]["^validation[.]"] = {{"type", {"number", "null"}}};
  schema["additionalProperties"] = {{"type", {"string", "boolean"}}};
  return schema;
}

template <class T>
void Add(Json& schemas) {
  schemas[ShapeOf<T>().name] = ObjectSchema(ShapeOf<T>());
}

}  // namespace

std::string Text(const Json& json) { return TextOfJson(json); }

template <>
const Shape<JobMember>& ShapeOf<JobMember>() {
  using M = JobMember;
  static const auto& shape = *new Shape<M>{
      "JobMember",
      "A process that takes part in a job.",
      {Of("name", &M::name, "worker-0, server-1"),
       Of("role", &M::role, "worker, server, follower or reader"),
       Of("rank", &M::rank, "its number among those of its role in the view"),
       Of("local_rank", &M::local_rank, "its number among those of its role on its node"),
       Of("node", &M::node, "its machine"),
       Of("host", &M::host, "the host on which it is placed; empty: no agent started it"),
       Of("address", &M::address, "where its peers reach it"),
       Of("incarnation", &M::incarnation, "of the process: another one has another"),
       Of("lanes", &M::lanes, "the lanes that it computes"),
       Of("state", &M::state, "joined, forming, active, spare, follows or reads"),
       Of("phase", &M::phase, "what it does or waits for"),
       Of("step", &M::step, "the step that it is in")}};
  return shape;
}

template <>
const Shape<CheckpointRef>& ShapeOf<CheckpointRef>() {
  using C = CheckpointRef;
  static const auto& shape =
      *new Shape<C>{"Checkpoint",
                    "A checkpoint that can be used.",
                    {Of("lineage", &C::lineage, "in which history it was taken"),
                     Of("step", &C::step, "the number of steps after which the state was taken")}};
  return shape;
}

template <>
const Shape<SavedCheckpoint>& ShapeOf<SavedCheckpoint>() {
  using S = SavedCheckpoint;
  static const auto& shape = *new Shape<S>{
      "SavedCheckpoint",
      "A checkpoint of a job, as it lies there.",
      {Of("checkpoint", &S::checkpoint, "its name in requests: lineage-L-step-S"),
       Of("lineage", &S::lineage, "in which history it was taken"),
       Of("step", &S::step, "the number of steps after which the state was taken"),
       Of("epoch", &S::epoch, "from 0; null: not known"), Of("bytes", &S::bytes, "of its files"),
       TimeOf("time", &S::unix_ms, "when it was committed"),
       Of("complete", &S::complete, "its files are there in full length"),
       NullWhereNone("why", &S::why, "why it is not complete, for people; null: it is"),
       Of("finite", &S::finite, "every value in it is"),
       NullWhereNone("name", &S::name, "that it is kept by; null: none"),
       NullWhereNone("measure", &S::measure, "what was measured of it; null: nothing"),
       Of("value", &S::value, "of that; null: nothing was measured"),
       Of("best", &S::best, "it is the best one, as checkpoint.keep of the job says"),
       Of("left_out", &S::left_out,
          "the job has gone back behind it, so that nothing goes on from it"),
       Of("deleting", &S::deleting, "it is being deleted")}};
  return shape;
}

template <>
const Shape<SavedCheckpoints>& ShapeOf<SavedCheckpoints>() {
  using S = SavedCheckpoints;
  static const auto& shape =
      *new Shape<S>{"SavedCheckpoints",
                    "One page of the checkpoints of a job, by lineage and step.",
                    {Of("checkpoints", &S::checkpoints, "those of this page"),
                     Of("next_page_token", &S::next_page_token,
                        "`page_token` of the next page; empty: this is the last one")}};
  return shape;
}

template <>
const Shape<ParentInfo>& ShapeOf<ParentInfo>() {
  using P = ParentInfo;
  static const auto& shape =
      *new Shape<P>{"Parent",
                    "The state of another job that a fork began with.",
                    {Of("job", &P::job, "its id, then"), Of("step", &P::step, "after"),
                     Of("digest", &P::digest, "of that state: 64 hexadecimal digits")}};
  return shape;
}

template <>
const Shape<StreamInfo>& ShapeOf<StreamInfo>() {
  using S = StreamInfo;
  static const auto& shape = *new Shape<S>{
      "Stream",
      "How far the data of a job has come that comes while it trains.",
      {Of("samples", &S::samples, "that came"),
       Of("end", &S::end, "samples in all; null: not known yet"),
       Of("trimmed", &S::trimmed, "the first so many are not kept any more"),
       Of("spool_bytes", &S::spool_bytes, "of what is kept"),
       NullWhereNone("file", &S::file,
                     "the last that was begun of its folder: earlier ones may be removed; null: "
                     "none")}};
  return shape;
}

template <>
const Shape<JobInfo>& ShapeOf<JobInfo>() {
  using J = JobInfo;
  static const auto& shape = *new Shape<J>{
      "Job",
      "A job, as it is now.",
      {Of("id", &J::id, "by which all other requests name it"),
       Of("name", &J::name, "what people and logs call it"),
       Of("state", &J::state,
          "queued, checking, starting, running, recovering, stopping, done, stopped, failed or "
          "cancelled"),
       Of("reason", &J::reason, "of the state, for people"),
       Of("waits_for", &J::waits_for, "what the next decision waits for; empty: nothing"),
       Of("deleting", &J::deleting, "true while what is kept of it is being removed"),
       Of("owner", &J::owner, "the user who submitted it first; empty: nobody was asked"),
       Of("parent", &J::parent, "what a fork began with; null: it is none"),
       Of("stream", &J::stream, "how far its stream has come; null: its data is all there"),
       Of("first_start", &J::first_start, "number of its first start; 0: it never started"),
       Of("step", &J::step, "steps that are done"),
       Of("steps", &J::steps, "steps in all; 0: not known yet"),
       Of("epoch", &J::epoch, "complete passes over the data"),
       Of("epochs", &J::epochs, "passes in all"),
       Of("samples", &J::samples, "samples used"),
       Of("loss", &J::loss, "mean of the newest step; null: there is none"),
       Of("validation", &J::validation,
          "what each metric of its validation was last; empty: it has none, or they are not known"),
       Of("validation_step", &J::validation_step,
          "of the state that this step began with; null: nothing is measured yet"),
       NullWhereNone("digest", &J::digest, "of the final state; null: none"),
       Of("digest_step", &J::digest_step, "the step of that state"),
       Of("sample", &J::sample, "text that the trained model made; empty: none"),
       Of("fingerprint", &J::fingerprint, "the newest one of the parameters; empty: none yet"),
       Of("fingerprint_step", &J::fingerprint_step, "the step of that one"),
       Of("view", &J::view, "number of the view"),
       Of("lineage", &J::lineage, "number of the history that it goes on with"),
       Of("workers", &J::workers, "workers that hold lanes in the view"),
       Of("members", &J::members, "its processes"),
       Of("views", &J::views, "views so far, of the whole job"),
       Of("recoveries", &J::recoveries, "recoveries so far"),
       Of("rewinds", &J::rewinds, "rewinds to a checkpoint so far"),
       Of("lanes_recomputed", &J::lanes_recomputed, "lanes that were run twice"),
       Of("seconds", &J::seconds, "since it started last; of one that is over, until its end"),
       Of("seconds_left", &J::seconds_left, "until its last step; null: not known"),
       Of("checkpoints", &J::checkpoints, "those that can be used"),
       {"spec", RefTo("JobSpec"), [](const J& job) { return Json(ShownDocument(*job.spec)); },
        "as it was submitted, with the defaults written out"},
       Of("exit_code", &J::exit_code,
          "once it is over: that of a program which waited for its end; null before"),
       Of("checkpoint_step", &J::checkpoint_step, "of the newest checkpoint; null: none")}};
  return shape;
}

template <>
const Shape<JobPage>& ShapeOf<JobPage>() {
  static const auto& shape =
      *new Shape<JobPage>{"JobPage",
                          "One page of jobs, in order of submission.",
                          {Of("jobs", &JobPage::jobs, "those of this page"),
                           Of("next_page_token", &JobPage::next_page_token,
                              "`page_token` of the next page; empty: this is the last one")}};
  return shape;
}

template <>
const Shape<AdoptionInfo>& ShapeOf<AdoptionInfo>() {
  using A = AdoptionInfo;
  static const auto& shape = *new Shape<A>{
      "Adoption",
      "How far the adoption of a job is.",
      {Of("adoption", &A::adoption, "its name: ask with it how far it is"),
       Of("folder", &A::folder, "whence"),
       NullWhereNone("job", &A::job, "the id that the job gets; null: not known yet"),
       Of("state", &A::state, "waiting, copying, done or failed"),
       {"step", NullOr(SchemaOf<int64_t>()),
        [](const A& a) { return a.state == kAdoptionDone ? Json(a.step) : Json(nullptr); },
        "of the checkpoint that was adopted; null before"},
       Of("bytes", &A::bytes, "copied"),
       NullWhereNone("of_bytes", &A::of_bytes, "to be copied; null: not known yet"),
       Of("seconds", &A::seconds, "that it copies, or did"),
       Of("bytes_per_second", &A::bytes_per_second, "its pace"),
       Of("seconds_left", &A::seconds_left, "at that pace; null: not known"),
       Of("passed_over", &A::passed_over, "newer checkpoints, and why each cannot be used"),
       {"error", NullOr(RefTo(kErrorDetail)), [](const A& a) { return ErrorOf(a.error); },
        "once it has failed; null before"}}};
  return shape;
}

template <>
const Shape<JobAudit::Fork>& ShapeOf<JobAudit::Fork>() {
  using F = JobAudit::Fork;
  static const auto& shape = *new Shape<F>{"Lineage",
                                           "A history of a job, which a rewind has begun.",
                                           {Of("number", &F::number, "by which others name it"),
                                            Of("parent", &F::parent, "the one that it left"),
                                            Of("fork", &F::fork, "the step at which it left that"),
                                            Of("cause", &F::cause, "why, for people")}};
  return shape;
}

template <>
const Shape<JobAudit>& ShapeOf<JobAudit>() {
  using A = JobAudit;
  static const auto& shape = *new Shape<A>{
      "Audit",
      "Whether each sample was used as often as it should be.",
      {Of("ok", &A::ok, "true: it was"), Of("conclusion", &A::conclusion, "in a sentence"),
       Of("steps", &A::steps, "steps that were looked at"),
       Of("full_epochs", &A::full_epochs, "complete passes"),
       Of("samples", &A::samples, "samples used"),
       Of("skipped_steps", &A::skipped_steps, "steps that were not finite, and not applied"),
       Of("skipped_samples", &A::skipped_samples, "samples of these"),
       Of("left_out_samples", &A::left_out_samples,
          "uses of samples that could not be read, and are not in `samples`"),
       Of("lanes", &A::lanes, "lanes that were looked at"),
       Of("lineages", &A::lineages, "the histories of the job"),
       Of("parent", &A::parent, "the state that a fork's account begins with; null: it is none"),
       Of("plugins", &A::plugins, "which file of a plug-in computed; empty: none")}};
  return shape;
}

template <>
const Shape<PluginUse>& ShapeOf<PluginUse>() {
  using U = PluginUse;
  static const auto& shape = *new Shape<U>{
      "PluginUse",
      "Which file the task came from, from a step on.",
      {Of("from", &U::from, "the first of its steps"), Of("file", &U::file, "its name and SHA-256"),
       Of("accepted_by", &U::accepted_by,
          "who let the job go on with it; empty: nobody was asked; null: it began with it")}};
  return shape;
}

template <>
const Shape<LedgerLane>& ShapeOf<LedgerLane>() {
  using L = LedgerLane;
  static const auto& shape =
      *new Shape<L>{"LedgerLane",
                    "What one worker computed of a step.",
                    {Of("lane", &L::lane, "number of the lane"), Of("worker", &L::worker, "who"),
                     Of("incarnation", &L::incarnation, "which process of that name"),
                     Of("count", &L::count, "of samples"),
                     Of("samples", &L::samples, "their ids; null: the step is too large")}};
  return shape;
}

template <>
const Shape<LedgerStep>& ShapeOf<LedgerStep>() {
  using S = LedgerStep;
  static const auto& shape = *new Shape<S>{
      "LedgerStep",
      "Who computed what of a step.",
      {Of("step", &S::step, "number of the step"), Of("epoch", &S::epoch, "in which pass"),
       Of("lineage", &S::lineage, "in which history"), Of("view", &S::view, "in which view"),
       Of("loss", &S::loss, "mean; null: there is none"),
       Of("weight", &S::weight, "samples or tokens of the step"),
       Of("skipped", &S::skipped, "it was not finite, and nothing of it was applied"),
       Of("left_out", &S::left_out,
          "ids of its samples that could not be read (`data.on_bad_sample: skip`)"),
       Of("lanes", &S::lanes, "its parts")}};
  return shape;
}

template <>
const Shape<JobLedger>& ShapeOf<JobLedger>() {
  static const auto& shape = *new Shape<JobLedger>{
      "Ledger",
      "Who computed what, of the history that made the newest state.",
      {Of("steps", &JobLedger::steps, "by step"),
       Of("next", &JobLedger::next, "`from` of the next request; null: none follow"),
       Of("data_left_out", &JobLedger::data_left_out,
          "what of the data could not be read; empty: nothing"),
       Of("parent", &JobLedger::parent,
          "the state that a fork's account begins with; null: it is none"),
       Of("plugins", &JobLedger::plugins, "which file of a plug-in computed; empty: none")}};
  return shape;
}

template <>
const Shape<MetricValue>& ShapeOf<MetricValue>() {
  using M = MetricValue;
  static const auto& shape =
      *new Shape<M>{"MetricValue",
                    "How good a state is by one metric, on the validation data.",
                    {Of("metric", &M::metric, "its name"),
                     Of("value", &M::value, "null where it is not finite, or not measured yet")}};
  return shape;
}

template <>
const Shape<HistoryStep>& ShapeOf<HistoryStep>() {
  using S = HistoryStep;
  static const auto& shape = *new Shape<S>{
      "HistoryStep",
      "How a step went; a number is null where it is not known or not measured.",
      {Of("step", &S::step, "number of the step"), Of("lineage", &S::lineage, "in which history"),
       Of("epoch", &S::epoch, "in which pass"),
       TimeOrNull("time", &S::unix_ms, "when it was recorded"), Of("loss", &S::loss, "mean"),
       Of("learning_rate", &S::learning_rate, "that was in effect"),
       Of("gradient_norm", &S::gradient_norm, "before clipping"),
       Of("samples_per_second", &S::samples_per_second, "over the last steps of its view"),
       Of("samples", &S::samples, "that the job has used with it"),
       Of("seconds", &S::seconds, "since the step before; null: that is of another view"),
       Of("validation", &S::validation,
          "what was measured of the state that the step began with; empty: nothing"),
       Of("last_state", &S::last_state,
          "null, or this is no step: of this state, the last one of a job that has ended, only "
          "`validation` is known")}};
  return shape;
}

template <>
const Shape<HistoryPage>& ShapeOf<HistoryPage>() {
  static const auto& shape = *new Shape<HistoryPage>{
      "History",
      "How the loss went, of the history that made the newest state.",
      {Of("steps", &HistoryPage::steps, "by step"),
       Of("next", &HistoryPage::next, "`from` of the next request; null: none follow"),
       Of("plugins", &HistoryPage::plugins, "which file of a plug-in computed; empty: none")}};
  return shape;
}

template <>
const Shape<JobDigest>& ShapeOf<JobDigest>() {
  using D = JobDigest;
  static const auto& shape =
      *new Shape<D>{"Digest",
                    "SHA-256 of a state.",
                    {Of("lineage", &D::lineage, "in which history"), Of("step", &D::step, "after"),
                     Of("digest", &D::digest, "64 hexadecimal digits")}};
  return shape;
}

template <>
const Shape<LogLine>& ShapeOf<LogLine>() {
  static const auto& shape = *new Shape<LogLine>{
      "LogLine",
      "A line that a member printed.",
      {Of("member", &LogLine::member, "who"), Of("line", &LogLine::line, "without its end")}};
  return shape;
}

template <>
const Shape<LogPage>& ShapeOf<LogPage>() {
  static const auto& shape =
      *new Shape<LogPage>{"LogPage",
                          "Lines that come after those that were given.",
                          {Of("lines", &LogPage::lines, "of one member after the other"),
                           Of("next", &LogPage::next, "`after` of the next request"),
                           Of("over", &LogPage::over, "the job has ended, and all was given")}};
  return shape;
}

template <>
const Shape<JobFingerprint>& ShapeOf<JobFingerprint>() {
  using F = JobFingerprint;
  static const auto& shape =
      *new Shape<F>{"Fingerprint",
                    "Of the parameters after a step.",
                    {Of("step", &F::step, "after which"), Of("lineage", &F::lineage, "history"),
                     Of("value", &F::value, "32 hexadecimal digits")}};
  return shape;
}

template <>
const Shape<JobFingerprints>& ShapeOf<JobFingerprints>() {
  static const auto& shape = *new Shape<JobFingerprints>{
      "Fingerprints",
      "Of the last history.",
      {Of("fingerprints", &JobFingerprints::fingerprints, "by step"),
       Of("next", &JobFingerprints::next, "`from` of the next request; null: none follow")}};
  return shape;
}

template <>
const Shape<HostMember>& ShapeOf<HostMember>() {
  using M = HostMember;
  static const auto& shape =
      *new Shape<M>{"HostMember",
                    "A member that is placed on a host.",
                    {Of("job", &M::job, "of which job"), Of("member", &M::member, "its name"),
                     Of("role", &M::role, "worker, server, follower or reader"),
                     Of("placement", &M::placement, "number of its placement"),
                     Of("devices", &M::devices, "ids of those that it has"),
                     Of("state", &M::state, "as of a job's members, or absent")}};
  return shape;
}

template <>
const Shape<HostInfo>& ShapeOf<HostInfo>() {
  using H = HostInfo;
  static const auto& shape = *new Shape<H>{
      "Host",
      "A host, as it is now.",
      {Of("name", &H::name, "of its agent"),
       Of("node", &H::node, "its machine"),
       Of("slots", &H::slots, "members that may be there"),
       Of("used", &H::used, "members that are placed there"),
       Of("free", &H::free, "the rest"),
       Of("devices", &H::devices, "ids"),
       Of("devices_used", &H::devices_used, "those that members have, or processes that end"),
       Of("up", &H::up, "its agent has a session"),
       {"away_for_seconds", NullOr(SchemaOf<double>()),
        [](const H& host) { return host.up ? Json(nullptr) : Json(host.away_for_seconds); },
        "null while it is up"},
       Of("draining", &H::draining, "nothing new is placed there, and its members leave"),
       Of("left_out_by", &H::left_out_by, "jobs that could not run there"),
       Of("left_out", &H::left_out, "why it is left out for all jobs; empty: it is not"),
       NullWhereNone("namespace", &H::name_space, "jobs of which it takes; null: of any"),
       Of("members", &H::members, "by job and name")}};
  return shape;
}

template <>
const Shape<HostPage>& ShapeOf<HostPage>() {
  static const auto& shape = *new Shape<HostPage>{
      "HostPage",
      "One page of hosts, by name.",
      {Of("hosts", &HostPage::hosts, "those of this page"),
       Of("next_page_token", &HostPage::next_page_token,
          "`page_token` of the next page; empty: this is the last one"),
       Of("revoked", &HostPage::revoked,
          "on the first page: names of hosts that were taken out of the cluster"),
       NullWhereNone("launch_namespace", &HostPage::launch_namespace,
                     "of Kubernetes, in which the coordinator makes pods for each job, which are "
                     "its hosts; null: hosts come by themselves"),
       NullWhereNone("launch_trouble", &HostPage::launch_trouble,
                     "for people: what keeps it from making pods; null: nothing does")}};
  return shape;
}

template <>
const Shape<NamespaceInfo>& ShapeOf<NamespaceInfo>() {
  using N = NamespaceInfo;
  static const auto& shape = *new Shape<N>{
      "Namespace",
      "Quotas of a namespace, and what it holds; null: no bound.",
      {Of("name", &N::name, "its name"), Of("slots", &N::slots, "that its jobs may hold"),
       Of("queued", &N::queued, "jobs that may wait"),
       Of("priority", &N::priority, "the highest that its submitters may give"),
       Of("slots_held", &N::slots_held, "by its jobs now"),
       Of("jobs_running", &N::jobs_running, "now"), Of("jobs_queued", &N::jobs_queued, "now")}};
  return shape;
}

template <>
const Shape<NamespaceList>& ShapeOf<NamespaceList>() {
  static const auto& shape =
      *new Shape<NamespaceList>{"NamespaceList",
                                "Namespaces that have jobs or a quota.",
                                {Of("namespaces", &NamespaceList::namespaces, "by name")}};
  return shape;
}

template <>
const Shape<TokenInfo>& ShapeOf<TokenInfo>() {
  using T = TokenInfo;
  static const auto& shape = *new Shape<T>{
      "Token",
      "A token of a person or program, without its secret.",
      {Of("id", &T::id, "by which it is revoked"), Of("user", &T::user, "whose it is"),
       Of("role", &T::role, "viewer, submitter, operator or admin"),
       Of("namespace", &T::name_space, "in which; *: in all"),
       TimeOf("made", &T::made_unix_ms, "when it was made"),
       TimeOrNull("expires", &T::expires_unix_ms, "when it expires; null: never")}};
  return shape;
}

template <>
const Shape<MadeToken>& ShapeOf<MadeToken>() {
  static const auto& shape = *[] {
    auto* made = new Shape<MadeToken>{"MadeToken", "A token that was made, and its secret.", {}};
    for (const Field<TokenInfo>& field : ShapeOf<TokenInfo>().fields)
      made->fields.push_back({field.name, field.schema,
                              [value = field.value](const MadeToken& of) { return value(of.info); },
                              field.about});
    made->fields.push_back(Of("token", &MadeToken::token, "the secret, which is told this once"));
    return made;
  }();
  return shape;
}

template <>
const Shape<TokenList>& ShapeOf<TokenList>() {
  static const auto& shape = *new Shape<TokenList>{
      "TokenList",
      "All tokens.",
      {Of("tokens", &TokenList::tokens, "in the order in which they were made")}};
  return shape;
}

template <>
const Shape<AdmittedHost>& ShapeOf<AdmittedHost>() {
  using H = AdmittedHost;
  static const auto& shape = *new Shape<H>{
      "AdmittedHost",
      "A host that may join.",
      {Of("host", &H::host, "its name"),
       NullWhereNone("namespace", &H::name_space, "jobs of which it takes; null: of any"),
       Of("certified", &H::certified, "by an authority from outside"),
       Of("revoked", &H::revoked, "it may join no more"),
       NullWhereNone("token", &H::token, "told this once; null: there is none")}};
  return shape;
}

template <>
const Shape<SignedCertificate>& ShapeOf<SignedCertificate>() {
  using C = SignedCertificate;
  static const auto& shape =
      *new Shape<C>{"SignedCertificate",
                    "A certificate for gRPC.",
                    {Of("cluster", &C::cluster, "id of the cluster"),
                     Of("certificate", &C::certificate_pem, "PEM"),
                     Of("authority", &C::authority_pem, "whom to trust, PEM"),
                     TimeOf("now", &C::now_unix_ms, "by the coordinator's clock")}};
  return shape;
}

template <>
const Shape<CertificateOfAuthority>& ShapeOf<CertificateOfAuthority>() {
  using C = CertificateOfAuthority;
  static const auto& shape =
      *new Shape<C>{"AuthorityCertificate",
                    "The certificate of an authority.",
                    {Of("sha256", &C::hash, "of its DER, in hexadecimal digits"),
                     TimeOf("begins", &C::begins_unix_ms, "from when on it counts"),
                     TimeOf("ends", &C::ends_unix_ms, "until when it counts"),
                     Of("certificate", &C::pem, "PEM")}};
  return shape;
}

template <>
const Shape<HostTrust>& ShapeOf<HostTrust>() {
  static const auto& shape =
      *new Shape<HostTrust>{"HostTrust",
                            "How far a host is with a change of the authority.",
                            {Of("name", &HostTrust::name, "of the host"),
                             Of("state", &HostTrust::state, "renewed, not yet or away")}};
  return shape;
}

template <>
const Shape<AuthorityInfo>& ShapeOf<AuthorityInfo>() {
  using A = AuthorityInfo;
  static const auto& shape = *new Shape<A>{
      "Authority",
      "Who signs in the cluster.",
      {Of("signs", &A::signs, "who signs"),
       Of("trusted_on", &A::trusted_on, "those before, while they still count"),
       {"change_ends", NullOr(TimeSchema()),
        [](const A& a) {
          return a.change_ends_unix_ms ? Json(UtcTime(*a.change_ends_unix_ms)) : Json(nullptr);
        },
        "from when on they do not; null: no change is under way"},
       Of("hosts", &A::hosts, "by name")}};
  return shape;
}

template <>
const Shape<JobEvent>& ShapeOf<JobEvent>() {
  using E = JobEvent;
  static const auto& shape = *new Shape<E>{
      "JobEvent",
      "What happened to a job: `data` of an event of its stream. Each kind has further fields.",
      {Of("seq", &E::seq, "its number in this term of the coordinator"),
       TimeOf("time", &E::unix_ms, "when"),
       Of("event", &E::event,
          "its kind: state, view, recovery, verdict, checkpoint, step, "
          "fingerprint, process, done, restart, gap"),
       Of("text", &E::text, "for people")}};
  return shape;
}

Json ToJson(const SubmittedJob& submitted) { return ToJson(submitted.job); }

Json ToJson(const JobEvent& event) {
  Json json = ToJson<JobEvent>(event);
  for (const auto& [name, text] : event.fields) json[name] = FieldValue(name, text);
  return json;
}

Json AnswerSchemas() {
  Json schemas = Json::object();
  Add<JobInfo>(schemas);
  Add<JobMember>(schemas);
  Add<CheckpointRef>(schemas);
  Add<SavedCheckpoints>(schemas);
  Add<SavedCheckpoint>(schemas);
  Add<JobPage>(schemas);
  Add<AdoptionInfo>(schemas);
  Add<ParentInfo>(schemas);
  Add<StreamInfo>(schemas);
  Add<JobAudit>(schemas);
  Add<JobAudit::Fork>(schemas);
  Add<PluginUse>(schemas);
  Add<JobLedger>(schemas);
  Add<LedgerStep>(schemas);
  Add<LedgerLane>(schemas);
  Add<HistoryPage>(schemas);
  Add<MetricValue>(schemas);
  Add<HistoryStep>(schemas);
  Add<JobDigest>(schemas);
  Add<LogPage>(schemas);
  Add<LogLine>(schemas);
  Add<JobFingerprints>(schemas);
  Add<JobFingerprint>(schemas);
  Add<HostPage>(schemas);
  Add<HostInfo>(schemas);
  Add<HostMember>(schemas);
  Add<NamespaceList>(schemas);
  Add<NamespaceInfo>(schemas);
  Add<TokenList>(schemas);
  Add<TokenInfo>(schemas);
  Add<MadeToken>(schemas);
  Add<AdmittedHost>(schemas);
  Add<SignedCertificate>(schemas);
  Add<AuthorityInfo>(schemas);
  Add<CertificateOfAuthority>(schemas);
  Add<HostTrust>(schemas);
  schemas[ShapeOf<JobEvent>().name] = EventSchema();
  schemas[kErrorDetail] = ErrorSchema();
  schemas[kErrorSchema] = {{"type", "object"},
                           {"description", "The body of every answer that is an error."},
                           {"properties", {{"error", RefTo(kErrorDetail)}}},
                           {"required", Json::array({"error"})}};
  return schemas;
}

}  // namespace muster::coordinator
