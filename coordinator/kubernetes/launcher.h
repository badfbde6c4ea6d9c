// Makes pods for jobs, keeps their number, and ends them (docs/hosts.md section 12): compares what
// the coordinator wants with what a Kubernetes cluster has, again and again. Remembers nothing that
// a restart would have to know.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "coordinator/kubernetes/api.h"
#include "coordinator/kubernetes/plan.h"
#include "coordinator/kubernetes/watcher.h"
#include "coordinator/state/launch.h"
#include "lib/base/mutex.h"
#include "lib/base/stop_signal.h"

namespace muster::coordinator {

struct LauncherOptions {
  KubeServer server;
  LaunchPlace place;  // whether there are JobSets is found out
  // Asked several times a second: what is wanted. Null: nobody knows yet.
  std::function<LaunchesPtr()> wanted;
  // Asked before anything is ended. kAborted: another coordinator has taken this one's place.
  std::function<absl::Status()> check_claim;
  // What a launch lacks, or that it has failed. False: nobody could hear it, and it is told again.
  std::function<bool(const LaunchTold&)> tell;
  // Several times a second: what keeps it from making pods for any job; empty: nothing does.
  std::function<void(const std::string& trouble)> note_trouble;
  Duration first_pause = std::chrono::seconds(1);  // at most, after a refusal; the next are longer
  // For so long a launch may keep its dead (KeepsItsDead) until it is asked why.
  Duration dead_are_kept = std::chrono::seconds(60);
  Duration look_for_rights = std::chrono::seconds(10);  // as long as some are lacking
};

// That a launch could not be made, changed or ended.
struct LaunchTrouble {
  std::string text;
  std::string failure;  // it never will be
  Time next{};          // when it is tried again
  Backoff backoff;
};
// What is remembered of one launch, as long as it is wanted or there.
struct KnownLaunch {
  std::optional<LaunchTrouble> trouble;
  std::optional<LaunchTold> told;  // what was heard last
  std::optional<Time> made_at;     // seen first
  std::optional<Time> failed_at;   // given up
  std::optional<Time> without_image_since;
  std::optional<Time> being_prepared_since;
  std::optional<Time> keeps_its_dead_since;
};

class Launcher {
 public:
  explicit Launcher(LauncherOptions options);
  ~Launcher();
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

 private:
  void Run();
  void FindOut();
  void LookAtRights();
  absl::StatusOr<std::string> RefusalOfTemplate(std::optional<Duration>& retry_after);
  void AskAgain(std::set<std::string> lacks, std::optional<Duration> retry_after);
  void NoteTrouble(const std::string& trouble);
  void Look(const Launches& wanted);
  void TakeSteps(const std::vector<LaunchStep>& steps);
  absl::Status Take(const LaunchStep& step, std::optional<Duration>& retry_after);
  absl::StatusOr<std::optional<SeenLaunch>> Find(LaunchKind kind, const std::string& name);
  absl::StatusOr<KubeAnswer> Create(const Launch& launch, const char* more_query);
  void Note(const LaunchStep& step, const absl::Status& done, std::optional<Duration> retry_after);
  std::set<std::string> Stuck(const Launches& wanted, const SeenCluster& seen);
  void Tell(const Launches& wanted, const SeenCluster& seen);
  const SeenCluster* Seen();
  WatcherEvents EventsOf(LaunchKind kind);
  WatcherEvents PodEvents();
  static void Put(LaunchKind kind, const std::string& object, SeenCluster& into);

  const LauncherOptions options_;
  LaunchPlace place_;
  std::atomic<bool> stopping_{false};
  StopSignal stop_;
  KubeApi api_;
  std::map<std::string, KnownLaunch> known_;  // by launch
  bool knows_kinds_ = false;                  // whether there are JobSets
  absl::Status discovery_;                    // the last try to find that out
  Backoff discovery_backoff_;
  Time next_discovery_{};
  bool has_made_one_ = false;           // itself: what is found may be of an earlier template
  std::string trouble_;                 // that was noted last
  std::set<std::string> lacks_;         // rights, a template that can be used: for people
  Backoff rights_backoff_;              // while nobody says which it has
  std::optional<Time> look_at_rights_;  // when; nothing: it has all
  std::string cannot_see_;              // why it does not know how it stands now; empty: it does
  SeenCluster copy_;                    // of what was seen, at …
  int64_t copy_of_changes_ = 0;         // … so many changes

  mutable Mutex mutex_;
  SeenCluster seen_ ABSL_GUARDED_BY(mutex_);
  int64_t changes_ ABSL_GUARDED_BY(mutex_) = 0;                        // of it, so far
  std::map<std::string, absl::Status> kinds_ ABSL_GUARDED_BY(mutex_);  // how it stands, by kind

  std::vector<std::unique_ptr<Watcher>> watchers_;
  std::unique_ptr<Watcher> job_sets_;
  std::thread thread_;
};

}  // namespace muster::coordinator
