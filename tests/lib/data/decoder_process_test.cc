#include "lib/data/decoder_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/data/decoder_wire.h"
#include "lib/data/hash_listener.h"
#include "tests/lib/data/opened_set.h"
#include "tests/lib/data/scripted_decoder.h"

namespace muster {
namespace {

using testing::HasSubstr;

TEST(Decoders, GiveWhatIsAnswered) {
  const Files files;
  Decoders decoders({.program = Script(files, Printf(Answered(0, "rows")) + "; cat >/dev/null")});
  const auto answer = decoders.Ask("what");
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(*answer, "rows");
}

struct Wrong {
  const char* name;
  std::string script;
  const char* says;
  absl::StatusCode code = absl::StatusCode::kDataLoss;
  friend std::ostream& operator<<(std::ostream& out, const Wrong& wrong) {
    return out << wrong.name;
  }
};
class WrongDecoder : public testing::TestWithParam<Wrong> {};

TEST_P(WrongDecoder, IsAnErrorWithWords) {
  const Files files;
  Decoders decoders(
      {.program = Script(files, GetParam().script), .patience = std::chrono::milliseconds(1000)});
  const absl::Status status = decoders.Ask("what").status();
  EXPECT_EQ(status.code(), GetParam().code) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(GetParam().says));
}

INSTANTIATE_TEST_SUITE_P(
    Table, WrongDecoder,
    testing::Values(
        Wrong{"Refuses", Printf(Answered(1, "no HDF5 file")) + "; cat >/dev/null", "no HDF5 file"},
        Wrong{"Crashes", "kill -SEGV $$", "the process that decodes it ended by signal 11"},
        Wrong{"Leaves", "exit 3", "the process that decodes it ended with exit code 3"},
        Wrong{"Hangs", "cat >/dev/null",
              "two processes that were to decode it, one after the other, gave no answer within "
              "1 s"},
        Wrong{"EndsInTheMiddle", Printf(WireWriter().Number(9).bytes() + "1234"), "ended with"},
        Wrong{"TellsOfTooMuch", Printf(std::string(8, '\xff')) + "; cat >/dev/null", "ended by"},
        Wrong{"TalksNonsense", Printf(WireWriter().Number(3).bytes() + "abc") + "; cat >/dev/null",
              "talks nonsense"}),
    [](const auto& tried) { return std::string(tried.param.name); });

TEST(Decoders, ThatAreMissingAreNamed) {
  const Files files;
  const absl::Status status = Decoders({.program = files.root() + "/nothing"}).Ask("what").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), HasSubstr("/nothing"));
}

// One that ends the first time it is started, as somebody's need for memory may do.
TEST(Decoders, AreReplacedOnce) {
  const Files files;
  const std::string mark = files.root() + "/started";
  Decoders decoders(
      {.program = Script(files, "[ -e " + mark + " ] || { : > " + mark + "; kill -KILL $$; }\n" +
                                    Printf(Answered(0, "rows")) + "; cat >/dev/null")});
  const auto answer = decoders.Ask("what");
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(*answer, "rows");
}

TEST(Decoders, AreNotReplacedForEver) {
  const Files files;
  Decoders decoders({.program = Script(files, "kill -SEGV $$"), .most_deaths = 3});
  for (const char* what : {"this", "that"})
    EXPECT_EQ(decoders.Ask(what).status().code(), absl::StatusCode::kDataLoss);
  const absl::Status status = decoders.Ask("another").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), HasSubstr("has ended 4 times"));
  EXPECT_TRUE(IsBadSample(decoders.Ask("this").status())) << "that is known";
}

