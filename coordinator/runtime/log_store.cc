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
#include <random>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "lib/base/descriptor.h"
#include "lib/base/digits.h"
#include "lib/base/plural.h"
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

// Up to so many bytes of a file from there on; what cannot be read ends it.
std::string ReadFrom(int file, off_t from, size_t most) {
  std::string text(most, '\0');
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

constexpr absl::string_view kHeadWord = "muster-log";
constexpr size_t kLongestHead = 64;
constexpr int64_t kMostInAll = int64_t{1} << 60;  // bytes of a log, so that sums have room

// "muster-log 0123456789abcdef 1048576": the log, and where in it the file begins.
std::string LineOf(const LogHead& head) {
  return absl::StrCat(kHeadWord, " ", absl::Hex(head.log, absl::kZeroPad16), " ", head.begins,
                      "\n");
}

// Of a file that begins so; nothing: an earlier version wrote it.
std::optional<LogHead> ParseHead(absl::string_view text) {
  const size_t end = text.substr(0, kLongestHead).find('\n');
  if (end == absl::string_view::npos) return std::nullopt;
  const std::vector<absl::string_view> words = absl::StrSplit(text.substr(0, end), ' ');
  LogHead head;
  if (words.size() != 3 || words[0] != kHeadWord || words[1].size() != 16 ||
      !absl::SimpleHexAtoi(words[1], &head.log) || !ParseDigits(words[2], &head.begins) ||
      head.begins > kMostInAll)
    return std::nullopt;
  return head;
}

uint64_t RandomLog() {
  std::random_device random;
  return (uint64_t{random()} << 32) | random();
}

// One of the files of a log, open. What members printed is from `skip` of the file on, and at the
// places from `begins` to `ends` of the log.
struct Part {
  Descriptor file;
  ino_t inode = 0;
  uint64_t log = 0;
  int64_t begins = 0, ends = 0;
  off_t skip = 0;
};

std::optional<Part> OpenPart(const std::string& path) {
  absl::StatusOr<Descriptor> file = OpenRegularFile(path, O_RDONLY);
  struct stat found {};
  if (!file.ok() || fstat(file->get(), &found) != 0) return std::nullopt;
  Part part{.file = *std::move(file), .inode = found.st_ino};
  if (const auto head = ParseHead(ReadFrom(part.file.get(), 0, kLongestHead))) {
    part.log = head->log;
    part.begins = head->begins;
    part.skip = static_cast<off_t>(LineOf(*head).size());
  }
  part.ends = part.begins + std::max<off_t>(0, found.st_size - part.skip);
  return part;
}

// The older one first. The newer one is opened first: what becomes the older one meanwhile is the
// same file then.
std::vector<Part> OpenParts(const std::string& path) {
  std::optional<Part> newer = OpenPart(path);
  std::optional<Part> older = OpenPart(path + kOlder);
  if (newer && older && newer->inode == older->inode) older.reset();
  // Those of an earlier version say nothing of where they begin.
  if (newer && older && newer->log == 0 && older->log == 0) {
    newer->begins += older->ends;
    newer->ends += older->ends;
  }
  // Rotated twice meanwhile: the newer one is not there any more.
  if (newer && older && newer->log == older->log && older->begins > newer->begins)
    std::swap(*newer, *older);
  std::vector<Part> parts;
  if (older) parts.push_back(*std::move(older));
  if (newer) parts.push_back(*std::move(newer));
  return parts;
}

bool GoesOnIn(const Part& part, const Part& next) {
  return part.log == next.log && part.ends == next.begins;
}

// From a place in `parts[first]` on, also over the end of that file where the log goes on.
std::string ReadParts(const std::vector<Part>& parts, size_t first, int64_t at, size_t most) {
  std::string text;
  for (size_t i = first; i < parts.size() && text.size() < most; ++i) {
    const Part& part = parts[i];
    if (i > first && !GoesOnIn(parts[i - 1], part)) break;
    const auto left = static_cast<size_t>(part.ends - at);
    const std::string more = ReadFrom(part.file.get(), part.skip + (at - part.begins),
                                      std::min(left, most - text.size()));
    text += more;
    at += static_cast<int64_t>(more.size());
    if (at < part.ends) break;
  }
  return text;
}

}  // namespace

std::string LogsOf(const std::string& dir) { return dir + "/logs"; }

