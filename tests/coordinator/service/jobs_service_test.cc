// The gRPC service over a scripted JobApi: what its clients may hold, for how long, and what they
// may bring. The clock stands still but for the test.
#include "coordinator/service/grpc/jobs_service.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/channel_arguments.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "coordinator/runtime/background.h"
#include "coordinator/service/gate.h"
#include "coordinator/service/grpc/late_writes.h"
#include "coordinator/service/grpc/refusal.h"
#include "coordinator/service/token_text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/base/mutex.h"
#include "lib/transport/grpc/given_sockets.h"
#include "lib/transport/grpc/grpc_transport.h"
#include "muster/v1/control.grpc.pb.h"
#include "tests/support/generic_call.h"
#include "tests/support/hand_clock.h"

namespace muster {
namespace {

using std::chrono::seconds;
using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr size_t kLarge = size_t{1} << 20;
constexpr seconds kPatience{30};  // of the test, in real time

TEST(WritesUnderWay, AreLateOnceEachAndOnlyWhileTheyLast) {
  WritesUnderWay writes;
  std::string cut;
  const Time start{};
  const auto cut_late = [&](Time now) {
    for (const auto& late : writes.TakeLate(now)) late();
    return std::exchange(cut, "");
  };
  writes.Begin(start, [&] { cut += "a"; });
  const uint64_t second = writes.Begin(start, [&] { cut += "b"; });
  writes.Begin(start + seconds(1), [&] { cut += "c"; });
  EXPECT_EQ(cut_late(start + kMostWriteTime - Duration(1)), "");
  writes.End(second);
  EXPECT_EQ(cut_late(start + kMostWriteTime), "a") << "the second one has ended";
  EXPECT_EQ(cut_late(start + kMostWriteTime), "") << "it was cut already";
  EXPECT_EQ(cut_late(start + kMostWriteTime + seconds(5)), "c");
}

class ScriptedApi final : public JobApi {
 public:
  void Submit(std::string, JobSpec, Accepts, const coordinator::Caller&,
              Reply<SubmittedJob> reply) override {
    ++submitted_;
    reply(absl::UnavailableError("not scripted"));
  }
  void Adopt(std::string folder, std::string id, Accepts, const coordinator::Caller&,
             Reply<AdoptionInfo> reply) override {
    if (folder != "/there") return reply(Unscripted());
    AdoptionInfo info{.adoption = "1-7"};
    info.job = std::move(id);
    reply(std::move(info));
  }
  void FindAdoption(const std::string& adoption, Reply<AdoptionInfo> reply) override {
    if (adoption != "1-7") return reply(Unscripted());
    AdoptionInfo info{.adoption = adoption};
    info.state = kAdoptionFailed;
    info.error = absl::DataLossError("no checkpoint is whole");
    reply(std::move(info));
  }
  void Get(const std::string&, Reply<JobInfo> reply) override {
    JobInfo job;
    job.reason = std::string(kLarge, 'x');
    reply(std::move(job));
  }
  void List(const JobQuery&, Reply<JobPage> reply) override { reply(JobPage{}); }
  void Cancel(const std::string&, const coordinator::Caller&, Reply<JobInfo> reply) override {
    reply(Unscripted());
  }
  void Stop(const std::string&, const coordinator::Caller&, Reply<JobInfo> reply) override {
    reply(Unscripted());
  }
  void Delete(const std::string&, const coordinator::Caller&, Reply<JobInfo> reply) override {
    reply(Unscripted());
  }
  void Scale(const std::string&, int32_t, int32_t, const coordinator::Caller&,
             Reply<JobInfo> reply) override {
    reply(Unscripted());
  }
  void SetQueue(const std::string&, const QueueChange&, const coordinator::Caller&,
                Reply<JobInfo> reply) override {
    reply(Unscripted());
  }
  void Watch(const std::string&, std::optional<EventPlace>, const coordinator::Caller&,
             Reply<bool> reply, std::shared_ptr<JobWatcher> watcher) override {
    reply(true);
    const MutexLock lock(mutex_);
    watchers_.push_back(std::move(watcher));
  }
  void Fingerprints(const std::string&, int64_t, Reply<JobFingerprints> reply) override {
    reply(Unscripted());
  }
  void Audit(const std::string&, Reply<JobAudit> reply) override { reply(Unscripted()); }
  void Logs(const std::string&, LogQuery query, Reply<LogTail> reply) override {
    asked_of_logs = query;
    reply(logs);
  }
  void FollowLogs(const std::string&, FollowQuery query, const coordinator::Caller&,
                  Reply<LogPage> reply) override {
    asked_to_follow = query;
    reply(log_page);
  }
  void History(const std::string&, const HistoryQuery&, Reply<HistoryPage> reply) override {
    reply(Unscripted());
  }
  void Ledger(const std::string&, LedgerQuery, Reply<JobLedger> reply) override {
    reply(Unscripted());
  }
  void ReadFile(const std::string&, FileQuery, Reply<FilePart> reply) override {
    reply(absl::UnimplementedError("gRPC does not ask for it"));
  }
  void Checkpoints(const std::string&, const std::string&, Reply<SavedCheckpoints> reply) override {
    reply(Unscripted());
  }
  void KeepCheckpoint(const std::string&, const std::string&, const std::string&,
                      const coordinator::Caller&, Reply<SavedCheckpoint> reply) override {
    reply(Unscripted());
  }
  void DeleteCheckpoint(const std::string&, const std::string&, bool, const coordinator::Caller&,
                        Reply<SavedCheckpoint> reply) override {
    reply(Unscripted());
  }
  void Digest(const std::string&, std::optional<int64_t>, Reply<JobDigest> reply) override {
    reply(Unscripted());
  }

