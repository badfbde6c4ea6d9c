#include "lib/storage/sequence_mark.h"

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "lib/base/status.h"
#include "lib/base/whole_file.h"

namespace muster {
namespace {

constexpr size_t kLength = 21;  // always, so that one write replaces it

std::string LineOf(uint64_t sequence) { return absl::StrFormat("%020d\n", sequence); }

}  // namespace

absl::StatusOr<std::optional<uint64_t>> SequenceMark::Read(const std::string& file) {
  const absl::StatusOr<std::string> line = ReadWholeFile(file);
  if (absl::IsNotFound(line.status())) return std::nullopt;
  MUSTER_RETURN_IF_ERROR(line.status());
  uint64_t sequence = 0;
  const bool whole = line->size() == kLength && absl::EndsWith(*line, "\n") &&
                     absl::ascii_isdigit(static_cast<unsigned char>(line->front())) &&
                     absl::SimpleAtoi(*line, &sequence);
  if (!whole) return absl::DataLossError(absl::StrCat("'", file, "' does not hold a number"));
  return sequence;
}

absl::StatusOr<std::unique_ptr<SequenceMark>> SequenceMark::Begin(const std::string& file,
                                                                  uint64_t sequence) {
  MUSTER_RETURN_IF_ERROR(MakeDirectories(std::filesystem::path(file).parent_path().string()));
  MUSTER_RETURN_IF_ERROR(ReplaceFile(file, LineOf(sequence)));
  MUSTER_ASSIGN_OR_RETURN(Descriptor opened, OpenRegularFile(file, O_WRONLY));
  return std::unique_ptr<SequenceMark>(new SequenceMark(std::move(opened), sequence));
}

SequenceMark::~SequenceMark() { fsync(file_.get()); }

void SequenceMark::Reach(uint64_t sequence) {
  MutexLock lock(mutex_);
  if (sequence <= sequence_) return;
  const std::string line = LineOf(sequence);
  if (pwrite(file_.get(), line.data(), line.size(), 0) == static_cast<ssize_t>(line.size()))
    sequence_ = sequence;
}

}  // namespace muster
