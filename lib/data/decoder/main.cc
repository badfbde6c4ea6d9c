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
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "lib/base/exit_codes.h"
#include "lib/base/socket_bytes.h"
#include "lib/base/status.h"
#include "lib/base/version.h"
#include "lib/data/decoder/hdf5_reader.h"
#include "lib/data/decoder/image.h"
#include "lib/data/decoder_wire.h"
#include "lib/data/image_form.h"

namespace muster {
namespace {

constexpr uint64_t kMostKeys = 10'000;
constexpr unsigned kLongerThanTheWorkerWaits = 5;  // seconds
// Of images together: then those that are left are no part of the answer. The worker waits for
// longer, also for one that takes long itself.
constexpr auto kLongEnough = std::chrono::seconds(5);
constexpr uint64_t kStackBytes = uint64_t{8} << 20;

// Whatever a file makes of this process, it gets no more than this of the machine, and no less:
// where these limits end it, they do so everywhere. A lower one cannot be raised.
bool Confine([[maybe_unused]] uint64_t memory) {
  const auto limit = [](auto what, uint64_t most) {
    const rlimit wanted{most, most};
    return setrlimit(what, &wanted) == 0;
  };
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  if (!limit(RLIMIT_AS, memory)) return false;  // their shadow memory is larger than any limit
#endif
  return limit(RLIMIT_STACK, kStackBytes) && limit(RLIMIT_CORE, 0) && limit(RLIMIT_FSIZE, 0) &&
         limit(RLIMIT_NPROC, 0) && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
}

absl::StatusOr<std::string> TellDatasets(Hdf5Reader& hdf5, WireReader& request) {
  const std::string path(request.Text());
  std::vector<std::string> keys;
  for (uint64_t left = request.Number(); request.ok() && left > 0 && keys.size() < kMostKeys;
       --left)
    keys.emplace_back(request.Text());
  if (!request.AtEnd()) return absl::UnavailableError("the request is broken");
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

absl::StatusOr<std::string> Gather(Hdf5Reader& hdf5, WireReader& request) {
  const std::string path(request.Text()), key(request.Text());
  std::string gathered;
  for (uint64_t left = request.Number(); request.ok() && left > 0; --left) {
    const uint64_t first = request.Number(), rows = request.Number();
    if (!request.ok()) break;
    MUSTER_ASSIGN_OR_RETURN(const std::string read, hdf5.Rows(path, key, first, rows));
    if (read.size() > kMostAnswerBytes - gathered.size())
      return absl::UnavailableError("it asks for too much at once");
    gathered += read;
  }
  if (!request.AtEnd()) return absl::UnavailableError("the request is broken");
  return gathered;
}

DecoderAnswer CodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk: return DecoderAnswer::kRead;
    case absl::StatusCode::kDataLoss: return DecoderAnswer::kBadBytes;
    case absl::StatusCode::kResourceExhausted: return DecoderAnswer::kOutOfMemory;
    default: return DecoderAnswer::kFault;
  }
}

absl::StatusOr<std::string> TellSize(WireReader& request) {
  const absl::string_view encoded = request.Text();
  if (!request.AtEnd()) return absl::UnavailableError("the request is broken");
  MUSTER_ASSIGN_OR_RETURN(const ImageSize size, SizeOfImage(encoded));
  return WireWriter()
      .Number(static_cast<uint64_t>(size.height))
      .Number(static_cast<uint64_t>(size.width))
      .bytes();
}

std::optional<ImageForm> FormIn(WireReader& request) {
  ImageForm form;
  form.size.height = static_cast<int64_t>(request.Number());
  form.size.width = static_cast<int64_t>(request.Number());
  form.may_resize = request.Number() != 0;
  form.fit = request.Number() == 0 ? ImageFit::kCrop : ImageFit::kStretch;
  const uint64_t channels = request.Number();
  if (!form.size.IsWithin(kMostPixelsMade) || (channels != 1 && channels != 3)) return std::nullopt;
  form.channels = static_cast<int64_t>(channels);
  return form;
}

// One that is bad is told of in its place; where memory is short, nothing is told of any.
absl::StatusOr<std::string> TellImages(WireReader& request) {
  const std::optional<ImageForm> form = FormIn(request);
  const uint64_t count = request.Number();
  WireWriter answer;
  const auto begin = std::chrono::steady_clock::now();
  for (uint64_t left = form ? count : 0; request.ok() && left > 0; --left) {
    const absl::string_view encoded = request.Text();
    if (!request.ok()) break;
    if (left < count && std::chrono::steady_clock::now() - begin > kLongEnough) continue;
    if (form->Bytes() >
        kMostAnswerBytes - std::min<uint64_t>(kMostAnswerBytes, answer.bytes().size()))
      return absl::UnavailableError("it asks for too much at once");
    const absl::StatusOr<std::string> formed = FormedImage(encoded, *form);
    if (absl::IsResourceExhausted(formed.status())) return formed.status();
    answer.Number(static_cast<uint64_t>(CodeOf(formed.status())));
    answer.Text(formed.ok() ? *formed : formed.status().message());
  }
  if (!form || !request.AtEnd()) return absl::UnavailableError("the request is broken");
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
    case DecoderRequest::kHdf5Gather: return Gather(hdf5, request);
    case DecoderRequest::kHdf5Version:
      if (!request.AtEnd()) break;
      return Hdf5Reader::Version();
    case DecoderRequest::kImageVersions:
      if (!request.AtEnd()) break;
      return ImageDecoders();
    case DecoderRequest::kImageSize: return TellSize(request);
    case DecoderRequest::kImages: return TellImages(request);
  }
  return absl::UnavailableError("the request is broken");
}

