// What members and host agents say to the coordinator, a sequence of frames, to the end of what it
// decides about them: Join above all, but whoever has joined may say everything else. What the
// coordinator tells others and writes down because of it must be readable, whatever was said.
//
// Input: a byte for how far the job has come; then for each frame a byte (time that passes, who
// speaks), two for its length, and the header.
#include <chrono>
#include <set>
#include <utility>
#include <variant>

#include "coordinator/runtime/journal_entry.h"
#include "coordinator/state/coordinator.h"
#include "lib/base/frame_limits.h"
#include "lib/base/printable.h"
#include "lib/domain/samples.h"
#include "lib/wire/journal_codec.h"
#include "lib/wire/message_codec.h"
#include "muster/v1/membership.pb.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/proto_mutator.h"
#include "tests/lib/wire/random_message.h"

namespace muster::coordinator {
namespace {

using fuzz::Below;
using fuzz::Check;
using fuzz::Random;

// A job may have kMostChunks chunks, and what is known of each stands in some lists.
constexpr size_t kMostHeld = size_t{768} << 20;
constexpr size_t kFrameHead = 3;
constexpr size_t kMostFrames = 24;

JobSpec Spec(bool servers) {
  JobSpec spec;
  spec.training.task = "counting";
  spec.training.lanes = 4;
  spec.training.batch = 4;
  spec.training.steps = 6;
  spec.training.chunk_bytes = 64;
  spec.runtime.workers_min = 1;
  spec.runtime.workers_max = 2;
  if (servers) spec.training.sync = Sync::kServer;
  if (servers) spec.runtime.servers = 1;
  if (servers) spec.runtime.devices = 1;
  return spec;
}

NumericEnvironment Environment() {
  NumericEnvironment environment;
  environment.samples = 100;
  environment.data_hash = "d1";
  environment.tensors = {{"weight", {32}, TensorKind::kParameter}};
  environment.numeric = {{"isa", "avx2"}};
  return environment;
}

MemberId Id(size_t number) { return {absl::StrCat("worker-", number), {1, number}}; }

// The coordinator with one job, and all that it wants done is done.
class World {
 public:
  explicit World(bool servers) {
    Give(AgentUp{{{"host", {1, 1}}, {}, "host", 16, {{"0"}, {"1"}, {"2"}}}});
    Give(Submit{"job", Spec(servers)});
  }

  void Give(const Input& input) {
    std::vector<Input> next = {input};
    for (size_t at = 0; at < next.size() && at < 64; ++at) {
      const Input now = next[at];
      for (const Action& action : coordinator_.Handle(now, now_))
        std::visit([&](const auto& a) { Look(a, next); }, action);
    }
  }
  void Wait(int64_t milliseconds) { now_ += std::chrono::milliseconds(milliseconds); }
  StartNumber Start() const { return coordinator_.jobs().Find("job")->start; }
  PlacementNumber PlacementOf(const std::string& name) const {
    const Placement* placement = coordinator::PlacementOf(*coordinator_.jobs().Find("job"), name);
    return placement == nullptr ? PlacementNumber() : placement->number;
  }
  ViewNumber View() const { return coordinator_.jobs().Find("job")->number; }

  Join SoundJoin(size_t number) const {
    Join join;
    join.job = "job";
    join.start = Start();
    join.placement = PlacementOf(absl::StrCat("worker-", number));
    join.id = Id(number);
    join.node = "host";
    join.address = "host:1";
    join.environment = Environment();
    return join;
  }

 private:
  void Readable(const FromCoordinator& message) {
    const std::string header = Encode(message);
    Check(header.size() <= kMaxHeaderBytes, "what is told fits into a frame");
    const auto read = DecodeFromCoordinator(header);
    Check(read.ok(), read.status().ToString());
    fuzz::Reach("told", std::to_string(message.index()));
  }
  static void Safe(const std::string& text) {
    Check(text.size() <= kMostLinesBytes, "what people are told is short");
    Check(PrintableLines(text) == text, "what people are told cannot steer a terminal");
  }

