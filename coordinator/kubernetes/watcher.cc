#include "coordinator/kubernetes/watcher.h"

#include <chrono>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/kubernetes/objects.h"
#include "lib/base/clock.h"
#include "lib/base/status.h"

namespace muster::coordinator {
namespace {

constexpr int kPiece = 500;  // objects of one answer
// Of one list. A pod is of some ten KiB.
constexpr int kMostPieces = 2'000;
constexpr size_t kMostListed = size_t{256} << 20;  // bytes
constexpr int kWatchedSeconds =
    240;  // until the server ends a watch, so that one that hangs is seen
constexpr Duration kSilence = std::chrono::seconds(kWatchedSeconds + 30);
constexpr Duration kFirstPause = std::chrono::milliseconds(250);
constexpr Duration kLongestPause = std::chrono::seconds(30);
constexpr int kGone = 410;

}  // namespace

absl::Status StatusOfAnswer(const KubeAnswer& answer) {
  if (answer.status >= 200 && answer.status < 300) return absl::OkStatus();
  const std::string text =
      absl::StrCat("the Kubernetes API answers ", answer.status, ": ", MessageIn(answer.body));
  switch (answer.status) {
    case 400:
    case 422: return absl::InvalidArgumentError(text);
    case 401: return absl::UnauthenticatedError(text);
    case 403: return absl::PermissionDeniedError(text);
    case 404: return absl::NotFoundError(text);
    case 409:
    case kGone: return absl::AbortedError(text);
    default: return absl::UnavailableError(text);
  }
}

Watcher::Watcher(const KubeServer& server, std::string collection, std::string selector,
                 WatcherEvents events, std::function<bool(Duration)> wait)
    : collection_(std::move(collection)),
      selector_(std::move(selector)),
      events_(std::move(events)),
      wait_(wait ? std::move(wait) : [this](Duration pause) { return stop_.WaitFor(pause); }),
      backoff_(std::random_device()(), kFirstPause, kLongestPause),
      api_(server, stopping_),
      thread_([this] { Run(); }) {}

Watcher::~Watcher() {
  stopping_ = true;
  stop_.Stop();
  thread_.join();
}

void Watcher::Run() {
  while (!stopping_) {
    const absl::Status why = Follow();
    if (stopping_) return;
    if (!absl::IsAborted(why)) events_.on_trouble(why);
    if (wait_(PauseFor(backoff_, std::exchange(retry_after_, std::nullopt)))) return;
  }
}

// Until it has lost the thread, or nobody answers.
absl::Status Watcher::Follow() {
  MUSTER_ASSIGN_OR_RETURN(std::string version, List());
  events_.on_trouble(absl::OkStatus());
  while (!stopping_) {
    const Time began = RealClock().Now();
    MUSTER_ASSIGN_OR_RETURN(const std::string newest, Watch(version));
    const bool told_something = std::exchange(version, newest) != newest;
    if (RealClock().Now() - began > kLongestPause) backoff_.Reset();
    // What stands before the API may end each watch at once.
    if (!told_something && wait_(backoff_.Next())) stopping_ = true;
  }
  return absl::OkStatus();
}

// The version of what it has told.
absl::StatusOr<std::string> Watcher::List() {
  std::vector<std::string> objects;
  size_t bytes = 0;
  std::string next;
  for (int pieces = 0; pieces < kMostPieces && bytes < kMostListed && !stopping_; ++pieces) {
    MUSTER_ASSIGN_OR_RETURN(
        const KubeAnswer answer,
        api_.Ask("GET", absl::StrCat(collection_, "?", selector_, "&limit=", kPiece,
                                     next.empty() ? "" : "&continue=", next)));
    MUSTER_RETURN_IF_ERROR(Refusal(answer));
    MUSTER_ASSIGN_OR_RETURN(ListPiece piece, ListIn(answer.body));
    for (std::string& object : piece.objects) {
      bytes += object.size();
      objects.push_back(std::move(object));
    }
    next = std::move(piece.next_piece);
    if (!next.empty()) continue;
    events_.on_list(std::move(objects));
    return piece.version;
  }
  return absl::ResourceExhaustedError(absl::StrCat("the Kubernetes API lists more at ", collection_,
                                                   " than can be: ", objects.size(), " objects of ",
                                                   bytes >> 20, " MiB, and no end of them"));
}

// The version after which the next watch goes on. kAborted: what came after `version` is forgotten
// there, so that all is to be listed again.
absl::StatusOr<std::string> Watcher::Watch(const std::string& version) {
  std::string newest = version;
  absl::Status why;
  const absl::StatusOr<KubeAnswer> answer =
      api_.Stream(absl::StrCat(collection_, "?", selector_,
                               "&watch=true&allowWatchBookmarks=true&resourceVersion=", version,
                               "&timeoutSeconds=", kWatchedSeconds),
                  kSilence, [&](absl::string_view text) {
                    absl::StatusOr<WatchLine> line = LineIn(text);
                    why = line.status();
                    if (!line.ok()) return false;
                    if (line->kind == WatchLine::Kind::kError) {
                      why = StatusOfAnswer({.status = line->code, .body = line->message});
                      return false;
                    }
                    backoff_.Reset();  // it goes well
                    if (!line->version.empty()) newest = line->version;
                    if (line->kind == WatchLine::Kind::kPut) events_.on_put(line->object);
                    if (line->kind == WatchLine::Kind::kGone) events_.on_gone(line->object);
                    return !stopping_;
                  });
  MUSTER_RETURN_IF_ERROR(why);
  MUSTER_RETURN_IF_ERROR(answer.status());
  MUSTER_RETURN_IF_ERROR(Refusal(*answer));
  return newest;
}

absl::Status Watcher::Refusal(const KubeAnswer& answer) {
  retry_after_ = answer.retry_after;
  return StatusOfAnswer(answer);
}

}  // namespace muster::coordinator
