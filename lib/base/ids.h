// Numbers that must not be mixed up. A strong integer is compared, hashed, printed and stepped; it
// is never converted to another kind silently. Values: `.value()`; text: `absl::StrCat(x.value())`.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <ostream>
#include <string>

namespace muster {

template <class Tag, class Rep = int64_t>
class StrongInt {
 public:
  constexpr StrongInt() = default;
  constexpr explicit StrongInt(Rep value) : value_(value) {}
  constexpr Rep value() const { return value_; }
  constexpr auto operator<=>(const StrongInt&) const = default;
  constexpr StrongInt operator+(Rep n) const { return StrongInt(static_cast<Rep>(value_ + n)); }
  constexpr StrongInt operator-(Rep n) const { return StrongInt(static_cast<Rep>(value_ - n)); }
  constexpr StrongInt& operator++() {
    ++value_;
    return *this;
  }
  friend std::ostream& operator<<(std::ostream& out, StrongInt x) { return out << x.value_; }
  template <class H>
  friend H AbslHashValue(H h, StrongInt x) {
    return H::combine(std::move(h), x.value_);
  }

 private:
  Rep value_ = 0;
};

// Largest step, view, lineage, term, weight or count that is read from outside or from disk: room
// is left to add to it without overflow.
inline constexpr int64_t kMaxNumber = int64_t{1} << 62;

using Step = StrongInt<struct StepTag>;  // state(step) is what a step starts from; 0 first
using LaneId = StrongInt<struct LaneTag, int32_t>;  // 0 … L-1
// 0 … C-1, ascending addresses of the flat space.
using ChunkId = StrongInt<struct ChunkTag, int32_t>;
using Rank = StrongInt<struct RankTag, int32_t>;     // dense per view and role
using ViewNumber = StrongInt<struct ViewTag>;        // 0: none yet
using LineageNumber = StrongInt<struct LineageTag>;  // 0: before any state exists
using TermNumber = StrongInt<struct TermTag>;        // one leadership of a coordinator
// One start of a job, unique for ever (docs/protocol.md section 1); 0: none.
using StartNumber = StrongInt<struct StartTag>;
// One member's place on one host, unique for ever (docs/hosts.md section 1); 0: a process that no
// host agent started.
using PlacementNumber = StrongInt<struct PlacementTag>;

// 128 random bits, drawn by a process each time it joins.
struct Incarnation {
  uint64_t hi = 0;
  uint64_t lo = 0;
  constexpr auto operator<=>(const Incarnation&) const = default;
  template <class H>
  friend H AbslHashValue(H h, Incarnation x) {
    return H::combine(std::move(h), x.hi, x.lo);
  }
};
std::string ToHex(Incarnation x);  // 32 lower-case digits

}  // namespace muster
