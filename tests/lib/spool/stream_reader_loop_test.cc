// A reader with a real spool and real sources; what would be the coordinator makes facts of what it
// says, and a second one begins where the first was ended.
#include "lib/spool/runtime/stream_reader_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "lib/base/mutex.h"
#include "lib/spool/runtime/folder_source.h"
#include "lib/spool/runtime/socket_source.h"
#include "lib/spool/segment.h"
#include "lib/spool/spool_reader.h"
#include "lib/spool/state/sender_bytes.h"
#include "tests/lib/spool/spooled.h"

namespace muster {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

// Journals what it is told. Thread-safe.
class Journal {
 public:
  explicit Journal(uint64_t limit = 1000) : limit_(limit) {}

  void Take(Incarnation writer, const Spooled& spooled) {
    {
      const MutexLock lock(mutex_);
      const SpoolSegment fact{spooled.segment, writer, spooled.first, spooled.count};
      if (spooled.count > 0) {
        EXPECT_TRUE(AddFacts(facts_, {&fact, 1}).ok());
        positions_ = fact.end();
      }
      place_ = spooled.place;
      ended_ = ended_ || spooled.end;
    }
    changed_.NotifyAll();
  }
  SpoolFrom From() const {
    const MutexLock lock(mutex_);
    return {TermNumber(1), positions_, place_, facts_.empty() ? 0 : facts_.back().number + 1, 0,
            limit_};
  }
  AckSpooled Ack() const {
    const SpoolFrom from = From();
    return {from.term, from.positions, from.needed, from.room};
  }
  void WaitFor(uint64_t positions, bool end = false) const {
    const MutexLock lock(mutex_);
    while (positions_ < positions || (end && !ended_)) changed_.Wait(mutex_);
  }
  std::vector<SpoolSegment> facts() const {
    const MutexLock lock(mutex_);
    return facts_;
  }
  uint64_t positions() const { return From().positions; }

 private:
  const uint64_t limit_;
  mutable Mutex mutex_;
  mutable CondVar changed_;
  std::vector<SpoolSegment> facts_ ABSL_GUARDED_BY(mutex_);
  uint64_t positions_ ABSL_GUARDED_BY(mutex_) = 0;
  StreamPlace place_ ABSL_GUARDED_BY(mutex_);
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

// A reader that runs.
class Running {
 public:
  Running(Journal& journal, const std::string& spool, std::unique_ptr<StreamSource> source,
          uint64_t number, uint64_t segment_samples = 4)
      : source_(std::move(source)),
        loop_({.folder = spool,
               .sample_bytes = 3,
               .writer = {0, number},
               .options = {.segment_samples = segment_samples,
                           .sync_every = std::chrono::milliseconds(1),
                           .first_retry = std::chrono::milliseconds(1),
                           .last_retry = std::chrono::milliseconds(1)},
               .source = source_.get(),
               .clock = &clock_,
               .tell =
                   [this, &journal, number](const Spooled& spooled) {
                     journal.Take({0, number}, spooled);
                     loop_.Post(journal.Ack());
                   },
               .told =
                   [this](const std::string& words) {
                     const MutexLock lock(mutex_);
                     told_.push_back(words);
                   },
               .lacks =
                   [this](const std::string& why) {
                     const MutexLock lock(mutex_);
                     lacks_.push_back(why);
                     changed_.NotifyAll();
                   }}),
        thread_([this] { status_ = loop_.Run(); }) {
    loop_.Post(journal.From());
  }
  ~Running() {
    loop_.Stop(/*is_done=*/false);
    if (thread_.joinable()) thread_.join();
  }
  absl::Status Ended() {
    thread_.join();
    return status_;
  }
  // What was said first of its source.
  std::vector<std::string> Lacks(size_t count) const {
    const MutexLock lock(mutex_);
    while (lacks_.size() < count) changed_.Wait(mutex_);
    return lacks_;
  }
  std::vector<std::string> told() const {
    const MutexLock lock(mutex_);
    return told_;
  }

 private:
  const RealClock clock_{};
  const std::unique_ptr<StreamSource> source_;
  mutable Mutex mutex_;
  mutable CondVar changed_;
  std::vector<std::string> told_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> lacks_ ABSL_GUARDED_BY(mutex_);
  absl::Status status_;
  StreamReaderLoop loop_;
  std::thread thread_;
};

class StreamReaderLoopTest : public testing::Test {
 protected:
  std::string Read(const Journal& journal) const {
    std::string all;
    const RealClock clock;
    for (const SpoolSegment& fact : journal.facts()) {
      std::string samples(3 * fact.count, '\0');
      const absl::Status read = ReadSpooledFile(
          spool_, fact, 3, fact.first,
          absl::MakeSpan(reinterpret_cast<std::byte*>(samples.data()), samples.size()),
          {.clock = &clock, .pause = [](Duration) { return false; }});
      EXPECT_TRUE(read.ok()) << read;
      all += samples;
    }
    return all;
  }
  std::unique_ptr<StreamSource> FolderSource() const { return MakeFolderSource(source_.path(), 3); }
  std::unique_ptr<StreamSource> SocketSource() const {
    static const RealClock clock;
    return MakeSocketSource(source_ / "socket", 3, {.clock = &clock});
  }

