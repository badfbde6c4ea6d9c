#include "lib/wire/job_codec_proto.h"

#include <string>
#include <utility>
#include <vector>

#include "google/protobuf/message.h"
#include "google/protobuf/unknown_field_set.h"
#include "google/protobuf/util/json_util.h"
#include "lib/base/check.h"
#include "lib/base/status.h"
#include "lib/wire/job_document.h"

namespace muster {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
namespace util = google::protobuf::util;

// The first field number, here or further in, that this build's schema does not have; 0: none.
int UnknownField(const Message& message) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  const auto& unknown = reflection.GetUnknownFields(message);
  if (unknown.field_count() > 0) return unknown.field(0).number();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE || field->is_map()) continue;
    if (!field->is_repeated()) {
      if (const int number = UnknownField(reflection.GetMessage(message, field)); number != 0)
        return number;
      continue;
    }
    for (int i = 0; i < reflection.FieldSize(message, field); ++i)
      if (const int number = UnknownField(reflection.GetRepeatedMessage(message, field, i));
          number != 0)
        return number;
  }
  return 0;
}

// `keep` may be {last, every, every_epochs, best} in a document. A message has a field for each, so
// that builds that know the number alone still understand most jobs.
constexpr std::pair<const char*, const char*> kKeepFields[] = {{"last", "keep"},
                                                               {"every", "keep_every"},
                                                               {"every_epochs", "keep_epochs"},
                                                               {"best", "keep_best"}};

void JoinKeep(nlohmann::json& checkpoint) {
  nlohmann::json keep = nlohmann::json::object();
  for (const auto& [name, field] : kKeepFields) {
    if (checkpoint.contains(field)) keep[name] = checkpoint[field];
    checkpoint.erase(field);
  }
  checkpoint["keep"] = std::move(keep);
}

// Likewise of {value, per_samples}. Nothing splits it: the rate that it makes is a number.
void JoinLearningRate(nlohmann::json& optimizer) {
  nlohmann::json rate = nlohmann::json::object();
  if (optimizer.contains("learning_rate")) rate["value"] = optimizer["learning_rate"];
  rate["per_samples"] = optimizer["learning_rate_per_samples"];
  optimizer.erase("learning_rate_per_samples");
  optimizer["learning_rate"] = std::move(rate);
}

void SplitKeep(nlohmann::json& checkpoint) {
  const nlohmann::json keep = checkpoint["keep"];
  if (!keep.is_object()) return;
  checkpoint.erase("keep");
  for (const auto& [name, field] : kKeepFields)
    if (keep.contains(name)) checkpoint[field] = keep[name];
}

// `initial.parent` of a document, or null.
nlohmann::json* ParentIn(nlohmann::json& document) {
  const auto initial = document.find("initial");
  if (initial == document.end() || !initial->is_object()) return nullptr;
  const auto parent = initial->find("parent");
  return parent == initial->end() || !parent->is_object() ? nullptr : &*parent;
}

// In a document a step stands where a name may stand, too; in a message each has its type.
void SplitStep(nlohmann::json& document) {
  nlohmann::json* const parent = ParentIn(document);
  if (parent == nullptr || !parent->contains("step") || !(*parent)["step"].is_string()) return;
  (*parent)["name"] = std::move((*parent)["step"]);
  parent->erase("step");
}

void JoinStep(nlohmann::json& document) {
  nlohmann::json* const parent = ParentIn(document);
  if (parent == nullptr || !parent->contains("name")) return;
  (*parent)["step"] = std::move((*parent)["name"]);
  parent->erase("name");
}

}  // namespace

absl::StatusOr<JobSpec> FromProto(const v1::JobSpec& message) {
  if (const int number = UnknownField(message); number != 0)
    return FieldError(
        "", "",
        absl::StrCat("the job has field number ", number,
                     ", which this version of muster does not know; use equal versions"));
  util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  std::string text;
  if (const auto status = util::MessageToJsonString(message, &text, options); !status.ok())
    return FieldError("", "", std::string(status.message()));
  MUSTER_ASSIGN_OR_RETURN(Document document, ParseJsonDocument(text, ""));
  const v1::CheckpointPolicy& policy = message.checkpoint();
  if (policy.has_keep_every() || policy.has_keep_epochs() || policy.has_keep_best())
    JoinKeep(document.root["checkpoint"]);
  if (message.optimizer().has_learning_rate_per_samples())
    JoinLearningRate(document.root["optimizer"]);
  JoinStep(document.root);
  return FromDocument(document);
}

v1::JobSpec ToProto(const JobSpec& spec) {
  nlohmann::json document = ToDocument(spec);
  if (nlohmann::json& resume = document["resume"]; resume.is_number()) resume = resume.dump();
  SplitKeep(document["checkpoint"]);
  SplitStep(document);
  v1::JobSpec message;
  const auto status = util::JsonStringToMessage(document.dump(), &message);
  MUSTER_CHECK(status.ok(), "job.proto and the table of fields differ");
  return message;
}

}  // namespace muster
