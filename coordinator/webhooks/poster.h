// Sends one event after another to a receiver, over HTTPS, or plain HTTP on loopback.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "coordinator/webhooks/pending_events.h"
#include "lib/base/time.h"

namespace muster {
class CurlHandle;
}  // namespace muster

namespace muster::coordinator {

struct PostPatience {
  Duration connect = std::chrono::seconds(5);
  Duration whole = std::chrono::seconds(15);
};

// One thread. A request ends within its patience, and about a second after `stop` is true, which
// outlives this.
class Poster {
 public:
  // `ca`: whom to trust there, in PEM; empty: those that the machine trusts.
  Poster(std::string url, std::string ca, PostPatience patience, const std::atomic<bool>& stop);
  ~Poster();
  Poster(const Poster&) = delete;
  Poster& operator=(const Poster&) = delete;

  // What is answered besides the status and Retry-After is not looked at; more of it than a little
  // is not read. Redirects are not followed.
  WebhookAnswer Post(const std::vector<std::string>& headers, const std::string& body);

 private:
  const std::string url_;
  const std::string ca_;
  const PostPatience patience_;
  const std::atomic<bool>& stop_;
  const std::unique_ptr<CurlHandle> handle_;
};

}  // namespace muster::coordinator
