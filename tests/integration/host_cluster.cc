#include "tests/integration/host_cluster.h"

#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"
#include "tests/integration/jobs.h"

namespace muster::integration {
namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr char kJob[] = "job";
constexpr int kLanes = 7;
constexpr int kEpochs = 1'000'000;              // more than there is time for
constexpr std::chrono::seconds kDeadline{120};  // of whatever is waited for

std::string NameOf(int host) { return std::string(1, static_cast<char>('a' + host)); }

}  // namespace

HostCluster::HostCluster(const HostNetwork& network, std::vector<int> slots)
    : network_(network), slots_(std::move(slots)), programs_(slots_.size()) {
  programs_[0] = Start(0, {"up", "--listen", network_.Address(0) + ":8080"});
  EXPECT_TRUE(Agent(0).WaitFor("other hosts join with")) << Agent(0).output();
  for (size_t host = 1; host < slots_.size(); ++host) Join(static_cast<int>(host));
}

std::unique_ptr<Program> HostCluster::Start(int host, std::vector<std::string> words) const {
  words.insert(words.end(), {"--dir", folder_ / "cluster", "--slots",
                             std::to_string(slots_[static_cast<size_t>(host)]), "--host",
                             NameOf(host), "--coordinator", network_.Address(0) + ":7070",
                             "--allow-plaintext", HostNetwork::kNetwork});
  // Its machine has a name of its own, by which the coordinator tells nodes apart.
  const auto enter = [on = network_.On(host), name = "node-" + NameOf(host)] {
    return on() && unshare(CLONE_NEWUTS) == 0 && sethostname(name.data(), name.size()) == 0;
  };
  return std::make_unique<Program>(MusterCommand(words), enter);
}

void HostCluster::Join(int host) {
  programs_[static_cast<size_t>(host)] = Start(host, {"agent"});
  EXPECT_TRUE(Agent(host).WaitFor("joined the cluster")) << Agent(host).output();
}

std::vector<std::string> HostCluster::Asking(std::vector<std::string> words) const {
  words.insert(words.end(),
               {"--to", network_.Address(0) + ":8080", "--allow-plaintext", HostNetwork::kNetwork});
  return MusterCommand(words);
}

UpCluster::Said HostCluster::Say(std::vector<std::string> words) const {
  Program program(Asking(std::move(words)), network_.On(0));
  const int exit_code = program.End();
  return {exit_code, program.output()};
}

Json HostCluster::Ask(const std::vector<std::string>& words) const {
  const UpCluster::Said said = Say(words);
  const auto json = Json::parse(said.text, nullptr, /*allow_exceptions=*/false);
  return json.is_object() ? json : Json({{"said", said.text}});
}

std::string HostCluster::Spec(const std::string& length) const {
  return absl::StrReplaceAll(CountingSpec(samples_, kLanes, kEpochs),
                             {{absl::StrCat("epochs: ", kEpochs), length}});
}

void HostCluster::Submit(int workers, int samples, const std::vector<std::string>& settings) {
  samples_ = samples;
  WriteFile(folder_ / "job.yaml", Spec(absl::StrCat("epochs: ", kEpochs)));
  // It starts when all hosts are there, and goes on with fewer.
  const std::string all = absl::StrCat("workers={min: ", workers, ", max: ", workers, "}");
  std::vector<std::string> words = {"submit", folder_ / "job.yaml", "--id", kJob, "--set", all};
  for (const std::string& setting : settings) words.insert(words.end(), {"--set", setting});
  const UpCluster::Said said = Say(words);
  ASSERT_EQ(said.exit_code, 0) << said.text;
  watch_ = std::make_unique<Program>(Asking({"watch", kJob, "--json"}), network_.On(0));
  AwaitWorkers(workers);
}

Json HostCluster::Status() const { return Ask({"status", kJob, "--json"}); }

std::string HostCluster::MemberOn(int host) const {
  for (const Json& member : Status().value("members", Json::array()))
    if (absl::StartsWith(member.value("address", ""), network_.Address(host) + ":"))
      return member.value("name", "");
  ADD_FAILURE() << "there is no member on host " << NameOf(host) << "\n" << Status();
  return "";
}

