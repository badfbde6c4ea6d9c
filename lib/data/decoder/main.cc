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
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "lib/base/exit_codes.h"
#include "lib/base/kept_memory.h"
#include "lib/base/socket_bytes.h"
#include "lib/base/status.h"
#include "lib/base/version.h"
#include "lib/data/decoder/hdf5_reader.h"
#include "lib/data/decoder/image.h"
#include "lib/data/decoder_wire.h"
#include "lib/data/image_form.h"
#include "lib/data/received_bytes.h"

namespace muster {
namespace {

constexpr uint64_t kMostKeys = 10'000;
constexpr unsigned kLongerThanTheWorkerWaits = 5;  // seconds
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
    answer.Number(dataset.offset.has_value() ? 1 : 0).Number(dataset.offset.value_or(0));
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

absl::StatusOr<std::string> Answer(Hdf5Reader& hdf5, DecoderRequest what, WireReader& request) {
  switch (what) {
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
    case DecoderRequest::kImage: break;  // AnswerImage
  }
  return absl::UnavailableError("the request is broken");
}

// Answers as the worker gets them. They are sent together while they are small, as each one that is
// sent costs two processes their turn.
class Answers {
 public:
  explicit Answers(uint64_t memory) : memory_(memory) {}

  // `text` gives what was asked for, or its error.
  template <typename Text>
  void Add(const Text& text) {
    try {
      const absl::StatusOr<std::string> told = text();
      if (absl::IsResourceExhausted(told.status())) return AddOutOfMemory();
      AddOne(CodeOf(told.status()), told.ok() ? *told : told.status().message());
    } catch (const std::bad_alloc&) {
      AddOutOfMemory();
    }
  }

  // Likewise, of one whose bytes are known to be so many, which `fill` writes.
  template <typename Fill>
  void AddFilled(size_t bytes, const Fill& fill) {
    const size_t begin = filled_;
    try {
      AddHead(DecoderAnswer::kRead, bytes);
      const absl::Span<char> to = Room(bytes);
      const absl::Status filled =
          fill(absl::MakeSpan(reinterpret_cast<uint8_t*>(to.data()), to.size()));
      if (filled.ok()) return;
      filled_ = begin;
      if (absl::IsResourceExhausted(filled)) return AddOutOfMemory();
      AddOne(CodeOf(filled), filled.message());
    } catch (const std::bad_alloc&) {
      filled_ = begin;
      AddOutOfMemory();
    }
  }

  // False: the worker is gone.
  bool SendIfLarge() { return filled_ < kSentTogether || Send(); }
  bool Send() {
    const bool sent = SendAll(STDIN_FILENO, {bytes_.data(), filled_});
    filled_ = 0;
    if (bytes_.size() > kMostKept) bytes_ = std::string();
    return sent;
  }

 private:
  static constexpr size_t kSentTogether = size_t{64} << 10;
  static constexpr size_t kMostKept = size_t{8} << 20;

  // So many bytes behind those that are there.
  absl::Span<char> Room(size_t bytes) {
    if (bytes_.size() - filled_ < bytes) bytes_.resize(filled_ + bytes);
    const absl::Span<char> room(bytes_.data() + filled_, bytes);
    filled_ += bytes;
    return room;
  }
  void AddBytes(absl::string_view bytes) {
    std::copy(bytes.begin(), bytes.end(), Room(bytes.size()).begin());
  }
  void AddHead(DecoderAnswer code, size_t bytes) {
    const WireWriter head = WireWriter().Number(static_cast<uint64_t>(code)).Number(bytes);
    AddBytes(WireWriter().Number(head.bytes().size() + bytes).bytes());
    AddBytes(head.bytes());
  }
  void AddOne(DecoderAnswer code, absl::string_view text) {
    AddHead(code, text.size());
    AddBytes(text);
  }
  void AddOutOfMemory() {
    AddOne(DecoderAnswer::kOutOfMemory,
           absl::StrCat("it needs more than the ", memory_,
                        " bytes of memory that reading it may take, or this machine has less"));
  }

  const uint64_t memory_;
  std::string bytes_;  // of which filled_ are to be sent
  size_t filled_ = 0;
};

// The worker may send the next one before it has an answer to the first.
class Requests {
 public:
  // Until the next call. nullopt: the worker is gone, or talks nonsense. `answers` are sent before
  // it waits, as the worker may wait for them.
  std::optional<absl::string_view> Next(Answers& answers) {
    const std::optional<absl::string_view> length = Receive(kLengthBytes, answers);
    if (!length) return std::nullopt;
    const uint64_t bytes = WireReader(*length).Number();
    if (bytes > kMostRequestBytes) return std::nullopt;
    return Receive(static_cast<size_t>(bytes), answers);
  }

 private:
  std::optional<absl::string_view> Receive(size_t bytes, Answers& answers) {
    int flags = MSG_DONTWAIT;
    while (!received_.Has(bytes)) {
      const absl::Span<char> room = received_.Room(bytes);
      const ssize_t got = recv(STDIN_FILENO, room.data(), room.size(), flags);
      if (got > 0) {
        received_.Wrote(static_cast<size_t>(got));
      } else if (got < 0 && errno == EAGAIN) {
        if (!answers.Send()) return std::nullopt;
        flags = 0;
      } else if (got == 0 || errno != EINTR) {
        return std::nullopt;
      }
    }
    return received_.Take(bytes);
  }

  ReceivedBytes received_;
};

// Where the worker was killed nobody else ends what takes for ever.
class TimeForOne {
 public:
  explicit TimeForOne(unsigned seconds) { alarm(seconds + kLongerThanTheWorkerWaits); }
  ~TimeForOne() { alarm(0); }
  TimeForOne(const TimeForOne&) = delete;
  TimeForOne& operator=(const TimeForOne&) = delete;
};

void AnswerImage(WireReader& request, Answers& answers) {
  const std::optional<ImageForm> form = FormIn(request);
  const absl::string_view image = request.Text();
  if (!form || !request.AtEnd())
    answers.Add([] { return absl::UnavailableError("the request is broken"); });
  else
    answers.AddFilled(static_cast<size_t>(form->Bytes()),
                      [&](absl::Span<uint8_t> planes) { return FormImage(image, *form, planes); });
}

void Serve(uint64_t memory, unsigned seconds) {
  Hdf5Reader hdf5;
  Answers answers(memory);
  Requests requests;
  while (const std::optional<absl::string_view> bytes = requests.Next(answers)) {
    const TimeForOne time(seconds);
    WireReader request(*bytes);
    const auto what = static_cast<DecoderRequest>(request.Number());
    if (what == DecoderRequest::kImage)
      AnswerImage(request, answers);
    else
      answers.Add([&] { return Answer(hdf5, what, request); });
    if (!answers.SendIfLarge()) return;
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
  muster::KeepFreedMemory(size_t{64} << 20);
  setenv("HDF5_USE_FILE_LOCKING", "FALSE", 1);  // some file systems of networks have no locks
  if (!muster::Confine(memory)) {
    std::cerr << "muster-decoder: it cannot have " << memory
              << " bytes of memory and 8 MiB of stack; raise what `ulimit -Hv` and -Hs tell\n";
    return muster::kExitFailed;
  }
  try {
    muster::Serve(memory, seconds);
    return muster::kExitDone;
  } catch (const std::bad_alloc&) {
    return muster::kExitFailed;  // no abort, which would be a fault of what is asked for
  }
}
