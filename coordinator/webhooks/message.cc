#include "coordinator/webhooks/message.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "lib/kernels/sha256.h"
#include "nlohmann/json.hpp"

namespace muster::coordinator {

// The time tells it from that of a coordinator which was on another copy of the store in that term.
std::string WebhookId(const std::string& cluster, const PlacedEvent& placed) {
  return absl::StrCat(cluster, "-", placed.place.term, "-", placed.place.seq, "-",
                      placed.event.unix_ms);
}

std::string WebhookBody(const std::string& cluster, const PlacedEvent& placed) {
  const OutboxEvent& event = placed.event;
  using Json = nlohmann::ordered_json;
  const auto text_or_null = [](const std::string& text) {
    return text.empty() ? Json(nullptr) : Json(text);
  };
  Json data = {{"cluster", cluster},
               {"job", event.job},
               {"namespace", event.name_space},
               {"owner", text_or_null(event.owner)},
               {"state", event.state},
               {"reason", event.reason},
               {"start", event.start},
               {"step", event.step},
               {"exit_code", event.exit_code ? Json(*event.exit_code) : Json(nullptr)},
               {"digest", text_or_null(event.digest)}};
  const std::string time = absl::FormatTime(
      "%Y-%m-%d%ET%H:%M:%E3SZ", absl::FromUnixMillis(event.unix_ms), absl::UTCTimeZone());
  const Json body = {{"type", event.type}, {"timestamp", time}, {"data", std::move(data)}};
  // What is no UTF-8 in the journal is not to end the program.
  return body.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

std::string WebhookSignature(const std::vector<std::string>& keys, absl::string_view id,
                             int64_t unix_seconds, absl::string_view body) {
  const std::string signed_text = absl::StrCat(id, ".", unix_seconds, ".", body);
  return absl::StrJoin(keys, " ", [&](std::string* out, const std::string& key) {
    absl::StrAppend(out, "v1,", absl::Base64Escape(HmacSha256(key, signed_text)));
  });
}

}  // namespace muster::coordinator
