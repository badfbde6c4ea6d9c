#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <chrono>
#include <deque>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "echo.grpc.pb.h"
#include "lib/transport/grpc/given_sockets.h"
#include "tests/lib/http/raw_client.h"
#include "tests/lib/transport/grpc_world.h"
#include "tests/lib/transport/http2_words.h"
#include "tests/support/generic_call.h"

namespace muster {
namespace {

class EchoService final : public test::Echo::CallbackService {
 public:
  grpc::ServerUnaryReactor* Say(grpc::CallbackServerContext* context, const test::Text* request,
                                test::Text* response) override {
    *response = *request;
    auto* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

  grpc::ServerWriteReactor<test::Text>* SayThrice(grpc::CallbackServerContext* context,
                                                  const test::Text* request) override {
    {
      MutexLock lock(mutex_);
      streamed_to_.insert(context->peer());
    }
    // Says that it has begun, and nothing else.
    class Begun final : public grpc::ServerWriteReactor<test::Text> {
     public:
      Begun() { StartSendInitialMetadata(); }
      void OnCancel() override { Finish(grpc::Status::CANCELLED); }
      void OnDone() override { delete this; }
    };
    if (request->text() == "begin only") return new Begun;
    class Thrice final : public grpc::ServerWriteReactor<test::Text> {
     public:
      explicit Thrice(test::Text text) : text_(std::move(text)) { StartWrite(&text_); }
      void OnWriteDone(bool ok) override {
        if (ok && ++written_ < 3) return StartWrite(&text_);
        Finish(grpc::Status::OK);
      }
      void OnDone() override { delete this; }

     private:
      const test::Text text_;
      int written_ = 0;
    };
    return new Thrice(*request);
  }

  // The connections that asked for a stream.
  std::set<std::string> streamed_to() {
    MutexLock lock(mutex_);
    return streamed_to_;
  }

 private:
  Mutex mutex_;
  std::set<std::string> streamed_to_ ABSL_GUARDED_BY(mutex_);
};

class ServicesBesideSessions : public GrpcPair {
 protected:
  std::vector<grpc::Service*> Services() override { return {&echo_}; }

  std::shared_ptr<grpc::Channel> Channel() {
    return grpc::CreateChannel(listener_->Address(), grpc::InsecureChannelCredentials());
  }

  EchoService echo_;
};

TEST_F(ServicesBesideSessions, ATypedServiceAnswersOnTheSamePort) {
  auto stub = test::Echo::NewStub(Channel());
  test::Text request;
  request.set_text("same port");
  test::Text response;
  grpc::ClientContext context;
  const grpc::Status status = stub->Say(&context, request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.text(), "same port");
  ExpectUndisturbed();
}

TEST_F(ServicesBesideSessions, WhoIsAnsweredMayAskOn) {
  auto stub = test::Echo::NewStub(Channel());
  test::Text request;
  request.set_text(std::string(kMostOfRequests / 4, 'x'));
  for (int i = 0; i < 20; ++i) {
    test::Text response;
    grpc::ClientContext context;
    const grpc::Status status = stub->Say(&context, request, &response);
    ASSERT_TRUE(status.ok()) << i << ": " << status.error_message();
  }
}

// As a program of another version may: it is told so, however often, and its connection stays.
TEST_F(ServicesBesideSessions, WhoAsksForAMethodThatIsNotServedIsToldSoEachTime) {
  const auto channel = Channel();
  for (int i = 0; i < 3 * kMostSessionsOfConnection; ++i) {
    const grpc::Status status = CallGenerically(channel, "/test.Echo/Other", "").status;
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED)
        << "call " << i << " of a method that is not served";
    EXPECT_THAT(status.error_message(), testing::HasSubstr("/test.Echo/Other"));
  }
  auto echo = test::Echo::NewStub(channel);
  test::Text text;
  grpc::ClientContext context;
  EXPECT_TRUE(echo->Say(&context, text, &text).ok());
}

// More of them than calls may be left before their answers. A client whose connection is closed
// goes on with another one by itself, so the connections are counted.
TEST_F(ServicesBesideSessions, AStreamThatHasBegunCountsAsAnsweredBeforeItsFirstMessage) {
  auto stub = test::Echo::NewStub(Channel());
  for (int i = 0; i < kMostCallsInVain + 10; ++i) {
    test::Text request;
    request.set_text("begin only");
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kPatience);
    auto stream = stub->SayThrice(&context, request);
    stream->WaitForInitialMetadata();
    context.TryCancel();
    ASSERT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED)
        << "call " << i << " was not begun";
  }
  EXPECT_EQ(echo_.streamed_to().size(), 1u) << "the connection was closed";
}

