#include "tests/integration/host_cluster.h"

#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/jobs.h"

namespace muster::integration {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr int kLanes = 7;
constexpr int kEpochs = 1'000'000;              // more than there is time for
constexpr std::chrono::seconds kDeadline{120};  // of whatever is waited for
constexpr char kName[] = "the-coordinator";     // by which it is known, where it has a name

std::string NameOf(int host) { return std::string(1, static_cast<char>('a' + host)); }

std::string SpecOf(const HostJob& job, const std::string& length) {
  return absl::StrReplaceAll(CountingSpec(job.samples, kLanes, kEpochs),
                             {{absl::StrCat("epochs: ", kEpochs), length}});
}

std::string DevicesOf(int count) { return count == 0 ? "none" : std::to_string(count); }

// Of this process, and in its own view of the files alone.
bool Cover(const std::string& file, const std::string& by) {
  return mount(by.c_str(), file.c_str(), nullptr, MS_BIND, nullptr) == 0;
}

}  // namespace

HostCluster::HostCluster(const HostNetwork& network, HostClusterOptions options)
    : network_(network),
      options_(std::move(options)),
      coordinator_(options_.coordinators.front()),
      programs_(options_.slots.size()) {
  WriteFile(folder_ / "hosts", "");
  WriteFile(folder_ / "nsswitch.conf", "hosts: files\n");
  StartCoordinator();
  const size_t hosts = options_.hosts == 0 ? programs_.size() : static_cast<size_t>(options_.hosts);
  if (!options_.by_name) {
    for (size_t host = 1; host < hosts; ++host) Join(static_cast<int>(host));
    return;
  }
  for (size_t host = 1; host < hosts; ++host) StartAgent(static_cast<int>(host));
  for (size_t host = 1; host < hosts; ++host)
    EXPECT_TRUE(programs_[host]->WaitFor("cannot be looked up")) << programs_[host]->output();
  SayWhereTheNameIs();
  for (size_t host = 1; host < hosts; ++host)
    EXPECT_TRUE(programs_[host]->WaitFor("joined the cluster")) << programs_[host]->output();
}

void HostCluster::StartCoordinator() {
  const std::string machine = network_.Address(coordinator_);
  programs_[0] = Start(0, machine + ":7070", {"up", "--listen", machine + ":8080"});
  EXPECT_TRUE(Agent(0).WaitFor("other hosts join with")) << Agent(0).output();
}

