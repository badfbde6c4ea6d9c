// What all members of a run print, read from the folder that its hosts share. One thread.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "cli/job_logs.h"
#include "lib/base/mutex.h"

namespace muster::cli {

class RunLogs {
 public:
  using OnLine = JobLogs::OnLine;

  // What is there already was printed before this run, and is left out.
  RunLogs(std::string folder, std::string job);

  // Hands over lines that were not handed over before, at most about kMostBytes; of what is more,
  // one line says how much it was, as its member goes on faster than anybody reads.
  void Read(bool ends, const OnLine& on_line);
  static constexpr size_t kMostBytes = size_t{1} << 20;

 private:
  void FindHosts();

  const std::string folder_;
  const std::string job_;
  std::map<std::string, JobLogs> hosts_;  // by folder
};

// What was read and is to be shown, of two threads: one reads, the other takes.
class LogLines {
 public:
  // Nothing, while what was read before has not been taken: where the output is not taken, the
  // files keep what comes, and memory does not. True: there is something to take.
  bool Read(RunLogs& logs);
  // Members and what they printed.
  std::vector<std::pair<std::string, std::string>> Take();

 private:
  Mutex mutex_;
  std::vector<std::pair<std::string, std::string>> lines_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace muster::cli
