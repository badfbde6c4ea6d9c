#include "lib/http/target.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace muster::http {
namespace {

TEST(Target, DecodesPathAndQuery) {
  const auto target =
      ParseTarget("/v1/jobs/z%C3%BCrich%20x?state=running&name=a%26b+c&flag&empty=");
  ASSERT_TRUE(target.ok()) << target.status();
  EXPECT_EQ(target->path, "/v1/jobs/z\xc3\xbcrich x");
  const std::map<std::string, std::string> expected = {
      {"state", "running"}, {"name", "a&b c"}, {"flag", ""}, {"empty", ""}};
  EXPECT_EQ(target->query, expected);
}

TEST(Target, PlainOnes) {
  EXPECT_EQ(ParseTarget("/")->path, "/");
  EXPECT_EQ(ParseTarget("/v1/jobs/a:cancel")->path, "/v1/jobs/a:cancel");
  EXPECT_EQ(ParseTarget("/a+b")->path, "/a+b");
  EXPECT_EQ(ParseTarget("/%61%2e%62?")->path, "/a.b");
  EXPECT_EQ(ParseTarget("/...")->path, "/...");
  EXPECT_EQ(ParseTarget("/v1/jobs/?x=1")->path, "/v1/jobs") << "a slash at the end says nothing";
}

TEST(Target, RefusesWhatIsNotPlainlyClean) {
  for (const char* text : {"",
                           "*",
                           "v1",
                           "http://127.0.0.1/v1",
                           "//v1",
                           "/v1//jobs",
                           "/v1//",
                           "//",
                           "/.",
                           "/..",
                           "/v1/../x",
                           "/%2e%2e/x",
                           "/%2E/x",
                           "/.%2e/x",
                           "/a%2fb",
                           "/a%5Cb",
                           "/a\\b",
                           "/a%00b",
                           "/a%0d%0ab",
                           "/a%7f",
                           "/%252e%252e/x",
                           "/a%25",
                           "/%",
                           "/%1",
                           "/%zz",
                           "/a%1",
                           "/a%c3",
                           "/a%ff",
                           "/a%c0%af",
                           "/a%ed%a0%80",
                           "/a#b",
                           "/a b",
                           "/a\tb",
                           "/a\xc3\xbc",
                           "/a?x=%",
                           "/a?x=%0",
                           "/a?x=%00",
                           "/a?x=%ff",
                           "/a?x=1&x=2",
                           "/a?x&%78",
                           "/a?%0a=1"}) {
    EXPECT_EQ(ParseTarget(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

TEST(Target, KeysAreBounded) {
  std::string text = "/a?";
  for (int i = 0; i < 64; ++i) absl::StrAppend(&text, "k", i, "&");
  EXPECT_TRUE(ParseTarget(text).ok());
  EXPECT_FALSE(ParseTarget(text + "one").ok());
}

}  // namespace
}  // namespace muster::http
