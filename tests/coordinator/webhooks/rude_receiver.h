// A receiver that answers as a test says, also with what no HTTP server would send. On loopback, in
// plain text; one connection after another.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "lib/base/descriptor.h"
#include "lib/base/mutex.h"

namespace muster::coordinator {

struct Received {
  std::string line;                            // of the request: "POST /hook HTTP/1.1"
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
};

class RudeReceiver {
 public:
  // The bytes that answer the n-th request, from 0, after which the connection is closed, unless
  // they say "keep-alive".
  using Answer = std::function<std::string(int n, const Received& request)>;
  // In place of an answer: nothing comes until the other side goes away.
  static constexpr char kHangs[] = "hangs";

  explicit RudeReceiver(Answer answer)
      : answer_(std::move(answer)), listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    if (bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
        listen(listener_.get(), 64) != 0 ||
        getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
      std::abort();
    url_ = absl::StrCat("http://127.0.0.1:", ntohs(address.sin_port), "/hook");
    thread_ = std::thread([this] { Run(); });
  }
  ~RudeReceiver() {
    stopping_ = true;
    thread_.join();
  }
  RudeReceiver(const RudeReceiver&) = delete;
  RudeReceiver& operator=(const RudeReceiver&) = delete;

  const std::string& url() const { return url_; }
  std::vector<Received> received() const {
    const MutexLock lock(mutex_);
    return received_;
  }

  static std::string Status(int status, const std::string& headers = "") {
    return absl::StrCat("HTTP/1.1 ", status, " x\r\nContent-Length: 0\r\nConnection: close\r\n",
                        headers, "\r\n");
  }

 private:
  // False: we are to end, or nothing comes any more.
  bool Readable(int fd) const {
    while (!stopping_) {
      pollfd at{fd, POLLIN, 0};
      if (poll(&at, 1, 20) > 0) return true;
    }
    return false;
  }
  void Run() {
    while (Readable(listener_.get())) {
      const Descriptor peer(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (peer.is_open()) Serve(peer.get());
    }
  }
  void Serve(int fd) {
    std::string text;
    size_t head = std::string::npos, whole = SIZE_MAX;
    while (text.size() < whole) {
      char buffer[4096];
      const ssize_t n = Readable(fd) ? read(fd, buffer, sizeof buffer) : 0;
      if (n <= 0) return;
      text.append(buffer, static_cast<size_t>(n));
      head = text.find("\r\n\r\n");
      if (head != std::string::npos) whole = head + 4 + LengthIn(Parse(text.substr(0, head)));
    }
    Received request = Parse(text.substr(0, head));
    request.body = text.substr(head + 4);
    int n = 0;
    {
      const MutexLock lock(mutex_);
      n = static_cast<int>(received_.size());
      received_.push_back(request);
    }
    const std::string answer = answer_(n, request);
    char byte;
    if (answer == kHangs) {
      if (Readable(fd)) (void)!read(fd, &byte, 1);
      return;
    }
    for (size_t sent = 0; sent < answer.size();) {
      const ssize_t now = send(fd, answer.data() + sent, answer.size() - sent, MSG_NOSIGNAL);
      if (now <= 0) return;
      sent += static_cast<size_t>(now);
    }
    if (absl::StrContains(answer, "keep-alive")) Serve(fd);
  }
  static size_t LengthIn(const Received& request) {
    size_t length = 0;
    const auto it = request.headers.find("content-length");
    if (it != request.headers.end()) (void)absl::SimpleAtoi(it->second, &length);
    return length;
  }
  static Received Parse(const std::string& head) {
    Received request{.line = head.substr(0, head.find("\r\n")), .headers = {}, .body = {}};
    for (const std::string& line : std::vector<std::string>(absl::StrSplit(head, "\r\n"))) {
      const std::pair<std::string, std::string> parts =
          absl::StrSplit(line, absl::MaxSplits(": ", 1));
      request.headers[absl::AsciiStrToLower(parts.first)] = parts.second;
    }
    return request;
  }

  const Answer answer_;
  const Descriptor listener_;
  std::string url_;
  std::atomic<bool> stopping_{false};
  mutable Mutex mutex_;
  std::vector<Received> received_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace muster::coordinator
