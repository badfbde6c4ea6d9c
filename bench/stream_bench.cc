// A tensor stream over loopback, one way, added up at the receiver straight from what arrives: our
// sessions (A), a naive gRPC stream of protobuf bytes with default settings (B), and a plain TCP
// stream that is read and thrown away (L, the limit). Sender and receiver are two processes, one
// core each; the three take turns. The sums are checked after every round. The naive peer shares
// our processes and so our allocator settings (MakeGrpcTransport), which help it as much as us.
// With --tls our sessions with mutual TLS take the place of the naive peer: what it costs both ends
// that each shows a certificate and every byte is encrypted. Handshakes are not measured.
#include <arpa/inet.h>
#include <fcntl.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "bench/statistics.h"
#include "lib/base/check.h"
#include "lib/base/loopback.h"
#include "lib/base/mutex.h"
#include "lib/base/time.h"
#include "lib/identity/identity.h"
#include "lib/identity/identity_folder.h"
#include "lib/identity/identity_source.h"
#include "lib/kernels/add.h"
#include "lib/transport/grpc/grpc_transport.h"
#include "naive.grpc.pb.h"

namespace muster {
namespace {

constexpr std::chrono::seconds kConnectTimeout{10};

struct Settings {
  bool receive = false;
  int rounds = 10;
  size_t mib = 256;
  size_t piece_kib = 1024;
  size_t connections = 1;
  int threads = 1;
  int send_core = 0;
  int receive_core = 1;
  bool tls = false;
  std::string identity;  // of the receiving process: its folder
  std::string json;

  size_t bytes() const { return mib << 20; }
  size_t piece_bytes() const { return piece_kib << 10; }
  size_t pieces() const { return bytes() / piece_bytes(); }
};

void PinTo(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  sched_setaffinity(0, sizeof(set), &set);  // best effort: a machine may have one core
}

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

absl::Span<const std::byte> AsBytes(absl::Span<const float> values) {
  return absl::MakeConstSpan(reinterpret_cast<const std::byte*>(values.data()), values.size() * 4);
}

int TcpSocket() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  MUSTER_CHECK(fd >= 0);
  return fd;
}

// Both ends have a certificate, as two members of a job have.
PeerName NameOf(const std::string& member) {
  return {"bench", MemberPeer{"stream", member, PlacementNumber(1), Incarnation{1, 1}}};
}

std::unique_ptr<GrpcTransport> TransportOf(const Settings& settings, const Identity* identity) {
  GrpcOptions options;
  if (!settings.receive) options.threads = settings.threads;
  if (identity != nullptr) options.credentials.identity = IdentitySource::Of(*identity);
  return MakeGrpcTransport(std::move(options));
}

// The receiving process. It is asked for one thing at a time, over a session of its own
// ("control"): "report": the sum of all values and the CPU time so far; the values begin anew at
// zero.
class Receiver {
 public:
  explicit Receiver(const Settings& settings)
      : values_(settings.bytes() / 4), transport_(TransportOf(settings, nullptr)), naive_(this) {
    if (settings.identity.empty()) return;
    const absl::StatusOr<Identity> identity = ReadIdentity(settings.identity);
    MUSTER_CHECK(identity.ok());
    tls_transport_ = TransportOf(settings, &*identity);
  }

  int Run() {
    std::unique_ptr<Listener> listener = Listen(*transport_);
    std::unique_ptr<Listener> tls_listener = tls_transport_ ? Listen(*tls_transport_) : nullptr;
    int naive_port = 0;
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &naive_port);
    builder.RegisterService(&naive_);
    const auto server = builder.BuildAndStart();
    const int tcp = TcpSocket();
    sockaddr_in name{.sin_family = AF_INET};
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(name);
    MUSTER_CHECK(bind(tcp, reinterpret_cast<sockaddr*>(&name), size) == 0 && listen(tcp, 8) == 0);
    getsockname(tcp, reinterpret_cast<sockaddr*>(&name), &size);
    std::thread tcp_thread([&] { ServeTcp(tcp); });
    std::printf("%s %s %d %d\n", listener->Address().c_str(),
                tls_listener ? tls_listener->Address().c_str() : "none", naive_port,
                ntohs(name.sin_port));
    std::fflush(stdout);
    for (char byte; read(STDIN_FILENO, &byte, 1) > 0;) {
    }
    shutdown(tcp, SHUT_RDWR);
    tcp_thread.join();
    close(tcp);
    server->Shutdown();
    return 0;
  }

