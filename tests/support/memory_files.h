// Files of checkpoints in memory, ones that fail when told, and ones to which something happens
// meanwhile.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/status.h"
#include "lib/checkpoint/files.h"

namespace muster {

// As a place without folders has them. One thread.
class MemoryFiles final : public CheckpointFiles {
 public:
  // The content by name; what a test puts here is there.
  std::map<std::string, std::shared_ptr<const std::string>> content;

  std::string PathOf(const std::string& file) const override {
    return absl::StrCat("memory:", file);
  }
  absl::StatusOr<std::unique_ptr<CheckpointFile>> Open(const std::string& file) const override {
    const auto it = content.find(file);
    if (it == content.end()) return absl::NotFoundError(Said("is not there", file));
    return std::make_unique<Opened>(it->second, PathOf(file));
  }
  absl::Status Create(const std::string& file, const Write& write) override {
    if (!made_) return absl::NotFoundError(Said("has no folder", file));
    if (content.contains(file)) return absl::AlreadyExistsError(Said("is there", file));
    Bytes bytes;
    MUSTER_RETURN_IF_ERROR(write(bytes));
    content[file] = std::make_shared<const std::string>(std::move(bytes.bytes));
    return absl::OkStatus();
  }
  absl::Status Replace(const std::string& file, absl::string_view bytes) override {
    if (!made_) return absl::NotFoundError(Said("has no folder", file));
    content[file] = std::make_shared<const std::string>(bytes);
    return absl::OkStatus();
  }
  absl::Status List(const std::string& folder, const Visit& visit) const override {
    const std::string prefix = folder.empty() ? "" : folder + "/";
    std::map<std::string, bool> found;
    for (const auto& [name, bytes] : content) {
      if (name.compare(0, prefix.size(), prefix) != 0) continue;
      const std::string rest = name.substr(prefix.size());
      found[rest.substr(0, rest.find('/'))] = rest.find('/') != std::string::npos;
    }
    for (const auto& [name, is_folder] : found)
      if (!visit({name, is_folder})) break;
    return absl::OkStatus();
  }
  absl::Status Remove(const std::string& file) override {
    content.erase(file);
    return absl::OkStatus();
  }
  absl::Status MakeFolder() override {
    made_ = true;
    return absl::OkStatus();
  }
  void RemoveFolder(const std::string& folder) override {
    if (folder.empty() && content.empty()) made_ = false;
  }

 private:
  struct Bytes final : Appender {
    std::string bytes;
    absl::Status Append(absl::Span<const std::byte> more) override {
      bytes.append(reinterpret_cast<const char*>(more.data()), more.size());
      return absl::OkStatus();
    }
  };
  class Opened final : public CheckpointFile {
   public:
    Opened(std::shared_ptr<const std::string> bytes, std::string path)
        : bytes_(std::move(bytes)), path_(std::move(path)) {}
    uint64_t size() const override { return bytes_->size(); }
    absl::Status ReadAt(uint64_t offset, void* to, size_t bytes) const override {
      if (offset > size() || bytes > size() - offset)
        return absl::DataLossError(absl::StrCat("'", path_, "': ends at byte ", size()));
      std::memcpy(to, bytes_->data() + offset, bytes);
      return absl::OkStatus();
    }

   private:
    const std::shared_ptr<const std::string> bytes_;
    const std::string path_;
  };
  std::string Said(absl::string_view what, const std::string& file) const {
    return absl::StrCat("'", PathOf(file), "' ", what);
  }

  bool made_ = false;
};

// Passes all on to `files`, which outlive it. One thread.
class FaultyFiles final : public CheckpointFiles {
 public:
  explicit FaultyFiles(CheckpointFiles& files) : files_(files) {}

  // The n-th call from now (0: the next; those of open files count, and each Append; PathOf and
  // RemoveFolder cannot fail) is answered kUnavailable and does nothing else.
  void FailCall(int64_t n) { *until_failure_ = n; }
  // Whether that call has come.
  bool failed() const { return *until_failure_ < 0; }