  void Look(const PersistJob& a, std::vector<Input>&) {
    const std::string entry = EncodeJob({a.job, {1, 2, 3}, {}});
    const auto read = DecodeJob(entry);
    Check(read.ok(), read.status().ToString());
    fuzz::Reach("phase", PhaseName(a.job.phase));
  }
  void Look(const PersistRecords& a, std::vector<Input>&) {
    for (const StepRecord& record : a.records)
      Check(DecodeStepRecord(EncodeStepRecord(record)).ok(), "a record is readable");
  }
  void Look(const PersistFingerprint&, std::vector<Input>&) {}
  void Look(const PersistMeasure&, std::vector<Input>&) {}
  void Look(const PersistDrained&, std::vector<Input>&) {}
  void Look(const PersistLeftOut& a, std::vector<Input>&) {
    for (const auto& [host, why] : a.hosts) Safe(why);
  }
  void Look(const PersistQuotas&, std::vector<Input>&) {}
  void Look(const PersistTokens&, std::vector<Input>&) {}
  void Look(const PersistHost&, std::vector<Input>&) {}
  void Look(const ToMember& a, std::vector<Input>&) { Readable(a.message); }
  void Look(const ToMembers& a, std::vector<Input>&) { Readable(a.message); }
  void Look(const EndSession& a, std::vector<Input>& next) {
    Safe(a.why);
    next.emplace_back(MemberDown{a.member});
  }
  void Look(const EndAgentSession& a, std::vector<Input>& next) {
    Safe(a.why);
    next.emplace_back(AgentDown{a.agent});
  }
  void Look(const ToHost& a, std::vector<Input>&) {
    Check(DecodeToAgent(Encode(ToAgent(a.wanted))).ok(), "what agents are told is readable");
  }
  void Look(const Sign& a, std::vector<Input>&) {
    const JobJournal& job = *coordinator_.jobs().Find(a.ask.process.job);
    Check(job.signatures.contains(a.ask.process.incarnation), "what is signed is journalled");
    fuzz::Reach("sign", "signed");
  }
  void Look(const RefuseToSign& a, std::vector<Input>&) {
    Safe(a.refused.why);
    Check(DecodeToAgent(Encode(ToAgent(a.refused))).ok(), "what agents are told is readable");
    fuzz::Reach("sign", "refused");
  }
  void Look(const CommitManifest& a, std::vector<Input>& next) {
    const auto layout = LayoutOf(a.manifest);
    const absl::Status complete =
        layout.ok() ? CheckComplete(a.manifest, *layout, a.manifest.slots) : layout.status();
    if (complete.ok())
      next.emplace_back(ManifestCommitted{a.manifest});
    else
      next.emplace_back(ManifestFailed{a.manifest.job, a.manifest.lineage, a.manifest.step,
                                       std::string(complete.message())});
    fuzz::Reach("commit", complete.ok() ? "complete" : "not complete");
  }
  void Look(const PruneManifests&, std::vector<Input>&) {}
  void Look(const ComputeDigest& a, std::vector<Input>& next) {
    next.emplace_back(DigestDone{a.job, a.start, "00ff", ""});
  }
  void Look(const DeleteJob& a, std::vector<Input>& next) {
    next.emplace_back(JobDeleted{a.id, ""});
  }
  void Look(const Announce& a, std::vector<Input>&) {
    Safe(a.text);
    for (const auto& [name, value] : a.fields) Safe(value);
    fuzz::ReachError(a.text);
  }

