#include "lib/member/runtime/early_frames.h"

#include <utility>
#include <variant>

namespace muster {

bool EarlyFrames::Keep(Incoming incoming) {
  Early& early = by_sender_[incoming.from];
  if (const Fetch* fetch = std::get_if<Fetch>(&incoming.message)) {
    early.fetch_bytes += kFrameWeight + fetch->chunks.size() * sizeof(ChunkId);
    if (early.fetch_bytes > most_fetch_bytes_) return false;
    incoming.receipt.reset();
  }
  early.frames.push_back(std::move(incoming));
  return true;
}

std::map<MemberId, std::deque<Incoming>> EarlyFrames::TakeAll() {
  std::map<MemberId, std::deque<Incoming>> all;
  for (auto& [sender, early] : by_sender_) all.emplace(sender, std::move(early.frames));
  by_sender_.clear();
  return all;
}

}  // namespace muster
