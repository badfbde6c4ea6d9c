// One call of a gRPC service, from the bytes that came to the bytes that are answered, and what all
// services of that kind share.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <memory>
#include <stop_token>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "coordinator/runtime/background.h"
#include "coordinator/runtime/once.h"
#include "coordinator/service/answer_size.h"
#include "coordinator/service/gate.h"
#include "coordinator/service/grpc/jobs_service.h"
#include "coordinator/service/grpc/late_writes.h"
#include "coordinator/service/grpc/messages.h"
#include "coordinator/service/grpc/refusal.h"
#include "lib/base/byte_room.h"
#include "lib/base/check.h"
#include "lib/base/mutex.h"
#include "lib/base/status.h"
#include "lib/transport/grpc/tls.h"

namespace muster {

// Of all clients that do not read, beyond what is small.
inline constexpr size_t kMostAnswerBytes = size_t{64} << 20;

// A request as it came. kResourceExhausted: it is too large, and is not parsed, as that may take
// many times its bytes.
template <class Request>
absl::StatusOr<Request> Read(const grpc::ByteBuffer& bytes) {
  if (bytes.Length() > kMostRequestBytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the request has ", bytes.Length(), " bytes, and ", kMostRequestBytes,
                     " are all that it may have; name directories instead of many files"));
  }
  Request request;
  grpc::ByteBuffer taken = bytes;
  if (!grpc::SerializationTraits<Request>::Deserialize(&taken, &request).ok())
    return absl::InvalidArgumentError(absl::StrCat("the request is no ", request.GetTypeName()));
  return request;
}

template <class Message>
grpc::ByteBuffer Written(const Message& message) {
  grpc::ByteBuffer bytes;
  bool own = false;
  const grpc::Status status = grpc::SerializationTraits<Message>::Serialize(message, &bytes, &own);
  MUSTER_CHECK(status.ok(), "(a message of our own can be written)");
  return bytes;
}

// A call that another thread may cancel while gRPC has it.
class CallInGrpc {
 public:
  explicit CallInGrpc(grpc::CallbackServerContext* context) : context_(context) {}

  // gRPC calls nobody back on this thread, so none of its calls meets our lock.
  void Cancel() {
    const MutexLock lock(mutex_);
    if (context_ != nullptr) context_->TryCancel();
  }
  void Done() {
    const MutexLock lock(mutex_);
    context_ = nullptr;
  }

 private:
  Mutex mutex_;
  grpc::CallbackServerContext* context_ ABSL_GUARDED_BY(mutex_);
};

// One call with one answer. gRPC is done with it when the answer has been taken, or the client is
// gone, or it has not taken the answer for too long.
class Call final : public grpc::ServerUnaryReactor {
 public:
  Call(grpc::CallbackServerContext* context, grpc::ByteBuffer* response, ByteCount answers,
       coordinator::Background& large_answers, LateWrites& late_writes)
      : context_(context),
        response_(response),
        answers_(std::move(answers)),
        large_answers_(large_answers),
        late_writes_(late_writes),
        in_grpc_(std::make_shared<CallInGrpc>(context)) {}

  // Takes room for an answer of about so many bytes, before it is made. False: there is none.
  bool Reserve(size_t bytes) {
    const MutexLock lock(mutex_);
    return FitAnswer(room_, answers_, bytes, kMostAnswerBytes);
  }
  coordinator::Background& large_answers() { return large_answers_; }

  // One of both, once.
  template <class Response>
  void Answer(const Response& response) {
    if (!Reserve(response.ByteSizeLong())) return Refuse(absl::UnavailableError(kNoRoomForAnswer));
    *response_ = Written(response);
    End(grpc::Status::OK);
  }
  void Refuse(const absl::Status& why) {
    {
      const MutexLock lock(mutex_);
      room_.reset();
    }
    const Refusal refusal = RefusalOf(why);
    if (!refusal.field.empty()) context_->AddTrailingMetadata(kFieldMetadata, refusal.field);
    End(refusal.status);
  }

  void OnDone() override {
    in_grpc_->Done();
    {
      const MutexLock lock(mutex_);  // as it may have been answered on another thread
      write_.reset();
      room_.reset();
    }
    delete this;
  }

 private:
  void End(const grpc::Status& status) {
    {
      const MutexLock lock(mutex_);
      write_ = late_writes_.Begin([call = in_grpc_] { call->Cancel(); });
    }
    Finish(status);
  }

  grpc::CallbackServerContext* const context_;
  grpc::ByteBuffer* const response_;
  const ByteCount answers_;
  coordinator::Background& large_answers_;
  LateWrites& late_writes_;
  const std::shared_ptr<CallInGrpc> in_grpc_;
  Mutex mutex_;
  // Null: none is needed, or none was reserved.
  std::unique_ptr<ByteRoom> room_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<LateWrites::Write> write_ ABSL_GUARDED_BY(mutex_);  // null until it is answered
};

