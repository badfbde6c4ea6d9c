#include "lib/wire/job_codec_proto.h"

#include <limits>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/descriptor.h"
#include "gtest/gtest.h"
#include "lib/wire/job_codec.h"
#include "lib/wire/job_document.h"
#include "nlohmann/json.hpp"
#include "tests/lib/wire/random_job.h"

namespace muster {
namespace {

using google::protobuf::FieldDescriptor;
using testing::HasSubstr;

TEST(JobProto, RandomSpecsComeBack) {
  RandomJob jobs(3);
  for (int i = 0; i < 500; ++i) {
    const JobSpec spec = jobs.Make();
    v1::JobSpec received;
    ASSERT_TRUE(received.ParseFromString(ToProto(spec).SerializeAsString()));
    const auto back = FromProto(received);
    ASSERT_TRUE(back.ok()) << back.status() << "\n" << ToJson(spec);
    ASSERT_EQ(*back, spec) << ToJson(spec);
  }
}

TEST(JobProto, AbsentMeansTheDefault) {
  v1::JobSpec message;
  message.set_task("transformer");
  message.set_steps(10);
  message.mutable_workers()->set_max(2);
  const auto spec = FromProto(message);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(*spec, *ParseJobYaml("{task: transformer, steps: 10, workers: 2}", "a.yaml"));
}

TEST(JobProto, IsReadByTheSameRules) {
  v1::JobSpec message;
  message.set_task("counting");
  message.set_steps(10);
  message.mutable_optimizer()->set_kind("adamm");
  EXPECT_EQ(FromProto(message).status().message(),
            "optimizer.kind: 'adamm' is not known; allowed: sgd, momentum, adam, adamw, rmsprop, "
            "adagrad, lamb, lars");
  EXPECT_EQ(FieldOf(FromProto(message).status()), "optimizer.kind");
  message.clear_optimizer();
  message.set_lanes(-1);
  EXPECT_EQ(FromProto(message).status().message(), "lanes: -1 is out of range; allowed: 1 to 4096");
  message.clear_lanes();
  message.set_clip_norm(std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(FieldOf(FromProto(message).status()), "clip_norm");
  message.clear_clip_norm();
  (*message.mutable_parameters())["width"].set_number_value(3);
  EXPECT_EQ(FieldOf(FromProto(message).status()), "parameters.width");
}

TEST(JobProto, RefusesFieldsOfALaterVersion) {
  v1::JobSpec message;
  message.set_task("counting");
  message.set_steps(10);
  ASSERT_TRUE(FromProto(message).ok());
  v1::JobSpec outer = message;
  outer.GetReflection()->MutableUnknownFields(&outer)->AddVarint(999, 1);
  EXPECT_THAT(std::string(FromProto(outer).status().message()), HasSubstr("field number 999"));
  v1::JobSpec inner = message;
  v1::OptimizerSpec& optimizer = *inner.mutable_optimizer();
  optimizer.GetReflection()->MutableUnknownFields(&optimizer)->AddVarint(998, 1);
  EXPECT_THAT(std::string(FromProto(inner).status().message()), HasSubstr("field number 998"));
  v1::JobSpec in_a_list = message;
  in_a_list.add_groups()->set_match("*");
  ASSERT_TRUE(FromProto(in_a_list).ok()) << FromProto(in_a_list).status();
  v1::ParameterGroup& group = *in_a_list.mutable_groups(0);
  group.GetReflection()->MutableUnknownFields(&group)->AddVarint(997, 1);
  EXPECT_THAT(std::string(FromProto(in_a_list).status().message()), HasSubstr("field number 997"));
}

// Builds that know the number alone still read it.
TEST(JobProto, KeepIsANumberAndBesidesWhatIsKeptForEver) {
  v1::JobSpec message;
  message.set_task("counting");
  message.set_steps(10);
  message.mutable_checkpoint()->set_keep(5);
  EXPECT_EQ(FromProto(message)->runtime.checkpoint.keep, 5);
  message.mutable_checkpoint()->set_keep_every(100);
  const absl::StatusOr<JobSpec> both = FromProto(message);
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_EQ(both->runtime.checkpoint.keep, 5);
  EXPECT_EQ(both->runtime.checkpoint.keep_every, 100);
  EXPECT_EQ(ToProto(*both).checkpoint().keep(), 5);
  EXPECT_EQ(ToProto(*both).checkpoint().keep_every(), 100);
  message.mutable_checkpoint()->clear_keep();
  EXPECT_EQ(FromProto(message)->runtime.checkpoint.keep, 3);
  message.mutable_checkpoint()->set_keep_every(-1);
  EXPECT_EQ(FromProto(message).status().message(),
            "checkpoint.keep.every: '-1' is out of range; allowed: 0 to 1099511627776");
}

TEST(JobProto, KeepOfEpochsIsAFieldOfItsOwn) {
  v1::JobSpec message;
  message.set_task("counting");
  message.set_steps(10);
  message.mutable_checkpoint()->set_keep_epochs(2);
  message.mutable_checkpoint()->set_every_epochs(1);
  const absl::StatusOr<JobSpec> spec = FromProto(message);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->runtime.checkpoint.keep_epochs, 2);
  EXPECT_EQ(spec->runtime.checkpoint.every_epochs, 1);
  EXPECT_EQ(ToProto(*spec).checkpoint().keep_epochs(), 2);
  EXPECT_EQ(ToProto(*spec).checkpoint().every_epochs(), 1);
}

TEST(JobProto, KeepOfTheBestIsAFieldOfItsOwn) {
  v1::JobSpec message;
  message.set_task("mine");
  message.set_steps(10);
  message.mutable_data()->add_paths("/d");
  message.mutable_data()->set_validation_share(0.1);
  message.mutable_validation()->set_every_steps(2);
  message.mutable_checkpoint()->set_keep_best("validation.loss");
  const absl::StatusOr<JobSpec> spec = FromProto(message);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->runtime.checkpoint.keep, 3);
  EXPECT_EQ(spec->runtime.checkpoint.keep_best, "validation.loss");
  EXPECT_EQ(ToProto(*spec).checkpoint().keep_best(), "validation.loss");
  EXPECT_EQ(ToProto(*spec).checkpoint().keep(), 3);
  EXPECT_FALSE(ToProto(*spec).checkpoint().has_keep_every());
}

TEST(JobProto, ARatePerSamplesFollowsTheBatchAndIsStoredAsANumber) {
  v1::JobSpec message;
  message.set_task("counting");
  message.set_steps(10);
  message.set_batch(64);
  message.set_accumulate(2);
  v1::OptimizerSpec& optimizer = *message.mutable_optimizer();
  optimizer.set_learning_rate(0.1);
  optimizer.set_learning_rate_per_samples(256);
  const absl::StatusOr<JobSpec> spec = FromProto(message);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(*spec, *ParseJobYaml("{task: counting, steps: 10, batch: 64, accumulate: 2, optimizer: "
                                 "{learning_rate: {value: 0.1, per_samples: 256}}}",
                                 "a.yaml"));
  EXPECT_EQ(spec->training.optimizer.learning_rate, 0.05);
  EXPECT_EQ(ToProto(*spec).optimizer().learning_rate(), 0.05);
  EXPECT_FALSE(ToProto(*spec).optimizer().has_learning_rate_per_samples());
  optimizer.set_learning_rate_per_samples(0);
  EXPECT_EQ(FromProto(message).status().message(),
            "optimizer.learning_rate.per_samples: '0' is out of range; allowed: 1 to 2147483648");
  optimizer.set_learning_rate_per_samples(256);
  optimizer.clear_learning_rate();
  EXPECT_EQ(FieldOf(FromProto(message).status()), "optimizer.learning_rate.value");
}

// Whatever has no fields inside.
void AddLeaves(const google::protobuf::Descriptor& message, const std::string& prefix,
               std::set<std::string>& names) {
  for (int i = 0; i < message.field_count(); ++i) {
    const FieldDescriptor& field = *message.field(i);
    const std::string name = absl::StrCat(prefix, field.name());
    if (field.message_type() == nullptr || field.is_map())
      names.insert(name);
    else
      AddLeaves(*field.message_type(), absl::StrCat(name, "."), names);
  }
}

// Likewise; of what may have one form or another, those of all forms.
void AddLeaves(const nlohmann::json& schema, const std::string& name,
               std::set<std::string>& names) {
  for (const nlohmann::json& form : schema.value("anyOf", nlohmann::json::array()))
    AddLeaves(form, name, names);
  if (schema.contains("items")) return AddLeaves(schema["items"], name, names);
  if (!schema.contains("properties") && !schema.contains("anyOf")) names.insert(name);
  const nlohmann::json inside = schema.value("properties", nlohmann::json::object());
  for (const auto& item : inside.items())
    AddLeaves(item.value(), name.empty() ? item.key() : absl::StrCat(name, ".", item.key()), names);
}

TEST(JobProto, HasAllThatADocumentMaySay) {
  std::set<std::string> documents, messages;
  AddLeaves(SpecSchema(), "", documents);
  AddLeaves(*v1::JobSpec::descriptor(), "", messages);
  EXPECT_GT(messages.size(), 100U);
  for (const JobField& field : JobFields())
    EXPECT_THAT(documents, testing::Contains(testing::StartsWith(field.name)));
  // What has two forms in a document has a field for each part in a message.
  const std::pair<const char*, const char*> kTwoForms[] = {
      {"checkpoint.keep.last", "checkpoint.keep"},
      {"checkpoint.keep.every", "checkpoint.keep_every"},
      {"checkpoint.keep.every_epochs", "checkpoint.keep_epochs"},
      {"checkpoint.keep.best", "checkpoint.keep_best"},
      {"optimizer.learning_rate.value", "optimizer.learning_rate"},
      {"optimizer.learning_rate.per_samples", "optimizer.learning_rate_per_samples"},
      {"workers", "workers.max"},
  };
  for (const auto& [form, field] : kTwoForms) {
    EXPECT_EQ(documents.erase(form), 1U) << form;
    documents.insert(field);
  }
  // A name may stand in the place of a step.
  EXPECT_THAT(documents, testing::Contains("initial.parent.step"));
  documents.insert("initial.parent.name");
  EXPECT_EQ(documents, messages);
}

}  // namespace
}  // namespace muster
