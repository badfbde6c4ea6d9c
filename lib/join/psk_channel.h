// One end of TLS 1.3 with an external pre-shared key and nothing else (docs/identity.md section 3):
// TLS_AES_128_GCM_SHA256, psk_dhe_ke, no certificates, no tickets, no early data. It works on bytes
// in memory; whoever owns it moves them. OpenSSL stands behind this header.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

// Used by one thread at a time.
class PskChannel {
 public:
  // The key that belongs to a name; nothing: there is none.
  using FindKey = std::function<std::optional<std::string>(const std::string& identity)>;

  static absl::StatusOr<std::unique_ptr<PskChannel>> Connecting(std::string identity,
                                                                std::string key);
  static absl::StatusOr<std::unique_ptr<PskChannel>> Accepting(FindKey find_key);
  ~PskChannel();
  PskChannel(const PskChannel&) = delete;
  PskChannel& operator=(const PskChannel&) = delete;

  // What the other end has sent. kUnauthenticated: it is not one that knows the key, or it broke
  // the rules of TLS; what Give hands out then tells it so, and nothing else is to be done.
  absl::Status Take(absl::string_view bytes);
  // What is to be sent to it.
  std::string Give();
  // Both know the key.
  bool is_open() const { return open_; }
  bool has_ended() const { return ended_; }                  // the other end says no more
  const std::string& identity() const { return identity_; }  // of the key that was used
  // Once it is open.
  std::string Received();
  absl::Status Send(absl::string_view bytes);
  void End();  // says that nothing more comes

 private:
  struct Tls;
  struct Callbacks;
  explicit PskChannel(std::unique_ptr<Tls> tls);
  absl::Status Drive();

  const std::unique_ptr<Tls> tls_;
  FindKey find_key_;      // of the accepting end
  std::string identity_;  // empty on the accepting end before the other has named one
  std::string key_;       // of the connecting end
  std::string received_;
  bool open_ = false;
  bool ended_ = false;
};

}  // namespace muster
