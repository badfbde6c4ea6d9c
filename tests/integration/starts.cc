#include "tests/integration/starts.h"

#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace muster::integration {
namespace {

using Member = std::pair<std::string, std::string>;  // its job and its name

// A line that tells of a member: what it is, and what follows its name.
struct Line {
  Member member;
  std::string what;
};

// "job JOB: NAME WHAT"; nothing: the line is of something else.
std::optional<Line> Read(const std::string& line) {
  std::istringstream words(line);
  std::string word, job, name, what;
  if (!(words >> word >> job >> name) || word != "job" || !absl::EndsWith(job, ":")) return {};
  std::getline(words >> std::ws, what);
  return Line{{job.substr(0, job.size() - 1), name}, what};
}

// "starts as placement N, incarnation HEX"; nothing: it tells of an end.
std::optional<Start> ReadStart(const std::string& host, const Line& line) {
  std::istringstream words(line.what);
  std::string starts, as, placement;
  Start start{.host = host, .job = line.member.first, .member = line.member.second};
  if (!(words >> starts >> as >> placement >> start.placement)) return {};
  if (starts != "starts" || as != "as" || placement != "placement") return {};
  std::string comma, incarnation;
  if (words >> comma >> incarnation) words >> start.incarnation;
  return start;
}

std::string Text(const Start& start) {
  return absl::StrCat(start.member, " of job ", start.job, ", placement ", start.placement,
                      ", on host ", start.host);
}

// Calls one of both for each line of an agent that tells of a member.
template <class OnStart, class OnEnd>
void ForEachLine(const AgentSaid& agent, const OnStart& on_start, const OnEnd& on_end) {
  std::istringstream lines(agent.output);
  for (std::string text; std::getline(lines, text);) {
    const std::optional<Line> line = Read(text);
    if (!line) continue;
    if (const std::optional<Start> start = ReadStart(agent.host, *line))
      on_start(*start);
    else
      on_end(line->member);
  }
}

}  // namespace

std::vector<Start> StartsIn(const std::vector<AgentSaid>& agents) {
  std::vector<Start> starts;
  for (const AgentSaid& agent : agents)
    ForEachLine(
        agent, [&](const Start& start) { starts.push_back(start); }, [](const Member&) {});
  return starts;
}

std::vector<std::string> StartedTwice(const std::vector<AgentSaid>& agents) {
  std::vector<std::string> twice;
  std::map<std::pair<std::string, int64_t>, const AgentSaid*> by;  // job and placement
  std::set<std::string> incarnations;
  for (const AgentSaid& agent : agents) {
    std::set<Member> running;
    const auto on_start = [&](const Start& start) {
      const AgentSaid* const first =
          by.try_emplace({start.job, start.placement}, &agent).first->second;
      if (first->host != agent.host)
        twice.push_back(absl::StrCat(Text(start), " was started on host ", first->host, ", too"));
      else if (first != &agent)
        twice.push_back(
            absl::StrCat(Text(start), " was started by another agent of that host, too"));
      if (!running.insert({start.job, start.member}).second)
        twice.push_back(absl::StrCat(Text(start), " starts while one of that name runs there"));
      if (!start.incarnation.empty() && !incarnations.insert(start.incarnation).second)
        twice.push_back(absl::StrCat(Text(start), " has an incarnation that was there before"));
    };
    ForEachLine(agent, on_start, [&](const Member& member) { running.erase(member); });
  }
  return twice;
}

}  // namespace muster::integration
