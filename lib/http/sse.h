// The text form of server-sent events (HTML standard, section 9.2), both ways.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "lib/http/client.h"

namespace muster::http {

// One event. Line ends (and NUL) in `id` and `event` are dropped; `data` becomes one line of data
// per line.
std::string FormatEvent(absl::string_view id, absl::string_view event, absl::string_view data);

inline constexpr absl::string_view kHeartbeat = ":\n\n";

// Takes the bytes of a stream in any pieces and gives back whole events.
class EventParser {
 public:
  // `id`: the id that events have until the stream names one.
  explicit EventParser(std::string id = "") : id_(std::move(id)) {}

  // Appends the events that `bytes` completes. kResourceExhausted: one event is larger than 4 MiB.
  absl::Status Feed(absl::string_view bytes, std::vector<Event>& out);

 private:
  void ReadLine(absl::string_view line, std::vector<Event>& out);

  std::string id_;
  std::string line_;  // not yet ended
  std::string name_;
  std::string data_;
  bool after_return_ = false;  // the last byte was \r, so that a \n now belongs to it
};

}  // namespace muster::http
