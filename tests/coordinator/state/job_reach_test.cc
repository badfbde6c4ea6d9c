// Members that reach the coordinator, and not each other (docs/hosts.md section 8).
#include <algorithm>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/coordinator/state/desk.h"

namespace muster::coordinator {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

// Two hosts of two slots, and a job of three workers: two on "host", the third on "other".
class JobReachTest : public testing::Test {
 protected:
  explicit JobReachTest(const std::string& node = "other") {
    desk_.Give(AgentUp{HelloOf("other", 2)});
    desk_.Give(Submit{"job", SpecOf(2, 3)});
    for (const MemberId& id : {kA, kB}) desk_.Join(id);
    JoinOn(kC, node);
    desk_.Activate({kA, kB, kC});
    desk_.Drain<Announce>();
  }
  void JoinOn(const MemberId& id, const std::string& node) {
    muster::Join join;
    join.job = "job";
    join.start = desk_.StartOf();
    join.id = id;
    join.node = node;
    join.address = id.name;
    join.environment = Environment();
    desk_.Say(id, join);
  }
  // For so long; each word names those that its sender does not reach, by rank.
  void Live(Duration time, const std::map<MemberId, std::vector<int32_t>>& unreachable) {
    for (Duration passed{}; passed < time; passed += milliseconds(500)) {
      desk_.Wait(milliseconds(500));
      for (const auto& [id, members] : unreachable) {
        Alive alive{Step(0), ""};
        alive.unreachable = {desk_.Job().view->number, members};
        desk_.Say(id, alive);
      }
      desk_.Give(Tick{});
    }
  }
  std::vector<Announce> Verdicts() {
    std::vector<Announce> verdicts = desk_.Drain<Announce>();
    std::erase_if(verdicts, [](const Announce& said) { return said.event != "verdict"; });
    return verdicts;
  }

  Desk desk_{{}, /*slots=*/2};
};

TEST_F(JobReachTest, OneOfAPairIsLeftOutAndItsNodesAreKeptApart) {
  const PlacementNumber before = desk_.Job().placements.at("worker-2").number;
  Live(seconds(2), {{kA, {2}}, {kB, {}}, {kC, {0}}});
  EXPECT_THAT(Verdicts(), IsEmpty()) << "from the first word it is a second and a half";
  Live(milliseconds(500), {{kA, {2}}, {kB, {}}, {kC, {0}}});
  EXPECT_THAT(desk_.Job().apart, ElementsAre(Pair("host", "other")));
  EXPECT_EQ(desk_.Job().placements.at("worker-2").host, std::nullopt)
      << "there is room on the other host only";
  EXPECT_NE(desk_.Job().placements.at("worker-2").number, before);
  EXPECT_EQ(desk_.Status().members.size(), 2u);
  const std::vector<Announce> verdicts = Verdicts();
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_THAT(verdicts[0].text, HasSubstr("worker-2 on other and worker-0 on host"));
  EXPECT_EQ(verdicts[0].fields.at("member"), "worker-2");
  EXPECT_EQ(verdicts[0].fields.at("other"), "worker-0");
  desk_.Activate({kA, kB});
  EXPECT_EQ(desk_.Job().phase, JobPhase::kRunning);
}

// The whole way, at its slowest: the kernel has found the way silent after 3 s at one end and at
// the other, both say so as late as they may, a word comes as late as it may behind the time that
// is waited for, and so does the tick behind that.
TEST_F(JobReachTest, FiveSecondsAfterACutThePairIsNamed) {
  const ViewNumber view = desk_.Job().view->number;
  const milliseconds tick(50);
  const auto word = [&](const MemberId& id, std::vector<int32_t> names) {
    Alive alive{Step(0), ""};
    alive.unreachable = {view, std::move(names)};
    desk_.Say(id, alive);
  };
  // As a member speaks that finds out at `lost`: a word each half second, then four a second.
  const auto speaks = [](milliseconds now, milliseconds offset, milliseconds lost) {
    return now < lost ? (now - offset) % milliseconds(500) == milliseconds(0)
                      : (now - lost) % milliseconds(250) == milliseconds(0);
  };
  const milliseconds cut(2000), told_by_a(5000), told_by_c(5250);
  milliseconds now(0);
  for (; now < seconds(20) && desk_.Job().apart.empty(); now += tick) {
    if (speaks(now, milliseconds(0), told_by_a))
      word(kA, now < told_by_a ? std::vector<int32_t>() : std::vector<int32_t>{2});
    if (speaks(now, milliseconds(250), told_by_c))
      word(kC, now < told_by_c ? std::vector<int32_t>() : std::vector<int32_t>{0});
    if (now % milliseconds(500) == milliseconds(0)) word(kB, {});
    desk_.Give(Tick{});
    desk_.Wait(tick);
  }
  ASSERT_THAT(desk_.Job().apart, ElementsAre(Pair("host", "other")));
  EXPECT_LE(now, cut + seconds(5));
  const std::vector<Announce> verdicts = Verdicts();
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_THAT(verdicts[0].text, HasSubstr("worker-2 on other and worker-0 on host"));
}

// A packet of the new session is lost, and sent again after a second.
TEST_F(JobReachTest, ASessionThatIsMadeAgainWithinASecondCutsNobody) {
  Live(seconds(2), {{kA, {}}, {kB, {}}, {kC, {}}});
  for (int round = 0; round < 5; ++round) {
    Live(milliseconds(1500), {{kA, {2}}, {kB, {}}, {kC, {0}}});
    Live(milliseconds(500), {{kA, {}}, {kB, {}}, {kC, {}}});
  }
  EXPECT_THAT(Verdicts(), IsEmpty()) << "from the first word to the last it is a second";
}

TEST_F(JobReachTest, ItIsToldToComeLaterAndPlacedElsewhere) {
  desk_.Give(AgentUp{HelloOf("third", 1)});
  for (int i = 0; i < 5; ++i) {
    desk_.Drain<ToHost>();
    Live(milliseconds(500), {{kA, {2}}, {kB, {2}}, {kC, {0, 1}}});
  }
  EXPECT_EQ(*desk_.Job().placements.at("worker-2").host, "third");
  const auto sent = desk_.Sent<Leave>();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].first, "worker-2");
  EXPECT_EQ(sent[0].second.exit_code, kExitLater);
}

