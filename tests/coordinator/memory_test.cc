// What strangers say to the real program takes little of its memory and of its log, and it serves
// meanwhile.
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>
#include <unistd.h>

#include <deque>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/base/frame_limits.h"
#include "lib/base/printable.h"
#include "lib/http/client.h"
#include "lib/transport/grpc/grpc_transport.h"
#include "muster/v1/control.pb.h"
#include "nlohmann/json.hpp"
#include "tests/coordinator/control_client.h"
#include "tests/coordinator/program.h"
#include "tests/coordinator/runtime/scripted_member.h"
#include "tests/lib/http/raw_client.h"
#include "tests/lib/transport/http2_words.h"

namespace muster::coordinator {
namespace {

using http::RawClient;
using ::testing::HasSubstr;

constexpr size_t kMiB = size_t{1} << 20;
constexpr char kSpec[] =
    R"({"name":"count","task":"counting","lanes":2,"batch":5,"epochs":1,"reduction":"sum",)"
    R"("data":{"samples":10},"optimizer":{"kind":"sgd","learning_rate":1}})";

// The most memory that the process has had at once, in bytes.
size_t MostMemory(pid_t pid) {
  std::ifstream status(absl::StrCat("/proc/", pid, "/status"));
  for (std::string line; std::getline(status, line);) {
    absl::string_view text = line;
    size_t kib = 0;
    if (!absl::StartsWith(text, "VmHWM:")) continue;
    text.remove_prefix(6);
    if (absl::EndsWith(text, " kB")) text.remove_suffix(3);
    if (absl::SimpleAtoi(text, &kib)) return kib * 1024;
  }
  ADD_FAILURE() << "the memory of process " << pid << " cannot be read";
  return 0;
}

class AStranger : public ::testing::Test {
 protected:
  ~AStranger() override {
    program_.Kill();
    std::filesystem::remove_all(dir_);
    std::filesystem::remove(dir_ + ".log");
  }
  void SetUp() override {
    ASSERT_TRUE(program_.listens());
    ASSERT_TRUE(Healthy());
    before_ = MostMemory(program_.pid());
  }
  // What the strangers cost, once they have had their say.
  void ExpectCost(size_t most_bytes) {
    EXPECT_TRUE(Healthy());
    const size_t cost = MostMemory(program_.pid()) - before_;
    RecordProperty("MiB", static_cast<int>(cost / kMiB));
    EXPECT_LT(cost, most_bytes);
    EXPECT_LT(std::filesystem::file_size(dir_ + ".log"), kMiB);
  }
  bool Healthy() const {
    const auto answer = http::Get(program_.Url("/healthz"));
    return answer.ok() && answer->status == 200;
  }

  static std::string NewDirectory() {
    const std::string dir = ::testing::TempDir() + "memory-" + std::to_string(getpid());
    std::filesystem::remove_all(dir);
    return dir;
  }