std::string GapText(const LogAmount& missing) {
  const std::string bytes = Plural(missing.bytes, "byte");
  const bool is_one = missing.lines == 1 || (missing.lines == 0 && missing.bytes == 1);
  return absl::StrCat(
      "... ",
      missing.lines > 0 ? absl::StrCat(Plural(missing.lines, "line"), " (", bytes, ")") : bytes,
      is_one ? " is" : " are", " left out here");
}

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
  LogAmount& missing = left_out_[{lines.job, lines.name}];
  missing += lines.left_out;
  missing += {static_cast<int64_t>(lines.text.size()),
              std::count(lines.text.begin(), lines.text.end(), '\n')};
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
    job_writes_.erase(job);
  });
}

int64_t LogStore::Writes(const std::string& job) const {
  const MutexLock lock(mutex_);
  const auto it = job_writes_.find(job);
  return it == job_writes_.end() ? 0 : it->second;
}

// What an earlier coordinator left: the files that were written last are the last to go.
void LogStore::Find(const std::set<std::string>& jobs) {
  std::error_code none;
  std::vector<std::pair<fs::file_time_type, std::string>> found;
  for (const fs::directory_entry& job : EntriesOf(folder_)) {
    if (jobs.count(job.path().filename().string()) == 0) {
      fs::remove_all(job.path(), none);
      continue;
    }
    for (const fs::directory_entry& file : EntriesOf(job.path()))
      if (file.is_regular_file(none) && !file.is_symlink(none))
        found.emplace_back(file.last_write_time(none), file.path().string());
  }
  std::sort(found.begin(), found.end());
  for (const auto& [time, path] : found) {
    const std::optional<Part> part = OpenPart(path);
    if (!part) continue;
    const auto bytes = static_cast<size_t>(part->ends - part->begins);
    File& file = files_[path] = {.bytes = bytes, .written = ++writes_};
    file.in_line = bytes > 0 && ReadFrom(part->file.get(),
                                         part->skip + (part->ends - part->begins) - 1, 1) != "\n";
    if (part->log != 0) file.head = LogHead{part->log, part->begins};
    bytes_ += bytes;
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
  const MutexLock lock(mutex_);
  job_writes_[lines.job] = writes_;
}

// What was on its way to the coordinator before this one was lost with it. The agent says how much
// it has told before; where that is just what is kept, nothing was. Else some of it may have been
// left out, or told by another agent, and nobody knows how much is missing.
bool LogStore::MayLackSome(const File& kept, const LogLines& lines) {
  const bool is_first_of_ours = !kept.placement;
  return is_first_of_ours && kept.head && lines.before.bytes > 0 &&
         kept.head->begins + static_cast<int64_t>(kept.bytes) != lines.before.bytes;
}

// It goes on where the older part ends.
LogHead LogStore::HeadOfNext(const std::string& path) const {
  const auto older = files_.find(path + kOlder);
  if (older == files_.end() || !older->second.head) return {RandomLog(), 0};
  const LogHead& head = *older->second.head;
  return {head.log, head.begins + static_cast<int64_t>(older->second.bytes)};
}

absl::Status LogStore::Append(const std::string& path, const LogLines& lines) {
  std::string text;
  const auto before = files_.find(path);
  const bool in_line = before != files_.end() && before->second.in_line;
  if (lines.left_out.bytes > 0) {
    text = absl::StrCat(in_line ? "\n" : "", GapText(lines.left_out), "\n");
  } else if (before != files_.end() && MayLackSome(before->second, lines)) {
    text = absl::StrCat(in_line ? "\n" : "", kMayLackSome, "\n");
  } else if (in_line && !lines.text.empty() &&
             before->second.placement.value_or(lines.placement) != lines.placement) {
    text = "\n";  // another process has not ended its line
  }
  text += lines.text;
  if (text.empty()) return absl::OkStatus();
  if (before != files_.end() &&
      (!before->second.head || before->second.bytes + text.size() > budget_.file))
    Rotate(path);
  const auto known = files_.find(path);
  const bool is_new = known == files_.end();
  const LogHead head = is_new ? HeadOfNext(path) : *known->second.head;
  const std::string first = LineOf(head);
  MUSTER_RETURN_IF_ERROR(MakeDirectories(absl::StrCat(folder_, "/", lines.job)));
  if (is_new) unlink(path.c_str());  // whatever lies there
  MUSTER_ASSIGN_OR_RETURN(const Descriptor file,
                          OpenRegularFile(path, O_WRONLY | O_CREAT | O_APPEND));
  const absl::Status written =
      WriteAll(file.get(), path, is_new ? absl::StrCat(first, text) : text);
  struct stat now {};
  if (fstat(file.get(), &now) != 0) return written;
  if (static_cast<size_t>(now.st_size) < first.size()) {  // not even that had room
    unlink(path.c_str());
    return written;
  }
  File& kept = files_[path];
  const size_t bytes = static_cast<size_t>(now.st_size) - first.size();
  bytes_ += bytes - kept.bytes;
  kept = {.bytes = bytes,
          .written = ++writes_,
          .in_line = !written.ok() || text.back() != '\n',
          .placement = lines.placement,
          .head = head};
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

namespace {

// The newest bytes of the last log.
struct Newest {
  std::string text;
  LogPlace at;          // of the first of them
  bool is_cut = false;  // there was more before them
};

Newest ReadNewest(const std::vector<Part>& parts, size_t most) {
  if (parts.empty()) return {};
  size_t first = parts.size() - 1;
  const auto before = [&](size_t i) { return parts.back().ends - parts[i].begins; };
  while (first > 0 && GoesOnIn(parts[first - 1], parts[first]) &&
         before(first) < static_cast<int64_t>(most))
    --first;
  const int64_t at = std::max(parts[first].begins, parts.back().ends - static_cast<int64_t>(most));
  return {.text = ReadParts(parts, first, at, most),
          .at = {parts.back().log, at},
          .is_cut = at > 0 || parts.size() > 1};
}

}  // namespace

KeptLog ReadKeptLog(const std::string& folder, const std::string& job, const std::string& member,
                    size_t most) {
  const std::vector<Part> parts = OpenParts(PathOf(folder, job, member));
  Newest newest = ReadNewest(parts, most);
  return {.text = std::move(newest.text), .is_cut = newest.is_cut};
}

std::optional<LogSpan> ReadLogAfter(const std::string& folder, const std::string& job,
                                    const std::string& member, const std::optional<LogPlace>& after,
                                    size_t most, bool ends) {
  const std::vector<Part> parts = OpenParts(PathOf(folder, job, member));
  if (parts.empty()) return std::nullopt;
  LogSpan span;
  size_t first = 0;
  span.next = {parts[0].log, parts[0].begins};
  if (after) {
    // Parts of the log that was read before.
    const auto is_of_it = [&](const Part& part) { return part.log == after->log; };
    const auto found = std::find_if(parts.begin(), parts.end(), is_of_it);
    if (found == parts.end()) {
      span.is_other = true;
    } else {
      first = static_cast<size_t>(found - parts.begin());
      span.left_out = std::max<int64_t>(0, found->begins - after->at);
      span.next = {after->log, std::max(after->at, found->begins)};
    }
  }
  // Behind the end of a part what follows begins, also that of another log. Of a file that has lost
  // its end with its machine what comes next stands before the place: nothing is left out then.
  while (span.next.at >= parts[first].ends) {
    if (first + 1 == parts.size()) {
      span.next.at = parts[first].ends;
      return span;
    }
    ++first;
    if (span.next.log == parts[first].log)
      span.left_out += std::max<int64_t>(0, parts[first].begins - span.next.at);
    span.next = {parts[first].log, span.next.log == parts[first].log
                                       ? std::max(span.next.at, parts[first].begins)
                                       : parts[first].begins};
  }
  span.text = ReadParts(parts, first, span.next.at, most);
  size_t last = first;
  while (last + 1 < parts.size() && GoesOnIn(parts[last], parts[last + 1])) ++last;
  const int64_t read_to = span.next.at + static_cast<int64_t>(span.text.size());
  const bool is_all = read_to >= parts[last].ends;
  const bool is_last = last + 1 == parts.size();
  size_t whole = span.text.rfind('\n') + 1;  // 0: none has its end
  if (whole == 0 && span.text.size() == most) whole = span.text.size();
  if (is_all && (ends || !is_last)) whole = span.text.size();
  span.is_more = whole > 0 && (!is_all || !is_last);
  span.text.resize(whole);
  span.next.at += static_cast<int64_t>(whole);
  return span;
}

std::optional<LogPlace> PlaceOfTail(const std::string& folder, const std::string& job,
                                    const std::string& member, int64_t lines, size_t most) {
  const std::vector<Part> parts = OpenParts(PathOf(folder, job, member));
  if (parts.empty()) return std::nullopt;
  const Newest newest = ReadNewest(parts, most);
  absl::string_view rest = newest.text;
  if (!rest.empty() && rest.back() == '\n') rest.remove_suffix(1);
  size_t from = newest.text.size();
  while (lines-- > 0 && from > 0) {
    const size_t end = rest.rfind('\n');
    const bool is_first = end == absl::string_view::npos;
    if (is_first && newest.is_cut) break;  // the beginning of that line is missing
    from = is_first ? 0 : end + 1;
    rest = rest.substr(0, is_first ? 0 : end);
  }
  return LogPlace{newest.at.log, newest.at.at + static_cast<int64_t>(from)};
}

}  // namespace muster::coordinator
