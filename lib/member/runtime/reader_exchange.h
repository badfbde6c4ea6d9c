// The exchange thread of a reader: takes events from one mailbox, feeds the state machine
// (lib/member/state/stream_session.h) and carries out what it says. Once it knows the job, it
// begins a thread that reads the stream and writes the spool (lib/spool/runtime).
#pragma once

#include <memory>
#include <optional>
#include <thread>

#include "lib/member/runtime/lone_exchange.h"
#include "lib/member/state/stream_session.h"
#include "lib/spool/runtime/stream_reader_loop.h"

namespace muster {

class ReaderExchange final : public LoneExchange {
 public:
  // `reads`: of the thread that reads; outlives this.
  ReaderExchange(ExchangeOptions options, const ExchangeParts& parts, ThreadProgress& reads);
  ~ReaderExchange() override;

 private:
  // Source and spool, and the thread that goes from one to the other. It ends with this.
  class Reading;

  bool is_member() const override { return reading_ != nullptr; }
  void Feed(const CoordinatorUp& up) override { Carry(up); }
  void Feed(const CoordinatorSays& says) override { Carry(says); }
  void Learn(const JobIs& job) override;
  void HandleOwn(Event event) override;
  void NoteWhatWeDo() override;
  void End(const Quit& quit) override;

  void Handle(const StreamSpooled& event);
  void Handle(const ReadingLacks& event) { NoteLack(event.why); }
  void Handle(const ReadingEnded& event);
  // The rest is of other members: nobody posts it here.
  template <class E>
  void Handle(const E&) {}

  void Carry(const StreamSessionInput& input);
  void Do(const TellCoordinator& action);
  void Do(const GiveReader& action);
  void Do(const Quit& action);
  void ShowPositions();

  ThreadProgress& reads_;
  StreamMetrics metrics_;
  uint64_t sample_bytes_ = 0;
  std::optional<StreamSession> session_;
  std::unique_ptr<Reading> reading_;
  std::optional<uint64_t> shown_;  // positions
  Time report_at_{};               // not again before
  std::optional<uint64_t> reported_;
};

}  // namespace muster
