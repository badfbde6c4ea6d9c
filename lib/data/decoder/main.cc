// muster-decoder: what a worker starts, and asks over its standard input, a socket, for what a
// library reads that is not safe with every file (lib/data/decoder_process.h). It ends when the
// worker closes the socket.
//
// usage: muster-decoder BYTES SECONDS    of memory for all, and of time for one answer
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <new>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "lib/base/exit_codes.h"
#include "lib/base/status.h"
#include "lib/base/version.h"
#include "lib/data/decoder/hdf5_reader.h"
#include "lib/data/decoder_wire.h"

namespace muster {
namespace {

constexpr uint64_t kMostKeys = 10'000;
constexpr unsigned kLongerThanTheWorkerWaits = 5;  // seconds

// Whatever a file makes of this process, it gets no more than this of the machine.
bool Confine(uint64_t memory) {
  const auto limit = [](auto what, uint64_t most) {
    rlimit now{};
    if (getrlimit(what, &now) != 0) return false;
    const auto both = std::min<rlim_t>(most, now.rlim_max);  // a lower one cannot be raised
    const rlimit wanted{both, both};
    return setrlimit(what, &wanted) == 0;
  };
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  if (!limit(RLIMIT_AS, memory)) return false;  // their shadow memory is larger than any limit
#endif
  return limit(RLIMIT_CORE, 0) && limit(RLIMIT_FSIZE, 0) && limit(RLIMIT_NPROC, 0) &&
         prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
}

// False: the worker is gone.
bool Receive(char* into, size_t bytes) {
  while (bytes > 0) {
    const ssize_t got = recv(STDIN_FILENO, into, bytes, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    into += got;
    bytes -= static_cast<size_t>(got);
  }
  return true;
}

bool Send(absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(STDIN_FILENO, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

absl::StatusOr<std::string> TellDatasets(Hdf5Reader& hdf5, WireReader& request) {
  const std::string path(request.Text());
  std::vector<std::string> keys;
  for (uint64_t left = request.Number(); request.ok() && left > 0 && keys.size() < kMostKeys;
       --left)
    keys.emplace_back(request.Text());
  if (!request.AtEnd()) return absl::DataLossError("the request is broken");
  MUSTER_ASSIGN_OR_RETURN(const std::vector<Hdf5Dataset> datasets, hdf5.Datasets(path, keys));
  WireWriter answer;
  answer.Number(datasets.size());
  for (const Hdf5Dataset& dataset : datasets) {
    answer.Text(dataset.key).Text(dataset.why_not).Number(static_cast<uint64_t>(dataset.type));
    answer.Number(dataset.rows).Number(dataset.shape.size());
    for (const uint64_t size : dataset.shape) answer.Number(size);
  }
  return answer.bytes();
}

absl::StatusOr<std::string> Answer(Hdf5Reader& hdf5, absl::string_view bytes) {
  WireReader request(bytes);
  switch (static_cast<DecoderRequest>(request.Number())) {
    case DecoderRequest::kHdf5Arrays: return TellDatasets(hdf5, request);
    case DecoderRequest::kHdf5Rows: {
      const std::string path(request.Text()), key(request.Text());
      const uint64_t first = request.Number(), rows = request.Number();
      if (!request.AtEnd()) break;
      return hdf5.Rows(path, key, first, rows);
    }
  }
  return absl::DataLossError("the request is broken");
}

absl::StatusOr<std::string> AnswerInMemory(Hdf5Reader& hdf5, absl::string_view request,
                                           uint64_t memory) {
  try {
    return Answer(hdf5, request);
  } catch (const std::bad_alloc&) {
    return absl::DataLossError(absl::StrCat("it needs more than the ", memory,
                                            " bytes of memory that reading it may take"));
  }
}

int Serve(uint64_t memory, unsigned seconds) {
  Hdf5Reader hdf5;
  for (;;) {
    char length[kLengthBytes] = {};
    if (!Receive(length, sizeof(length))) return kExitDone;
    const uint64_t bytes = WireReader({length, sizeof(length)}).Number();
    if (bytes > kMostRequestBytes) return kExitFailed;
    std::string request(static_cast<size_t>(bytes), '\0');
    if (!Receive(request.data(), request.size())) return kExitDone;
    // Where the worker was killed nobody else ends what takes for ever.
    alarm(seconds + kLongerThanTheWorkerWaits);
    const absl::StatusOr<std::string> answer = AnswerInMemory(hdf5, request, memory);
    WireWriter told;
    told.Number(answer.ok() ? 0 : 1).Text(answer.ok() ? *answer : answer.status().message());
    if (!Send(WireWriter().Number(told.bytes().size()).bytes()) || !Send(told.bytes()))
      return kExitDone;
    alarm(0);
  }
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) {
  const std::string usage =
      "Usage: muster-decoder BYTES SECONDS\n"
      "Workers start it, to read files for them; it has no use for people.\n";
  if (argc == 2 && std::string(argv[1]) == "--help") {
    std::cout << usage;
    return muster::kExitDone;
  }
  if (argc == 2 && std::string(argv[1]) == "--version") {
    std::cout << muster::kVersion << "\n";
    return muster::kExitDone;
  }
  uint64_t memory = 0;
  unsigned seconds = 0;
  int type = 0;
  socklen_t size = sizeof(type);
  if (argc != 3 || !absl::SimpleAtoi(argv[1], &memory) || !absl::SimpleAtoi(argv[2], &seconds) ||
      getsockopt(STDIN_FILENO, SOL_SOCKET, SO_TYPE, &type, &size) != 0) {
    std::cerr << usage;
    return muster::kExitBadConfiguration;
  }
  // The worker decides when it ends, also where a signal is sent to all of a terminal or a host.
  for (const int sent : {SIGINT, SIGTERM, SIGHUP}) signal(sent, SIG_IGN);
  setenv("HDF5_USE_FILE_LOCKING", "FALSE", 1);  // some file systems of networks have no locks
  if (!muster::Confine(memory)) {
    std::cerr << "muster-decoder: the limit of its memory cannot be set\n";
    return muster::kExitFailed;
  }
  return muster::Serve(memory, seconds);
}
