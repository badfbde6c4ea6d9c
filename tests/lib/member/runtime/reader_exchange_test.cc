// A reader with its threads, source and spool, and the test as its coordinator over the in-memory
// transport.
#include "lib/member/runtime/reader_exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/exit_codes.h"
#include "lib/base/mailbox.h"
#include "lib/spool/spool_reader.h"
#include "lib/transport/loop/loop_network.h"
#include "lib/wire/message_codec.h"
#include "tests/lib/spool/spooled.h"

namespace muster {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Takes what a reader says, one message at a time, and answers as the test wants.
class Coordinator {
 public:
  explicit Coordinator(LoopNetwork& network) : transport_(network.MakeTransport("coordinator")) {
    listener_ = transport_
                    ->Listen("127.0.0.1:0",  // a name would be looked up
                             [this](std::shared_ptr<Session> session) {
                               session->Admit();
                               const uint64_t id = ++sessions_begun_;
                               came_.Post({id, std::move(session), {}});
                               return SessionHandler{[this, id](Frame frame) {
                                                       came_.Post({id, nullptr, std::move(frame)});
                                                     },
                                                     [](absl::Status) {}};
                             })
                    .value();
  }
  std::string address() const { return listener_->Address(); }

  // The next one of this kind; life signs, and what else comes before it, are dropped.
  template <class M>
  M Await() {
    while (true) {
      std::optional<Came> came = came_.TakeUntil(RealClock().Now() + std::chrono::seconds(60));
      if (!came) throw std::runtime_error("the reader does not say it");
      if (came->session) {
        sessions_[came->id] = came->session;
        continue;
      }
      speaks_ = came->id;
      const ToCoordinator said = DecodeToCoordinator(came->frame.header).value();
      if (const M* message = std::get_if<M>(&said)) return *message;
    }
  }
  void Say(const FromCoordinator& message) {
    sessions_.at(speaks_)->Send({Encode(message), Payload()});
  }
  void BreakOff() {
    sessions_.at(speaks_)->Close(absl::UnavailableError("the test breaks it off"));
  }
  void Refuse() { sessions_.at(speaks_)->Close(absl::InvalidArgumentError("join: no such")); }

 private:
  struct Came {
    uint64_t id = 0;
    std::shared_ptr<Session> session;  // that begins, or
    Frame frame;
  };

  const std::unique_ptr<Transport> transport_;
  Mailbox<Came> came_;
  std::atomic<uint64_t> sessions_begun_ = 0;
  std::unique_ptr<Listener> listener_;
  std::map<uint64_t, std::shared_ptr<Session>> sessions_;
  uint64_t speaks_ = 0;  // the session of what was taken last
};

class ReaderExchangeTest : public testing::Test {
 protected:
  ReaderExchangeTest() {
    job_.job = "job";
    job_.term = TermNumber(1);
    job_.cluster = "ours";
    job_.checkpoint_dir = checkpoints_.path();
    job_.spec.training.task = "task-of-a-plug-in";
    job_.spec.training.epochs = 1;
    job_.spec.training.batch = 2;
    job_.spec.training.lanes = 1;
    job_.spec.runtime.checkpoint.every_steps = 10;
    job_.spec.training.data.format = DataFormat::kStream;
    job_.spec.training.data.fields = {{"x", TensorType::kUint8, {3}}};
    job_.spec.training.stream = StreamFrom::kFolder;
    job_.spec.runtime.stream.path = source_.path();
  }
  ~ReaderExchangeTest() override { Stop(); }

