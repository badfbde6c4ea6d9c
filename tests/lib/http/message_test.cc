#include "lib/http/message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace muster::http {
namespace {

TEST(Message, ErrorsAreJsonWithCodeMessageAndField) {
  const Response response =
      ErrorResponse(absl::InvalidArgumentError("lanes: must be at least 1"), "lanes");
  EXPECT_EQ(response.status, 400);
  EXPECT_EQ(response.content_type, "application/json");
  const auto expected = nlohmann::json::parse(
      R"({"error":{"code":"invalid_argument","message":"lanes: must be at least 1","field":"lanes"}})");
  EXPECT_EQ(nlohmann::json::parse(response.body), expected);
  EXPECT_FALSE(
      nlohmann::json::parse(ErrorResponse(absl::NotFoundError("x")).body)["error"].contains(
          "field"));
}

TEST(Message, HostileTextStaysJson) {
  const std::string text = "quote \" newline \n markup <script> bad \xff";
  const Response response = ErrorResponse(absl::NotFoundError(text), text);
  const auto body = nlohmann::json::parse(response.body, nullptr, false);
  ASSERT_FALSE(body.is_discarded());
  EXPECT_THAT(body["error"]["message"].get<std::string>(),
              testing::StartsWith("quote \" newline \n markup"));
}

TEST(Message, ErrorsCannotSteerATerminalAndAreShort) {
  const std::string wild = "\x1b[2J\x7f\xc2\x9b\xff" + std::string(1 << 20, 'x');
  const Response response = ErrorResponse(absl::InvalidArgumentError(wild), wild);
  const auto error = nlohmann::json::parse(response.body)["error"];
  for (const char* part : {"message", "field"}) {
    const std::string text = error[part];
    EXPECT_THAT(text, testing::StartsWith("\\x1b[2J\\x7f\\x9b?xx")) << part;
    EXPECT_EQ(text.size(), size_t{1024}) << part;
  }
  const Response longer{
      .status = 400,
      .body = R"({"error":{"code":"x","message":")" + std::string(1 << 20, 'x') + R"("}})"};
  EXPECT_EQ(StatusFromResponse(longer).message().size(), size_t{1024}) << "nor do others'";
}

TEST(Message, EveryCodeHasAnHttpStatusAndComesBack) {
  for (int i = 1; i <= 16; ++i) {
    const auto code = static_cast<absl::StatusCode>(i);
    const Response response = ErrorResponse(absl::Status(code, "why"));
    EXPECT_GE(response.status, 400) << i;
    EXPECT_EQ(StatusFromResponse(response), absl::Status(code, "why"));
  }
}

TEST(Message, StatusOfAnswersThatAreNotOurs) {
  EXPECT_TRUE(StatusFromResponse({.status = 201}).ok());
  EXPECT_EQ(StatusFromResponse({.status = 404, .body = "<html>"}).code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(StatusFromResponse({.status = 503, .body = "[1]"}).code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(StatusFromResponse({.status = 418, .body = R"({"error":"x"})"}).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(StatusFromResponse({.status = 599, .body = R"({"error":{"code":7}})"}).code(),
            absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace muster::http
