// What somebody learns who sees every packet of a run, of its members, hosts, people and programs:
// with certificates neither a tensor nor a token, and without them all of it, so that the filter is
// known to find it (docs/identity.md section 6). And that no secret is handed on or written where
// it does not belong.
#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <future>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lib/http/client.h"
#include "lib/identity/identity_folder.h"
#include "lib/transport/grpc/settings.h"
#include "lib/transport/grpc/tls.h"
#include "nlohmann/json.hpp"
#include "tests/coordinator/program.h"
#include "tests/identity/packet_capture.h"
#include "tests/identity/watched_cluster.h"
#include "tests/integration/cluster.h"
#include "tests/integration/run_folder.h"
#include "tests/integration/up_cluster.h"
#include "tests/support/text_of.h"

namespace muster::identity {
namespace {

namespace fs = std::filesystem;
using integration::Folder;
using ::testing::IsEmpty;

constexpr int kSamples = 1 << 14, kSteps = 30;
constexpr size_t kTensorBytes = kSamples * sizeof(float);
// Shown in the metadata of a call of gRPC. It is nobody's: who answers that call asks for none.
constexpr char kTokenOfCall[] = "00112233445566778899aabbccddeeff";
bool has_own_network = false;

// All samples are in each batch: after step k each parameter is k, and each sum of gradients -1.
std::string Spec(int steps) {
  return absl::StrCat("name: watched\ntask: counting\ndata: {samples: ", kSamples,
                      "}\nbatch: ", kSamples, "\nlanes: 4\nsteps: ", steps,
                      "\nreduction: sum\noptimizer: {kind: sgd, learning_rate: 1}\n"
                      "chunk_bytes: 4096\ncheckpoint: {every_steps: 16}\n"
                      "workers: {min: 2, max: 2}\n");
}
std::vector<float> KnownTensor() {
  std::vector<float> tensor(kFloatsInARow, -1.0f);
  for (int step = 1; step <= kSteps; ++step)
    tensor.insert(tensor.end(), kFloatsInARow, static_cast<float>(step));
  return tensor;
}

void CallWithToken(const std::string& address,
                   const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
  grpc::GenericStub stub(
      grpc::CreateCustomChannel("ipv4:" + address, credentials, ChannelSettings()));
  grpc::ClientContext context;
  context.AddMetadata("authorization", absl::StrCat("Bearer muster-ada-", kTokenOfCall));
  const grpc::ByteBuffer request(nullptr, 0);
  grpc::ByteBuffer response;
  std::promise<grpc::Status> ended;
  stub.UnaryCall(&context, "/grpc.health.v1.Health/Check", {}, &request, &response,
                 [&](grpc::Status how) { ended.set_value(std::move(how)); });
  const grpc::Status how = ended.get_future().get();
  EXPECT_TRUE(how.ok()) << how.error_message();
}

// Which of them were seen.
std::vector<std::string> SeenOf(const std::vector<Secret>& secrets,
                                const std::vector<std::string_view>& runs) {
  std::vector<std::string> seen;
  for (const Secret& secret : secrets)
    if (HoldText(runs, secret.text)) seen.push_back(secret.what);
  return seen;
}

class Capture : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_own_network) GTEST_SKIP() << "the kernel gives us no network namespace";
    if (!capture_.missing().empty()) GTEST_SKIP() << capture_.missing();
  }
  // The bytes of all connections until now.
  std::vector<std::string_view> Seen() {
    std::vector<std::string_view> runs = capture_.Stop().Runs();
    EXPECT_EQ(capture_.lost(), 0);
    return runs;
  }

  const Folder folder_;
  PacketCapture capture_;
};

