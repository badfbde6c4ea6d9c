// Requests of HTTP/1.1, whole connections of them: the first byte of the input says to which server
// they come, and in which pieces. It must say the same however they are cut.
#include <algorithm>

#include "nlohmann/json.hpp"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/rest_wire.h"

namespace muster::fuzz {
namespace {

constexpr size_t kMostHeld = size_t{4} << 20;
constexpr size_t kMostHeldPerByte = 1000;  // an answer to "GET /x" has many times its bytes
// First bytes: below, the usual server, and how long a piece is; from here on, a narrow one, and by
// how much more it is.
constexpr size_t kNarrow = 0xc0, kHasty = 0xff;
constexpr size_t kLongestPiece = 40;  // of those that are made

const std::vector<std::string>& Methods() {
  static const auto& methods =
      *new std::vector<std::string>{"GET", "HEAD", "POST", "DELETE", "PUT", "PATCH"};
  return methods;
}
const std::vector<std::string>& Paths() {
  static const auto& paths =
      *new std::vector<std::string>{"/v1/jobs",
                                    "/v1/jobs?limit=2&state=done&page_token=x",
                                    "/v1/jobs?limit=0",
                                    "/v1/jobs/a",
                                    "/v1/jobs/b",
                                    "/v1/jobs/a:stop",
                                    "/v1/jobs/a:cancel",
                                    "/v1/jobs/a/events?from=1-1",
                                    "/v1/jobs/a/events",
                                    "/v1/jobs/a/fingerprints?from=3",
                                    "/v1/jobs/a/audit/",
                                    "/v1/jobs/a/history?from=3&lineage=1&limit=2",
                                    "/v1/jobs/a/history?lineage=x",
                                    "/v1/jobs/a/ledger?from=3&limit=2&sample=7",
                                    "/v1/jobs/a/ledger?sample=-1",
                                    "/v1/jobs/a/digest?step=x",
                                    "/v1/jobs/a/digest",
                                    "/v1/jobs/a/checkpoint?file=%00/x&offset=1&bytes=9",
                                    "/metrics",
                                    "/healthz",
                                    "/readyz",
                                    "/",
                                    "/%61?%3d=+",
                                    "/v1/jobs/%2e%2e",
                                    "/v1/jobs//",
                                    "*",
                                    "http://localhost/v1/jobs"};
  return paths;
}
const std::vector<std::string>& Headers() {
  static const auto& headers = *new std::vector<std::string>{"Content-Length: 2",
                                                             "Content-Length: 0",
                                                             "Transfer-Encoding: chunked",
                                                             "Connection: close",
                                                             "Connection: keep-alive",
                                                             "Expect: 100-continue",
                                                             "Expect: x",
                                                             "Origin: http://localhost",
                                                             "Origin: http://evil",
                                                             "Host: evil",
                                                             "Last-Event-ID: 1-1",
                                                             "Content-Type: application/json",
                                                             "X: \x80",
                                                             " folded",
                                                             "Content-Length: +1",
                                                             "Content-Length: 1048577",
                                                             "X: " + std::string(1100, 'x'),
                                                             "Upgrade: h2c",
                                                             "Transfer-Encoding: gzip"};
  return headers;
}
const std::vector<std::string>& Words() {
  static const auto& words = *[] {
    auto* made = new std::vector<std::string>{"\r\n",
                                              "\n",
                                              "\r",
                                              "\r\n\r\n",
                                              " ",
                                              ":",
                                              "HTTP/1.0",
                                              "HTTP/1.1",
                                              "HTTP/2.0",
                                              "0\r\n\r\n",
                                              "5\r\nhello\r\n",
                                              "ffffffffffffffff",
                                              "%00",
                                              "%ff",
                                              "?",
                                              "&",
                                              "="};
    for (const auto* list : {&Methods(), &Paths(), &Headers()})
      made->insert(made->end(), list->begin(), list->end());
    return made;
  }();
  return words;
}

template <class List>
const std::string& OneOf(const List& list, Random& random) {
  return list[Below(random, list.size())];
}

std::string MakeRequest(Random& random) {
  std::string request = OneOf(Methods(), random) + " " + OneOf(Paths(), random) +
                        (Below(random, 8) == 0 ? " HTTP/1.0" : " HTTP/1.1") +
                        "\r\nHost: localhost\r\n";
  for (size_t headers = Below(random, 3); headers > 0; --headers)
    request += OneOf(Headers(), random) + "\r\n";
  request += "\r\n";
  if (request.find("chunked") != std::string::npos) return request + "2\r\n{}\r\n0\r\n\r\n";
  return request.find("Length: 2") == std::string::npos ? request : request + "{}";
}

std::string Make(Random& random) {
  const size_t server = Below(random, 8), piece = 1 + Below(random, kLongestPiece);
  std::string input(1, static_cast<char>(server == 0   ? kHasty
                                         : server == 1 ? kNarrow + piece
                                                       : piece));
  for (size_t requests = 1 + Below(random, 3); requests > 0; --requests)
    input += MakeRequest(random);
  if (server == 0) input.resize(1 + Below(random, input.size()));
  return input;
}

std::string Change(const std::string& input, Random& random) {
  if (input.empty()) return "";
  return input.substr(0, 1) + ChangedWords(std::string_view(input).substr(1), Words(), random);
}

const Form kForm = {Make, Change};

void ExpectAll() {
  Expect("status", {"100", "200", "400", "403", "404", "405", "408", "413", "431", "503"});
  Expect("content", {"application/json", "text/event-stream"});
  ExpectAtLeast("error", 20);
}

void ReachAnswer(const Answer& answer) {
  Reach("status", std::to_string(answer.status));
  constexpr std::string_view kType = "Content-Type: ";
  const size_t at = answer.head.find(kType);
  if (at == std::string::npos) return;
  const std::string type =
      answer.head.substr(at + kType.size(), answer.head.find('\r', at) - at - kType.size());
  Reach("content", type);
  if (type != "application/json" || answer.body.empty()) return;
  const auto json = nlohmann::json::parse(answer.body, nullptr, /*allow_exceptions=*/false);
  Check(!json.is_discarded(), "an answer is JSON");
  if (json.contains("error")) ReachError(json["error"]["message"].get<std::string>());
}

void Run(std::string_view input) {
  if (input.empty()) return;
  const size_t first = static_cast<uint8_t>(input[0]);
  input.remove_prefix(1);
  const bool is_narrow = first >= kNarrow;
  const ServerKind kind = first == kHasty ? ServerKind::kHasty
                          : is_narrow     ? ServerKind::kNarrow
                                          : ServerKind::kUsual;
  const MemoryLimit limit(kMostHeld + kMostHeldPerByte * input.size());
  const std::string answers = AnswersTo(input, 0, kind);
  for (const Answer& answer : Split(answers)) ReachAnswer(answer);
  const size_t piece = is_narrow ? first - kNarrow : first;
  if (piece > 0 && kind != ServerKind::kHasty)
    Check(AnswersTo(input, piece, kind) == answers, "the same however it is cut");
}

}  // namespace
}  // namespace muster::fuzz

MUSTER_FUZZ_TARGET(muster::fuzz::kForm, muster::fuzz::ExpectAll, muster::fuzz::Run);
