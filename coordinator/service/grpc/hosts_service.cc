#include <memory>

#include "coordinator/service/grpc/call.h"
#include "coordinator/service/grpc/jobs_service.h"
#include "muster/v1/control.grpc.pb.h"

namespace muster {
namespace {

using H = v1::Hosts;
using RawHosts = Stacked<H::Service, H::WithRawCallbackMethod_List, H::WithRawCallbackMethod_Get,
                         H::WithRawCallbackMethod_Drain, H::WithRawCallbackMethod_Undrain>::Type;

class HostsService final : public CallsTo<RawHosts, HostApi> {
 public:
  using CallsTo::CallsTo;

 private:
  Unary* List(Context* context, const Bytes* request, Bytes* response) override {
    return Ask<v1::ListHostsRequest>(
        "muster.v1.Hosts.List", context, request, response,
        [this](const v1::ListHostsRequest& asked, const Caller& caller, Call* call) {
          api().List({asked.limit(), asked.page_token(), caller.scope},
                     AnswerOf<v1::ListHostsResponse, HostPage>(call));
        });
  }
  Unary* Get(Context* context, const Bytes* request, Bytes* response) override {
    return Ask<v1::HostRequest>(
        "muster.v1.Hosts.Get", context, request, response,
        [this](const v1::HostRequest& asked, const Caller& caller, Call* call) {
          api().Get(asked.name(), caller.scope, AnswerOf<v1::Host, HostInfo>(call));
        });
  }
  Unary* Drain(Context* context, const Bytes* request, Bytes* response) override {
    return Drain("muster.v1.Hosts.Drain", context, request, response, true);
  }
  Unary* Undrain(Context* context, const Bytes* request, Bytes* response) override {
    return Drain("muster.v1.Hosts.Undrain", context, request, response, false);
  }

  Unary* Drain(const char* method, Context* context, const Bytes* request, Bytes* response,
               bool on) {
    return Ask<v1::HostRequest>(
        method, context, request, response,
        [this, on](const v1::HostRequest& asked, const Caller&, Call* call) {
          api().Drain(asked.name(), on, AnswerOf<v1::Host, HostInfo>(call));
        });
  }
};

}  // namespace

std::shared_ptr<grpc::Service> MakeHostsService(HostApi& api, const Clock& clock,
                                                coordinator::Background& large_answers,
                                                const JobsWaiting& waiting,
                                                coordinator::Gate* gate) {
  return std::make_shared<HostsService>(api, clock, large_answers, waiting, gate);
}

}  // namespace muster