TEST_F(Capture, OfARunHoldsNeitherATensorNorAToken) {
  WatchedCluster cluster(folder_ / "run");
  cluster.Submit(Spec(kSteps));
  const WatchedCluster::Said watched = cluster.Say({"watch", "job"});
  EXPECT_EQ(watched.exit_code, 0) << watched.text;
  const absl::StatusOr<Identity> ada = ReadIdentity(cluster.IdentityOfAda());
  ASSERT_TRUE(ada.ok()) << ada.status();
  CallWithToken(cluster.GrpcAddress(), TlsOfConnection(IdentitySource::Of(*ada), std::nullopt,
                                                       std::make_shared<FoundPeer>()));
  std::vector<Secret> secrets = cluster.Secrets();
  secrets.push_back({"the token of a call", kTokenOfCall, ""});
  cluster.End();

  const std::vector<std::string_view> runs = Seen();
  EXPECT_GE(capture_.Stop().bytes(), kSteps * kTensorBytes) << "all of it was seen";
  EXPECT_TRUE(HoldText(runs, "host:second")) << "how it joined, too: the name of its key is open";
  EXPECT_FALSE(HoldFloats(runs, KnownTensor()));
  EXPECT_THAT(SeenOf(secrets, runs), IsEmpty());
}

// The programs as they speak over loopback where somebody starts them by hand.
TEST_F(Capture, InPlainTextTheSameFilterFindsThem) {
  const std::string store = folder_ / "store";
  coordinator::Program coordinator(store, {"--tokens", "--slots", "0"});
  ASSERT_TRUE(coordinator.listens());
  const auto agent = [&](const std::string& host) {
    return std::vector<std::string>{
        MUSTER_PLAINTEXT_MUSTER, "agent", "--host",       host,      "--coordinator",
        coordinator.grpc(),      "--dir", folder_ / host, "--slots", "1"};
  };
  Program first(agent("first")), second(agent("second"));
  ASSERT_TRUE(first.WaitFor("joined the cluster")) << first.output();
  ASSERT_TRUE(second.WaitFor("joined the cluster")) << second.output();
  const std::string token = store + "/identity/admin.token";
  integration::WriteFile(folder_ / "job.yaml", Spec(kSteps));
  for (std::vector<std::string> words :
       {std::vector<std::string>{MUSTER_PLAINTEXT_MUSTER, "submit", folder_ / "job.yaml", "--id",
                                 "job"},
        std::vector<std::string>{MUSTER_PLAINTEXT_MUSTER, "watch", "job"}}) {
    words.insert(words.end(), {"--to", "http://" + coordinator.http()});
    Program program(words, [&] { return setenv("MUSTER_TOKEN_FILE", token.c_str(), 1) == 0; });
    EXPECT_EQ(program.End(), 0) << program.output();
  }
  CallWithToken(coordinator.grpc(), grpc::InsecureChannelCredentials());
  const std::string text = ReadSecret(token).value();
  const std::vector<Secret> secrets = {{"the admin's token", text.substr(0, text.find('\n')), ""},
                                       {"the token of a call", kTokenOfCall, ""}};

  const std::vector<std::string_view> runs = Seen();
  EXPECT_GE(capture_.Stop().bytes(), kSteps * kTensorBytes);
  EXPECT_TRUE(HoldFloats(runs, KnownTensor()));
  EXPECT_EQ(SeenOf(secrets, runs).size(), secrets.size());
}

// It is no part of what is installed, and shows to measure what plain text costs.
TEST_F(Capture, OfThePlainBenchHoldsItsTensor) {
  Program bench({absl::StrCat(MUSTER_PROGRAMS, "/stream_bench"), "--mib", "1", "--rounds", "1"});
  EXPECT_EQ(bench.End(), 0) << bench.output();
  std::vector<float> tensor(2 * kFloatsInARow);
  for (size_t i = 0; i < tensor.size(); ++i) tensor[i] = static_cast<float>(i % 7);
  EXPECT_TRUE(HoldFloats(Seen(), tensor));
}

// Where what is secret was found.
class Search {
 public:
  explicit Search(std::vector<Secret> secrets) : secrets_(std::move(secrets)) {}

