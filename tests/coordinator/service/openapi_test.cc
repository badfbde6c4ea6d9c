// The document says what is so: what it points to is there, each route is in it and the other way
// round, and what gRPC and REST say of the same thing has the same names.
#include "coordinator/service/openapi.h"

#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "absl/strings/ascii.h"
#include "coordinator/service/rest_operations.h"
#include "coordinator/state/rights.h"
#include "google/protobuf/descriptor.h"
#include "gtest/gtest.h"
#include "muster/v1/control.pb.h"
#include "nlohmann/json.hpp"

namespace muster::coordinator {
namespace {

using Names = std::set<std::string>;

const Json& Document() {
  static const auto& document = *new Json(Json::parse(OpenApiText()));
  return document;
}

Names KeysOf(const Json& object) {
  Names names;
  for (const auto& item : object.items()) names.insert(item.key());
  return names;
}

Names FieldsOf(const google::protobuf::Descriptor& message) {
  Names names;
  for (int i = 0; i < message.field_count(); ++i) names.insert(message.field(i)->name());
  return names;
}

Names Without(Names names, const Names& others) {
  for (const std::string& name : others) names.erase(name);
  return names;
}

TEST(OpenApi, IsTheOneInTheDocuments) {
  std::ifstream file(MUSTER_SOURCE "/docs/openapi.json");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(text == OpenApiText(), true)
      << "docs/openapi.json is not what the coordinator serves; make it anew with: "
         "build/dev/bin/muster-coordinator --openapi > docs/openapi.json";
}

// Routes are made of the operations (rest_route.cc), and GuardedRestTest compares routes and
// rights.
TEST(OpenApi, HasEachRowOfRightsAndNothingElse) {
  Names described, allowed;
  for (const auto& [pattern, item] : Document()["paths"].items())
    for (const auto& operation : item.items())
      described.insert(absl::AsciiStrToUpper(operation.key()) + " " + pattern);
  for (const MethodRights& row : kMethods)
    allowed.insert(std::string(row.verb) + " " + std::string(row.pattern));
  EXPECT_EQ(described, allowed);
}

void FindReferences(const Json& json, Names& found) {
  if (json.is_object() && json.contains("$ref") && json["$ref"].is_string())
    found.insert(json["$ref"].get<std::string>());
  if (json.is_structured())
    for (const Json& inner : json) FindReferences(inner, found);
}

TEST(OpenApi, PointsToWhatIsThereAndNothingIsLeftOver) {
  Names found, there;
  FindReferences(Document(), found);
  for (const auto& item : Document()["components"]["schemas"].items())
    there.insert("#/components/schemas/" + item.key());
  // Of an event the stream alone speaks, in words.
  EXPECT_EQ(found, Without(there, {"#/components/schemas/JobEvent"}));
}

TEST(OpenApi, EachOperationHasAnIdOfItsOwn) {
  Names ids;
  for (const Operation& operation : Operations())
    EXPECT_TRUE(ids.insert(operation.id).second) << operation.id;
}

// docs/rest.md names these differences.
TEST(OpenApi, SaysWhatTheMessagesOfGrpcSay) {
  struct Row {
    const char* schema;
    const google::protobuf::Descriptor* message;
    Names of_rest;
    Names of_grpc;
  };
  const Row rows[] = {
      {"Job", v1::Job::descriptor(), {"seconds_left"}, {}},
      {"JobMember", v1::JobMember::descriptor(), {}, {}},
      {"Checkpoint", v1::CheckpointRef::descriptor(), {}, {}},
      {"JobPage", v1::ListResponse::descriptor(), {}, {}},
      {"Adoption", v1::Adoption::descriptor(), {}, {"error_code"}},
      {"Audit", v1::AuditResponse::descriptor(), {}, {}},
      {"Lineage", v1::AuditResponse::Fork::descriptor(), {}, {}},
      {"Digest", v1::DigestResponse::descriptor(), {}, {}},
      {"Fingerprint", v1::JobFingerprint::descriptor(), {}, {}},
      {"Fingerprints", v1::FingerprintsResponse::descriptor(), {}, {}},
      {"Host", v1::Host::descriptor(), {"namespace"}, {"name_space"}},
      {"HostMember", v1::HostMember::descriptor(), {}, {}},
      {"HostPage", v1::ListHostsResponse::descriptor(), {}, {}},
      {"LogLine", v1::LogLine::descriptor(), {}, {}},
      {"LogPage", v1::FollowLogsResponse::descriptor(), {}, {}},
  };
  for (const Row& row : rows) {
    const Names rest = KeysOf(Document()["components"]["schemas"][row.schema]["properties"]);
    const Names grpc = FieldsOf(*row.message);
    EXPECT_FALSE(rest.empty()) << row.schema;
    EXPECT_EQ(Without(rest, grpc), row.of_rest) << row.schema;
    EXPECT_EQ(Without(grpc, rest), row.of_grpc) << row.schema;
  }
}

TEST(OpenApi, NamesTheCallOfGrpcWhereThereIsOne) {
  const Json& submit = Document()["paths"]["/v1/jobs"]["post"];
  EXPECT_EQ(submit["x-muster-grpc"], "muster.v1.Jobs.Submit");
  EXPECT_EQ(submit["x-muster-role"], "submitter");
  EXPECT_FALSE(Document()["paths"]["/v1/jobs/{id}/history"]["get"].contains("x-muster-grpc"));
}

// Whoever needs no token needs none in a client that is made of the document.
TEST(OpenApi, OnlyHealthIsOpen) {
  Names open;
  for (const auto& [pattern, item] : Document()["paths"].items())
    for (const Json& operation : item)
      if (operation.contains("security")) open.insert(pattern);
  EXPECT_EQ(open, (Names{"/healthz", "/readyz"}));
}

}  // namespace
}  // namespace muster::coordinator
