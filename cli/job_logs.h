// What the members of a job printed, read from the files of a cluster on this machine: the lines of
// all members in the order of their times. Memory is bounded by a line of each member, whatever the
// files hold.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace muster::cli {

// One file that may still grow, after the part of the log before it (agent/runtime/log_file.h), if
// there is one. Where it is cut meanwhile, it is read from its new beginning. A line that is longer
// than the limit comes in pieces.
class LogFile {
 public:
  static constexpr size_t kLongestLine = 64 * 1024;
  explicit LogFile(std::string path) : path_(std::move(path)) {}

  struct Line {
    std::string time;  // as the line says it; of a line without one, that of the line before
    std::string text;
  };
  // The next whole line, which stays until it is taken; nothing: it has not been written yet.
  // `ends`: the file will not grow, so that its last line is whole without its end.
  const Line* Peek(bool ends);
  void Drop() { line_.reset(); }
  // Why the file could not be read further; what is not there yet is no error.
  const absl::Status& status() const { return status_; }

 private:
  void ReadMore();
  void ReadCut();
  void ReadNewer();

  const std::string path_;
  bool in_older_ = true;  // the part before is read first
  int64_t offset_ = 0;    // of the first byte behind `pending_`
  std::string pending_;   // read, and not part of a line yet
  std::string time_;      // of the last line
  std::optional<Line> line_;
  absl::Status status_;
};

class JobLogs {
 public:
  // `member` empty: all.
  JobLogs(std::string folder, std::string member)
      : folder_(std::move(folder)), member_(std::move(member)) {}

  // Names of the members that have a log.
  std::vector<std::string> Members() const;
  // Hands over the lines that are there and were not handed over before. How many they were.
  using OnLine = std::function<void(const std::string& member, const std::string& text)>;
  int64_t Read(bool ends, const OnLine& on_line);
  // Of the first file that could not be read.
  absl::Status status() const;

 private:
  void FindFiles();

  const std::string folder_;
  const std::string member_;
  std::map<std::string, LogFile> files_;  // by member
};

// The UTC time of a log line up to its 'Z', or empty: "2026-11-21T10:09:51.267". Of a line of text,
// of JSON, or of the agent ("--- 2026-11-21T10:09:51Z starting ...").
std::string TimeOfLine(absl::string_view line);

}  // namespace muster::cli
