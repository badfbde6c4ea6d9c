#include "worker/plugins/plugin_folder.h"

#include <elf.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/base/exit_codes.h"
#include "tests/worker/plugins/odd_task.h"
#include "worker/plugins/library_extent.h"
#include "worker/plugins/make_any_task.h"
#include "worker/plugins/operator_file.h"

namespace muster::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string BuiltAs(const std::string& oddity) {
  return std::string(MUSTER_TEST_PLUGINS) + "/odd_" + oddity;
}

class PluginFolderTest : public testing::Test {
 protected:
  PluginFolderTest()
      : folder_(testing::TempDir() + "plugins-" + std::to_string(getpid()) + "-" +
                std::to_string(cases_++)) {
    std::filesystem::create_directories(folder_);
  }
  std::string Put(const std::string& oddity, const std::string& name) {
    std::filesystem::copy_file(BuiltAs(oddity) + "/odd_" + oddity + ".so", folder_ + "/" + name,
                               std::filesystem::copy_options::overwrite_existing);
    return folder_ + "/" + name;
  }
  ~PluginFolderTest() override { std::filesystem::remove_all(folder_); }

  const std::string folder_;

 private:
  static inline int cases_ = 0;  // a library that is loaded under one path is loaded once
};

TEST_F(PluginFolderTest, BringsItsTasksAndTheHashOfItsFile) {
  Put("NONE", "a.so");
  std::ofstream(folder_ + "/README") << "no plug-in";
  const auto found = LoadPlugins({folder_});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_THAT(found->refused, IsEmpty());
  ASSERT_EQ(found->tasks.size(), 1u);
  EXPECT_EQ(found->tasks[0].type.info.name, "odd");
  EXPECT_EQ(found->tasks[0].file, folder_ + "/a.so");
  EXPECT_EQ(found->tasks[0].hash.size(), 64u);
}

struct Oddity {
  const char* name;
  const char* says;
  friend std::ostream& operator<<(std::ostream& out, const Oddity& oddity) {
    return out << oddity.name;
  }
};
class OddPlugin : public PluginFolderTest, public testing::WithParamInterface<Oddity> {};

TEST_P(OddPlugin, IsRefusedWithTheReasonAndOthersAreNot) {
  const std::string file = Put(GetParam().name, "a.so");
  Put("NONE", "b.so");
  const auto found = LoadPlugins({folder_});
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_EQ(found->refused.size(), 1u);
  EXPECT_THAT(found->refused[0], testing::StartsWith(file + ": "));
  EXPECT_THAT(found->refused[0], HasSubstr(GetParam().says));
  EXPECT_EQ(found->tasks.size(), 1u);
}

INSTANTIATE_TEST_SUITE_P(
    Oddities, OddPlugin,
    testing::Values(
        Oddity{"NO_SYMBOL", "exports no function muster_plugin"},
        Oddity{"OLD_INTERFACE",
               "version 0 of the interface of plug-ins, and this muster has version 9"},
        Oddity{"OTHER_MUSTER", "built with muster 0.0.9, and this muster with " MUSTER_VERSION},
        Oddity{"OTHER_TORCH", "built with LibTorch 1.13.1, and this muster with "},
        Oddity{"THROWS", "throws when it is loaded: no plug-in today"},
        Oddity{"NO_TASK", "has no task"},
        Oddity{"TAKEN_NAME", "counting has the name of one that is part of Muster"},
        Oddity{"BAD_NAME", "'Odd One'"},
        Oddity{"BAD_DEFAULT", "parameters.sizes[0]: 10 is out of range; allowed: 1 to 9"},
        Oddity{"TWICE", "it has two tasks of the name odd"},
        Oddity{"ENDLESS", "parameter slope of its task odd takes -inf to inf; "},
        Oddity{"TOO_WIDE", "of whole numbers both lie within ±2^53"},
        Oddity{"NO_RULE", "a rule about parameters that it has not"}),
    [](const auto& instance) { return std::string(instance.param.name); });

