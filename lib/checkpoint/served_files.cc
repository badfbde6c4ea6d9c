#include "lib/checkpoint/served_files.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "lib/base/socket_bytes.h"
#include "lib/base/status.h"
#include "lib/domain/manifest.h"

namespace muster {
namespace {

constexpr uint32_t kMostNameBytes = 1024;
constexpr size_t kMostMessageBytes = 4096;

struct Request {
  uint64_t offset = 0;
  uint32_t bytes = 0;       // from there on; 0: how large the file is, and nothing else
  uint32_t name_bytes = 0;  // of its name, which follows
};
static_assert(sizeof(Request) == 16, "every byte that is sent is one of a field");

struct Answer {
  uint64_t size = 0;   // of the file
  uint32_t bytes = 0;  // those that were asked for, or a message for people, which follow
  int32_t code = 0;    // absl::StatusCode
};
static_assert(sizeof(Answer) == 16, "every byte that is sent is one of a field");

template <class T>
absl::string_view BytesOfFields(const T& fields) {
  return {reinterpret_cast<const char*>(&fields), sizeof fields};
}

// Keeps the file open that was asked for last: whoever reads goes through one after the other.
class Server {
 public:
  explicit Server(const CheckpointFiles& files) : files_(files) {}

  // The bytes that were asked for, which are in memory until the next call.
  absl::Status Read(const std::string& name, const Request& request) {
    bytes_.clear();
    if (!open_ || name != name_) {
      open_.reset();
      if (!IsSafeRelativeName(name))
        return absl::InvalidArgumentError("no safe name of a file was asked for");
      MUSTER_ASSIGN_OR_RETURN(open_, files_.Open(name));
      name_ = name;
    }
    bytes_.resize(request.bytes);
    return open_->ReadAt(request.offset, bytes_.data(), bytes_.size());
  }
  uint64_t size() const { return open_ ? open_->size() : 0; }
  const std::string& bytes() const { return bytes_; }

 private:
  const CheckpointFiles& files_;
  std::string name_;
  std::unique_ptr<CheckpointFile> open_;  // of that name
  std::string bytes_;
};

// The end of who reads.
class Reader {
 public:
  Reader(Descriptor socket, std::string name)
      : socket_(std::move(socket)), name_(std::move(name)) {}

  std::string PathOf(const std::string& file) const {
    return file.empty() ? name_ : absl::StrCat(name_, ", ", file);
  }

  // Fills all of `to`; how large the file is.
  absl::StatusOr<uint64_t> Ask(const std::string& file, uint64_t offset, void* to, size_t bytes) {
    if (file.size() > kMostNameBytes)
      return absl::InvalidArgumentError(absl::StrCat(PathOf(file), ": its name is too long"));
    const Request request{.offset = offset,
                          .bytes = static_cast<uint32_t>(bytes),
                          .name_bytes = static_cast<uint32_t>(file.size())};
    Answer answer;
    if (!SendAll(socket_.get(), BytesOfFields(request)) || !SendAll(socket_.get(), file) ||
        !ReceiveAll(socket_.get(), &answer, sizeof answer))
      return Gone(file);
    if (answer.code == 0 && answer.bytes == bytes)
      return ReceiveAll(socket_.get(), to, bytes) ? absl::StatusOr<uint64_t>(answer.size)
                                                  : Gone(file);
    if (answer.code == 0 || answer.bytes > kMostMessageBytes)
      return absl::InternalError(absl::StrCat(PathOf(file), ": the answer is none"));
    std::string message(answer.bytes, '\0');
    if (!ReceiveAll(socket_.get(), message.data(), message.size())) return Gone(file);
    return absl::Status(static_cast<absl::StatusCode>(answer.code), message);
  }

 private:
  absl::Status Gone(const std::string& file) const {
    return absl::UnavailableError(
        absl::StrCat(PathOf(file), ": the process that gives it out has gone"));
  }

  const Descriptor socket_;
  const std::string name_;
};

class File final : public CheckpointFile {
 public:
  File(std::shared_ptr<Reader> reader, std::string file, uint64_t size)
      : reader_(std::move(reader)), file_(std::move(file)), size_(size) {}

  uint64_t size() const override { return size_; }

  absl::Status ReadAt(uint64_t offset, void* to, size_t bytes) const override {
    if (offset > size_ || bytes > size_ - offset)
      return absl::DataLossError(absl::StrCat(reader_->PathOf(file_), " ends at byte ", size_));
    char* at = static_cast<char*>(to);
    while (bytes > 0) {
      const size_t count = std::min(bytes, kMostServedBytes);
      MUSTER_ASSIGN_OR_RETURN(const uint64_t size, reader_->Ask(file_, offset, at, count));
      if (size != size_)
        return absl::DataLossError(
            absl::StrCat(reader_->PathOf(file_), " changed while it was read"));
      at += count;
      offset += count;
      bytes -= count;
    }
    return absl::OkStatus();
  }

 private:
  const std::shared_ptr<Reader> reader_;
  const std::string file_;
  const uint64_t size_;
};

class Files final : public CheckpointFiles {
 public:
  explicit Files(std::shared_ptr<Reader> reader) : reader_(std::move(reader)) {}

  std::string PathOf(const std::string& file) const override { return reader_->PathOf(file); }
  absl::StatusOr<std::unique_ptr<CheckpointFile>> Open(const std::string& file) const override {
    MUSTER_ASSIGN_OR_RETURN(const uint64_t size, reader_->Ask(file, 0, nullptr, 0));
    return std::make_unique<File>(reader_, file, size);
  }
  absl::Status List(const std::string&, const Visit&) const override { return OnlyReads(); }
  absl::Status Create(const std::string&, const Write&) override { return OnlyReads(); }
  absl::Status Replace(const std::string&, absl::string_view) override { return OnlyReads(); }
  absl::Status Remove(const std::string&) override { return OnlyReads(); }
  absl::Status MakeFolder() override { return OnlyReads(); }
  void RemoveFolder(const std::string&) override {}

 private:
  absl::Status OnlyReads() const {
    return absl::FailedPreconditionError(
        absl::StrCat(reader_->PathOf(""), ": its checkpoints are only read from here"));
  }
  const std::shared_ptr<Reader> reader_;
};

}  // namespace

absl::StatusOr<std::pair<Descriptor, Descriptor>> NewFileSocket() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return absl::InternalError(absl::ErrnoToStatus(errno, "socketpair").message());
  return std::pair(Descriptor(ends[0]), Descriptor(ends[1]));
}

void ServeFiles(const CheckpointFiles& files, const Descriptor& socket) {
  Server server(files);
  Request request;
  while (ReceiveAll(socket.get(), &request, sizeof request)) {
    if (request.name_bytes > kMostNameBytes || request.bytes > kMostServedBytes) return;
    std::string name(request.name_bytes, '\0');
    if (!ReceiveAll(socket.get(), name.data(), name.size())) return;
    const absl::Status read = server.Read(name, request);
    const absl::string_view content =
        read.ok() ? server.bytes() : read.message().substr(0, kMostMessageBytes);
    const Answer answer{.size = server.size(),
                        .bytes = static_cast<uint32_t>(content.size()),
                        .code = read.raw_code()};
    if (!SendAll(socket.get(), BytesOfFields(answer)) || !SendAll(socket.get(), content)) return;
  }
}

std::unique_ptr<CheckpointFiles> ServedFiles(Descriptor socket, const std::string& name) {
  return std::make_unique<Files>(std::make_shared<Reader>(std::move(socket), name));
}

}  // namespace muster
