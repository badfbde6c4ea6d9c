#include "lib/spool/state/stream_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace muster {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// ---- one reader, said and heard as a dialogue

std::string TextOf(const StreamReaderAction& action) {
  struct {
    std::string operator()(const StartSource& a) {
      return absl::StrCat("start ", a.position, " ", a.place.file, "+", a.place.sample);
    }
    std::string operator()(const TakeSamples& a) { return absl::StrCat("take ", a.most); }
    std::string operator()(const OpenSegment& a) {
      return absl::StrCat("open ", a.number, " at ", a.first);
    }
    std::string operator()(const AppendSamples&) { return "append"; }
    std::string operator()(const SyncSegment&) { return "sync"; }
    std::string operator()(const TellSpooled& a) {
      return absl::StrCat("tell ", a.spooled.segment, ": ", a.spooled.first, "+", a.spooled.count,
                          " ", a.spooled.place.file, "+", a.spooled.place.sample,
                          a.spooled.end ? " end" : "");
    }
    std::string operator()(const AnswerSender& a) { return absl::StrCat("answer ", a.positions); }
    std::string operator()(const EndReader& a) { return std::string(a.status.message()); }
  } text;
  return std::visit(text, action);
}

class OneReader {
 public:
  explicit OneReader(uint64_t segment_samples = 4)
      : reader_({.segment_samples = segment_samples}) {}

  std::vector<std::string> Hear(const StreamReaderInput& input) {
    std::vector<std::string> texts;
    for (const StreamReaderAction& action : reader_.Handle(input, now_))
      texts.push_back(TextOf(action));
    return texts;
  }
  std::vector<std::string> Pass(Duration time) {
    now_ += time;
    return Hear(TimePassed{});
  }
  std::vector<std::string> Come(uint64_t count, uint64_t sample, bool end = false) {
    return Hear(SamplesCame{count, {.file = "a", .sample = sample}, end});
  }
  std::vector<std::string> Ack(uint64_t positions, uint64_t room = 100, int64_t term = 1) {
    return Hear(AckSpooled{TermNumber(term), positions, 0, room});
  }
  const StreamReader& reader() const { return reader_; }
  Time now() const { return now_; }

 private:
  StreamReader reader_;
  Time now_{};
};

SpoolFrom From(uint64_t positions, int64_t next_segment, uint64_t room = 100, int64_t term = 1) {
  return {TermNumber(term), positions, {.file = "a", .sample = positions}, next_segment, 0, room};
}

TEST(StreamReader, AppendsSyncsTellsAndWaits) {
  OneReader reader;
  EXPECT_THAT(reader.Pass(seconds(5)), IsEmpty());
  EXPECT_FALSE(reader.reader().Wakes());
  EXPECT_THAT(reader.Hear(From(0, 7)), ElementsAre("start 0 a+0", "take 4"));
  EXPECT_THAT(reader.Come(0, 0), ElementsAre("take 4"));
  EXPECT_THAT(reader.Come(2, 2), ElementsAre("open 7 at 0", "append", "sync", "take 2"));
  EXPECT_THAT(reader.Hear(SegmentSynced{}), ElementsAre("tell 7: 0+2 a+2"));
  // Not so soon again.
  EXPECT_THAT(reader.Come(1, 3), ElementsAre("append", "take 1"));
  EXPECT_EQ(reader.reader().Wakes(), reader.now() + milliseconds(100));
  EXPECT_THAT(reader.Pass(milliseconds(100)), ElementsAre("sync"));
  // One word at a time.
  EXPECT_THAT(reader.Hear(SegmentSynced{}), IsEmpty());
  EXPECT_THAT(reader.Ack(2), ElementsAre("answer 2", "tell 7: 0+3 a+3"));
  // The next segment begins when all of this one are facts.
  EXPECT_THAT(reader.Come(1, 4), ElementsAre("append", "sync")) << "it is full";
  EXPECT_THAT(reader.Hear(SegmentSynced{}), IsEmpty());
  EXPECT_THAT(reader.Ack(3), ElementsAre("answer 3", "tell 7: 0+4 a+4"));
  EXPECT_THAT(reader.Ack(4), ElementsAre("answer 4", "take 4"));
  EXPECT_THAT(reader.Come(1, 5), ElementsAre("open 8 at 4", "append", "take 3"));
}

