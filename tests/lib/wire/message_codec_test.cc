#include "lib/wire/message_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/escaping.h"
#include "lib/base/frame_limits.h"
#include "lib/base/printable.h"
#include "lib/domain/member_name.h"
#include "tests/lib/wire/random_message.h"

namespace muster {
namespace {

template <class Message>
absl::StatusOr<Message> Decode(const std::string& header) {
  if constexpr (std::is_same_v<Message, ToCoordinator>) return DecodeToCoordinator(header);
  if constexpr (std::is_same_v<Message, FromCoordinator>) return DecodeFromCoordinator(header);
  if constexpr (std::is_same_v<Message, PeerMessage>) return DecodePeerMessage(header);
  if constexpr (std::is_same_v<Message, FromAgent>) return DecodeFromAgent(header);
  if constexpr (std::is_same_v<Message, ToAgent>) return DecodeToAgent(header);
}

template <class Message>
class EveryMessageTest : public ::testing::Test {};
using Messages = ::testing::Types<ToCoordinator, FromCoordinator, PeerMessage, FromAgent, ToAgent>;
TYPED_TEST_SUITE(EveryMessageTest, Messages);

TYPED_TEST(EveryMessageTest, EveryKindComesBackAsItWas) {
  RandomMessage random(1, /*printable=*/true);
  for (size_t kind = 0; kind < std::variant_size_v<TypeParam>; ++kind) {
    for (int round = 0; round < 40; ++round) {
      const auto message = random.MakeKind<TypeParam>(kind);
      const auto decoded = Decode<TypeParam>(Encode(message));
      ASSERT_TRUE(decoded.ok()) << "kind " << kind << ": " << decoded.status();
      ASSERT_TRUE(Same(*decoded, message)) << "kind " << kind << ", round " << round;
    }
  }
}

// Texts for people are made printable, others are kept byte by byte: what came once comes back.
TYPED_TEST(EveryMessageTest, WhateverBytesTextsHoldTheyComeBackFromTheSecondTimeOn) {
  RandomMessage random(4);
  for (size_t kind = 0; kind < std::variant_size_v<TypeParam>; ++kind) {
    for (int round = 0; round < 40; ++round) {
      const auto first = Decode<TypeParam>(Encode(random.MakeKind<TypeParam>(kind)));
      ASSERT_TRUE(first.ok()) << "kind " << kind << ": " << first.status();
      const auto second = Decode<TypeParam>(Encode(*first));
      ASSERT_TRUE(second.ok()) << "kind " << kind << ": " << second.status();
      ASSERT_TRUE(Same(*second, *first)) << "kind " << kind << ", round " << round;
    }
  }
}

TEST(MessageCodec, WhoIsUnreachableIsAscendingAndFew) {
  Alive alive{Step(1), "applying"};
  const auto decoded = [&] { return DecodeToCoordinator(Encode(ToCoordinator(alive))); };
  for (int32_t i = 0; i < 64; ++i) alive.unreachable.members.push_back(2 * i);
  alive.unreachable.view = ViewNumber(7);
  const auto sound = decoded();
  ASSERT_TRUE(sound.ok()) << sound.status();
  EXPECT_EQ(std::get<Alive>(*sound).unreachable, alive.unreachable);
  alive.unreachable.members.push_back(1000);
  EXPECT_FALSE(decoded().ok()) << "at most 64";
  for (const std::vector<int32_t>& wrong : {std::vector<int32_t>{3, 3}, {4, 3}, {4096}, {-1}}) {
    alive.unreachable.members = wrong;
    EXPECT_FALSE(decoded().ok());
  }
}

// A member's words reach terminals, logs, events and the journal: they cannot steer or fill them.
TEST(MessageCodec, WordsOfOthersArePrintableAndBounded) {
  const std::string wild = "\x1b[2J" + std::string(60'000, 'x');
  const auto alive = DecodeToCoordinator(Encode(ToCoordinator(Alive{Step(1), wild})));
  ASSERT_TRUE(alive.ok()) << alive.status();
  const std::string& phase = std::get<Alive>(*alive).phase;
  EXPECT_EQ(phase.substr(0, 7), "\\x1b[2J");
  EXPECT_EQ(phase.size(), kMostShownBytes);
  Join join;
  join.id.name = "worker-0";
  join.node = join.address = join.cluster = wild;
  const auto joins = DecodeToCoordinator(Encode(ToCoordinator(join)));
  ASSERT_TRUE(joins.ok()) << joins.status();
  const Join& joined = std::get<Join>(*joins);
  for (const std::string& text : {joined.node, joined.address, joined.cluster})
    EXPECT_EQ(text, phase);
  ProcessExited exited;
  exited.last_lines = "one\x07\n" + std::string(60'000, 'y');
  exited.sample = exited.last_lines;
  const auto told = DecodeFromAgent(Encode(FromAgent(exited)));
  ASSERT_TRUE(told.ok()) << told.status();
  const std::string& lines = std::get<ProcessExited>(*told).last_lines;
  EXPECT_EQ(lines.substr(0, 9), "one\\x07\ny");
  EXPECT_EQ(lines.size(), kMostLinesBytes - kMostShownBytes);
  EXPECT_EQ(std::get<ProcessExited>(*told).sample, lines);
}

// Protobuf would make room for what such a part says that it holds.
TEST(MessageCodec, APartThatSaysItIsLongerThanTheRestIsRefusedUnparsed) {
  const std::string wanted = Encode(ToAgent(Wanted{}));
  ASSERT_TRUE(DecodeToAgent(wanted).ok());
  for (const char* longer : {"\x12\x7f", "\x8a\x01\xff\xff\xff\x07", "\xfa\x01\xff"}) {
    const auto decoded = DecodeToAgent(wanted + longer);
    EXPECT_THAT(decoded.status().message(), testing::HasSubstr("longer than the rest"));
  }
}

// Whatever decodes is valid: encoded again, it decodes again.
template <class Message>
void ExpectRefusedOrValid(const std::string& bytes) {
  const auto decoded = Decode<Message>(bytes);
  if (!decoded.ok()) {
    EXPECT_TRUE(absl::IsInvalidArgument(decoded.status())) << decoded.status();
    return;
  }
  const auto again = Decode<Message>(Encode(*decoded));
  ASSERT_TRUE(again.ok()) << again.status();
}

TYPED_TEST(EveryMessageTest, EveryCutIsRefusedOrValid) {
  RandomMessage random(2);
  for (size_t kind = 0; kind < std::variant_size_v<TypeParam>; ++kind) {
    const std::string good = Encode(random.MakeKind<TypeParam>(kind));
    for (size_t size = 0; size < good.size(); ++size)
      ExpectRefusedOrValid<TypeParam>(good.substr(0, size));
  }
}

TYPED_TEST(EveryMessageTest, MutatedBytesAreRefusedOrValid) {
  RandomMessage random(3);
  std::vector<std::string> good;
  for (size_t kind = 0; kind < std::variant_size_v<TypeParam>; ++kind)
    for (int i = 0; i < 3; ++i) good.push_back(Encode(random.MakeKind<TypeParam>(kind)));
  for (int round = 0; round < 5000; ++round) {
    std::string bytes = good[random.Below(good.size())];
    for (size_t spots = 1 + random.Below(3); spots > 0 && !bytes.empty(); --spots)
      bytes[random.Below(bytes.size())] = static_cast<char>(random.Below(256));
    ExpectRefusedOrValid<TypeParam>(bytes);
  }
}

void ExpectRefused(const absl::Status& status, const char* field) {
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << field << ": " << status;
  EXPECT_NE(status.message().find(field), absl::string_view::npos) << status;
}

TEST(MessageCodecTest, WhatNoFrameKnowsIsRefused) {
  ExpectRefused(DecodePeerMessage("").status(), "kind");
  ExpectRefused(DecodeAtCoordinator("").status(), "kind");
  ExpectRefused(DecodeFromCoordinator("").status(), "kind");
  ExpectRefused(DecodePeerMessage(std::string(kMaxHeaderBytes + 1, '\0')).status(), "header");
}

View SmallView() {
  View view;
  view.members.resize(2);
  view.lanes.holder_of = view.first_lanes.holder_of = {0, 1};
  view.owner_of = {0, 1, 0};
  view.first_done = {true, false, true};
  return view;
}

TEST(MessageCodecTest, ViewsPointOnlyAtTheirMembers) {
  const auto refused = [](const char* field, auto spoil) {
    View view = SmallView();
    spoil(view);
    ExpectRefused(DecodeFromCoordinator(Encode(FromCoordinator(Activate{view}))).status(), field);
  };
  EXPECT_TRUE(DecodeFromCoordinator(Encode(FromCoordinator(Activate{SmallView()}))).ok());
  refused("view.owner_of", [](View& v) { v.owner_of[1] = 2; });
  refused("view.owner_of", [](View& v) { v.owner_of[1] = -1; });
  refused("view.lanes", [](View& v) { v.lanes.holder_of[0] = 2; });
  refused("view.first_lanes", [](View& v) { v.first_lanes.holder_of[0] = -1; });
  refused("view.first_lanes", [](View& v) { v.first_lanes.holder_of.pop_back(); });
  refused("view.first_done", [](View& v) { v.first_done.pop_back(); });
  refused("view.members", [](View& v) { v.members.resize(4097); });
  refused("view.members[1].rank", [](View& v) { v.members[1].rank = Rank(-1); });
  refused("view.end", [](View& v) { v.end = Step(-1); });
  refused("view.job", [](View& v) { v.job.assign(64 * 1024 + 1, 'x'); });
}

HealPlan SmallPlan() {
  HealPlan plan;
  plan.members.resize(2);
  plan.how = {HealBy::kHold, HealBy::kCopy};
  plan.values_from = plan.owner_of = {0, 1};
  plan.slots_from = plan.catch_up_from = {-1, -1};
  plan.done = {true, false};
  plan.done_from = {0, -1};
  plan.first_lanes.holder_of = {0, 1};
  return plan;
}

TEST(MessageCodecTest, PlansCanBeFollowed) {
  const auto decode = [](const HealPlan& plan) {
    return DecodeFromCoordinator(Encode(FromCoordinator(Heal{TermNumber(1), ViewNumber(2), plan})));
  };
  const auto refused = [&](const char* field, auto spoil) {
    HealPlan plan = SmallPlan();
    spoil(plan);
    ExpectRefused(decode(plan).status(), field);
  };
  ASSERT_TRUE(decode(SmallPlan()).ok()) << decode(SmallPlan()).status();
  refused("plan.how", [](HealPlan& p) { p.how.pop_back(); });
  refused("plan.values_from", [](HealPlan& p) { p.values_from[0] = 2; });
  refused("plan.values_from", [](HealPlan& p) { p.values_from[0] = -1; });
  refused("plan.values_from", [](HealPlan& p) { p.values_from.pop_back(); });
  refused("plan.slots_from", [](HealPlan& p) { p.slots_from[1] = -2; });
  refused("plan.catch_up_from", [](HealPlan& p) { p.how[1] = HealBy::kCatchUp; });
  refused("plan.manifest", [](HealPlan& p) { p.how[1] = HealBy::kLoad; });
  refused("plan.done_from", [](HealPlan& p) { p.done_from[0] = -1; });
  refused("plan.done", [](HealPlan& p) { p.done.pop_back(); });
  refused("plan.owner_of", [](HealPlan& p) { p.owner_of[0] = -1; });
  refused("plan.first_lanes", [](HealPlan& p) { p.first_lanes.holder_of[0] = 2; });
}

Partials SmallPartials() {
  return {LineageNumber(1),
          ViewNumber(2),
          Step(300),
          {{ChunkId(0), {{{0, 4}, 8, 0.5, 0xdeadbeef}, {{6, 7}, 2, -1, 1}}},
           {ChunkId(200), {{{4, 6}, 300, 0, 2}}}},
          {}};
}

TEST(MessageCodecTest, PartialsAreChecked) {
  const auto refused = [](const char* field, auto spoil) {
    Partials partials = SmallPartials();
    spoil(partials);
    ExpectRefused(DecodePeerMessage(Encode(PeerMessage(partials))).status(), field);
  };
  refused("chunks", [](Partials& p) { p.chunks[0].chunk = ChunkId(1 << 22); });
  refused("chunks", [](Partials& p) { p.chunks[0].chunk = ChunkId(-1); });
  refused("lo", [](Partials& p) { p.chunks[0].partials[0].node = {4, 4}; });
  refused("lo", [](Partials& p) { p.chunks[0].partials[0].node = {-1, 4}; });
  refused("hi", [](Partials& p) { p.chunks[0].partials[0].node = {0, 4097}; });
  refused("weights", [](Partials& p) { p.chunks[0].partials[0].weight = -1; });
  refused("step", [](Partials& p) { p.step = Step(-1); });
  refused("commands", [](Partials& p) { p.commands = {{1, JobCommandKind::kStop}}; });
}

// It is kept before anybody knows whether there is such a job.
TEST(MessageCodecTest, TheNamesThatAStrangerSaysAreShort) {
  const std::string longest(1024, 'x');
  const auto decoded = [](const ToCoordinator& message) {
    return DecodeAtCoordinator(Encode(message)).status();
  };
  EXPECT_TRUE(decoded(AskJob{longest, "w0"}).ok());
  ExpectRefused(decoded(AskJob{longest + "x", "w0"}), "job");
  Join join;
  join.job = longest + "x";
  ExpectRefused(decoded(join), "job");
}

// So is what it prepares, which people are shown before anybody knows whether it may join.
TEST(MessageCodecTest, HowFarAStrangerSaysItIsFitsInALine) {
  const auto read = [](int32_t percent, const std::string& what) {
    return DecodeGreetingAtCoordinator(
        Encode(ToCoordinator(AskJob{"job", "w0", {}, HowFar{true, false, percent, what}})));
  };
  const auto what = [&](const std::string& text) {
    const auto greeting = read(100, text);
    EXPECT_TRUE(greeting.ok()) << greeting.status();
    if (!greeting.ok()) return std::string("refused");
    return std::get<AskJob>(std::get<ToCoordinator>(*greeting)).preparing->what;
  };
  EXPECT_EQ(what("merge 84 of 200"), "merge 84 of 200");
  EXPECT_EQ(what(std::string(kMostHowFarBytes, 'x')), std::string(kMostHowFarBytes, 'x'));
  EXPECT_EQ(what(std::string(10 * kMostHowFarBytes, 'x')),
            std::string(kMostHowFarBytes - 3, 'x') + "...");
  EXPECT_EQ(what("\x1b[2J\n"), Printable("\x1b[2J\n"));
  for (const int32_t percent : {101, -1})
    ExpectRefused(read(percent, "").status(), "preparing.percent");
}

TEST(MessageCodecTest, NamesOfMembersAreBoundedWhereverTheyStand) {
  const auto at_coordinator = [](const std::string& name) {
    Join join;
    join.id.name = name;
    StepRecord record;
    record.lane_holders = {{name, {1, 2}}};
    ProcessExited exited;
    exited.name = name;
    return std::vector<absl::Status>{
        DecodeAtCoordinator(Encode(ToCoordinator(AskJob{"job", name}))).status(),
        DecodeAtCoordinator(Encode(ToCoordinator(join))).status(),
        DecodeAtCoordinator(Encode(ToCoordinator(Records{{record}}))).status(),
        DecodeAtCoordinator(Encode(FromAgent(exited))).status(),
        DecodePeerMessage(Encode(PeerMessage(Hello{"job", {name, {1, 2}}, {}}))).status()};
  };
  for (const absl::Status& status : at_coordinator(std::string(kLongestMemberName, 'x')))
    EXPECT_TRUE(status.ok()) << status;
  for (const absl::Status& status : at_coordinator(std::string(kLongestMemberName + 1, 'x')))
    ExpectRefused(status, "name");
  for (const absl::Status& status : at_coordinator(std::string(100, '\1')))
    ExpectRefused(status, "name");
}

TEST(MessageCodecTest, WhoSaysWhoItIsHasAName) {
  const auto refusals = [](const std::string& name) {
    Join join;
    join.id.name = name;
    return std::vector<std::pair<std::string, absl::Status>>{
        {"name", DecodeAtCoordinator(Encode(ToCoordinator(AskJob{"job", name}))).status()},
        {"id.name", DecodeAtCoordinator(Encode(ToCoordinator(join))).status()},
        {"from.name",
         DecodePeerMessage(Encode(PeerMessage(Hello{"job", {name, {1, 2}}, {}}))).status()}};
  };
  for (const char* name : {"", " ", "worker 0", "a/b", "..", "-worker", "w\n", "\x1b[2J", "\xff"})
    for (const auto& [field, refused] : refusals(name)) {
      EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument)
          << "'" << name << "' is taken for a name";
      EXPECT_THAT(
          std::string(refused.message()),
          testing::AllOf(testing::HasSubstr(field + ": '"),
                         testing::HasSubstr("is no name of a member; it must be 1 to 240")));
      EXPECT_EQ(Printable(refused.message()), refused.message());
    }
}

TEST(MessageCodecTest, OfOneWhoHasNotSaidWhoItIsNothingElseIsRead) {
  Join join;
  join.id.name = "w0";
  const std::string said[] = {Encode(ToCoordinator(AskJob{"job", "w0"})),
                              Encode(ToCoordinator(join)),
                              Encode(FromAgent(AgentHello{{"host", {1, 1}}, {}, "node", 1}))};
  for (const std::string& header : said)
    EXPECT_TRUE(DecodeGreetingAtCoordinator(header).ok()) << absl::BytesToHexString(header);
  const std::string records = Encode(ToCoordinator(Records{{StepRecord{}}}));
  ASSERT_TRUE(DecodeAtCoordinator(records).ok());
  for (const std::string& header :
       {records, records + said[1], said[1] + records, Encode(ToCoordinator(Alive{})),
        Encode(FromAgent(ProcessExited{}))})
    ExpectRefused(DecodeGreetingAtCoordinator(header).status(), "and nothing else");
  ExpectRefused(DecodeGreetingAtCoordinator("").status(), "kind");

  const std::string hello = Encode(PeerMessage(Hello{"job", {"w0", {1, 2}}, {"w1", {3, 4}}}));
  EXPECT_TRUE(DecodeHello(hello).ok());
  Pieces pieces;
  pieces.record = StepRecord{};
  const std::string piece = Encode(PeerMessage(pieces));
  ASSERT_TRUE(DecodePeerMessage(piece).ok());
  for (const std::string& header : {piece, piece + hello, hello + piece})
    ExpectRefused(DecodeHello(header).status(), "and nothing else");
  ExpectRefused(DecodeHello("").status(), "kind");
}

// ---- versions (docs/protocol.md section 10)

struct Greetings {
  Speaks speaks;
  std::vector<std::pair<std::string, absl::Status>> Read() const {
    Join join;
    join.id.name = "w0";
    join.speaks = speaks;
    AgentHello agent{{"a", {1, 1}}, {}, "node", 1};
    agent.speaks = speaks;
    const Hello hello{"job", {"w0", {1, 2}}, {"w1", {3, 4}}, speaks};
    const auto at_coordinator = [](const auto& message) {
      return DecodeGreetingAtCoordinator(Encode(message)).status();
    };
    return {{"w0", at_coordinator(ToCoordinator(AskJob{"job", "w0", speaks}))},
            {"w0", at_coordinator(ToCoordinator(join))},
            {"host a", at_coordinator(FromAgent(agent))},
            {"w0", DecodeHello(Encode(PeerMessage(hello))).status()}};
  }
};

TEST(MessageCodecTest, AGreetingOfAnotherVersionIsRefusedWithBothVersions) {
  for (const auto& [who, refused] :
       Greetings{{kProtocol + 1, kProtocol + 2, "9.9.9\x1b[2J"}}.Read()) {
    EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition) << refused;
    EXPECT_THAT(std::string(refused.message()),
                testing::AllOf(testing::StartsWith(who + " is Muster 9.9.9"),
                               testing::HasSubstr(std::string("is Muster ") + kVersion)));
    EXPECT_EQ(Printable(refused.message()), refused.message());
  }
  for (const auto& [who, refused] : Greetings{{0, 0, ""}}.Read())
    EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition) << refused;
  for (const auto& [who, read] : Greetings{{kOldestProtocol, kProtocol + 7, "9.9.9"}}.Read())
    EXPECT_TRUE(read.ok()) << "one form is common: " << read;
}

// What it speaks is looked at first: its form of the rest may be another.
TEST(MessageCodecTest, OfAGreetingOfAnotherVersionNothingElseIsLookedAt) {
  const Speaks later{kProtocol + 1, kProtocol + 1, "9.9.9"};
  Join join;
  join.id.name = "../not a name";
  join.sealed = ViewNumber(-5);
  join.speaks = later;
  const std::string asks = Encode(ToCoordinator(AskJob{"job", "../not a name", later}));
  const std::string joins = Encode(ToCoordinator(join));
  for (const std::string& header : {asks, joins})
    EXPECT_EQ(DecodeGreetingAtCoordinator(header).status().code(),
              absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(AsksForItsJob(asks));
  EXPECT_FALSE(AsksForItsJob(joins));
  EXPECT_FALSE(AsksForItsJob(Encode(FromAgent(AgentHello{{"a", {1, 1}}, {}, "node", 1}))));
  EXPECT_FALSE(AsksForItsJob(joins + asks)) << "two greetings are none";
}

TEST(MessageCodecTest, AGreetingWithoutAVersionSaysNone) {
  // Job and name alone, as fields 1 and 2 of field 1.
  const auto read = DecodeToCoordinator(std::string("\x0a\x09\x0a\x03job\x12\x02w0", 11));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(std::get<AskJob>(*read).name, "w0");
  EXPECT_EQ(std::get<AskJob>(*read).speaks, (Speaks{0, 0, ""}));
}

// What a newer one says besides, in a form that we know, is passed over; a word of a list that we
// do not know is refused, since to guess it would be to decide by it.
TEST(MessageCodecTest, FieldsThatWeDoNotKnowArePassedOverAndWordsAreRefused) {
  const std::string asks = Encode(ToCoordinator(AskJob{"job", "w0"}));
  std::string inner = asks.substr(2) + std::string("\xfa\x06\x03new", 6);  // field 111
  const auto read =
      DecodeGreetingAtCoordinator(std::string{'\x0a', static_cast<char>(inner.size())} + inner);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(std::get<AskJob>(std::get<ToCoordinator>(*read)).name, "w0");
  Join join;
  join.id.name = "w0";
  join.role = static_cast<Role>(7);
  ExpectRefused(DecodeGreetingAtCoordinator(Encode(ToCoordinator(join))).status(), "role");
}

TEST(MessageCodecTest, RecordsTakeNotMuchMoreInMemoryThanInTheirFrame) {
  StepRecord wide;
  wide.lane_holders = {{MemberId{std::string(200, 'w'), {1, 2}}}, std::vector<int32_t>(4096)};
  const auto decoded = DecodeToCoordinator(Encode(ToCoordinator(Records{{wide}})));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  const LaneHolders& holders = std::get<Records>(*decoded).records.at(0).lane_holders;
  EXPECT_EQ(holders.size(), 4096u);
  EXPECT_EQ(holders.members().size(), 1u) << "its name stands there once";

  Records empty;
  empty.records.resize(60);
  EXPECT_TRUE(DecodeToCoordinator(Encode(ToCoordinator(empty))).ok());
  empty.records.resize(20'000);
  ExpectRefused(DecodeToCoordinator(Encode(ToCoordinator(empty))).status(), "say nothing");
}

// Written down, so that no change of the schema alters what older members say.
// Two bytes make an empty part of a list, and Protobuf some hundred of them.
TEST(MessageCodecTest, WhatWouldGrowInMemoryIsNotParsed) {
  const auto repeated = [](const std::string& part) {
    std::string parts;
    while (parts.size() + part.size() + 16 < kMaxHeaderBytes) parts += part;
    return parts;
  };
  const auto inside = [](char tag, const std::string& bytes) {
    std::string out(1, tag);
    size_t size = bytes.size();
    for (; size >= 0x80; size >>= 7) out += static_cast<char>(size | 0x80);
    return out + static_cast<char>(size) + bytes;
  };
  const std::string empty_record("\x0a\x00", 2), unknown_text("\xfa\x01\x00", 3);
  const std::string headers[] = {
      inside(0x32, repeated(empty_record)),                                 // Records
      inside(0x32, inside(0x0a, repeated("\x22" + std::string(1, '\0')))),  // their members
      repeated(unknown_text), inside(0x32, repeated(unknown_text))};
  for (const std::string& header : headers) {
    ASSERT_LE(header.size(), kMaxHeaderBytes);
    const absl::Status status = DecodeToCoordinator(header).status();
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr("in memory"))
        << header.size() << " bytes";
  }
}

// As many records as a member may have to tell, each with members of its own.
TEST(MessageCodecTest, LargeHeadersThatSayMuchAreParsed) {
  Records records;
  records.records.resize(20'000);
  for (StepRecord& record : records.records) {
    record.lineage = LineageNumber(1);
    record.view = ViewNumber(1);
    record.lane_holders = {{MemberId{"worker-0", {1, 2}}}, std::vector<int32_t>(4)};
    record.weight = 4;
  }
  const auto decoded = DecodeToCoordinator(Encode(ToCoordinator(records)));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  PeerMessage many = Inventory{};
  std::get<Inventory>(many).partials.assign(size_t{1} << 22, true);
  std::get<Inventory>(many).results.assign(size_t{1} << 22, true);
  EXPECT_TRUE(DecodePeerMessage(Encode(many)).ok());
}

TEST(MessageCodecTest, BytesOfPartialsStay) {
  EXPECT_EQ(absl::BytesToHexString(Encode(PeerMessage(SmallPartials()))),
            "1a48"
            "0801"
            "1002"
            "18ac02"      // lineage, view, step
            "220300c801"  // chunks
            "2a020201"    // counts
            "3203000604"
            "3a03040706"    // lo, hi
            "42040802ac02"  // weights
            "4a18000000000000e03f000000000000f0bf0000000000000000"
            "520cefbeadde0100000002000000");  // checksums
}

// Pieces of bytes that claim much: a set of 2^22 chunks without bits, one of 2^32 - 1, lists
// without counterpart.
TEST(MessageCodecTest, ClaimsWithoutBytesAreRefused) {
  const auto inventory_of = [](absl::string_view set) {
    std::string inner = "\x22" + std::string(1, static_cast<char>(set.size())) + std::string(set);
    return DecodePeerMessage("\x12" + std::string(1, static_cast<char>(inner.size())) + inner)
        .status();
  };
  ExpectRefused(inventory_of(absl::string_view("\x08\x80\x80\x80\x02", 5)),
                "inventory: partials.bits");
  ExpectRefused(inventory_of(absl::string_view("\x08\xff\xff\xff\xff\x0f", 6)),
                "inventory: partials.size");
  ExpectRefused(inventory_of(absl::string_view("\x08\x03\x12\x01\x08", 5)),
                "inventory: partials.bits");
  ExpectRefused(
      DecodePeerMessage(std::string("\x1a\x08\x22\x01\x00\x2a\x03\xff\xff\x03", 10)).status(),
      "partials: lo");
}

TEST(MessageCodecTest, FirstFrameTellsWhoSpeaks) {
  const auto member = DecodeAtCoordinator(Encode(ToCoordinator(AskJob{"job", "w0"})));
  ASSERT_TRUE(member.ok()) << member.status();
  EXPECT_TRUE(std::holds_alternative<ToCoordinator>(*member));
  const auto agent =
      DecodeAtCoordinator(Encode(FromAgent(AgentHello{{"host", {1, 1}}, {}, "node", 12})));
  ASSERT_TRUE(agent.ok()) << agent.status();
  ASSERT_TRUE(std::holds_alternative<FromAgent>(*agent));
  EXPECT_EQ(std::get<AgentHello>(std::get<FromAgent>(*agent)).slots, 12);
  EXPECT_FALSE(
      DecodeToCoordinator(Encode(FromAgent(AgentHello{{"host", {1, 1}}, {}, "node", 1}))).ok());
  EXPECT_FALSE(DecodeFromAgent(Encode(ToCoordinator(AskJob{"job", "w0"}))).ok());
  ExpectRefused(
      DecodeFromAgent(Encode(FromAgent(AgentHello{{"host", {1, 1}}, {}, "node", -1}))).status(),
      "agent_hello: slots");
}

TEST(MessageCodecTest, NumbersOfPositionsAreBounded) {
  const uint64_t more = kMostSamples + 1;
  Join join;
  join.id.name = kReaderName;
  join.role = Role::kReader;
  join.stream_positions = kMostSamples;
  EXPECT_TRUE(DecodeToCoordinator(Encode(ToCoordinator(join))).ok());
  join.stream_positions = more;
  EXPECT_THAT(DecodeToCoordinator(Encode(ToCoordinator(join))).status().message(),
              testing::HasSubstr("stream_positions: 1099511627777 is more than 1099511627776"));
  for (uint64_t Spooled::*field : {&Spooled::first, &Spooled::count}) {
    Spooled spooled;
    spooled.*field = kMostSamples;
    EXPECT_TRUE(DecodeToCoordinator(Encode(ToCoordinator(spooled))).ok());
    spooled.*field = more;
    EXPECT_FALSE(DecodeToCoordinator(Encode(ToCoordinator(spooled))).ok());
  }
  for (uint64_t SpoolFrom::*field : {&SpoolFrom::positions, &SpoolFrom::needed, &SpoolFrom::room}) {
    SpoolFrom from;
    from.*field = more;
    EXPECT_FALSE(DecodeFromCoordinator(Encode(FromCoordinator(from))).ok());
  }
  for (uint64_t AckSpooled::*field :
       {&AckSpooled::positions, &AckSpooled::needed, &AckSpooled::room}) {
    AckSpooled ack;
    ack.*field = more;
    EXPECT_FALSE(DecodeFromCoordinator(Encode(FromCoordinator(ack))).ok());
  }
  for (const StreamIs& wrong :
       {StreamIs{.positions = more}, StreamIs{.end = more}, StreamIs{.segments = {{.first = more}}},
        StreamIs{.segments = {{.count = more}}}, StreamIs{.segments = {{.number = -1}}}})
    EXPECT_FALSE(DecodeFromCoordinator(Encode(FromCoordinator(wrong))).ok());
}

TEST(MessageCodecTest, AStreamHasABoundedNumberOfSegmentsAndANameOfAFileIsShort) {
  StreamIs stream;
  stream.segments.resize(kMostSpoolSegments);
  EXPECT_TRUE(DecodeFromCoordinator(Encode(FromCoordinator(stream))).ok());
  stream.segments.emplace_back();
  EXPECT_THAT(DecodeFromCoordinator(Encode(FromCoordinator(stream))).status().message(),
              testing::HasSubstr("segments"));
  // Names are bytes, whatever they are.
  Spooled spooled;
  spooled.place.file = std::string(4096, '\xff');
  const auto sound = DecodeToCoordinator(Encode(ToCoordinator(spooled)));
  ASSERT_TRUE(sound.ok()) << sound.status();
  EXPECT_EQ(std::get<Spooled>(*sound), spooled);
  spooled.place.file += "x";
  EXPECT_THAT(DecodeToCoordinator(Encode(ToCoordinator(spooled))).status().message(),
              testing::HasSubstr("place.file: 4097 bytes; at most 4096 are allowed"));
}

TEST(MessageCodecTest, DevicesHaveIdsOfTheirOwn) {
  const auto refusal = [](const std::vector<HostDevice>& devices) {
    const AgentHello hello{{"host", {1, 1}}, {}, "node", 1, devices};
    EXPECT_EQ(DecodeFromAgent(Encode(FromAgent(hello))).status().code(),
              DecodeFromAgent(Encode(FromAgent(DevicesHeld{devices}))).status().code());
    return DecodeFromAgent(Encode(FromAgent(hello))).status();
  };
  EXPECT_TRUE(refusal({{"0"}, {"GPU-8932f937", PlacementNumber(7)}}).ok());
  ExpectRefused(refusal({{"0"}, {"0"}}), "devices[1].id");
  ExpectRefused(refusal({{"0,1"}}), "devices[0].id");
  ExpectRefused(refusal({{""}}), "devices[0].id");
  ExpectRefused(refusal(std::vector<HostDevice>(kMostDevices + 1, {"0"})), "devices");
  const Wanted wanted{{{.job = "one", .processes = {{"w", Role::kWorker, {}, {"0 1"}}}}}};
  ExpectRefused(DecodeToAgent(Encode(ToAgent(wanted))).status(), "devices");
}

TEST(MessageCodecTest, WhatIsWantedNamesEachJobsProcesses) {
  const Wanted wanted{{{"one",
                        StartNumber(7),
                        {{"worker-0", Role::kWorker}, {"server-0", Role::kServer}},
                        StartNumber(3),
                        0},
                       {"two", StartNumber(9), {{"worker-0", Role::kWorker}}, StartNumber(9)}}};
  const auto decoded = DecodeToAgent(Encode(ToAgent(wanted)));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  const auto& jobs = std::get<Wanted>(*decoded).jobs;
  ASSERT_EQ(jobs.size(), 2u);
  EXPECT_EQ(jobs[0].job, "one");
  EXPECT_EQ(jobs[0].start, StartNumber(7));
  EXPECT_EQ(jobs[0].first_start, StartNumber(3));
  ASSERT_EQ(jobs[0].processes.size(), 2u);
  EXPECT_EQ(jobs[0].processes[1].name, "server-0");
  EXPECT_EQ(jobs[0].processes[1].role, Role::kServer);
  EXPECT_EQ(jobs[0].restarts, 0);
  EXPECT_EQ(jobs[1].job, "two");
  EXPECT_EQ(jobs[1].restarts, kDefaultRestarts);
  ExpectRefused(DecodeToAgent(Encode(ToAgent(Wanted{{{.job = "one", .restarts = -1}}}))).status(),
                "wanted: jobs[0].restarts");
}

}  // namespace
}  // namespace muster
