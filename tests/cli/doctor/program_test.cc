// muster doctor and muster completion as people have them: with a real cluster, with what is broken
// in it, and with the shells themselves.
#include "tests/support/program.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/identity/identity_folder.h"
#include "nlohmann/json.hpp"
#include "tests/support/small_disk.h"
#include "tests/support/text_of.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

using Words = std::vector<std::string>;

Words Muster(Words words) {
  words.insert(words.begin(), MUSTER_PROGRAM);
  return words;
}

// What doctor says, as JSON.
class Diagnosis {
 public:
  explicit Diagnosis(Words command, const std::function<bool()>& before = {}) {
    command.emplace_back("--json");
    Program program(std::move(command), before);
    exit_code = program.End();
    json_ = nlohmann::json::parse(program.output(), nullptr, /*allow_exceptions=*/false);
    EXPECT_TRUE(json_.is_object()) << program.output();
  }
  // The first one of a check in a section.
  void Expect(const std::string& section, const std::string& check, const std::string& verdict,
              const std::string& text, const std::string& advice = "") const {
    for (const nlohmann::json& finding : Findings())
      if (finding["section"] == section && finding["check"] == check) {
        EXPECT_EQ(finding["verdict"], verdict) << finding;
        EXPECT_THAT(finding.value("text", ""), HasSubstr(text));
        EXPECT_THAT(finding.value("advice", ""), HasSubstr(advice));
        return;
      }
    ADD_FAILURE() << "nothing of " << check << " in " << json_;
  }
  nlohmann::json Findings() const { return json_.value("findings", nlohmann::json::array()); }
  void ExpectNoProblem() const {
    EXPECT_EQ(exit_code, 0) << json_;
    for (const nlohmann::json& finding : Findings())
      EXPECT_NE(finding["verdict"], "problem") << finding;
  }

  int exit_code = -1;

 private:
  nlohmann::json json_;
};

// muster up, and where it answers.
class Cluster {
 public:
  Cluster() : up_(Muster({"up", "--dir", dir_, "--listen", "127.0.0.1:0", "--slots", "1"})) {
    EXPECT_TRUE(up_.WaitFor("submit jobs with")) << up_.output();
    const std::string before = "ready at https://";
    const size_t at = up_.output().find(before) + before.size();
    address_ = up_.output().substr(at, up_.output().find('\n', at) - at);
  }
  ~Cluster() {
    up_.Signal(SIGINT);
    up_.Wait();
  }
  const std::string& dir() const { return dir_; }
  const std::string& address() const { return address_; }
  std::string authority() const { return dir_ + "/store/identity/current/authority.pem"; }

 private:
  const std::string dir_ = MakeFolder();
  Program up_;
  std::string address_;
};

Words WithToken(const std::string& file, Words words) {
  words.insert(words.begin(), {"/usr/bin/env", "MUSTER_TOKEN_FILE=" + file});
  return words;
}

TEST(DoctorTest, AHealthyClusterHasNoProblem) {
  const Cluster cluster;
  const Diagnosis healthy(Muster({"doctor", "--dir", cluster.dir()}));
  healthy.ExpectNoProblem();
  healthy.Expect("host", "muster-worker", "ok", "starts, and is of this version");
  healthy.Expect("host", "muster-decoder", "ok", "starts, and is of this version");
  healthy.Expect("folder", "use", "ok", "A muster runs in it");
  healthy.Expect("folder", "certificate of the coordinator", "ok", "/coordinator is valid until");
  healthy.Expect("cluster", "coordinator", "ok", cluster.address());
  healthy.Expect("cluster", "clock of the coordinator", "ok", "");
  healthy.Expect("cluster", "token", "ok", "takes the token");
  healthy.Expect("cluster", "version", "ok", "of this version");
  healthy.Expect("cluster", "hosts", "ok", "1 host with 1 slot");
  healthy.Expect("cluster", "authority", "ok", "is valid until");

  Program people(Muster({"doctor", "--dir", cluster.dir()}));
  EXPECT_EQ(people.End(), 0);
  EXPECT_THAT(people.output(), AllOf(HasSubstr("\nThe cluster at https://"),
                                     HasSubstr("0 problems"), Not(HasSubstr("\x1b"))));
}

