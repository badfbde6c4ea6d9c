// An event as a receiver gets it: the body, and the headers that prove where it comes from.
// Source:
// https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "coordinator/runtime/outbox.h"

namespace muster::coordinator {

// "CLUSTER-TERM-NUMBER": the same each time that the event is sent, and no other event's.
std::string WebhookId(const std::string& cluster, const PlacedEvent& placed);

// JSON, the same bytes each time.
std::string WebhookBody(const std::string& cluster, const PlacedEvent& placed);

// "v1,BASE64", one for each key, with blanks between them.
std::string WebhookSignature(const std::vector<std::string>& keys, absl::string_view id,
                             int64_t unix_seconds, absl::string_view body);

}  // namespace muster::coordinator
