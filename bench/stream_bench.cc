// A tensor stream over loopback, one way, added up at the receiver straight from what arrives: our
// sessions (A), a naive gRPC stream of protobuf bytes with default settings (B), and a plain TCP
// stream that is read and thrown away (L, the limit). Sender and receiver are two processes, one
// core each; the three take turns. The sums are checked after every round. The naive peer shares
// our processes and so our allocator settings (MakeGrpcTransport), which help it as much as us.
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
#include <cstring>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "lib/base/check.h"
#include "lib/base/loopback.h"
#include "lib/base/mutex.h"
#include "lib/base/time.h"
#include "lib/kernels/add.h"
#include "lib/transport/grpc/grpc_transport.h"
#include "naive.grpc.pb.h"

namespace muster {
namespace {

struct Settings {
  bool receive = false;
  int rounds = 10;
  size_t mib = 256;
  size_t piece_kib = 1024;
  size_t connections = 1;
  int threads = 1;
  int send_core = 0;
  int receive_core = 1;
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

// The receiving process. It is asked for one thing at a time, over a session of its own
// ("control"): "report": the sum of all values and the CPU time so far; the values begin anew at
// zero.
class Receiver {
 public:
  explicit Receiver(const Settings& settings)
      : values_(settings.bytes() / 4), transport_(MakeGrpcTransport({})), naive_(this) {}

  int Run() {
    auto listener = transport_->Listen("127.0.0.1:0", [this](std::shared_ptr<Session> session) {
      return Accept(std::move(session));
    });
    MUSTER_CHECK(listener.ok());
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
    std::printf("%s %d %d\n", (*listener)->Address().c_str(), naive_port, ntohs(name.sin_port));
    std::fflush(stdout);
    for (char byte; read(STDIN_FILENO, &byte, 1) > 0;) {
    }
    shutdown(tcp, SHUT_RDWR);
    tcp_thread.join();
    close(tcp);
    server->Shutdown();
    listener->reset();
    return 0;
  }

 private:
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
  NaiveService naive_;
};

struct Peer {
  pid_t pid = -1;
  int input = -1;
  std::string sessions;
  std::string naive;
  uint16_t tcp = 0;
};

Peer StartReceiver(const Settings& settings) {
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
  int naive = 0;
  MUSTER_CHECK(std::fscanf(lines, "%127s %d %hu", address.data(), &naive, &peer.tcp) == 3);
  std::fclose(lines);
  peer.sessions = address.data();
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

struct Round {
  double seconds = 0;
  double cpu_seconds = 0;  // of both processes
};

class Sender {
 public:
  explicit Sender(const Settings& settings)
      : settings_(settings), peer_(StartReceiver(settings)), values_(settings.bytes() / 4) {
    for (size_t i = 0; i < values_.size(); ++i) values_[i] = static_cast<float>(i % 7);
    GrpcOptions options;
    options.threads = settings.threads;
    transport_ = MakeGrpcTransport(std::move(options));
    for (size_t i = 0; i < settings.connections; ++i) sessions_.push_back(Connect());
    control_ = Connect();
    channel_ = grpc::CreateChannel(peer_.naive, grpc::InsecureChannelCredentials());
  }

  ~Sender() {
    replies_.ExpectClose();
    transport_.reset();
    close(peer_.input);
    waitpid(peer_.pid, nullptr, 0);
  }

  Round Ours() {
    return Measure(1, [&] {
      for (size_t i = 0; i < settings_.pieces(); ++i) {
        Frame frame{absl::StrCat(i * settings_.piece_bytes()), {}};
        frame.payload.slices.push_back(Piece(i));
        sessions_[i % sessions_.size()]->Send(std::move(frame));
      }
      replies_.Await(1);
    });
  }

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
    return transport_->Connect(peer_.sessions, std::chrono::seconds(10), replies_.Handler());
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
    round.cpu_seconds = CpuSeconds() - own_before;
    control_->Send({"report", {}});
    const std::vector<std::string> report = absl::StrSplit(replies_.Await(1), ' ');
    int64_t sum = 0;
    int64_t cpu_micros = 0;
    MUSTER_CHECK(absl::SimpleAtoi(report.at(0), &sum) &&
                 absl::SimpleAtoi(report.at(1), &cpu_micros));
    const double expected = std::accumulate(values_.begin(), values_.end(), 0.0) * times;
    MUSTER_CHECK(sum == static_cast<int64_t>(expected), "the receiver's sums are wrong");
    round.cpu_seconds += 1e-6 * static_cast<double>(cpu_micros - receiver_cpu_micros_);
    receiver_cpu_micros_ = cpu_micros;
    return round;
  }

  const Settings settings_;
  const Peer peer_;
  std::vector<float> values_;
  Replies replies_;
  std::unique_ptr<GrpcTransport> transport_;
  std::vector<std::shared_ptr<Session>> sessions_;
  std::shared_ptr<Session> control_;
  std::shared_ptr<grpc::Channel> channel_;
  int64_t receiver_cpu_micros_ = 0;
};

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

struct Series {
  std::string name;
  std::vector<Round> rounds;

  double MedianOf(double Round::*field) const {
    std::vector<double> values;
    for (const Round& round : rounds) values.push_back(round.*field);
    return Median(values);
  }
  double RatioTo(const Series& other) const {
    std::vector<double> ratios;
    for (size_t i = 0; i < rounds.size(); ++i) {
      ratios.push_back(other.rounds[i].seconds / rounds[i].seconds);
    }
    return Median(ratios);
  }
};

int Run(const Settings& settings) {
  Sender sender(settings);
  Series ours{"muster sessions", {}};
  Series naive{"naive protobuf bytes", {}};
  Series tcp{"plain TCP (limit)", {}};
  for (int round = -1; round < settings.rounds; ++round) {
    const Round a = sender.Ours();
    const Round b = sender.Naive();
    const Round l = sender.Tcp();
    if (round < 0) continue;  // warm-up
    ours.rounds.push_back(a);
    naive.rounds.push_back(b);
    tcp.rounds.push_back(l);
  }
  const double gigabytes = static_cast<double>(settings.bytes()) * 1e-9;
  nlohmann::json record = {{"bench", "stream"},
                           {"mib", settings.mib},
                           {"piece_kib", settings.piece_kib},
                           {"connections", settings.connections},
                           {"rounds", settings.rounds}};
  std::printf("%zu MiB in %zu KiB pieces, %zu connection(s), median of %d rounds\n", settings.mib,
              settings.piece_kib, settings.connections, settings.rounds);
  std::printf("%-22s %8s %12s\n", "", "GB/s", "CPU-s/GB");
  for (const Series* series : {&ours, &naive, &tcp}) {
    const double rate = gigabytes / series->MedianOf(&Round::seconds);
    const double cpu = series->MedianOf(&Round::cpu_seconds) / gigabytes;
    std::printf("%-22s %8.2f %12.2f\n", series->name.c_str(), rate, cpu);
    record["series"][series->name] = {{"gb_per_s", rate}, {"cpu_s_per_gb", cpu}};
  }
  record["ours_to_naive"] = ours.RatioTo(naive);
  record["ours_to_limit"] = ours.RatioTo(tcp);
  std::printf("ours ÷ naive %.2f, ours ÷ limit %.2f (medians of the ratios of each round)\n",
              ours.RatioTo(naive), ours.RatioTo(tcp));
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