  Time now_ = Time(std::chrono::seconds(1000));
  Coordinator coordinator_{"cluster", TermNumber(1), Settings(), {}, now_};
};

// 0: nobody has joined; 1: two have; 2: they are active; 3: they are, and there is a server.
void Begin(World& world, size_t stage) {
  if (stage == 0) return;
  std::vector<MemberId> members;
  for (size_t number = 0; number < (stage == 3 ? 3 : 2); ++number) {
    Join join = world.SoundJoin(number);
    if (number == 2) join.id.name = "server-0";
    join.placement = world.PlacementOf(join.id.name);
    if (number == 2) join.role = Role::kServer;
    members.push_back(join.id);
    world.Give(MemberSays{join.id, join});
  }
  if (stage == 1) return;
  for (const MemberId& id : members) world.Give(MemberSays{id, Sealed{world.View(), {}}});
  for (const MemberId& id : members) world.Give(MemberSays{id, HoldsBase{world.View(), 0}});
}

// One that a sound member could say about now.
ToCoordinator AnySound(Random& random, const World& world) {
  const Step step(static_cast<int64_t>(Below(random, 6)));
  switch (Below(random, 6)) {
    case 0: return world.SoundJoin(Below(random, 4));
    case 1: return Sealed{world.View(), {}};
    case 2: return HoldsBase{world.View(), 0};
    case 3: {
      StepRecord record;
      record.lineage = LineageNumber(1);
      record.step = step;
      record.view = world.View();
      record.samples = StepSamples(Spec(false).training, 100, step);
      record.weight = 4;
      return Records{{record}};
    }
    case 4: {
      SegmentWritten written;
      written.id = 1;
      written.lineage = LineageNumber(1);
      written.step = step;
      written.segment = {
          "a.segment", 192, 7, {{0, ChunkId(0), 64, 64, 1}, {0, ChunkId(1), 128, 64, 1}}};
      return written;
    }
    default: return Alive{step, "lane 1 of 2", {}};
  }
}

std::string FrameOf(const std::string& header, Random& random) {
  const std::string head = {static_cast<char>(random()), static_cast<char>(header.size() & 0xff),
                            static_cast<char>(header.size() >> 8)};
  return head + header;
}

std::string AnyFrame(Random& random) {
  static const World& world = *[] {
    auto* made = new World(false);
    Begin(*made, 2);
    return made;
  }();
  RandomMessage any(random(), /*printable=*/false);
  switch (Below(random, 4)) {
    case 0: {
      auto join = world.SoundJoin(Below(random, 4));
      any.Fill(join.node);
      if (Below(random, 2) == 0) any.Fill(join.environment);
      if (Below(random, 4) == 0) any.Fill(join.active);
      if (Below(random, 4) == 0) any.Fill(join.term);
      return FrameOf(Encode(ToCoordinator(join)), random);
    }
    case 1: return FrameOf(Encode(any.Make<ToCoordinator>()), random);
    case 2: {
      auto said = any.Make<FromAgent>();
      if (auto* exited = std::get_if<ProcessExited>(&said); exited && Below(random, 4) > 0) {
        const MemberId id = Id(Below(random, 2));
        exited->job = "job";
        exited->start = world.Start();
        exited->placement = world.PlacementOf(id.name);
        exited->name = id.name;
        exited->lanes.incarnation = id.incarnation;
        exited->exit_code = std::vector{0, 1, 64, 65, 72, 78}[Below(random, 6)];
      }
      if (auto* ask = std::get_if<SignMember>(&said); ask && Below(random, 4) > 0) {
        const MemberId id = Id(Below(random, 2));
        ask->process = {"job", id.name, world.PlacementOf(id.name), id.incarnation};
      }
      return FrameOf(Encode(said), random);
    }
    default: return FrameOf(Encode(AnySound(random, world)), random);
  }
}

std::string Make(Random& random) {
  std::string input(1, static_cast<char>(random()));
  for (size_t frames = 1 + Below(random, 8); frames > 0; --frames) input += AnyFrame(random);
  return input;
}

// Where its frames begin.
std::vector<size_t> Frames(std::string_view input) {
  std::vector<size_t> starts;
  for (size_t at = 1; at + kFrameHead <= input.size() && starts.size() < kMostFrames;) {
    const size_t length =
        static_cast<uint8_t>(input[at + 1]) + size_t{static_cast<uint8_t>(input[at + 2])} * 256;
    if (length > input.size() - at - kFrameHead) break;
    starts.push_back(at);
    at += kFrameHead + length;
  }
  return starts;
}

size_t EndOf(std::string_view input, size_t frame) {
  return frame + kFrameHead + static_cast<uint8_t>(input[frame + 1]) +
         size_t{static_cast<uint8_t>(input[frame + 2])} * 256;
}

std::string Change(const std::string& input, Random& random) {
  const std::vector<size_t> frames = Frames(input);
  if (frames.empty()) return "";
  const size_t at = frames[Below(random, frames.size())], end = EndOf(input, at);
  const std::string before = input.substr(0, at), after = input.substr(end);
  switch (Below(random, 8)) {
    case 0: return before + after;
    case 1: return before + AnyFrame(random) + input.substr(at);
    case 2: return before + input.substr(at, end - at) + input.substr(at);
    default: {
      const std::string header = fuzz::ChangedMessage<v1::CoordinatorFrame>(
          input.substr(at + kFrameHead, end - at - kFrameHead), random);
      if (header.size() > 65535) return "";
      std::string frame = FrameOf(header, random);
      frame[0] = input[at];
      return before + frame + after;
    }
  }
}

const fuzz::Form kForm = {Make, Change};

void ExpectAll() {
  const auto& frame = *v1::CoordinatorFrame::descriptor();
  for (int i = 0; i < frame.field_count(); ++i)
    fuzz::Expect("said", {frame.field(i)->message_type()->name()});
  fuzz::Expect("phase", {"queued", "checking", "starting", "running", "recovering", "failed"});
  fuzz::Expect("field", fuzz::FieldsOfType(*v1::Join::descriptor()));
  fuzz::Expect("sign", {"signed", "refused"});
  fuzz::ExpectAtLeast("told", 5);
  fuzz::ExpectAtLeast("error", 40);  // what the coordinator announces
}

// What the driver does with a frame.
void Say(World& world, MemberId& speaker, const std::variant<ToCoordinator, FromAgent>& message) {
  if (const auto* agent = std::get_if<FromAgent>(&message)) {
    if (const auto* hello = std::get_if<AgentHello>(agent)) return world.Give(AgentUp{*hello});
    if (const auto* exited = std::get_if<ProcessExited>(agent)) world.Give(AgentSays{*exited});
    if (const auto* held = std::get_if<DevicesHeld>(agent))
      world.Give(DevicesTold{{"host", {1, 1}}, held->devices});
    if (const auto* ask = std::get_if<SignMember>(agent))
      world.Give(SignatureAsked{{"host", {1, 1}}, *ask, ask->public_key});
    return;  // lines of logs are no input
  }
  const auto& words = std::get<ToCoordinator>(message);
  if (std::holds_alternative<AskJob>(words)) return;
  if (const auto* join = std::get_if<Join>(&words)) speaker = join->id;
  world.Give(MemberSays{speaker, words});
}

void ReachSaid(std::string_view header) {
  v1::CoordinatorFrame frame;
  if (!frame.ParseFromArray(header.data(), static_cast<int>(header.size()))) return;
  const auto& type = *v1::CoordinatorFrame::descriptor();
  const auto* kind =
      v1::CoordinatorFrame::GetReflection()->GetOneofFieldDescriptor(frame, type.oneof_decl(0));
  if (kind == nullptr) return;
  fuzz::Reach("said", kind->message_type()->name());
  if (frame.has_join()) fuzz::ReachFields(frame.join());
}

void Run(std::string_view input) {
  if (input.empty()) return;
  const fuzz::MemoryLimit limit(kMostHeld);
  const size_t stage = static_cast<uint8_t>(input[0]) % 4;
  World world(stage == 3);
  Begin(world, stage);
  MemberId speaker = Id(0);
  for (const size_t at : Frames(input)) {
    const std::string_view header =
        input.substr(at + kFrameHead, EndOf(input, at) - at - kFrameHead);
    const auto how = static_cast<uint8_t>(input[at]);
    world.Wait(50 * (how % 16));
    if (how & 16) world.Give(Tick{});
    if (how & 32) speaker = Id(how >> 6);
    const auto message = DecodeAtCoordinator(header);
    if (!message.ok()) continue;
    ReachSaid(header);
    Say(world, speaker, *message);
  }
  world.Wait(5000);
  world.Give(Tick{});
}

}  // namespace
}  // namespace muster::coordinator

MUSTER_FUZZ_TARGET(muster::coordinator::kForm, muster::coordinator::ExpectAll,
                   muster::coordinator::Run);
