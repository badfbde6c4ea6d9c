#include "lib/wire/journal_codec.h"

#include "lib/base/status.h"
#include "lib/wire/parts_proto.h"
#include "lib/wire/stream_proto.h"
#include "muster/v1/journal.pb.h"

namespace muster {
namespace {

template <class Message, class Part>
std::string EncodePart(const Part& part) {
  Message message;
  Write(part, message);
  return message.SerializeAsString();
}

template <class Message, class Part>
absl::StatusOr<Part> DecodePart(std::string_view bytes) {
  Message message;
  MUSTER_RETURN_IF_ERROR(Parse(bytes, message));
  Reader reader;
  Part part = Read(reader, message);
  if (!reader.ok()) return reader.status();
  return part;
}

// With the time at which it is written down.
template <class Message, class Part>
std::string EncodeRecorded(const Part& part, int64_t unix_ms) {
  Message message;
  Write(part, message);
  message.set_unix_ms(unix_ms);
  return message.SerializeAsString();
}

template <class Message, class Recorded>
absl::StatusOr<Recorded> DecodeRecorded(std::string_view bytes) {
  Message message;
  MUSTER_RETURN_IF_ERROR(Parse(bytes, message));
  Reader reader;
  Recorded recorded{Read(reader, message), reader.Number("unix_ms", message.unix_ms())};
  if (!reader.ok()) return reader.status();
  return recorded;
}

}  // namespace

std::string EncodeStepRecord(const StepRecord& record) {
  return EncodePart<v1::StepRecord>(record);
}
absl::StatusOr<StepRecord> DecodeStepRecord(std::string_view bytes) {
  return DecodePart<v1::StepRecord, StepRecord>(bytes);
}

std::string EncodeRecordedStep(const RecordedStep& step) {
  return EncodeRecorded<v1::StepRecord>(step.record, step.unix_ms);
}
absl::StatusOr<RecordedStep> DecodeRecordedStep(std::string_view bytes) {
  return DecodeRecorded<v1::StepRecord, RecordedStep>(bytes);
}

std::string EncodeRecordedFact(const RecordedFact& fact) {
  return EncodeRecorded<v1::MeasureFact>(fact.fact, fact.unix_ms);
}
absl::StatusOr<RecordedFact> DecodeRecordedFact(std::string_view bytes) {
  return DecodeRecorded<v1::MeasureFact, RecordedFact>(bytes);
}

std::string EncodeSpoolSegment(const SpoolSegment& segment) {
  return EncodePart<v1::SpoolSegment>(segment);
}
absl::StatusOr<SpoolSegment> DecodeSpoolSegment(std::string_view bytes) {
  return DecodePart<v1::SpoolSegment, SpoolSegment>(bytes);
}

std::string EncodeStreamPlace(const StreamPlace& place) {
  return EncodePart<v1::StreamPlace>(place);
}
absl::StatusOr<StreamPlace> DecodeStreamPlace(std::string_view bytes) {
  return DecodePart<v1::StreamPlace, StreamPlace>(bytes);
}

std::string EncodeLineage(const Lineage& lineage) { return EncodePart<v1::Lineage>(lineage); }
absl::StatusOr<Lineage> DecodeLineage(std::string_view bytes) {
  return DecodePart<v1::Lineage, Lineage>(bytes);
}

std::string EncodeView(const View& view) { return EncodePart<v1::View>(view); }
absl::StatusOr<View> DecodeView(std::string_view bytes) {
  return DecodePart<v1::View, View>(bytes);
}

std::string EncodeEnvironment(const NumericEnvironment& environment) {
  return EncodePart<v1::NumericEnvironment>(environment);
}
absl::StatusOr<NumericEnvironment> DecodeEnvironment(std::string_view bytes) {
  return DecodePart<v1::NumericEnvironment, NumericEnvironment>(bytes);
}

std::string EncodeFingerprintPart(const FingerprintPart& part) {
  return EncodePart<v1::FingerprintPart>(part);
}
absl::StatusOr<FingerprintPart> DecodeFingerprintPart(std::string_view bytes) {
  v1::FingerprintPart message;
  MUSTER_RETURN_IF_ERROR(Parse(bytes, message));
  return Read(message);
}

std::string EncodeFields(const std::map<std::string, std::string>& fields) {
  v1::Fields message;
  for (const auto& [name, value] : fields) {
    v1::Fields::Field& field = *message.add_fields();
    field.set_name(name);
    field.set_value(value);
  }
  return message.SerializeAsString();
}

absl::StatusOr<std::map<std::string, std::string>> DecodeFields(std::string_view bytes) {
  v1::Fields message;
  MUSTER_RETURN_IF_ERROR(Parse(bytes, message));
  std::map<std::string, std::string> fields;
  for (v1::Fields::Field& field : *message.mutable_fields()) {
    if (!fields.empty() && fields.rbegin()->first >= field.name())
      return absl::InvalidArgumentError(
          absl::StrCat("fields: '", field.name(), "' is not after '", fields.rbegin()->first, "'"));
    fields.emplace_hint(fields.end(), std::move(*field.mutable_name()),
                        std::move(*field.mutable_value()));
  }
  return fields;
}

}  // namespace muster
