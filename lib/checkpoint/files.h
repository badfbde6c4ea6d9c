// The files of one job's checkpoints, wherever they lie: the only way by which manifests, segments
// and what is left of them are read, written, listed and deleted. A file is FILE or FOLDER/FILE,
// by a name that IsSafeRelativeName takes or that List gave; whoever has a name from outside checks
// it. What is promised here is what checkpoints rest on, and what another place than a disk would
// have to give (docs/decisions/0074-files-of-checkpoints.md).
//
// Errors, all of which name the file by its path: kNotFound: it is not there, or for what writes:
// the job's folder is not; kAlreadyExists; kPermissionDenied; kResourceExhausted: no room;
// kDataLoss: what is there is no file, or is shorter than it was; kUnavailable: anything else,
// which may pass.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace muster {

// A file that is open to be read; it may outlive the CheckpointFiles that opened it. Where it is
// replaced or deleted meanwhile, it gives its old bytes or an error, never a mixture. One thread at
// a time.
class CheckpointFile {
 public:
  virtual ~CheckpointFile() = default;

  virtual uint64_t size() const = 0;  // when it was opened
  // All of these bytes; after an error their content is unspecified. Each call costs a request, so
  // whoever wants many small things reads the block that they are in. kDataLoss: the file is
  // shorter.
  virtual absl::Status ReadAt(uint64_t offset, void* to, size_t bytes) const = 0;
};

// Takes the bytes of a new file from front to back. Keeps nothing of `bytes` after the call.
class Appender {
 public:
  virtual ~Appender() = default;
  virtual absl::Status Append(absl::Span<const std::byte> bytes) = 0;
};

// Any thread, several at a time; of one file, one thread writes or removes. Calls return when it is
// done, which takes as long as the disk does.
class CheckpointFiles {
 public:
  using Write = std::function<absl::Status(Appender&)>;
  struct Entry {
    std::string name;        // in its folder
    bool is_folder = false;  // itself, not one that a link leads to
  };
  using Visit = std::function<bool(const Entry& entry)>;

  virtual ~CheckpointFiles() = default;

  // Where a file lies, for messages; "": the job's folder.
  virtual std::string PathOf(const std::string& file) const = 0;

  // kDataLoss: a pipe, a link or the like, which could hang us or lead elsewhere.
  virtual absl::StatusOr<std::unique_ptr<CheckpointFile>> Open(const std::string& file) const = 0;

  // Makes `file`, in a folder that is made where there is none, of what `write` appends; its errors
  // pass through. From the return on the file is there whole, for every reader and List anywhere,
  // and after a crash or a loss of power. Before that, and after an error, nobody sees it.
  // kAlreadyExists: it is there; two that make one file at once are not kept apart. kNotFound: the
  // job's folder was not made, or is gone.
  virtual absl::Status Create(const std::string& file, const Write& write) = 0;
  // Likewise, in the place of an earlier one: at every moment, a crash included, one of the two is
  // there whole. After an error it is the earlier one, or else the new one.
  virtual absl::Status Replace(const std::string& file, absl::string_view content) = 0;

  // Calls `visit` with each file and folder in `folder` (""; the job's own), in any order, until it
  // returns false. All that was there before the call is visited, once, and nothing that was
  // removed before. What a crash left of a file is visited as its name with kTemporarySuffix.
  // `visit` calls nothing here. kNotFound: there is no such folder; a place without folders has
  // nothing to visit instead.
  virtual absl::Status List(const std::string& folder, const Visit& visit) const = 0;

  // Not there: OK. After a loss of power it may be there again.
  virtual absl::Status Remove(const std::string& file) = 0;

  // The job's folder, durable; it is there: OK. Without it nothing is written: a member that
  // outlives its deleted job leaves nothing behind.
  virtual absl::Status MakeFolder() = 0;
  // A folder, or with "" the job's own, if nothing is in it. One that stays is no fault.
  virtual void RemoveFolder(const std::string& folder) = 0;
};

// Of the job whose checkpoints lie in `dir`, which need not be there. Costs nothing.
std::unique_ptr<CheckpointFiles> CheckpointFilesIn(std::string dir);

}  // namespace muster