TEST_F(JobReachTest, OneWordIsNotEnough) {
  Live(seconds(10), {{kA, {2}}, {kB, {}}, {kC, {}}});
  Live(seconds(10), {{kA, {}}, {kB, {}}, {kC, {0}}});
  EXPECT_THAT(Verdicts(), IsEmpty());
  EXPECT_EQ(desk_.Status().members.size(), 3u);
}

TEST_F(JobReachTest, TheNextStartKeepsNobodyApart) {
  Live(seconds(3), {{kA, {2}}, {kB, {}}, {kC, {0}}});
  ProcessExited exited{.job = "job", .start = desk_.StartOf(), .name = "worker-0"};
  exited.exit_code = kExitBadConfiguration;
  exited.cause = "exit code 64";
  desk_.Give(AgentSays{exited});
  ASSERT_EQ(desk_.Job().phase, JobPhase::kFailed);
  desk_.Give(Submit{"job", SpecOf(2, 3)});
  EXPECT_THAT(desk_.Job().apart, IsEmpty());
}

TEST_F(JobReachTest, AfterARestartTheyAreStillKeptApart) {
  Live(seconds(3), {{kA, {2}}, {kB, {}}, {kC, {0}}});
  RecoveredState found;
  found.jobs.push_back(desk_.Job());
  Desk after(found, 2);
  after.Give(AgentUp{HelloOf("other", 2)});
  EXPECT_THAT(after.Job().apart, ElementsAre(Pair("host", "other")));
  EXPECT_EQ(after.Job().placements.at("worker-2").host, std::nullopt);
}

// On one node it is a failure of that process.
class OneNodeTest : public JobReachTest {
 protected:
  OneNodeTest() : JobReachTest("host") {}
};

TEST_F(OneNodeTest, ItsProcessIsStartedAgainWhereItWas) {
  const PlacementNumber before = desk_.Job().placements.at("worker-2").number;
  Live(seconds(2), {{kA, {2}}, {kB, {}}, {kC, {0}}});
  desk_.Drain<Announce>();
  Live(milliseconds(500), {{kA, {2}}, {kB, {}}, {kC, {0}}});
  const auto sent = desk_.Sent<Leave>();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].second.exit_code, kExitFailed);
  EXPECT_EQ(desk_.Job().placements.at("worker-2").number, before);
  EXPECT_THAT(desk_.Job().apart, IsEmpty());
}

