#include "lib/http/in_process.h"

#include <memory>
#include <utility>

#include "lib/http/responder.h"
#include "lib/http/target.h"

namespace muster::http {
namespace {

class ClosedStream final : public EventStream {
 public:
  bool Send(absl::string_view, absl::string_view, absl::string_view) override { return false; }
  void Close() override {}
  bool closed() const override { return true; }
};

class AnswerKept final : public Responder::Answer {
 public:
  explicit AnswerKept(std::shared_ptr<Response> kept) : kept_(std::move(kept)) {}
  bool Reserve(size_t) override { return true; }

 private:
  void Deliver(Response response) override { *kept_ = std::move(response); }
  std::shared_ptr<EventStream> Begin() override { return std::make_shared<ClosedStream>(); }

  const std::shared_ptr<Response> kept_;
};

}  // namespace

Response AnswerInProcess(const Router& router, const std::string& method, absl::string_view target,
                         const std::string& body) {
  absl::StatusOr<Target> parsed = ParseTarget(target);
  if (!parsed.ok()) return ErrorResponse(parsed.status());
  Request request;
  request.method = method;
  request.path = std::move(parsed->path);
  request.query = std::move(parsed->query);
  request.body = body;
  Router::Found found = router.Find(request.method, request.path);
  if (std::optional<Response> refusal = WhyNot(request, found)) return *std::move(refusal);
  request.params = std::move(found.params);
  const auto kept = std::make_shared<Response>(NoAnswer());
  (*found.handler)(std::move(request), Responder(std::make_shared<AnswerKept>(kept)));
  return *kept;
}

}  // namespace muster::http