  const std::string dir_ = NewDirectory();
  Program program_{dir_};
  size_t before_ = 0;
};

// About 700 KB each.
std::string LongNameAboveManyValues() {
  std::string text = absl::StrCat("{\"", std::string(300'000, 'k'), "\":[0");
  for (int i = 0; i < 200'000; ++i) text += ",0";
  return text + "]}";
}
std::string DeeplyNested() { return std::string(400'000, '[') + std::string(400'000, ']'); }
std::string ManyFields() {
  std::string text = "{";
  for (int i = 0; i < 60'000; ++i) absl::StrAppend(&text, i == 0 ? "" : ",", "\"f", i, "\":0");
  return text + "}";
}
// As a foreign gRPC client: one message, larger than any that is allowed, in full.
grpc::Status SendOneMessage(const std::string& address, const std::string& method, size_t mebi) {
  grpc::GenericStub stub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  auto stream = stub.PrepareCall(&context, method, &queue);
  void* tag = nullptr;
  bool ok = false;
  grpc::Status status;
  stream->StartCall(nullptr);
  queue.Next(&tag, &ok);
  static const std::string part(kMiB, 'x');  // gRPC reads it as long as it likes
  const std::vector<grpc::Slice> parts(
      mebi, grpc::Slice(part.data(), part.size(), grpc::Slice::STATIC_SLICE));
  stream->Write(grpc::ByteBuffer(parts.data(), parts.size()), nullptr);
  queue.Next(&tag, &ok);
  stream->Finish(&status, nullptr);
  queue.Next(&tag, &ok);
  queue.Shutdown();
  while (queue.Next(&tag, &ok)) {
  }
  return status;
}
constexpr char kOddLetters[] = R"({"\u00e9":1,"\u001b[31m":2})";

TEST_F(AStranger, WhoSubmitsWhatIsNoJobIsToldSoAndCostsLittle) {
  for (const std::string& odd :
       {LongNameAboveManyValues(), DeeplyNested(), ManyFields(), std::string(kOddLetters)})
    for (const std::string& spec : {odd, absl::StrCat("{\"parameters\":", odd, "}")}) {
      const auto answer = http::Post(program_.Url("/v1/jobs"),
                                     absl::StrCat("{\"id\":\"odd\",\"spec\":", spec, "}"));
      ASSERT_TRUE(answer.ok()) << answer.status();
      EXPECT_EQ(answer->status, 400) << answer->body.substr(0, 1000);
      const auto body = nlohmann::json::parse(answer->body, nullptr, false);
      ASSERT_TRUE(body.is_object() && body.contains("error")) << answer->body.substr(0, 1000);
      EXPECT_LE(body["error"].value("message", "").size(), kMostShownBytes);
      EXPECT_LE(body["error"].value("field", "").size(), kMostShownBytes);
    }
  const auto grpc = MakeGrpcClient(program_.grpc());
  const std::string long_name = absl::StrCat("{\"", std::string(700'000, 'k'), "\":0}");
  for (const std::string& odd : {long_name, ManyFields(), std::string(kOddLetters)}) {
    const Answer answer = grpc->Submit("odd", absl::StrCat("{\"parameters\":", odd, "}"));
    EXPECT_EQ(answer.code, "invalid_argument");
    EXPECT_LE(answer.message.size(), kMostShownBytes);
    EXPECT_LE(answer.field.size(), kMostShownBytes);
    EXPECT_NE(answer.message, "not a JobSpec") << "it was not sent";
  }
  ExpectCost(96 * kMiB);
}

TEST_F(AStranger, WhoseBodiesNeverEndCostNoMoreThanTheirConnectionsMayHold) {
  std::deque<RawClient> clients;
  const std::string half(kMiB / 2, ' ');
  for (int i = 0; i < 50; ++i) {
    clients.emplace_back(program_.http());
    clients.back().Send(
        "POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n");
    clients.back().Send(half);
  }
  ExpectCost(64 * kMiB);
}

// About as long as a body may be, and valid.
std::string LargeSubmission(const std::string& id) {
  return absl::StrCat(R"({"id":")", id,
                      R"(","spec":{"name":"large","task":"code-lm","lanes":2,"batch":2,"epochs":1,)"
                      R"("data":{"paths":["/)",
                      std::string(950'000, 'x'),
                      R"("]},"optimizer":{"kind":"sgd","learning_rate":1}}})");
}

// What is accepted stays, also after a restart, until somebody deletes it.
TEST_F(AStranger, WhoseJobsAreAcceptedFillsNoMoreThanAllJobsMay) {
  int accepted = 0, refused = 0;
  std::string why;
  for (int i = 0; i < 200; ++i) {
    const auto answer =
        http::Post(program_.Url("/v1/jobs"), LargeSubmission(absl::StrCat("large", i)));
    ASSERT_TRUE(answer.ok()) << answer.status();
    accepted += answer->status == 201 ? 1 : 0;
    refused += answer->status == 429 ? 1 : 0;
    if (answer->status == 429) why = answer->body;
  }
  EXPECT_EQ(accepted + refused, 200);
  EXPECT_GT(accepted, 50);
  EXPECT_GT(refused, 100) << "all jobs together are bounded";
  EXPECT_THAT(why, HasSubstr("`muster delete JOB`"));
  ExpectCost(320 * kMiB);
}

TEST_F(AStranger, WhoAsksForLargeAnswersAndReadsNoneCostsNoMoreThanAllAnswersMay) {
  for (const char* id : {"a", "b"}) {
    const auto answer = http::Post(program_.Url("/v1/jobs"), LargeSubmission(id));
    ASSERT_TRUE(answer.ok()) << answer.status();
    ASSERT_EQ(answer->status, 201) << answer->body;
  }
  std::deque<RawClient> clients;
  for (int i = 0; i < 500; ++i) {
    clients.emplace_back(program_.http(), 4096);
    clients.back().Send(http::GetText("/v1/jobs?limit=1000"));
  }
  int refused = 0;
  for (RawClient& client : clients)
    refused += http::StatusOf(client.ReadUntil("\r\n\r\n")) == 503 ? 1 : 0;
  EXPECT_GT(refused, 0);
  ExpectCost(256 * kMiB);
}

// Calls of a client whose windows stay closed: it takes the head of each answer, and nothing else.
class UnreadLists {
 public:
  UnreadLists(const std::string& address, size_t calls) : calls_(calls) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);            // it would open the windows
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // a connection of its own
    grpc::GenericStub stub(
        grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments));
    v1::ListRequest request;
    request.set_limit(1000);
    const std::string bytes = request.SerializeAsString();
    const grpc::Slice slice(bytes);
    for (Unread& call : calls_) {
      call.stream = stub.PrepareCall(&call.context, "/muster.v1.Jobs/List", &queue_);
      call.stream->StartCall(&call);
      Await(1);
      call.stream->WriteLast(grpc::ByteBuffer(&slice, 1), {}, &call);
      Await(1);
    }
    for (Unread& call : calls_) call.stream->ReadInitialMetadata(&call);
    Await(calls_.size());
  }
  ~UnreadLists() {
    for (Unread& call : calls_) {
      call.context.TryCancel();
      call.stream->Finish(&call.status, &call);
    }
    Await(calls_.size());
    queue_.Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (queue_.Next(&tag, &ok)) {
    }
  }

 private:
  struct Unread {
    grpc::ClientContext context;
    std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream;
    grpc::Status status;
  };
  void Await(size_t tags) {
    void* tag = nullptr;
    bool ok = false;
    for (; tags > 0; --tags) queue_.Next(&tag, &ok);
  }

  grpc::CompletionQueue queue_;
  std::deque<Unread> calls_;
};

TEST_F(AStranger, WhoAsksByGrpcForLargeAnswersAndReadsNoneCostsNoMoreThanAllAnswersMay) {
  for (const char* id : {"a", "b"}) {
    const auto answer = http::Post(program_.Url("/v1/jobs"), LargeSubmission(id));
    ASSERT_TRUE(answer.ok()) << answer.status();
    ASSERT_EQ(answer->status, 201) << answer->body;
  }
  const UnreadLists first(program_.grpc(), 90), second(program_.grpc(), 90);
  EXPECT_EQ(MakeGrpcClient(program_.grpc())->Get("none").code, "not_found");
  SCOPED_TRACE("answers that nobody reads");
  ExpectCost(320 * kMiB);
}

TEST_F(AStranger, WhoSendsTheLargestFramesThatAreNoMessageCostsLittle) {
  const auto transport = MakeGrpcTransport({});
  for (int i = 0; i < 20; ++i) {
    ScriptedMember stranger(*transport, program_.grpc(), {"worker-0", {1, 1}});
    for (int n = 0; n < 10; ++n) stranger.SayBytes(std::string(kMaxHeaderBytes, '\xff'));
    EXPECT_FALSE(stranger.Broken().ok());
  }
  ExpectCost(128 * kMiB);
}

// Streams that are cancelled at once: gRPC makes each a call of some kilobytes, long after it has
// read it. It was 700 MB for each connection.
TEST_F(AStranger, WhoOpensAndCancelsStreamsWithoutEndCostsLittle) {
  SCOPED_TRACE("streams that are cancelled");
  constexpr uint32_t kStreams = 30'000;
  const std::string no_message, empty_message("\0\0\0\0\0", 5);
  for (const std::string& words :
       {CallsThatAreLeft("/No/Method", kStreams, no_message),
        CallsThatAreLeft("/muster.v1.Jobs/List", kStreams, no_message),
        CallsThatAreLeft("/muster.v1.Jobs/List", kStreams, empty_message)}) {
    std::deque<RawClient> clients;
    for (int i = 0; i < 4; ++i) clients.emplace_back(program_.grpc());
    for (RawClient& client : clients) client.Send(words);  // it may be closed before the last
    for (RawClient& client : clients) EXPECT_TRUE(client.AwaitClosed());
  }
  ExpectCost(400 * kMiB);
}

// A GiB in all: nothing but the first frame of each is read.
TEST_F(AStranger, WhoSendsAGibibyteAtOnceWithoutSayingWhoItIsCostsLittle) {
  const auto transport = MakeGrpcTransport({});
  const auto frame = std::make_shared<const std::string>(kMaxHeaderBytes, '\xff');
  std::deque<ScriptedMember> strangers;
  for (uint64_t i = 0; i < 8; ++i) {
    ScriptedMember& stranger =
        strangers.emplace_back(*transport, program_.grpc(), MemberId{"worker-0", {1, i}});
    for (int n = 0; n < 32; ++n) stranger.SayBytes(frame);
  }
  for (ScriptedMember& stranger : strangers) EXPECT_FALSE(stranger.Broken().ok());
  ExpectCost(160 * kMiB);
}

// 61 KB whose name was once copied for each lane: 229 MB.
std::shared_ptr<const std::string> RecordOfManyLanes(size_t name) {
  StepRecord record;
  record.lineage = LineageNumber(1);
  record.view = ViewNumber(1);
  record.weight = 5;
  record.loss = 2.5;
  record.lane_holders = {{MemberId{std::string(name, 'w'), {1, 2}}}, std::vector<int32_t>(4096)};
  return std::make_shared<const std::string>(Encode(ToCoordinator(Records{{record}})));
}

TEST_F(AStranger, WhoTellsOfRecordsBeforeItHasJoinedIsNotReadAndCostsLittle) {
  const auto transport = MakeGrpcTransport({});
  const auto long_name = RecordOfManyLanes(57'000), usual_name = RecordOfManyLanes(200);
  for (const auto& header : {long_name, usual_name})
    for (uint64_t i = 0; i < 4; ++i) {
      ScriptedMember stranger(*transport, program_.grpc(), {"worker-0", {1, i}});
      for (int n = 0; n < 100; ++n) stranger.SayBytes(header);
      EXPECT_FALSE(stranger.Broken().ok());
    }
  ExpectCost(96 * kMiB);
}

// What a member says waits in memory until its job's turn comes.
TEST_F(AStranger, WhoHasJoinedAndTellsOfRecordsOfManyLanesCostsLittle) {
  ASSERT_EQ(MakeRestClient(program_.http())->Submit("a", kSpec).code, "ok");
  const auto transport = MakeGrpcTransport({});
  ScriptedMember member(*transport, program_.grpc(), {"worker-0", {7, 1}});
  member.JoinJob("a");
  member.FollowIntoView();
  const auto usual_name = RecordOfManyLanes(200);
  for (int n = 0; n < 4000; ++n) member.SayBytes(usual_name);
  member.SayBytes(RecordOfManyLanes(57'000));
  EXPECT_FALSE(member.Broken().ok()) << "the last of them has a name that nobody may have";
  ExpectCost(96 * kMiB);
}

TEST_F(AStranger, WhoSendsAMessageOfAGibibyteCostsNoMoreThanAllMessagesMay) {
  for (const char* method : {"/muster.v1.Exchange/Session", "/muster.v1.Jobs/Submit"})
    EXPECT_FALSE(SendOneMessage(program_.grpc(), method, 1024).ok()) << method;
  ExpectCost(768 * kMiB);
}

TEST_F(AStranger, WhoseJoinsAreRefusedFillNeitherMemoryNorLog) {
  ASSERT_EQ(MakeRestClient(program_.http())->Submit("a", kSpec).code, "ok");
  const auto transport = MakeGrpcTransport({});
  ScriptedMember member(*transport, program_.grpc(), {"worker-0", {7, 1}});
  member.JoinJob("a");
  member.FollowIntoView();
  for (uint64_t i = 0; i < 40; ++i) {
    ScriptedMember other(*transport, program_.grpc(), {"worker-1", {8, i}});
    Join join = other.JoinOf("a");
    for (int n = 0; n < 1000; ++n)
      join.environment.numeric[absl::StrCat("property", n)] = std::string(3000, 'v');
    other.Say(join);
    EXPECT_THAT(other.Next<Leave>().reason, HasSubstr("differs"));
  }
  ExpectCost(96 * kMiB);
}

}  // namespace
}  // namespace muster::coordinator