TEST(DoctorTest, WhatIsWrongWithAClusterIsNamed) {
  std::string address, dir, authority = MakeFolder() + "/authority.pem";
  {
    const Cluster cluster;
    address = cluster.address();
    dir = cluster.dir();
    fs::copy_file(cluster.authority(), authority);
    const std::string token = MakeFolder() + "/token";
    std::ofstream(token) << "muster-ada-0123456789\n";
    const Diagnosis stranger(WithToken(
        token, Muster({"doctor", "--to", address, "--authority", authority, "--listen", address})));
    EXPECT_EQ(stranger.exit_code, 1);
    stranger.Expect("cluster", "coordinator", "ok", address);
    stranger.Expect("cluster", "token", "problem", "does not take the token", "MUSTER_TOKEN_FILE");
    stranger.Expect("host", "port " + address, "problem", "taken by muster-coordinator (process ",
                    "another port");
    // Another cluster's authority says that it is somebody else.
    const std::string other = MakeFolder() + "/identity";
    ASSERT_TRUE(MakeUnusedAuthority(other, "c2", absl::Now()).ok());
    const Diagnosis another(
        Muster({"doctor", "--to", address, "--authority", other + "/current/authority.pem"}));
    EXPECT_EQ(another.exit_code, 1);
    another.Expect("cluster", "coordinator", "problem", "not who is expected", "--authority");
  }
  const Diagnosis down(Muster({"doctor", "--to", address, "--authority", authority, "--coordinator",
                               address, "--listen", address}));
  EXPECT_EQ(down.exit_code, 1);
  down.Expect("cluster", "coordinator", "problem", "No coordinator answers at", "muster up");
  down.Expect("host", "way to " + address, "problem", "Nobody listens there",
              "muster up --coordinator");
  down.Expect("host", "port " + address, "ok", "free");
  const Diagnosis at_rest(Muster({"doctor", "--dir", dir}));
  at_rest.ExpectNoProblem();
  at_rest.Expect("folder", "use", "ok", "Nothing runs in it");
  at_rest.Expect("cluster", "coordinator", "skipped", "Nothing runs in");
}

TEST(DoctorTest, AFolderThatMusterWouldNotTake) {
  const std::string folder = MakeFolder();
  std::ofstream(folder + "/mine") << "x";
  const Diagnosis others(Muster({"doctor", "--dir", folder}));
  EXPECT_EQ(others.exit_code, 1);
  others.Expect("folder", "use", "problem", "holds other files (mine)", "name another folder");
  const Diagnosis no_folder(Muster({"doctor", "--dir", folder + "/mine"}));
  EXPECT_EQ(no_folder.exit_code, 1);
  no_folder.Expect("folder", "use", "skipped", "It is no folder");
  no_folder.Expect("folder", "disk", "problem", "which is no folder", "name another folder");
  no_folder.Expect("folder", "certificate of the coordinator", "skipped", "There is none");
}

TEST(DoctorTest, TooFewDescriptors) {
  const Diagnosis few(Muster({"doctor"}), [] {
    const rlimit limit{64, 64};
    return setrlimit(RLIMIT_NOFILE, &limit) == 0;
  });
  EXPECT_EQ(few.exit_code, 1);
  few.Expect("host", "descriptors", "problem", "may open 64 files", "ulimit -Hn");
}

TEST(DoctorTest, ACertificateThatHasEnded) {
  const std::string identity = MakeFolder() + "/identity";
  ASSERT_TRUE(MakeUnusedAuthority(identity, "c1", absl::Now() - absl::Hours(25)).ok());
  fs::remove(identity + "/authority.key");
  const Diagnosis ended(Muster({"doctor", "--identity", identity}));
  EXPECT_EQ(ended.exit_code, 1);
  ended.Expect("host", "certificate of this host", "problem", "ended at", "--join-token-file");
}

