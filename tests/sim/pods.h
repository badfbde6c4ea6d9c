// What stands for a Kubernetes cluster in the simulation: objects that were made for launches, and
// a controller that keeps their pods, each of which is a host with one slot. Lives as long as the
// world.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "coordinator/kubernetes/plan.h"
#include "tests/sim/around.h"

namespace muster::sim {

class Pods {
 public:
  struct Events {
    std::function<void(const std::string& host, int32_t devices)> start;  // its agent
    // It is told to end, and dies after so many milliseconds.
    std::function<void(const std::string& host, int64_t ms)> end;
  };
  Pods(Around around, Events events) : around_(around), events_(std::move(events)) {}

  // As an API server does them. False: it has refused.
  bool Make(const coordinator::Launch& launch);
  bool Resize(const std::string& uid, int32_t hosts);
  void Delete(const std::string& uid);
  // What becomes of a launch without the coordinator: its object is deleted, its pods have failed
  // too often, or Kueue takes its room for so long.
  void DeleteAny();
  void GiveUpAny();
  void SuspendAny(int64_t ms);

  // The host is dead; where it is still wanted another takes its place after so long.
  void Died(const std::string& host, int64_t down_ms);

  // As it stands now, for whoever lists all.
  coordinator::SeenCluster Seen() const;
  // `watch` is called after each change, until `who` watches no more.
  void Watch(int64_t who, std::function<void()> watch) { watches_[who] = std::move(watch); }
  void Unwatch(int64_t who) { watches_.erase(who); }
  bool empty() const { return objects_.empty(); }
  const std::set<std::string>& made() const { return made_; }  // names, ever

 private:
  enum class Pod { kComes, kRuns, kEnds };
  struct Object {
    coordinator::SeenLaunch seen;
    int32_t devices = 0;
    std::map<int32_t, Pod> pods{};  // by index
  };

  Object* Find(const std::string& uid);
  Object* Any();
  void Keep(Object& object);
  void Begin(Object& object, int32_t index, int64_t delay);
  void End(Object& object, int32_t index);
  void Changed() const {
    for (const auto& [who, watch] : watches_) watch();
  }

  Around around_;
  const Events events_;
  std::map<std::string, Object> objects_;  // by name
  std::set<std::string> made_;
  int64_t next_uid_ = 1;
  std::map<int64_t, std::function<void()>> watches_;  // by term, at most two
};

}  // namespace muster::sim
