#include "tests/identity/captured_streams.h"

#include <netinet/in.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <unordered_set>
#include <utility>

namespace muster::identity {
namespace {

uint16_t Word(std::string_view bytes, size_t at) {
  return static_cast<uint16_t>(static_cast<uint8_t>(bytes[at]) << 8 |
                               static_cast<uint8_t>(bytes[at + 1]));
}

uint32_t DoubleWord(std::string_view bytes, size_t at) {
  return static_cast<uint32_t>(Word(bytes, at)) << 16 | Word(bytes, at + 2);
}

constexpr uint8_t kSyn = 2;

}  // namespace

void CapturedStreams::Add(std::string_view packet) {
  if (packet.empty()) return;
  const int version = static_cast<uint8_t>(packet[0]) >> 4;
  Way way;
  size_t head = 0;
  if (version == 4 && packet.size() >= 20 && packet[9] == IPPROTO_TCP) {
    head = size_t{4} * (static_cast<uint8_t>(packet[0]) & 0xf);
    std::memcpy(way.from.data(), packet.data() + 12, 4);
    std::memcpy(way.to.data(), packet.data() + 16, 4);
    // What is shorter than a frame may be is filled up. 0: longer than this field can say.
    if (const size_t length = Word(packet, 2); length > 0) packet = packet.substr(0, length);
  } else if (version == 6 && packet.size() >= 40 && packet[6] == IPPROTO_TCP) {
    head = 40;
    std::memcpy(way.from.data(), packet.data() + 8, 16);
    std::memcpy(way.to.data(), packet.data() + 24, 16);
    if (const size_t length = Word(packet, 4); length > 0) packet = packet.substr(0, head + length);
  } else {
    return;
  }
  if (head < 20 || packet.size() < head + 20) return;
  const std::string_view tcp = packet.substr(head);
  way.from_port = Word(tcp, 0);
  way.to_port = Word(tcp, 2);
  const size_t offset = size_t{4} * (static_cast<uint8_t>(tcp[12]) >> 4);
  if (offset < 20 || offset > tcp.size()) return;
  uint32_t number = DoubleWord(tcp, 4);
  const std::string_view bytes = tcp.substr(offset);
  const bool begins = static_cast<uint8_t>(tcp[13]) & kSyn;
  if (begins) ++number;
  auto [it, fresh] = open_.try_emplace(way, Stream{.first = number});
  if (begins && !fresh && it->second.first != number) {
    ended_.push_back(std::exchange(it->second, Stream{.first = number}));
  }
  if (bytes.empty()) return;
  Stream& stream = it->second;
  // The nearest offset to the newest one that has this number.
  const uint32_t newest = stream.first + static_cast<uint32_t>(stream.newest);
  const int64_t at = stream.newest + static_cast<int32_t>(number - newest);
  stream.newest = std::max(stream.newest, at);
  Insert(stream, at, bytes);
}

// Of what came before, the first that was seen stays.
void CapturedStreams::Insert(Stream& stream, int64_t at, std::string_view bytes) {
  auto& runs = stream.runs;
  auto next = runs.upper_bound(at);
  auto run = next == runs.begin() ? runs.end() : std::prev(next);
  if (run != runs.end()) {
    const int64_t end = run->first + static_cast<int64_t>(run->second.size());
    if (end >= at + static_cast<int64_t>(bytes.size())) return;
    if (end >= at) {
      run->second.append(bytes.substr(static_cast<size_t>(end - at)));
    } else {
      run = runs.end();
    }
  }
  if (run == runs.end()) run = runs.emplace(at, std::string(bytes)).first;
  for (next = std::next(run); next != runs.end(); next = runs.erase(next)) {
    const int64_t end = run->first + static_cast<int64_t>(run->second.size());
    if (next->first > end) break;
    const auto known = static_cast<size_t>(end - next->first);
    if (known < next->second.size()) run->second.append(next->second, known);
  }
}

std::vector<std::string_view> CapturedStreams::Runs() const {
  std::vector<std::string_view> all;
  for (const Stream& stream : ended_)
    for (const auto& [at, bytes] : stream.runs) all.emplace_back(bytes);
  for (const auto& [way, stream] : open_)
    for (const auto& [at, bytes] : stream.runs) all.emplace_back(bytes);
  return all;
}

size_t CapturedStreams::bytes() const {
  size_t bytes = 0;
  for (const std::string_view run : Runs()) bytes += run.size();
  return bytes;
}

bool HoldFloats(const std::vector<std::string_view>& runs, absl::Span<const float> tensor) {
  constexpr size_t kBytes = kFloatsInARow * sizeof(float);
  if (tensor.size() < kFloatsInARow) return false;
  const std::string_view all(reinterpret_cast<const char*>(tensor.data()),
                             tensor.size() * sizeof(float));
  std::unordered_set<std::string_view> windows;
  for (size_t at = 0; at + kBytes <= all.size(); at += sizeof(float))
    windows.insert(all.substr(at, kBytes));
  for (const std::string_view run : runs)
    for (size_t at = 0; at + kBytes <= run.size(); ++at)
      if (windows.contains(run.substr(at, kBytes))) return true;
  return false;
}

bool HoldText(const std::vector<std::string_view>& runs, std::string_view text) {
  return std::any_of(runs.begin(), runs.end(), [&](std::string_view run) {
    return run.find(text) != std::string_view::npos;
  });
}

}  // namespace muster::identity
