// What somebody meets who gets it wrong: each mistake ends with its exit code and a text that says
// what to do.
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/bad_input/train.h"
#include "tests/support/member_identity.h"
#include "tests/support/program.h"

namespace muster::integration {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

void ExpectEnds(const std::vector<std::string>& command, int code,
                const std::vector<std::string>& says) {
  Program program(command);
  SCOPED_TRACE(::testing::PrintToString(command));
  EXPECT_EQ(program.End(), code) << program.output();
  for (const std::string& text : says) EXPECT_THAT(program.output(), HasSubstr(text));
}

TEST(StrangerTest, AWrongFieldIsNamedWithWhatIsAllowed) {
  const std::string folder = MakeFolder();
  const std::string spec = WriteText(folder + "/spec.yaml", CountingSpec(2));
  struct Case {
    const char* setting;
    const char* field;
    const char* says;
  };
  constexpr Case kCases[] = {
      {"task=count_ng", "task",
       "allowed: code-lm, counting, layers, "
       "torchscript, transformer"},
      {"lanes=0", "lanes", "allowed: 1 to 4096"},
      {"lanes=4097", "lanes", "allowed: 1 to 4096"},
      {"batch=0", "batch", "allowed: 1 to"},
      {"batch=many", "batch", "'many' is not a whole number"},
      {"steps=10", "steps", "epochs"},
      {"epochs=0", "epochs", "steps"},
      {"epochs=-1", "epochs", "allowed: 0 to"},
      {"seed=-1", "seed", "allowed: 0 to"},
      {"order=random", "order", "allowed: canonical, free"},
      {"sync=sometimes", "sync", "allowed: allreduce, server"},
      {"precision=fp8", "precision", "allowed: fp32"},
      {"reduction=max", "reduction", "allowed: mean, sum"},
      {"threads=0", "threads", "allowed: 1 to"},
      {"clip_norm=-1", "clip_norm", "allowed"},
      {"chunk_bytes=100", "chunk_bytes", "multiple of 64"},
      {"servers=1", "servers", "sync: server"},
      {"resume=Yesterday", "resume", "or the name of a checkpoint that is kept"},
      {"optimizer.kind=adamm", "optimizer.kind",
       "allowed: sgd, momentum, adam, adamw, rmsprop, adagrad"},
      {"optimizer.learning_rte=1", "optimizer.learning_rte", "did you mean 'learning_rate'?"},
      {"optimizer.learning_rate=fast", "optimizer.learning_rate", "'fast' is not a number"},
      {"optimizer.momentum=0.5", "optimizer.momentum", "remove it"},
      {"schedule.kind=round", "schedule.kind",
       "allowed: constant, linear, cosine, step, milestones, polynomial, one_cycle"},
      {"checkpoint.keep=0", "checkpoint.keep", "allowed: 1 to"},
      {"checkpoint.evry_steps=1", "checkpoint.evry_steps", "did you mean 'every_steps'?"},
      {"workers={min: 3, max: 2}", "workers.min", "max"},
      {"workers=0", "workers", "allowed: 1 to"},
      {"data.paths=/somewhere", "data.paths", "write [/somewhere]"},
      {"data.paths=[/somewhere]", "data.paths", "counting does not; remove it"},
      {"parameters.depth=3", "parameters.depth", "remove it"},
      {"epohcs=3", "epohcs", "did you mean 'epochs'?"},
  };
  for (const Case& wrong : kCases)
    ExpectEnds(Train(spec, folder + "/job", {"--set", wrong.setting}), 64,
               {wrong.field, wrong.says});
  EXPECT_FALSE(std::filesystem::exists(folder + "/job")) << "a refused job leaves nothing";
}

TEST(StrangerTest, AWrongFileIsNamedWithItsLine) {
  const std::string folder = MakeFolder();
  const auto expect = [&](const std::string& text, const std::string& says) {
    const std::string spec = WriteText(folder + "/spec.yaml", text);
    ExpectEnds(Train(spec, folder + "/job"), 64, {spec, says});
  };
  expect("", "the document is empty");
  expect("task: [counting\nbatch: 2\n", "spec.yaml:");
  expect("task: counting\nbatch: 2\nbatch: 3\n", "spec.yaml:3");
  expect("just words\n", "mapping");
  expect("\xff\xfe\x00", "not UTF-8");
  expect(CountingSpec(2) + "warkers: 2\n", "warkers: no such field; did you mean 'workers'?");
  expect(CountingSpec(2) + "name: " + std::string(2'000'000, 'x') + "\n", "spec.yaml");
  ExpectEnds(Train(folder + "/nowhere.yaml", folder + "/job"), 64,
             {"nowhere.yaml", "No such file"});
  ExpectEnds(Train(folder, folder + "/job"), 64, {folder, "Is a directory"});
}

TEST(StrangerTest, WrongWordsAreExplained) {
  const std::string muster = ProgramPath("muster");
  const std::string spec = WriteText(MakeFolder() + "/spec.yaml", CountingSpec(2));
  ExpectEnds({muster}, 64, {"muster --help"});
  ExpectEnds({muster, "trian"}, 64, {"'trian' is not a command", "did you mean 'train'?"});
  ExpectEnds({muster, "train"}, 64, {"muster train: spec is required", "muster train --help"});
  ExpectEnds({muster, "train", spec, "--wrokers", "2"}, 64, {"--wrokers", "muster train --help"});
  ExpectEnds({muster, "train", spec, "--workers", "0"}, 64, {"--workers", "1 to 4096"});
  ExpectEnds({muster, "train", spec, "--set", "nonsense"}, 64,
             {"'nonsense' is not of the form field=value"});
  ExpectEnds({muster, "train", spec, "--faults", "nowhere.yaml"}, 64, {"nowhere.yaml"});
  ExpectEnds({muster, "status"}, 64, {"job is required"});
  ExpectEnds({muster, "list", "--to", "nonsense"}, 64, {"https://127.0.0.1:8080"});
  ExpectEnds({muster, "list", "--to", "http://127.0.0.1:1"}, 64,
             {"https:// alone", "--authority", "muster up starts one"});
  ExpectEnds({muster, "--help"}, 0, {"muster train examples/code-lm.yaml", "Exit codes"});
}

TEST(StrangerTest, BadDataEndsTheJobAtOnceAndIsNamed) {
  const std::string folder = MakeFolder();
  const std::string spec = WriteText(folder + "/spec.yaml",
                                     "task: code-lm\nbatch: 4\nlanes: 2\nsteps: 2\nworkers: 2\n"
                                     "parameters: {layers: 1, width: 8, heads: 1, context: 32}\n");
  std::filesystem::create_directory(folder + "/empty");
  const std::string nothing = WriteText(folder + "/nothing.h", "");
  const std::string little = WriteText(folder + "/little.h", "int x;");
  const std::pair<std::string, std::string> cases[] = {
      {folder + "/missing", "does not exist"},
      {folder + "/empty", "no content in"},
      {nothing, "no content in"},
      {little, "a sample of parameters.context 32 needs 33"}};
  int job = 0;
  for (const auto& [path, says] : cases) {
    SCOPED_TRACE(path);
    Program program(Train(spec, folder + "/job" + std::to_string(++job),
                          {"--set", "data.paths=[" + path + "]"}));
    EXPECT_EQ(program.End(), 65) << program.output();
    EXPECT_THAT(program.output(),
                AllOf(HasSubstr("data.paths"), HasSubstr(says), Not(HasSubstr("starts again"))));
    const size_t reason = program.output().rfind("  reason ");
    ASSERT_NE(reason, std::string::npos) << program.output();
    EXPECT_THAT(program.output().substr(reason, program.output().find('\n', reason) - reason),
                HasSubstr(says));
  }
}

// /proc/self/mem can be opened, and fails when it is read.
TEST(StrangerTest, DataThatFailsWhileItIsReadIsNamedOrAccountedFor) {
  const std::string folder = MakeFolder();
  const std::string spec = WriteText(folder + "/spec.yaml",
                                     "task: code-lm\nbatch: 4\nlanes: 2\nsteps: 2\nworkers: 1\n"
                                     "parameters: {layers: 1, width: 8, heads: 1, context: 8}\n");
  std::filesystem::create_directory(folder + "/data");
  WriteText(folder + "/data/a.h", std::string(400, 'a'));
  std::filesystem::create_symlink("/proc/self/mem", folder + "/data/b.h");
  ASSERT_EQ(mkfifo((folder + "/data/pipe.h").c_str(), 0600), 0);
  const std::vector<std::string> data = {"--set", "data.paths=[" + folder + "/data]"};
  ExpectEnds(Train(spec, folder + "/fails", data), 65,
             {folder + "/data/b.h cannot be read: Input/output error"});
  std::vector<std::string> skipping = data;
  skipping.insert(skipping.end(), {"--set", "data.unreadable=skip"});
  const std::string left_out =
      "1 file or directory that cannot be read, the first is " + folder + "/data/b.h";
  ExpectEnds(Train(spec, folder + "/skips", skipping), 0, {"the data is without " + left_out});
  ExpectEnds({ProgramPath("muster"), "audit", "--dir", folder + "/skips"}, 0, {left_out});
  ExpectEnds({ProgramPath("muster"), "ledger", "--dir", folder + "/skips"}, 0,
             {"the data is without " + left_out});
}

TEST(StrangerTest, AModelThatNoMachineHoldsIsRefusedAndNotTriedAgain) {
  const std::string folder = MakeFolder();
  const std::string spec = WriteText(folder + "/spec.yaml", CountingSpec(1));
  Program program(
      Train(spec, folder + "/job", {"--set", "data.samples=200000000000", "--set", "lanes=1"}));
  EXPECT_EQ(program.End(), 64) << program.output();
  EXPECT_THAT(program.output(), AllOf(HasSubstr("data.samples: samples 200000000000"),
                                      HasSubstr("memory"), Not(HasSubstr("starts again"))));
}

TEST(StrangerTest, ADirectoryThatCannotBeWrittenIsNamed) {
  const std::string folder = MakeFolder();
  const std::string spec = WriteText(folder + "/spec.yaml", CountingSpec(2));
  ExpectEnds(Train(spec, spec), 64, {"cannot write " + spec, "give another --dir"});
  ExpectEnds(Train(spec, "/proc/nowhere"), 64,
             {"cannot write /proc/nowhere", "give another --dir"});
  ExpectEnds({ProgramPath("muster"), "up", "--dir", spec}, 64,
             {"cannot write " + spec, "give another --dir"});
}

TEST(StrangerTest, ADirectoryHoldsOneJobUnderOneTraining) {
  const std::string folder = MakeFolder();
  const std::string spec = WriteText(folder + "/spec.yaml", CountingSpec(2000, "workers: 2\n"));
  Program first(Train(spec, folder + "/job"));
  ASSERT_TRUE(first.WaitFor("goes on at step 0")) << first.output();
  ExpectEnds(Train(spec, folder + "/job"), 64,
             {"is in use by another muster", "give another --dir"});
  ExpectEnds({ProgramPath("muster"), "up", "--dir", folder + "/job"}, 64,
             {"is in use by another muster"});
  ExpectEnds({ProgramPath("muster-coordinator"), "--authority", "--dir", folder + "/job/store",
              "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"},
             64, {"in use by another coordinator"});
  first.Signal(SIGINT);
  EXPECT_EQ(first.End(), 75) << first.output();
  ExpectEnds(Train(spec, folder + "/job", {"--set", "seed=7", "--set", "lanes=8"}), 64,
             {"under another training specification", "lanes: 7 against 8", "seed: 0 against 7",
              "another --dir"});
}

TEST(StrangerTest, CtrlCStopsAndTheSameCommandGoesOnToTheSameBits) {
  const std::string folder = MakeFolder();
  const std::string spec = WriteText(folder + "/spec.yaml", CountingSpec(2));
  const std::vector<std::string> epochs = {"--set", "epochs=300", "--workers", "2"};
  Program first(Train(spec, folder + "/job", epochs));
  ASSERT_TRUE(first.WaitFor("checkpoint of step 100 is complete")) << first.output();
  first.Signal(SIGINT);
  EXPECT_EQ(first.End(), 75) << first.output();
  EXPECT_THAT(first.output(), HasSubstr("to go on: muster train " + spec +
                                        " --workers 2 --set epochs=300 --dir " + folder + "/job"));
  Program second(Train(spec, folder + "/job", {"--set", "epochs=300", "--workers", "3", "--json"}));
  EXPECT_EQ(second.End(), 0) << second.output();
  const auto result = ResultOf(second);
  ASSERT_TRUE(result.is_object()) << second.output();
  EXPECT_EQ(result["steps"], 4800);
  EXPECT_EQ(result["digest"],
            UndisturbedDigest(WriteText(folder + "/plain.yaml", CountingSpec(300))));
}

TEST(StrangerTest, CtrlCTwiceEndsAtOnceAndStillCanGoOn) {
  const std::string folder = MakeFolder();
  const std::string spec = WriteText(folder + "/spec.yaml", CountingSpec(2000, "workers: 2\n"));
  Program first(Train(spec, folder + "/job", {"--json"}));
  ASSERT_TRUE(first.WaitFor("\"event\":\"step\"")) << first.output();
  const std::vector<int> watches = Watch(first.Children());
  EXPECT_EQ(watches.size(), 3u) << "a coordinator and two workers";
  for (const pid_t child : first.Children()) kill(child, SIGSTOP);  // nothing stops by itself
  first.Signal(SIGINT);
  // Within a second it is the same wish, said twice; after that it is another.
  pollfd ends{.fd = watches[0], .events = POLLIN, .revents = 0};
  while (poll(&ends, 1, /*milliseconds=*/100) == 0) first.Signal(SIGINT);
  EXPECT_NE(first.End(), 0);
  EXPECT_THAT(first.output(), HasSubstr("stopped at once"));
  ExpectGone(watches);
  Program second(Train(spec, folder + "/job", {"--json"}));
  ASSERT_TRUE(second.WaitFor("\"event\":\"step\"")) << second.output();
}

TEST(StrangerTest, AKilledMusterLeavesNoProcess) {
  const std::string folder = MakeFolder();
  const std::string spec = WriteText(folder + "/spec.yaml", CountingSpec(2000, "workers: 2\n"));
  Program program(Train(spec, folder + "/job", {"--json"}));
  ASSERT_TRUE(program.WaitFor("\"event\":\"step\"")) << program.output();
  const std::vector<int> watches = Watch(program.Children());
  EXPECT_EQ(watches.size(), 3u) << "a coordinator and two workers";
  program.Signal(SIGKILL);
  EXPECT_EQ(program.Wait(), -SIGKILL);
  ExpectGone(watches);
}

// ---- addresses

// A port that somebody has, as host:port.
class TakenPort {
 public:
  TakenPort() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof any;
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&any), size), 0);
    EXPECT_EQ(listen(fd_, 1), 0);
    EXPECT_EQ(getsockname(fd_, reinterpret_cast<sockaddr*>(&any), &size), 0);
    address_ = "127.0.0.1:" + std::to_string(ntohs(any.sin_port));
  }
  ~TakenPort() { close(fd_); }
  const std::string& address() const { return address_; }

 private:
  const int fd_;
  std::string address_;
};

