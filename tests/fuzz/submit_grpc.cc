// A job that is submitted by gRPC, as far as nobody but the parser has seen it: what would be
// answered must be fit for HTTP/2.
#include <grpc/grpc.h>
#include <grpc/slice.h>

#include "coordinator/service/grpc/refusal.h"
#include "lib/base/printable.h"
#include "lib/wire/job_codec.h"
#include "lib/wire/job_codec_proto.h"
#include "muster/v1/control.pb.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/proto_mutator.h"
#include "tests/lib/wire/random_job.h"

namespace muster::fuzz {
namespace {

constexpr size_t kMostHeld = size_t{4} << 20;
constexpr size_t kMostHeldPerByte = 200;

// What the service answers.
void CheckAnswer(const absl::Status& why) {
  const Refusal refusal = RefusalOf(why);
  const std::string& field = refusal.field;
  const grpc_slice value = grpc_slice_from_copied_buffer(field.data(), field.size());
  Check(grpc_header_nonbin_value_is_legal(value) != 0, "trailing metadata is legal");
  grpc_slice_unref(value);
  const std::string said = refusal.status.error_message();
  Check(field.size() <= kMostShownBytes && said.size() <= kMostShownBytes, "what is said is short");
  Check(PrintableLines(said) == said, "what is said is fit for a terminal");
  ReachError(why.message());
}

std::string Make(Random& random) {
  v1::SubmitRequest request;
  request.set_id("job-" + std::to_string(Below(random, 100)));
  *request.mutable_spec() = ToProto(RandomJob(random()).Make());
  return request.SerializeAsString();
}

std::string Change(const std::string& input, Random& random) {
  return ChangedMessage<v1::SubmitRequest>(input, random);
}

const Form kForm = {Make, Change};

void ExpectAll() {
  Expect("field", FieldsOfType(*v1::SubmitRequest::descriptor()));
  ExpectAtLeast("error", 60);
}

void Run(std::string_view input) {
  const MemoryLimit limit(kMostHeld + kMostHeldPerByte * input.size());
  v1::SubmitRequest request;
  if (!request.ParseFromArray(input.data(), static_cast<int>(input.size()))) return;
  const auto spec = FromProto(request.spec());
  if (!spec.ok()) return CheckAnswer(spec.status());
  ReachFields(request);
  const auto again = FromProto(ToProto(*spec));
  Check(again.ok() && *again == *spec, "written and read again");
  Check(Validate(*spec).ok(), "what is taken is valid");
}

}  // namespace
}  // namespace muster::fuzz

MUSTER_FUZZ_TARGET(muster::fuzz::kForm, muster::fuzz::ExpectAll, muster::fuzz::Run);
