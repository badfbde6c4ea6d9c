// Plays the scenarios in this folder (README.md tells their words) over the simulator, without
// chance.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "gtest/gtest.h"
#include "tests/sim/world.h"

namespace muster::sim {
namespace {

using Words = std::vector<std::string>;

constexpr char kSays[] = "> ";

int64_t NumberOf(const std::string& word) {
  int64_t n = 0;
  if (!absl::SimpleAtoi(word, &n)) ADD_FAILURE() << "'" << word << "' is no number";
  return n;
}

// Pairs of a word and its value.
JobOptions OptionsOf(const Words& words) {
  JobOptions options;
  options.checkpoint_every = 0;
  std::optional<StreamOptions> stream;
  std::optional<int64_t> steps;
  for (size_t i = 0; i + 1 < words.size(); i += 2) {
    const std::string &key = words[i], &value = words[i + 1];
    if (key == "workers")
      options.workers = static_cast<int32_t>(NumberOf(value));
    else if (key == "servers")
      options.servers = static_cast<int32_t>(NumberOf(value));
    else if (key == "lanes")
      options.lanes = static_cast<int32_t>(NumberOf(value));
    else if (key == "chunks")
      options.chunks = static_cast<int32_t>(NumberOf(value));
    else if (key == "steps")
      options.steps = *(steps = NumberOf(value));
    else if (key == "checkpoint")
      options.checkpoint_every = NumberOf(value);
    else if (key == "fingerprint")
      options.fingerprint_ms = NumberOf(value);
    else if (key == "stream")
      stream.emplace().samples = static_cast<uint64_t>(NumberOf(value));
    else if (key == "still" && stream)
      stream->stands_still_at = static_cast<uint64_t>(NumberOf(value));
    else if (key == "sync")
      options.sync = value == "server" ? Sync::kServer : Sync::kAllreduce;
    else if (key == "order")
      options.order = value == "free" ? SumOrder::kFree : SumOrder::kCanonical;
    else
      ADD_FAILURE() << "unknown option '" << key << "'";
  }
  if (stream) {
    stream->steps = steps.value_or(0);
    TakeStream(options, *stream);
  }
  return options;
}

class Player {
 public:
  // Carries a command out; gives what the coordinator said meanwhile.
  std::vector<std::string> Do(const std::string& command) {
    const Words words = absl::StrSplit(command, ' ', absl::SkipEmpty());
    const size_t before = world_ ? world_->trace().size() : 0;
    if (words[0] == "workers") {
      WorldOptions options;
      options.smooth = true;
      options.faults = 0;
      options.jobs = {OptionsOf(words)};
      world_ = std::make_unique<World>(options);
    } else if (!world_) {
      ADD_FAILURE() << "a scenario begins with its workers";
      return {};
    } else if (words[0] == "summary") {
      return {Summary()};
    } else {
      Act(command, words);
    }
    EXPECT_EQ(world_->violation(), "") << "after: " << command;
    return Said(before);
  }

 private:
  void Act(const std::string& command, const Words& words) {
    if (absl::StartsWith(command, "run ")) return Run(command, words);
    if (command == "kill everybody") return world_->KillAll();
    if (absl::StartsWith(command, "kill coordinator "))
      return world_->KillCoordinator(NumberOf(words[2]));
    if (absl::StartsWith(command, "hold back ")) return world_->HoldBack(words[2]);
    if (words.size() == 2 && words[0] == "kill") return world_->Kill(words[1]);
    if (words.size() == 2 && words[0] == "start") return world_->Start(words[1]);
    if (words.size() == 3 && words[0] == "pause")
      return world_->Stall(words[1], NumberOf(words[2]));
    if (words.size() == 3 && words[0] == "break") return world_->BreakSession(words[1], words[2]);
    if (words.size() == 4 && words[0] == "cut")
      return world_->Cut(words[1], words[2], NumberOf(words[3]));
    if (words.size() == 1 && words[0] == "stop")
      return world_->StopJob(world_->first_job().options.id);
    if (command == "damage checkpoint")
      return world_->DamageCheckpoint(world_->first_job().options.id);
    ADD_FAILURE() << "unknown command: " << command;
  }