// Nothing else can stop it, and `muster tasks` would wait for ever without a word.
TEST_F(PluginFolderTest, OneThatIsNeverLoadedEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const std::string file = Put("HANGS", "a.so");
  EXPECT_EXIT(static_cast<void>(LoadPlugins({folder_}, [](const std::string&) {},
                                            {.tell = Duration(), .end = Duration()})),
              testing::ExitedWithCode(kExitFailed),
              "plug-in .*/a.so is not loaded after 0 s: what runs when it is loaded");
}

TEST_F(PluginFolderTest, WhatIsNoLibraryIsRefused) {
  std::ofstream(folder_ + "/a.so") << "#!/bin/sh";
  std::filesystem::create_directory(folder_ + "/b.so");
  std::filesystem::create_symlink("nowhere", folder_ + "/c.so");
  const auto found = LoadPlugins({folder_});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_THAT(found->refused, ElementsAre(HasSubstr("a.so: it cannot be loaded: "),
                                          HasSubstr("b.so: it is no file"),
                                          HasSubstr("c.so: it cannot be read: ")));
}

// As one that is being copied. The process that loaded it would be killed, where a page is touched
// that the file does not have.
TEST_F(PluginFolderTest, WhatIsCutOffIsRefusedAtAnyLengthAndOthersAreNot) {
  Put("NONE", "b.so");
  std::ifstream in(folder_ + "/b.so", std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  std::vector<size_t> lengths = {64, 65, 200, 4096, 5000, whole.size() - 1};
  for (size_t i = 1; i < 40; ++i) lengths.push_back(whole.size() * i / 40);
  for (const size_t length : lengths) {
    // A path that was loaded once is not read again.
    const std::string file = absl::StrCat(folder_, "/cut-", length, ".so");
    std::ofstream(file, std::ios::binary) << whole.substr(0, length);
    const auto found = LoadPlugins({folder_});
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_THAT(found->refused,
                ElementsAre(testing::StartsWith(absl::StrCat(
                    file, ": it is cut off: it has ", length, " bytes, and tells itself of "))));
    EXPECT_EQ(found->tasks.size(), 1u);
    std::filesystem::remove(file);
  }
}

TEST(LibraryExtentTest, LooksAtAllThatIsMapped) {
  std::ifstream in(BuiltAs("NONE") + "/odd_NONE.so", std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  const auto check = [&](size_t piece) {
    LibraryExtent extent;
    for (size_t at = 0; at < bytes.size(); at += piece)
      extent.Add(absl::MakeConstSpan(reinterpret_cast<const std::byte*>(bytes.data()), bytes.size())
                     .subspan(at, piece));
    return extent.Check();
  };
  for (const size_t piece : {size_t{1}, size_t{7}, size_t{4096}, bytes.size()})
    EXPECT_TRUE(check(piece).ok()) << piece << ": " << check(piece);
  const std::string sound = bytes;
  Elf64_Ehdr header;
  std::memcpy(&header, bytes.data(), sizeof header);
  for (size_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr program;
    char* const at = &bytes[header.e_phoff + i * sizeof program];
    std::memcpy(&program, at, sizeof program);
    if (program.p_type != PT_LOAD) continue;
    for (const uint64_t behind : {uint64_t{bytes.size()}, ~uint64_t{0}}) {
      program.p_offset = behind;
      std::memcpy(at, &program, sizeof program);
      EXPECT_EQ(check(7).ok(), program.p_filesz == 0) << i;
    }
    bytes = sound;
  }
  header.e_phoff = bytes.size() - 1;
  std::memcpy(bytes.data(), &header, sizeof header);
  EXPECT_FALSE(check(4096).ok());
}

TEST_F(PluginFolderTest, WhatEverybodyMayWriteIsNotLoaded) {
  const std::string file = Put("NONE", "a.so");
  chmod(file.c_str(), 0666);
  const auto found = LoadPlugins({folder_});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_THAT(found->refused, ElementsAre(HasSubstr("everybody may write to " + file)));
  chmod(folder_.c_str(), 0777);
  EXPECT_THAT(std::string(LoadPlugins({folder_}).status().message()),
              HasSubstr("--plugins: everybody may write to " + folder_));
}

TEST_F(PluginFolderTest, ATaskThatTwoBringIsThatOfTheFirst) {
  const std::string first = Put("NONE", "a.so");
  Put("NONE", "b.so");
  const auto found = LoadPlugins({folder_});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->tasks.size(), 1u);
  EXPECT_THAT(found->refused, ElementsAre(HasSubstr("its task odd is one of " + first)));
}

TEST_F(PluginFolderTest, AFolderThatIsNoneIsNamed) {
  EXPECT_THAT(std::string(LoadPlugins({folder_ + "/x"}).status().message()),
              HasSubstr("--plugins: " + folder_ + "/x cannot be read: "));
}

class MakeAnyTaskTest : public PluginFolderTest {
 protected:
  absl::StatusOr<MadeTask> Make(const std::string& task, ParameterValues parameters = {}) {
    TrainingSpec training;
    training.task = task;
    training.parameters = std::move(parameters);
    return MakeAnyTask(training, DataPart::kTraining, {folder_});
  }
  std::string Refusal(const std::string& task, ParameterValues parameters = {}) {
    const auto made = Make(task, std::move(parameters));
    EXPECT_EQ(made.status().code(), absl::StatusCode::kFailedPrecondition) << made.status();
    return std::string(made.status().message());
  }
};

TEST_F(MakeAnyTaskTest, FindsItInAPlugin) {
  Put("NONE", "a.so");
  const auto made = Make("odd");
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->task->SampleCount(), 40u);
  EXPECT_THAT(made->plugin, testing::MatchesRegex("a.so sha256:[0-9a-f]+"));
}

