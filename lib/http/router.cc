#include "lib/http/router.h"

#include <algorithm>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "lib/base/status.h"

namespace muster::http {
namespace {

std::vector<absl::string_view> Split(absl::string_view path) {
  return absl::StrSplit(path.substr(1), '/');
}

}  // namespace

absl::StatusOr<Router::Entry> Router::Parse(Route route) {
  const auto bad = [&](absl::string_view why) {
    return absl::InvalidArgumentError(
        absl::StrCat("route ", route.method, " ", route.pattern, ": ", why));
  };
  const bool word = !route.method.empty() &&
                    std::all_of(route.method.begin(), route.method.end(), absl::ascii_isupper);
  if (!word) return bad("the method must be upper-case letters");
  if (!route.handler) return bad("has no handler");
  if (!absl::StartsWith(route.pattern, "/")) return bad("the pattern must begin with '/'");
  Entry entry{std::move(route.method), {}, std::move(route.handler), std::move(route.admit),
              std::move(route.query),  0};
  std::set<std::string> names;
  for (const absl::string_view text : Split(route.pattern)) {
    const size_t close = text.find('}');
    const bool named = absl::StartsWith(text, "{");
    if (named && (close == absl::string_view::npos || close == 1))
      return bad("a '{' needs a name and a '}'");
    Segment segment;
    if (named) segment.name = std::string(text.substr(1, close - 1));
    segment.literal = std::string(named ? text.substr(close + 1) : text);
    if (segment.literal.find_first_of("{}") != std::string::npos)
      return bad("a {name} may only begin a segment");
    if (named && !names.insert(segment.name).second) return bad("a name stands twice");
    entry.names += named;
    entry.segments.push_back(std::move(segment));
  }
  return entry;
}

absl::StatusOr<Router> Router::Make(std::vector<Route> routes) {
  Router router;
  std::set<std::pair<std::string, std::string>> seen;
  for (Route& route : routes) {
    if (!seen.emplace(route.method, route.pattern).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("route ", route.method, " ", route.pattern, " stands twice"));
    }
    MUSTER_ASSIGN_OR_RETURN(router.entries_.emplace_back(), Parse(std::move(route)));
  }
  std::stable_sort(router.entries_.begin(), router.entries_.end(),
                   [](const Entry& a, const Entry& b) { return a.names < b.names; });
  return router;
}

bool Router::Fits(const Entry& entry, const std::vector<absl::string_view>& path,
                  std::map<std::string, std::string>& params) {
  if (path.size() != entry.segments.size()) return false;
  params.clear();
  for (size_t i = 0; i < path.size(); ++i) {
    const Segment& segment = entry.segments[i];
    absl::string_view text = path[i];
    if (segment.name.empty()) {
      if (text != segment.literal) return false;
      continue;
    }
    if (!absl::EndsWith(text, segment.literal)) return false;
    text.remove_suffix(segment.literal.size());
    if (text.empty() || text.find(':') != absl::string_view::npos) return false;
    params[segment.name] = std::string(text);
  }
  return true;
}

Router::Found Router::Find(absl::string_view method, absl::string_view path) const {
  Found found;
  if (method == "HEAD") method = "GET";
  std::set<std::string> methods;
  const std::vector<absl::string_view> segments = Split(path);
  for (const Entry& entry : entries_) {
    std::map<std::string, std::string> params;
    if (!Fits(entry, segments, params)) continue;
    methods.insert(entry.method);
    if (entry.method == "GET") methods.insert("HEAD");
    if (found.handler == nullptr && entry.method == method) {
      found.handler = &entry.handler;
      found.admit = &entry.admit;
      found.query = &entry.query;
      found.params = std::move(params);
    }
  }
  for (const std::string& m : methods)
    absl::StrAppend(&found.allowed, found.allowed.empty() ? "" : ", ", m);
  return found;
}

std::optional<Response> WhyNot(const Request& request, const Router::Found& found) {
  if (found.allowed.empty())
    return JsonError(404, "not_found", absl::StrCat("there is nothing at ", request.path));
  if (found.handler == nullptr) {
    Response response =
        JsonError(405, "unimplemented", absl::StrCat(request.path, " takes only ", found.allowed));
    response.headers.emplace_back("Allow", found.allowed);
    return response;
  }
  for (const auto& [key, value] : request.query) {
    if (std::find(found.query->begin(), found.query->end(), key) != found.query->end()) continue;
    const std::string allowed = found.query->empty()
                                    ? "this takes no parameters"
                                    : "allowed: " + absl::StrJoin(*found.query, ", ");
    const std::string what = key.empty() ? "a parameter without a name" : key + ":";
    return JsonError(400, "invalid_argument", absl::StrCat(what, " is not known; ", allowed), key);
  }
  return std::nullopt;
}

}  // namespace muster::http