WireWriter Told(DecoderAnswer code, absl::string_view text) {
  WireWriter told;
  told.Number(static_cast<uint64_t>(code)).Text(text);
  return told;
}

WireWriter AnswerInMemory(Hdf5Reader& hdf5, absl::string_view request, uint64_t memory) {
  const auto out_of_memory = [&] {
    return Told(
        DecoderAnswer::kOutOfMemory,
        absl::StrCat("it needs more than the ", memory,
                     " bytes of memory that reading it may take, or this machine has less"));
  };
  try {
    const absl::StatusOr<std::string> answer = Answer(hdf5, request);
    if (absl::IsResourceExhausted(answer.status())) return out_of_memory();
    return Told(CodeOf(answer.status()), answer.ok() ? *answer : answer.status().message());
  } catch (const std::bad_alloc&) {
    return out_of_memory();
  }
}

int Serve(uint64_t memory, unsigned seconds) {
  Hdf5Reader hdf5;
  for (;;) {
    char length[kLengthBytes] = {};
    if (!ReceiveAll(STDIN_FILENO, length, sizeof(length))) return kExitDone;
    const uint64_t bytes = WireReader({length, sizeof(length)}).Number();
    if (bytes > kMostRequestBytes) return kExitFailed;
    std::string request(static_cast<size_t>(bytes), '\0');
    if (!ReceiveAll(STDIN_FILENO, request.data(), request.size())) return kExitDone;
    // Where the worker was killed nobody else ends what takes for ever.
    alarm(seconds + kLongerThanTheWorkerWaits);
    const WireWriter told = AnswerInMemory(hdf5, request, memory);
    if (!SendAll(STDIN_FILENO, WireWriter().Number(told.bytes().size()).bytes()) ||
        !SendAll(STDIN_FILENO, told.bytes()))
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
    std::cerr << "muster-decoder: it cannot have " << memory
              << " bytes of memory and 8 MiB of stack; raise what `ulimit -Hv` and -Hs tell\n";
    return muster::kExitFailed;
  }
  try {
    return muster::Serve(memory, seconds);
  } catch (const std::bad_alloc&) {
    return muster::kExitFailed;  // no abort, which would be a fault of what is asked for
  }
}