 private:
  std::unique_ptr<Listener> Listen(GrpcTransport& transport) {
    auto listener = transport.Listen("127.0.0.1:0", [this](std::shared_ptr<Session> session) {
      return Accept(std::move(session));
    });
    MUSTER_CHECK(listener.ok());
    return *std::move(listener);
  }

  class NaiveService final : public bench::Naive::Service {
   public:
    explicit NaiveService(Receiver* receiver) : receiver_(receiver) {}
    grpc::Status Push(grpc::ServerContext*, grpc::ServerReader<bench::Piece>* reader,
                      bench::Received* reply) override {
      uint64_t total = 0;
      for (bench::Piece piece; reader->Read(&piece); total += piece.data().size()) {
        const auto* data = reinterpret_cast<const std::byte*>(piece.data().data());
        const absl::Span<const std::byte> bytes(data, piece.data().size());
        receiver_->AddPiece(absl::MakeConstSpan(&bytes, 1), piece.offset(), bytes.size());
      }
      reply->set_bytes(total);
      return grpc::Status::OK;
    }

   private:
    Receiver* const receiver_;
  };

  SessionHandler Accept(std::shared_ptr<Session> session) {
    MutexLock lock(mutex_);
    sessions_.push_back(session);
    return {[this, weak = std::weak_ptr<Session>(session)](Frame frame) {
              const std::shared_ptr<Session> from = weak.lock();
              if (frame.header == "report") {
                if (from) from->Send({Report(), {}});
                return;
              }
              uint64_t offset = 0;
              MUSTER_CHECK(absl::SimpleAtoi(frame.header, &offset));
              AddPiece(frame.payload.slices, offset, frame.payload.size());
              const bool complete = (added_bytes_ += frame.payload.size()) == values_.size() * 4;
              if (!complete) return;
              added_bytes_ = 0;
              if (from) from->Send({"all added", {}});
            },
            [](absl::Status) {}};
  }

  void AddPiece(ByteSlices slices, size_t offset, size_t size) {
    MUSTER_CHECK(offset % 4 == 0 && size % 4 == 0 && offset + size <= values_.size() * 4);
    const absl::Span<float> values = absl::MakeSpan(values_).subspan(offset / 4, size / 4);
    SumSlices(slices, 0, values, values);
  }

  // CPU seconds leave out what reporting itself costs.
  std::string Report() {
    const double now = CpuSeconds();
    const double cpu = now - reporting_;
    const double sum = std::accumulate(values_.begin(), values_.end(), 0.0);
    std::fill(values_.begin(), values_.end(), 0.0f);
    reporting_ += CpuSeconds() - now;
    return absl::StrCat(static_cast<int64_t>(sum), " ", static_cast<int64_t>(cpu * 1e6));
  }

  static void ServeTcp(int listening) {
    std::vector<char> buffer(size_t{128} << 10);  // stays in cache, as iperf3's does
    for (int fd; (fd = accept4(listening, nullptr, nullptr, SOCK_CLOEXEC)) >= 0; close(fd)) {
      while (recv(fd, buffer.data(), buffer.size(), 0) > 0) {
      }
      const char done = 1;
      send(fd, &done, 1, MSG_NOSIGNAL);
    }
  }

  std::vector<float> values_;
  std::atomic<size_t> added_bytes_{0};  // by sessions, of the tensor under way
  double reporting_ = 0;
  Mutex mutex_;
  std::vector<std::shared_ptr<Session>> sessions_ ABSL_GUARDED_BY(mutex_);
  const std::unique_ptr<GrpcTransport> transport_;
  std::unique_ptr<GrpcTransport> tls_transport_;  // null: without --tls
  NaiveService naive_;
};

struct Peer {
  pid_t pid = -1;
  int input = -1;
  std::string sessions;
  std::string tls_sessions;
  std::string naive;
  uint16_t tcp = 0;
};

// `identity`: the folder with that of the receiver; empty: it has none.
Peer StartReceiver(const Settings& settings, const std::string& identity) {
  std::array<int, 2> in;
  std::array<int, 2> out;
  MUSTER_CHECK(pipe2(in.data(), O_CLOEXEC) == 0 && pipe2(out.data(), O_CLOEXEC) == 0);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
  std::vector<std::string> words = {"stream_bench",   "--receive",
                                    "--mib",          absl::StrCat(settings.mib),
                                    "--receive-core", absl::StrCat(settings.receive_core)};
  if (!identity.empty()) words.insert(words.end(), {"--identity", identity});
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  Peer peer;
  MUSTER_CHECK(
      posix_spawn(&peer.pid, "/proc/self/exe", &actions, nullptr, arguments.data(), environ) == 0);
  posix_spawn_file_actions_destroy(&actions);
  close(in[0]);
  close(out[1]);
  peer.input = in[1];
  FILE* lines = fdopen(out[0], "r");
  std::array<char, 128> address{};
  std::array<char, 128> tls_address{};
  int naive = 0;
  MUSTER_CHECK(std::fscanf(lines, "%127s %127s %d %hu", address.data(), tls_address.data(), &naive,
                           &peer.tcp) == 4);
  std::fclose(lines);
  peer.sessions = address.data();
  peer.tls_sessions = tls_address.data();
  peer.naive = absl::StrCat("127.0.0.1:", naive);
  return peer;
}