std::vector<std::string> Member(const std::string& program, const std::vector<std::string>& more) {
  std::vector<std::string> command = {ProgramPath(program),
                                      "--job",
                                      "a",
                                      "--name",
                                      "b",
                                      "--identity",
                                      MakeMemberIdentity(MakeFolder() + "/identity", "a", "b")};
  if (more.front() != "--coordinator")
    command.insert(command.end(), {"--coordinator", "127.0.0.1:1"});
  command.insert(command.end(), more.begin(), more.end());
  return command;
}

TEST(StrangerTest, APortInUseIsAnErrorThatNamesIt) {
  const TakenPort taken;
  ExpectEnds({ProgramPath("muster"), "up", "--dir", MakeFolder(), "--listen", taken.address()}, 64,
             {taken.address(), "in use by another process"});
  // Not final: its own predecessor may still hold the port.
  for (const char* program : {"muster-worker", "muster-server"})
    for (const char* flag : {"--listen", "--metrics"})
      ExpectEnds(Member(program, {flag, taken.address()}), 1,
                 {flag, taken.address(), "in use by another process"});
}

TEST(StrangerTest, AnAddressOfACoordinatorThatIsNoneIsNamed) {
  for (const char* program : {"muster-worker", "muster-server"})
    ExpectEnds(Member(program, {"--coordinator", "nowhere"}), 64,
               {"--coordinator", "write host:port"});
}

// On loopback, too. Nothing is made before that is said.
TEST(StrangerTest, WithoutACertificateNoProgramSpeaks) {
  const std::string folder = MakeFolder() + "/nothing";
  const std::string missing = "--identity: it is missing";
  for (const char* program : {"muster-worker", "muster-server"})
    ExpectEnds({ProgramPath(program), "--job", "a", "--name", "b", "--coordinator", "127.0.0.1:1"},
               64, {missing, "muster agent"});
  ExpectEnds({ProgramPath("muster-coordinator"), "--dir", folder, "--listen", "127.0.0.1:0",
              "--http", "127.0.0.1:0"},
             64, {missing, "--authority"});
  ExpectEnds({ProgramPath("muster"), "agent", "--coordinator", "127.0.0.1:1", "--dir", folder}, 64,
             {missing, "muster token host"});
  EXPECT_FALSE(std::filesystem::exists(folder));
}

}  // namespace
}  // namespace muster::integration