  void In(const std::string& place, const std::string& text) {
    bytes_ += text.size();
    for (const Secret& secret : secrets_)
      if (absl::StrContains(text, secret.text) && !IsHome(place, secret))
        found_.push_back(absl::StrCat(secret.what, " in ", place));
  }
  // All files below, which may come and go.
  void Below(const std::string& dir) {
    std::error_code gone;
    for (fs::recursive_directory_iterator it(dir, gone), end; !gone && it != end;
         it.increment(gone)) {
      std::error_code ignored;
      if (it->is_regular_file(ignored)) In(it->path(), TextOf(it->path()));
    }
  }
  const std::vector<std::string>& found() const { return found_; }
  size_t bytes() const { return bytes_; }

 private:
  // Nobody but its owner may read it there.
  static bool IsHome(const std::string& place, const Secret& secret) {
    if (!absl::StrContains(place, secret.home)) return false;
    struct stat there {};
    if (absl::StrContains(place, "/store/")) return true;  // whose folder is closed to others
    return stat(place.c_str(), &there) == 0 && (there.st_mode & 0077) == 0;
  }

  const std::vector<Secret> secrets_;
  std::vector<std::string> found_;
  size_t bytes_ = 0;
};

TEST(SecretsOfARun, AreInNoOutputLogMetricArgumentOrEnvironment) {
  const Folder folder;
  const std::string dir = folder / "run";
  WatchedCluster cluster(dir);
  cluster.Submit(Spec(1'000'000));
  ASSERT_TRUE(cluster.AwaitStep());
  const std::vector<Secret> secrets = cluster.Secrets();
  EXPECT_GE(std::count_if(secrets.begin(), secrets.end(),
                          [](const Secret& one) { return absl::EndsWith(one.what, "/key.pem"); }),
            6)
      << "of the coordinator, two hosts, two workers and ada";
  Search search(secrets);
  int environments = 0, metrics = 0;
  for (const pid_t pid : cluster.Processes())
    for (const char* const what : {"cmdline", "environ"}) {
      const std::string text = TextOf(absl::StrCat("/proc/", pid, "/", what));
      environments += text.empty() ? 0 : 1;
      search.In(absl::StrCat("/proc/", pid, "/", what), text);
    }
  EXPECT_GE(environments, 2 * 5) << "two hosts, the coordinator and two workers";
  for (const std::string& of : {dir + "/cluster", dir + "/second/hosts/second"})
    for (const auto& target : integration::ReadJson(of + "/prometheus-targets.json")) {
      const std::string address = target["targets"][0];
      const auto answer = http::Get(absl::StrCat("http://", address, "/metrics"));
      ASSERT_TRUE(answer.ok()) << answer.status();
      EXPECT_EQ(answer->status, 200) << address;
      search.In(address, answer->body);
      ++metrics;
    }
  EXPECT_GE(metrics, 3) << "of the coordinator and two workers";
  for (const std::vector<std::string>& words : {std::vector<std::string>{"token", "list", "--json"},
                                                {"hosts", "--json"},
                                                {"status", "job", "--json"},
                                                {"logs", "job"},
                                                {"quota", "--json"}}) {
    const WatchedCluster::Said said = cluster.Say(words, /*as_admin=*/true);
    EXPECT_EQ(said.exit_code, 0) << words[0] << said.text;
    search.In(words[0], said.text);
  }
  search.Below(folder / "run");
  cluster.End();
  search.In("what they print", cluster.Output());
  search.Below(folder / "run");
  EXPECT_GT(search.bytes(), 100'000u);
  EXPECT_THAT(search.found(), IsEmpty());
}

}  // namespace
}  // namespace muster::identity

// Before there is a thread: a namespace belongs to the thread that enters it and to its children.
int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  muster::identity::has_own_network = muster::identity::EnterOwnNetwork();
  return RUN_ALL_TESTS();
}
