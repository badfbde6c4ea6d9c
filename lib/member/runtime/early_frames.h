// Frames that came too early: of a view that this member has not entered, of a step that it has not
// reached, or a Fetch of what it does not have yet. They are delivered again at each change of
// that, in order. Lives as long as the exchange thread; what a peer sent goes with its session.
#pragma once

#include <cstddef>
#include <deque>
#include <map>

#include "lib/member/runtime/data_path.h"

namespace muster {

class EarlyFrames {
 public:
  // `chunks`: of the job.
  explicit EarlyFrames(size_t chunks)
      : most_fetch_bytes_(kFetchBytes + chunks * kFetchBytesPerChunk) {}

  // Data keeps its receipt, so its sender's session stands still when this is much. A Fetch does
  // not: what it asks for may come behind it, on the same session (docs/decisions/0031). False:
  // more Fetches than the plan of any view gives a peer reason for.
  bool Keep(Incoming incoming);
  void Forget(const MemberId& peer) { by_sender_.erase(peer); }
  std::map<MemberId, std::deque<Incoming>> TakeAll();

 private:
  // Each chunk is asked for once, eight to a Fetch, in each of the few kinds that there are.
  static constexpr size_t kFetchBytesPerChunk = 1024;
  static constexpr size_t kFetchBytes = size_t{256} << 10;

  struct Early {
    std::deque<Incoming> frames;
    size_t fetch_bytes = 0;
  };
  const size_t most_fetch_bytes_;
  std::map<MemberId, Early> by_sender_;
};

}  // namespace muster