// Bad bytes and a fault of its own are bad everywhere; what somebody or the machine has done is
// not.
TEST(Decoders, TellWhatIsTheFaultOfWhatIsAskedForAndAreNotEndedByItAgain) {
  const auto answers = [](uint64_t code) {
    return Printf(Answered(code, "no row")) + "; cat >/dev/null";
  };
  const struct {
    std::string does;
    bool is_bad;
    int questions;
    size_t starts;  // of all of them
  } kRows[] = {
      {"kill -SEGV $$", true, 3, 2},  {"kill -ABRT $$", true, 3, 2}, {"kill -KILL $$", false, 3, 6},
      {"kill -TERM $$", false, 3, 6}, {"kill -BUS $$", false, 3, 6}, {"kill -ALRM $$", false, 3, 6},
      {"exit 3", false, 3, 6},        {"exit 127", false, 3, 6},     {answers(1), true, 1, 1},
      {answers(2), false, 3, 3},      {answers(3), false, 3, 6},     {answers(4), false, 3, 3},
      {"cat >/dev/null", true, 3, 2}, {"kill -STOP $$", true, 3, 2}};
  for (const auto& row : kRows) {
    SCOPED_TRACE(row.does);
    const Files files;
    const std::string starts = files.root() + "/starts";
    Decoders decoders({.program = Script(files, "echo >> " + starts + "; " + row.does),
                       .patience = std::chrono::milliseconds(300)});
    for (int i = 0; i < row.questions; ++i) {
      const absl::Status status = decoders.Ask("what").status();
      EXPECT_TRUE(absl::IsDataLoss(status)) << status;
      EXPECT_EQ(IsBadSample(status), row.is_bad) << status;
    }
    EXPECT_EQ(std::filesystem::file_size(starts), row.starts);
  }
}

// Two on which a question waits, and no third: so long may the thread that trains stand still.
TEST(Decoders, ThatTakeTooLongAreToldOfWithWhatTheyWereAskedFor) {
  const Files files;
  std::vector<std::string> warned;
  Decoders decoders({.program = Script(files, "kill -STOP $$"),
                     .patience = std::chrono::milliseconds(200),
                     .warns = [&](const std::string& text) { warned.push_back(text); }});
  const absl::Status status = decoders.Ask("what", "sample 7: cat.jpg").status();
  EXPECT_TRUE(IsBadSample(status)) << status;
  EXPECT_EQ(status.message(),
            "two processes that were to decode it, one after the other, gave no answer within "
            "0.2 s");
  const std::string told =
      "muster-decoder gave no answer for sample 7: cat.jpg within 0.2 s; it was ended, and another "
      "one takes its place";
  EXPECT_THAT(warned, testing::ElementsAre(told, told));
}