// Counts what comes back on all sessions of the sender.
class Replies {
 public:
  SessionHandler Handler() {
    return {[this](Frame frame) {
              MutexLock lock(mutex_);
              last_ = std::move(frame.header);
              ++count_;
              changed_.NotifyAll();
            },
            [this](absl::Status why) {
              MutexLock lock(mutex_);
              broken_ = closing_ ? "" : why.ToString();
              changed_.NotifyAll();
            }};
  }
  std::string Await(size_t count) {
    MutexLock lock(mutex_);
    while (count_ < count && broken_.empty()) changed_.Wait(mutex_);
    MUSTER_CHECK(broken_.empty(), "a session broke");
    count_ -= count;
    return last_;
  }
  void ExpectClose() {
    MutexLock lock(mutex_);
    closing_ = true;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  size_t count_ ABSL_GUARDED_BY(mutex_) = 0;
  std::string last_ ABSL_GUARDED_BY(mutex_);
  std::string broken_ ABSL_GUARDED_BY(mutex_);
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
};

// Of one tensor.
struct Round {
  double seconds = 0;
  double sender_cpu = 0;  // seconds
  double receiver_cpu = 0;
};

// Of both ends, by one authority; that of the receiver is in a folder until it has started.
class Identities {
 public:
  Identities() {
    const absl::Time now = absl::Now();
    const Authority authority = MakeAuthority("bench", now).value();
    sender_ = IssueIdentity(authority, NameOf("sender"), now).value();
    MUSTER_CHECK(mkdtemp(folder_.data()) != nullptr);
    MUSTER_CHECK(
        WriteIdentity(receiver(), IssueIdentity(authority, NameOf("receiver"), now).value()).ok());
  }
  ~Identities() {
    std::error_code error;
    std::filesystem::remove_all(folder_, error);
  }
  Identities(const Identities&) = delete;
  Identities& operator=(const Identities&) = delete;

  const Identity& sender() const { return sender_; }
  std::string receiver() const { return folder_ + "/receiver"; }

 private:
  std::string folder_ = std::filesystem::temp_directory_path() / "muster-stream-bench-XXXXXX";
  Identity sender_;
};

class Sender {
 public:
  explicit Sender(const Settings& settings) : settings_(settings), values_(settings.bytes() / 4) {
    std::optional<Identities> identities;
    if (settings.tls) identities.emplace();
    peer_ = StartReceiver(settings, identities ? identities->receiver() : "");
    for (size_t i = 0; i < values_.size(); ++i) values_[i] = static_cast<float>(i % 7);
    transport_ = TransportOf(settings, nullptr);
    for (size_t i = 0; i < settings.connections; ++i) sessions_.push_back(Connect());
    if (identities) tls_transport_ = TransportOf(settings, &identities->sender());
    for (size_t i = 0; i < settings.connections && settings.tls; ++i)
      tls_sessions_.push_back(ConnectWithTls());
    control_ = Connect();
    channel_ = grpc::CreateChannel(peer_.naive, grpc::InsecureChannelCredentials());
  }

  ~Sender() {
    replies_.ExpectClose();
    transport_.reset();
    tls_transport_.reset();
    channel_.reset();  // the receiver would wait for it
    close(peer_.input);
    waitpid(peer_.pid, nullptr, 0);
  }

  Round Ours() { return SendOver(sessions_); }
  Round OursWithTls() { return SendOver(tls_sessions_); }

  Round Naive() {
    return Measure(1, [&] {
      auto stub = bench::Naive::NewStub(channel_);
      grpc::ClientContext context;
      bench::Received received;
      auto writer = stub->Push(&context, &received);
      for (size_t i = 0; i < settings_.pieces(); ++i) {
        bench::Piece piece;
        piece.set_offset(i * settings_.piece_bytes());
        piece.set_data(Piece(i).data(), Piece(i).size());
        MUSTER_CHECK(writer->Write(piece));
      }
      writer->WritesDone();
      MUSTER_CHECK(writer->Finish().ok() && received.bytes() == settings_.bytes());
    });
  }