  const Folder checkpoints_, source_;
  const std::string spool_ = checkpoints_ / "stream";
};

TEST_F(StreamReaderLoopTest, SpoolsAFolderThroughReadersThatEnd) {
  Journal journal;
  for (uint64_t i = 0; i < 6; ++i) {
    source_.Put(std::to_string(i), Samples(7 * i, 7));
    if (i == 5) source_.Put("END", "");
    const Running reader(journal, spool_, FolderSource(), 1 + i);
    journal.WaitFor(7 * (i + 1) - (i < 5 ? i % 3 : 0), i == 5);
  }
  EXPECT_EQ(Read(journal), Samples(0, 42));
  for (const SpoolSegment& fact : journal.facts()) EXPECT_LE(fact.count, 4u);
}

TEST_F(StreamReaderLoopTest, SpoolsASocketWhoseSenderKeepsWhatWasNotAnswered) {
  Journal journal;
  uint64_t kept_from = 0;
  // What docs would tell a sender: connect, go on from the position that is told, keep the rest.
  const auto send_some = [&](uint64_t until, bool end) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string path = source_ / "socket";
    std::memcpy(address.sun_path, path.data(), path.size());
    const Descriptor connection(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    while (connect(connection.get(), reinterpret_cast<const sockaddr*>(&address),
                   sizeof(address)) != 0) {
    }
    uint64_t greeting[3] = {};
    ASSERT_EQ(recv(connection.get(), greeting, sizeof(greeting), MSG_WAITALL), 24);
    ASSERT_GE(greeting[1], kept_from);
    std::string words;
    for (uint64_t i = greeting[1]; i < until; ++i) words += "\1" + Sample(i);
    if (end) words += "\2";
    ASSERT_EQ(send(connection.get(), words.data(), words.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(words.size()));
    for (uint64_t answered = 0; answered < until;) {
      ASSERT_EQ(recv(connection.get(), &answered, sizeof(answered), MSG_WAITALL), 8);
      kept_from = answered;
    }
  };
  {
    const Running reader(journal, spool_, SocketSource(), 1);
    send_some(5, false);
    send_some(9, false);
  }
  {
    const Running reader(journal, spool_, SocketSource(), 2);
    send_some(23, true);
    journal.WaitFor(23, true);
  }
  EXPECT_EQ(Read(journal), Samples(0, 23));
}

// However often it is tried, it is said once, and once more when it is over.
TEST_F(StreamReaderLoopTest, ASourceThatIsAwayIsToldUntilItIsThere) {
  Journal journal;
  const std::string folder = source_ / "later";
  const Running running(journal, spool_, MakeFolderSource(folder, 3), 1);
  EXPECT_THAT(running.Lacks(1), ElementsAre(HasSubstr(folder)));
  std::filesystem::create_directory(folder);
  EXPECT_THAT(running.Lacks(2), ElementsAre(HasSubstr(folder), ""));
  source_.Put("later/a", "AAA");
  journal.WaitFor(1);
  EXPECT_THAT(running.Lacks(2), SizeIs(2));
}

TEST_F(StreamReaderLoopTest, BadDataOfTheSourceEndsIt) {
  Journal journal;
  source_.Put("a", Samples(0, 2));
  source_.Put("b", "xxxx");
  Running reader(journal, spool_, FolderSource(), 1);
  const absl::Status status = reader.Ended();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr(source_ / "b: it has 4 bytes"));
}

TEST_F(StreamReaderLoopTest, StandsStillWithoutRoom) {
  Journal journal(5);
  source_.Put("a", Samples(0, 20));
  {
    const Running reader(journal, spool_, FolderSource(), 1);
    journal.WaitFor(5);
  }
  EXPECT_EQ(journal.positions(), 5u);
  EXPECT_EQ(Read(journal), Samples(0, 5));
}

class AnsweringSource final : public StreamSource {
 public:
  absl::Status Start(uint64_t, const StreamPlace&) override { return absl::OkStatus(); }
  absl::StatusOr<SamplesCame> Take(uint64_t, Duration, std::string&) override {
    return SamplesCame{};
  }
  void Answer(uint64_t positions) override { answers_.push_back(positions); }
  void Wake() override {}
  const std::vector<uint64_t>& answers() const { return answers_; }

 private:
  std::vector<uint64_t> answers_;
};

// What a sender hears of a loop that is stopped so before it has begun.
std::vector<uint64_t> AnswersOfStopped(const std::string& spool, bool is_done) {
  AnsweringSource source;
  const RealClock clock;
  StreamReaderLoop loop({.folder = spool,
                         .sample_bytes = 3,
                         .writer = {0, 1},
                         .source = &source,
                         .clock = &clock,
                         .tell = [](const Spooled&) {},
                         .told = [](const std::string&) {}});
  loop.Post(SpoolFrom{TermNumber(1), 5, {}, 1, 0, 1000});
  loop.Stop(is_done);
  EXPECT_TRUE(loop.Run().ok());
  return source.answers();
}

TEST_F(StreamReaderLoopTest, TheLastAnswerGoesOutThoughItIsStopped) {
  EXPECT_THAT(AnswersOfStopped(spool_, /*is_done=*/false), ElementsAre(5));
}

TEST_F(StreamReaderLoopTest, WhoSendsIsToldThatNoMoreAreTaken) {
  EXPECT_THAT(AnswersOfStopped(spool_, /*is_done=*/true), ElementsAre(5, kStreamIsDone));
}

TEST_F(StreamReaderLoopTest, ASpoolThatCannotBeWrittenIsTriedAgain) {
  Journal journal;
  source_.Put("a", Samples(0, 6));
  std::filesystem::remove_all(checkpoints_.path());
  const Running reader(journal, spool_, FolderSource(), 1);
  while (reader.told().size() < 3) std::this_thread::yield();
  EXPECT_THAT(reader.told(), Each(HasSubstr("No such file or directory; it is tried again")));
  std::filesystem::create_directory(checkpoints_.path());
  journal.WaitFor(6);
  EXPECT_EQ(Read(journal), Samples(0, 6));
}

}  // namespace
}  // namespace muster
