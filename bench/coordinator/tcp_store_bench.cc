// The peer of coordinator_bench: torch's TCPStore, as torchrun uses it. The store is a process of
// its own; N clients, each with a connection of its own, connect, say who they are, and wait until
// all have done so. A store only keeps keys: it knows no leases, plans nothing and writes nothing
// to a disk, so this bounds from below what registering can cost. Blocking calls, so a few threads
// share the clients.
#include <nss.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <vector>

#include "lib/base/check.h"
#include "lib/base/time.h"

namespace muster::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::chrono::seconds kPatience{120};
constexpr char kHost[] = "127.0.0.1";
const std::vector<uint8_t> kDescription(64, 'x');  // name, address, node

// A store in a process of its own.
struct Server {
  pid_t pid = -1;
  uint16_t port = 0;
};

[[noreturn]] void Serve(int report) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  c10d::TCPStoreOptions options;
  options.port = 0;
  options.isServer = true;
  options.waitWorkers = false;
  const c10d::TCPStore store(kHost, options);
  const uint16_t port = store.getPort();
  MUSTER_CHECK(write(report, &port, sizeof port) == sizeof port);
  while (true) pause();
}

Server StartServer() {
  int ends[2];
  MUSTER_CHECK(pipe(ends) == 0);
  Server server;
  server.pid = fork();
  if (server.pid == 0) Serve(ends[1]);
  close(ends[1]);
  MUSTER_CHECK(read(ends[0], &server.port, sizeof server.port) == sizeof server.port);
  close(ends[0]);
  return server;
}

// Clients first, first + step, …: each registers; then each waits for the last of all.
void RunClients(uint16_t port, int first, int step, int members) {
  std::vector<std::unique_ptr<c10d::TCPStore>> clients;
  for (int i = first; i < members; i += step) {
    c10d::TCPStoreOptions options;
    options.port = port;
    options.waitWorkers = false;
    options.timeout = kPatience;
    clients.push_back(std::make_unique<c10d::TCPStore>(kHost, options));
    clients.back()->set("worker-" + std::to_string(i), kDescription);
    if (clients.back()->add("joined", 1) == members) clients.back()->set("all", kDescription);
  }
  for (const auto& client : clients) client->wait({"all"});
}

double Register(int members, int threads) {
  const Server server = StartServer();
  const auto begin = std::chrono::steady_clock::now();
  std::vector<std::thread> running;
  for (int t = 0; t < threads; ++t)
    running.emplace_back([&, t] { RunClients(server.port, t, threads, members); });
  for (std::thread& thread : running) thread.join();
  const double seconds = Seconds(std::chrono::steady_clock::now() - begin);
  kill(server.pid, SIGKILL);
  waitpid(server.pid, nullptr, 0);
  return seconds;
}

int Main(int argc, char** argv) {
  std::vector<int> members = {100, 500, 2000};
  int threads = 8;
  std::string file;
  CLI::App app("How long members of a torch TCPStore take to register and to meet");
  app.add_option("--members", members, "how many clients; several: one after the other")
      ->capture_default_str();
  app.add_option("--threads", threads, "that share the clients")->capture_default_str();
  app.add_option("--json", file, "file for the figures");
  CLI11_PARSE(app, argc, argv);
  // Both ends ask for the name of each other's address, for their log. A name server that answers
  // slowly would be measured instead of the store.
  __nss_configure_lookup("hosts", "files");
  Json rounds;
  std::printf("%12s%24s\n", "members", "register and meet (s)");
  for (const int n : members) {
    const double seconds = Register(n, threads);
    rounds.push_back({{"members", n}, {"register_seconds", seconds}});
    std::printf("%12d%24.2f\n", n, seconds);
    std::fflush(stdout);
  }
  if (!file.empty()) std::ofstream(file) << rounds.dump(1) << "\n";
  return 0;
}

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) { return muster::bench::Main(argc, argv); }
