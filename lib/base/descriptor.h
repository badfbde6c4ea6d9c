// A file descriptor with one owner, who closes it.
#pragma once

#include <unistd.h>

#include <utility>

namespace muster {

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}  // -1: none, as from a call that failed
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    Descriptor(std::move(other)).Swap(*this);
    return *this;
  }
  ~Descriptor() { Close(); }

  bool is_open() const { return fd_ >= 0; }
  int get() const { return fd_; }
  void Close() {
    if (is_open()) close(std::exchange(fd_, -1));
  }

 private:
  void Swap(Descriptor& other) { std::swap(fd_, other.fd_); }
  int fd_ = -1;
};

}  // namespace muster
