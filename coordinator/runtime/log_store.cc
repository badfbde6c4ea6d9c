#include "coordinator/runtime/log_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <future>
#include <memory>
#include <system_error>
#include <tuple>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lib/base/descriptor.h"
#include "lib/base/status.h"
#include "lib/base/whole_file.h"

namespace muster::coordinator {
namespace {

namespace fs = std::filesystem;

constexpr char kNewer[] = ".log";
constexpr char kOlder[] = ".1";  // behind that
constexpr size_t kWeightOfLines = 512;

// As far as they can be read.
std::vector<fs::directory_entry> EntriesOf(const fs::path& folder) {
  std::vector<fs::directory_entry> entries;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    entries.push_back(*at);
  return entries;
}

std::string PathOf(const std::string& folder, const std::string& job, const std::string& member) {
  return absl::StrCat(folder, "/", job, "/", member, kNewer);
}

size_t BytesOf(const LogLines& lines) {
  return kWeightOfLines + lines.text.size() + lines.job.size() + lines.name.size();
}

absl::Status WriteAll(int fd, const std::string& path, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return FileError(errno, "write", path);
    text.remove_prefix(static_cast<size_t>(n));
  }
  return absl::OkStatus();
}

// The last bytes of a file, or nothing; `file` is open on it.
std::string EndOf(int file, off_t size, size_t most) {
  const off_t from = std::max<off_t>(0, size - static_cast<off_t>(most));
  std::string text(static_cast<size_t>(size - from), '\0');
  size_t have = 0;
  while (have < text.size()) {
    const ssize_t n =
        pread(file, text.data() + have, text.size() - have, from + static_cast<off_t>(have));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    have += static_cast<size_t>(n);
  }
  text.resize(have);
  return text;
}

}  // namespace

std::string LogsOf(const std::string& dir) { return dir + "/logs"; }

LogStore::LogStore(std::string folder, std::set<std::string> jobs, LogBudget budget)
    : folder_(std::move(folder)), budget_(budget) {
  thread_.Run([this, jobs = std::move(jobs)](const std::stop_token&) { Find(jobs); });
}

LogStore::~LogStore() {
  Await();
  thread_.Stop();
}

bool LogStore::Await() {
  const auto done = std::make_shared<std::promise<void>>();
  std::future<void> written = done->get_future();
  return thread_.Run([done](const std::stop_token&) { done->set_value(); }) &&
         written.wait_for(kPatience) == std::future_status::ready;
}

void LogStore::LeaveOut(const LogLines& lines) {
  const MutexLock lock(mutex_);
  left_out_[{lines.job, lines.name}] += lines.left_out + static_cast<int64_t>(lines.text.size());
}

void LogStore::Add(LogLines lines) {
  const size_t bytes = BytesOf(lines);
  if (waiting_.fetch_add(bytes) + bytes > budget_.waiting) {
    waiting_ -= bytes;
    return LeaveOut(lines);
  }
  {
    const MutexLock lock(mutex_);
    if (const auto before = left_out_.extract({lines.job, lines.name}); !before.empty())
      lines.left_out += before.mapped();
  }
  thread_.Run([this, bytes, lines = std::move(lines)](const std::stop_token&) {
    Write(lines);
    waiting_ -= bytes;
  });
}

void LogStore::Forget(const std::string& job) {
  thread_.Run([this, job](const std::stop_token&) {
    const std::string folder = absl::StrCat(folder_, "/", job);
    for (auto file = files_.lower_bound(folder + "/");
         file != files_.end() && absl::StartsWith(file->first, folder + "/");) {
      bytes_ -= file->second.bytes;
      file = files_.erase(file);
    }
    std::error_code none;
    fs::remove_all(folder, none);
    const MutexLock lock(mutex_);
    std::erase_if(left_out_, [&](const auto& entry) { return entry.first.first == job; });
  });
}

// What an earlier coordinator left: the files that were written last are the last to go.
void LogStore::Find(const std::set<std::string>& jobs) {
  std::error_code none;
  std::vector<std::tuple<fs::file_time_type, std::string, size_t>> found;
  for (const fs::directory_entry& job : EntriesOf(folder_)) {
    if (jobs.count(job.path().filename().string()) == 0) {
      fs::remove_all(job.path(), none);
      continue;
    }
    for (const fs::directory_entry& file : EntriesOf(job.path()))
      if (file.is_regular_file(none) && !file.is_symlink(none))
        found.emplace_back(file.last_write_time(none), file.path().string(),
                           static_cast<size_t>(file.file_size(none)));
  }
  std::sort(found.begin(), found.end());
  for (const auto& [time, path, size] : found) {
    // Its last line may not have ended: at worst an empty one follows.
    files_[path] = {.bytes = size, .written = ++writes_, .in_line = size > 0};
    bytes_ += size;
  }
  MakeRoom("");
}