  std::string PathOf(const std::string& file) const override { return files_.PathOf(file); }
  absl::StatusOr<std::unique_ptr<CheckpointFile>> Open(const std::string& file) const override {
    MUSTER_RETURN_IF_ERROR(Count(*until_failure_));
    MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<CheckpointFile> opened, files_.Open(file));
    return std::make_unique<Opened>(std::move(opened), until_failure_);
  }
  absl::Status Create(const std::string& file, const Write& write) override {
    MUSTER_RETURN_IF_ERROR(Count(*until_failure_));
    return files_.Create(file, [&](Appender& out) {
      Counting counting(out, *until_failure_);
      MUSTER_RETURN_IF_ERROR(write(counting));
      return Count(*until_failure_);  // what is left to be done once all is appended
    });
  }
  absl::Status Replace(const std::string& file, absl::string_view content) override {
    MUSTER_RETURN_IF_ERROR(Count(*until_failure_));
    return files_.Replace(file, content);
  }
  absl::Status List(const std::string& folder, const Visit& visit) const override {
    MUSTER_RETURN_IF_ERROR(Count(*until_failure_));
    return files_.List(folder, visit);
  }
  absl::Status Remove(const std::string& file) override {
    MUSTER_RETURN_IF_ERROR(Count(*until_failure_));
    return files_.Remove(file);
  }
  absl::Status MakeFolder() override {
    MUSTER_RETURN_IF_ERROR(Count(*until_failure_));
    return files_.MakeFolder();
  }
  void RemoveFolder(const std::string& folder) override { files_.RemoveFolder(folder); }

 private:
  static absl::Status Count(int64_t& until_failure) {
    if (until_failure < 0 || until_failure-- > 0) return absl::OkStatus();
    return absl::UnavailableError("the place cannot be reached");
  }
  class Opened final : public CheckpointFile {
   public:
    Opened(std::unique_ptr<CheckpointFile> file, std::shared_ptr<int64_t> until_failure)
        : file_(std::move(file)), until_failure_(std::move(until_failure)) {}
    uint64_t size() const override { return file_->size(); }
    absl::Status ReadAt(uint64_t offset, void* to, size_t bytes) const override {
      MUSTER_RETURN_IF_ERROR(Count(*until_failure_));
      return file_->ReadAt(offset, to, bytes);
    }

   private:
    const std::unique_ptr<CheckpointFile> file_;
    const std::shared_ptr<int64_t> until_failure_;
  };
  class Counting final : public Appender {
   public:
    Counting(Appender& out, int64_t& until_failure) : out_(out), until_failure_(until_failure) {}
    absl::Status Append(absl::Span<const std::byte> bytes) override {
      MUSTER_RETURN_IF_ERROR(Count(until_failure_));
      return out_.Append(bytes);
    }

   private:
    Appender& out_;
    int64_t& until_failure_;
  };

  CheckpointFiles& files_;
  const std::shared_ptr<int64_t> until_failure_ = std::make_shared<int64_t>(-1);
};

// Passes all on to `files`, which outlive it, and calls `meanwhile` once, before the n-th call (0:
// the first; PathOf and what open files are asked do not count). One thread.
class OvertakenFiles final : public CheckpointFiles {
 public:
  OvertakenFiles(CheckpointFiles& files, int64_t n, std::function<void()> meanwhile)
      : files_(files), until_(n), meanwhile_(std::move(meanwhile)) {}

  bool overtaken() const { return until_ < 0; }

  std::string PathOf(const std::string& file) const override { return files_.PathOf(file); }
  absl::StatusOr<std::unique_ptr<CheckpointFile>> Open(const std::string& file) const override {
    Count();
    return files_.Open(file);
  }
  absl::Status Create(const std::string& file, const Write& write) override {
    Count();
    return files_.Create(file, write);
  }
  absl::Status Replace(const std::string& file, absl::string_view content) override {
    Count();
    return files_.Replace(file, content);
  }
  absl::Status List(const std::string& folder, const Visit& visit) const override {
    Count();
    return files_.List(folder, visit);
  }
  absl::Status Remove(const std::string& file) override {
    Count();
    return files_.Remove(file);
  }
  absl::Status MakeFolder() override {
    Count();
    return files_.MakeFolder();
  }
  void RemoveFolder(const std::string& folder) override {
    Count();
    files_.RemoveFolder(folder);
  }

 private:
  void Count() const {
    if (until_ >= 0 && until_-- == 0) meanwhile_();
  }

  CheckpointFiles& files_;
  mutable int64_t until_;
  const std::function<void()> meanwhile_;
};

}  // namespace muster
