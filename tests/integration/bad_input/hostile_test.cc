// Garbage, oversized messages and hostile frames on every port of a job that trains: it ends with
// the bits of an undisturbed one, nothing crashes, and what was refused is counted.
#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/base/clock.h"
#include "lib/base/mutex.h"
#include "lib/http/client.h"
#include "lib/identity/identity_folder.h"
#include "lib/identity/identity_source.h"
#include "lib/kernels/crc.h"
#include "lib/transport/grpc/grpc_transport.h"
#include "lib/wire/message_codec.h"
#include "tests/integration/bad_input/train.h"
#include "tests/lib/http/raw_client.h"
#include "tests/support/program.h"
#include "tests/support/run_trust.h"

namespace muster::integration {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// A session whose end the test waits for.
class HostileSession {
 public:
  HostileSession(GrpcTransport& transport, const std::string& address)
      : session_(transport.Connect(address, std::chrono::seconds(10),
                                   {[](Frame) {},
                                    [ended = ended_](absl::Status why) {
                                      MutexLock lock(ended->mutex);
                                      ended->why = std::move(why);
                                      ended->broken = true;
                                      ended->changed.NotifyAll();
                                    }})) {}
  void Send(std::string header, std::string payload = "") {
    auto bytes = std::make_shared<const std::string>(std::move(payload));
    Frame frame{std::move(header), {}};
    frame.payload.slices = {{reinterpret_cast<const std::byte*>(bytes->data()), bytes->size()}};
    frame.payload.keep = bytes;
    session_->Send(std::move(frame));
  }
  void Say(const PeerMessage& message, std::string payload = "") {
    Send(Encode(message), std::move(payload));
  }
  // The other end must close.
  void ExpectRefused(const std::string& what) {
    MutexLock lock(ended_->mutex);
    const Time until = RealClock().Now() + std::chrono::seconds(30);
    while (!ended_->broken && ended_->changed.WaitUntil(ended_->mutex, until)) {
    }
    EXPECT_TRUE(ended_->broken) << what;
  }

 private:
  struct Ended {
    Mutex mutex;
    CondVar changed;
    bool broken ABSL_GUARDED_BY(mutex) = false;
    absl::Status why ABSL_GUARDED_BY(mutex);
  };
  const std::shared_ptr<Ended> ended_ = std::make_shared<Ended>();
  const std::shared_ptr<Session> session_;
};

struct Target {
  MemberId id;
  std::string address;
};

Incarnation IncarnationOf(const std::string& hex) {
  return {std::stoull(hex.substr(0, 16), nullptr, 16), std::stoull(hex.substr(16), nullptr, 16)};
}

// Speaks in any name of a job, as the key of the authority lies in the folder of the run, for
// whoever is its user.
class Impostor {
 public:
  Impostor(const std::string& dir, std::string job)
      : authority_(ReadAuthority(dir + "/store/identity").value()),
        cluster_(ReadIdentity(dir + "/store/identity")->name.cluster),
        job_(std::move(job)) {}
  std::unique_ptr<GrpcTransport> As(const MemberId& who) const {
    const PeerName name{cluster_, MemberPeer{job_, who.name, PlacementNumber(1), who.incarnation}};
    return MakeGrpcTransport(
        {.credentials = {.identity = IdentitySource::Of(
                             IssueIdentity(authority_, name, absl::Now()).value())}});
  }
  const std::string& job() const { return job_; }

