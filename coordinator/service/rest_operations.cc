#include "coordinator/service/rest_operations.h"

#include <utility>

#include "coordinator/service/answer_status.h"
#include "coordinator/service/control_api.h"
#include "coordinator/service/rest_json.h"
#include "coordinator/state/rights.h"
#include "lib/metrics/metrics.h"

namespace muster::coordinator {
namespace {

constexpr char kEventStream[] = "text/event-stream";
constexpr char kBytes[] = "application/octet-stream";
constexpr char kPlainText[] = "text/plain; charset=utf-8";

using Parameters = std::vector<Parameter>;

Json TextSchema() { return {{"type", "string"}, {"minLength", 1}}; }
Json StepSchema() { return {{"type", "integer"}, {"format", "int64"}, {"minimum", 0}}; }
Json UpTo(int64_t most) {
  return {{"type", "integer"}, {"format", "int64"}, {"minimum", 1}, {"maximum", most}};
}

Parameter From() { return {"from", StepSchema(), "this step and later ones"}; }
Parameter PageToken() {
  return {"page_token", TextSchema(), "`next_page_token` of the page before"};
}
Parameter Limit(int64_t most, int64_t usual) {
  return {"limit", UpTo(most), absl::StrCat("the most of one answer; left out: ", usual)};
}
Parameter Member() { return {"member", TextSchema(), "of this member alone, such as worker-0"}; }

// With an answer of that type.
template <class T>
Operation Answers(const char* verb, const char* pattern, const char* id, const char* about) {
  return {.verb = verb,
          .pattern = pattern,
          .id = id,
          .about = about,
          .answer = RefTo(ShapeOf<T>().name),
          .statuses = StatusesOf<T>()};
}

Operation AnswersText(const char* pattern, const char* id, const char* about,
                      std::string content_type) {
  return {.verb = "GET",
          .pattern = pattern,
          .id = id,
          .about = about,
          .answer = {{"type", "string"}},
          .content_type = std::move(content_type)};
}

Operation With(Operation operation, Parameters parameters) {
  operation.parameters = std::move(parameters);
  return operation;
}

Operation Taking(Operation operation, const Body& body) {
  operation.body = &body;
  return operation;
}

Operation Conflicting(Operation operation) {
  operation.conflicts = true;
  return operation;
}

std::vector<Operation> OfJobs() {
  Operation submit = Taking(
      Conflicting(Answers<JobInfo>("POST", "/v1/jobs", "submitJob",
                                   "Submit a job. The same id with the same training "
                                   "specification is the same job, so this may be repeated; one "
                                   "that was stopped or failed goes on.")),
      SubmissionBody());
  submit.statuses = StatusesOf<SubmittedJob>();
  return {
      submit,
      With(Answers<JobPage>("GET", "/v1/jobs", "listJobs", "List jobs, in order of submission."),
           {{"label", TextSchema(), "only jobs with all of these labels: team=see,stage=one"},
            Limit(kMostJobsPerPage, kJobsPerPage),
            {"namespace", TextSchema(), "only jobs of this namespace"},
            PageToken(),
            {"state", TextSchema(), "only jobs in this state"}}),
      Answers<JobInfo>("GET", "/v1/jobs/{id}", "getJob", "Get a job."),
      Conflicting(Answers<JobInfo>("DELETE", "/v1/jobs/{id}", "deleteJob",
                                   "Delete a job that has ended, with its checkpoints.")),
      Taking(Conflicting(Answers<JobInfo>("PATCH", "/v1/jobs/{id}", "setQueue",
                                          "Change the queue specification of a job.")),
             QueueChangeBody()),
      Answers<JobInfo>("POST", "/v1/jobs/{id}:cancel", "cancelJob", "Cancel a job, for good."),
      Answers<JobInfo>("POST", "/v1/jobs/{id}:stop", "stopJob",
                       "Stop a job after a checkpoint; it can go on."),
      Taking(Conflicting(Answers<JobInfo>("POST", "/v1/jobs/{id}:scale", "scaleJob",
                                          "Change how many workers a job may have.")),
             ScalingBody()),
      Taking(Conflicting(Answers<AdoptionInfo>(
                 "POST", "/v1/adoptions", "adoptJob",
                 "Adopt a job from the checkpoints of another cluster. It goes on after this.")),
             AdoptionBody()),
      Answers<AdoptionInfo>("GET", "/v1/adoptions/{adoption}", "getAdoption",
                            "See how far an adoption is: 202 while it is under way.")};
}

std::vector<Operation> OfOneJob() {
  Operation events = With(
      AnswersText("/v1/jobs/{id}/events", "watchJob",
                  "Follow a job: server-sent events, whose `data` is a JobEvent. First those that "
                  "are kept, then those to come until the job is over.",
                  kEventStream),
      {{"from", TextSchema(), "after the event of this id, TERM-NUMBER"},
       {"Last-Event-ID", {{"type", "string"}}, "the same, and what counts of the two", true}});
  return {
      events,
      With(Answers<JobFingerprints>("GET", "/v1/jobs/{id}/fingerprints", "getFingerprints",
                                    "Get fingerprints of the parameters."),
           {From()}),
      Answers<JobAudit>("GET", "/v1/jobs/{id}/audit", "auditJob",
                        "Check that each sample was used as often as it should be."),
      With(Answers<HistoryPage>("GET", "/v1/jobs/{id}/history", "getHistory",
                                "See how the loss went."),
           {From(),
            {"lineage", StepSchema(), "that of the step before `from`, as the asker has it"},
            Limit(kMostHistorySteps, kHistoryStepsPerPage)}),
      With(Answers<JobLedger>("GET", "/v1/jobs/{id}/ledger", "getLedger", "See who computed what."),
           {From(),
            Limit(kMostLedgerSteps, kLedgerStepsPerPage),
            {"sample", StepSchema(), "only steps that used this sample"}}),
      With(AnswersText("/v1/jobs/{id}/logs", "getLogs", "Get the last lines that members printed.",
                       kPlainText),
           {Member(),
            {"tail", UpTo(kMostLogLines),
             absl::StrCat("the last so many lines of each; left out: ", kLogLines)}}),
      With(Answers<LogPage>("GET", "/v1/jobs/{id}/logs:follow", "followLogs",
                            "Wait some seconds for the lines that members print next."),
           {{"after", TextSchema(), "`next` of the answer before"},
            Member(),
            {"tail", UpTo(kMostLogLines),
             "without `after`: begin with the last so many lines of each"}}),
      With(Answers<JobDigest>("GET", "/v1/jobs/{id}/digest", "getDigest",
                              "Get the digest of the newest checkpoint."),
           {{"step", StepSchema(), "of the checkpoint of this step"}}),
      With(AnswersText("/v1/jobs/{id}/checkpoint", "readCheckpoint",
                       "Read bytes of a file of a checkpoint. The header Muster-File-Bytes says "
                       "how large it is.",
                       kBytes),
           {{"bytes", UpTo(kMostFileBytes), absl::StrCat("the most; left out: ", kMostFileBytes)},
            {"file", TextSchema(),
             "lineage-L-step-S/checkpoint.manifest, or a segment that this one names"},
            {"offset", StepSchema(), "of the first byte"}})};
}

std::vector<Operation> OfCheckpoints() {
  return {
      With(Answers<SavedCheckpoints>("GET", "/v1/jobs/{id}/checkpoints", "listCheckpoints",
                                     "List checkpoints of a job, also those that it would not go "
                                     "back to by itself."),
           {PageToken()}),
      Taking(Conflicting(Answers<SavedCheckpoint>(
                 "PATCH", "/v1/jobs/{id}/checkpoints/{checkpoint}", "keepCheckpoint",
                 "Keep a checkpoint by a name, or by none any more.")),
             CheckpointChangeBody()),
      With(Conflicting(Answers<SavedCheckpoint>(
               "DELETE", "/v1/jobs/{id}/checkpoints/{checkpoint}", "deleteCheckpoint",
               "Delete a checkpoint that the job would not go back to by itself. It is gone when "
               "the answer comes.")),
           {{"force",
             {{"type", "boolean"}},
             "true: also one that has a name, or the newest of a job that has ended"}})};
}

std::vector<Operation> OfCluster() {
  return {
      Answers<NamespaceList>("GET", "/v1/namespaces", "listNamespaces",
                             "List namespaces that have jobs or a quota."),
      Answers<NamespaceInfo>("GET", "/v1/namespaces/{name}", "getNamespace", "Get a namespace."),
      Taking(Answers<NamespaceInfo>("PUT", "/v1/namespaces/{name}", "setQuotas",
                                    "Set the quotas of a namespace."),
             QuotaBody()),
      With(Answers<HostPage>("GET", "/v1/hosts", "listHosts", "List hosts, by name."),
           {Limit(kMostJobsPerPage, kJobsPerPage), PageToken()}),
      Answers<HostInfo>("GET", "/v1/hosts/{name}", "getHost", "Get a host."),
      Conflicting(
          Answers<HostInfo>("POST", "/v1/hosts/{name}:drain", "drainHost",
                            "Drain a host: nothing new is placed there, and its members leave.")),
      Conflicting(Answers<HostInfo>("POST", "/v1/hosts/{name}:undrain", "undrainHost",
                                    "Let a host take members again.")),
      Taking(Conflicting(Answers<AdmittedHost>("POST", "/v1/hosts/{name}:admit", "admitHost",
                                               "Let a host join: its token is told this once.")),
             AdmissionBody()),
      Conflicting(Answers<AdmittedHost>("POST", "/v1/hosts/{name}:revoke", "revokeHost",
                                        "Take a host out of the cluster.")),
      Taking(Conflicting(Answers<SignedCertificate>("POST", "/v1/certificates", "makeCertificate",
                                                    "Get a certificate for gRPC.")),
             PublicKeyBody()),
      Conflicting(Answers<AuthorityInfo>("GET", "/v1/authority", "getAuthority", "See who signs.")),
      Taking(Conflicting(Answers<AuthorityInfo>("POST", "/v1/authority:change", "changeAuthority",
                                                "Let another authority sign from now on.")),
             AuthorityChangeBody()),
      Taking(Conflicting(Answers<AuthorityInfo>("POST", "/v1/authority:finish", "finishAuthority",
                                                "Trust the authority before no more.")),
             AuthorityChangeBody()),
      Answers<TokenList>("GET", "/v1/tokens", "listTokens", "List tokens, without their secrets."),
      Taking(Answers<MadeToken>("POST", "/v1/tokens", "makeToken",
                                "Make a token: its secret is told this once."),
             TokenBody()),
      Conflicting(
          Answers<TokenInfo>("DELETE", "/v1/tokens/{id}", "revokeToken", "Revoke a token.")),
      {.verb = "GET",
       .pattern = "/v1/openapi.json",
       .id = "getOpenApi",
       .about = "Get this document.",
       .answer = {{"type", "object"}, {"additionalProperties", true}}},
      AnswersText("/metrics", "getMetrics", "Get metrics, as Prometheus reads them.",
                  kMetricsContentType),
      AnswersText("/healthz", "getHealth", "See whether the coordinator works.", "text/plain"),
      AnswersText("/readyz", "getReadiness", "See whether the coordinator takes jobs.",
                  "text/plain")};
}

}  // namespace

bool Streams(const Operation& operation) { return operation.content_type == kEventStream; }

const std::vector<Operation>& Operations() {
  static const auto& all = *[] {
    auto* operations = new std::vector<Operation>(OfJobs());
    for (auto* of : {&OfOneJob, &OfCheckpoints, &OfCluster})
      for (Operation& operation : of()) operations->push_back(std::move(operation));
    return operations;
  }();
  return all;
}

const Operation* OperationOf(std::string_view verb, std::string_view pattern) {
  for (const Operation& operation : Operations())
    if (operation.verb == verb && operation.pattern == pattern) return &operation;
  return nullptr;
}

}  // namespace muster::coordinator
