// Which handler a method and a path belong to. Immutable after Make, so usable from any thread.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/http/server.h"

namespace muster::http {

class Router {
 public:
  // Patterns as Route says. kInvalidArgument: one that does not parse, or the same method and
  // pattern twice.
  static absl::StatusOr<Router> Make(std::vector<Route> routes);

  struct Found {
    const Handler* handler = nullptr;                 // null: nothing for this method here
    const Admit* admit = nullptr;                     // with a handler
    const std::vector<std::string>* query = nullptr;  // parameters that it takes; with a handler
    std::map<std::string, std::string> params;
    std::string allowed;  // the methods that this path has, "GET, POST"; empty: the path is unknown
  };
  // HEAD finds what answers GET. Where several patterns fit, the one with the fewest {names} wins.
  Found Find(absl::string_view method, absl::string_view path) const;

 private:
  struct Segment {
    std::string name;     // of the {name} it begins with; empty: none
    std::string literal;  // what follows the {name}, or the whole segment
  };
  struct Entry {
    std::string method;
    std::vector<Segment> segments;
    Handler handler;
    Admit admit;
    std::vector<std::string> query;
    int names = 0;
  };
  static absl::StatusOr<Entry> Parse(Route route);
  static bool Fits(const Entry& entry, const std::vector<absl::string_view>& path,
                   std::map<std::string, std::string>& params);

  std::vector<Entry> entries_;  // fewest names first
};

// The refusal of a request that no handler takes; nothing: `found` has one for it.
std::optional<Response> WhyNot(const Request& request, const Router::Found& found);

}  // namespace muster::http
