#include "lib/base/removed_on_signal.h"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <climits>

namespace muster {
namespace {

// What the handler finds. It is no object's, which might be gone while it runs.
std::atomic<bool> is_taken{false};
std::atomic<int> open_file{-1};  // -1: there is nothing to remove
std::array<char, PATH_MAX> name{};

// Calls only what a handler may call.
void RemoveAndEnd(int sent) {
  const int file = open_file;
  struct stat ours {
  }, there{};
  if (file >= 0 && fstat(file, &ours) == 0 && lstat(name.data(), &there) == 0 &&
      ours.st_dev == there.st_dev && ours.st_ino == there.st_ino)
    unlink(name.data());
  raise(sent);  // SA_RESETHAND: it ends the process once this returns
}

}  // namespace

RemovedOnSignal::RemovedOnSignal(const Descriptor& file, const std::string& path) {
  if (path.size() >= name.size() || is_taken.exchange(true)) return;
  counts_ = true;
  path.copy(name.data(), path.size());
  name[path.size()] = '\0';
  open_file = file.get();
  for (const int ends : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before {
    }, ours{};
    if (sigaction(ends, nullptr, &before) != 0 || before.sa_handler != SIG_DFL) continue;
    ours.sa_handler = RemoveAndEnd;
    ours.sa_flags = static_cast<int>(SA_RESETHAND);
    if (sigaction(ends, &ours, nullptr) == 0) before_.emplace_back(ends, before);
  }
}

RemovedOnSignal::~RemovedOnSignal() {
  if (!counts_) return;
  for (const auto& [ends, before] : before_) sigaction(ends, &before, nullptr);
  open_file = -1;
  is_taken = false;
}

}  // namespace muster