// Each of them waits for two, and the machine may be what stands still.
TEST(Decoders, ThatTakeTooLongOneAfterTheOtherAreNoSamplesFault) {
  const Files files;
  Decoders decoders({.program = Script(files, "cat >/dev/null"),
                     .patience = std::chrono::milliseconds(500),
                     .most_silences = 2});
  EXPECT_TRUE(IsBadSample(decoders.Ask("one").status()));
  const absl::Status status = decoders.Ask("another").status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_FALSE(IsBadSample(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("gave no answer 3 times within 0.5 s"));
}

TEST(Decoders, TakeAPartOfTheTimeThatTheThreadWhichReadsMayStandStill) {
  HashListener listener;
  listener.warns = [](const std::string&) {};
  const struct {
    std::chrono::milliseconds stands_still, waits;
  } kRows[] = {{std::chrono::seconds(120), std::chrono::seconds(15)},
               {std::chrono::seconds(1), std::chrono::milliseconds(125)},
               {std::chrono::hours(24), std::chrono::seconds(60)}};
  for (const auto& row : kRows) {
    listener.patience = row.stands_still;
    const HashListening listening(muster_set_hash_listener, listener);
    const DecoderOptions options = DecoderOptionsOfThread();
    EXPECT_EQ(options.patience, row.waits);
    EXPECT_LT((options.most_silences + 1) * options.patience, row.stands_still);
    EXPECT_TRUE(options.warns != nullptr);
  }
  EXPECT_EQ(DecoderOptionsOfThread().patience, std::chrono::seconds(15)) << "nobody says more";
}

// Asks for "0", "1", … up to `parts`, and tells what came of each.
struct Many {
  absl::StatusOr<size_t> answered = size_t{0};
  bool took_too_long = false;  // the next one
  std::vector<std::string> told;
};
Many AskForMany(Decoders& decoders, size_t parts) {
  Many many;
  const auto next = [&](size_t part) {
    return part < parts ? std::optional(absl::StrCat(part)) : std::nullopt;
  };
  const auto take = [&](size_t part, const auto& answer) {
    EXPECT_EQ(part, many.told.size());
    many.told.push_back(answer.ok() ? std::string(*answer)
                                    : absl::StrCat(IsBadSample(answer.status()) ? "bad: " : "",
                                                   answer.status().message()));
  };
  const auto about = [](size_t part) { return absl::StrCat("part ", part); };
  const absl::StatusOr<Decoders::Asked> asked = decoders.AskForMany(next, take, about);
  if (asked.ok())
    many.answered = asked->answered;
  else
    many.answered = asked.status();
  many.took_too_long = asked.ok() && asked->took_too_long;
  return many;
}

TEST(Decoders, ThatAreAskedForManyTellOfEachByItself) {
  const Files files;
  const std::string starts = files.root() + "/starts";
  Decoders decoders(
      {.program = Script(files, absl::StrCat("echo >> ", starts, "; ",
                                             Printf(Answered(0, "first") + Answered(1, "no row") +
                                                    Answered(2, "no disk") + Answered(0, "last")),
                                             "; dd bs=1 count=36 >/dev/null 2>&1; ",
                                             Printf(Answered(0, "rows")), "; cat >/dev/null"))});
  const Many many = AskForMany(decoders, 4);
  EXPECT_EQ(many.answered.value_or(0), 4u);
  EXPECT_THAT(many.told, testing::ElementsAre("first", "bad: no row", "no disk", "last"));
  EXPECT_EQ(decoders.Ask("what").value_or(""), "rows") << "the same goes on";
  EXPECT_EQ(std::filesystem::file_size(starts), 1u);
}

TEST(Decoders, ThatAreAskedForNothingAnswerNothing) {
  const Files files;
  Decoders decoders({.program = Script(files, "cat >/dev/null")});
  EXPECT_EQ(AskForMany(decoders, 0).answered.value_or(1), 0u);
}

// What it has not answered is asked for alone, which tells whose fault it is.
TEST(Decoders, ThatAreAskedForManyAreNotAskedAgain) {
  for (const std::string& does :
       {std::string("kill -SEGV $$"), Printf(Answered(3, "no memory")) + "; cat >/dev/null",
        Printf(Answered(9, "what")) + "; cat >/dev/null", std::string("cat >/dev/null")}) {
    SCOPED_TRACE(does);
    const Files files;
    const std::string starts = files.root() + "/starts";
    std::vector<std::string> warned;
    Decoders decoders(
        {.program = Script(files, absl::StrCat("echo >> ", starts, "; ",
                                               Printf(Answered(0, "first")), "; ", does)),
         .patience = std::chrono::milliseconds(300),
         .warns = [&](const std::string& text) { warned.push_back(text); }});
    const Many many = AskForMany(decoders, 3);
    EXPECT_EQ(many.took_too_long, does == "cat >/dev/null");
    ASSERT_EQ(warned.size(), many.took_too_long ? 1u : 0u);
    if (many.took_too_long) {
      EXPECT_THAT(warned[0], HasSubstr("no answer for part 1 within 0.3 s"));
    }
    EXPECT_EQ(many.answered.value_or(9), 1u);
    EXPECT_THAT(many.told, testing::ElementsAre("first"));
    EXPECT_EQ(std::filesystem::file_size(starts), 1u);
  }
}

// One that is stopped is no sample's fault; the others are often stopped with it.
TEST(Decoders, ThatWereStoppedAreReplacedAfterOneWait) {
  const Files files;
  const std::string starts = files.root() + "/starts";
  int warned = 0;
  // The first two answer once, and stop.
  Decoders decoders(
      {.program = Script(
           files, "echo >> " + starts + "; until [ \"$(wc -c < " + starts + ")\" -ge 2 ]; do :; " +
                      "done\ndd bs=1 count=12 >/dev/null 2>&1; " + Printf(Answered(0, "rows")) +
                      "; [ \"$(wc -c < " + starts + ")\" -ge 3 ] || kill -STOP $$; cat >/dev/null"),
       .patience = std::chrono::milliseconds(1000),
       .warns = [&](const std::string&) { ++warned; }});
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t)
    threads.emplace_back([&] { EXPECT_EQ(decoders.Ask("what").value_or(""), "rows"); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(AskForMany(decoders, 1).took_too_long);
  EXPECT_EQ(decoders.Ask("what", "a file", /*takes=*/1).value_or(""), "rows")
      << "the other one, which is stopped as well, is not waited for";
  EXPECT_EQ(warned, 1);
  EXPECT_EQ(std::filesystem::file_size(starts), 3u);
}

TEST(Decoders, ThatCannotBeStartedAreAnError) {
  const Files files;
  Decoders decoders({.program = files.root() + "/nothing"});
  EXPECT_TRUE(absl::IsInternal(AskForMany(decoders, 1).answered.status()));
}

TEST(Decoders, OfWhichSomebodyKilledOneSayNothingOfTheBytes) {
  for (const auto& [first, second] : {std::pair("KILL", "SEGV"), std::pair("SEGV", "KILL")}) {
    const Files files;
    const std::string mark = files.root() + "/started";
    Decoders decoders(
        {.program = Script(files, absl::StrCat("[ -e ", mark, " ] && kill -", second, " $$\n: > ",
                                               mark, "; kill -", first, " $$"))});
    const absl::Status status = decoders.Ask("what").status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_FALSE(IsBadSample(status)) << first << ", " << second;
  }
}

// Two that have answered before end at the next question, whatever that is.
TEST(Decoders, AreFreshWhereTheyAreAskedAgain) {
  const Files files;
  const std::string starts = files.root() + "/starts";
  Decoders decoders(
      {.program =
           Script(files, "echo >> " + starts + "; until [ \"$(wc -c < " + starts +
                             ")\" -ge 2 ]; do :; done\n" + "dd bs=1 count=12 >/dev/null 2>&1; " +
                             Printf(Answered(0, "rows")) +
                             "; dd bs=1 count=1 >/dev/null 2>&1; kill -SEGV $$")});
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t)
    threads.emplace_back([&] { EXPECT_EQ(decoders.Ask("what").value_or(""), "rows"); });
  for (std::thread& thread : threads) thread.join();
  const auto answer = decoders.Ask("what");
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(*answer, "rows");
}

TEST(Decoders, OfEachThreadAreOthers) {
  const Files files;
  Decoders decoders({.program = Script(files, "while :; do " + Printf(Answered(0, "rows")) +
                                                  "; dd bs=1 count=12 >/dev/null 2>&1; done")});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 3; ++i) EXPECT_EQ(decoders.Ask("what").value_or(""), "rows");
    });
  for (std::thread& thread : threads) thread.join();
}