  LogTail logs;
  LogQuery asked_of_logs;
  LogPage log_page;
  FollowQuery asked_to_follow;
  int submitted() const { return submitted_; }
  // Of those who have begun to watch and were not taken yet; null: nobody.
  std::shared_ptr<JobWatcher> TakeWatcher() {
    const MutexLock lock(mutex_);
    if (watchers_.empty()) return nullptr;
    auto watcher = std::move(watchers_.back());
    watchers_.pop_back();
    return watcher;
  }

 private:
  static absl::Status Unscripted() { return absl::UnavailableError("not scripted"); }

  std::atomic<int> submitted_{0};
  Mutex mutex_;
  std::vector<std::shared_ptr<JobWatcher>> watchers_ ABSL_GUARDED_BY(mutex_);
};

// Whether it becomes true while the test has patience; not asked again once it is.
template <class Condition>
bool Await(const Condition& condition) {
  const Time until = RealClock().Now() + kPatience;
  bool is_true = condition();
  while (!is_true && RealClock().Now() < until) {
    std::this_thread::yield();
    is_true = condition();
  }
  return is_true;
}

// A call of which nothing is read but its head: its window stays closed.
class UnreadCall {
 public:
  UnreadCall(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
             const std::string& request) {
    context_.set_deadline(std::chrono::system_clock::now() + 2 * kPatience);
    const grpc::Slice slice(request);
    stream_ = grpc::GenericStub(channel).PrepareCall(&context_, method, &queue_);
    stream_->StartCall(this);
    Next();
    stream_->WriteLast(grpc::ByteBuffer(&slice, 1), {}, this);
    Next();
    stream_->ReadInitialMetadata(this);
    EXPECT_TRUE(Next()) << "it was not answered";
  }
  ~UnreadCall() {
    if (!finished_) Leave();
    queue_.Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (queue_.Next(&tag, &ok)) {
    }
  }

  void Leave() {
    context_.TryCancel();
    AwaitEnd();
  }
  grpc::Status AwaitEnd() {
    grpc::Status status;
    stream_->Finish(&status, this);
    Next();
    finished_ = true;
    return status;
  }
  // How many messages there were to the end.
  int ReadAll() {
    int read = 0;
    grpc::ByteBuffer message;
    for (stream_->Read(&message, this); Next(); stream_->Read(&message, this)) ++read;
    return read;
  }

 private:
  bool Next() {
    void* tag = nullptr;
    bool ok = false;
    return queue_.Next(&tag, &ok) && ok;
  }

  grpc::CompletionQueue queue_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
  bool finished_ = false;
};

class JobsServiceTest : public ::testing::Test {
 protected:
  static constexpr int kEvents = 20;

