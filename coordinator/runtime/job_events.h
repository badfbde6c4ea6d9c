// An event of a job, and whoever watches for events: what the event log and the control API share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "lib/base/ids.h"

namespace muster {

struct JobEvent {
  std::string
      id;  // resume after it: "TERM-SEQ"; numbers begin again with each term of the coordinator
  int64_t seq = 0;
  int64_t unix_ms = 0;
  std::string
      event;  // state, view, recovery, checkpoint, step, fingerprint, process, done; gap, restart
  std::string text;
  std::map<std::string, std::string> fields;
};

// Where a watcher goes on: after the event of that number.
struct EventPlace {
  TermNumber term{0};
  int64_t seq = 0;
};

// That an event's id names; nothing: the text is no such id.
std::optional<EventPlace> ParseEventPlace(absl::string_view id);
inline constexpr char kEventPlaceForm[] =
    "must be the id of an event, TERM-NUMBER, as in 1-14; leave it out for all that are kept";

// About what it takes in memory.
inline size_t BytesOf(const JobEvent& event) {
  size_t bytes = sizeof(JobEvent) + event.id.size() + event.event.size() + event.text.size();
  for (const auto& [name, value] : event.fields) bytes += 128 + name.size() + value.size();
  return bytes;
}

// Who watches a job. Called on the thread of the event log; never blocks. It is destroyed, on any
// thread, when no more events will come.
class JobWatcher {
 public:
  virtual ~JobWatcher() = default;
  virtual bool OnEvent(const JobEvent& event) = 0;  // false: wants no more
  virtual bool closed() const = 0;                  // wants no more, also before the next event
};

}  // namespace muster
