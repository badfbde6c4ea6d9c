#include "coordinator/service/control_api.h"
#include "coordinator/service/rest_operations.h"
#include "lib/wire/job_document.h"

namespace muster::coordinator {
namespace {

Json Words() { return {{"type", "string"}, {"minLength", 1}}; }

Json Whole(int64_t min, int64_t max) {
  return {{"type", "integer"}, {"format", "int64"}, {"minimum", min}, {"maximum", max}};
}

Json Accepted() {
  return {{"type", "array"}, {"items", {{"type", "string"}, {"enum", {kAcceptsPlugin}}}}};
}
constexpr char kAboutAccept[] =
    "what may be another than it was, of a job that goes on with this: `plugin`, the file of its "
    "task; left out: nothing";

}  // namespace

const Body& SubmissionBody() {
  static const auto& body = *new Body{
      .name = "Submission",
      .about = "A job that is to be trained. The same again is the same job.",
      .fields = {{"id", Words(),
                  "1 to 100 letters, digits, `.`, `_`, `-`, not beginning with `.` or `-`; left "
                  "out: one is made"},
                 {"spec", RefTo("JobSpec"), "what is to be trained, and how", true},
                 {"accept", Accepted(), kAboutAccept}}};
  return body;
}

const Body& ScalingBody() {
  static const auto& body =
      *new Body{.name = "Scaling",
                .about = "How many workers a job may have from now on.",
                .fields = {{"workers", SpecSchema().at("properties").at("workers"),
                            "a number, which means 1 to so many, or {min, max}", true}}};
  return body;
}

const Body& AdoptionBody() {
  static const auto& body =
      *new Body{.name = "AdoptionRequest",
                .about = "A job of another cluster, from its newest whole checkpoint.",
                .fields = {{"folder", Words(), "absolute; the coordinator can read it", true},
                           {"id", Words(), "of the job; left out: it keeps its own"},
                           {"accept", Accepted(), kAboutAccept}}};
  return body;
}

const Body& CheckpointChangeBody() {
  static const auto& body = *new Body{
      .name = "CheckpointChange",
      .about = "By which name a checkpoint is kept from now on.",
      .fields = {{"name", NullOr(Words()),
                  "1 to 63 lower-case letters, digits and inner hyphens, with a letter among them, "
                  "but neither latest nor never; null: it is kept by none, and goes as others do",
                  true}}};
  return body;
}

const Body& QueueChangeBody() {
  static const auto& body =
      *new Body{.name = "QueueChange",
                .about =
                    "What of the queue specification is to be another. What is left out "
                    "stays; null is the default, and takes a label away.",
                .fields = {},
                .schema = QueueChangeSchema()};
  return body;
}

const Body& QuotaBody() {
  static const auto& body = *new Body{
      .name = "Quotas",
      .about = "All quotas of a namespace; null or left out: no bound, and a priority of 0.",
      .fields = {{"slots", NullOr(Whole(0, kMostQuota)), "that its running jobs may hold"},
                 {"queued", NullOr(Whole(0, kMostQuota)), "jobs that may wait"},
                 {"priority", NullOr(Whole(-kMostPriority, kMostPriority)),
                  "the highest that its submitters may give"}}};
  return body;
}

const Body& TokenBody() {
  static const auto& body = *new Body{
      .name = "TokenRequest",
      .about = "A token that is to be made.",
      .fields = {
          {"expires_in", Whole(1, kLongestTokenSeconds), "seconds from now; left out: never"},
          {"namespace", Words(), "in which; *: in all", true},
          {"role",
           {{"type", "string"}, {"enum", {"viewer", "submitter", "operator", "admin"}}},
           "what the user may",
           true},
          {"user", Words(), "1 to 63 letters, digits, `.`, `_` or `-`", true}}};
  return body;
}

const Body& AdmissionBody() {
  static const auto& body = *new Body{
      .name = "Admission",
      .about = "How a host may join.",
      .fields = {{"certified",
                  {{"type", "boolean"}},
                  "it has a certificate of an authority from outside; left out: false"},
                 {"namespace", {{"type", "string"}}, "jobs of which it takes; left out: default"}},
      .may_be_absent = true};
  return body;
}

const Body& AuthorityChangeBody() {
  static const auto& body = *new Body{
      .name = "AuthorityChange",
      .about = "How the authority is changed.",
      .fields =
          {{"force",
            {{"type", "boolean"}},
            "finish also where hosts that are here have no new certificates; left out: false"},
           {"now", TimeSchema(),
            "by the asker's clock: where that is five minutes from the coordinator's nothing "
            "is changed"}},
      .may_be_absent = true};
  return body;
}

const Body& PublicKeyBody() {
  static const auto& body =
      *new Body{.name = "CertificateRequest",
                .about = "The key that is to have a certificate.",
                .fields = {{"public_key", Words(), "P-256, SubjectPublicKeyInfo in base64", true}}};
  return body;
}

std::vector<std::string> KeysOf(const Body& body) {
  std::vector<std::string> keys;
  for (const BodyField& field : body.fields) keys.push_back(field.name);
  return keys;
}

}  // namespace muster::coordinator
