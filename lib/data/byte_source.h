// Bytes that samples are read from: a file, a part of one, or memory. Whatever reads a format reads
// from one of these, so that it can be tried with any bytes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "lib/data/data_memory.h"

struct stat;

namespace muster {

// Bytes from `offset`, as many as `into` has.
struct Piece {
  uint64_t offset = 0;
  absl::Span<std::byte> into;
};

// Does not change; any thread.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  virtual const std::string& name() const = 0;  // for people: the file's path
  virtual uint64_t size() const = 0;
  // The CRC-32 that all its bytes had when they were saved (checksum.h); nothing: nobody has told.
  virtual std::optional<uint32_t> crc() const { return std::nullopt; }
  // All of each. kDataLoss: they are not there, cannot be read, or the file is not the one that was
  // opened any more, which is looked at also where there is no piece; the message names it and the
  // place.
  virtual absl::Status ReadEach(absl::Span<const Piece> pieces) const = 0;

  absl::Status ReadAt(uint64_t offset, absl::Span<std::byte> into) const {
    const Piece piece{offset, into};
    return ReadEach({&piece, 1});
  }

 protected:
  absl::Status CheckPlace(const Piece& piece) const;
};

using SourcePtr = std::shared_ptr<const ByteSource>;

// Whether the files of a data set remember what is read of them, by checksums. They do until its
// hash is there, for which all of it is read. Any thread.
class ReadMarks {
 public:
  // `places_are_told`: another process says what stands where in the files. What was read of one
  // then says nothing of what was not yet, and until all was read none may be replaced.
  explicit ReadMarks(bool places_are_told = false) : places_are_told_(places_are_told) {}
  bool places_are_told() const { return places_are_told_; }
  bool are_taken() const { return state_ == State::kTaken; }
  // False: what the samples are made of was not read here.
  bool are_known() const { return state_ != State::kNone; }
  // `all_was_read`: for the hash; else that is one of before.
  void Settle(bool all_was_read) { state_ = all_was_read ? State::kWhole : State::kNone; }

 private:
  enum class State { kTaken, kWhole, kNone };
  const bool places_are_told_;
  std::atomic<State> state_ = State::kTaken;
};

// A regular file. It is opened anew for each read, for all its pieces, so that no number of files
// takes descriptors, and must then have the size and the time of modification that it had. Where
// its inode or its time of change is another, what was read of it until `marks` were settled is
// read once more, and must be the same. kDataLoss: it cannot be.
absl::StatusOr<SourcePtr> FileSource(
    const std::string& path, std::shared_ptr<ReadMarks> marks = std::make_shared<ReadMarks>());
// The same of a regular file that was `found` so, and whose first `bytes`, of this CRC-32C, were
// read where it was open for something else.
SourcePtr FileSource(std::string path, const struct stat& found, uint64_t bytes, uint32_t crc);

// `memory`: what has been taken for its bytes.
SourcePtr MemorySource(std::string name, std::string bytes, DataMemory memory = {});

// [offset, offset + size) of another, which has so many. `crc`: as it tells.
SourcePtr PartOf(SourcePtr whole, std::string name, uint64_t offset, uint64_t size,
                 std::optional<uint32_t> crc = std::nullopt);

// So many bytes from `offset`, of which the caller knows that they are few. Errors as ReadEach.
absl::StatusOr<std::string> ReadString(const ByteSource& source, uint64_t offset, uint64_t bytes);

// All of it. kResourceExhausted: more than `most`.
absl::StatusOr<std::string> ReadAll(const ByteSource& source, uint64_t most);

// kDataLoss: "NAME: at byte 12: why".
absl::Status BadAt(const ByteSource& source, uint64_t offset, absl::string_view why);
absl::Status Bad(const ByteSource& source, absl::string_view why);

// The system makes what is read there on the way, some of it without end, and differently for each
// process. What sysfs makes has an end, and is found to be shorter than it says.
bool IsMadeWhileRead(int fd);

}  // namespace muster
