#include "lib/member/runtime/reader_exchange.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/exit_codes.h"
#include "lib/base/status.h"
#include "lib/log/log.h"
#include "lib/spool/runtime/folder_source.h"
#include "lib/spool/runtime/socket_source.h"

namespace muster {
namespace {

constexpr Duration kBetweenReports = std::chrono::seconds(1);

std::unique_ptr<StreamSource> MakeSource(const JobSpec& spec, uint64_t sample_bytes,
                                         const Clock& clock) {
  const std::string& path = spec.runtime.stream.path;
  if (*spec.training.stream == StreamFrom::kFolder) return MakeFolderSource(path, sample_bytes);
  SocketSourceOptions options;
  options.clock = &clock;
  options.told = [](const std::string& why) { LogInfo("%s", why); };
  return MakeSocketSource(path, sample_bytes, std::move(options));
}

// What a reader knows of itself: it computes nothing, and so has no numeric environment.
MemberConfig ReaderConfig(const JobIs& job, const MemberPlace& place) {
  MemberConfig config;
  config.job = job.job;
  config.start = job.start;
  config.id = place.id;
  config.placement = place.placement;
  config.role = place.role;
  config.node = place.node;
  config.address = place.address;
  config.training = job.spec.training;
  return config;
}

// Why the job can have no reader.
absl::StatusOr<uint64_t> SampleBytesOf(const JobIs& job) {
  const JobSpec& spec = job.spec;
  if (!IsStreamed(spec.training))
    return absl::FailedPreconditionError(
        absl::StrCat("job ", job.job, ": data.format: it is no stream; it needs no reader"));
  absl::StatusOr<uint64_t> bytes = StreamSampleBytes(spec.training.data);
  MUSTER_RETURN_IF_ERROR(Prefix(absl::StrCat("job ", job.job), bytes.status()));
  if (spec.runtime.stream.path.empty())
    return absl::FailedPreconditionError(
        absl::StrCat("job ", job.job, ": data.stream.path: say where the stream comes from"));
  return bytes;
}

}  // namespace

class ReaderExchange::Reading {
 public:
  Reading(const JobIs& job, uint64_t sample_bytes, Incarnation writer,
          std::shared_ptr<EventBox> events, ThreadProgress& progress, Counter& retries)
      : source_(MakeSource(job.spec, sample_bytes, clock_)),
        loop_({.folder = SpoolFolder(job.checkpoint_dir),
               .sample_bytes = sample_bytes,
               .writer = writer,
               .options = {.segment_samples =
                               SamplesOfSegment(job.spec.runtime.stream.max_bytes, sample_bytes)},
               .source = source_.get(),
               .clock = &clock_,
               .tell = [events](const Spooled& spooled) { events->Post(StreamSpooled{spooled}); },
               .told =
                   [&retries](const std::string& why) {
                     retries.Add();
                     LogWarning("%s", why);
                   },
               .lacks = [events](const std::string& why) { events->Post(ReadingLacks{why}); },
               .goes_on = [this, &progress] { progress.GoesOn(clock_.Now()); }}),
        thread_([this, events, &progress] {
          const absl::Status why = loop_.Run();
          progress.Rests();
          events->Post(ReadingEnded{why});
        }) {}
  ~Reading() { End(/*is_done=*/false); }
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;

  // `is_done`: as of a StreamReaderLoop.
  void End(bool is_done) {
    if (!thread_.joinable()) return;
    loop_.Stop(is_done);
    thread_.join();
  }
  void Post(ToStreamReader message) { loop_.Post(std::move(message)); }

 private:
  const RealClock clock_;
  const std::unique_ptr<StreamSource> source_;
  StreamReaderLoop loop_;
  std::thread thread_;
};

ReaderExchange::ReaderExchange(ExchangeOptions options, const ExchangeParts& parts,
                               ThreadProgress& reads)
    : LoneExchange(std::move(options), parts, reads), reads_(reads), metrics_(*parts.metrics) {}

ReaderExchange::~ReaderExchange() = default;

// Nobody reads after the process has said that it leaves.
void ReaderExchange::End(const Quit& quit) {
  if (reading_ != nullptr) reading_->End(quit.exit_code == kExitDone);
  reading_.reset();
}

void ReaderExchange::Learn(const JobIs& job) {
  const absl::StatusOr<uint64_t> bytes = SampleBytesOf(job);
  if (!bytes.ok()) {
    LogError("%s", bytes.status().message());
    return EndWith({ExitCodeOf(bytes.status()), std::string(bytes.status().message())});
  }
  sample_bytes_ = *bytes;
  LogInfo("reads the stream from %s", job.spec.runtime.stream.path);
  session_.emplace(ReaderConfig(job, options().place));
  reading_ = std::make_unique<Reading>(job, sample_bytes_, options().place.id.incarnation,
                                       parts().events, reads_, metrics_.retries);
  BecomeMember();
}

void ReaderExchange::NoteWhatWeDo() {
  Note(Step(0), session_->Phase());
  ShowPositions();
}

// ---- events

void ReaderExchange::HandleOwn(Event event) {
  std::visit([this](const auto& e) { Handle(e); }, event);
}

void ReaderExchange::Handle(const StreamSpooled& event) {
  parts().failpoints->Pass("spooled_untold");
  Carry(event.spooled);
}

void ReaderExchange::Handle(const ReadingEnded& event) {
  LogError("%s", event.why.message());
  EndWith({ExitCodeOf(event.why), std::string(event.why.message())});
}

// ---- the state machine

void ReaderExchange::Carry(const StreamSessionInput& input) {
  for (const StreamSessionAction& action : session_->Handle(input))
    std::visit([this](const auto& a) { Do(a); }, action);
  NoteWhatWeDo();
}

void ReaderExchange::Do(const TellCoordinator& action) {
  Tell(action.message);
  if (std::holds_alternative<Spooled>(action.message)) parts().failpoints->Pass("spooled_told");
}

void ReaderExchange::Do(const GiveReader& action) { reading_->Post(action.message); }

void ReaderExchange::Do(const Quit& action) { EndWith(action); }

void ReaderExchange::ShowPositions() {
  if (!session_->begun()) return;
  const uint64_t positions = session_->positions();
  if (shown_) metrics_.bytes.Add(static_cast<double>((positions - *shown_) * sample_bytes_));
  shown_ = positions;
  metrics_.positions.Set(static_cast<double>(positions));
  const Time now = RealClock().Now();
  if (reported_ == positions || now < report_at_) return;
  reported_ = positions;
  report_at_ = now + kBetweenReports;
  parts().reporter->Spooled(positions);
}

}  // namespace muster
