// Ends calls whose clients do not take what is written to them: what waits for such a client fills
// room that others need, and gRPC itself waits for ever. Plain values, and a thread that looks.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/mutex.h"
#include "lib/base/stop_signal.h"
#include "lib/base/time.h"

namespace muster {

// As long as REST waits for a client (http::Limits::write_timeout).
inline constexpr Duration kMostWriteTime = std::chrono::seconds(30);

// Which writes are under way, and since when. Thread-safe.
class WritesUnderWay {
 public:
  using Cut = std::function<void()>;

  // The number by which it ends.
  uint64_t Begin(Time now, Cut cut);
  void End(uint64_t write);
  // Of those that began kMostWriteTime ago, or earlier: each once, the oldest first.
  std::vector<Cut> TakeLate(Time now);
  bool empty() const;

 private:
  struct Write {
    Time begun;
    Cut cut;
  };
  mutable Mutex mutex_;
  uint64_t last_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<uint64_t, Write> writes_ ABSL_GUARDED_BY(mutex_);  // in the order in which they began
};

class LateWrites {
 public:
  // Under way until it is destroyed, which may be after LateWrites.
  class Write {
   public:
    Write(std::shared_ptr<WritesUnderWay> all, uint64_t number)
        : all_(std::move(all)), number_(number) {}
    Write(const Write&) = delete;
    Write& operator=(const Write&) = delete;
    ~Write() { all_->End(number_); }

   private:
    const std::shared_ptr<WritesUnderWay> all_;
    const uint64_t number_;
  };

  // `clock` outlives it.
  LateWrites(const Clock& clock, std::shared_ptr<WritesUnderWay> writes);
  LateWrites(const LateWrites&) = delete;
  LateWrites& operator=(const LateWrites&) = delete;
  ~LateWrites();

  // `cut` is called at most once, on our thread and with no lock held, when the write has taken
  // kMostWriteTime. It may have been chosen for that just before the write ended.
  std::unique_ptr<Write> Begin(WritesUnderWay::Cut cut);

 private:
  void Run();

  const Clock& clock_;
  const std::shared_ptr<WritesUnderWay> writes_;
  StopSignal stop_;
  std::thread thread_;
};

}  // namespace muster