// As who builds it anew does: another file under the same name. What was loaded stays loaded.
TEST_F(MakeAnyTaskTest, APluginThatChangedSinceItWasLoadedIsNotTakenForTheNewOne) {
  const std::string file = Put("NONE", "a.so");
  const auto before = Make("odd");
  ASSERT_TRUE(before.ok()) << before.status();
  std::filesystem::remove(file);
  Put("NONE", "a.so");
  std::ofstream(file, std::ios::app) << "built anew";
  const auto found = LoadPlugins({folder_});
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_EQ(found->tasks.size(), 1u);
  EXPECT_TRUE(found->tasks[0].has_changed);
  EXPECT_EQ("a.so sha256:" + found->tasks[0].hash, before->plugin) << "of the code that would run";
  const absl::Status after = Make("odd").status();
  EXPECT_EQ(after.code(), absl::StatusCode::kAborted) << after;
  EXPECT_EQ(std::string(after.message()),
            "plug-in " + file + " changed while this worker prepared; start again");
  EXPECT_TRUE(Make("counting").ok()) << "it is no matter of a job that does not use it";
  std::filesystem::remove(file);
  Put("NONE", "a.so");
  const auto again = Make("odd");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->plugin, before->plugin);
}

TEST_F(MakeAnyTaskTest, AFileOfTorchScriptIsTheSameForAllPartsOfAJob) {
  std::ofstream(folder_ + "/net.pt") << "abc";
  TrainingSpec training;
  training.task = "torchscript";
  training.parameters = {{"file", std::string("net.pt")}};
  Preparing preparing;
  preparing.plugin = "net.pt sha256:" + FindOperatorFile("net.pt", {folder_}, 3)->hash;
  const auto make = [&] {
    return MakeAnyTask(training, DataPart::kTraining, {folder_}, preparing).status();
  };
  EXPECT_FALSE(absl::IsAborted(make())) << make();
  std::ofstream(folder_ + "/net.pt") << "abd";
  EXPECT_TRUE(absl::IsAborted(make())) << make();
  EXPECT_THAT(std::string(make().message()), HasSubstr("net.pt changed while this worker"));
}

