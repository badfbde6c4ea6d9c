// What REST offers, for programs: an OpenAPI 3.1 document, made of the tables that routes, bodies,
// answers and job specifications are read and written by.
#pragma once

#include <string>

namespace muster::coordinator {

// The same in every coordinator of this version; docs/openapi.json is a copy. Ends with a line end.
const std::string& OpenApiText();

}  // namespace muster::coordinator
