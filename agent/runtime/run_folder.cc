#include "agent/runtime/run_folder.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "lib/base/descriptor.h"
#include "lib/base/file_lock.h"
#include "lib/base/loopback.h"
#include "lib/base/own_folder.h"
#include "lib/base/socket_address.h"
#include "lib/base/status.h"
#include "lib/base/whole_file.h"
#include "nlohmann/json.hpp"

namespace muster::agent {
namespace {

namespace fs = std::filesystem;

constexpr char kAny[] = "127.0.0.1:0";
constexpr char kFirstStart[] = "/first_start";
constexpr int kTriesForAPort = 1000;

absl::Status CannotWrite(const std::string& path, const absl::Status& why) {
  if (absl::IsDataLoss(why)) return why;  // it says what lies there
  const std::string text = absl::StrCat("cannot write ", path, ": ", why.message());
  if (absl::IsResourceExhausted(why))
    return absl::ResourceExhaustedError(absl::StrCat(text, ", or give another --dir"));
  return absl::PermissionDeniedError(
      absl::StrCat(text, absl::IsPermissionDenied(why) ? "; give a --dir that this user may write"
                                                       : "; give another --dir"));
}
absl::Status CannotWrite(const std::string& path, const char* action, int error) {
  return CannotWrite(path, FileError(error, action, path));
}

// Empty: it cannot be read, whatever lies there.
std::string ReadFile(const std::string& path) { return ReadWholeFile(path).value_or(""); }

absl::Status RemoveFolder(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) return CannotWrite(path, "remove", error.value());
  return absl::OkStatus();
}

std::string Absolute(const std::string& path) {
  std::error_code error;
  return fs::absolute(path, error).lexically_normal().string();
}

absl::Status MakeFolder(const std::string& path) {
  const absl::Status made = MakeDirectories(path);
  return made.ok() ? made : CannotWrite(path, made);
}

absl::Status Replace(const std::string& path, const std::string& text) {
  const absl::Status written = ReplaceFile(path, text);
  return written.ok() ? written : CannotWrite(path, written);
}

// `muster delete` renames the folder of a job to one that no job can have, then removes it. What is
// left was cut short.
void RemoveDeletedJobs(const std::string& jobs) {
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(jobs, none))
    if (absl::StartsWith(entry.path().filename().string(), ".deleted-"))
      fs::remove_all(entry.path(), none);
}

absl::Status MarkAsOurs(const std::string& folder) {
  const absl::Status marked = MarkOwnFolder(folder);
  return marked.ok() ? marked : CannotWrite(absl::StrCat(folder, "/", kOwnFolderMark), marked);
}

absl::StatusOr<Descriptor> AcquireLock(const std::string& folder) {
  const std::string file = absl::StrCat(folder, "/", kOwnFolderLock);
  absl::StatusOr<Descriptor> lock = LockFile(file);
  if (absl::IsAborted(lock.status())) {
    const std::string holder(absl::StripAsciiWhitespace(ReadFile(file)));
    return absl::AlreadyExistsError(absl::StrCat(folder, " is in use by another muster (process ",
                                                 holder, "): stop it or give another --dir"));
  }
  if (!lock.ok()) return CannotWrite(file, lock.status());
  const std::string pid = absl::StrCat(getpid(), "\n");
  if (ftruncate(lock->get(), 0) != 0 || pwrite(lock->get(), pid.data(), pid.size(), 0) < 0)
    return CannotWrite(file, "write", errno);
  return lock;
}