// Which tasks prepare is seen from the class.
struct Plain : OddTask {
  using OddTask::OddTask;
};
struct WithPrepare : Plain {
  using Plain::Plain;
  static absl::Status Prepare(const TaskOptions&, const Preparation&) {
    return absl::DataLossError("its own");
  }
};
struct WithAnother : Plain {
  using Plain::Plain;
  absl::Status Prepare(int) { return absl::OkStatus(); }
};

TEST(TypeOfTest, TakesAStaticPrepareForThat) {
  EXPECT_FALSE(TypeOf<Plain>({.name = "plain"}).prepare);
  EXPECT_FALSE(TypeOf<WithAnother>({.name = "another"}).prepare);
  const TaskType type = TypeOf<WithPrepare>({.name = "with"});
  ASSERT_TRUE(type.prepare);
  EXPECT_EQ(type.prepare({}, {}).message(), "its own");
}

class PreparingTest : public PluginFolderTest {
 protected:
  PreparingTest() {
    std::filesystem::copy_file(std::string(MUSTER_TEST_PLUGINS) + "/preparing/preparing.so",
                               folder_ + "/preparing.so");
    training_.task = "preparing";
    training_.parameters = {{"notes", folder_}};
    preparing_.folders = folder_ + "/prepared";
    preparing_.kept_hashes = "";
  }
  absl::StatusOr<MadeTask> Make(DataPart part = DataPart::kTraining) {
    return MakeAnyTask(training_, part, {folder_}, preparing_);
  }
  int Runs() const {
    std::ifstream in(folder_ + "/runs");
    return static_cast<int>(std::count(std::istreambuf_iterator<char>(in), {}, '\n'));
  }
  TrainingSpec training_;
  Preparing preparing_;
};

TEST_F(PreparingTest, IsDoneOnceForJobsThatDifferInNothingOfMatter) {
  training_.seed = 1;
  const auto first = Make();
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_NE(first->prepared, nullptr);
  EXPECT_EQ(first->prepared->files().rfind(preparing_.folders, 0), 0u);
  training_.seed = 2;
  training_.validation.paths = {"/elsewhere"};
  training_.data.verify = VerifyData::kQuick;
  const auto second = Make(DataPart::kValidation);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(Runs(), 1);
  EXPECT_EQ(second->prepared->hash(), first->prepared->hash());
  training_.parameters["does"] = "its best";
  EXPECT_TRUE(Make().ok());
  EXPECT_EQ(Runs(), 2) << "another parameter";
}

TEST_F(PreparingTest, OtherDataIsOtherWork) {
  training_.task = "preparing-files";
  training_.data.paths = {folder_ + "/text"};
  const auto runs_with = [&](const char* text) {
    std::ofstream(folder_ + "/text") << text;
    const auto made = Make();
    EXPECT_TRUE(made.ok()) << made.status();
    return Runs();
  };
  EXPECT_EQ(runs_with("one"), 1);
  EXPECT_EQ(runs_with("two"), 2);
  EXPECT_EQ(runs_with("one"), 2);
}

TEST_F(PreparingTest, WhatWasPreparedForTheSameJobIsNotLookedForAgain) {
  auto first = Make();
  ASSERT_TRUE(first.ok()) << first.status();
  preparing_.known = first->prepared;
  preparing_.folders = "/dev/null/nowhere";
  const auto second = Make(DataPart::kValidation);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->prepared, first->prepared);
}

