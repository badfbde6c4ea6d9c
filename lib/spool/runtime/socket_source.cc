#include "lib/spool/runtime/socket_source.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/descriptor.h"
#include "lib/base/file_lock.h"
#include "lib/base/status.h"
#include "lib/base/whole_file.h"
#include "lib/spool/state/sender_bytes.h"

namespace muster {
namespace {

constexpr int kWaiting = 4;  // senders that are not heard yet
constexpr size_t kReadAtOnce = size_t{256} << 10;
constexpr char kLockSuffix[] = ".lock";

bool IsOurs(int connection) {
  ucred peer{};
  socklen_t bytes = sizeof(peer);
  return getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 &&
         peer.uid == geteuid();
}

absl::Status InUse(const std::string& path) {
  return absl::UnavailableError(absl::StrCat(path, ": another process listens on it"));
}

// Whether somebody listens there. Of our own programs nobody does: we hold the lock.
bool IsInUse(const sockaddr_un& address) {
  const Descriptor probe(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const auto* at = reinterpret_cast<const sockaddr*>(&address);
  return connect(probe.get(), at, sizeof(address)) == 0 ||
         (errno != ECONNREFUSED && errno != ENOENT);
}

// A socket at `path` that listens.
absl::StatusOr<Descriptor> Listen(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path))
    return absl::InvalidArgumentError(absl::StrCat(path, ": the path of a socket has at most ",
                                                   sizeof(address.sun_path) - 1,
                                                   " bytes; choose a shorter one"));
  std::memcpy(address.sun_path, path.data(), path.size());
  struct stat there {};
  if (lstat(path.c_str(), &there) == 0) {
    if (!S_ISSOCK(there.st_mode))
      return absl::FailedPreconditionError(
          absl::StrCat(path, ": it is no socket; remove it, or choose another path"));
    if (IsInUse(address)) return InUse(path);
    if (unlink(path.c_str()) != 0 && errno != ENOENT) return FileError(errno, "delete", path);
  }
  Descriptor listening(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listening.is_open()) return FileError(errno, "make socket", path);
  if (bind(listening.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0)
    return FileError(errno, "make socket", path);
  // Nobody connects before it listens.
  if (chmod(path.c_str(), 0600) != 0 || listen(listening.get(), kWaiting) != 0)
    return FileError(errno, "listen on", path);
  return listening;
}

class SocketSource final : public StreamSource {
 public:
  SocketSource(std::string path, uint64_t sample_bytes, SocketSourceOptions options)
      : path_(std::move(path)),
        sample_bytes_(sample_bytes),
        options_(std::move(options)),
        wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  ~SocketSource() override {
    if (!listening_.is_open()) return;
    unlink(path_.c_str());
    unlink(LockPath().c_str());
  }

  absl::Status Start(uint64_t position, const StreamPlace&) override {
    sender_.reset();
    position_ = position;
    if (listening_.is_open()) return absl::OkStatus();
    if (!wake_.is_open()) return FileError(ENFILE, "wait on", path_);
    absl::StatusOr<Descriptor> lock = LockFile(LockPath());
    const bool is_held = absl::IsAborted(lock.status());
    if (is_held || (lock.ok() && !IsLockAt(*lock, LockPath()))) return InUse(path_);
    MUSTER_RETURN_IF_ERROR(lock.status());
    lock_ = *std::move(lock);
    MUSTER_ASSIGN_OR_RETURN(listening_, Listen(path_));
    return absl::OkStatus();
  }

  absl::StatusOr<SamplesCame> Take(uint64_t most, Duration wait, std::string& samples) override {
    const Time until = options_.clock->Now() + wait;
    for (;;) {
      if (!sender_) Accept();
      Send();
      if (sender_) {
        const SamplesCame came = Receive(most, samples);
        if (came.count > 0 || came.end) return came;
      }
      const Time now = options_.clock->Now();
      if (now >= until || !Wait(until - now)) return SamplesCame{};
    }
  }

  void Answer(uint64_t positions) override {
    if (!sender_) return;
    sender_->out.Say(positions);
    Send();
  }

