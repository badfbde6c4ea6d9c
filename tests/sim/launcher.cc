#include "tests/sim/launcher.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/sim/coordinator_process.h"

namespace muster::sim {

using coordinator::LaunchStep;

SimLauncher::SimLauncher(Around around, Pods& pods, CoordinatorProcess& coordinator)
    : around_(around), pods_(pods), coordinator_(coordinator) {
  coordinator_.runner().Later(around_.schedule.Random(5, 500), [this] {
    seen_ = pods_.Seen();
    for (const auto& [name, launch] : seen_->launches)
      if (!launch.is_ending) around_.coverage.Add(Corner::kLaunchesAdopted);
    pods_.Watch(coordinator_.term(), [this] { Watched(); });
    Look();
  });
}

SimLauncher::~SimLauncher() { pods_.Unwatch(coordinator_.term()); }

// What is seen was so some time ago, and changes come in their order.
void SimLauncher::Watched() {
  const int64_t most = around_.schedule.OneIn(10) ? 2000 : 40;
  watch_.Push(around_.schedule, coordinator_.runner(), around_.schedule.Random(1, most),
              [this, seen = pods_.Seen()] { seen_ = seen; });
}

void SimLauncher::LookLater() {
  coordinator_.runner().Later(around_.schedule.Random(20, 200), [this] { Look(); });
}

// What is wanted may change while the steps of this look are taken.
void SimLauncher::Look() {
  if (coordinator_.dead()) return;
  wanted_ = coordinator_.state().launches();
  const std::vector<LaunchStep> steps = coordinator::StepsFor(wanted_, *seen_);
  steps_.assign(steps.begin(), steps.end());
  Take();
}

void SimLauncher::Take() {
  if (coordinator_.dead()) return;
  if (steps_.empty()) {
    Tell(wanted_);
    return LookLater();
  }
  const int64_t most = around_.schedule.OneIn(8) ? 1500 : 30;
  coordinator_.runner().Later(around_.schedule.Random(1, most), [this] {
    if (coordinator_.dead()) return;
    const LaunchStep step = std::move(steps_.front());
    steps_.pop_front();
    Take(step);
    Take();
  });
}

// As the real one it notes at once what it has done, before it sees it.
void SimLauncher::Take(const LaunchStep& step) {
  const std::string& name = step.kind == LaunchStep::Kind::kEnd ? step.seen.name : step.launch.name;
  switch (step.kind) {
    case LaunchStep::Kind::kMake: {
      if (!pods_.Make(step.launch)) return;
      const coordinator::SeenCluster now = pods_.Seen();
      seen_->launches.try_emplace(name, now.launches.at(name));
      return;
    }
    case LaunchStep::Kind::kResize: pods_.Resize(step.seen.uid, step.launch.hosts); return;
    case LaunchStep::Kind::kFree:  // no namespace ends here
    case LaunchStep::Kind::kEnd: {
      if (!coordinator_.MayChangeFolder()) return;
      around_.coverage.Add(Corner::kLaunchesEnded);
      pods_.Delete(step.seen.uid);
      const auto it = seen_->launches.find(name);
      if (it != seen_->launches.end() && it->second.uid == step.seen.uid)
        it->second.is_ending = true;
      return;
    }
  }
}

void SimLauncher::Tell(const coordinator::Launches& wanted) {
  for (const coordinator::Launch& launch : wanted) {
    if (coordinator_.dead()) return;
    const auto there = seen_->launches.find(launch.name);
    if (there != seen_->launches.end() && !there->second.failure.empty())
      failed_at_.try_emplace(launch.name, around_.schedule.now());
    else
      failed_at_.erase(launch.name);
    const auto failed = failed_at_.find(launch.name);
    coordinator::LaunchTimes times;
    if (failed != failed_at_.end())
      times.since_failed = std::chrono::milliseconds(around_.schedule.now() - failed->second);
    coordinator::LaunchTold told = coordinator::ToldOf(launch, *seen_, times);
    const auto before = told_.find(launch.name);
    if (before != told_.end() && before->second == told) continue;
    coordinator_.Feed(told);
    told_.insert_or_assign(launch.name, std::move(told));
  }
}

}  // namespace muster::sim
