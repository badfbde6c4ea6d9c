#include "agent/runtime/log_follower.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <utility>

#include "lib/base/descriptor.h"
#include "lib/base/whole_file.h"

namespace muster::agent {
namespace {

// From there to the end of the last line that is whole, or of what there is where a line is longer
// than that.
std::string ReadLines(int fd, off_t from, size_t most) {
  std::string text(most, '\0');
  ssize_t n = 0;
  do {
    n = pread(fd, text.data(), text.size(), from);
  } while (n < 0 && errno == EINTR);
  text.resize(n > 0 ? static_cast<size_t>(n) : 0);
  const size_t end = text.rfind('\n');
  if (end != std::string::npos && text.size() == most) text.resize(end + 1);
  return text;
}

// Behind the end of the line that stands there.
off_t NextLine(int fd, off_t from) {
  constexpr size_t kLookAhead = 4096;
  std::string text(kLookAhead, '\0');
  const ssize_t n = pread(fd, text.data(), text.size(), from);
  text.resize(n > 0 ? static_cast<size_t>(n) : 0);
  const size_t end = text.find('\n');
  return end == std::string::npos ? from : from + static_cast<off_t>(end) + 1;
}

// 0: it is not there, or is no file.
off_t SizeOf(const absl::StatusOr<Descriptor>& file) {
  struct stat found {};
  return file.ok() && fstat(file->get(), &found) == 0 ? found.st_size : 0;
}

LogAmount AmountOf(const std::string& text) {
  return {static_cast<int64_t>(text.size()), std::count(text.begin(), text.end(), '\n')};
}

// Of what stands between those places, as far as it can be read.
LogAmount AmountBetween(const absl::StatusOr<Descriptor>& file, off_t from, off_t to) {
  constexpr off_t kPiece = off_t{64} << 10;
  LogAmount amount{.bytes = std::max<off_t>(0, to - from)};
  while (file.ok() && from < to) {
    std::string text(static_cast<size_t>(std::min(kPiece, to - from)), '\0');
    const ssize_t n = pread(file->get(), text.data(), text.size(), from);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    text.resize(static_cast<size_t>(n));
    amount.lines += AmountOf(text).lines;
    from += n;
  }
  return amount;
}

}  // namespace

void LogFollower::Starts(const Spawn& spawn, const std::string& path) {
  const auto [it, is_new] = logs_.try_emplace(spawn.key);
  Followed& log = it->second;
  const bool goes_on = !is_new && log.path == path;
  const absl::StatusOr<Descriptor> file = OpenRegularFile(path, O_RDONLY);
  const off_t before = SizeOf(file);
  const LogAmount unsent = goes_on ? AmountBetween(file, log.sent, before) : LogAmount{};
  const off_t size = BeginLog(path, limits_.on_disk);
  if (!goes_on) {
    log = {.path = path, .sent = std::max<off_t>(size, 0), .told = log.told};
  } else if (size < before || size < log.sent) {  // it begins anew
    log.left_out += unsent;
    log.sent = 0;
  }
  log.start = spawn.start;
  log.placement = spawn.placement;
  log.has_ended = false;
}

void LogFollower::Ended(const ProcessKey& key) {
  if (const auto it = logs_.find(key); it != logs_.end()) it->second.has_ended = true;
}

void LogFollower::Look(Time now) {
  for (auto it = logs_.begin(); it != logs_.end();)
    it = Keep(it->second) ? std::next(it) : logs_.erase(it);
  // Each gets a part in its turn, beginning behind the one that had the last, until nobody has
  // more or no more may be sent.
  bool is_more = !logs_.empty();
  while (is_more) {
    is_more = false;
    auto it = logs_.upper_bound(last_);
    for (size_t i = 0; i < logs_.size(); ++i, ++it) {
      if (it == logs_.end()) it = logs_.begin();
      is_more = SendSome(it->first, it->second, now) || is_more;
    }
  }
}

// What is cut away and was not sent is left out. False: all was sent, and no more comes.
bool LogFollower::Keep(Followed& log) const {
  const absl::StatusOr<Descriptor> file = OpenRegularFile(log.path, O_RDONLY);
  // For want of descriptors, say: it is there, and what was sent of it is not sent again.
  if (!file.ok() && !absl::IsNotFound(file.status())) return !log.has_ended;
  const off_t size = SizeOf(file);
  if (size < log.sent) log.sent = 0;  // somebody has made it empty, or removed it
  const LogAmount unsent =
      size > limits_.on_disk ? AmountBetween(file, log.sent, size) : LogAmount{};
  if (CutLog(log.path, limits_.on_disk)) {
    log.left_out += unsent;
    log.sent = 0;
  } else if (size - log.sent > limits_.behind) {
    const off_t from = NextLine(file->get(), size - limits_.behind / 2);
    log.left_out += AmountBetween(file, log.sent, from);
    log.sent = from;
  }
  return !log.has_ended || log.sent < size;
}

// False: there is nothing to send, or it may not be sent now.
bool LogFollower::SendSome(const ProcessKey& key, Followed& log, Time now) {
  if (key == kCoordinatorKey || !may_send_()) return false;
  const int64_t most = std::min<int64_t>(rate_.Left(now), kMostLogText);
  // Few bytes at a time would be many frames.
  if (most < std::min<int64_t>(kMostLogText, limits_.burst)) return false;
  const absl::StatusOr<Descriptor> file = OpenRegularFile(log.path, O_RDONLY);
  std::string text =
      file.ok() ? ReadLines(file->get(), log.sent, static_cast<size_t>(most)) : std::string();
  if (text.empty()) return false;
  const LogAmount amount = AmountOf(text);
  rate_.Sent(amount.bytes);
  log.sent += amount.bytes;
  last_ = key;
  const LogAmount left_out = std::exchange(log.left_out, {}), before = log.told;
  log.told += left_out;
  log.told += amount;
  send_({.job = key.job,
         .start = log.start,
         .placement = log.placement,
         .name = key.name,
         .text = std::move(text),
         .left_out = left_out,
         .before = before});
  return true;
}

}  // namespace muster::agent
