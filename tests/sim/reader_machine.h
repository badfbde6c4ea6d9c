// The reader of a stream from the inside: the real state machines of its two threads, a source, and
// files of a spool that lose what was not synced when the process dies. Lives as long as the
// process.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "lib/member/state/stream_session.h"
#include "lib/spool/state/stream_reader.h"
#include "tests/sim/coverage.h"
#include "tests/sim/job.h"
#include "tests/sim/schedule.h"

namespace muster::sim {

class ReaderMachine {
 public:
  struct Outside {
    Schedule* schedule;
    Runner* runner;
    Coverage* coverage;
    SimJob* job;
    std::function<void(ToCoordinator)> tell;
    std::function<void(int code, const std::string& reason)> quit;
    std::function<void(const std::string&)> violate;
  };
  ReaderMachine(MemberConfig config, Outside outside);
  ~ReaderMachine();
  ReaderMachine(const ReaderMachine&) = delete;
  ReaderMachine& operator=(const ReaderMachine&) = delete;

  // What the thread of the session hears.
  void Feed(const StreamSessionInput& input);
  const StreamSession& session() const { return session_; }

 private:
  void Do(const TellCoordinator& a) { outside_.tell(a.message); }
  void Do(const GiveReader& a);
  void Do(const muster::Quit& a) { End(a.exit_code, a.reason); }

  void FeedReader(StreamReaderInput input);
  void WakeLater();
  void Poll(int64_t ask);
  // Whether the actions behind it are to be done.
  bool Do(const StartSource& a);
  bool Do(const TakeSamples& a);
  bool Do(const OpenSegment& a);
  bool Do(const AppendSamples& a);
  bool Do(const SyncSegment& a);
  bool Do(const TellSpooled& a);
  bool Do(const AnswerSender& a);
  bool Do(const EndReader& a);
  bool Fails(const std::string& what);
  void LoseUnsynced();
  void End(int code, const std::string& reason);

  const Incarnation writer_;
  const Outside outside_;
  StreamSession session_;
  StreamReader reader_;
  OrderedQueue to_reader_, to_session_;
  std::deque<StreamReaderInput> inputs_;
  bool feeds_ = false;
  bool left_ = false;
  int64_t timer_ = 0;  // the newest; older ones are void

  uint64_t at_ = 0;                // of the source, the next position
  int64_t ask_ = 0;                // likewise as for timers
  uint64_t wanted_ = 0;            // samples
  std::vector<uint64_t> samples_;  // that came last

  int64_t sync_ = 0;  // likewise
  int64_t number_ = 0;
  std::shared_ptr<SpoolFile> file_;  // null: none was opened
};

}  // namespace muster::sim
