// What a process says to the coordinator before it is a member: it asks for its job, and while it
// prepares it asks again, to say how far that is. Lives until the process joins or ends.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "lib/base/time.h"
#include "lib/domain/message.h"

namespace muster {

// What is said is for people, and each answer holds the whole job.
inline constexpr Duration kBetweenAsks = std::chrono::seconds(5);

class JobAsker {
 public:
  JobAsker(std::string job, std::string name) : job_(std::move(job)), name_(std::move(name)) {}

  // The first word of a new session.
  AskJob Ask(Time now) {
    asked_at_ = now;
    is_answered_ = false;
    said_ = how_far_;
    return {job_, name_, Speaks{}, said_};
  }
  // The coordinator has told the job. Whoever asks again before that breaks the session.
  void Answered() { is_answered_ = true; }
  // Nothing: it does not prepare, or not any more.
  void IsAt(std::optional<HowFar> how_far) { how_far_ = std::move(how_far); }
  // What is to be said now, in the same session; nothing: there is no news, or it can wait.
  std::optional<AskJob> AskAgain(Time now) {
    if (!is_answered_ || how_far_ == said_ || now - asked_at_ < kBetweenAsks) return std::nullopt;
    return Ask(now);
  }

 private:
  const std::string job_, name_;
  std::optional<HowFar> how_far_, said_;
  Time asked_at_{};
  bool is_answered_ = false;
};

}  // namespace muster
