// Answers requests of this very process, without a socket: the routes that a server would serve,
// for a program that has what stands behind them at hand.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "lib/http/message.h"
#include "lib/http/router.h"

namespace muster::http {

// `target` as in a request line: "/v1/jobs/a/audit?step=4". Every handler answers before it
// returns, and none with a stream of events; where one does not the answer is 500.
Response AnswerInProcess(const Router& router, const std::string& method, absl::string_view target,
                         const std::string& body = "");

}  // namespace muster::http
