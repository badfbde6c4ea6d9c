#include "tests/integration/stream_feeds.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "gtest/gtest.h"
#include "lib/base/descriptor.h"
#include "lib/spool/state/sender_bytes.h"

namespace muster::integration {
namespace {

constexpr auto kPause = std::chrono::milliseconds(20);  // between two tries to connect
constexpr char kSample = 1, kEnd = 2, kNothing = 7;

std::string SampleAt(uint64_t position) {
  const auto at = [position](uint64_t factor, uint64_t of) {
    return static_cast<float>((position * factor + of) % 11) / 5.0F - 1.0F;
  };
  const float values[] = {at(7, 0), at(3, 4), at(5, 8), at(7, 0) - at(3, 4) / 2.0F};
  static_assert(sizeof(values) == kFeedSampleBytes);
  return {reinterpret_cast<const char*>(values), sizeof(values)};
}

}  // namespace

std::string FeedSpec(const std::string& source) {
  return absl::StrCat(
      "data:\n  format: stream\n  label: y\n  stream:\n    {", source,
      ",\n     fields: [{name: x, type: float32, shape: [3]}, {name: y, type: float32}]}\n");
}

std::string FeedSamples(uint64_t first, uint64_t count) {
  std::string bytes;
  for (uint64_t position = first; position < first + count; ++position) bytes += SampleAt(position);
  return bytes;
}

FolderFeed::FolderFeed(std::string folder) : folder_(std::move(folder)) {
  std::filesystem::create_directories(folder_);
}

void FolderFeed::Put(uint64_t count) {
  PutFile(absl::StrFormat("part-%05d", files_++), FeedSamples(samples_, count));
  samples_ += count;
}

void FolderFeed::PutFile(const std::string& name, const std::string& bytes) {
  const std::string whole = absl::StrCat(folder_, "/", name);
  const std::string hidden = absl::StrCat(folder_, "/.", name);
  std::ofstream(hidden, std::ios::binary) << bytes;
  std::filesystem::rename(hidden, whole);
}

SocketFeed::SocketFeed(std::string path, SenderHabits habits)
    : path_(std::move(path)), habits_(std::move(habits)), thread_([this] { Run(); }) {}

SocketFeed::~SocketFeed() { Stop(); }

void SocketFeed::Stop() {
  stop_.Stop();
  if (thread_.joinable()) thread_.join();
}

void SocketFeed::Run() {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  ASSERT_LT(path_.size(), sizeof(address.sun_path));
  std::memcpy(address.sun_path, path_.data(), path_.size());
  while (!stop_.stopped()) {
    const Descriptor connection(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const auto* at = reinterpret_cast<const sockaddr*>(&address);
    if (connect(connection.get(), at, sizeof(address)) != 0) {  // the reader is not there yet
      if (stop_.WaitFor(kPause)) return;
      continue;
    }
    if (!Converse(connection.get())) return;
  }
}

bool SocketFeed::Converse(int connection) {
  char greeting[24];
  if (!Read(connection, greeting, sizeof(greeting))) return !stop_.stopped();
  uint64_t position = 0, sample_bytes = 0;
  std::memcpy(&position, greeting + 8, sizeof(position));
  std::memcpy(&sample_bytes, greeting + 16, sizeof(sample_bytes));
  EXPECT_EQ(std::string(greeting, 8), "MSTRSTM1");
  EXPECT_EQ(sample_bytes, kFeedSampleBytes);
  // What was answered is never asked for again, nor what was never sent.
  EXPECT_GE(position, answered_);
  EXPECT_LE(position, sent_);
  greetings_.push_back(position);
  answered_ = std::max<uint64_t>(answered_, position);
  if (SayAll(connection, position))
    while (Hear(connection)) {
    }
  return !stop_.stopped();
}

// False: the connection is over.
bool SocketFeed::SayAll(int connection, uint64_t position) {
  for (; position < habits_.samples; ++position) {
    while (position >= answered_ + habits_.unanswered)
      if (!Hear(connection)) return false;
    const std::string sample = SampleAt(position);
    if (std::erase(habits_.breaks_off_in, position) > 0) {
      Say(connection, kSample + sample.substr(0, sample.size() / 2));
      return false;
    }
    // In two pieces: what comes need not come whole.
    if (!Say(connection, kSample + sample.substr(0, 5)) || !Say(connection, sample.substr(5)))
      return false;
    sent_ = std::max(sent_, position + 1);
  }
  if (habits_.never_ends) return true;
  if (std::exchange(habits_.says_too_much, false)) {
    Say(connection, std::string(1, kNothing));
    while (Hear(connection)) {  // until we are cut off
    }
    return false;
  }
  return Say(connection, std::string(1, kEnd));
}

bool SocketFeed::Say(int connection, const std::string& bytes) {
  for (size_t done = 0; done < bytes.size();) {
    pollfd wait{connection, POLLOUT, 0};
    if (stop_.stopped()) return false;
    if (poll(&wait, 1, static_cast<int>(kPause.count())) == 0) continue;
    const ssize_t n =
        send(connection, bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno != EAGAIN && errno != EINTR) return false;
    done += static_cast<size_t>(std::max<ssize_t>(n, 0));
  }
  return true;
}

bool SocketFeed::Hear(int connection) {
  uint64_t positions = 0;
  if (!Read(connection, &positions, sizeof(positions))) return false;
  EXPECT_FALSE(is_done_) << "nothing follows that";
  is_done_ = positions == kStreamIsDone;
  if (is_done_) return true;
  EXPECT_GE(positions, answered_);
  EXPECT_LE(positions, sent_);
  answered_ = std::max<uint64_t>(answered_, positions);
  return true;
}

bool SocketFeed::Read(int connection, void* into, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    pollfd wait{connection, POLLIN, 0};
    if (stop_.stopped()) return false;
    if (poll(&wait, 1, static_cast<int>(kPause.count())) == 0) continue;
    const ssize_t n = recv(connection, static_cast<char*>(into) + done, bytes - done, MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) return false;
    done += static_cast<size_t>(std::max<ssize_t>(n, 0));
  }
  return true;
}

}  // namespace muster::integration
