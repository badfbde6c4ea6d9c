// Real programs under test: `muster train` as a child in a folder of its own, what it tells, and
// what it leaves behind. Nothing here waits for a time: a run goes on until it ends, and is killed,
// with everything it started, when it does not.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "lib/domain/manifest.h"
#include "lib/domain/message.h"
#include "nlohmann/json.hpp"

namespace muster::integration {

// Deleted at the end, unless the test failed: then it is named.
class Folder {
 public:
  Folder();
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

void WriteFile(const std::string& path, const std::string& text);

struct TrainOptions {
  std::string spec;  // YAML
  std::string dir;   // of the job; made, or gone on with
  int workers = 1;
  int servers = 0;
  std::vector<std::string> faults;    // entries of a fault plan: "{at_step: 4, kill: worker-1}"
  std::vector<std::string> settings;  // "steps=4"
  std::string plugins{};              // folder; empty: none
  std::vector<std::string> accept{};  // "plugin"
  // Is told each event when it comes.
  std::function<void(const nlohmann::json& event)> on_event{};
  // True: kill muster itself with SIGKILL now, which ends everything.
  std::function<bool(const nlohmann::json& event)> kill_all_at{};
  // True: send muster a SIGINT now, once, as Ctrl-C does.
  std::function<bool(const nlohmann::json& event)> interrupt_at{};
  std::chrono::seconds hangs_after{100};
};

struct TrainRun {
  int exit_code = -1;  // 128 + n after signal n
  std::vector<nlohmann::json> events;
  nlohmann::json result;  // null when it did not come so far

  std::vector<nlohmann::json> Events(const std::string& name) const;
  // The process ids under which that process was started, in order.
  std::vector<int> Pids(const std::string& process) const;
  bool Fired(const std::string& process, const std::string& point) const;
  bool Killed(const std::string& process) const;  // it ended by SIGKILL
  std::string Trace() const;                      // for people: every event but steps
};
TrainRun Train(const TrainOptions& options);

// By worker, one entry for each incarnation.
std::map<std::string, std::vector<LaneCount>> LanesRun(const std::string& dir,
                                                       const std::string& job = "");
int64_t TotalLanes(const std::string& dir, const std::string& job = "");

// Whether a log of a worker or server says so.
bool AMemberSays(const std::string& dir, const std::string& text);

// The committed checkpoints of a job that nothing runs of, oldest first.
std::vector<Manifest> Checkpoints(const std::string& dir, const std::string& job);
// Turns over one bit in the middle of a file.
void DamageFile(const std::string& path);

// What `muster audit` answers for the folder, in which nothing runs; the job has ended.
nlohmann::json Audit(const std::string& dir, const std::string& job);

}  // namespace muster::integration
