#include "tests/integration/cluster.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "lib/checkpoint/catalogue.h"
#include "lib/lane_counter/lane_counter.h"
#include "lib/storage/kv.h"

namespace muster::integration {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

// Far above what any run takes: only one that hangs reaches it.
constexpr auto kDeadline = std::chrono::seconds(100);

class Child {
 public:
  explicit Child(std::vector<std::string> command) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return;
    std::vector<char*> argv;
    for (std::string& argument : command) argv.push_back(argument.data());
    argv.push_back(nullptr);
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      dup2(ends[1], STDOUT_FILENO);
      execv(argv[0], argv.data());
      _exit(127);
    }
    close(ends[1]);
    out_ = ends[0];
  }
  ~Child() {
    Kill();
    Wait();
    close(out_);
  }

  // False at the end of its output or of the time.
  bool ReadLine(std::string& line, Clock::time_point deadline) {
    while (true) {
      const size_t end = buffer_.find('\n');
      if (end != std::string::npos) {
        line = buffer_.substr(0, end);
        buffer_.erase(0, end + 1);
        return true;
      }
      if (!Fill(deadline)) return false;
    }
  }
  void Signal(int signal) const {
    if (pid_ > 0) kill(pid_, signal);
  }
  void Kill() const { Signal(SIGKILL); }
  int Wait() {
    if (pid_ <= 0) return -1;
    int status = 0;
    waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  bool Fill(Clock::time_point deadline) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    pollfd wait{out_, POLLIN, 0};
    if (left.count() <= 0 || poll(&wait, 1, static_cast<int>(left.count())) <= 0) return false;
    std::array<char, 65536> bytes;
    const ssize_t n = read(out_, bytes.data(), bytes.size());
    if (n <= 0) return false;
    buffer_.append(bytes.data(), static_cast<size_t>(n));
    return true;
  }

  pid_t pid_ = -1;
  int out_ = -1;
  std::string buffer_;
};

// A process that is not our child, and that the death of its parent ends.
void AwaitGone(int pid) {
  const int process = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (process < 0) return;  // gone already
  pollfd wait{process, POLLIN, 0};
  EXPECT_EQ(poll(&wait, 1, static_cast<int>(std::chrono::milliseconds(kDeadline).count())), 1)
      << pid << " outlives its parent";
  close(process);
}

std::vector<std::string> CommandOf(const TrainOptions& options) {
  fs::create_directories(fs::path(options.dir).parent_path());
  const std::string spec = options.dir + ".spec.yaml";  // a run has its folder to itself
  WriteFile(spec, options.spec);
  std::vector<std::string> command = {absl::StrCat(MUSTER_PROGRAMS, "/muster"),
                                      "train",
                                      spec,
                                      "--json",
                                      "--dir",
                                      options.dir,
                                      "--workers",
                                      absl::StrCat(options.workers)};
  if (options.servers > 0)
    command.insert(command.end(),
                   {"--set", "sync=server", "--servers", absl::StrCat(options.servers)});
  for (const std::string& setting : options.settings)
    command.insert(command.end(), {"--set", setting});
  if (!options.plugins.empty()) command.insert(command.end(), {"--plugins", options.plugins});
  for (const std::string& what : options.accept) command.insert(command.end(), {"--accept", what});
  if (options.faults.empty()) return command;
  std::string plan;
  for (const std::string& fault : options.faults) absl::StrAppend(&plan, "- ", fault, "\n");
  WriteFile(options.dir + ".plan.yaml", plan);
  command.insert(command.end(), {"--faults", options.dir + ".plan.yaml"});
  return command;
}

}  // namespace

Folder::Folder() {
  std::string name = testing::TempDir() + "muster-integration-XXXXXX";
  if (mkdtemp(name.data()) == nullptr)
    ADD_FAILURE() << "cannot make a folder in " << testing::TempDir();
  path_ = name;
}

