#include "lib/wire/stream_fields.h"

#include <string>
#include <utility>

#include "absl/numeric/int128.h"
#include "absl/strings/str_cat.h"
#include "lib/base/status.h"
#include "lib/domain/stream.h"
#include "lib/domain/tensor_type.h"
#include "lib/wire/data_fields.h"

namespace muster {
namespace {

using nlohmann::json;

constexpr char kFields[] = "data.stream.fields";
constexpr size_t kLongestFieldName = 256;
constexpr size_t kLongestSocketPath = 107;  // of the operating system

absl::StatusOr<DataField> ReadStreamField(const Document& document, const std::string& field,
                                          const json& value) {
  MUSTER_RETURN_IF_ERROR(CheckKeys(document, field, value, {"name", "type", "shape"}));
  const json name = value.value("name", json()), type = value.value("type", json()),
             shape = value.value("shape", json());
  DataField read;
  const std::string of_name = FieldPath(field, "name"), of_type = FieldPath(field, "type");
  if (name.is_null()) return ErrorAt(document, of_name, "is missing; name each field");
  MUSTER_ASSIGN_OR_RETURN(read.name, ReadText(document, of_name, name));
  if (read.name.empty() || read.name.size() > kLongestFieldName)
    return ErrorAt(
        document, of_name,
        absl::StrCat("has ", read.name.size(), " bytes; allowed: 1 to ", kLongestFieldName));
  if (type.is_null()) return ErrorAt(document, of_type, "is missing; write float32, or another");
  MUSTER_ASSIGN_OR_RETURN(const std::string type_name,
                          ReadChoice(document, of_type, type, TypeNames()));
  read.type = *TensorTypeOf(type_name);
  if (!shape.is_null()) {
    MUSTER_ASSIGN_OR_RETURN(read.shape, ReadShape(document, FieldPath(field, "shape"), shape));
  }
  return read;
}

// The message of a status that names a field at its beginning, at this field of the document.
absl::Status AtNamedField(const Document& document, const absl::Status& status) {
  const std::string message(status.message());
  const size_t colon = message.find(": ");
  return ErrorAt(document, message.substr(0, colon), message.substr(colon + 2));
}

absl::Status CheckSource(const Document& document, const JobSpec& spec) {
  if (!spec.training.stream)
    return ErrorAt(document, "data.stream.source",
                   "is missing; write folder or socket, from which the stream comes");
  const std::string& path = spec.runtime.stream.path;
  const char* const field = "data.stream.path";
  if (path.empty())
    return ErrorAt(document, field,
                   *spec.training.stream == StreamFrom::kFolder
                       ? "is missing; name the folder that the files come to"
                       : "is missing; name the UNIX socket on which the reader listens");
  if (*spec.training.stream == StreamFrom::kSocket && path.size() > kLongestSocketPath)
    return ErrorAt(document, field,
                   absl::StrCat("has ", path.size(), " bytes; that of a socket has at most ",
                                kLongestSocketPath, "; take a shorter one"));
  return absl::OkStatus();
}

absl::Status CheckRoom(const Document& document, const JobSpec& spec, uint64_t sample_bytes) {
  const absl::uint128 least =
      absl::uint128(4) * (static_cast<uint64_t>(spec.training.batch) + 1) * sample_bytes;
  if (least > absl::uint128(static_cast<uint64_t>(kMostStreamBytes)))
    return ErrorAt(document, "batch",
                   absl::StrCat(spec.training.batch, " samples of ", sample_bytes,
                                " bytes are more than a spool can hold; take a smaller batch"));
  if (absl::uint128(spec.runtime.stream.max_bytes) >= least) return absl::OkStatus();
  return ErrorAt(document, "data.stream.max_bytes",
                 absl::StrCat(spec.runtime.stream.max_bytes, " is too little for a batch of ",
                              spec.training.batch, " samples of ", sample_bytes,
                              " bytes; allowed: ", ToText(absl::int128(least), kMostStreamBytes)));
}

// Nobody knows how long it is, it is read once, and it has no part that could be left out.
absl::Status CheckOnce(const Document& document, const TrainingSpec& training) {
  if (training.epochs > 1)
    return ErrorAt(document, "epochs",
                   absl::StrCat(training.epochs,
                                " cannot be had: a stream is used once; write 1, which is to its "
                                "end, or give steps"));
  if (training.steps == 0 && DependsOnLength(training.schedule.kind))
    return ErrorAt(document, "schedule.kind",
                   "needs to know how many steps there will be, and a stream does not say; give "
                   "steps, or take a schedule that does not");
  if (training.validation.every_epochs > 0)
    return ErrorAt(document, "validation.every_epochs",
                   "a stream has one pass, and nobody knows where it ends; give "
                   "validation.every_steps");
  if (training.data.validation_share > 0)
    return ErrorAt(document, "data.validation_share",
                   "a stream has no samples to leave out; name files in validation.paths");
  if (training.data.on_bad_sample != OnBadSample::kStop)
    return ErrorAt(document, "data.on_bad_sample",
                   "a stream has no bad samples: what it brings are numbers; remove it");
  return absl::OkStatus();
}

// What no checkpoint needs any more leaves the spool.
absl::Status CheckSaved(const Document& document, const CheckpointPolicy& policy) {
  if (policy.every_epochs > 0)
    return ErrorAt(document, "checkpoint.every_epochs",
                   "a stream has one pass; give checkpoint.every_steps or every_seconds");
  if (policy.every_steps == 0 && policy.every_seconds == 0)
    return ErrorAt(document, "checkpoint.every_steps",
                   "a job with a stream needs checkpoints, since samples are kept until one no "
                   "longer needs them; give this or checkpoint.every_seconds");
  if (!policy.at_end)
    return ErrorAt(document, "checkpoint.at_end",
                   "false cannot be had with a stream: where it ends is known too late; remove it");
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadStreamFields(const Document& document, const json& value,
                              std::vector<DataField>& fields) {
  if (!value.is_array())
    return ErrorAt(document, kFields,
                   absl::StrCat(Describe(value),
                                " is not a list; write [{name: x, type: float32, shape: [4]}]"));
  if (value.size() > kMostStreamFields)
    return ErrorAt(
        document, kFields,
        absl::StrCat(value.size(), " fields; at most ", kMostStreamFields, " are allowed"));
  fields.clear();
  for (size_t i = 0; i < value.size(); ++i) {
    MUSTER_ASSIGN_OR_RETURN(DataField field,
                            ReadStreamField(document, FieldPath(kFields, i), value[i]));
    fields.push_back(std::move(field));
  }
  return absl::OkStatus();
}

json FromStreamFields(const std::vector<DataField>& fields) {
  if (fields.empty()) return {};
  json written = json::array();
  for (const DataField& field : fields)
    written.push_back({{"name", field.name}, {"type", NameOf(field.type)}, {"shape", field.shape}});
  return written;
}

json StreamFieldsSchema() {
  return {{"type", "array"},
          {"maxItems", kMostStreamFields},
          {"items",
           {{"type", "object"},
            {"additionalProperties", false},
            {"required", {"name", "type"}},
            {"properties",
             {{"name", {{"type", "string"}, {"minLength", 1}, {"maxLength", kLongestFieldName}}},
              {"type", {{"type", "string"}, {"enum", TypeNames()}}},
              {"shape", ShapeSchema()}}}}}};
}

absl::Status CheckStream(const Document& document, const JobSpec& spec) {
  const TrainingSpec& training = spec.training;
  if (training.data.format != DataFormat::kStream) return absl::OkStatus();
  MUSTER_RETURN_IF_ERROR(CheckSource(document, spec));
  const absl::StatusOr<uint64_t> sample_bytes = StreamSampleBytes(training.data);
  if (!sample_bytes.ok()) return AtNamedField(document, sample_bytes.status());
  MUSTER_RETURN_IF_ERROR(CheckRoom(document, spec, *sample_bytes));
  MUSTER_RETURN_IF_ERROR(CheckOnce(document, training));
  return CheckSaved(document, spec.runtime.checkpoint);
}

}  // namespace muster