TEST(MusterDecoder, RefusesWhatItDoesNotKnowAndLivesOn) {
  auto decoder = DecoderProcess::Start({});
  ASSERT_TRUE(decoder.ok()) << decoder.status();
  std::vector<std::string> requests = {"", "x", "12345678", "\x02\0\0\0\0\0\0\0\xff\xff\xff\xff"};
  for (const uint64_t size : {uint64_t{0}, uint64_t{8193}, ~uint64_t{0}})
    for (const uint64_t channels : {2, 3})
      requests.push_back(Asking(DecoderRequest::kImage)
                             .Number(8192)
                             .Number(size)
                             .Number(1)
                             .Number(0)
                             .Number(channels)
                             .Number(~uint64_t{0})
                             .bytes());
  for (const std::string& request : requests) (*decoder)->Ask(request);
  for (size_t i = 0; i < requests.size(); ++i) {
    const auto answer = (*decoder)->NextAnswer();
    ASSERT_TRUE(answer.ok()) << answer.status();
    WireReader reader(*answer);
    EXPECT_EQ(reader.Number(), static_cast<uint64_t>(DecoderAnswer::kFault));
    EXPECT_EQ(reader.Text(), "the request is broken");
    EXPECT_TRUE(reader.AtEnd());
  }
}

// By way of a script that tells its process and may lower its limits.
class StartedDecoder : public testing::Test {
 protected:
  std::string Program(const std::string& before = ":") const {
    return Script(files_, absl::StrCat("echo $$ >> ", files_.root(), "/pids; ", before, "; ",
                                       ExecTheRealOne()));
  }
  std::vector<pid_t> Pids() const {
    std::ifstream pids(files_.root() + "/pids");
    return {std::istream_iterator<pid_t>(pids), {}};
  }
  static std::string AskVersion() { return Asking(DecoderRequest::kHdf5Version).bytes(); }