// Found by the simulator: two jobs with a server on "host" and a worker on "other", which cannot
// reach each other any more. Each needs a slot beside its server, and the other job's server has
// it.
class TwoJobsTest : public testing::Test {
 protected:
  void SetUp() override {
    desk_.Give(AgentUp{HelloOf("other", 2)});
    JobSpec spec = SpecOf(1, 1);
    spec.training.sync = Sync::kServer;
    spec.runtime.servers = 1;
    for (const std::string job : {"one", "two"}) {
      desk_.Give(Submit{job, spec});
      ASSERT_EQ(HostIn(job, "server-0"), "host");
      ASSERT_EQ(HostIn(job, "worker-0"), "other");
      Come(job, "worker-0");
      Come(job, "server-0");
      Form(job);
      ASSERT_EQ(desk_.Job(job).phase, JobPhase::kRunning);
    }
    desk_.Drain<Announce>();
  }
  std::optional<std::string> HostIn(const std::string& job, const std::string& name) {
    return desk_.Job(job).placements.at(name).host;
  }
  // Its next process, where it is placed now.
  void Come(const std::string& job, const std::string& name) {
    muster::Join join;
    join.job = job;
    join.start = desk_.StartOf(job);
    join.id = {name, {static_cast<uint64_t>(++lives_), std::hash<std::string>()(job)}};
    join.role = name == "worker-0" ? Role::kWorker : Role::kServer;
    join.node = *HostIn(job, name);
    join.address = job + name;
    join.environment = Environment();
    live_[job][name] = join.id;
    desk_.Say(join.id, join);
  }
  void Form(const std::string& job) {
    const ViewNumber number = desk_.Job(job).number;
    for (const auto& [name, id] : live_[job]) desk_.Say(id, Sealed{number, {}});
    for (const auto& [name, id] : live_[job]) desk_.Say(id, HoldsBase{number, 0});
  }
  bool IsLive(const std::string& job, const std::string& name) {
    const JobStatus status = desk_.Status(job);
    return std::any_of(status.members.begin(), status.members.end(),
                       [&](const MemberStatus& m) { return m.member.id == live_[job][name]; });
  }
  // Processes are started where they are placed.
  void StartWhoIsMissing() {
    for (const std::string job : {"one", "two"}) {
      if (desk_.Job(job).phase == JobPhase::kQueued) continue;
      for (const std::string name : {"worker-0", "server-0"})
        if (HostIn(job, name) && !IsLive(job, name)) Come(job, name);
      const JobJournal journal = desk_.Job(job);
      if (!journal.view || journal.number > journal.view->number) Form(job);
    }
  }
  // While a job runs on both hosts, its two members name each other.
  void Live(Duration time) {
    for (Duration passed{}; passed < time; passed += milliseconds(500)) {
      desk_.Wait(milliseconds(500));
      StartWhoIsMissing();
      for (const auto& [job, members] : live_)
        for (const auto& [name, id] : members) {
          Alive alive{Step(0), ""};
          const JobJournal journal = desk_.Job(job);
          const bool is_cut = journal.view && journal.view->members.size() == 2 &&
                              HostIn(job, "worker-0") != HostIn(job, "server-0");
          if (is_cut) {
            const int32_t index = journal.view->IndexOf(id);
            alive.unreachable = {journal.view->number, {1 - index}};
          }
          desk_.Say(id, alive);
        }
      desk_.Give(Tick{});
    }
  }

  Desk desk_{{}, /*slots=*/2};
  std::map<std::string, std::map<std::string, MemberId>> live_;
  int lives_ = 0;
};

TEST_F(TwoJobsTest, OneOfTwoThatHoldEachOthersPlacesGivesThemUp) {
  Live(seconds(5));
  for (const std::string job : {"one", "two"}) {
    const bool waits = !HostIn(job, "server-0") || !HostIn(job, "worker-0");
    ASSERT_TRUE(waits) << job << " has no room beside its other member";
  }
  Live(seconds(90));
  EXPECT_THAT(desk_.Told(), testing::Contains(HasSubstr("there has been no room for")));
  // One of them has both its places on one host, and the other starts on the other one.
  for (const std::string job : {"one", "two"}) {
    ASSERT_TRUE(HostIn(job, "server-0") && HostIn(job, "worker-0")) << job;
    EXPECT_EQ(HostIn(job, "server-0"), HostIn(job, "worker-0")) << job;
    EXPECT_EQ(desk_.Job(job).phase, JobPhase::kRunning) << job;
  }
}

}  // namespace
}  // namespace muster::coordinator
