#include "coordinator/service/openapi.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "coordinator/service/rest_json.h"
#include "coordinator/service/rest_operations.h"
#include "coordinator/state/rights.h"
#include "lib/base/check.h"
#include "lib/base/version.h"
#include "lib/wire/job_document.h"

namespace muster::coordinator {
namespace {

constexpr char kJson[] = "application/json";

Json BodySchema(const Body& body) {
  Json schema = body.schema;
  if (schema.is_null()) {
    Json properties = Json::object(), required = Json::array();
    for (const BodyField& field : body.fields) {
      properties[field.name] = field.schema;
      properties[field.name]["description"] = field.about;
      if (field.is_needed) required.push_back(field.name);
    }
    schema = {{"type", "object"}, {"additionalProperties", false}};
    schema["properties"] = std::move(properties);
    if (!required.empty()) schema["required"] = std::move(required);
  }
  schema["description"] = body.about;
  return schema;
}

Json Schemas() {
  Json schemas = AnswerSchemas();
  schemas["JobSpec"] = Json(SpecSchema());
  schemas["JobSpec"]["description"] =
      "The specification of a job. A field that is left out has its default. Fields that mean "
      "nothing for the job, such as optimizer.beta1 of sgd, are refused.";
  for (const Operation& operation : Operations())
    if (operation.body != nullptr) schemas[operation.body->name] = BodySchema(*operation.body);
  return schemas;
}

std::vector<std::string> ParametersInPath(const std::string& pattern) {
  std::vector<std::string> names;
  for (size_t open = pattern.find('{'); open != std::string::npos;
       open = pattern.find('{', open + 1))
    names.push_back(pattern.substr(open + 1, pattern.find('}', open) - open - 1));
  return names;
}

Json ParametersOf(const Operation& operation) {
  Json parameters = Json::array();
  for (const std::string& name : ParametersInPath(operation.pattern))
    parameters.push_back({{"name", name},
                          {"in", "path"},
                          {"required", true},
                          {"schema", {{"type", "string"}, {"pattern", "^[^/:]+$"}}}});
  for (const Parameter& parameter : operation.parameters)
    parameters.push_back({{"name", parameter.name},
                          {"in", parameter.is_header ? "header" : "query"},
                          {"description", parameter.about},
                          {"schema", parameter.schema}});
  return parameters;
}

Json Content(const std::string& type, Json schema) {
  return {{type, {{"schema", std::move(schema)}}}};
}

Json ResponsesOf(const Operation& operation, const MethodRights& rights) {
  Json responses = Json::object();
  for (const int status : operation.statuses)
    responses[std::to_string(status)] = {
        {"description", status == 202   ? "It goes on."
                        : status == 201 ? "It was made."
                                        : "Done."},
        {"content", Content(operation.content_type, operation.answer)}};
  const auto refuses = [&](const std::string& status, const char* why) {
    responses[status] = {{"description", why}, {"content", Content(kJson, RefTo(kErrorSchema))}};
  };
  refuses("400", "The request, or a field of it, is not as it should be.");
  if (rights.need != Need::kNothing) {
    refuses("401", "A token is needed, and there is none, a wrong one, or one that has expired.");
    refuses("403", "The token's user may not.");
  }
  if (operation.pattern.find('{') != std::string::npos) refuses("404", "There is none.");
  if (operation.conflicts) refuses("409", "The state that something is in does not allow it.");
  refuses("default", "Another error: its code and message say which.");
  return responses;
}

// What the path is about: clients that are made of the document group their calls by it.
std::string TagOf(const std::string& pattern) {
  constexpr absl::string_view kVersioned = "/v1/";
  if (!absl::StartsWith(pattern, kVersioned) || absl::EndsWith(pattern, ".json"))
    return "coordinator";
  const std::string rest = pattern.substr(kVersioned.size());
  return rest.substr(0, rest.find_first_of("/:"));
}

std::string SummaryOf(const std::string& about) {
  return about.substr(0, std::min(about.find(". "), about.find_last_not_of('.') + 1));
}

Json OperationObject(const Operation& operation) {
  const MethodRights* rights = RightsOfRoute(operation.verb, operation.pattern);
  MUSTER_CHECK(rights != nullptr, "(an operation has rights)");
  Json object = {{"operationId", operation.id},
                 {"tags", Json::array({TagOf(operation.pattern)})},
                 {"summary", SummaryOf(operation.about)},
                 {"description", operation.about}};
  if (rights->need == Need::kNothing) {
    object["security"] = Json::array();
  } else {
    object["x-muster-role"] = std::string(RoleName(LeastRole(rights->need)));
  }
  if (!rights->method.empty()) object["x-muster-grpc"] = std::string(rights->method);
  if (Json parameters = ParametersOf(operation); !parameters.empty())
    object["parameters"] = std::move(parameters);
  if (operation.body != nullptr)
    object["requestBody"] = {{"required", !operation.body->may_be_absent},
                             {"content", Content(kJson, RefTo(operation.body->name))}};
  object["responses"] = ResponsesOf(operation, *rights);
  return object;
}

Json Document() {
  Json paths = Json::object();
  for (const Operation& operation : Operations())
    paths[operation.pattern][absl::AsciiStrToLower(operation.verb)] = OperationObject(operation);
  return {{"openapi", "3.1.0"},
          {"info",
           {{"title", "Muster"},
            {"version", std::string(kVersion)},
            {"description",
             "Jobs, hosts and tokens of a Muster coordinator. It speaks HTTPS, and shows a "
             "certificate whose only URI is spiffe://CLUSTER/coordinator, signed by the cluster's "
             "authority: that is what a client checks, and not the name of the host. Whoever calls "
             "has a role; x-muster-role is the least that an operation needs, and x-muster-grpc "
             "the same call over gRPC. Clients pass over fields that they do not know: later "
             "versions have more."}}},
          {"security", Json::array({{{"token", Json::array()}}})},
          {"paths", std::move(paths)},
          {"components",
           {{"securitySchemes",
             {{"token",
               {{"type", "http"},
                {"scheme", "bearer"},
                {"description", "as `muster token make` prints it"}}}}},
            {"schemas", Schemas()}}}};
}

}  // namespace

const std::string& OpenApiText() {
  static const auto& text = *new std::string(Document().dump(1) + "\n");
  return text;
}

}  // namespace muster::coordinator