TEST(StreamReader, WhatIsSyncedIsWhatWasAppendedBefore) {
  OneReader reader(10);
  reader.Hear(From(0, 0));
  EXPECT_THAT(reader.Come(2, 2), ElementsAre("open 0 at 0", "append", "sync", "take 8"));
  EXPECT_THAT(reader.Come(3, 5), ElementsAre("append", "take 5"));
  EXPECT_THAT(reader.Hear(SegmentSynced{}), ElementsAre("tell 0: 0+2 a+2"));
}

TEST(StreamReader, TheEndIsToldBehindAllSamples) {
  OneReader reader;
  reader.Hear(From(0, 0));
  EXPECT_THAT(reader.Come(2, 2, true), ElementsAre("open 0 at 0", "append", "sync"));
  EXPECT_THAT(reader.Hear(SegmentSynced{}), ElementsAre("tell 0: 0+2 a+2 end"));
  EXPECT_THAT(reader.Ack(2), ElementsAre("answer 2"));
  EXPECT_THAT(reader.Pass(seconds(100)), IsEmpty());
  // Until he is told to leave, in each session.
  EXPECT_THAT(reader.Hear(From(2, 1, 100, 2)), ElementsAre("tell 0: 0+2 a+2 end"));
}

TEST(StreamReader, AnEndWithoutASampleHasNoSegment) {
  OneReader reader;
  reader.Hear(From(8, 3));
  EXPECT_THAT(reader.Come(0, 8, true), ElementsAre("tell 3: 8+0 a+8 end"));
  EXPECT_THAT(reader.Hear(From(8, 3, 100, 2)), ElementsAre("tell 3: 8+0 a+8 end"));
}

TEST(StreamReader, AnEndAfterAWordIsAnotherWord) {
  OneReader reader;
  reader.Hear(From(0, 0));
  reader.Come(2, 2);
  EXPECT_THAT(reader.Hear(SegmentSynced{}), ElementsAre("tell 0: 0+2 a+2"));
  EXPECT_THAT(reader.Come(0, 2, true), IsEmpty());
  EXPECT_THAT(reader.Ack(2), ElementsAre("answer 2", "tell 0: 0+2 a+2 end"));
}

TEST(StreamReader, GoesOnWhileThereIsRoomOrSomeAreNeeded) {
  OneReader reader(100);
  EXPECT_THAT(reader.Hear(SpoolFrom{TermNumber(1), 0, {}, 0, 3, 2}),
              ElementsAre("start 0 +0", "take 3"));
  EXPECT_THAT(reader.Come(3, 3), ElementsAre("open 0 at 0", "append", "sync"));
  EXPECT_THAT(reader.Hear(SegmentSynced{}), ElementsAre("tell 0: 0+3 a+3"));
  EXPECT_THAT(reader.Ack(3, 3), ElementsAre("answer 3"));
  EXPECT_THAT(reader.Ack(3, 5), ElementsAre("take 2"));
  // Less room is no harm.
  EXPECT_THAT(reader.Ack(3, 0), IsEmpty());
  EXPECT_THAT(reader.Come(2, 5), ElementsAre("append"));
}

TEST(StreamReader, SegmentsGrowWhileMoreIsNeededThanThereIsRoomFor) {
  OneReader reader(2);
  reader.Hear(SpoolFrom{TermNumber(1), 0, {}, 0, 1000, 0});
  uint64_t positions = 0;
  int64_t segment = 0;
  for (const uint64_t most : {2, 4, 8, 16}) {
    EXPECT_THAT(reader.Come(most, positions + most),
                ElementsAre(absl::StrCat("open ", segment++, " at ", positions), "append", "sync"));
    reader.Hear(SegmentSynced{});
    positions += most;
    EXPECT_THAT(reader.Hear(AckSpooled{TermNumber(1), positions, 1000, positions}),
                ElementsAre(absl::StrCat("answer ", positions), absl::StrCat("take ", 2 * most)));
  }
  // Something was trimmed: the one that is begun is full, and the next is short again.
  reader.Come(5, positions + 5);
  reader.Pass(milliseconds(100));
  reader.Hear(SegmentSynced{});
  EXPECT_THAT(reader.Hear(AckSpooled{TermNumber(1), positions + 5, 1000, positions + 50}),
              ElementsAre(absl::StrCat("answer ", positions + 5)));
  EXPECT_THAT(reader.Come(0, positions + 5), ElementsAre("take 2"));
}