  void Start(const std::string& fail_at = "") {
    if (!fail_at.empty()) {
      ASSERT_TRUE(failpoints_.Arm(fail_at).ok());
    }
    ExchangeOptions options;
    options.job = "job";
    options.place = {id_, PlacementNumber(7), Role::kReader, "host", ""};
    options.coordinator = coordinator_.address();
    ExchangeParts parts;
    parts.transport = transport_.get();
    parts.events = events_;
    parts.next_link = std::make_shared<std::atomic<LinkId>>(1);
    parts.copied = &copied_;
    parts.metrics = &metrics_;
    parts.failpoints = &failpoints_;
    parts.reporter = &reporter_;
    exchange_ = std::make_unique<ReaderExchange>(std::move(options), parts, reads_);
    thread_ = std::thread([this] { exit_code_ = exchange_->Run(); });
  }
  int AwaitExit() {
    if (thread_.joinable()) thread_.join();
    return exit_code_;
  }
  void Stop() {
    events_->Post(StopAsked{kExitTerminated, "the test is over"});
    AwaitExit();
  }
  // To the first words of the reader's first session.
  Join Joins() {
    EXPECT_EQ(coordinator_.Await<AskJob>().job, "job");
    coordinator_.Say(job_);
    return coordinator_.Await<Join>();
  }
  void From(uint64_t positions, StreamPlace place = {}, int64_t next_segment = 0) {
    coordinator_.Say(
        SpoolFrom{TermNumber(1), positions, std::move(place), next_segment, 0, kMostSamples});
  }
  void Ack(uint64_t positions) {
    coordinator_.Say(AckSpooled{TermNumber(1), positions, 0, kMostSamples});
  }
  std::string Read(const Spooled& spooled) const {
    std::string samples(3 * spooled.count, '\0');
    const RealClock clock;
    const absl::Status read = ReadSpooledFile(
        SpoolFolder(job_.checkpoint_dir),
        {spooled.segment, id_.incarnation, spooled.first, spooled.count}, 3, spooled.first,
        absl::MakeSpan(reinterpret_cast<std::byte*>(samples.data()), samples.size()),
        {.clock = &clock, .pause = [](Duration) { return false; }});
    EXPECT_TRUE(read.ok()) << read;
    return samples;
  }

