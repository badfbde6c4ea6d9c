// What a train thread tells, for tests that stand in for the exchange thread.
#pragma once

#include <chrono>
#include <optional>
#include <stdexcept>
#include <utility>
#include <variant>

#include "lib/member/runtime/events.h"

namespace muster {

// The next one of this kind; others before it are dropped.
template <class E>
E TakeEvent(EventBox& events) {
  while (true) {
    std::optional<Event> event =
        events.TakeUntil(std::chrono::steady_clock::now() + std::chrono::seconds(60));
    if (!event) throw std::runtime_error("the train thread does not answer");
    if (E* wanted = std::get_if<E>(&*event)) return std::move(*wanted);
  }
}

}  // namespace muster