TEST(StreamReader, AFullSegmentIsSyncedAtOnce) {
  OneReader reader(2);
  reader.Hear(From(0, 0));
  reader.Come(1, 1);
  reader.Hear(SegmentSynced{});
  EXPECT_THAT(reader.Ack(1), ElementsAre("answer 1"));
  EXPECT_THAT(reader.Come(1, 2), ElementsAre("append", "sync"));
}

TEST(StreamReader, ANewSessionGoesOnWhereTheOldOneWas) {
  OneReader reader(100);
  reader.Hear(From(0, 0));
  reader.Come(2, 2);
  reader.Hear(SegmentSynced{});
  // The word was lost.
  EXPECT_THAT(reader.Hear(From(0, 0, 100, 2)), ElementsAre("tell 0: 0+2 a+2"));
  // The answer was lost.
  EXPECT_THAT(reader.Hear(From(2, 1, 100, 3)), ElementsAre("answer 2"));
  // An answer of an old term says nothing.
  EXPECT_THAT(reader.Ack(2, 500, 2), IsEmpty());
  EXPECT_THAT(reader.Come(1, 3), ElementsAre("append", "take 97"));
}

TEST(StreamReader, BeginsAnewWhereOthersHaveGoneOn) {
  OneReader reader(100);
  reader.Hear(From(0, 0));
  reader.Come(2, 2);
  reader.Hear(SegmentSynced{});
  EXPECT_THAT(reader.Hear(From(5, 3, 100, 2)), ElementsAre("start 5 a+5", "answer 5", "take 95"));
  EXPECT_THAT(reader.Come(1, 6), ElementsAre("open 3 at 5", "append", "take 94"));
}

TEST(StreamReader, ASegmentOfAnotherIsNotGoneOnWith) {
  OneReader reader(100);
  reader.Hear(From(0, 0));
  reader.Come(2, 2);
  reader.Hear(SegmentSynced{});
  reader.Ack(2);
  EXPECT_THAT(reader.Hear(From(2, 4, 100, 2)), ElementsAre("start 2 a+2", "take 98"));
}

TEST(StreamReader, AnOlderStoreEndsIt) {
  OneReader reader(100);
  reader.Hear(From(0, 0));
  reader.Come(2, 2);
  reader.Hear(SegmentSynced{});
  reader.Ack(2);
  EXPECT_THAT(reader.Hear(From(1, 1, 100, 2)),
              ElementsAre(HasSubstr("an older copy of its store was put back")));
  EXPECT_THAT(reader.Hear(From(2, 1, 100, 2)), IsEmpty());
}

TEST(StreamReader, AnAnswerForMoreThanWasToldEndsIt) {
  OneReader reader(100);
  reader.Hear(From(0, 0));
  reader.Come(2, 2);
  EXPECT_THAT(reader.Ack(1), ElementsAre(HasSubstr("acknowledged 1 samples")));
}

TEST(StreamReader, WhatCouldNotBeWrittenIsTakenAgainIntoAnotherFile) {
  OneReader reader(100);
  reader.Hear(From(0, 0));
  reader.Come(2, 2);
  EXPECT_THAT(reader.Hear(SegmentSynced{}), ElementsAre("tell 0: 0+2 a+2"));
  reader.Come(3, 5);
  EXPECT_THAT(reader.Hear(SpoolFailed{absl::ResourceExhaustedError("full")}), IsEmpty());
  EXPECT_TRUE(reader.reader().retries());
  EXPECT_EQ(reader.reader().taken(), 2u);
  EXPECT_THAT(reader.Pass(milliseconds(999)), IsEmpty());
  // What was told is not a fact yet, and its segment is that of the next word, too.
  EXPECT_THAT(reader.Pass(milliseconds(1)), ElementsAre("start 2 a+2"));
  EXPECT_THAT(reader.Ack(2), ElementsAre("answer 2", "take 98"));
  EXPECT_THAT(reader.Come(1, 3), ElementsAre("open 1 at 2", "append", "sync", "take 97"));
  // The second time in a row it waits for longer.
  reader.Hear(SpoolFailed{absl::ResourceExhaustedError("full")});
  EXPECT_EQ(reader.reader().Wakes(), reader.now() + seconds(2));
}

