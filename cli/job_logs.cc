#include "cli/job_logs.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "lib/base/descriptor.h"
#include "lib/base/status.h"
#include "lib/base/whole_file.h"

namespace muster::cli {
namespace {

namespace fs = std::filesystem;

constexpr absl::string_view kPattern = "dddd-dd-ddTdd:dd:dd";  // then a fraction, then Z
constexpr size_t kLongestTime = 32;

bool FitsPattern(absl::string_view text) {
  if (text.size() < kPattern.size()) return false;
  for (size_t i = 0; i < kPattern.size(); ++i) {
    const bool digit = absl::ascii_isdigit(static_cast<unsigned char>(text[i]));
    if (kPattern[i] == 'd' ? !digit : text[i] != kPattern[i]) return false;
  }
  return true;
}

}  // namespace

std::string TimeOfLine(absl::string_view line) {
  constexpr absl::string_view kJsonTime = "\"time\":\"";
  if (absl::StartsWith(line, "{")) {
    const size_t at = line.find(kJsonTime);
    if (at == absl::string_view::npos) return "";
    line.remove_prefix(at + kJsonTime.size());
  }
  absl::ConsumePrefix(&line, "--- ");
  if (!FitsPattern(line)) return "";
  const size_t end = line.substr(0, kLongestTime).find('Z');
  return end == absl::string_view::npos ? "" : std::string(line.substr(0, end));
}

const LogFile::Line* LogFile::Peek(bool ends) {
  if (line_) return &*line_;
  if (pending_.find('\n') == std::string::npos) ReadMore();
  size_t end = pending_.find('\n');
  const bool is_whole = end != std::string::npos;
  if (!is_whole) end = pending_.size();
  if (!is_whole && end < kLongestLine && !(ends && end > 0)) return nullptr;
  std::string text = pending_.substr(0, end);
  pending_.erase(0, end + (is_whole ? 1 : 0));
  time_ = std::max(time_, TimeOfLine(text));
  line_ = Line{time_, std::move(text)};
  return &*line_;
}

// It was cut, or has taken the place of one that is the part before it now: what that one got last
// was not read yet.
void LogFile::ReadCut() {
  struct stat older {};
  in_older_ = stat((path_ + ".1").c_str(), &older) == 0 && older.st_size >= offset_;
  if (!in_older_) offset_ = 0;
  ReadMore();
}

// From its beginning.
void LogFile::ReadNewer() {
  in_older_ = false;
  offset_ = 0;
  ReadMore();
}

// Until the line has its end, there is no more, or the line is too long.
void LogFile::ReadMore() {
  const std::string path = in_older_ ? path_ + ".1" : path_;
  const absl::StatusOr<Descriptor> file = OpenRegularFile(path, O_RDONLY);
  if (absl::IsNotFound(file.status())) return in_older_ ? ReadNewer() : void();
  status_ = file.status();
  struct stat now {};
  if (status_.ok() && !in_older_ && fstat(file->get(), &now) == 0 && now.st_size < offset_)
    return ReadCut();
  std::array<char, 16 * 1024> buffer;
  while (status_.ok() && pending_.size() < kLongestLine) {
    const size_t most = std::min(buffer.size(), kLongestLine - pending_.size());
    const ssize_t n = pread(file->get(), buffer.data(), most, offset_);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) status_ = FileError(errno, "read", path);
    if (n == 0 && in_older_) return ReadNewer();
    if (n <= 0) return;
    offset_ += n;
    pending_.append(buffer.data(), static_cast<size_t>(n));
    if (pending_.find('\n', pending_.size() - static_cast<size_t>(n)) != std::string::npos) return;
  }
}

std::vector<std::string> JobLogs::Members() const {
  std::vector<std::string> members;
  std::error_code none;
  for (const auto& file : fs::directory_iterator(folder_, none))
    if (file.path().extension() == ".log") members.push_back(file.path().stem().string());
  std::sort(members.begin(), members.end());
  return members;
}

void JobLogs::FindFiles() {
  for (const std::string& member : Members())
    if (member_.empty() || member == member_)
      files_.try_emplace(member, folder_ + "/" + member + ".log");
}

absl::Status JobLogs::status() const {
  for (const auto& [member, file] : files_) MUSTER_RETURN_IF_ERROR(file.status());
  return absl::OkStatus();
}

int64_t JobLogs::Read(bool ends, const OnLine& on_line) {
  FindFiles();
  int64_t lines = 0;
  while (true) {
    std::pair<const std::string*, LogFile*> oldest{nullptr, nullptr};
    const LogFile::Line* first = nullptr;
    for (auto& [member, file] : files_) {
      const LogFile::Line* line = file.Peek(ends);
      if (line == nullptr || (first != nullptr && first->time <= line->time)) continue;
      first = line;
      oldest = {&member, &file};
    }
    if (first == nullptr) return lines;
    on_line(*oldest.first, first->text);
    oldest.second->Drop();
    ++lines;
  }
}

}  // namespace muster::cli
