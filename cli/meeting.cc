#include "cli/meeting.h"

#include <sys/stat.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "cli/json_text.h"
#include "lib/base/loopback.h"
#include "lib/base/status.h"
#include "lib/base/whole_file.h"

namespace muster::cli {
namespace {

constexpr size_t kMostBytes = size_t{1} << 16;
constexpr int kMostExitCode = 255;

std::string FileIn(const std::string& folder) { return folder + "/run.json"; }

// Nothing: it is not there, or says nothing that can be used.
std::optional<Meeting> Read(const std::string& file) {
  const absl::StatusOr<std::string> text = ReadWholeFile(file, kMostBytes);
  if (!text.ok()) return std::nullopt;
  const auto object = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  const auto field = [&](const char* name) {
    return object.is_object() && object.contains(name) && object[name].is_string()
               ? object[name].get<std::string>()
               : "";
  };
  Meeting meeting{
      .coordinator = field("coordinator"), .join = field("join"), .run_id = field("run_id")};
  const absl::StatusOr<HostPort> address = ParseHostPort(meeting.coordinator);
  if (!address.ok() || address->port == 0) return std::nullopt;
  if (object.contains("exit_code") && object["exit_code"].is_number_integer()) {
    const auto code = object["exit_code"].get<int64_t>();
    if (code >= 0 && code <= kMostExitCode) meeting.exit_code = static_cast<int>(code);
  }
  return meeting;
}

}  // namespace

absl::Status WriteMeeting(const std::string& folder, const Meeting& meeting) {
  nlohmann::ordered_json object = {
      {"coordinator", meeting.coordinator}, {"join", meeting.join}, {"run_id", meeting.run_id}};
  if (meeting.exit_code) object["exit_code"] = *meeting.exit_code;
  MUSTER_RETURN_IF_ERROR(CheckRegularFile(FileIn(folder)));
  return Prefix(absl::StrCat("cannot write ", FileIn(folder)),
                ReplaceFile(FileIn(folder), Text(object, 2) + "\n"));
}

MeetingReader::MeetingReader(std::string folder, std::string run_id)
    : file_(FileIn(folder)), run_id_(std::move(run_id)), first_(VersionOf(file_)) {}

std::optional<MeetingReader::Version> MeetingReader::VersionOf(const std::string& file) {
  struct stat found {};
  if (stat(file.c_str(), &found) != 0) return std::nullopt;
  constexpr int64_t kPerSecond = 1000000000;
  return Version{.inode = found.st_ino,
                 .nanoseconds = found.st_mtim.tv_sec * kPerSecond + found.st_mtim.tv_nsec,
                 .bytes = found.st_size};
}

std::optional<Meeting> MeetingReader::Look() const {
  // Before it is read: what takes its place meanwhile is read now, and counts with the next look.
  const std::optional<Version> version = VersionOf(file_);
  const std::optional<Meeting> meeting = Read(file_);
  if (!version || !meeting) return std::nullopt;
  const bool is_old = version == first_;
  if (meeting->run_id != run_id_ || (is_old && meeting->exit_code)) return std::nullopt;
  return meeting;
}

std::optional<int> MeetingReader::EndedBefore() const {
  const std::optional<Version> version = VersionOf(file_);
  const std::optional<Meeting> meeting = Read(file_);
  const bool is_the_first = version && version == first_;
  if (!is_the_first || !meeting || meeting->run_id != run_id_) return std::nullopt;
  return meeting->exit_code;
}

absl::Status MeetingReader::Trouble() const {
  const absl::Status read = ReadWholeFile(file_, kMostBytes).status();
  return absl::IsNotFound(read) ? absl::OkStatus() : read;
}

}  // namespace muster::cli
