// run.json of a run's folder, where the hosts of `muster run` meet: host 0 writes it, the others
// read it once a second.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"

namespace muster::cli {

struct Meeting {
  std::string coordinator;       // HOST:PORT
  std::string join{};            // the same, where hosts join
  std::string run_id;            // that of the launcher; empty: it gives none
  std::optional<int> exit_code;  // once the run is over
  bool operator==(const Meeting&) const = default;
};

// The folder is host 0's. An error names the file; kDataLoss: something else lies in its place.
absl::Status WriteMeeting(const std::string& folder, const Meeting& meeting);

// What another host reads there. The folder need not be there yet. What another run writes does not
// count, nor what an earlier one has left: a file tells of this run only if it has its id, and one
// that was there before this began and is not replaced never that the run is over. One thread.
class MeetingReader {
 public:
  MeetingReader(std::string folder, std::string run_id);
  std::optional<Meeting> Look() const;  // nothing: it does not say yet
  // How this run ended before, as the file says that was there when this began: nobody has begun it
  // anew yet. Nothing: it says of no end, or is another one by now.
  std::optional<int> EndedBefore() const;
  // Why the file cannot be read, where it is there. kDataLoss: something else lies in its place,
  // which the first host does not replace either.
  absl::Status Trouble() const;

 private:
  // What tells a file from the one that takes its place.
  struct Version {
    uint64_t inode = 0;
    int64_t nanoseconds = 0;
    int64_t bytes = 0;
    bool operator==(const Version&) const = default;
  };
  static std::optional<Version> VersionOf(const std::string& file);

  const std::string file_;
  const std::string run_id_;
  const std::optional<Version> first_;
};

}  // namespace muster::cli
