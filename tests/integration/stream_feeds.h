// Who brings the samples of a stream in these tests (docs/decisions/0112-streams.md): files that
// are renamed into a folder, and a sender on a socket. The sample of a position is the same for
// both, whenever it is asked for: three reals, and what a model is to make of them.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "lib/base/stop_signal.h"

namespace muster::integration {

inline constexpr uint64_t kFeedSampleBytes = 4 * sizeof(float);
// Of `data`: format, label and fields. `source` is what stands between the braces besides.
std::string FeedSpec(const std::string& source);
// Those of [first, first + count), as files and senders have them.
std::string FeedSamples(uint64_t first, uint64_t count);

// A folder that grows. One thread.
class FolderFeed {
 public:
  explicit FolderFeed(std::string folder);

  const std::string& folder() const { return folder_; }
  // The next samples, in a file that comes whole; its name is behind all before it.
  void Put(uint64_t count);
  void PutEnd() { PutFile("END", ""); }
  void PutFile(const std::string& name, const std::string& bytes);
  uint64_t samples() const { return samples_; }  // that were put by Put

 private:
  const std::string folder_;
  uint64_t samples_ = 0;
  int files_ = 0;
};

struct SenderHabits {
  uint64_t samples = 0;  // then the stream ends
  // So many it sends before it waits for an answer; at least 1.
  uint64_t unanswered = 1;
  // Within each of these it breaks the connection off once.
  std::vector<uint64_t> breaks_off_in{};
  bool says_too_much = false;  // once it sends a byte where a sample or the end belongs
  bool never_ends = false;     // it sends all and says no end
};

// Comes again whenever it was cut off, and keeps what was not answered. Has a thread of its own.
class SocketFeed {
 public:
  SocketFeed(std::string path, SenderHabits habits);
  ~SocketFeed();  // as Stop
  SocketFeed(const SocketFeed&) = delete;
  SocketFeed& operator=(const SocketFeed&) = delete;

  void Stop();
  // From which position it was told to go on, each time. After Stop.
  const std::vector<uint64_t>& greetings() const { return greetings_; }
  // The largest answer; answers that shrink, or come for what was not sent, fail the test.
  uint64_t answered() const { return answered_; }
  // It was told that no more are taken.
  bool is_done() const { return is_done_; }

 private:
  void Run();
  bool Converse(int connection);  // false: it is over
  bool SayAll(int connection, uint64_t position);
  bool Say(int connection, const std::string& bytes);
  bool Hear(int connection);  // one answer; false: the connection is over
  bool Read(int connection, void* into, size_t bytes);

  const std::string path_;
  SenderHabits habits_;
  StopSignal stop_;
  std::vector<uint64_t> greetings_;
  uint64_t sent_ = 0;
  std::atomic<uint64_t> answered_{0};
  std::atomic<bool> is_done_{false};
  std::thread thread_;
};

}  // namespace muster::integration
