// Files of checkpoints in a folder of a file system, which may be one that several hosts see.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/descriptor.h"
#include "lib/base/status.h"
#include "lib/base/whole_file.h"
#include "lib/checkpoint/file_writer.h"
#include "lib/checkpoint/files.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

class PosixFile final : public CheckpointFile {
 public:
  PosixFile(Descriptor file, uint64_t size, std::string path)
      : file_(std::move(file)), size_(size), path_(std::move(path)) {}

  uint64_t size() const override { return size_; }
  absl::Status ReadAt(uint64_t offset, void* to, size_t bytes) const override {
    char* at = static_cast<char*>(to);
    while (bytes > 0) {
      const ssize_t n = pread(file_.get(), at, bytes, static_cast<off_t>(offset));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return FileError(errno, "read", path_);
      if (n == 0) return absl::DataLossError(absl::StrCat("'", path_, "': ends at byte ", offset));
      at += n;
      offset += static_cast<uint64_t>(n);
      bytes -= static_cast<size_t>(n);
    }
    return absl::OkStatus();
  }

 private:
  const Descriptor file_;
  const uint64_t size_;
  const std::string path_;
};

absl::Status WriteTemporary(const std::string& path, const CheckpointFiles::Write& write) {
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<FileWriter> out, FileWriter::Create(path));
  MUSTER_RETURN_IF_ERROR(write(*out));
  return out->Finish();
}

class PosixFiles final : public CheckpointFiles {
 public:
  explicit PosixFiles(std::string dir) : dir_(std::move(dir)) {}

  std::string PathOf(const std::string& file) const override {
    return file.empty() ? dir_ : absl::StrCat(dir_, "/", file);
  }

  absl::StatusOr<std::unique_ptr<CheckpointFile>> Open(const std::string& file) const override {
    std::string path = PathOf(file);
    MUSTER_ASSIGN_OR_RETURN(Descriptor opened, OpenRegularFile(path, O_RDONLY));
    struct stat info {};
    if (fstat(opened.get(), &info) != 0) return FileError(errno, "look at", path);
    return std::make_unique<PosixFile>(std::move(opened), static_cast<uint64_t>(info.st_size),
                                       std::move(path));
  }

  absl::Status Create(const std::string& file, const Write& write) override {
    const std::string path = PathOf(file);
    const std::string folder = path.substr(0, path.rfind('/'));
    const std::string temporary = absl::StrCat(path, kTemporarySuffix);
    MUSTER_RETURN_IF_ERROR(MakeFolderOf(folder).status());
    if (access(path.c_str(), F_OK) == 0) return FileError(EEXIST, "create", path);
    absl::Status status = WriteTemporary(temporary, write);
    if (status.ok() && rename(temporary.c_str(), path.c_str()) != 0)
      status = FileError(errno, "rename", temporary);
    if (!status.ok()) {
      unlink(temporary.c_str());
      return status;
    }
    // Another writer may have made the folder, and not have synced it yet.
    status = SyncDirectory(folder);
    if (status.ok() && folder != dir_) status = SyncDirectory(dir_);
    if (!status.ok()) unlink(path.c_str());
    return status;
  }

  absl::Status Replace(const std::string& file, absl::string_view content) override {
    const std::string path = PathOf(file);
    MUSTER_ASSIGN_OR_RETURN(const bool made, MakeFolderOf(path.substr(0, path.rfind('/'))));
    if (made) MUSTER_RETURN_IF_ERROR(SyncDirectory(dir_));
    return ReplaceFile(path, content);
  }

  absl::Status List(const std::string& folder, const Visit& visit) const override {
    const std::string path = PathOf(folder);
    std::error_code error;
    for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
      std::error_code gone;
      const bool is_folder = !it->is_symlink(gone) && it->is_directory(gone);
      if (!visit({it->path().filename().string(), is_folder})) break;
    }
    return error ? ReadError(error.value(), "list directory", path) : absl::OkStatus();
  }

  absl::Status Remove(const std::string& file) override {
    const std::string path = PathOf(file);
    std::error_code error;
    fs::remove(path, error);
    return error ? FileError(error.value(), "delete", path) : absl::OkStatus();
  }

  absl::Status MakeFolder() override { return MakeDirectories(dir_); }

  void RemoveFolder(const std::string& folder) override {
    std::error_code ignored;  // not empty, or gone already
    fs::remove(PathOf(folder), ignored);
  }

 private:
  // `dir_` itself is not made: who removed it wants nothing written there any more.
  absl::StatusOr<bool> MakeFolderOf(const std::string& folder) const {
    if (folder == dir_) return false;
    std::error_code error;
    const bool made = fs::create_directory(folder, error);
    if (error) return FileError(error.value(), "make directory", folder);
    return made;
  }

  const std::string dir_;
};

}  // namespace

std::unique_ptr<CheckpointFiles> CheckpointFilesIn(std::string dir) {
  return std::make_unique<PosixFiles>(std::move(dir));
}

}  // namespace muster
