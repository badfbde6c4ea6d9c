// Which events are dropped where more wait than are kept for the slowest webhook: the oldest of the
// jobs that have most of them, and what tells the end of a job after all else of it. So a job that
// changes all the time pays by itself, and crowds out neither others nor its own end.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "coordinator/runtime/outbox.h"

namespace muster::coordinator {

// A plain value, of some dozen bytes for an event.
class Crowd {
 public:
  // In the order of their places.
  void Add(const PlacedEvent& placed);
  size_t size() const { return waiting_.size(); }
  // `many` of them.
  std::vector<OutboxPlace> Surplus(size_t many) const;

 private:
  struct Waiting {
    OutboxPlace place;
    size_t job;
    bool is_end;
  };
  size_t JobsMayHave(size_t many) const;

  std::map<std::string, size_t> jobs_;  // places in many_of_
  std::vector<size_t> many_of_;         // by job
  std::vector<Waiting> waiting_;
};

}  // namespace muster::coordinator
