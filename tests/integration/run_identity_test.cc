// Identities that nobody asks for: what `muster up`, `train` and `run` start speaks with
// certificates, commands find whom to trust, plain text is refused everywhere, and keys go with the
// processes that they were made for.
#include <grp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/base/mailbox.h"
#include "lib/http/client.h"
#include "lib/transport/grpc/grpc_transport.h"
#include "lib/wire/message_codec.h"
#include "tests/integration/cluster.h"
#include "tests/integration/jobs.h"
#include "tests/integration/run_folder.h"
#include "tests/integration/up_cluster.h"
#include "tests/lib/http/raw_client.h"
#include "tests/support/program.h"
#include "tests/support/text_of.h"

namespace muster::integration {
namespace {

namespace fs = std::filesystem;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

bool OthersMayLook(const std::string& path) {
  struct stat there {};
  return stat(path.c_str(), &there) != 0 || (there.st_mode & 0077) != 0;
}

// The files below `dir` that hold a key, from there; of each it is seen that nobody else may read
// it, nor look into its folder. Files come and go while a job runs.
std::vector<std::string> KeysIn(const std::string& dir) {
  std::vector<std::string> keys;
  std::error_code ignored;
  for (fs::recursive_directory_iterator it(dir, ignored), end; !ignored && it != end;
       it.increment(ignored)) {
    const std::string path = it->path();
    std::error_code gone;
    if (!it->is_regular_file(gone) || it->file_size(gone) > (64u << 10)) continue;
    if (!absl::StrContains(TextOf(path), "PRIVATE KEY")) continue;
    keys.push_back(path.substr(dir.size() + 1));
    EXPECT_FALSE(OthersMayLook(path)) << path;
    EXPECT_FALSE(OthersMayLook(it->path().parent_path())) << path;
  }
  return keys;
}

Program In(const std::string& folder, const std::vector<std::string>& words) {
  return Program(MusterCommand(words), [folder] {
    return chdir(folder.c_str()) == 0 && setenv("HOME", folder.c_str(), 1) == 0;
  });
}

TEST(RunIdentityTest, OnOneMachineNothingMoreIsTyped) {
  const Folder folder;
  const std::string here = folder / "here";
  WriteFile(here + "/job.yaml", CountingSpec(101, /*lanes=*/7, /*epochs=*/1));
  Program up(In(here, {"up", "--listen", "127.0.0.1:0", "--slots", "1"}));
  ASSERT_TRUE(up.WaitFor("ready at https://127.0.0.1:")) << up.output();
  const auto expect = [&](const std::vector<std::string>& words, const std::string& text) {
    Program command(In(here, words));
    EXPECT_EQ(command.End(), 0) << words[0] << ": " << command.output();
    EXPECT_THAT(command.output(), HasSubstr(text)) << words[0];
  };
  expect({"submit", "job.yaml", "--id", "one"}, "one is ");
  expect({"watch", "one"}, "job one is done");
  expect({"list"}, "one");
  expect({"hosts"}, "up");
  expect({"logs", "one"}, "worker-0 | ");
  expect({"audit", "one"}, "proven");
  // From elsewhere the folder says it.
  const std::string cluster = here + "/muster-cluster";
  Program named(MusterCommand({"hosts", "--dir", cluster}));
  EXPECT_EQ(named.End(), 0) << named.output();
  up.Signal(SIGINT);
  EXPECT_EQ(up.End(), 0) << up.output();
  EXPECT_FALSE(fs::exists(cluster + "/keys"));
  Program after(MusterCommand({"hosts", "--dir", cluster}));
  EXPECT_EQ(after.End(), 64) << after.output();
  EXPECT_THAT(after.output(), HasSubstr("nothing runs in"));
}

// Loopback is open to every user of the machine.
TEST(RunIdentityTest, AnotherUserOfTheMachineIsToldNothingAndChangesNothing) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can be another user";
  AdoptOrphans();
  const Folder folder;
  const std::string dir = folder / "cluster";
  WriteFile(folder / "job.yaml", CountingSpec(101, /*lanes=*/7, /*epochs=*/1));
  UpCluster cluster(dir, {"--slots", "1"});
  ASSERT_EQ(cluster.Say({"submit", folder / "job.yaml", "--id", "ours"}).exit_code, 0);
  fs::permissions(folder / "", fs::perms::others_exec, fs::perm_options::add);
  const auto another = [](std::vector<std::string> words) {
    Program program(std::move(words), [] {
      return setgroups(0, nullptr) == 0 && setgid(65534) == 0 && setuid(65534) == 0;
    });
    program.End();
    return program.output();
  };
  const auto call = [&](const std::string& verb, const std::string& path) {
    return another({"/usr/bin/curl", "-ksS", "-X", verb, "-d", "{}", cluster.url() + path});
  };
  for (const auto& [verb, path] : std::map<std::string, std::string>{
           {"GET", "/v1/jobs"}, {"POST", "/v1/jobs/ours:cancel"}, {"DELETE", "/v1/jobs/ours"}}) {
    const std::string said = call(verb, path);
    EXPECT_THAT(said, HasSubstr("\"unauthenticated\"")) << path;
    EXPECT_THAT(said, Not(HasSubstr("ours"))) << path;
  }
  for (const char* secret : {"admin.token", "authority.key"}) {
    const std::string path = absl::StrCat(dir, "/store/identity/", secret);
    EXPECT_TRUE(fs::exists(path)) << path;
    EXPECT_THAT(another({"/bin/cat", path}), HasSubstr("Permission denied"));
  }
  EXPECT_EQ(cluster.Say({"watch", "ours"}).exit_code, 0);
  const std::string audit = TextOf(dir + "/store/audit.jsonl");
  EXPECT_THAT(audit, HasSubstr("\"user\":\"admin\""));
  EXPECT_THAT(audit, Not(HasSubstr("ancel"))) << "strangers do not fill it";
}

// A folder whose token somebody has taken away: who goes on there is told so, and nothing waits.
TEST(RunIdentityTest, ATrainWhoseTokenIsGoneEndsAndSaysWhereItBelongs) {
  AdoptOrphans();
  const Folder folder;
  const std::string dir = folder / "job";
  WriteFile(folder / "job.yaml", CountingSpec(101, /*lanes=*/7, /*epochs=*/1));
  const std::vector<std::string> words =
      MusterCommand({"train", folder / "job.yaml", "--dir", dir});
  Program first(words);
  EXPECT_EQ(first.End(), 0) << first.output();
  ASSERT_TRUE(fs::remove(dir + "/store/identity/admin.token"));
  Program second(words);
  EXPECT_EQ(second.End(), 64) << second.output();
  EXPECT_THAT(second.output(), HasSubstr("admin.token is gone"));
}

// Nobody who trains hears it otherwise, and the run would neither end nor be stopped.
TEST(RunIdentityTest, ATrainWhoseTokenIsRevokedSaysSoAndGoesOnWithAnother) {
  AdoptOrphans();
  const Folder folder;
  const std::string dir = folder / "job";
  WriteFile(folder / "job.yaml", CountingSpec(1009, /*lanes=*/7, /*epochs=*/100'000));
  Program train(MusterCommand({"train", folder / "job.yaml", "--dir", dir, "--json"}));
  ASSERT_TRUE(train.WaitFor("\"event\":\"step\"")) << train.output();
  const auto say = [&](std::vector<std::string> words) {
    words.insert(words.end(), {"--dir", dir});
    Program program(MusterCommand(words));
    EXPECT_EQ(program.End(), 0) << words[1] << ": " << program.output();
    return program.output();
  };
  const std::string boss = say({"token", "make", "boss", "--role", "admin", "--namespace", "*"});
  const std::string list = say({"token", "list", "--json"});
  const nlohmann::json first = nlohmann::json::parse(list.substr(0, list.find('\n')));
  say({"token", "revoke", first.value("id", "")});
  EXPECT_TRUE(train.WaitFor("does not let us ask")) << train.output();
  EXPECT_THAT(train.output(), HasSubstr("/store/identity/admin.token, within a minute"));
  WriteFile(dir + "/store/identity/admin.token", boss);
  train.Signal(SIGTERM);
  EXPECT_EQ(train.End(), 75) << train.output();
  EXPECT_EQ(ReadJson(dir + "/result.json").value("state", ""), "stopped");
}

// Whoever says something in plain text there.
absl::Status SayTo(const std::string& address, const std::string& header) {
  const std::unique_ptr<GrpcTransport> transport = MakeGrpcTransport({});
  Mailbox<absl::Status> ended;
  const auto session =
      transport->Connect(address, std::chrono::seconds(20),
                         {.on_frame = [&](const Frame&) { ended.Post(absl::OkStatus()); },
                          .on_broken = [&](const absl::Status& why) { ended.Post(why); }});
  session->Send({.header = header, .payload = {}});
  const auto how = ended.TakeUntil(std::chrono::steady_clock::now() + std::chrono::seconds(40));
  return how ? *how : absl::OkStatus();
}

TEST(RunIdentityTest, PlainTextIsRefusedOnEachPortOfACluster) {
  AdoptOrphans();
  const Folder folder;
  const std::string dir = folder / "cluster";
  WriteFile(folder / "job.yaml", CountingSpec(1009, /*lanes=*/7, /*epochs=*/100'000));
  UpCluster cluster(dir, {"--slots", "2", "--coordinator", "127.0.0.1:0"});
  ASSERT_EQ(cluster.Say({"submit", folder / "job.yaml", "--id", "job"}).exit_code, 0);
  Program watch(cluster.Command({"watch", "job", "--json"}));
  ASSERT_TRUE(watch.WaitFor("\"event\":\"step\"")) << watch.output();
  const nlohmann::json at = ReadJson(dir + "/cluster.json");
  const std::string rest = at.value("http", ""), grpc = at.value("grpc", ""),
                    join = at.value("join", "");

  const auto answer = http::Get(absl::StrCat("http://", rest, "/v1/jobs"));
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->status, 400);
  EXPECT_THAT(answer->body, Not(HasSubstr("job")));

  EXPECT_FALSE(SayTo(grpc, Encode(FromAgent(AgentHello{.agent = {"stranger", {1, 1}}}))).ok());
  const nlohmann::json status = cluster.Ask({"status", "job", "--json"});
  int members = 0;
  for (const nlohmann::json& member : status.value("members", nlohmann::json::array())) {
    ++members;
    const MemberId stranger{"worker-9", {1, 2}};
    EXPECT_FALSE(
        SayTo(member.value("address", ""), Encode(PeerMessage(Hello{"job", stranger, stranger})))
            .ok())
        << member;
  }
  EXPECT_GT(members, 0) << status;

  http::RawClient host(join);
  host.Send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_THAT(host.ReadToEnd(), Not(HasSubstr("HTTP")));
  EXPECT_TRUE(watch.WaitFor("\"event\":\"step\"", watch.output().size())) << "it goes on";
  const nlohmann::json hosts = cluster.Ask({"hosts", "--json"});
  EXPECT_THAT(hosts.dump(), Not(HasSubstr("stranger")));
}

TEST(RunIdentityTest, ATrainKeepsNoKeyOfItsProcessesAndNoneThatOthersMayRead) {
  AdoptOrphans();
  const Folder folder;
  const std::string dir = folder / "job";
  TrainOptions options{
      .spec = CountingSpec(1009, /*lanes=*/7, /*epochs=*/2), .dir = dir, .workers = 2};
  std::vector<std::string> while_it_ran;
  options.kill_all_at = [&](const nlohmann::json& event) {
    if (event.value("event", "") == "step") while_it_ran = KeysIn(dir);
    return !while_it_ran.empty();
  };
  Train(options);
  // The coordinator's and the authority's, and of this host and each worker.
  EXPECT_GE(while_it_ran.size(), 5u) << ::testing::PrintToString(while_it_ran);
  const std::string authority = TextOf(dir + "/store/identity/current/authority.pem");
  EXPECT_THAT(authority, HasSubstr("CERTIFICATE"));

  // What was killed left its keys; going on removes them, and takes the authority that is there.
  options.kill_all_at = nullptr;
  const TrainRun run = Train(options);
  ExpectSameBits(run, dir, CountingDigest(1009, 2));
  EXPECT_FALSE(fs::exists(dir + "/keys"));
  EXPECT_THAT(KeysIn(dir), Each(StartsWith("store/identity/")));
  EXPECT_EQ(TextOf(dir + "/store/identity/current/authority.pem"), authority);
}

TEST(RunIdentityTest, HostsOfARunHaveTheirKeysElsewhereAndOnlyAsLongAsTheyRun) {
  AdoptOrphans();
  const Folder folder;
  const std::string dir = folder / "run";
  WriteFile(folder / "job.yaml", CountingSpec(1009, /*lanes=*/7, /*epochs=*/2));
  fs::create_directories(folder / "tmp");
  const auto begin = [&](int rank) {
    const std::string tmp = folder / "tmp";
    return std::make_unique<Program>(
        MusterCommand({"run", folder / "job.yaml", "--dir", dir, "--workers", "2", "--nnodes", "2",
                       "--node-rank", absl::StrCat(rank)}),
        [tmp] { return setenv("TMPDIR", tmp.c_str(), 1) == 0; });
  };
  for (int time = 0; time < 2; ++time) {  // the second one goes on in the folder
    const std::unique_ptr<Program> first = begin(0), second = begin(1);
    ASSERT_TRUE(second->WaitFor("joined the cluster")) << second->output() << first->output();
    EXPECT_THAT(KeysIn(folder / "tmp"), Not(IsEmpty()));
    EXPECT_FALSE(OthersMayLook(dir + "/store/identity/join.secret"));
    if (time == 0) first->Signal(SIGINT);  // the job stops after a checkpoint
    const int code = first->End();
    EXPECT_TRUE(code == 0 || (time == 0 && code == 75)) << first->output();
    EXPECT_EQ(second->End(), code) << second->output();
    EXPECT_THAT(KeysIn(folder / "tmp"), IsEmpty());
    EXPECT_TRUE(fs::is_empty(folder / "tmp"));
    EXPECT_THAT(KeysIn(dir), Each(StartsWith("store/identity/")));
    if (code == 0) break;
  }
  EXPECT_EQ(ReadJson(dir + "/result.json").value("digest", ""), CountingDigest(1009, 2));
}

}  // namespace
}  // namespace muster::integration
