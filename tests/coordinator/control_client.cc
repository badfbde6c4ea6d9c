#include "tests/coordinator/control_client.h"

#include <google/protobuf/util/json_util.h>
#include <grpcpp/create_channel.h>

#include <algorithm>
#include <cctype>

#include "absl/status/status.h"
#include "coordinator/service/grpc/refusal.h"
#include "lib/http/client.h"
#include "lib/wire/job_codec.h"
#include "lib/wire/job_codec_proto.h"
#include "muster/v1/control.grpc.pb.h"
#include "nlohmann/json.hpp"

namespace muster::coordinator {
namespace {

using Json = nlohmann::json;

Answer FromJson(const absl::StatusOr<http::Response>& response) {
  Answer answer;
  if (!response.ok())
    return {.code = "transport", .message = std::string(response.status().message())};
  const Json json = Json::parse(response->body, nullptr, false);
  if (!json.is_object()) return {.code = "no JSON", .message = response->body};
  if (const auto error = json.find("error"); error != json.end())
    return {.code = error->value("code", ""),
            .message = error->value("message", ""),
            .field = error->value("field", "")};
  if (response->status >= 300) return {.code = "an error without its JSON"};
  answer.id = json.value("id", "");
  answer.state = json.value("state", "");
  answer.created = response->status == 201;
  answer.next_page_token = json.value("next_page_token", "");
  if (const auto jobs = json.find("jobs"); jobs != json.end())
    for (const Json& job : *jobs) answer.ids.push_back(job.value("id", ""));
  return answer;
}

class RestClient final : public ControlClient {
 public:
  explicit RestClient(const std::string& http) : url_("http://" + http + "/v1/jobs") {}
  Answer Submit(const std::string& id, const std::string& spec) override {
    Json body = {{"spec", Json::parse(spec)}};
    if (!id.empty()) body["id"] = id;
    return FromJson(http::Post(url_, body.dump()));
  }
  Answer Get(const std::string& id) override { return FromJson(http::Get(url_ + "/" + id)); }
  using ControlClient::List;
  Answer List(int64_t limit, const std::string& page_token, const std::string& state) override {
    std::string query = "?";
    if (limit != 0) query += "limit=" + std::to_string(limit) + "&";
    if (!page_token.empty()) query += "page_token=" + page_token + "&";
    if (!state.empty()) query += "state=" + state + "&";
    query.pop_back();
    return FromJson(http::Get(url_ + query));
  }
  Answer Delete(const std::string& id) override { return FromJson(http::Delete(url_ + "/" + id)); }
  Answer Cancel(const std::string& id) override {
    return FromJson(http::Post(url_ + "/" + id + ":cancel", ""));
  }
  Answer Stop(const std::string& id) override {
    return FromJson(http::Post(url_ + "/" + id + ":stop", ""));
  }
  Answer Fingerprints(const std::string& id) override {
    return FromJson(http::Get(url_ + "/" + id + "/fingerprints"));
  }
  Answer Audit(const std::string& id) override {
    return FromJson(http::Get(url_ + "/" + id + "/audit"));
  }
  Answer Digest(const std::string& id) override {
    return FromJson(http::Get(url_ + "/" + id + "/digest"));
  }
  std::vector<std::string> WatchUntil(const std::string& id, const std::string& after,
                                      const std::string& event, Answer& answer) override {
    std::vector<std::string> events;
    const absl::Status status = http::StreamEvents(url_ + "/" + id + "/events",
                                                   [&](const http::Event& e) {
                                                     events.push_back(e.name);
                                                     return e.name != event;
                                                   },
                                                   {.last_event_id = after});
    if (status.ok()) return events;
    answer.code = absl::StatusCodeToString(status.code());
    std::transform(answer.code.begin(), answer.code.end(), answer.code.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    answer.message = std::string(status.message());
    return events;
  }

 private:
  const std::string url_;
};

class GrpcClient final : public ControlClient {
 public:
  explicit GrpcClient(const std::string& address)
      : stub_(v1::Jobs::NewStub(
            grpc::CreateChannel("ipv4:" + address, grpc::InsecureChannelCredentials()))) {}

