#include "tests/identity/packet_capture.h"

#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace muster::identity {
namespace {

constexpr int kSocketBytes = 64 << 20;
constexpr size_t kLongestPacket = size_t{1} << 20;
constexpr size_t kMostBytes = size_t{512} << 20;

}  // namespace

bool EnterOwnNetwork() {
  if (unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) return false;
  const Descriptor any(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  std::strncpy(request.ifr_name, "lo", sizeof request.ifr_name - 1);
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  return ioctl(any.get(), SIOCSIFFLAGS, &request) == 0;
}

PacketCapture::PacketCapture()
    : packets_(socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, htons(ETH_P_ALL))),
      stop_(eventfd(0, EFD_CLOEXEC)) {
  if (!packets_.is_open()) {
    missing_ = std::string("packets cannot be captured here: ") + std::strerror(errno);
    return;
  }
  if (setsockopt(packets_.get(), SOL_SOCKET, SO_RCVBUFFORCE, &kSocketBytes, sizeof kSocketBytes) !=
      0)
    setsockopt(packets_.get(), SOL_SOCKET, SO_RCVBUF, &kSocketBytes, sizeof kSocketBytes);
  thread_ = std::thread([this] { Run(); });
}

const CapturedStreams& PacketCapture::Stop() {
  if (!thread_.joinable()) return streams_;
  const uint64_t one = 1;
  if (write(stop_.get(), &one, sizeof one) != sizeof one) std::abort();
  thread_.join();
  tpacket_stats stats{};
  socklen_t size = sizeof stats;
  if (getsockopt(packets_.get(), SOL_PACKET, PACKET_STATISTICS, &stats, &size) == 0)
    lost_ += stats.tp_drops;
  return streams_;
}

// When it is told to stop it takes what has come by then.
void PacketCapture::Run() {
  std::string packet(kLongestPacket, '\0');
  size_t kept = 0;
  pollfd waits[] = {{packets_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
  while (true) {
    poll(waits, 2, -1);
    const bool is_last = waits[1].revents != 0;
    for (ssize_t n;
         (n = recv(packets_.get(), packet.data(), packet.size(), MSG_DONTWAIT | MSG_TRUNC)) >= 0;) {
      const auto bytes = static_cast<size_t>(n);
      if (bytes > packet.size() || (kept += bytes) > kMostBytes) {
        ++lost_;
        continue;
      }
      streams_.Add(std::string_view(packet).substr(0, bytes));
    }
    if (is_last) return;
  }
}

}  // namespace muster::identity