  Round Tcp() {
    return Measure(0, [&] {
      const int fd = TcpSocket();
      sockaddr_in name{.sin_family = AF_INET, .sin_port = htons(peer_.tcp)};
      name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      MUSTER_CHECK(connect(fd, reinterpret_cast<sockaddr*>(&name), sizeof(name)) == 0);
      for (size_t i = 0; i < settings_.pieces(); ++i) {
        for (auto rest = Piece(i); !rest.empty();) {
          const ssize_t n = send(fd, rest.data(), rest.size(), MSG_NOSIGNAL);
          MUSTER_CHECK(n > 0);
          rest.remove_prefix(static_cast<size_t>(n));
        }
      }
      shutdown(fd, SHUT_WR);
      char done = 0;
      MUSTER_CHECK(recv(fd, &done, 1, 0) == 1);
      close(fd);
    });
  }

 private:
  std::shared_ptr<Session> Connect() {
    return transport_->Connect(peer_.sessions, kConnectTimeout, replies_.Handler());
  }
  std::shared_ptr<Session> ConnectWithTls() {
    SessionHandler handler = replies_.Handler();
    handler.expected = ExpectedMember{"stream", "receiver", Incarnation{1, 1}};
    return tls_transport_->Connect(peer_.tls_sessions, kConnectTimeout, std::move(handler));
  }

  Round SendOver(const std::vector<std::shared_ptr<Session>>& sessions) {
    return Measure(1, [&] {
      for (size_t i = 0; i < settings_.pieces(); ++i) {
        Frame frame{absl::StrCat(i * settings_.piece_bytes()), {}};
        frame.payload.slices.push_back(Piece(i));
        sessions[i % sessions.size()]->Send(std::move(frame));
      }
      replies_.Await(1);
    });
  }

  absl::Span<const std::byte> Piece(size_t i) const {
    return AsBytes(values_).subspan(i * settings_.piece_bytes(), settings_.piece_bytes());
  }

  // `times` is how often the receiver must have added every value.
  template <class Work>
  Round Measure(int times, const Work& work) {
    const double own_before = CpuSeconds();
    const auto begin = std::chrono::steady_clock::now();
    work();
    Round round;
    round.seconds = Seconds(std::chrono::steady_clock::now() - begin);
    round.sender_cpu = CpuSeconds() - own_before;
    control_->Send({"report", {}});
    const std::vector<std::string> report = absl::StrSplit(replies_.Await(1), ' ');
    int64_t sum = 0;
    int64_t cpu_micros = 0;
    MUSTER_CHECK(absl::SimpleAtoi(report.at(0), &sum) &&
                 absl::SimpleAtoi(report.at(1), &cpu_micros));
    const double expected = std::accumulate(values_.begin(), values_.end(), 0.0) * times;
    MUSTER_CHECK(sum == static_cast<int64_t>(expected), "the receiver's sums are wrong");
    round.receiver_cpu = 1e-6 * static_cast<double>(cpu_micros - receiver_cpu_micros_);
    receiver_cpu_micros_ = cpu_micros;
    return round;
  }

  const Settings settings_;
  Peer peer_;
  std::vector<float> values_;
  Replies replies_;
  std::unique_ptr<GrpcTransport> transport_, tls_transport_;
  std::vector<std::shared_ptr<Session>> sessions_, tls_sessions_;
  std::shared_ptr<Session> control_;
  std::shared_ptr<grpc::Channel> channel_;
  int64_t receiver_cpu_micros_ = 0;
};

struct Series {
  std::string name;
  std::function<Round(Sender&)> run;
  std::vector<Round> rounds{};