void LogStore::Write(const LogLines& lines) {
  const std::string path = PathOf(folder_, lines.job, lines.name);
  if (const absl::Status written = Append(path, lines); !written.ok()) {
    failed_.Warn("what members print cannot be kept: %s", written.message());
    LeaveOut(lines);
  }
  MakeRoom(path);
}

absl::Status LogStore::Append(const std::string& path, const LogLines& lines) {
  std::string text;
  if (const auto before = files_.find(path); lines.left_out > 0) {
    const bool in_line = before != files_.end() && before->second.in_line;
    text = absl::StrCat(in_line ? "\n" : "", "... ", lines.left_out, " bytes are left out here\n");
  }
  text += lines.text;
  if (text.empty()) return absl::OkStatus();
  if (const auto file = files_.find(path);
      file != files_.end() && file->second.bytes + text.size() > budget_.file)
    Rotate(path);
  MUSTER_RETURN_IF_ERROR(MakeDirectories(absl::StrCat(folder_, "/", lines.job)));
  MUSTER_ASSIGN_OR_RETURN(const Descriptor file,
                          OpenRegularFile(path, O_WRONLY | O_CREAT | O_APPEND));
  const absl::Status written = WriteAll(file.get(), path, text);
  struct stat now {};
  if (fstat(file.get(), &now) == 0) {
    File& kept = files_[path];
    bytes_ += static_cast<size_t>(now.st_size) - kept.bytes;
    kept = {.bytes = static_cast<size_t>(now.st_size),
            .written = ++writes_,
            .in_line = !written.ok() || text.back() != '\n'};
  }
  return written;
}

void LogStore::Rotate(const std::string& path) {
  const std::string older = path + kOlder;
  if (const auto file = files_.find(older); file != files_.end()) Remove(file);
  const auto file = files_.find(path);
  if (rename(path.c_str(), older.c_str()) != 0) return Remove(file);
  files_[older] = file->second;
  files_.erase(file);
}

void LogStore::Remove(Files::iterator file) {
  unlink(file->first.c_str());
  bytes_ -= file->second.bytes;
  files_.erase(file);
}

void LogStore::MakeRoom(const std::string& kept) {
  while (bytes_ > budget_.in_all) {
    const auto oldest = std::min_element(
        files_.begin(), files_.end(),
        [](const auto& a, const auto& b) { return a.second.written < b.second.written; });
    if (oldest == files_.end() || oldest->first == kept) return;
    Remove(oldest);
  }
}

std::vector<std::string> MembersWithLogs(const std::string& folder, const std::string& job) {
  std::vector<std::string> members;
  for (const fs::directory_entry& file : EntriesOf(absl::StrCat(folder, "/", job)))
    if (file.path().extension() == kNewer) members.push_back(file.path().stem().string());
  std::sort(members.begin(), members.end());
  return members;
}

KeptLog ReadKeptLog(const std::string& folder, const std::string& job, const std::string& member,
                    size_t most) {
  const std::string path = PathOf(folder, job, member);
  // The newer one is opened first: what becomes the older one meanwhile is the same file then.
  const absl::StatusOr<Descriptor> newer = OpenRegularFile(path, O_RDONLY);
  const absl::StatusOr<Descriptor> older = OpenRegularFile(path + kOlder, O_RDONLY);
  KeptLog log;
  struct stat of_newer {};
  if (newer.ok() && fstat(newer->get(), &of_newer) == 0) {
    log.text = EndOf(newer->get(), of_newer.st_size, most);
    log.is_cut = static_cast<size_t>(of_newer.st_size) > most;
  }
  struct stat of_older {};
  if (!older.ok() || fstat(older->get(), &of_older) != 0) return log;
  if (newer.ok() && of_older.st_ino == of_newer.st_ino) return log;
  if (log.text.size() < most)
    log.text.insert(0, EndOf(older->get(), of_older.st_size, most - log.text.size()));
  log.is_cut = true;  // of what was before both nobody knows
  return log;
}

}  // namespace muster::coordinator
