// For lib/wire alone: the parts that messages and the journal share, to protobuf and back. Reading
// trusts nothing; what is wrong is the reader's to tell.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "google/protobuf/repeated_field.h"
#include "lib/domain/message.h"
#include "lib/wire/reader.h"
#include "muster/v1/agent.pb.h"
#include "muster/v1/ledger.pb.h"
#include "muster/v1/membership.pb.h"
#include "muster/v1/view.pb.h"

namespace muster {

inline constexpr int kMaxExitCode = 255;

using PackedIndices = google::protobuf::RepeatedField<uint32_t>;
using ProtoCommands = google::protobuf::RepeatedPtrField<v1::JobCommand>;
using ProtoMembers = google::protobuf::RepeatedPtrField<v1::ViewMember>;

inline v1::Role WireRole(Role role) { return static_cast<v1::Role>(static_cast<int>(role) + 1); }
void Write(const MemberId& id, v1::MemberId& out);
void Write(const Speaks& speaks, v1::Speaks& out);
void Write(const std::vector<ViewMember>& members, ProtoMembers& out);
void Write(const ChunkSet& set, v1::ChunkSet& out);
// Each number plus `shift`.
void Write(const std::vector<int32_t>& indices, PackedIndices& out, int32_t shift = 0);
void Write(const View& view, v1::View& out);
void Write(const std::vector<JobCommand>& commands, ProtoCommands& out);
void Write(const JobCommand& command, v1::JobCommand& out);
void Write(const FingerprintPart& part, v1::FingerprintPart& out);
void Write(const StepRecord& record, v1::StepRecord& out);
void Write(const Lineage& lineage, v1::Lineage& out);
void Write(const MeasureFact& fact, v1::MeasureFact& out);
void Write(const NumericEnvironment& environment, v1::NumericEnvironment& out);
void Write(const ProcessName& process, v1::ProcessName& out);

MemberId Read(Reader& reader, const v1::MemberId& message);
// Of one that says nothing of it: no form at all.
Speaks Read(Reader& reader, const v1::Speaks& message);
// Whether one who greets has a form of the protocol in common with us. kFailedPrecondition: it has
// none, so that the rest of its greeting may mean anything. `who`: as it says.
absl::Status CheckSpeaks(const std::string& who, const v1::Speaks& speaks, const char* we_are);
// In `field`: who says who it is.
MemberId ReadSpeaker(Reader& reader, const char* field, const v1::MemberId& message);
std::vector<ViewMember> Read(Reader& reader, const ProtoMembers& message);
ChunkSet Read(Reader& reader, const char* field, const v1::ChunkSet& message);
// At most `most` of them, each minus `shift` below `end`.
std::vector<int32_t> ReadIndices(Reader& reader, const char* field, const PackedIndices& message,
                                 int64_t most, size_t end, int32_t shift = 0);
View Read(Reader& reader, const v1::View& message);
std::vector<JobCommand> Read(Reader& reader, const ProtoCommands& message);
JobCommand Read(Reader& reader, const v1::JobCommand& message);
FingerprintPart Read(const v1::FingerprintPart& message);
StepRecord Read(Reader& reader, const v1::StepRecord& message);
Lineage Read(Reader& reader, const v1::Lineage& message);
// Only such sums as lanes can have added up to.
MeasureFact Read(Reader& reader, const v1::MeasureFact& message);
NumericEnvironment Read(Reader& reader, const v1::NumericEnvironment& message);
ProcessName Read(Reader& reader, const v1::ProcessName& message);

// kInvalidArgument: not a message of this kind.
template <class Message>
absl::Status Parse(std::string_view bytes, Message& message) {
  if (bytes.size() < size_t{1} << 31 &&
      message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("not a ",
                                                 std::string(Message::descriptor()->full_name()),
                                                 ": ", bytes.size(), " bytes cannot be parsed"));
}

}  // namespace muster