TEST(StreamReader, ASourceThatMayComeBackIsTriedAgain) {
  OneReader reader(100);
  reader.Hear(From(0, 0));
  reader.Come(2, 2);
  EXPECT_THAT(reader.Hear(SourceFailed{absl::UnavailableError("away")}), IsEmpty());
  EXPECT_THAT(reader.Hear(SegmentSynced{}), ElementsAre("tell 0: 0+2 a+2"));
  EXPECT_THAT(reader.Pass(seconds(1)), ElementsAre("start 2 a+2", "take 98"));
  EXPECT_THAT(reader.Hear(SourceFailed{absl::DataLossError("a: late")}), ElementsAre("a: late"));
  EXPECT_THAT(reader.Pass(seconds(100)), IsEmpty());
}

// ---- many readers, one after the other and at the same time, a disk, a coordinator and a source

// Samples of the source are values; the source is a sender who keeps what was not answered, or
// files of a folder. A process that dies loses what it has not synced, or a part of that.
class World {
 public:
  explicit World(uint64_t seed) : random_(seed) {
    total_ = Below(60);
    in_segment_ = 1 + Below(7);
    is_folder_ = Below(2) == 0;
    has_end_ = Below(4) != 0;
    for (uint64_t i = 0; i < total_; ++i) source_.push_back(1000 * seed + Below(1000));
    step_ = 1 + Below(4);
  }

  void Run() {
    Join();
    for (int i = 0; i < 4000 && !IsDone(); ++i) {
      Misfortune();
      Progress();
      Check();
    }
    // Without misfortunes all comes, and the end with it.
    lucky_ = true;
    if (!live_) Join();
    for (int i = 0; i < 4000 && !IsDone(); ++i) Progress(), Check();
    ASSERT_TRUE(IsDone()) << positions_ << " of " << total_ << " facts";
    EXPECT_EQ(end_, has_end_ ? std::optional<uint64_t>(total_) : std::nullopt);
    std::vector<uint64_t> used;
    for (uint64_t i = 0; i < positions_; ++i) used.push_back(ValueAt(i));
    EXPECT_EQ(used, source_);
  }

  int deaths = 0, cut_offs = 0, failures = 0, restarts = 0, full = 0;

 private:
  using File = std::pair<int64_t, uint64_t>;  // number, writer
  struct Content {
    uint64_t first = 0;
    std::vector<uint64_t> values;
    size_t synced = 0;
  };
  struct Process {
    uint64_t writer = 0;
    std::unique_ptr<StreamReader> core;
    std::deque<StreamReaderInput> inputs;  // of the process itself
    std::shared_ptr<Content> file;         // it may be deleted, and is open still
    std::vector<uint64_t> came;
    uint64_t at = 0;       // the next sample of the source
    uint64_t wanted = 0;   // of the source
    uint64_t session = 0;  // 0: none
    bool closed = false;
  };
  struct Said {  // on its way
    uint64_t session = 0;
    std::variant<Spooled, SpoolFrom, AckSpooled> what;
  };

  uint64_t Below(uint64_t end) { return end == 0 ? 0 : random_() % end; }
  bool IsDone() const { return positions_ == total_ && (!has_end_ || end_); }

  // Another one begins, and is the live one; the one before may not know.
  void Join() {
    auto process = std::make_shared<Process>();
    process->writer = next_writer_++;
    process->core = std::make_unique<StreamReader>(
        StreamReader::Options{.segment_samples = in_segment_, .first_retry = milliseconds(50)});
    processes_.push_back(process);
    live_ = process;
    Greet();
  }
  // A session of the live reader begins, with all that was said in the one before lost.
  void Greet() {
    live_->session = ++sessions_;
    acknowledged_ = {};
    Send({live_->session,
          SpoolFrom{TermNumber(term_), positions_, place_, NextSegment(), Needed(), Room()}});
  }
  int64_t NextSegment() const { return rows_.empty() ? 0 : rows_.back().number + 1; }
  uint64_t Needed() const { return (used_ / step_ + 2) * step_ + 1; }
  uint64_t Room() const { return (rows_.empty() ? positions_ : rows_.front().first) + 10; }