  void SetUp() override {
    auto listener = transport_->Listen(
        "127.0.0.1:0", [](const std::shared_ptr<Session>&) { return SessionHandler(); },
        {service_.get()});
    ASSERT_TRUE(listener.ok()) << listener.status();
    listener_ = *std::move(listener);
    channel_ = Channel();
    stub_ = v1::Jobs::NewStub(channel_);
  }
  std::shared_ptr<grpc::Channel> Channel() {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);            // it would open the windows
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // a connection of its own
    return grpc::CreateCustomChannel(listener_->Address(), grpc::InsecureChannelCredentials(),
                                     arguments);
  }
  std::unique_ptr<UnreadCall> AskWithoutReading() {
    return std::make_unique<UnreadCall>(channel_, "/muster.v1.Jobs/Get", "");
  }
  std::unique_ptr<UnreadCall> WatchWithoutReading() {
    return std::make_unique<UnreadCall>(channel_, "/muster.v1.Jobs/Watch", "");
  }
  // Large events, of which the first does not fit into the client's window: its write is under way
  // when this returns, and the others wait.
  std::shared_ptr<JobWatcher> FilledWatcher() {
    std::shared_ptr<JobWatcher> watcher;
    EXPECT_TRUE(Await([&] { return (watcher = api_.TakeWatcher()) != nullptr; }));
    JobEvent event;
    event.text = std::string(100'000, 'x');
    for (int i = 0; i < kEvents; ++i) EXPECT_TRUE(watcher->OnEvent(event));
    const size_t waiting = (kEvents - 1) * BytesOf(event);
    EXPECT_TRUE(Await([&] { return *waiting_.events == waiting; }));
    return watcher;
  }
  static bool IsWhole(const ByteCount& room) {
    return Await([&] { return *room == 0; });
  }
  // Whoever looks for late writes has done so since.
  void AwaitLooks() {
    const int64_t enough = clock_.reads() + 2;
    EXPECT_TRUE(Await([&] { return clock_.reads() >= enough; }));
  }

  ScriptedApi api_;
  HandClock clock_;
  const JobsWaiting waiting_{};
  coordinator::Background large_answers_;
  const std::shared_ptr<grpc::Service> service_ =
      MakeJobsService(api_, clock_, large_answers_, waiting_);
  const std::unique_ptr<GrpcTransport> transport_ = MakeGrpcTransport({});
  std::unique_ptr<Listener> listener_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Jobs::Stub> stub_;
};

TEST_F(JobsServiceTest, AnAnswerThatNobodyTakesGivesItsRoomBackInTime) {
  const auto unread = AskWithoutReading();
  EXPECT_GE(*waiting_.answers, kLarge);
  clock_.Advance(kMostWriteTime - Duration(1));
  AwaitLooks();
  EXPECT_GE(*waiting_.answers, kLarge) << "its client still has time";
  clock_.Advance(Duration(1));
  ASSERT_TRUE(IsWhole(waiting_.answers)) << "an answer that nobody takes keeps its room";
  unread->ReadAll();
  EXPECT_EQ(unread->AwaitEnd().error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(JobsServiceTest, AnAnswerThatIsTakenGivesItsRoomBack) {
  v1::Job job;
  grpc::ClientContext context;
  EXPECT_TRUE(stub_->Get(&context, {}, &job).ok());
  EXPECT_EQ(job.reason().size(), kLarge);
  EXPECT_TRUE(IsWhole(waiting_.answers));
}

TEST_F(JobsServiceTest, AnswersAreRefusedWhileOthersFillTheirRoom) {
  *waiting_.answers += size_t{64} << 20;
  v1::Job job;
  grpc::ClientContext context;
  const grpc::Status status = stub_->Get(&context, {}, &job);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(status.error_message(), kNoRoomForAnswer);
  *waiting_.answers -= size_t{64} << 20;
  EXPECT_TRUE(IsWhole(waiting_.answers)) << "what is refused takes no room";
}

TEST_F(JobsServiceTest, LargeAnswersHaveTheirRoomBeforeTheyAreMadeAndKeepNoOthersWaiting) {
  const auto get = [this] {
    v1::Job job;
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kPatience);
    return stub_->Get(&context, {}, &job);
  };
  std::promise<void> held, go_on;
  large_answers_.Run([&held, until = go_on.get_future().share()](const std::stop_token&) {
    held.set_value();
    until.wait();
  });
  held.get_future().wait();
  auto large = std::async(std::launch::async, get);
  EXPECT_TRUE(Await([&] { return large_answers_.queued() == 1; }))
      << "a large answer was made on gRPC's thread";
  EXPECT_GE(*waiting_.answers, kLarge);
  *waiting_.answers += size_t{63} << 20;
  EXPECT_EQ(get().error_message(), kNoRoomForAnswer) << "an answer is made before it has room";
  *waiting_.answers -= size_t{63} << 20;
  v1::ListResponse list;
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kPatience);
  EXPECT_TRUE(stub_->List(&context, {}, &list).ok()) << "a small answer waits for large ones";
  go_on.set_value();
  EXPECT_TRUE(large.get().ok());
  EXPECT_TRUE(IsWhole(waiting_.answers));
}

TEST_F(JobsServiceTest, ALargeAnswerThatCannotBeMadeAnyMoreIsAnError) {
  large_answers_.Stop();
  v1::Job job;
  grpc::ClientContext context;
  const grpc::Status status = stub_->Get(&context, {}, &job);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(status.error_message(), HasSubstr("shutting down"));
  EXPECT_TRUE(IsWhole(waiting_.answers));
}

TEST_F(JobsServiceTest, AStreamThatStandsStillEndsAndGivesItsRoomBack) {
  const auto unread = WatchWithoutReading();
  const auto watcher = FilledWatcher();
  EXPECT_GE(*waiting_.events, kLarge);
  clock_.Advance(kMostWriteTime - Duration(1));
  AwaitLooks();
  EXPECT_GE(*waiting_.events, kLarge) << "its client still has time";
  EXPECT_FALSE(watcher->closed());
  clock_.Advance(Duration(1));
  ASSERT_TRUE(IsWhole(waiting_.events)) << "a stream that stands still keeps its room";
  EXPECT_TRUE(Await([&] { return watcher->closed(); }));
  unread->ReadAll();
  // Whichever comes first of the call's end and what is said of it.
  EXPECT_THAT(unread->AwaitEnd().error_code(),
              AnyOf(grpc::StatusCode::CANCELLED, grpc::StatusCode::RESOURCE_EXHAUSTED));
}

TEST_F(JobsServiceTest, AStreamThatIsReadMayLastForEver) {
  v1::JobEvent event;
  grpc::ClientContext context;
  const auto reader = stub_->Watch(&context, {});
  std::shared_ptr<JobWatcher> watcher;
  ASSERT_TRUE(Await([&] { return (watcher = api_.TakeWatcher()) != nullptr; }));
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(watcher->OnEvent({}));
    EXPECT_TRUE(reader->Read(&event));
    ASSERT_TRUE(Await([&] { return waiting_.writes->empty(); }));
    clock_.Advance(kMostWriteTime);
    AwaitLooks();
  }
  watcher.reset();
  EXPECT_FALSE(reader->Read(&event));
  EXPECT_TRUE(reader->Finish().ok());
}

TEST_F(JobsServiceTest, AQuietStreamMayLastForEver) {
  const auto quiet = WatchWithoutReading();
  std::shared_ptr<JobWatcher> watcher;
  ASSERT_TRUE(Await([&] { return (watcher = api_.TakeWatcher()) != nullptr; }));
  ASSERT_TRUE(Await([&] { return waiting_.writes->empty(); }));
  clock_.Advance(100 * kMostWriteTime);
  AwaitLooks();
  EXPECT_FALSE(watcher->closed());
  watcher.reset();
  EXPECT_EQ(quiet->ReadAll(), 0);
  EXPECT_TRUE(quiet->AwaitEnd().ok());
}

TEST_F(JobsServiceTest, TheRoomOfAStreamIsWholeAgainWhenItsClientLeaves) {
  const auto unread = WatchWithoutReading();
  const auto watcher = FilledWatcher();
  EXPECT_GE(*waiting_.events, kLarge);
  unread->Leave();
  EXPECT_TRUE(IsWhole(waiting_.events)) << "the room of a stream that is gone";
}

TEST_F(JobsServiceTest, TheRoomOfAStreamIsWholeAgainWhenItHasEnded) {
  const auto late = WatchWithoutReading();
  FilledWatcher().reset();
  EXPECT_GE(*waiting_.events, kLarge);
  EXPECT_EQ(late->ReadAll(), kEvents);
  EXPECT_TRUE(late->AwaitEnd().ok());
  EXPECT_TRUE(IsWhole(waiting_.events));
}

TEST_F(JobsServiceTest, TheRoomOfAStreamIsWholeAgainWhenTooMuchWaits) {
  const auto unread = WatchWithoutReading();
  const auto watcher = FilledWatcher();
  JobEvent event;
  event.text = std::string(kLarge, 'x');
  EXPECT_TRUE(Await([&] { return !watcher->OnEvent(event); }));
  EXPECT_TRUE(IsWhole(waiting_.events)) << "the room of a stream that was given up";
}

TEST_F(JobsServiceTest, ARequestThatIsTooLargeIsToldItsLimit) {
  for (const size_t bytes : {kMostRequestBytes + 1, size_t{3} << 20, size_t{4} << 20}) {
    v1::SubmitRequest request;
    request.set_id(std::string(bytes, 'x'));
    v1::SubmitResponse response;
    grpc::ClientContext context;
    const grpc::Status status = stub_->Submit(&context, request, &response);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << bytes;
    EXPECT_THAT(status.error_message(), HasSubstr("2097152")) << bytes;
  }
  EXPECT_EQ(api_.submitted(), 0);
  v1::ListResponse list;
  grpc::ClientContext context;
  EXPECT_TRUE(stub_->List(&context, {}, &list).ok());
}

TEST_F(JobsServiceTest, AnAdoptionNamesAFolderAndAnId) {
  const auto adopt = [&](const std::string& folder, v1::Adoption& response) {
    v1::AdoptRequest request;
    request.set_folder(folder);
    request.set_id("b");
    grpc::ClientContext context;
    return stub_->Adopt(&context, request, &response);
  };
  v1::Adoption response;
  EXPECT_TRUE(adopt("/there", response).ok());
  EXPECT_EQ(response.adoption(), "1-7");
  EXPECT_EQ(response.job(), "b");
  EXPECT_EQ(response.state(), "waiting");
  EXPECT_EQ(adopt("/elsewhere", response).error_code(), grpc::StatusCode::UNAVAILABLE);
  v1::FindAdoptionRequest request;
  request.set_adoption("1-7");
  grpc::ClientContext context;
  ASSERT_TRUE(stub_->FindAdoption(&context, request, &response).ok());
  EXPECT_EQ(response.state(), "failed");
  EXPECT_EQ(response.error_code(), grpc::StatusCode::DATA_LOSS);
  EXPECT_EQ(response.error(), "no checkpoint is whole");
}

TEST_F(JobsServiceTest, LinesAreFollowedFromWhereAFollowerIs) {
  api_.log_page = {{{"worker-0", "one"}}, "1~x", true};
  v1::FollowLogsRequest request;
  request.set_id("a");
  request.set_member("worker-0");
  request.set_tail(7);
  request.set_after("1~w");
  v1::FollowLogsResponse response;
  grpc::ClientContext context;
  ASSERT_TRUE(stub_->FollowLogs(&context, request, &response).ok());
  EXPECT_EQ(api_.asked_to_follow.member, "worker-0");
  EXPECT_EQ(api_.asked_to_follow.tail, 7);
  EXPECT_EQ(api_.asked_to_follow.after, "1~w");
  ASSERT_EQ(response.lines_size(), 1);
  EXPECT_EQ(response.lines(0).member(), "worker-0");
  EXPECT_EQ(response.lines(0).line(), "one");
  EXPECT_EQ(response.next(), "1~x");
  EXPECT_TRUE(response.over());
}

TEST_F(JobsServiceTest, WhatIsNoRequestIsToldSo) {
  const grpc::Status status = CallGenerically(channel_, "/muster.v1.Jobs/Get", "\xff\xff").status;
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("no muster.v1.JobRequest"));
}

