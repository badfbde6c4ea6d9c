// Which webhooks there are, as the operator says in the file of --webhooks (docs/webhooks.md):
//
//   webhooks:
//     - name: chat
//       url: https://hooks.example.com/muster
//       secret_file: chat.secret
//       events: [job.done, job.failed]     # left out: all
//       namespaces: [default]              # left out: all
//       ca_file: own-ca.pem                # left out: those that the machine trusts
//
// Plain values.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "coordinator/runtime/outbox.h"

namespace muster::coordinator {

struct WebhookSettings {
  std::string name{};
  std::string url{};
  std::string secret_file{};           // absolute
  std::string ca_file{};               // absolute; empty: those that the machine trusts
  std::set<std::string> events{};      // types; empty: all
  std::set<std::string> namespaces{};  // empty: all
  std::vector<std::string> keys{};     // that sign, as bytes; from secret_file
  std::string ca{};                    // PEM; from ca_file
  bool operator==(const WebhookSettings&) const = default;
};

inline constexpr size_t kMostWebhooks = 32;
inline constexpr size_t kMostSecrets = 3;

bool Wants(const WebhookSettings& webhook, const OutboxEvent& event);

// Without keys; paths are as they are written. kInvalidArgument: "source:line: field: why".
absl::StatusOr<std::vector<WebhookSettings>> ParseWebhooks(absl::string_view text,
                                                           absl::string_view source);
// A secret as https://www.standardwebhooks.com writes it, "whsec_" and base64 of 24 to 64 bytes; of
// several, one in a line, each signs, so that a receiver can change to another.
absl::StatusOr<std::vector<std::string>> ParseSecrets(absl::string_view text);

// With keys and absolute paths; those in the file begin at its folder. The file may be a link, as
// where Kubernetes mounts it. All errors are kInvalidArgument, and name file, line and field, also
// where others may read a secret.
absl::StatusOr<std::vector<WebhookSettings>> ReadWebhooks(const std::string& file);

}  // namespace muster::coordinator