  void Misfortune() {
    switch (Below(40)) {
      case 0:  // dies
        if (live_) Die(live_), ++deaths;
        break;
      case 1:  // is cut off, and lives
        if (live_) live_ = nullptr, ++cut_offs;
        break;
      case 2:  // the coordinator is another one; what was on its way is lost
        ++term_, ++restarts;
        way_.clear();
        if (live_) Greet();
        break;
      case 3: fails_ = Below(3); break;
    }
    if (!live_ && Below(10) == 0) Join();
    if (processes_.size() > 4) Die(processes_.front());
  }
  void Die(const std::shared_ptr<Process>& process) {
    if (Content* content = process->file.get(); content != nullptr)
      content->values.resize(content->synced + Below(content->values.size() - content->synced));
    std::erase(processes_, process);
    if (live_ == process) live_ = nullptr;
  }

  void Progress() {
    now_ += milliseconds(Below(60));
    if (!way_.empty() && Below(3) > 0) Deliver();
    // Training uses facts, and checkpoints let the spool be trimmed.
    if (used_ + step_ + 1 <= positions_ && Below(3) == 0) used_ += step_;
    const std::vector<SpoolSegment> trimmed = TrimmedAt(rows_, used_ < 5 ? 0 : used_ - 5);
    for (const SpoolSegment& segment : trimmed) {
      for (uint64_t i = segment.first; i < segment.end(); ++i) kept_[i] = ValueAt(i);
      files_.erase({segment.number, segment.writer.lo});
      rows_.erase(rows_.begin());
    }
    Acknowledge();
    if (processes_.empty()) return;
    const auto process = processes_[Below(processes_.size())];
    if (process->inputs.empty()) process->inputs.emplace_back(TimePassed{});
    Act(*process);
    if (process->inputs.empty() && process->wanted > 0 && Below(2) == 0) Give(*process);
  }

  void Deliver() {
    const Said said = way_.front();
    way_.pop_front();
    if (const auto* spooled = std::get_if<Spooled>(&said.what)) {
      if (live_ && said.session == live_->session) Journal(*spooled, live_->writer);
      return;
    }
    for (const auto& process : processes_)
      if (process->session == said.session) {
        if (const auto* from = std::get_if<SpoolFrom>(&said.what))
          process->inputs.emplace_back(*from);
        if (const auto* ack = std::get_if<AckSpooled>(&said.what))
          process->inputs.emplace_back(*ack);
      }
  }
  void Send(Said said) { way_.push_back(std::move(said)); }

  // The coordinator's part.
  void Journal(const Spooled& spooled, uint64_t writer) {
    if (spooled.count > 0) {
      const SpoolSegment fact{spooled.segment, {0, writer}, spooled.first, spooled.count};
      if (rows_.empty()) {
        EXPECT_EQ(fact.first, positions_);
      }
      const absl::Status status = AddFacts(rows_, {&fact, 1});
      EXPECT_TRUE(status.ok()) << status;
      EXPECT_GE(fact.end(), positions_);
      positions_ = std::max(positions_, fact.end());
      place_ = spooled.place;
      const Content& content = *files_.at({spooled.segment, writer});
      EXPECT_GE(content.synced, spooled.count) << "a fact is on the disk";
    }
    if (spooled.end) end_ = positions_;
  }
  void Acknowledge() {
    if (!live_ || live_->session == 0 || Below(2) == 0) return;
    const AckSpooled ack{TermNumber(term_), positions_, Needed(), Room()};
    if (acknowledged_ == ack) return;
    acknowledged_ = ack;
    Send({live_->session, ack});
  }

  // What a process does at once: it takes an input, and carries out what follows.
  void Act(Process& process) {
    const StreamReaderInput input = process.inputs.front();
    process.inputs.pop_front();
    for (const StreamReaderAction& action : process.core->Handle(input, now_)) {
      const bool fails = fails_ > 0 && !lucky_ &&
                         (std::holds_alternative<OpenSegment>(action) ||
                          std::holds_alternative<AppendSamples>(action) ||
                          std::holds_alternative<SyncSegment>(action));
      if (fails && Below(2) == 0) {
        --fails_, ++failures;
        process.inputs.emplace_front(SpoolFailed{absl::ResourceExhaustedError("full")});
        return;
      }
      std::visit([&](const auto& what) { Do(process, what); }, action);
    }
  }
  void Do(Process& process, const StartSource& start) {
    if (&process == live_.get()) {
      EXPECT_GE(start.position, answered_) << "a sender has forgotten these";
    }
    if (is_folder_) {
      EXPECT_EQ(start.place.sample, start.position);
    }
    process.at = is_folder_ ? start.place.sample : start.position;
    process.wanted = 0;
  }
  void Do(Process& process, const TakeSamples& take) { process.wanted = take.most; }
  void Do(Process& process, const OpenSegment& open) {
    const File name{open.number, process.writer};
    EXPECT_FALSE(files_.contains(name)) << "nobody goes on with a file that is there";
    process.file = files_[name] = std::make_shared<Content>(Content{.first = open.first});
  }
  void Do(Process& process, const AppendSamples&) {
    Content& content = *process.file;
    content.values.insert(content.values.end(), process.came.begin(), process.came.end());
    process.came.clear();
  }
  void Do(Process& process, const SyncSegment&) {
    Content& content = *process.file;
    content.synced = content.values.size();
    process.inputs.emplace_front(SegmentSynced{});
  }
  void Do(Process& process, const TellSpooled& tell) {
    if (process.session != 0) Send({process.session, tell.spooled});
  }
  void Do(Process&, const AnswerSender& answer) {
    EXPECT_LE(answer.positions, positions_) << "only facts are answered";
    answered_ = std::max(answered_, answer.positions);
  }
  void Do(Process&, const EndReader& end) { ADD_FAILURE() << end.status; }