// Its folder, with other programs beside it.
class DoctorProgramsTest : public ::testing::Test {
 protected:
  DoctorProgramsTest() {
    for (const char* name : {"muster", "muster-coordinator", "muster-server"}) Put(name);
  }
  ~DoctorProgramsTest() override { fs::remove_all(folder_); }  // programs are large
  void Put(const std::string& name) {
    std::error_code other_disk;
    const fs::path from = fs::path(MUSTER_PROGRAM).parent_path() / name;
    fs::create_hard_link(from, folder_ + "/" + name, other_disk);
    if (other_disk) fs::copy_file(from, folder_ + "/" + name);
  }
  void Write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ + "/" + name, std::ios::binary) << text;
    fs::permissions(folder_ + "/" + name, fs::perms(0755));
  }
  Diagnosis Doctor() { return Diagnosis({folder_ + "/muster", "doctor"}); }
  const std::string folder_ = MakeFolder();
};

TEST_F(DoctorProgramsTest, AWorkerThatIsMissingOrOfAnotherVersion) {
  const Diagnosis missing = Doctor();
  EXPECT_EQ(missing.exit_code, 1);
  missing.Expect("host", "muster-worker", "problem", "is not there: no worker can be started",
                 "one version");
  missing.Expect("host", "muster-server", "ok", "starts");
  missing.Expect("host", "muster-decoder", "warning",
                 "is not there: workers of this host cannot read HDF5 and images", "one version");
  Write("muster-worker", "#!/bin/sh\necho 0.0.1\n");
  Doctor().Expect("host", "muster-worker", "problem", "is of version 0.0.1", "one version");
}

TEST_F(DoctorProgramsTest, ALibraryThatIsMissingIsNamed) {
  std::string worker = TextOf((fs::path(MUSTER_PROGRAM).parent_path() / "muster-worker").string());
  const std::string library = "libtorch_cpu.so";
  if (worker.find(library) == std::string::npos) GTEST_SKIP() << "this worker has no LibTorch";
  for (size_t at = 0; (at = worker.find(library, at)) != std::string::npos;)
    worker.replace(at, library.size(), "libtorch_gone.a");
  Write("muster-worker", worker);
  const Diagnosis broken = Doctor();
  EXPECT_EQ(broken.exit_code, 1);
  broken.Expect("host", "muster-worker", "problem", "missing, libtorch_gone.a", "LD_LIBRARY_PATH");
}

TEST(DoctorTest, AFullDisk) {
  const SmallDisk disk(MakeFolder() + "/disk");
  if (!disk.status().ok()) GTEST_SKIP() << disk.status();
  ASSERT_NE(disk.Fill(), "");
  Words words = Muster({"doctor", "--dir", disk.path()});
  words.insert(words.begin(), {"/usr/bin/env", "TMPDIR=" + disk.path()});
  const Diagnosis full(words);
  EXPECT_EQ(full.exit_code, 1);
  full.Expect("folder", "disk", "problem", "on tmpfs, has 0 B free", "make room");
  full.Expect("folder", "disk: file system", "warning", "lost when the machine starts again",
              "disk");
  full.Expect("host", "TMPDIR", "problem", "is full", "TMPDIR");
}

// A shell that may not be there, with this muster in its PATH and a home of its own.
class ShellTest : public ::testing::Test {
 protected:
  // What it prints.
  std::string Run(const std::string& shell, Words words) {
    words.back() += "\necho 'the shell is done'\n";
    if (!fs::exists("/usr/bin/" + shell) && !fs::exists("/bin/" + shell)) return "";
    words.insert(
        words.begin(),
        {"/usr/bin/env", "HOME=" + home_, "TERM=dumb",
         "PATH=" + fs::path(MUSTER_PROGRAM).parent_path().string() + ":/usr/bin:/bin", shell});
    Program program(words);
    // Bounded by the silence that Program suffers; what still runs then is killed.
    if (!program.WaitFor("the shell is done")) return "it stands still: " + program.output();
    EXPECT_EQ(program.End(), 0) << program.output();
    return program.output().substr(0, program.output().find("the shell is done"));
  }
  // ./dev test clients has installed all shells.
  static void IsMissing() {
    constexpr char kMissing[] = "this shell is not installed (apt-get install bash zsh fish)";
    if (std::getenv("MUSTER_EVERY_SHELL") != nullptr) FAIL() << kMissing;
    GTEST_SKIP() << kMissing;
  }
  const std::string home_ = MakeFolder();
};