// One answer of the api becomes the end of one call. A large one has its room before it is made,
// and is made on another thread, as gRPC has few; what waits for that is bounded by the room.
template <class Response, class T>
JobApi::Reply<T> AnswerOf(Call* call) {
  const auto make = [call](const absl::StatusOr<T>& answer) {
    if (!answer.ok()) return call->Refuse(answer.status());
    Response response;
    Fill(*answer, response);
    call->Answer(response);
  };
  return [call, make](absl::StatusOr<T> answer) {
    const size_t bytes = answer.ok() ? coordinator::AboutBytesOf(*answer) : 0;
    if (bytes <= kSmallAnswerBytes) return make(answer);
    if (!call->Reserve(bytes)) return call->Refuse(absl::UnavailableError(kNoRoomForAnswer));
    const auto once = coordinator::Once<T>(make);
    call->large_answers().Run(
        [once, answer = std::move(answer)](const std::stop_token&) { once(answer); });
  };
}

// All methods take the bytes as they came, and look at their number first.
template <class Base, template <class> class... Methods>
struct Stacked {
  using Type = Base;
};
template <class Base, template <class> class First, template <class> class... Others>
struct Stacked<Base, First, Others...> {
  using Type = First<typename Stacked<Base, Others...>::Type>;
};
// What a service of either kind is: `Raw` is its methods, `Api` what answers them.
template <class Raw, class Api>
class CallsTo : public Raw {
 public:
  CallsTo(Api& api, const Clock& clock, coordinator::Background& large_answers, JobsWaiting waiting,
          coordinator::Gate* gate)
      : api_(api),
        large_answers_(large_answers),
        waiting_(std::move(waiting)),
        gate_(gate),
        late_writes_(clock, waiting_.writes) {}

 protected:
  using Bytes = grpc::ByteBuffer;
  using Context = grpc::CallbackServerContext;
  using Unary = grpc::ServerUnaryReactor;

  using Caller = coordinator::Caller;

  // `ask` is given the request, who asks, and the call, which it answers once. `method` as in
  // coordinator::kMethods.
  template <class Request, class Asking>
  Unary* Ask(const char* method, Context* context, const Bytes* request, Bytes* response,
             const Asking& ask) {
    Call* call = new Call(context, response, waiting_.answers, large_answers_, late_writes_);
    const absl::StatusOr<std::pair<Request, Caller>> asked =
        LetIn<Request>(method, *context, *request);
    if (asked.ok()) {
      ask(asked->first, asked->second, call);
    } else {
      call->Refuse(asked.status());
    }
    return call;
  }
  // Nothing of a request is read of whoever may not call at all. What submits a job enters once its
  // specification is read.
  template <class Request>
  absl::StatusOr<std::pair<Request, Caller>> LetIn(const char* method, const Context& context,
                                                   const Bytes& request) {
    if (gate_ == nullptr) {
      MUSTER_ASSIGN_OR_RETURN(Request asked, Read<Request>(request));
      return std::pair(std::move(asked), coordinator::Anybody());
    }
    const coordinator::MethodRights* rights = coordinator::RightsOfMethod(method);
    MUSTER_CHECK(rights != nullptr, "(a method has rights)");
    const coordinator::CallOrigin origin = OriginOf(method, context);
    MUSTER_ASSIGN_OR_RETURN(Caller caller, gate_->Look(*rights, origin));
    MUSTER_ASSIGN_OR_RETURN(Request asked, Read<Request>(request));
    if (rights->need == coordinator::Need::kSubmit) return std::pair(std::move(asked), caller);
    std::string object;
    if constexpr (requires { asked.id(); }) object = asked.id();
    if constexpr (requires { asked.name(); }) object = asked.name();
    MUSTER_ASSIGN_OR_RETURN(caller, gate_->Enter(*rights, origin, object));
    return std::pair(std::move(asked), std::move(caller));
  }
  static coordinator::CallOrigin OriginOf(const char* method, const Context& context) {
    std::string authorization;
    const auto [first, last] = context.client_metadata().equal_range("authorization");
    for (auto it = first; it != last; ++it)  // several are no token
      absl::StrAppend(&authorization, authorization.empty() ? "" : ", ",
                      absl::string_view(it->second.data(), it->second.size()));
    coordinator::CallOrigin origin{authorization, AddressInPeer(context.peer()), method};
    const absl::StatusOr<CertificateContent> shown = CertificateOfCall(*context.auth_context());
    if (shown.ok()) origin.certificate = {shown->name, shown->token};
    return origin;
  }
  coordinator::Gate* gate() { return gate_; }
  Api& api() { return api_; }
  const JobsWaiting& waiting() const { return waiting_; }
  LateWrites& late_writes() { return late_writes_; }

 private:
  Api& api_;
  coordinator::Background& large_answers_;
  const JobsWaiting waiting_;
  coordinator::Gate* const gate_;
  LateWrites late_writes_;
};

}  // namespace muster
