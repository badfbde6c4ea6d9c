#include "agent/runtime/log_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <vector>

#include "lib/base/descriptor.h"
#include "lib/base/whole_file.h"

namespace muster::agent {
namespace {

off_t SizeOf(int fd) {
  struct stat found {};
  return fstat(fd, &found) == 0 ? found.st_size : -1;
}

bool WriteAll(int fd, const char* data, size_t size) {
  while (size > 0) {
    const ssize_t n = write(fd, data, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    data += n;
    size -= static_cast<size_t>(n);
  }
  return true;
}

// Up to the end, also what is added meanwhile, so that little comes between that and the cut. Who
// prints as fast as this copies is not waited for.
bool Copy(int from, int to) {
  constexpr off_t kMostAdded = off_t{4} << 20;
  const off_t most = SizeOf(from) + kMostAdded;
  std::vector<char> buffer(size_t{256} << 10);
  for (off_t at = 0; at < most;) {
    const ssize_t n = pread(from, buffer.data(), buffer.size(), at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return n == 0;
    if (!WriteAll(to, buffer.data(), static_cast<size_t>(n))) return false;
    at += n;
  }
  return true;
}

}  // namespace

std::string OlderLog(const std::string& path) { return path + ".1"; }

off_t BeginLog(const std::string& path, off_t most) {
  const absl::StatusOr<Descriptor> file = OpenRegularFile(path, O_RDONLY);
  if (absl::IsNotFound(file.status())) return 0;
  if (!file.ok()) return -1;
  const off_t size = SizeOf(file->get());
  if (size < most / 2) return size;
  return rename(path.c_str(), OlderLog(path).c_str()) == 0 ? 0 : size;
}

bool CutLog(const std::string& path, off_t most) {
  const absl::StatusOr<Descriptor> file = OpenRegularFile(path, O_RDWR);
  if (!file.ok() || SizeOf(file->get()) <= most) return false;
  const std::string older = OlderLog(path);
  unlink(older.c_str());  // whatever lies there
  absl::StatusOr<Descriptor> copy = OpenRegularFile(older, O_WRONLY | O_CREAT | O_EXCL);
  const bool is_copied = copy.ok() && Copy(file->get(), copy->get());
  const bool is_cut = ftruncate(file->get(), 0) == 0;
  if (!is_copied && copy.ok()) unlink(older.c_str());
  return is_cut;
}

}  // namespace muster::agent