  double MedianOf(const std::function<double(const Round&)>& of) const {
    return bench::Median(EachOf(of));
  }
  std::vector<double> EachOf(const std::function<double(const Round&)>& of) const {
    std::vector<double> values;
    for (const Round& round : rounds) values.push_back(of(round));
    return values;
  }
};

double SecondsOf(const Round& round) { return round.seconds; }
double SenderCpu(const Round& round) { return round.sender_cpu; }
double ReceiverCpu(const Round& round) { return round.receiver_cpu; }
double Cpu(const Round& round) { return round.sender_cpu + round.receiver_cpu; }

// Of the same rounds.
bench::Figure Ratio(std::string name, const std::vector<double>& a, const std::vector<double>& b) {
  bench::Figure ratio{std::move(name), ""};
  for (size_t i = 0; i < a.size(); ++i) ratio.values.push_back(a[i] / b[i]);
  return ratio;
}

// The first series is ours. Rates and CPU seconds of it beside those of each other one.
std::vector<bench::Figure> RatiosOf(const std::vector<Series>& all) {
  std::vector<bench::Figure> ratios;
  const Series& ours = all.front();
  for (size_t i = 1; i < all.size(); ++i) {
    const std::string names = absl::StrCat(ours.name, " ÷ ", all[i].name);
    ratios.push_back(
        Ratio(absl::StrCat("rate: ", names), all[i].EachOf(SecondsOf), ours.EachOf(SecondsOf)));
    ratios.push_back(Ratio(absl::StrCat("CPU: ", names), ours.EachOf(Cpu), all[i].EachOf(Cpu)));
  }
  return ratios;
}

int Run(const Settings& settings) {
  std::vector<Series> all = {{"sessions", &Sender::Ours}};
  if (settings.tls)
    all.insert(all.begin(), {"sessions with TLS", &Sender::OursWithTls});
  else
    all.push_back({"naive protobuf bytes", &Sender::Naive});
  all.push_back({"plain TCP (limit)", &Sender::Tcp});
  Sender sender(settings);
  for (int round = -1; round < settings.rounds; ++round)
    for (Series& series : all) {
      const Round measured = series.run(sender);
      if (round >= 0) series.rounds.push_back(measured);  // the first one warms up
    }
  const double gigabytes = static_cast<double>(settings.bytes()) * 1e-9;
  nlohmann::json record = {{"bench", "stream"},
                           {"mib", settings.mib},
                           {"piece_kib", settings.piece_kib},
                           {"connections", settings.connections},
                           {"rounds", settings.rounds}};
  std::printf("%zu MiB in %zu KiB pieces, %zu connection(s), median of %d rounds\n", settings.mib,
              settings.piece_kib, settings.connections, settings.rounds);
  std::printf("%-22s %8s %12s %12s %12s\n", "", "GB/s", "CPU-s/GB", "sender", "receiver");
  for (const Series& series : all) {
    const double rate = gigabytes / series.MedianOf(SecondsOf);
    const double cpu = series.MedianOf(Cpu) / gigabytes;
    const double sender_cpu = series.MedianOf(SenderCpu) / gigabytes;
    const double receiver_cpu = series.MedianOf(ReceiverCpu) / gigabytes;
    std::printf("%-22s %8.2f %12.2f %12.2f %12.2f\n", series.name.c_str(), rate, cpu, sender_cpu,
                receiver_cpu);
    record["series"][series.name] = {{"gb_per_s", rate},
                                     {"cpu_s_per_gb", cpu},
                                     {"sender_cpu_s_per_gb", sender_cpu},
                                     {"receiver_cpu_s_per_gb", receiver_cpu}};
  }
  std::printf("\n%-52s %10s   5 … 95 %%\n", "ratios of each round", "median");
  for (const bench::Figure& ratio : RatiosOf(all)) {
    ratio.Print();
    record["ratios"][ratio.name] = ratio.Record();
  }
  if (!settings.json.empty()) std::ofstream(settings.json) << record.dump(2) << "\n";
  return 0;
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) {
  muster::Settings settings;
  CLI::App app("Tensor stream over loopback: muster sessions, naive gRPC, plain TCP");
  app.add_flag("--receive", settings.receive,
               "be the receiving process (used by the bench itself)");
  app.add_option("--rounds", settings.rounds)->check(CLI::Range(1, 1000));
  app.add_option("--mib", settings.mib, "size of the tensor")->check(CLI::Range(1, 4096));
  app.add_option("--piece-kib", settings.piece_kib, "payload of a frame; a power of two")
      ->check(CLI::IsMember({64, 128, 256, 512, 1024, 2048}));
  app.add_option("--connections", settings.connections)->check(CLI::Range(1, 64));
  app.add_option("--threads", settings.threads, "of the sender's transport")
      ->check(CLI::Range(1, 16));
  app.add_flag("--tls", settings.tls, "measure sessions with mutual TLS beside those without");
  app.add_option("--identity", settings.identity, "of the receiving process (used by the bench)");
  app.add_option("--send-core", settings.send_core);
  app.add_option("--receive-core", settings.receive_core);
  app.add_option("--json", settings.json, "file for a machine-readable record");
  CLI11_PARSE(app, argc, argv);
  if (settings.receive) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    muster::PinTo(settings.receive_core);
    return muster::Receiver(settings).Run();
  }
  muster::PinTo(settings.send_core);
  return muster::Run(settings);
}
