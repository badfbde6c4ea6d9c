// The parts of what the coordinator journals, as bytes. A whole value is a list of its parts by
// name (EncodeFields), so that a later release can add one. Decoding: kInvalidArgument, and the
// message names the field; limits are those of lib/wire/message_codec.h. Decode(Encode(x)) == x.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "lib/domain/ledger.h"
#include "lib/domain/message.h"
#include "lib/domain/stream.h"
#include "lib/domain/view.h"

namespace muster {

std::string EncodeStepRecord(const StepRecord& record);
absl::StatusOr<StepRecord> DecodeStepRecord(std::string_view bytes);
// The same with its time, which DecodeStepRecord passes over.
std::string EncodeRecordedStep(const RecordedStep& step);
absl::StatusOr<RecordedStep> DecodeRecordedStep(std::string_view bytes);

std::string EncodeRecordedFact(const RecordedFact& fact);
absl::StatusOr<RecordedFact> DecodeRecordedFact(std::string_view bytes);

std::string EncodeSpoolSegment(const SpoolSegment& segment);
absl::StatusOr<SpoolSegment> DecodeSpoolSegment(std::string_view bytes);
std::string EncodeStreamPlace(const StreamPlace& place);
absl::StatusOr<StreamPlace> DecodeStreamPlace(std::string_view bytes);

std::string EncodeLineage(const Lineage& lineage);
absl::StatusOr<Lineage> DecodeLineage(std::string_view bytes);

std::string EncodeView(const View& view);
absl::StatusOr<View> DecodeView(std::string_view bytes);

std::string EncodeEnvironment(const NumericEnvironment& environment);
absl::StatusOr<NumericEnvironment> DecodeEnvironment(std::string_view bytes);

std::string EncodeFingerprintPart(const FingerprintPart& part);
absl::StatusOr<FingerprintPart> DecodeFingerprintPart(std::string_view bytes);

// Equal maps, equal bytes. Values are any bytes.
std::string EncodeFields(const std::map<std::string, std::string>& fields);
absl::StatusOr<std::map<std::string, std::string>> DecodeFields(std::string_view bytes);

}  // namespace muster