// Tells every other agent of this network namespace, for as long as it is open, that the port is
// ours: between our look at it and the coordinator's listening it would take it as free. kAborted:
// another agent has it.
absl::StatusOr<Descriptor> ReservePort(int port) {
  Descriptor name(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  // The leading zero makes it a name of no file, which ends with its socket.
  const std::string text = absl::StrCat("muster-port-", port);
  text.copy(address.sun_path + 1, sizeof address.sun_path - 1);
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  if (bind(name.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0 &&
      errno == EADDRINUSE)
    return absl::AbortedError(absl::StrCat("another muster has port ", port));
  return name;  // where there are no such names, nothing is told
}

int PortOf(const std::string& address) {
  const auto parsed = ParseHostPort(address);
  return parsed.ok() ? parsed->port : 0;
}

// The address with the port in effect; port 0 asks for any. kAlreadyExists: another program has it.
absl::StatusOr<std::string> FreeAddress(const std::string& address) {
  MUSTER_ASSIGN_OR_RETURN(const HostPort parsed, ParseHostPort(address));
  MUSTER_ASSIGN_OR_RETURN(SocketAddress bound_to, ToSocketAddress(parsed));
  auto& [storage, size] = bound_to;
  auto* socket_address = reinterpret_cast<sockaddr*>(&storage);
  const Descriptor probe(socket(storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int fd = probe.get();
  if (!probe.is_open())
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot make a socket: ", std::strerror(errno)));
  const int yes = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  const bool bound =
      bind(fd, socket_address, size) == 0 && getsockname(fd, socket_address, &size) == 0;
  if (!bound && errno == EADDRINUSE && parsed.port != 0)
    return absl::AlreadyExistsError(absl::StrCat("another program has ", address));
  if (!bound)
    return absl::UnavailableError(absl::StrCat("address ", address, ": ", std::strerror(errno)));
  // Of both families the port stands at the same place.
  const int port = ntohs(reinterpret_cast<sockaddr_in*>(&storage)->sin_port);
  return absl::StrCat(address.substr(0, address.rfind(':')), ":", port);
}

bool IsOnHostOf(const std::string& address, const std::string& other) {
  return address.substr(0, address.rfind(':')) == other.substr(0, other.rfind(':'));
}

absl::StatusOr<ClusterAddresses> ReadAddresses(const std::string& file) {
  MUSTER_RETURN_IF_ERROR(CheckRegularFile(file));
  const auto object = nlohmann::json::parse(ReadFile(file), nullptr, /*allow_exceptions=*/false);
  const auto text = [&](const char* name) {
    return object.is_object() && object.contains(name) && object[name].is_string()
               ? object[name].get<std::string>()
               : "";
  };
  return ClusterAddresses{.grpc = text("grpc"), .http = text("http"), .join = text("join")};
}

}  // namespace

absl::StatusOr<RunFolder> RunFolder::Open(const std::string& path) {
  MUSTER_ASSIGN_OR_RETURN(RunFolder folder, Take(Absolute(path)));
  for (const std::string& inner : {folder.logs(), folder.store(), folder.checkpoints()})
    MUSTER_RETURN_IF_ERROR(MakeFolder(inner));
  MUSTER_RETURN_IF_ERROR(CheckRegularFile(folder.LogFile(kCoordinatorKey)));
  return folder;
}

absl::StatusOr<RunFolder> RunFolder::OpenHost(const std::string& path, const std::string& host) {
  const std::string absolute = Absolute(path);
  MUSTER_RETURN_IF_ERROR(MakeFolder(absolute));
  MUSTER_RETURN_IF_ERROR(CheckOwnFolder(absolute));
  MUSTER_RETURN_IF_ERROR(MarkAsOurs(absolute));
  return Take(absl::StrCat(absolute, "/hosts/", host));
}

absl::StatusOr<RunFolder> RunFolder::Take(const std::string& absolute) {
  MUSTER_RETURN_IF_ERROR(MakeFolder(absolute));
  MUSTER_RETURN_IF_ERROR(CheckOwnFolder(absolute));
  MUSTER_ASSIGN_OR_RETURN(Descriptor lock, AcquireLock(absolute));
  RunFolder folder(absolute, std::move(lock));
  MUSTER_RETURN_IF_ERROR(MarkAsOurs(absolute));
  MUSTER_RETURN_IF_ERROR(MakeFolder(folder.jobs()));
  RemoveDeletedJobs(folder.jobs());
  return folder;
}

std::string RunFolder::LogFile(const ProcessKey& key) const {
  const std::string folder = key == kCoordinatorKey ? logs() : job(key.job) + "/logs";
  return absl::StrCat(folder, "/", key.name, ".log");
}

absl::StatusOr<Incarnation> RunFolder::Follow(Incarnation agent) const {
  const std::string file = path_ + "/agent";
  const std::string text = ReadFile(file);
  Incarnation before;
  const bool is_sound = text.size() == 33 && absl::SimpleHexAtoi(text.substr(0, 16), &before.hi) &&
                        absl::SimpleHexAtoi(text.substr(16, 16), &before.lo);
  MUSTER_RETURN_IF_ERROR(ReplaceFile(file, absl::StrCat(ToHex(agent), "\n")));
  return is_sound ? before : Incarnation{};
}

absl::StatusOr<KnownTerms> RunFolder::ReadTerms() const {
  const absl::StatusOr<std::string> text = ReadWholeFile(terms());
  if (absl::IsNotFound(text.status())) return KnownTerms();
  MUSTER_RETURN_IF_ERROR(text.status());
  absl::StatusOr<KnownTerms> known = ParseKnownTerms(*text);
  if (!known.ok())
    return absl::DataLossError(absl::StrCat(
        terms(), ": ", known.status().message(),
        "; remove it once no coordinator runs that was replaced by another, and start this again"));
  return known;
}

absl::Status RunFolder::WriteTerms(const KnownTerms& known) const {
  return Replace(terms(), TextOf(known));
}

bool RunFolder::HoldsAnotherJob(const std::string& id, StartNumber first_start) const {
  int64_t held = 0;
  return absl::SimpleAtoi(ReadFile(job(id) + kFirstStart), &held) && held != first_start.value();
}

// The number goes last: where this is cut short, the rest is removed the next time.
absl::Status RunFolder::MakeJob(const std::string& id, StartNumber first_start) const {
  if (HoldsAnotherJob(id, first_start)) {
    MUSTER_RETURN_IF_ERROR(RemoveFolder(job(id) + "/logs"));
    MUSTER_RETURN_IF_ERROR(RemoveFolder(job(id) + "/run"));
    MUSTER_RETURN_IF_ERROR(RemoveFolder(job(id) + "/metrics.jsonl"));
  }
  MUSTER_RETURN_IF_ERROR(MakeFolder(job(id) + "/logs"));
  MUSTER_RETURN_IF_ERROR(MakeFolder(job(id) + "/run"));
  const std::string number = absl::StrCat(first_start.value(), "\n");
  if (ReadFile(job(id) + kFirstStart) == number) return absl::OkStatus();
  return Replace(job(id) + kFirstStart, number);
}

bool RunFolder::IsTaken(const std::string& address) {
  return absl::IsAlreadyExists(FreeAddress(address).status());
}

bool RunFolder::Reserve(const std::string& address) {
  const int port = PortOf(address);
  if (port == 0 || !FreeAddress(address).ok()) return false;
  if (ports_.contains(port)) return true;
  absl::StatusOr<Descriptor> reserved = ReservePort(port);
  if (!reserved.ok()) return false;
  ports_.emplace(port, *std::move(reserved));
  return true;
}

absl::StatusOr<std::string> RunFolder::TakeAny(const std::string& address, int other) {
  for (int i = 0; i < kTriesForAPort; ++i) {
    MUSTER_ASSIGN_OR_RETURN(std::string free, FreeAddress(address));
    const int port = PortOf(free);
    if (port != other && !ports_.contains(port) && Reserve(free)) return free;
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      "address ", address, ": others took each port that was free; try again in a moment"));
}

absl::StatusOr<std::string> RunFolder::PickJoin(const std::string& wish, const std::string& before,
                                                const ClusterAddresses& others) {
  if (wish.empty()) return "";
  MUSTER_ASSIGN_OR_RETURN(const HostPort wished, ParseHostPort(wish));
  const int grpc = PortOf(others.grpc), http = PortOf(others.http);
  if (wished.port != 0 && (wished.port == grpc || wished.port == http))
    return absl::InvalidArgumentError(absl::StrCat("the port at which hosts join cannot be ",
                                                   wished.port, ", which REST or gRPC has"));
  if (wished.port != 0) return wish;
  const bool stays = IsOnHostOf(before, wish) && PortOf(before) != grpc && PortOf(before) != http &&
                     Reserve(before);
  return stays ? before : TakeAny(wish, http);
}

absl::StatusOr<ClusterAddresses> RunFolder::PickAddresses(const std::string& http,
                                                          const std::string& grpc,
                                                          const std::string& join) {
  const std::string file = path_ + "/cluster.json";
  MUSTER_ASSIGN_OR_RETURN(const ClusterAddresses before, ReadAddresses(file));
  ClusterAddresses now = before;
  const std::string wish = http.empty() ? kAny : http;
  const std::string wish_grpc = grpc.empty() ? kAny : grpc;
  MUSTER_ASSIGN_OR_RETURN(const HostPort wished, ParseHostPort(wish));
  MUSTER_ASSIGN_OR_RETURN(const HostPort wished_grpc, ParseHostPort(wish_grpc));
  if (wished.port != 0 && wished.port == wished_grpc.port)
    return absl::InvalidArgumentError(
        absl::StrCat("REST and the coordinator's gRPC cannot both have port ", wished.port,
                     ": give one of them another"));
  // A person may name the port that gRPC had, and the file may name one for both.
  if (wished_grpc.port != 0) {
    now.grpc = wish_grpc;
  } else if (!IsOnHostOf(now.grpc, wish_grpc) || PortOf(now.grpc) == wished.port ||
             !Reserve(now.grpc)) {
    MUSTER_ASSIGN_OR_RETURN(now.grpc, TakeAny(wish_grpc, wished.port));
  }
  const int taken = PortOf(now.grpc);
  const bool stays = IsOnHostOf(now.http, wish) && PortOf(now.http) != taken && wished.port == 0 &&
                     Reserve(now.http);
  if (wished.port != 0) {
    now.http = wish;
  } else if (!stays) {
    MUSTER_ASSIGN_OR_RETURN(now.http, TakeAny(wish, taken));
  }
  MUSTER_ASSIGN_OR_RETURN(now.join, PickJoin(join, before.join, now));
  if (now == before) return now;
  nlohmann::ordered_json object = {{"grpc", now.grpc}, {"http", now.http}};
  if (!now.join.empty()) object["join"] = now.join;
  MUSTER_RETURN_IF_ERROR(Replace(file, object.dump(2) + "\n"));
  return now;
}

absl::Status RunFolder::WriteTargets(const std::map<ProcessKey, std::string>& addresses) const {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const auto& [key, address] : addresses) {
    nlohmann::ordered_json labels = {{"role", key.name.substr(0, key.name.find('-'))},
                                     {"member", key.name}};
    if (!key.job.empty()) labels["job"] = key.job;
    list.push_back({{"targets", {address}}, {"labels", labels}});
  }
  return Replace(targets(), list.dump(2) + "\n");
}

}  // namespace muster::agent