  Answer Submit(const std::string& id, const std::string& spec) override {
    v1::SubmitRequest request;
    request.set_id(id);
    const auto parsed = google::protobuf::util::JsonStringToMessage(spec, request.mutable_spec());
    if (!parsed.ok()) return {.code = "invalid_argument", .message = "not a JobSpec"};
    v1::SubmitResponse response;
    Answer answer = Call(&v1::Jobs::Stub::Submit, request, response);
    answer.id = response.job().id();
    answer.state = response.job().state();
    answer.created = response.created();
    return answer;
  }
  Answer Get(const std::string& id) override { return JobCall(&v1::Jobs::Stub::Get, id); }
  Answer Cancel(const std::string& id) override { return JobCall(&v1::Jobs::Stub::Cancel, id); }
  Answer Stop(const std::string& id) override { return JobCall(&v1::Jobs::Stub::Stop, id); }
  Answer Delete(const std::string& id) override { return JobCall(&v1::Jobs::Stub::Delete, id); }
  using ControlClient::List;
  Answer List(int64_t limit, const std::string& page_token, const std::string& state) override {
    v1::ListRequest request;
    request.set_limit(limit);
    request.set_page_token(page_token);
    request.set_state(state);
    v1::ListResponse response;
    Answer answer = Call(&v1::Jobs::Stub::List, request, response);
    answer.next_page_token = response.next_page_token();
    for (const v1::Job& job : response.jobs()) answer.ids.push_back(job.id());
    return answer;
  }
  Answer Fingerprints(const std::string& id) override {
    v1::FingerprintsRequest request;
    request.set_id(id);
    v1::FingerprintsResponse response;
    return Call(&v1::Jobs::Stub::Fingerprints, request, response);
  }
  Answer Audit(const std::string& id) override {
    v1::AuditResponse response;
    return Call(&v1::Jobs::Stub::Audit, Request(id), response);
  }
  Answer Digest(const std::string& id) override {
    v1::DigestRequest request;
    request.set_id(id);
    v1::DigestResponse response;
    return Call(&v1::Jobs::Stub::Digest, request, response);
  }
  std::vector<std::string> WatchUntil(const std::string& id, const std::string& after,
                                      const std::string& event, Answer& answer) override {
    grpc::ClientContext context;
    v1::WatchRequest request;
    request.set_id(id);
    request.set_after(after);
    const auto reader = stub_->Watch(&context, request);
    std::vector<std::string> events;
    for (v1::JobEvent next; reader->Read(&next);) {
      events.push_back(next.event());
      if (next.event() == event) context.TryCancel();
    }
    const grpc::Status status = reader->Finish();
    if (events.empty() || events.back() != event) answer = FromStatus(status, context);
    return events;
  }

 private:
  template <class Req, class Res>
  using Method = grpc::Status (v1::Jobs::Stub::*)(grpc::ClientContext*, const Req&, Res*);

  static v1::JobRequest Request(const std::string& id) {
    v1::JobRequest request;
    request.set_id(id);
    return request;
  }
  static Answer FromStatus(const grpc::Status& status, const grpc::ClientContext& context) {
    Answer answer;
    answer.code = absl::StatusCodeToString(static_cast<absl::StatusCode>(status.error_code()));
    std::transform(answer.code.begin(), answer.code.end(), answer.code.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    answer.message = status.error_message();
    const auto& trailing = context.GetServerTrailingMetadata();
    if (const auto field = trailing.find(kFieldMetadata); field != trailing.end())
      answer.field = std::string(field->second.data(), field->second.size());
    return answer;
  }
  template <class Req, class Res>
  Answer Call(Method<Req, Res> method, const Req& request, Res& response) {
    grpc::ClientContext context;
    const grpc::Status status = (stub_.get()->*method)(&context, request, &response);
    return FromStatus(status, context);
  }
  Answer JobCall(Method<v1::JobRequest, v1::Job> method, const std::string& id) {
    v1::Job response;
    Answer answer = Call(method, Request(id), response);
    answer.id = response.id();
    answer.state = response.state();
    return answer;
  }

  const std::unique_ptr<v1::Jobs::Stub> stub_;
};

}  // namespace

std::unique_ptr<ControlClient> MakeRestClient(const std::string& http) {
  return std::make_unique<RestClient>(http);
}
std::unique_ptr<ControlClient> MakeGrpcClient(const std::string& grpc) {
  return std::make_unique<GrpcClient>(grpc);
}

}  // namespace muster::coordinator