// Their jobs say nothing, and yet they are answered: nobody takes them for a stranger's.
TEST_F(JobsServiceTest, ManyWatchesOfQuietJobsKeepTheirConnection) {
  for (int i = 0; i < kMostCallsInVain + 10; ++i) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kPatience);
    const auto reader = stub_->Watch(&context, {});
    reader->WaitForInitialMetadata();
    context.TryCancel();
    ASSERT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED)
        << "watch " << i << " was not begun, or lost its connection";
  }
}

TEST(AddressInPeer, IsWithoutItsPort) {
  EXPECT_EQ(AddressInPeer("ipv4:127.0.0.1:4242"), "127.0.0.1");
  EXPECT_EQ(AddressInPeer("ipv6:%5B::1%5D:4242"), "::1");
  EXPECT_EQ(AddressInPeer("unknown"), "unknown");
}

// The service of JobsServiceTest, where whoever calls is asked for a token.
class GuardedJobsTest : public ::testing::Test {
 protected:
  GuardedJobsTest() {
    auto tokens = std::make_shared<std::vector<coordinator::Token>>();
    tokens->push_back(
        {coordinator::HashOfToken(ada_), {"ada", coordinator::UserRole::kSubmitter, "default"}, 1});
    known_.tokens = std::move(tokens);
    listener_ =
        transport_
            ->Listen("127.0.0.1:0", [](const auto&) { return SessionHandler(); }, {service_.get()})
            .value();
    stub_ = v1::Jobs::NewStub(
        grpc::CreateChannel(listener_->Address(), grpc::InsecureChannelCredentials()));
  }
  grpc::StatusCode List(const std::string& authorization) {
    grpc::ClientContext context;
    if (!authorization.empty()) context.AddMetadata("authorization", authorization);
    v1::ListResponse list;
    return stub_->List(&context, {}, &list).error_code();
  }