// Nothing else closes it: each ping is answered as long as the connection stands.
TEST_F(ServicesBesideSessions, WhoLeavesCallsBeforeTheyHaveAMessageIsClosed) {
  constexpr size_t kPings = 5000;
  const std::string ping = Http2Frame(kPing, 0, 0, "stillup!");
  http::RawClient hasty(listener_->Address());
  hasty.Send(CallsThatAreLeft("/test.Echo/Say", 400));
  bool stands = true;
  for (size_t i = 0; i < kPings && stands; ++i)
    stands = hasty.Send(ping) && hasty.ReadUntil("stillup!").ends_with("stillup!");
  EXPECT_FALSE(stands) << "400 calls that nobody waits for";
  ExpectUndisturbed();
}

// Whether their answers went out before their callers left cannot be told for each, so the streams
// are counted. All of this is fewer bytes than a stranger may bring.
TEST_F(ServicesBesideSessions, WhoLeavesCallsWithTheirMessagesBeforeTheAnswersIsClosed) {
  const std::string message("\0\0\0\0\0", 5);
  for (const std::string method : {"/test.Echo/Say", "/test.Echo/SayThrice"}) {
    const std::string words = CallsThatAreLeft(method, 4000, message);
    ASSERT_LT(words.size(), kMostOfStranger + kMostOfRequests);
    http::RawClient hasty(listener_->Address());
    hasty.Send(words);  // it may be closed before the last of them
    EXPECT_TRUE(hasty.AwaitClosed()) << "4000 calls of " << method << " that nobody waits for";
    ExpectUndisturbed();
  }
}

// Each leaves fewer than one connection may. Those that nobody has left are untouched.
TEST_F(ServicesBesideSessions, WhoLeavesCallsOnManyConnectionsIsClosed) {
  const auto channel = Channel();
  auto stub = test::Echo::NewStub(channel);
  const auto ask = [&] {
    test::Text text;
    grpc::ClientContext context;
    return stub->Say(&context, text, &text);
  };
  ASSERT_TRUE(ask().ok());
  const std::string message("\0\0\0\0\0", 5);
  std::deque<http::RawClient> clients;
  bool closes = false;
  for (int i = 0; i < 200 && !closes; ++i) {
    http::RawClient& client = clients.emplace_back(listener_->Address());
    client.Send(CallsThatAreLeft("/test.Echo/Say", 200, message) +
                Http2Frame(kPing, 0, 0, "stillup!"));
    closes = !client.ReadUntil("stillup!").ends_with("stillup!");
    // As long as it stands, what it left may be counted at the next look.
    for (int ping = 0; ping < 100 && !closes; ++ping)
      closes = !client.Send(Http2Frame(kPing, 0, 0, "stillup!")) ||
               !client.ReadUntil("stillup!").ends_with("stillup!");
  }
  EXPECT_TRUE(closes) << "40,000 calls that nobody waits for";
  EXPECT_TRUE(ask().ok());
  ExpectUndisturbed();
}

// Many at a time, as many as a connection may have.
TEST_F(ServicesBesideSessions, WhoWaitsForAnswersMayAskWithoutEnd) {
  const auto channel = Channel();
  auto stub = test::Echo::NewStub(channel);
  std::vector<std::thread> askers;
  for (int asker = 0; asker < 8; ++asker)
    askers.emplace_back([&] {
      for (int i = 0; i < 500; ++i) {
        test::Text text;
        grpc::ClientContext context;
        EXPECT_TRUE(stub->Say(&context, text, &text).ok()) << "call " << i;
      }
    });
  for (std::thread& asker : askers) asker.join();
}

TEST_F(ServicesBesideSessions, ATypedServiceStreams) {
  auto stub = test::Echo::NewStub(Channel());
  test::Text request;
  request.set_text("again");
  grpc::ClientContext context;
  auto stream = stub->SayThrice(&context, request);
  int received = 0;
  for (test::Text text; stream->Read(&text); ++received) EXPECT_EQ(text.text(), "again");
  EXPECT_EQ(received, 3);
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(ServicesBesideSessions, HealthSaysServing) {
  const GenericAnswer answer = CallGenerically(Channel(), "/grpc.health.v1.Health/Check", "");
  ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  EXPECT_EQ(answer.bytes, "\x08\x01") << "HealthCheckResponse{status: SERVING}";
}

}  // namespace
}  // namespace muster
