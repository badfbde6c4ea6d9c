// A cluster on the hosts of a network: `muster up` on host 0, which is called a, and an agent on
// each other, b and c. One counting job runs on it for as long as the test needs it, and ends with
// the bits of an undisturbed run of as many steps.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "tests/integration/cluster.h"
#include "tests/integration/host_network.h"
#include "tests/integration/up_cluster.h"
#include "tests/support/program.h"

namespace muster::integration {

class HostCluster {
 public:
  using Event = nlohmann::json;

  // Host i has slots[i]. `network` must have as many hosts, and outlive this.
  HostCluster(const HostNetwork& network, std::vector<int> slots);

  void Join(int host);
  Program& Agent(int host) { return *programs_[static_cast<size_t>(host)]; }

  // A job of that many samples, which goes on until it is stopped, and what is to be set in it.
  void Submit(int workers, int samples, const std::vector<std::string>& settings = {});
  nlohmann::json Status() const;
  // The name of the job's one member on that host.
  std::string MemberOn(int host) const;
  // The next event of the job for which that is true; null: it did not come, which is a failure.
  Event AwaitEvent(const std::string& what, const std::function<bool(const Event&)>& is);
  // Until that many more steps are in the ledger than now.
  void AwaitSteps(int64_t more);
  // Until that many workers take part in the view.
  void AwaitWorkers(int workers);
  // Until members of that host have run so many more lanes than now; the coordinator is not asked.
  void AwaitLanes(int host, int64_t more) const;

  // Until the log of a member on that host says so.
  void AwaitLog(int host, const std::string& text) const;

  // Stops the job and sees that it has the bits of an undisturbed run, that the ledger adds up,
  // that nobody went back, and that no member ran on two hosts. The job as the coordinator sees it.
  nlohmann::json StopAndCheck();
  // How many processes have run for the job's members, on all hosts.
  int Processes() const;
  void ExpectThatAllEnd();
  // For people: the coordinator's log, but for checkpoints, and what the programs said.
  std::string Trace() const;

 private:
  std::unique_ptr<Program> Start(int host, std::vector<std::string> words) const;
  std::vector<std::string> Asking(std::vector<std::string> words) const;
  UpCluster::Said Say(std::vector<std::string> words) const;
  nlohmann::json Ask(const std::vector<std::string>& words) const;
  std::string DirOf(int host) const;
  std::string Spec(const std::string& length) const;

  const Folder folder_;
  const HostNetwork& network_;
  const std::vector<int> slots_;
  int samples_ = 0;
  std::vector<std::unique_ptr<Program>> programs_;
  std::unique_ptr<Program> watch_;
  size_t read_ = 0;  // of what it said
};

}  // namespace muster::integration