  void Run(const std::string& command, const Words& words) {
    const Step step(words.size() > 3 && words[words.size() - 2] == "step" ? NumberOf(words.back())
                                                                          : 0);
    const int64_t start = world_->now();
    const size_t before = world_->trace().size();
    std::function<bool()> there;
    absl::string_view text = command;
    if (command == "run until done") {
      there = [this] { return world_->ended(); };
    } else if (absl::StartsWith(command, "run until step ")) {
      there = [this, step] { return world_->recorded() >= step; };
    } else if (absl::StartsWith(command, "run until members reach step ")) {
      there = [this, step] { return world_->furthest() >= step; };
    } else if (absl::StartsWith(command, "run for ")) {
      const int64_t end = start + NumberOf(words[2]);
      there = [this, end] { return world_->now() >= end; };
    } else if (absl::ConsumePrefix(&text, "run until told ")) {
      there = [this, before, text] {
        const std::vector<std::string> said = Said(before);
        return std::any_of(said.begin(), said.end(),
                           [&](const std::string& s) { return absl::StartsWith(s, text); });
      };
    } else {
      FAIL() << "unknown command: " << command;
    }
    EXPECT_TRUE(world_->RunUntil(there))
        << command << ": it did not come to that; the last things that happened:\n"
        << absl::StrJoin(LastLines(), "\n");
  }

  std::vector<std::string> LastLines() const {
    const std::vector<std::string>& lines = world_->trace();
    return {lines.end() - static_cast<std::ptrdiff_t>(std::min<size_t>(lines.size(), 12)),
            lines.end()};
  }

  // What the coordinator said, without the time.
  std::vector<std::string> Said(size_t from) const {
    std::vector<std::string> said;
    for (size_t i = from; i < world_->trace().size(); ++i) {
      const std::string& line = world_->trace()[i];
      const size_t at = line.find("ms  > ");
      if (at != std::string::npos) said.push_back(line.substr(at + 6));
    }
    return said;
  }

  std::string Summary() const {
    const coordinator::JobJournal& job = *world_->first_job().store.journal;
    return absl::StrCat(std::string(coordinator::PhaseName(job.phase)), "; views ", job.views,
                        ", recoveries ", job.recoveries, ", rewinds ", job.rewinds,
                        ", lanes run again ", job.lanes.recomputed());
  }

  std::unique_ptr<World> world_;
};

struct Line {
  std::string text;
  bool command() const { return !text.empty() && text[0] != '#' && !absl::StartsWith(text, kSays); }
};

std::vector<Line> Read(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::vector<Line> lines;
  for (std::string text; std::getline(in, text);) lines.push_back({text});
  return lines;
}

void Play(const std::filesystem::path& file) {
  Player player;
  std::vector<std::string> said;
  size_t next = 0;
  int number = 0;
  for (const Line& line : Read(file)) {
    ++number;
    SCOPED_TRACE(absl::StrCat(file.filename().string(), ":", number));
    if (line.command()) {
      said = player.Do(line.text);
      next = 0;
    } else if (absl::StartsWith(line.text, kSays)) {
      const auto it = std::find(said.begin() + static_cast<std::ptrdiff_t>(next), said.end(),
                                line.text.substr(2));
      ASSERT_NE(it, said.end()) << "not said here: " << line.text.substr(2)
                                << "\nsaid since the last command:\n"
                                << absl::StrJoin(said, "\n");
      next = static_cast<size_t>(it - said.begin()) + 1;
    }
    if (testing::Test::HasFailure()) return;
  }
}

// Commands and comments stay; what is said is written anew.
void Update(const std::filesystem::path& file) {
  Player player;
  std::vector<std::string> out;
  for (const Line& line : Read(file)) {
    if (absl::StartsWith(line.text, kSays)) continue;
    out.push_back(line.text);
    if (!line.command()) continue;
    for (const std::string& text : player.Do(line.text)) out.push_back(absl::StrCat(kSays, text));
  }
  std::ofstream(file) << absl::StrJoin(out, "\n") << "\n";
}

class Scenario : public testing::Test {
 public:
  Scenario(std::filesystem::path file, bool update) : file_(std::move(file)), update_(update) {}
  void TestBody() override { update_ ? Update(file_) : Play(file_); }

 private:
  std::filesystem::path file_;
  bool update_;
};

size_t Register(bool update) {
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(MUSTER_SCENARIOS)) {
    const std::filesystem::path file = entry.path();
    if (file.extension() != ".txt" || file.stem() == "CMakeLists") continue;
    testing::RegisterTest(
        "Scenario", file.stem().c_str(), nullptr, nullptr, __FILE__, __LINE__,
        [file, update]() -> testing::Test* { return new Scenario(file, update); });
    ++count;
  }
  return count;
}

}  // namespace
}  // namespace muster::sim

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const bool update = argc > 1 && std::string(argv[1]) == "--update";
  if (muster::sim::Register(update) == 0) return 1;
  return RUN_ALL_TESTS();
}