// As bash calls it: the words, cut as bash cuts them, and the line.
std::string AsBashAsks(const std::string& cut_words, const std::string& line) {
  return absl::StrCat("COMP_WORDS=(", cut_words, "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); ",
                      "COMP_LINE='", line, "'; COMP_POINT=${#COMP_LINE}; _muster; ",
                      "printf '%s\\n' \"${COMPREPLY[@]}\"; echo .; ");
}

TEST_F(ShellTest, Bash) {
  std::ofstream(home_ + "/a job.yaml") << "";
  const std::string said = Run(
      "bash",
      {"--norc", "-c",
       absl::StrCat(
           "cd; compopt() { :; }; source <(muster completion bash); complete -p muster; ",
           AsBashAsks("muster st", "muster st"),
           AsBashAsks("muster list --to 127.0.0.1 : 1 --st", "muster list --to 127.0.0.1:1 --st"),
           AsBashAsks("muster list --state = do", "muster list --state=do"),
           AsBashAsks("muster token make ada --role = o", "muster token make ada --role=o"),
           AsBashAsks("muster train a", "muster train a"),
           AsBashAsks("muster watch --to 127.0.0.1 : 1 ''", "muster watch --to 127.0.0.1:1 "))});
  if (said.empty()) return IsMissing();
  EXPECT_EQ(said,
            "complete -F _muster muster\nstatus\nstop\n.\n--state\n.\ndone\n.\noperator\n.\n"
            "a job.yaml\n.\n\n.\n");
}

TEST_F(ShellTest, Fish) {
  const Cluster cluster;
  Program submit(Muster({"submit", MUSTER_SOURCE "/examples/counting.yaml", "--id", "count-1",
                         "--dir", cluster.dir()}));
  EXPECT_EQ(submit.End(), 0) << submit.output();
  const auto complete = [](const std::string& line) {
    return absl::StrCat("complete -C '", line, "'; echo .; ");
  };
  const std::string said =
      Run("fish", {"-N", "-c",
                   absl::StrCat("muster completion fish | source; ", complete("muster st"),
                                complete("muster token make ada --role "),
                                complete("muster watch --dir " + cluster.dir() + " "),
                                complete("muster drain --dir " + cluster.dir() + " "))});
  if (said.empty()) return IsMissing();
  EXPECT_THAT(said, HasSubstr("status\tshow how a job stands, and its members\nstop\t"));
  EXPECT_THAT(said, HasSubstr(".\nadmin\noperator\nsubmitter\nviewer\n.\n"));
  EXPECT_THAT(said, HasSubstr(".\ncount-1\t"));
  EXPECT_THAT(said, HasSubstr("\tup\n.\n")) << "the host";
}

// A zsh in a terminal of another one: what is typed, and a tab, becomes a line, which is printed.
constexpr char kZshrc[] = R"(
autoload -Uz compinit; compinit -D -u
source <(muster completion zsh)
show() { print -r -- "[$BUFFER]"; BUFFER=; zle .accept-line }
zle -N show; bindkey '^M' show
PS1='ready> '
)";
constexpr char kTypes[] = R"(
zmodload zsh/zpty; cd
zpty z zsh -i; zpty -r z said '*ready> *'
type() { zpty -n -w z "$1"$'\t\r'; zpty -r z said '*\[*\]*'; print -r -- "$said" }
type 'muster statu'
type 'muster list --to 127.0.0.1:1 --sta'
type 'muster token make ada --role ope'
type 'muster token make ada --role=ope'
type 'muster train a'
type 'muster up --dir=fo'
zpty -d z
)";

TEST_F(ShellTest, Zsh) {
  std::ofstream(home_ + "/.zshrc") << kZshrc;
  std::ofstream(home_ + "/a job.yaml") << "";
  fs::create_directory(home_ + "/folder");
  const std::string said = Run("zsh", {"-f", "-c", kTypes});
  if (said.empty()) return IsMissing();
  for (const char* line :
       {"[muster status ]", "[muster list --to 127.0.0.1:1 --state ]",
        "[muster token make ada --role operator ]", "[muster token make ada --role=operator ]",
        "[muster train a\\ job.yaml ]", "[muster up --dir=folder/]"})
    EXPECT_THAT(said, HasSubstr(line));
}

}  // namespace
}  // namespace muster
