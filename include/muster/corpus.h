// Files as one string of bytes, the same on every machine that holds the same files.
#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "muster/task_options.h"

namespace muster {

struct Corpus {
  std::string bytes;
  std::string left_out;  // what could not be read, for people; empty: nothing
  // Looks at a few of the files that it was read of, in turn. kDataLoss: one is another now. For
  // whoever holds the bytes while a job trains, once for each lane. Any thread.
  std::function<absl::Status()> check_files = [] { return absl::OkStatus(); };
};

// The content of `data.paths` in the order given, a 0 byte between files, cut at `data.max_bytes`.
// A directory stands for the regular files below it whose names end in one of `data.suffixes`, ""
// standing for names without a dot (a file named in `paths` is read whatever its name), in
// depth-first, byte-wise order of names. Symbolic links to directories below it are not followed,
// and pipes, sockets, devices, folders of runs, ~/.config/muster and links to files in them are
// left out.
// kInvalidArgument: a path that is missing, cannot be read, or is or lies in the folder of a run,
// or no content at all. kDataLoss: something below a directory that cannot be read, or fails while
// it is read (the message names the first and how many). Where `data.unreadable` says so it is left
// out instead, the whole file. kResourceExhausted: it has more bytes than all data may have of this
// process's memory, less what data sets hold now.
absl::StatusOr<Corpus> ReadCorpus(const DataSpec& data);

// SHA-256 of all parts, one after the other, as 64 lower-case digits.
std::string ContentHash(std::initializer_list<std::string_view> parts);

}  // namespace muster