  const std::string ada_ = coordinator::MakeTokenText("ada");
  coordinator::KnownCluster known_;
  HandClock clock_;
  const std::unique_ptr<coordinator::AuditLog> audit_ =
      coordinator::AuditLog::Open(::testing::TempDir() + "/guarded_jobs_audit.jsonl").value();
  coordinator::Gate gate_{[this] { return known_; }, *audit_, clock_};
  ScriptedApi api_;
  coordinator::Background large_answers_;
  const std::shared_ptr<grpc::Service> service_ =
      MakeJobsService(api_, clock_, large_answers_, {}, &gate_);
  const std::unique_ptr<GrpcTransport> transport_ = MakeGrpcTransport({});
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<v1::Jobs::Stub> stub_;
};

TEST_F(GuardedJobsTest, EachCallNeedsATokenInItsMetadata) {
  EXPECT_EQ(List(""), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(List("Bearer " + coordinator::MakeTokenText("ada")), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(List("Bearer " + ada_), grpc::StatusCode::OK);
  grpc::ClientContext context;
  const auto reader = stub_->Watch(&context, {});
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::UNAUTHENTICATED);
}

TEST_F(GuardedJobsTest, AWatchEndsWithItsToken) {
  v1::JobEvent event;
  grpc::ClientContext context;
  context.AddMetadata("authorization", "Bearer " + ada_);
  v1::WatchRequest request;
  const auto reader = stub_->Watch(&context, request);
  std::shared_ptr<JobWatcher> watcher;
  ASSERT_TRUE(Await([&] { return (watcher = api_.TakeWatcher()) != nullptr; }));
  EXPECT_FALSE(watcher->closed());
  EXPECT_TRUE(watcher->OnEvent({}));
  EXPECT_TRUE(reader->Read(&event));
  known_.tokens = std::make_shared<const std::vector<coordinator::Token>>();
  ASSERT_TRUE(watcher->closed());
  EXPECT_FALSE(watcher->OnEvent({}));
  EXPECT_FALSE(reader->Read(&event));
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::UNAUTHENTICATED);
}

TEST_F(GuardedJobsTest, WhatIsNotAllowedDoesNotReachTheApi) {
  v1::SubmitRequest request;
  v1::SubmitResponse response;
  grpc::ClientContext stranger;
  EXPECT_EQ(stub_->Submit(&stranger, request, &response).error_code(),
            grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(api_.submitted(), 0);
}

}  // namespace
}  // namespace muster