  void Wake() override {
    const uint64_t one = 1;
    // It fails where nobody has taken what was there before, which wakes as well.
    if (write(wake_.get(), &one, sizeof(one)) < 0) return;
  }

 private:
  struct Sender {
    Descriptor connection;
    SenderBytes in;
    AnswersOut out;
    Duration silent{0};  // as long as we have waited for it
  };

  std::string LockPath() const { return path_ + kLockSuffix; }

  void Close(const std::string& why) {
    sender_.reset();
    options_.told(absl::StrCat("the sender on ", path_, " is cut off: ", why));
  }

  void Accept() {
    for (;;) {
      Descriptor connection(
          accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!connection.is_open()) return;
      if (!IsOurs(connection.get())) {
        options_.told(absl::StrCat("a process of another user has called on ", path_));
        continue;
      }
      sender_.emplace(Sender{std::move(connection), SenderBytes(sample_bytes_),
                             AnswersOut(StreamGreeting(position_, sample_bytes_))});
      return;
    }
  }

  void Send() {
    while (sender_) {
      const absl::Span<const char> next = sender_->out.Next();
      if (next.empty()) return;
      const ssize_t n = send(sender_->connection.get(), next.data(), next.size(), MSG_NOSIGNAL);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
      if (n < 0) return Close(std::generic_category().message(errno));
      sender_->out.Sent(static_cast<size_t>(n));
    }
  }

  // What is there, of this sender.
  SamplesCame Receive(uint64_t most, std::string& samples) {
    SamplesCame came;
    while (sender_ && came.count < most && !came.end) {
      read_.resize(static_cast<size_t>(
          std::min<uint64_t>(kReadAtOnce, sender_->in.Wanted(most - came.count))));
      const ssize_t n = recv(sender_->connection.get(), read_.data(), read_.size(), 0);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
      if (n <= 0) {
        Close(n == 0 ? "it has closed the connection" : std::generic_category().message(errno));
        break;
      }
      sender_->silent = Duration::zero();
      uint64_t count = 0;
      const auto bytes = absl::MakeConstSpan(read_).first(static_cast<size_t>(n));
      const absl::Status taken = sender_->in.Take(bytes, samples, count);
      came.count += count;
      position_ += count;
      came.end = taken.ok() && sender_->in.ended();
      if (!taken.ok()) Close(std::string(taken.message()));
    }
    return came;
  }

  // Until somebody says something. False: we are woken.
  bool Wait(Duration time) {
    std::array<pollfd, 2> waits{};
    waits[0] = {wake_.get(), POLLIN, 0};
    waits[1] = {listening_.get(), POLLIN, 0};
    if (sender_) {
      const bool has_more = !sender_->out.Next().empty();
      waits[1] = {sender_->connection.get(), static_cast<short>(POLLIN | (has_more ? POLLOUT : 0)),
                  0};
    }
    const auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(time).count();
    const Time before = options_.clock->Now();
    poll(waits.data(), waits.size(), static_cast<int>(std::min<int64_t>(milliseconds, 60'000)));
    if (sender_ && sender_->in.has_part()) {
      sender_->silent += options_.clock->Now() - before;
      const bool is_silent = waits[1].revents == 0 && sender_->silent >= options_.patience;
      if (is_silent)
        Close(absl::StrCat("it has said nothing for ", Seconds(options_.patience),
                           " s within a sample"));
    }
    if (waits[0].revents == 0) return true;
    uint64_t woken = 0;
    return read(wake_.get(), &woken, sizeof(woken)) < 0;
  }

  const std::string path_;
  const uint64_t sample_bytes_;
  const SocketSourceOptions options_;
  const Descriptor wake_;
  Descriptor lock_;
  Descriptor listening_;
  std::optional<Sender> sender_;
  uint64_t position_ = 0;  // of the next sample
  std::vector<std::byte> read_;
};

}  // namespace

std::unique_ptr<StreamSource> MakeSocketSource(std::string path, uint64_t sample_bytes,
                                               SocketSourceOptions options) {
  return std::make_unique<SocketSource>(std::move(path), sample_bytes, std::move(options));
}

}  // namespace muster