HostCluster::Event HostCluster::AwaitEvent(const std::string& what,
                                           const std::function<bool(const Event&)>& is) {
  for (const auto deadline = Clock::now() + kDeadline; Clock::now() < deadline;) {
    if (!watch_->WaitFor("\n", read_)) break;
    const size_t end = watch_->output().find('\n', read_);
    Event event = Json::parse(watch_->output().substr(read_, end - read_), nullptr,
                              /*allow_exceptions=*/false);
    read_ = end + 1;
    if (event.is_object() && is(event)) return event;
  }
  ADD_FAILURE() << "this does not come: " << what << "\n" << Status() << "\n" << Trace();
  return nullptr;
}

void HostCluster::AwaitSteps(int64_t more) {
  const Json step = Status().value("step", Json());
  ASSERT_TRUE(step.is_number()) << Status();
  const int64_t until = step.get<int64_t>() + more;
  AwaitEvent(absl::StrCat("step ", until), [until](const Event& event) {
    return event.value("event", "") == "step" && event.value("step", int64_t{-1}) >= until;
  });
}

void HostCluster::AwaitWorkers(int workers) {
  Json status;
  for (const auto deadline = Clock::now() + kDeadline; Clock::now() < deadline;) {
    status = Status();
    if (status.value("workers", -1) == workers && status.value("state", "") == "running") return;
  }
  ADD_FAILURE() << "there are never " << workers << " workers\n" << status << "\n" << Trace();
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

void HostCluster::AwaitLog(int host, const std::string& text) const {
  for (const auto deadline = Clock::now() + kDeadline; !AMemberSays(DirOf(host), text);)
    ASSERT_LT(Clock::now(), deadline) << "no member on host " << NameOf(host) << " says: " << text;
}

int HostCluster::Processes() const {
  size_t processes = 0;
  for (size_t host = 0; host < slots_.size(); ++host)
    for (const auto& [member, lanes] : LanesRun(DirOf(static_cast<int>(host))))
      processes += lanes.size();
  return static_cast<int>(processes);
}

Json HostCluster::StopAndCheck() {
  const UpCluster::Said said = Say({"stop", kJob});
  EXPECT_EQ(said.exit_code, 0) << said.text;
  const Json job =
      AwaitEvent("the end", [](const Event& event) { return event.value("event", "") == "job"; });
  if (!job.is_object()) return Status();
  EXPECT_EQ(job.value("state", ""), "stopped") << job << Trace();
  EXPECT_EQ(job.value("rewinds", -1), 0) << job << Trace();
  const int64_t steps = job.value("step", int64_t{-1});
  EXPECT_EQ(job.value("digest", ""),
            UndisturbedDigest(Spec(absl::StrCat("steps: ", steps)), folder_ / "undisturbed"))
      << job;
  const Json audit = Ask({"audit", kJob, "--json"});
  EXPECT_TRUE(audit.value("ok", false)) << audit;

  int64_t lanes_run = 0;
  std::map<std::string, std::set<int>> hosts_of;
  for (size_t i = 0; i < slots_.size(); ++i) {
    const int host = static_cast<int>(i);
    lanes_run += TotalLanes(DirOf(host));
    for (const auto& [member, lanes] : LanesRun(DirOf(host))) hosts_of[member].insert(host);
  }
  EXPECT_EQ(lanes_run, steps * kLanes + job.value("lanes_recomputed", int64_t{-1})) << Trace();
  for (const auto& [member, hosts] : hosts_of)
    EXPECT_EQ(hosts.size(), 1u) << member << " ran on several hosts\n" << Trace();
  return job;
}

void HostCluster::ExpectThatAllEnd() {
  for (size_t host = 1; host < programs_.size(); ++host) {
    programs_[host]->Signal(SIGTERM);
    EXPECT_EQ(programs_[host]->End(), 75) << programs_[host]->output();
  }
  Agent(0).Signal(SIGINT);
  EXPECT_EQ(Agent(0).End(), 0) << Agent(0).output();
}

std::string HostCluster::Trace() const {
  std::string trace;
  std::ifstream log(folder_ / "cluster/logs/coordinator.log");
  for (std::string line; std::getline(log, line);)
    if (!absl::StrContains(line, "checkpoint of step")) absl::StrAppend(&trace, line, "\n");
  for (const auto& program : programs_)
    if (program) absl::StrAppend(&trace, "---\n", program->output(), "\n");
  return trace;
}

}  // namespace muster::integration
