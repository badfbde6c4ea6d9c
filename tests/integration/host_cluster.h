// A cluster on the hosts of a network: `muster up` on host 0, which is called a, and an agent on
// each other, b, c and so on. Counting jobs run on it for as long as the test needs them, and each
// ends with the bits of an undisturbed run of as many steps. At the end the agents have said whom
// they started: nobody twice.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "tests/integration/cluster.h"
#include "tests/integration/host_network.h"
#include "tests/integration/starts.h"
#include "tests/integration/up_cluster.h"
#include "tests/support/program.h"

namespace muster::integration {

struct HostClusterOptions {
  std::vector<int> slots;      // of host i
  std::vector<int> devices{};  // likewise; empty: no host has any
  int hosts = 0;               // that join at once, the first ones; 0: all
  // Agents and members look for the coordinator on these machines; it begins on the first of them.
  std::vector<int> coordinators = {0};
  // They know it by one name instead, which means nothing until all agents have asked for it, and
  // then the machine on which the coordinator is.
  bool by_name = false;
};

// Three hosts for the two jobs of SubmitTwo: a worker of each on each host. The server is on the
// first one, which has most room.
inline const HostClusterOptions kThreeHosts = {.slots = {3, 2, 2}, .devices = {1, 1, 1}};
inline constexpr char kServed[] = "served";
inline constexpr char kSummed[] = "summed";

// It goes on until it is stopped.
struct HostJob {
  std::string id;
  int workers = 0;  // it starts with them, and goes on with fewer
  int servers = 0;  // more than none: `sync: server`
  int samples = 0;
  std::vector<std::string> settings{};  // what else is to be set in it
};

class HostCluster {
 public:
  using Event = nlohmann::json;

  // `network` must have as many hosts as there are slots for, and outlive this.
  HostCluster(const HostNetwork& network, HostClusterOptions options);

  void Join(int host);  // also one that was killed
  // Kills host 0, with the coordinator and its members, and starts it on another host's machine,
  // with the same folder. A copy of what it decides from stays behind, as a volume that was moved
  // by copying it leaves one.
  void MoveCoordinator(int machine);
  // After that: what `muster up` says on the machine where it began, with that copy and the
  // checkpoints of all, until it ends by itself.
  UpCluster::Said StartWhatStayedBehind();
  // Nobody has the folder of checkpoints locked any more, as after the loss of who kept the locks.
  void LoseLocks() const;
  Program& Agent(int host) { return *programs_[static_cast<size_t>(host)]; }
  std::string DirOf(int host) const;
  UpCluster::Said Say(std::vector<std::string> words) const;  // to the coordinator

  void Submit(const HostJob& job);
  // "served" has a server, and each of its workers needs a device; "summed" has neither and gets
  // what is left. So it is known who is where.
  void SubmitTwo(int workers, int samples, const std::vector<std::string>& settings = {});
  // Where no job is named below, all are meant, or the one that was submitted first.
  nlohmann::json Status(const std::string& job = "") const;
  // Their names.
  std::vector<std::string> WorkersOn(int host, const std::string& job = "") const;
  // The next event of the job for which that is true; null: it did not come, which is a failure.
  Event AwaitEvent(const std::string& what, const std::function<bool(const Event&)>& is,
                   const std::string& job = "");
  // Until that many more steps are in the ledger than now.
  void AwaitSteps(int64_t more, const std::string& job = "");
  // Until that many workers take part in the view.
  void AwaitWorkers(int workers, const std::string& job = "");
  // Until members of that host have run so many more lanes than now; the coordinator is not asked.
  void AwaitLanes(int host, int64_t more) const;
  // Until the coordinator has a session with the agent of that host, or has none.
  void AwaitHost(int host, bool up) const;
  // Until the log of a member says so.
  void AwaitLog(const std::string& text) const;

  // Stops the jobs and sees that each has the bits of an undisturbed run, that its ledger adds up,
  // and that it never went back. By name, as the coordinator sees them.
  std::map<std::string, nlohmann::json> StopAndCheck();
  // Besides, that nobody was started twice, by what the agents have said.
  void ExpectThatAllEnd();
  // How many members were started on all hosts, once all have ended; and how many the jobs have.
  int Starts(const std::string& job = "") const;
  int Members(const std::string& job = "") const;
  // For people: the coordinator's log, but for checkpoints, and what the programs said.
  std::string Trace() const;

 private:
  struct Running {
    HostJob job;
    std::unique_ptr<Program> watch{};
    size_t read = 0;  // of what it said
  };

  std::unique_ptr<Program> Start(int host, const std::string& coordinator,
                                 std::vector<std::string> words) const;
  void StartCoordinator();
  void StartAgent(int host);
  int End(int host);  // what it said is kept; its exit code
  void SayWhereTheNameIs() const;
  size_t IndexOf(const std::string& job) const;
  std::vector<std::string> Named(const std::string& job) const;
  void Watch(Running& running) const;
  std::vector<std::string> Asking(std::vector<std::string> words) const;
  nlohmann::json Ask(const std::vector<std::string>& words) const;
  nlohmann::json StopAndCheck(const HostJob& job);

  const Folder folder_;
  const HostNetwork& network_;
  const HostClusterOptions options_;
  int coordinator_;  // the machine on which it runs, and host 0 with it
  std::vector<Running> jobs_;
  std::vector<std::unique_ptr<Program>> programs_;
  std::vector<AgentSaid> ended_;
};

}  // namespace muster::integration