  void Give(Process& process) {
    const uint64_t count = std::min({process.wanted, total_ - process.at, Below(5)});
    process.wanted = 0;
    process.came.assign(source_.begin() + static_cast<std::ptrdiff_t>(process.at),
                        source_.begin() + static_cast<std::ptrdiff_t>(process.at + count));
    process.at += count;
    if (count > 0 && process.core->taken() + count >= process.core->limit()) ++full;
    process.inputs.emplace_back(
        SamplesCame{count, {.file = "f", .sample = process.at}, has_end_ && process.at == total_});
  }

  uint64_t ValueAt(uint64_t position) const {
    if (const auto kept = kept_.find(position); kept != kept_.end()) return kept->second;
    for (const SpoolSegment& row : rows_)
      if (position >= row.first && position < row.end())
        return files_.at({row.number, row.writer.lo})->values.at(position - row.first);
    ADD_FAILURE() << "position " << position << " is nowhere";
    return 0;
  }
  // Each fact is the source's sample of its position, and on the disk.
  void Check() {
    uint64_t next = rows_.empty() ? positions_ : rows_.front().first;
    for (const SpoolSegment& row : rows_) {
      ASSERT_EQ(row.first, next);
      next = row.end();
      const Content& content = *files_.at({row.number, row.writer.lo});
      ASSERT_EQ(content.first, row.first);
      ASSERT_GE(content.synced, row.count);
      for (uint64_t i = 0; i < row.count; ++i)
        ASSERT_EQ(content.values.at(i), source_.at(row.first + i)) << "position " << row.first + i;
    }
    ASSERT_EQ(next, positions_);
  }

  std::mt19937_64 random_;
  Time now_{};
  bool lucky_ = false;
  uint64_t total_, in_segment_, step_;
  bool is_folder_, has_end_;
  std::vector<uint64_t> source_;
  uint64_t answered_ = 0;
  uint64_t fails_ = 0;  // so many writes will

  std::map<File, std::shared_ptr<Content>> files_;
  std::map<uint64_t, uint64_t> kept_;  // of files that were trimmed

  int64_t term_ = 1;
  std::vector<SpoolSegment> rows_;
  uint64_t positions_ = 0;
  StreamPlace place_{.file = "f"};
  std::optional<uint64_t> end_;
  uint64_t used_ = 0;
  AckSpooled acknowledged_;

  uint64_t next_writer_ = 1, sessions_ = 0;
  std::vector<std::shared_ptr<Process>> processes_;
  std::shared_ptr<Process> live_;  // the one whose words count
  std::deque<Said> way_;
};

TEST(StreamReaders, FactsAreTheSourcesSamplesWhateverHappens) {
  int deaths = 0, cut_offs = 0, failures = 0, restarts = 0, full = 0;
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    World world(seed);
    world.Run();
    if (testing::Test::HasFailure()) return;
    deaths += world.deaths;
    cut_offs += world.cut_offs;
    failures += world.failures;
    restarts += world.restarts;
    full += world.full;
  }
  EXPECT_GT(deaths, 1000);
  EXPECT_GT(cut_offs, 1000);
  EXPECT_GT(failures, 500);
  EXPECT_GT(restarts, 1000);
  EXPECT_GT(full, 500);
}

}  // namespace
}  // namespace muster
