// A client that says exactly the bytes it is told, for tests of a server. Blocking; every read and
// write gives up after half a minute, so that a test fails and does not hang.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "lib/base/loopback.h"

namespace muster::http {

class RawClient {
 public:
  // What stands between us and the socket, such as TLS (tls_layer.h). As send and recv.
  class Layer {
   public:
    virtual ~Layer() = default;
    virtual ssize_t Send(const char* bytes, size_t size) = 0;
    virtual ssize_t Receive(char* bytes, size_t size) = 0;
    virtual void EndSending() = 0;
  };

  explicit RawClient(const std::string& address, int receive_buffer = 0) {
    const auto parsed = ParseHostPort(address);
    fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const timeval limit{30, 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    if (receive_buffer > 0)
      setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(parsed->port);
    inet_pton(AF_INET, parsed->host.c_str(), &to.sin_addr);
    EXPECT_EQ(connect(fd_, reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
  }
  ~RawClient() { Close(); }
  RawClient(RawClient&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)),
        read_(std::move(other.read_)),
        layer_(std::move(other.layer_)) {}
  int fd() const { return fd_; }
  void Put(std::unique_ptr<Layer> layer) { layer_ = std::move(layer); }

  // False where the server has closed.
  bool Send(const std::string& bytes) {
    for (size_t at = 0; at < bytes.size();) {
      const char* const rest = bytes.data() + at;
      const size_t left = bytes.size() - at;
      const ssize_t n = layer_ ? layer_->Send(rest, left) : send(fd_, rest, left, MSG_NOSIGNAL);
      if (n <= 0) return false;
      at += static_cast<size_t>(n);
    }
    return true;
  }
  std::string Address() const {  // our own, as the server sees it
    sockaddr_in name{};
    socklen_t size = sizeof name;
    EXPECT_EQ(getsockname(fd_, reinterpret_cast<sockaddr*>(&name), &size), 0);
    return "127.0.0.1:" + std::to_string(ntohs(name.sin_port));
  }
  void EndSending() {
    if (layer_) layer_->EndSending();
    shutdown(fd_, SHUT_WR);
  }
  void Close() {
    if (fd_ >= 0) close(std::exchange(fd_, -1));
  }

  // Up to and with `mark`; shorter where the connection ends before.
  std::string ReadUntil(const std::string& mark) {
    size_t at;
    while ((at = read_.find(mark)) == std::string::npos && ReadMore()) {
    }
    return Cut(at == std::string::npos ? read_.size() : at + mark.size());
  }
  std::string ReadToEnd() {
    while (ReadMore()) {
    }
    return Cut(read_.size());
  }
  // Whether the server closes, whatever it says before.
  bool AwaitClosed() {
    errno = 0;
    ReadToEnd();
    return errno != EAGAIN;
  }
  // One whole answer with its Content-Length.
  std::string ReadAnswer() {
    std::string answer = ReadUntil("\r\n\r\n");
    const size_t at = answer.find("Content-Length: ");
    if (at == std::string::npos) return answer;
    const size_t length = std::strtoull(answer.c_str() + at + 16, nullptr, 10);
    while (read_.size() < length && ReadMore()) {
    }
    return answer + Cut(length);
  }

 private:
  bool ReadMore() {
    char buffer[16384];
    const ssize_t n =
        layer_ ? layer_->Receive(buffer, sizeof buffer) : recv(fd_, buffer, sizeof buffer, 0);
    if (n > 0) read_.append(buffer, static_cast<size_t>(n));
    return n > 0;
  }
  std::string Cut(size_t n) {
    std::string out = read_.substr(0, n);
    read_.erase(0, n);
    return out;
  }

  int fd_ = -1;
  std::string read_;
  std::unique_ptr<Layer> layer_;  // null: none
};

// "HTTP/1.1 404 …" → 404; 0 where there is no such line.
inline int StatusOf(const std::string& answer) {
  return answer.rfind("HTTP/1.1 ", 0) == 0 ? std::atoi(answer.c_str() + 9) : 0;
}

inline std::string GetText(const std::string& target) {
  return "GET " + target + " HTTP/1.1\r\nHost: localhost\r\n\r\n";
}

}  // namespace muster::http
