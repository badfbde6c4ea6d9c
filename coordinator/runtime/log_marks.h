// How much of each member's log each agent has told, so that what got lost on its way, with a
// session or because the agent was not to tell it yet, is counted once the next lines come. Of the
// two agents that told of a member last; after a restart, of what agents tell since. On the
// driver's thread.
#pragma once

#include <algorithm>
#include <deque>
#include <iterator>
#include <map>
#include <string>

#include "lib/domain/message.h"

namespace muster::coordinator {

class LogMarks {
 public:
  // What is missing before these lines, besides what the agent has left out itself.
  LogAmount Note(const AgentId& agent, const LogLines& lines) {
    std::deque<Mark>& marks = marks_[lines.job][lines.name];
    auto mark = std::find_if(marks.begin(), marks.end(),
                             [&](const Mark& one) { return one.agent == agent; });
    LogAmount missing;
    if (mark == marks.end()) {
      marks.push_back({agent, {}});
      if (marks.size() > kMarksKept) marks.pop_front();
      mark = std::prev(marks.end());
    } else {
      missing = {std::max<int64_t>(0, lines.before.bytes - mark->told.bytes),
                 std::max<int64_t>(0, lines.before.lines - mark->told.lines)};
    }
    mark->told = lines.before;
    mark->told += lines.left_out;
    mark->told += {static_cast<int64_t>(lines.text.size()),
                   std::count(lines.text.begin(), lines.text.end(), '\n')};
    return missing;
  }
  void Forget(const std::string& job) { marks_.erase(job); }

 private:
  static constexpr size_t kMarksKept = 2;
  struct Mark {
    AgentId agent;
    LogAmount told;
  };
  std::map<std::string, std::map<std::string, std::deque<Mark>>> marks_;  // by job and member
};

}  // namespace muster::coordinator
