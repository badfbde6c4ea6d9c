#include "cli/run_logs.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cli/cluster_folder.h"

namespace muster::cli {

RunLogs::RunLogs(std::string folder, std::string job)
    : folder_(std::move(folder)), job_(std::move(job)) {
  FindHosts();
  for (auto& [name, logs] : hosts_)
    logs.Read(/*ends=*/true, [](const std::string&, const std::string&) {});
}

// The first host has its logs in the run's folder itself.
void RunLogs::FindHosts() {
  const auto add = [this](const std::string& host) {
    hosts_.try_emplace(host, LogFolder(host, job_), /*member=*/"");
  };
  add(folder_);
  std::error_code none;
  for (const auto& host : std::filesystem::directory_iterator(folder_ + "/hosts", none))
    add(host.path());
}

void RunLogs::Read(bool ends, const OnLine& on_line) {
  FindHosts();
  size_t bytes = 0;
  for (auto& [host, logs] : hosts_) {
    std::map<std::string, size_t> left_out;
    logs.Read(ends, [&](const std::string& member, const std::string& text) {
      bytes += text.size();
      if (bytes > kMostBytes)
        left_out[member] += text.size();
      else
        on_line(member, text);
    });
    for (const auto& [member, more] : left_out)
      on_line(member, absl::StrCat("... ", more, " bytes more are in ", LogFolder(host, job_), "/",
                                   member, ".log"));
  }
}

bool LogLines::Read(RunLogs& logs) {
  {
    const MutexLock lock(mutex_);
    if (!lines_.empty()) return false;
  }
  std::vector<std::pair<std::string, std::string>> lines;
  logs.Read(/*ends=*/false, [&](const std::string& member, const std::string& text) {
    lines.emplace_back(member, text);
  });
  const MutexLock lock(mutex_);
  lines_ = std::move(lines);
  return !lines_.empty();
}

std::vector<std::pair<std::string, std::string>> LogLines::Take() {
  const MutexLock lock(mutex_);
  return std::exchange(lines_, {});
}

}  // namespace muster::cli
