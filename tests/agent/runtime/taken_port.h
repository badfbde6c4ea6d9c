// Another program that listens at an address, for as long as this lives.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <string>

#include "gtest/gtest.h"
#include "lib/base/descriptor.h"
#include "lib/base/loopback.h"

namespace muster::agent {

class TakenPort {
 public:
  explicit TakenPort(const std::string& address)
      : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const HostPort parsed = ParseHostPort(address).value();
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(parsed.port);
    inet_pton(AF_INET, parsed.host.c_str(), &at.sin_addr);
    EXPECT_EQ(bind(socket_.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at), 0);
    EXPECT_EQ(listen(socket_.get(), 1), 0);
  }

 private:
  const Descriptor socket_;
};

}  // namespace muster::agent
