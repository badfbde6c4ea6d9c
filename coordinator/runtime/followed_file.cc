#include "coordinator/runtime/followed_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "lib/base/descriptor.h"
#include "lib/base/status.h"
#include "lib/base/whole_file.h"

namespace muster::coordinator {
namespace {

absl::StatusOr<std::string> ReadAt(const Descriptor& file, const std::string& path, int64_t from,
                                   int64_t most) {
  std::string bytes(static_cast<size_t>(most), '\0');
  ssize_t read = 0;
  do read = pread(file.get(), bytes.data(), bytes.size(), from);
  while (read < 0 && errno == EINTR);
  if (read < 0) return FileError(errno, "read", path);
  bytes.resize(static_cast<size_t>(read));
  return bytes;
}

}  // namespace

absl::StatusOr<std::string> FollowedFile::Read(int64_t from, int64_t most) const {
  MUSTER_ASSIGN_OR_RETURN(const Descriptor file, OpenRegularFile(path_, O_RDONLY));
  return ReadAt(file, path_, from, most);
}

absl::StatusOr<FollowedFile::Tail> FollowedFile::ReadTail(int64_t most) const {
  const absl::StatusOr<Descriptor> file = OpenRegularFile(path_, O_RDONLY);
  if (absl::IsNotFound(file.status())) return Tail{};
  MUSTER_RETURN_IF_ERROR(file.status());
  struct stat status {};
  if (fstat(file->get(), &status) != 0) return FileError(errno, "read", path_);
  const int64_t start = std::max<int64_t>(0, status.st_size - most);
  MUSTER_ASSIGN_OR_RETURN(std::string bytes, ReadAt(*file, path_, start, most));
  return Tail{std::move(bytes), start};
}

bool FollowedFile::IsAsWritten() const {
  struct stat status {};
  return stat(path_.c_str(), &status) == 0 ? status.st_size == end_ : errno == ENOENT && end_ == 0;
}

absl::Status FollowedFile::Append(const std::string& text) {
  MUSTER_ASSIGN_OR_RETURN(const Descriptor file, OpenRegularFile(path_, O_WRONLY | O_CREAT));
  struct stat status {};
  if (fstat(file.get(), &status) != 0) return FileError(errno, "write", path_);
  if (status.st_size < end_)  // since we looked: there would be a hole before what we write
    return absl::AbortedError(absl::StrCat(path_, " was cut by somebody else"));
  if (ftruncate(file.get(), end_) != 0) return FileError(errno, "write", path_);
  for (size_t done = 0; done < text.size();) {
    const ssize_t written = pwrite(file.get(), text.data() + done, text.size() - done,
                                   end_ + static_cast<int64_t>(done));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return FileError(errno, "write", path_);
    done += static_cast<size_t>(written);
  }
  end_ += static_cast<int64_t>(text.size());
  return absl::OkStatus();
}

}  // namespace muster::coordinator
