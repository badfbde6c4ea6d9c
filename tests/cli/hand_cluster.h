// A cluster without processes, for tests of the commands that start one.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/cluster.h"
#include "gtest/gtest.h"
#include "lib/base/mailbox.h"

namespace muster::cli {

// The main loop of a cluster without processes. What the test wants to happen in it is posted.
class HandCluster final : public Cluster {
 public:
  HandCluster(std::string url, std::string folder, ClusterEvents given)
      : events(std::move(given)), url_(std::move(url)), folder_(std::move(folder)) {}
  void Start() override {
    if (on_start) on_start(*this);
  }
  void Leave() override { ++leaves; }
  void GoTo(const std::string& coordinator) override { went_to.push_back(coordinator); }
  void Stop() override {
    ++stops;
    if (on_stop) on_stop();
    events.on_stopped();
  }
  void Run() override {
    while (!quit_) {
      const auto call =
          calls_.TakeUntil(std::chrono::steady_clock::now() + std::chrono::seconds(40));
      if (!call) {
        ADD_FAILURE() << "what the test waits for did not happen";
        return;
      }
      (*call)();
    }
  }
  void Quit() override { quit_ = true; }
  void Post(std::function<void()> call) override { calls_.Post(std::move(call)); }
  void After(Duration delay, std::function<void()> call) override {
    delays.push_back(delay);
    later.push_back(std::move(call));
  }
  std::string url() const override { return url_; }
  Trust trust() const override { return {}; }
  std::string coordinator() const override { return "127.0.0.1:7070"; }
  std::string join() const override { return joins_at; }
  std::string host() const override { return "here"; }
  std::string folder() const override { return folder_; }
  std::vector<std::string> devices() const override { return has_devices; }
  bool LiesOnOwnDisk() const override { return on_own_disk; }
  std::vector<std::string> JobsUnderWay() const override { return jobs_under_way; }
  std::vector<std::string> MissedFaults() const override { return missed_faults; }
  void JobEndsAfter(const std::string&, int64_t step) override { last_step = step; }

  const ClusterEvents events;
  std::function<void(HandCluster&)> on_start;
  std::function<void()> on_stop;
  std::vector<std::string> jobs_under_way;
  std::vector<std::string> missed_faults;
  std::vector<std::string> went_to;
  std::vector<std::function<void()>> later;  // what is to be called after some time
  std::vector<Duration> delays;              // which it is
  std::optional<int64_t> last_step;
  std::string joins_at;
  std::vector<std::string> has_devices;
  bool on_own_disk = false;
  int stops = 0;
  int leaves = 0;

 private:
  const std::string url_;
  const std::string folder_;
  Mailbox<std::function<void()>> calls_;
  bool quit_ = false;
};

}  // namespace muster::cli
