#include "coordinator/service/rest_route.h"

#include <optional>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "coordinator/service/rest_operations.h"
#include "lib/base/check.h"

namespace muster::coordinator {
namespace {

// The job, where there are several: what else is named is a part of it.
std::string ObjectOf(const http::Request& request) {
  const auto id = request.params.find("id");
  if (id != request.params.end()) return id->second;
  return request.params.empty() ? "" : request.params.begin()->second;
}

}  // namespace

CallOrigin OriginOf(const MethodRights& rights, const http::Request& request) {
  const auto header = request.headers.find("authorization");
  return {header == request.headers.end() ? "" : header->second, request.peer,
          absl::StrCat(std::string(rights.verb), " ", std::string(rights.pattern))};
}

http::Response RefusalOf(const absl::Status& why) {
  http::Response response = http::ErrorResponse(why);
  if (absl::IsUnauthenticated(why)) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

http::Route Guarded(Gate* gate, http::Route route, Handle handle) {
  const Operation* operation = OperationOf(route.method, route.pattern);
  MUSTER_CHECK(operation != nullptr, "(a route is an operation)");
  for (const Parameter& parameter : operation->parameters)
    if (!parameter.is_header) route.query.push_back(parameter.name);
  route.streams = Streams(*operation);
  if (gate == nullptr) {
    route.handler = [handle = std::move(handle)](http::Request request,
                                                 const http::Responder& respond) {
      handle(Anybody(), std::move(request), respond);
    };
    return route;
  }
  const MethodRights* rights = RightsOfRoute(route.method, route.pattern);
  MUSTER_CHECK(rights != nullptr, "(a route has rights)");
  const auto look = [gate, rights](const http::Request& request) {
    return gate->Look(*rights, OriginOf(*rights, request), ObjectOf(request));
  };
  route.admit = [look](const http::Request& head) -> std::optional<http::Response> {
    const absl::StatusOr<Caller> caller = look(head);
    if (caller.ok()) return std::nullopt;
    return RefusalOf(caller.status());
  };
  const bool enters = rights->pattern.find('{') != std::string_view::npos;
  route.handler = [=, handle = std::move(handle)](http::Request request,
                                                  const http::Responder& respond) {
    const absl::StatusOr<Caller> caller =
        enters ? gate->Enter(*rights, OriginOf(*rights, request), ObjectOf(request))
               : look(request);
    if (!caller.ok()) return respond.Send(RefusalOf(caller.status()));
    handle(*caller, std::move(request), respond);
  };
  return route;
}

http::Route Guarded(Gate* gate, http::Route route) {
  http::Handler handler = std::move(route.handler);
  return Guarded(gate, std::move(route),
                 [handler = std::move(handler)](const Caller&, http::Request request,
                                                const http::Responder& respond) {
                   handler(std::move(request), respond);
                 });
}

}  // namespace muster::coordinator
