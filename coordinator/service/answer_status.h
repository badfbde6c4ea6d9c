// With which status of HTTP an answer that is no error is sent.
#pragma once

#include <concepts>
#include <vector>

#include "coordinator/service/control_api.h"

namespace muster::coordinator {

template <class T>
int HttpStatusOf(const T&) {
  return 200;
}
template <class T>
requires std::same_as<T, MadeToken> || std::same_as<T, SignedCertificate>
int HttpStatusOf(const T&) { return 201; }
inline int HttpStatusOf(const SubmittedJob& submitted) { return submitted.created ? 201 : 200; }
inline int HttpStatusOf(const AdoptionInfo& adoption) {
  return adoption.state == kAdoptionWaits || adoption.state == kAdoptionCopies ? 202 : 200;
}

// All that it may be.
template <class T>
std::vector<int> StatusesOf() {
  if constexpr (std::same_as<T, SubmittedJob>)
    return {200, 201};
  else if constexpr (std::same_as<T, AdoptionInfo>)
    return {200, 202};
  else
    return {HttpStatusOf(T())};
}

}  // namespace muster::coordinator
