// The one table of what REST offers: routes take their parameters from it, bodies their fields, and
// the OpenAPI document everything (docs/rest.md says the same for people). Who may is in
// coordinator/state/rights.h.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "coordinator/service/answer_shape.h"

namespace muster::coordinator {

// Of the query, or a header.
struct Parameter {
  std::string name;
  Json schema;
  std::string about;
  bool is_header = false;
};

struct BodyField {
  std::string name;
  Json schema;
  std::string about;
  bool is_needed = false;
};

// What a request sends, as one JSON object. `schema`: of all of it, where it has no fields here,
// as another table reads it.
struct Body {
  std::string name;  // in the components of the document
  std::string about;
  std::vector<BodyField> fields;
  Json schema = nullptr;
  bool may_be_absent = false;
};

struct Operation {
  std::string verb;
  std::string pattern;
  std::string id;  // in the document, and so in clients that are made of it: renamed for no reason
  std::string about;
  Json answer;                     // its schema
  std::vector<int> statuses{200};  // where it is no error
  std::vector<Parameter> parameters{};
  const Body* body = nullptr;
  bool conflicts = false;  // it may be refused by the state that something is in (409)
  std::string content_type = "application/json";
};

// It answers with server-sent events.
bool Streams(const Operation& operation);

const std::vector<Operation>& Operations();
// Null: there is none.
const Operation* OperationOf(std::string_view verb, std::string_view pattern);

const Body& SubmissionBody();
const Body& ScalingBody();
const Body& AdoptionBody();
const Body& QueueChangeBody();
const Body& CheckpointChangeBody();
const Body& QuotaBody();
const Body& TokenBody();
const Body& AdmissionBody();
const Body& AuthorityChangeBody();
const Body& PublicKeyBody();

// Those that a body may have.
std::vector<std::string> KeysOf(const Body& body);

}  // namespace muster::coordinator