// A checkpoint brings its state.
TEST_F(PreparingTest, OfAModelThatHoldsAllOfItNothingIsPreparedForACheckpoint) {
  training_.task = "preparing-holding";
  training_.data.paths = {folder_ + "/text"};
  std::ofstream(folder_ + "/text") << "one";
  EXPECT_NE(Make().value().prepared, nullptr);
  EXPECT_EQ(Runs(), 1);
  std::filesystem::remove(folder_ + "/text");
  EXPECT_FALSE(Make().ok()) << "a job that begins has to have its data";

  preparing_.is_for_checkpoint = true;
  const auto to_measure = Make(DataPart::kValidation);
  ASSERT_TRUE(to_measure.ok()) << to_measure.status();
  EXPECT_EQ(to_measure->prepared, nullptr);
  EXPECT_EQ(to_measure->task->SampleCount(), 40u);
  // What it says of its samples is not asked for.
  training_.parameters["does"] = "has no sample";
  EXPECT_FALSE(Make(DataPart::kValidation).ok());
  const auto to_generate = Make(DataPart::kNone);
  EXPECT_TRUE(to_generate.ok()) << to_generate.status();
  EXPECT_EQ(Runs(), 1);
}

TEST_F(PreparingTest, ATaskThatNeedsItsDataToGenerateSaysSo) {
  training_.task = "preparing-files";
  training_.data.paths = {folder_ + "/text"};
  preparing_.is_for_checkpoint = true;
  const absl::Status missing = Make(DataPart::kNone).status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kInvalidArgument) << missing;
  EXPECT_THAT(std::string(missing.message()),
              testing::AllOf(testing::StartsWith("task preparing-files needs the data it was "
                                                 "trained with also to generate"),
                             HasSubstr("--data"), HasSubstr(folder_ + "/text")));
  EXPECT_THAT(std::string(Make().status().message()), testing::Not(HasSubstr("generate")));
  std::ofstream(folder_ + "/text") << "one";
  const auto made = Make(DataPart::kNone);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_NE(made->prepared, nullptr);
}

// What the one before prepared is not given to the one that took its place.
TEST_F(PreparingTest, WhatWasPreparedIsForThePluginThatPreparedIt) {
  const auto first = Make();
  ASSERT_TRUE(first.ok()) << first.status();
  preparing_.known = first->prepared;
  preparing_.plugin = first->plugin;
  EXPECT_TRUE(Make(DataPart::kValidation).ok());
  preparing_.plugin = "preparing.so sha256:0";
  EXPECT_TRUE(absl::IsAborted(Make(DataPart::kValidation).status()));
}

TEST_F(PreparingTest, ErrorsNameThePluginTheTaskAndWhatIsWrong) {
  const auto refusal = [&] { return std::string(Make().status().message()); };
  training_.parameters["prepares"] = "nothing";
  EXPECT_EQ(refusal(),
            "plug-in preparing.so: task preparing: nothing was prepared: it has left its folder "
            "empty");
  preparing_.folders = "";
  EXPECT_THAT(refusal(), HasSubstr("this machine has no place for it: set XDG_CACHE_HOME"));
  training_.task = "preparing-files";
  training_.data.paths = {folder_ + "/nothing"};
  preparing_.folders = folder_ + "/prepared";
  EXPECT_THAT(refusal(),
              testing::StartsWith("plug-in preparing.so: task preparing-files prepares from the "
                                  "training data: data.paths: "));
}

TEST_F(MakeAnyTaskTest, OneOfMusterItselfNeedsNoPlugin) {
  std::ofstream(folder_ + "/a.so") << "none";
  const auto made = Make("counting");
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->plugin, "");
}

TEST_F(MakeAnyTaskTest, WrongParametersAreNamedByTheirPath) {
  Put("NONE", "a.so");
  EXPECT_EQ(Refusal("odd", {{"doe", 1}}), "parameters.doe: no such field; did you mean 'does'?");
  EXPECT_EQ(Refusal("odd", {{"does", 1}}), "parameters.does: 1 is not text; put it in quotes");
  EXPECT_THAT(Refusal("odd", {{"really", "yes"}}), HasSubstr("parameters.really: 'yes'"));
  EXPECT_THAT(Refusal("odd", {{"sizes", std::vector<double>{1, 0.5}}}),
              HasSubstr("parameters.sizes[1]: 0.5 is not a whole number"));
  EXPECT_THAT(Refusal("odd", {{"names", std::vector<std::string>{"z"}}}),
              HasSubstr("parameters.names[0]: 'z' is not known; allowed: x, y"));
  EXPECT_TRUE(Make("odd", {{"names", std::vector<double>{}}}).ok())
      << "an empty list is of any type";
}