void HostCluster::MoveCoordinator(int machine) {
  const std::vector<pid_t> processes = Agent(0).Children();
  Agent(0).Signal(SIGKILL);
  End(0);
  // They die with it, and are ours then. The store is open until the coordinator has ended.
  for (const pid_t process : processes) waitpid(process, nullptr, 0);
  const std::string behind = folder_ / "behind";
  fs::create_directory(behind);
  fs::copy(folder_ / "cluster/store", behind + "/store",
           fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  fs::copy(folder_ / "cluster/muster-folder", behind);
  fs::create_directory_symlink(folder_ / "cluster/checkpoints", behind + "/checkpoints");
  coordinator_ = machine;
  StartCoordinator();
  if (options_.by_name) SayWhereTheNameIs();
  for (Running& running : jobs_) Watch(running);
}

UpCluster::Said HostCluster::StartWhatStayedBehind() {
  const int machine = options_.coordinators.front();
  const std::string address = network_.Address(machine);
  Program up(MusterCommand({"up", "--dir", folder_ / "behind", "--slots", "1", "--host", "behind",
                            "--coordinator", address + ":7070", "--listen", address + ":8080"}),
             network_.On(machine));
  const bool ends = !up.WaitFor("submit jobs with");
  if (!ends) up.Signal(SIGKILL);
  const int exit_code = up.End();
  return {exit_code, up.output()};
}

// Locks are those of a file, not of its name.
void HostCluster::LoseLocks() const {
  const std::string owner = folder_ / "cluster/checkpoints/.owner";
  fs::copy(owner, owner + ".new");
  fs::rename(owner + ".new", owner);
}

// Written in place, because programs see the file and not its name.
void HostCluster::SayWhereTheNameIs() const {
  WriteFile(folder_ / "hosts", absl::StrCat(network_.Address(coordinator_), " ", kName, "\n"));
}

std::unique_ptr<Program> HostCluster::Start(int host, const std::string& coordinator,
                                            std::vector<std::string> words) const {
  const auto index = static_cast<size_t>(host);
  words.insert(words.end(),
               {"--dir", folder_ / "cluster", "--slots", std::to_string(options_.slots[index]),
                "--host", NameOf(host), "--coordinator", coordinator});
  if (!options_.devices.empty())
    words.insert(words.end(), {"--devices", DevicesOf(options_.devices[index])});
  // All machines of the network have one name: its namespace alone tells one from another.
  const int machine = host == 0 ? coordinator_ : host;
  const auto enter = [on = network_.On(machine),
                      names = options_.by_name ? folder_ / "hosts" : std::string(),
                      order = folder_ / "nsswitch.conf"] {
    if (!on()) return false;
    if (names.empty()) return true;
    return unshare(CLONE_NEWNS) == 0 &&
           mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
           Cover("/etc/hosts", names) && Cover("/etc/nsswitch.conf", order);
  };
  return std::make_unique<Program>(MusterCommand(words), enter);
}

void HostCluster::StartAgent(int host) {
  const auto append = [this](std::string* list, int machine) {
    absl::StrAppend(list, network_.Address(machine), ":7070");
  };
  const std::string where = options_.by_name ? absl::StrCat(kName, ":7070")
                                             : absl::StrJoin(options_.coordinators, ",", append);
  if (programs_[static_cast<size_t>(host)]) End(host);
  programs_[static_cast<size_t>(host)] = Start(host, where, {"agent"});
}

void HostCluster::Join(int host) {
  StartAgent(host);
  EXPECT_TRUE(Agent(host).WaitFor("joined the cluster")) << Agent(host).output();
}

int HostCluster::End(int host) {
  const int code = Agent(host).End();
  ended_.push_back({NameOf(host), Agent(host).output()});
  programs_[static_cast<size_t>(host)].reset();
  return code;
}

std::vector<std::string> HostCluster::Asking(std::vector<std::string> words) const {
  words.insert(words.end(), {"--dir", folder_ / "cluster"});
  return MusterCommand(words);
}

UpCluster::Said HostCluster::Say(std::vector<std::string> words) const {
  Program program(Asking(std::move(words)), network_.On(coordinator_));
  const int exit_code = program.End();
  return {exit_code, program.output()};
}

Json HostCluster::Ask(const std::vector<std::string>& words) const {
  const UpCluster::Said said = Say(words);
  const auto json = Json::parse(said.text, nullptr, /*allow_exceptions=*/false);
  return json.is_object() ? json : Json({{"said", said.text}});
}

void HostCluster::Submit(const HostJob& job) {
  const std::string file = folder_ / absl::StrCat(job.id, ".yaml");
  WriteFile(file, SpecOf(job, absl::StrCat("epochs: ", kEpochs)));
  const std::string all = absl::StrCat("workers={min: ", job.workers, ", max: ", job.workers, "}");
  std::vector<std::string> words = {"submit", file, "--id", job.id, "--set", all};
  if (job.servers > 0)
    words.insert(words.end(),
                 {"--set", "sync=server", "--set", absl::StrCat("servers=", job.servers)});
  for (const std::string& setting : job.settings) words.insert(words.end(), {"--set", setting});
  const UpCluster::Said said = Say(words);
  ASSERT_EQ(said.exit_code, 0) << said.text;
  jobs_.push_back({job});
  Watch(jobs_.back());
  AwaitWorkers(job.workers, job.id);
}

void HostCluster::SubmitTwo(int workers, int samples, const std::vector<std::string>& settings) {
  HostJob served{kServed, workers, 1, samples, settings};
  served.settings.emplace_back("devices=1");
  Submit(served);
  Submit({kSummed, workers, 0, samples, settings});
}

void HostCluster::Watch(Running& running) const {
  running.watch = std::make_unique<Program>(Asking({"watch", running.job.id, "--json"}),
                                            network_.On(coordinator_));
  running.read = 0;
}

size_t HostCluster::IndexOf(const std::string& job) const {
  for (size_t i = 0; i < jobs_.size(); ++i)
    if (jobs_[i].job.id == job) return i;
  return 0;
}

std::vector<std::string> HostCluster::Named(const std::string& job) const {
  if (!job.empty()) return {job};
  std::vector<std::string> all;
  for (const Running& running : jobs_) all.push_back(running.job.id);
  return all;
}

Json HostCluster::Status(const std::string& job) const {
  return Ask({"status", jobs_[IndexOf(job)].job.id, "--json"});
}

std::vector<std::string> HostCluster::WorkersOn(int host, const std::string& job) const {
  std::vector<std::string> names;
  for (const Json& member : Status(job).value("members", Json::array()))
    if (absl::StartsWith(member.value("name", ""), "worker-") &&
        absl::StartsWith(member.value("address", ""), network_.Address(host) + ":"))
      names.push_back(member.value("name", ""));
  return names;
}

HostCluster::Event HostCluster::AwaitEvent(const std::string& what,
                                           const std::function<bool(const Event&)>& is,
                                           const std::string& job) {
  Running& running = jobs_[IndexOf(job)];
  for (const auto deadline = Clock::now() + kDeadline; Clock::now() < deadline;) {
    if (!running.watch->WaitFor("\n", running.read)) break;
    const std::string& said = running.watch->output();
    const size_t end = said.find('\n', running.read);
    Event event = Json::parse(said.substr(running.read, end - running.read), nullptr,
                              /*allow_exceptions=*/false);
    running.read = end + 1;
    if (event.is_object() && is(event)) return event;
  }
  ADD_FAILURE() << "this does not come: " << what << "\n" << Status(job) << "\n" << Trace();
  return nullptr;
}

void HostCluster::AwaitSteps(int64_t more, const std::string& job) {
  std::map<std::string, int64_t> until;
  for (const std::string& id : Named(job)) {
    const Json status = Status(id);
    const Json step = status.value("step", Json());
    ASSERT_TRUE(step.is_number()) << status;
    until[id] = step.get<int64_t>() + more;
  }
  for (const auto& [id, last] : until)
    AwaitEvent(
        absl::StrCat("step ", last, " of job ", id),
        [last = last](const Event& event) {
          return event.value("event", "") == "step" && event.value("step", int64_t{-1}) >= last;
        },
        id);
}

void HostCluster::AwaitWorkers(int workers, const std::string& job) {
  for (const std::string& id : Named(job)) {
    const auto are_there = [workers](const Json& status) {
      return status.value("workers", -1) == workers && status.value("state", "") == "running";
    };
    Json status = Status(id);
    for (const auto deadline = Clock::now() + kDeadline;
         !are_there(status) && Clock::now() < deadline;)
      status = Status(id);
    if (!are_there(status))
      ADD_FAILURE() << "there are never " << workers << " workers\n" << status << "\n" << Trace();
  }
}

std::string HostCluster::DirOf(int host) const {
  const std::string dir = folder_ / "cluster";
  return host == 0 ? dir : dir + "/hosts/" + NameOf(host);
}

void HostCluster::AwaitLanes(int host, int64_t more) const {
  const int64_t until = TotalLanes(DirOf(host)) + more;
  for (const auto deadline = Clock::now() + kDeadline; TotalLanes(DirOf(host)) < until;)
    ASSERT_LT(Clock::now(), deadline) << "host " << NameOf(host) << " runs no lanes";
}

void HostCluster::AwaitHost(int host, bool up) const {
  for (const auto deadline = Clock::now() + kDeadline; Clock::now() < deadline;) {
    std::istringstream lines(Say({"hosts", "--json"}).text);
    for (std::string line; std::getline(lines, line);) {
      const Json told = Json::parse(line, nullptr, /*allow_exceptions=*/false);
      if (told.is_object() && told.value("name", "") == NameOf(host) && told.value("up", !up) == up)
        return;
    }
  }
  ADD_FAILURE() << "host " << NameOf(host) << " is never " << (up ? "up" : "away") << "\n"
                << Trace();
}

void HostCluster::AwaitLog(const std::string& text) const {
  const auto any_says = [&] {
    for (size_t host = 0; host < programs_.size(); ++host)
      if (AMemberSays(DirOf(static_cast<int>(host)), text)) return true;
    return false;
  };
  for (const auto deadline = Clock::now() + kDeadline; !any_says();)
    ASSERT_LT(Clock::now(), deadline) << "no member says: " << text;
}

int HostCluster::Starts(const std::string& job) const {
  int starts = 0;
  for (const auto& start : StartsIn(ended_)) starts += job.empty() || start.job == job ? 1 : 0;
  return starts;
}

int HostCluster::Members(const std::string& job) const {
  int members = 0;
  for (const Running& running : jobs_)
    if (job.empty() || running.job.id == job) members += running.job.workers + running.job.servers;
  return members;
}

std::map<std::string, Json> HostCluster::StopAndCheck() {
  std::map<std::string, Json> jobs;
  for (const Running& running : jobs_) jobs[running.job.id] = StopAndCheck(running.job);
  return jobs;
}

Json HostCluster::StopAndCheck(const HostJob& of) {
  const UpCluster::Said said = Say({"stop", of.id});
  EXPECT_EQ(said.exit_code, 0) << said.text;
  const Json job = AwaitEvent(
      "the end", [](const Event& event) { return event.value("event", "") == "job"; }, of.id);
  if (!job.is_object()) return Status(of.id);
  EXPECT_EQ(job.value("state", ""), "stopped") << job << Trace();
  EXPECT_EQ(job.value("rewinds", -1), 0) << job << Trace();
  const int64_t steps = job.value("step", int64_t{-1});
  EXPECT_EQ(job.value("digest", ""),
            UndisturbedDigest(SpecOf(of, absl::StrCat("steps: ", steps)),
                              folder_ / absl::StrCat("undisturbed-", of.id)))
      << job;
  const Json audit = Ask({"audit", of.id, "--json"});
  EXPECT_TRUE(audit.value("ok", false)) << audit;

  int64_t lanes_run = 0;
  for (size_t host = 0; host < programs_.size(); ++host)
    lanes_run += TotalLanes(DirOf(static_cast<int>(host)), of.id);
  EXPECT_EQ(lanes_run, steps * kLanes + job.value("lanes_recomputed", int64_t{-1})) << Trace();
  return job;
}

void HostCluster::ExpectThatAllEnd() {
  for (size_t i = 1; i < programs_.size(); ++i) {
    if (!programs_[i]) continue;
    programs_[i]->Signal(SIGTERM);
    EXPECT_EQ(End(static_cast<int>(i)), 75) << ended_.back().output;
  }
  Agent(0).Signal(SIGINT);
  EXPECT_EQ(End(0), 0) << ended_.back().output;
  // Else what they say is not understood here.
  EXPECT_GE(Starts(), Members()) << Trace();
  EXPECT_THAT(StartedTwice(ended_), ::testing::IsEmpty()) << Trace();
}

std::string HostCluster::Trace() const {
  std::string trace;
  std::ifstream log(folder_ / "cluster/logs/coordinator.log");
  for (std::string line; std::getline(log, line);)
    if (!absl::StrContains(line, "checkpoint of step")) absl::StrAppend(&trace, line, "\n");
  for (const AgentSaid& agent : ended_)
    absl::StrAppend(&trace, "--- host ", agent.host, ", ended\n", agent.output, "\n");
  for (const auto& program : programs_)
    if (program) absl::StrAppend(&trace, "---\n", program->output(), "\n");
  return trace;
}

}  // namespace muster::integration
