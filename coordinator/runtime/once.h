// Makes sure that a reply is given exactly once: if it is dropped without an answer, the caller is
// told that the coordinator is shutting down.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"

namespace muster::coordinator {

inline absl::Status ShuttingDown() {
  return absl::UnavailableError("the coordinator is shutting down; try again");
}

template <class T>
std::function<void(absl::StatusOr<T>)> Once(std::function<void(absl::StatusOr<T>)> reply) {
  class Guard {
   public:
    explicit Guard(std::function<void(absl::StatusOr<T>)> give) : give_(std::move(give)) {}
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;
    ~Guard() {
      if (give_) Give(ShuttingDown());
    }
    void Give(absl::StatusOr<T> answer) { std::exchange(give_, nullptr)(std::move(answer)); }

   private:
    std::function<void(absl::StatusOr<T>)> give_;
  };
  return [guard = std::make_shared<Guard>(std::move(reply))](absl::StatusOr<T> answer) {
    guard->Give(std::move(answer));
  };
}

}  // namespace muster::coordinator
