// What a client of gRPC says in HTTP/2, for tests that say it badly.
#pragma once

#include <cstdint>
#include <string>

#include "lib/transport/grpc/settings.h"

namespace muster {

inline constexpr char kPreface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
inline constexpr int kData = 0;
inline constexpr int kHeaders = 1;
inline constexpr int kReset = 3;
inline constexpr int kSettings = 4;
inline constexpr int kPing = 6;
inline constexpr int kContinuation = 9;
inline constexpr int kEndStream = 1;
inline constexpr int kEndHeaders = 4;

inline std::string Http2Frame(int type, int flags, uint32_t stream, const std::string& content) {
  const auto byte = [](size_t value) { return static_cast<char>(value & 0xff); };
  const size_t size = content.size();
  return std::string{byte(size >> 16),   byte(size >> 8),   byte(size),
                     byte(type),         byte(flags),       byte(stream >> 24),
                     byte(stream >> 16), byte(stream >> 8), byte(stream)} +
         content;
}

// A text of fewer than 127 bytes, as HPACK says it.
inline std::string HpackText(const std::string& text) {
  return std::string(1, static_cast<char>(text.size())) + text;
}
inline std::string HpackField(const std::string& name, const std::string& value) {
  return std::string(1, '\0') + HpackText(name) + HpackText(value);
}
// POST, http, the path, and what gRPC asks for besides.
inline std::string HeadersOfACall(const std::string& method) {
  return "\x83\x86\x04" + HpackText(method) + "\x41" + HpackText("localhost") +
         HpackField("content-type", "application/grpc") + HpackField("te", "trailers");
}

// So many calls, each cancelled as soon as it is made. `message`: what each brings before, as gRPC
// frames it; empty: nothing.
inline std::string CallsThatAreLeft(const std::string& method, uint32_t times,
                                    const std::string& message = "") {
  std::string words = kPreface + Http2Frame(kSettings, 0, 0, "");
  for (uint32_t i = 0; i < times; ++i) {
    const uint32_t stream = 1 + 2 * i;
    words += Http2Frame(kHeaders, kEndHeaders, stream, HeadersOfACall(method));
    if (!message.empty()) words += Http2Frame(kData, kEndStream, stream, message);
    words += Http2Frame(kReset, 0, stream, std::string("\0\0\0\x08", 4));
  }
  return words;
}

}  // namespace muster