Folder::~Folder() {
  if (testing::Test::HasFailure()) {
    std::cerr << "left for a look: " << path_ << std::endl;
    return;
  }
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

void WriteFile(const std::string& path, const std::string& text) {
  fs::create_directories(fs::path(path).parent_path());
  std::ofstream(path) << text;
}

TrainRun Train(const TrainOptions& options) {
  TrainRun run;
  Child child(CommandOf(options));
  const Clock::time_point deadline = Clock::now() + options.hangs_after;
  bool killed = false, interrupted = false;
  for (std::string line; child.ReadLine(line, deadline);) {
    Json event = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!event.is_object()) continue;
    if (options.on_event) options.on_event(event);
    if (!killed && options.kill_all_at && options.kill_all_at(event)) {
      child.Kill();
      killed = true;
    }
    if (!interrupted && options.interrupt_at && options.interrupt_at(event)) {
      child.Signal(SIGINT);
      interrupted = true;
    }
    if (event.value("event", "") == "result") run.result = event;
    run.events.push_back(std::move(event));
  }
  EXPECT_LT(Clock::now(), deadline) << "it hangs:\n" << run.Trace();
  if (Clock::now() >= deadline) child.Kill();
  run.exit_code = child.Wait();
  if (killed)
    for (const Json& started : run.Events("process_start")) AwaitGone(started.value("pid", 0));
  return run;
}

std::vector<Json> TrainRun::Events(const std::string& name) const {
  std::vector<Json> found;
  for (const Json& event : events)
    if (event.value("event", "") == name) found.push_back(event);
  return found;
}

std::vector<int> TrainRun::Pids(const std::string& process) const {
  std::vector<int> pids;
  for (const Json& event : Events("process_start"))
    if (event.value("process", "") == process) pids.push_back(event.value("pid", 0));
  return pids;
}

bool TrainRun::Fired(const std::string& process, const std::string& point) const {
  for (const Json& event : Events("failpoint"))
    if (event.value("process", "") == process && event.value("point", "") == point) return true;
  return false;
}

bool TrainRun::Killed(const std::string& process) const {
  for (const Json& event : Events("process"))
    if (event.value("process", "") == process && event.value("signal", 0) == SIGKILL) return true;
  return false;
}

std::string TrainRun::Trace() const {
  std::string trace;
  for (const Json& event : events)
    if (event.value("event", "") != "step") absl::StrAppend(&trace, event.dump(), "\n");
  return trace;
}

std::map<std::string, std::vector<LaneCount>> LanesRun(const std::string& dir,
                                                       const std::string& job) {
  std::map<std::string, std::vector<LaneCount>> lanes;
  const std::string jobs = dir + "/jobs/" + job;
  if (!fs::exists(jobs)) return lanes;  // nobody of it was ever there
  for (const auto& file : fs::recursive_directory_iterator(jobs)) {
    if (file.path().extension() != ".lanes") continue;
    const auto counts = ReadLaneCounts(file.path().string());
    EXPECT_TRUE(counts.ok()) << counts.status();
    if (counts.ok()) lanes[file.path().stem().string()] = *counts;
  }
  return lanes;
}

int64_t TotalLanes(const std::string& dir, const std::string& job) {
  int64_t total = 0;
  for (const auto& [worker, counts] : LanesRun(dir, job))
    for (const LaneCount& count : counts) total += count.total;
  return total;
}

bool AMemberSays(const std::string& dir, const std::string& text) {
  for (const auto& file : fs::recursive_directory_iterator(dir + "/jobs")) {
    if (file.path().extension() != ".log") continue;
    std::ostringstream log;
    log << std::ifstream(file.path()).rdbuf();
    if (absl::StrContains(log.str(), text)) return true;
  }
  return false;
}

std::vector<Manifest> Checkpoints(const std::string& dir, const std::string& job) {
  const auto store = OpenRocks(dir + "/store/journal", {kCatalogueFamily});
  EXPECT_TRUE(store.ok()) << store.status();
  if (!store.ok()) return {};
  const auto listing = Catalogue(**store).List(job);
  EXPECT_TRUE(listing.ok()) << listing.status();
  return listing.ok() ? listing->manifests : std::vector<Manifest>{};
}

void DamageFile(const std::string& path) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  const auto middle = static_cast<std::streamoff>(fs::file_size(path) / 2);
  file.seekg(middle);
  const int byte = file.get();
  file.seekp(middle);
  file.put(static_cast<char>(byte ^ 1));
  EXPECT_TRUE(file.good()) << path;
}

Json Audit(const std::string& dir, const std::string& job) {
  Child audit({absl::StrCat(MUSTER_PROGRAMS, "/muster"), "audit", job, "--dir", dir, "--json"});
  std::string line;
  audit.ReadLine(line, Clock::now() + kDeadline);
  Json answer = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (answer.is_object()) return answer;
  return Json::object({{"ok", false}, {"conclusion", line}});
}

}  // namespace muster::integration
