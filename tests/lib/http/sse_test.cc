#include "lib/http/sse.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::http {

static bool operator==(const Event& a, const Event& b) {
  return a.id == b.id && a.name == b.name && a.data == b.data;
}
static void PrintTo(const Event& e, std::ostream* out) {
  *out << e.id << "|" << e.name << "|" << e.data;
}

namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<Event> Parse(const std::string& text, size_t piece = 1 << 20) {
  EventParser parser;
  std::vector<Event> out;
  for (size_t at = 0; at < text.size(); at += piece) {
    EXPECT_TRUE(parser.Feed(text.substr(at, piece), out).ok());
  }
  return out;
}

TEST(Sse, WritesTheTextForm) {
  EXPECT_EQ(FormatEvent("7", "step", "{}"), "id: 7\nevent: step\ndata: {}\n\n");
  EXPECT_EQ(FormatEvent("", "", "a\nb\r\n"), "data: a\ndata: b\ndata: \n\n");
  EXPECT_EQ(FormatEvent("1\nevent: x", "a\r\ndata: y", ""),
            "id: 1event: x\nevent: adata: y\ndata: \n\n");
}

TEST(Sse, WhatIsWrittenIsReadWhateverTheCut) {
  const std::vector<Event> events = {
      {"1", "step", "{\"step\":1}"}, {"2", "", "two\nlines"}, {"3", "end", " x: y "}};
  std::string text(kHeartbeat);
  for (const Event& e : events) text += FormatEvent(e.id, e.name, e.data) + std::string(kHeartbeat);
  for (size_t piece = 1; piece < text.size(); ++piece)
    EXPECT_EQ(Parse(text, piece), events) << piece;
}

TEST(Sse, OtherWritersLineEndsAndFields) {
  EXPECT_THAT(Parse("data:a\r\n\r\ndata: b\r\rretry: 5\nunknown\ndata\n\n"),
              ElementsAre(Event{"", "", "a"}, Event{"", "", "b"}, Event{"", "", ""}));
  EXPECT_THAT(Parse("id: 4\ndata: a\n\ndata: b\n\n"),
              ElementsAre(Event{"4", "", "a"}, Event{"4", "", "b"}));
  EXPECT_THAT(Parse("event: only\n\ndata: not ended\n"), IsEmpty());
}

TEST(Sse, AnEventIsBounded) {
  EventParser parser;
  std::vector<Event> out;
  const std::string line = "data: " + std::string(1 << 20, 'x') + "\n";
  absl::Status status;
  for (int i = 0; i < 5 && status.ok(); ++i) status = parser.Feed(line, out);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace muster::http
