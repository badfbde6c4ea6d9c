#include "lib/http/wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::http {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(FindHeadEnd, FindsTheEmptyLineAtEveryCut) {
  const std::string head = "GET / HTTP/1.1\r\nHost: a\r\n\tX:y\r\n\r\n";
  const std::string clean = "GET / HTTP/1.1\r\nHost: a\r\nX:\ty\r\n\r\n";
  for (size_t n = 0; n < clean.size(); ++n) {
    const auto end = FindHeadEnd(clean.substr(0, n));
    ASSERT_TRUE(end.ok()) << n << end.status();
    EXPECT_FALSE(end->has_value()) << n;
  }
  const auto end = FindHeadEnd(clean + "body");
  ASSERT_TRUE(end.ok()) << end.status();
  EXPECT_EQ(**end, clean.size());
  EXPECT_FALSE(FindHeadEnd(head).ok()) << "folded";
}

TEST(FindHeadEnd, RefusesWhatReadersForgiveDifferently) {
  const std::vector<std::string> bad = {"GET / HTTP/1.1\nHost: a\n\n",
                                        "GET / HTTP/1.1\r\nHost: a\n\r\n",
                                        "GET / HTTP/1.1\r\nHost: a\rX: b\r\n\r\n",
                                        "GET / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n",
                                        "\r\nGET / HTTP/1.1\r\n\r\n",
                                        "\n",
                                        std::string("GET /\0 HTTP/1.1\r\n\r\n", 19),
                                        "GET / HTTP/1.1\r\nHost: \x7f\r\n\r\n",
                                        "\x16\x03\x01\x02"};
  for (const std::string& text : bad) {
    EXPECT_EQ(FindHeadEnd(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

TEST(FormatResponse, StatesLengthAndConnection) {
  const std::string text =
      FormatResponse({.status = 404, .content_type = "text/plain", .body = "no"}, {});
  EXPECT_THAT(text, testing::StartsWith("HTTP/1.1 404 Not Found\r\n"));
  EXPECT_THAT(text, HasSubstr("Content-Type: text/plain\r\n"));
  EXPECT_THAT(text, HasSubstr("Content-Length: 2\r\n"));
  EXPECT_THAT(text, HasSubstr("Connection: keep-alive\r\n"));
  EXPECT_THAT(text, testing::EndsWith("\r\n\r\nno"));
  EXPECT_THAT(FormatResponse({}, {.keep_alive = false}), HasSubstr("Connection: close\r\n"));
}

TEST(FormatResponse, TellsTheTimeAsHttpWritesIt) {
  EXPECT_THAT(FormatResponse({}, {.now = absl::FromUnixSeconds(784111777)}),
              HasSubstr("\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n"));
  EXPECT_THAT(FormatResponse({}, {}), Not(HasSubstr("Date:")));
}

TEST(FormatResponse, HeadHasTheLengthButNoBody) {
  const std::string text = FormatResponse({.body = "12345"}, {.without_body = true});
  EXPECT_THAT(text, HasSubstr("Content-Length: 5\r\n"));
  EXPECT_THAT(text, testing::EndsWith("\r\n\r\n"));
}

TEST(FormatResponse, NoHeaderIsSmuggledIn) {
  const std::string text = FormatResponse(
      {.content_type = "a\r\nX-One: 1", .headers = {{"Location", "/x\r\nX-Two: 2"}}}, {});
  EXPECT_THAT(text, Not(HasSubstr("\nX-One")));
  EXPECT_THAT(text, Not(HasSubstr("\nX-Two")));
}

}  // namespace
}  // namespace muster::http