 private:
  const Authority authority_;
  const std::string cluster_;
  const std::string job_;
};

// Returns how many frames were refused, at least.
int SendHostileFrames(const Impostor& impostor, const Target& to, const Target& other) {
  const std::string& job = impostor.job();
  const MemberId stranger{"worker-9", {1, 2}};
  const LineageNumber lineage(1);
  const ViewNumber view(1);
  int refused = 0;
  const auto attack = [&](const std::string& what, const std::optional<MemberId>& from,
                          const std::function<void(HostileSession&)>& talk) {
    const std::unique_ptr<GrpcTransport> transport = impostor.As(from.value_or(stranger));
    HostileSession session(*transport, to.address);
    if (from) session.Say(Hello{job, *from, to.id});
    talk(session);
    session.ExpectRefused(what);
    // The member of that name may come back before the frame is looked at, and take its place.
    if (from != other.id) ++refused;
  };
  const auto partials = [&](ViewNumber v, int64_t step, int32_t chunk, uint32_t crc) {
    return Partials{
        lineage, v, Step(step), {{ChunkId(chunk), {{TreeNode{0, 1}, 1, 0.5, crc}}}}, {}};
  };
  const std::string zeros(4 * 1024, '\0');
  attack("garbage", {}, [&](HostileSession& s) { s.Send("\xff\xfe\xfd"); });
  attack("nothing", {}, [&](HostileSession& s) { s.Send(""); });
  attack("as large as may be", {}, [&](HostileSession& s) {
    s.Send(std::string(kMaxHeaderBytes, '\xff'), std::string(kMaxPayloadBytes, '\xff'));
  });
  --refused;  // it is closed below gRPC, mostly before there is a frame to be refused
  attack("no greeting", {}, [&](HostileSession& s) {
    s.Say(Fetch{view, PieceKind::kValues, 0, Step(0), {}});
  });
  attack("another job", {}, [&](HostileSession& s) { s.Say(Hello{"another", stranger, to.id}); });
  attack("another incarnation", {}, [&](HostileSession& s) {
    s.Say(Hello{job, stranger, {to.id.name, {7, 7}}});
  });
  // Nothing of these is read, and a lease later they are refused.
  attack("whom no view names, with questions", stranger, [&](HostileSession& s) {
    for (int i = 0; i < 20'000; ++i)
      s.Say(Fetch{ViewNumber(1000), PieceKind::kValues, 0, Step(i), {ChunkId(0)}});
  });
  attack("whom no view names, with sums", {{other.id.name, {1, 2}}},
         [&](HostileSession& s) { s.Say(partials(view, 1, 0, 1), std::string(4 * 1009, 'x')); });
  attack("a replayed greeting", other.id, [&](HostileSession& s) {
    s.Say(Hello{job, other.id, to.id});
  });
  attack("too many questions ahead of time", other.id, [&](HostileSession& s) {
    for (int i = 0; i < 20'000; ++i)
      s.Say(Fetch{ViewNumber(1000), PieceKind::kValues, 0, Step(i), {ChunkId(0)}});
  });
  attack("a wrong checksum", other.id,
         [&](HostileSession& s) { s.Say(partials(view, 1, 0, 1), std::string(4 * 1009, 'x')); });
  attack("a wrong size", other.id,
         [&](HostileSession& s) { s.Say(partials(view, 1, 0, 1), zeros.substr(0, 12)); });
  attack("a payload where none belongs", other.id, [&](HostileSession& s) {
    s.Say(Inventory{lineage, view, Step(1), {}, {}}, zeros);
  });
  attack("a chunk that is not there", other.id,
         [&](HostileSession& s) { s.Say(partials(view, 1, 77, 1), zeros); });
  attack("an old view", other.id, [&](HostileSession& s) {
    const std::string payload(4 * 1009, '\0');
    const auto bytes =
        absl::MakeConstSpan(reinterpret_cast<const std::byte*>(payload.data()), payload.size());
    s.Say(partials(ViewNumber(0), 1, 0, Crc32c(bytes)), payload);  // dropped
    s.Send("enough");
  });
  return refused;
}

void SendNoise(std::vector<http::RawClient>& open, const std::string& address) {
  const std::string noise[] = {
      "",
      "\r\n\r\n",
      std::string(70'000, '\xff'),
      "GET / HTTP/1.1\r\n",
      "GET /" + std::string(200'000, 'a') + " HTTP/1.1\r\nHost: a\r\n\r\n",
      "POST /v1/jobs HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999\r\n\r\n{",
      "GET /metrics HTTP/1.1\r\nHost: a\r\nX: " + std::string(100'000, 'b') + "\r\n\r\n",
      "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + std::string(30'000, '\0'),
      "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff" + std::string(30'000, '\1'),
  };
  for (const std::string& bytes : noise) open.emplace_back(address).Send(bytes);
}

double RefusedFrames(const std::string& metrics) {
  const auto response = http::Get("http://" + metrics + "/metrics");
  if (!response.ok()) return -1;
  const size_t at = response->body.find("\nmuster_frames_refused_total{");
  if (at == std::string::npos) return -1;
  return std::stod(response->body.substr(response->body.find("} ", at) + 2));
}

void ExpectCounted(const std::string& metrics, int refused) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  double counted = RefusedFrames(metrics);
  while (counted < refused && std::chrono::steady_clock::now() < limit)
    counted = RefusedFrames(metrics);
  EXPECT_GE(counted, refused) << metrics;
}

class HostileTest : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Sync, HostileTest, ::testing::Values("allreduce", "server"),
                         [](const auto& sync) { return sync.param; });

TEST_P(HostileTest, AJobUnderAttackEndsWithTheBitsOfAnUndisturbedOne) {
  const std::string folder = MakeFolder();
  const bool servers = GetParam() == std::string("server");
  const std::string spec =
      WriteText(folder + "/spec.yaml",
                // It outlasts the attack on any machine, and is stopped then.
                CountingSpecOf("epochs: 1000000", servers ? "workers: 2\nsync: server\nservers: 1\n"
                                                          : "workers: 2\n"));
  Program program(Train(spec, folder + "/job", {"--json"}));
  ASSERT_TRUE(program.WaitFor("\"event\":\"step\"")) << program.output();
  const auto start = nlohmann::json::parse(program.output().substr(0, program.output().find('\n')));
  const std::string url = start["url"];
  const std::string id = start["job"];
  const auto job =
      nlohmann::json::parse(http::Get(url + "/v1/jobs/" + id, ClientOf(folder + "/job"))->body);
  const auto cluster = nlohmann::json::parse(std::ifstream(folder + "/job/cluster.json"));
  const auto ports = nlohmann::json::parse(std::ifstream(folder + "/job/prometheus-targets.json"));
  std::vector<Target> members;
  for (const auto& member : job["members"])
    members.push_back({{member["name"], IncarnationOf(member["incarnation"])}, member["address"]});
  ASSERT_EQ(members.size(), servers ? 3u : 2u);

  std::vector<http::RawClient> open;
  SendNoise(open, cluster["grpc"]);
  for (const auto& port : ports) SendNoise(open, port["targets"][0]);
  for (const Target& member : members) SendNoise(open, member.address);
  const Impostor impostor(folder + "/job", id);
  {
    const auto transport = impostor.As(members[0].id);
    HostileSession session(*transport, cluster["grpc"]);
    session.Send(std::string(kMaxHeaderBytes, '\xff'), std::string(kMaxPayloadBytes, '\xff'));
    session.ExpectRefused("garbage at the coordinator");
  }
  for (size_t i = 0; i < members.size(); ++i) {
    const int refused = SendHostileFrames(impostor, members[i], members[(i + 1) % members.size()]);
    const auto port = std::find_if(ports.begin(), ports.end(), [&](const nlohmann::json& p) {
      return p["labels"]["member"] == members[i].id.name;
    });
    ASSERT_NE(port, ports.end()) << members[i].id.name << " has no port of metrics: " << ports;
    ExpectCounted((*port)["targets"][0], refused);
  }
  EXPECT_TRUE(program.WaitFor("\"event\":\"step\"", program.output().size()))
      << "it trained through all of it";
  program.Signal(SIGINT);
  EXPECT_EQ(program.End(), 75) << program.output();
  EXPECT_THAT(program.output(), Not(HasSubstr("\"signal\":11")));
  EXPECT_THAT(program.output(), Not(HasSubstr("\"signal\":6")));
  const auto result = ResultOf(program);
  ASSERT_TRUE(result.is_object());
  EXPECT_EQ(result["rewinds"], 0);
  const std::string steps = "steps: " + std::to_string(result.value("steps", 0));
  EXPECT_EQ(result["digest"],
            UndisturbedDigest(WriteText(folder + "/plain.yaml", CountingSpecOf(steps))));
}

}  // namespace
}  // namespace muster::integration
