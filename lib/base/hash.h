// Fixed, documented 64-bit mixing: the same on every machine and in every release, because sample
// orders and lane seeds are made of it. The finaliser is SplitMix64 (Steele, Lea, Flood: "Fast
// splittable pseudorandom number generators", 2014).
#pragma once

#include <cstdint>
#include <string_view>

namespace muster {

constexpr uint64_t Mix64(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}
constexpr uint64_t Mix64(uint64_t a, uint64_t b) { return Mix64(Mix64(a) ^ b); }
constexpr uint64_t Mix64(uint64_t a, uint64_t b, uint64_t c) { return Mix64(Mix64(a, b) ^ c); }

uint64_t HashBytes(std::string_view bytes,
                   uint64_t seed = 0);  // FNV-1a folded through Mix64; for names, not for speed

}  // namespace muster