TEST_F(MakeAnyTaskTest, AFileOfTheJobsComesFromTheFoldersAlone) {
  const auto refusal = [&](const std::string& file) {
    return Refusal("torchscript", {{"file", file}});
  };
  EXPECT_THAT(Refusal("torchscript"), HasSubstr("parameters.file: is missing; "));
  for (const char* name : {"../net.pt", "/etc/passwd", ".."})
    EXPECT_THAT(refusal(name), HasSubstr(absl::StrCat("'", name, "' is no name; "))) << name;
  EXPECT_THAT(refusal("net.pt"), HasSubstr("there is no 'net.pt' in " + folder_));
  std::ofstream(folder_ + "/net.pt") << "none";
  chmod((folder_ + "/net.pt").c_str(), 0666);
  EXPECT_THAT(refusal("net.pt"), HasSubstr("everybody may write to "));
  std::filesystem::create_directory(folder_ + "/folder.pt");
  EXPECT_THAT(refusal("folder.pt"), HasSubstr("folder.pt: it is no file"));
  std::filesystem::create_symlink("nowhere", folder_ + "/link.pt");
  EXPECT_THAT(refusal("link.pt"), HasSubstr("link.pt: it cannot be read"));
}

TEST_F(PluginFolderTest, AFileIsReadWithItsHashWithinItsBound) {
  std::ofstream(folder_ + "/net.pt") << "abc";
  const auto found = FindOperatorFile("net.pt", {folder_}, 3);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->bytes, "abc");
  EXPECT_EQ(found->hash, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_THAT(std::string(FindOperatorFile("net.pt", {folder_}, 2).status().message()),
              HasSubstr("net.pt: it has 3 bytes, and this worker has memory for 2 of them"));
  EXPECT_THAT(std::string(FindOperatorFile("net.pt", {}, 3).status().message()),
              HasSubstr("this host has no folder of plug-ins"));
}

TEST_F(MakeAnyTaskTest, WhatNobodyBringsIsToldWithWhatThereIs) {
  Put("NONE", "a.so");
  EXPECT_THAT(Refusal("mlp"), HasSubstr("'mlp' is unknown; there are code-lm, counting, layers, "
                                        "torchscript, transformer, odd, and no plug-in in " +
                                        folder_));
  std::ofstream(folder_ + "/z.so") << "none";
  EXPECT_THAT(Refusal("mlp"), HasSubstr("z.so: it cannot be loaded"));
}

// Another host may have it; a job that is wrong is wrong everywhere.
TEST_F(MakeAnyTaskTest, WhatThisHostLacksIsToldFromWhatIsWrong) {
  Put("NONE", "a.so");
  const auto lacks = [](const std::string& task, ParameterValues parameters,
                        const std::string& folder) {
    TrainingSpec training;
    training.task = task;
    training.parameters = std::move(parameters);
    const absl::Status why = MakeAnyTask(training, DataPart::kTraining, {folder}).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(why)) << why;
    return IsLackOfPlugin(why);
  };
  EXPECT_TRUE(lacks("mlp", {}, folder_));
  EXPECT_TRUE(lacks("odd", {}, folder_ + "/nowhere"));
  EXPECT_FALSE(lacks("odd", {{"does", int64_t{3}}}, folder_));
  EXPECT_TRUE(lacks("torchscript", {{"file", std::string("net.pt")}}, folder_));
  EXPECT_TRUE(lacks("torchscript", {{"file", std::string("net.pt")}}, folder_ + "/nowhere"));
  EXPECT_FALSE(lacks("torchscript", {{"file", std::string("../net.pt")}}, folder_));
  EXPECT_FALSE(lacks("torchscript", {}, folder_));
}

}  // namespace
}  // namespace muster::worker
