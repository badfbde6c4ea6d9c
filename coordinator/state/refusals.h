// What is told of what members tried and may not: to join, or to add a record. Whoever tries again
// and again, under ever other names or with ever other reasons, fills neither the log nor the
// events: of each kind some are told in a minute, and the rest is counted and told when it is over,
// with those of the job's own names that were among them. Lives as long as its JobRun.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/allowance.h"
#include "lib/base/time.h"

namespace muster::coordinator {

struct Refusal {
  std::string name;        // of the member
  bool is_wanted = false;  // the job has a process of this name
  std::string kind;        // the reason without what the member said: those who refuse have few
  std::string text;        // the whole sentence
};

class Refusals {
 public:
  // What is refused: "record", "records".
  Refusals(std::string one, std::string many) : one_(std::move(one)), many_(std::move(many)) {}

  // What is to be told now: nothing if it is what was last told or counted of this name, or if too
  // many of its kind were told.
  std::vector<std::string> Tell(const Refusal& refusal, Time now);

  // What is to be told of those that were counted, of the kinds whose minute is over.
  std::vector<std::string> TellRest(Time now);

 private:
  struct OfKind {
    Allowance allowance;
    std::set<std::string> wanted;  // some of the job's names that were counted
  };
  std::string Rest(const std::string& kind, OfKind& of, int64_t count) const;

  const std::string one_, many_;
  std::map<std::string, std::string> last_;  // text by name, of some names
  std::map<std::string, OfKind> kinds_;      // few: each tick looks at all of them
};

}  // namespace muster::coordinator