  const Files files_;
};

// The system of a machine that is short of memory kills it, or a person does, whatever the signal.
TEST_F(StartedDecoder, ThatWasKilledIsReplaced) {
  Decoders decoders({.program = Program()});
  const auto first = decoders.Ask(AskVersion());
  ASSERT_TRUE(first.ok()) << first.status();
  for (const int sent : {SIGKILL, SIGSEGV, SIGBUS}) {
    const pid_t pid = Pids().back();
    ASSERT_EQ(kill(pid, sent), 0);
    const auto again = decoders.Ask(AskVersion());
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(*again, *first);
    EXPECT_NE(Pids().back(), pid);
  }
}

TEST_F(StartedDecoder, ThatWasStoppedIsReplaced) {
  int warned = 0;
  Decoders decoders({.program = Program(),
                     .patience = std::chrono::milliseconds(2000),
                     .warns = [&](const std::string&) { ++warned; }});
  const auto first = decoders.Ask(AskVersion());
  ASSERT_TRUE(first.ok()) << first.status();
  const pid_t pid = Pids().back();
  ASSERT_EQ(kill(pid, SIGSTOP), 0);
  EXPECT_EQ(decoders.Ask(AskVersion()).value_or(""), *first);
  EXPECT_NE(Pids().back(), pid);
  EXPECT_EQ(warned, 1);
}

// Else the same bytes could end it on one machine, and be read on another.
TEST_F(StartedDecoder, HasTheLimitsThatItHasEverywhereOrDoesNotStart) {
  Decoders decoders({.program = Program("ulimit -s 1024")});
  const auto answer = decoders.Ask(AskVersion());
  if (!answer.ok()) {
    EXPECT_THAT(std::string(answer.status().message()), HasSubstr("ended with exit code 1"));
    EXPECT_FALSE(IsBadSample(answer.status()));
    return;
  }
  std::ifstream limits(absl::StrCat("/proc/", Pids().back(), "/limits"));
  const std::string text{std::istreambuf_iterator<char>(limits), {}};
  EXPECT_THAT(text, testing::ContainsRegex("Max stack size +8388608 +8388608"));
}

TEST(WireReader, BelievesNoLength) {
  const std::string sound = WireWriter().Number(7).Text("abc").Number(9).bytes();
  for (size_t size = 0; size < sound.size(); ++size) {
    WireReader reader(absl::string_view(sound).substr(0, size));
    reader.Number();
    reader.Text();
    reader.Number();
    EXPECT_FALSE(reader.AtEnd()) << size;
  }
  WireReader reader(sound);
  EXPECT_EQ(reader.Number(), 7u);
  EXPECT_EQ(reader.Text(), "abc");
  EXPECT_FALSE(reader.AtEnd());
  EXPECT_EQ(reader.Number(), 9u);
  EXPECT_TRUE(reader.AtEnd());
  const std::string too_long = WireWriter().Number(~uint64_t{0}).bytes();
  WireReader long_text(too_long);
  EXPECT_EQ(long_text.Text(), "");
  EXPECT_FALSE(long_text.ok());
}

}  // namespace
}  // namespace muster