  const Folder checkpoints_, source_;
  const MemberId id_{kReaderName, {3, 4}};
  JobIs job_;
  LoopNetwork network_;
  Coordinator coordinator_{network_};
  const std::unique_ptr<Transport> transport_ = network_.MakeTransport("reader");
  const std::shared_ptr<EventBox> events_ = std::make_shared<EventBox>();
  CopyCounter copied_{0};
  Metrics metrics_{{"job", "reader", kReaderName}, "test"};
  std::vector<std::string> passed_;  // failpoints; of the exchange thread
  Failpoints failpoints_{[this](absl::string_view point) { passed_.emplace_back(point); }};
  Reporter reporter_{-1, kReaderName};
  ThreadProgress reads_{"stream"};
  std::unique_ptr<ReaderExchange> exchange_;
  int exit_code_ = -1;
  std::thread thread_;
};

TEST_F(ReaderExchangeTest, SpoolsAFolderAndLeavesWhenItIsTold) {
  source_.Put("a", Samples(0, 4));
  source_.Put("b", Samples(4, 3));
  source_.Put("END", "");
  Start();
  const Join join = Joins();
  EXPECT_EQ(join.id, id_);
  EXPECT_EQ(join.role, Role::kReader);
  EXPECT_EQ(join.placement, PlacementNumber(7));
  EXPECT_EQ(join.environment, NumericEnvironment());
  From(0);
  Spooled spooled = coordinator_.Await<Spooled>();
  while (!spooled.end) {
    Ack(spooled.first + spooled.count);
    spooled = coordinator_.Await<Spooled>();
  }
  EXPECT_EQ(spooled.first, 0u);
  EXPECT_EQ(spooled.count, 7u);
  EXPECT_EQ(spooled.place.file, "b");
  EXPECT_EQ(Read(spooled), Samples(0, 7));
  Ack(7);
  coordinator_.Say(Leave{TermNumber(1), kExitDone, "the stream is read", "ours"});
  EXPECT_EQ(AwaitExit(), kExitDone);
  const std::string text = metrics_.Text();
  EXPECT_THAT(
      text,
      HasSubstr("muster_stream_positions{job=\"job\",member=\"reader-0\",role=\"reader\"} 7"));
  EXPECT_THAT(
      text,
      HasSubstr("muster_stream_bytes_total{job=\"job\",member=\"reader-0\",role=\"reader\"} 21"));
  // The thread that reads is not judged any more.
  EXPECT_EQ(reads_.Age(RealClock().Now()), std::nullopt);
}

TEST_F(ReaderExchangeTest, SaysAgainInANewSessionWhatIsNotAcknowledged) {
  source_.Put("a", Samples(0, 4));
  Start("spooled_told:2");
  Joins();
  From(0);
  const Spooled first = coordinator_.Await<Spooled>();
  Ack(first.first + first.count);
  source_.Put("b", Samples(4, 2));
  const Spooled second = coordinator_.Await<Spooled>();
  EXPECT_EQ(second.first + second.count, 6u);
  coordinator_.BreakOff();
  const Join again = coordinator_.Await<Join>();
  EXPECT_EQ(again.stream_positions, first.first + first.count);
  From(again.stream_positions, first.place, first.segment + 1);
  EXPECT_EQ(coordinator_.Await<Spooled>(), second);
  Stop();
  EXPECT_THAT(passed_, ElementsAre("spooled_told"));
}

TEST_F(ReaderExchangeTest, BadDataOfTheSourceEndsIt) {
  source_.Put("a", "ab");
  Start();
  Joins();
  From(0);
  EXPECT_EQ(AwaitExit(), kExitBadData);
}

TEST_F(ReaderExchangeTest, APathThatCanBeNoSocketEndsIt) {
  job_.spec.training.stream = StreamFrom::kSocket;
  source_.Put("file", "");
  job_.spec.runtime.stream.path = source_ / "file";
  Start();
  Joins();
  From(0);
  EXPECT_EQ(AwaitExit(), kExitBadConfiguration);
}

TEST_F(ReaderExchangeTest, ASourceThatIsNoFolderEndsIt) {
  source_.Put("a", Samples(0, 4));
  job_.spec.runtime.stream.path = source_ / "a";
  Start();
  Joins();
  From(0);
  EXPECT_EQ(AwaitExit(), kExitBadConfiguration);
}

// A person finds it where the job is looked at, and it goes on by itself.
TEST_F(ReaderExchangeTest, SaysWhatIsWrongUntilItIsMended) {
  job_.spec.runtime.stream.path = source_ / "later";
  Start();
  Joins();
  From(0);
  Alive alive;
  while (alive.lacks.empty()) alive = coordinator_.Await<Alive>();
  EXPECT_THAT(alive.lacks, HasSubstr(source_ / "later"));
  std::filesystem::create_directory(source_ / "later");
  while (!alive.lacks.empty()) alive = coordinator_.Await<Alive>();
  source_.Put("later/a", Samples(0, 4));
  EXPECT_EQ(coordinator_.Await<Spooled>().count, 4u);
}

TEST_F(ReaderExchangeTest, AJobWithoutAStreamHasNoReader) {
  job_.spec.training.stream.reset();
  job_.spec.training.data = {};
  job_.spec.runtime.stream = {};
  Start();
  coordinator_.Await<AskJob>();
  coordinator_.Say(job_);
  EXPECT_EQ(AwaitExit(), kExitBadConfiguration);
}

TEST_F(ReaderExchangeTest, AnOlderJournalEndsIt) {
  source_.Put("a", Samples(0, 4));
  Start();
  Joins();
  From(0);
  const Spooled spooled = coordinator_.Await<Spooled>();
  Ack(spooled.first + spooled.count);
  source_.Put("b", Samples(4, 1));  // what it says of this tells that it has heard the above
  coordinator_.Await<Spooled>();
  coordinator_.BreakOff();
  coordinator_.Await<Join>();
  From(0);
  EXPECT_EQ(AwaitExit(), kExitFailed);
}

// It would join with the same words for ever.
TEST_F(ReaderExchangeTest, AJoinThatCannotBeTakenEndsIt) {
  Start();
  Joins();
  coordinator_.Refuse();  // something was heard in this session
  coordinator_.Await<Join>();
  coordinator_.Refuse();
  EXPECT_EQ(AwaitExit(), kExitFailed);
}

// It lives while its coordinator is away for a while, and is told to go at any time.
TEST_F(ReaderExchangeTest, IsToldToGoWhileItReads) {
  source_.Put("a", Samples(0, 4));
  Start();
  Joins();
  From(0);
  coordinator_.Await<Spooled>();
  coordinator_.BreakOff();
  Stop();
  EXPECT_EQ(AwaitExit(), kExitTerminated);
}

}  // namespace
}  // namespace muster
