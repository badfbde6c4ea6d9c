// A job that goes on with another plug-in: refused, accepted, and what stands in the journal when
// something ends in between.
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/base/exit_codes.h"
#include "tests/coordinator/state/desk.h"

namespace muster::coordinator {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kOld[] = "a.so sha256:aa", kNew[] = "a.so sha256:bb", kThird[] = "a.so sha256:cc";

NumericEnvironment With(const std::string& plugin, const std::string& probe = "") {
  NumericEnvironment environment = Environment();
  environment.numeric[kPlugin] = plugin;
  environment.numeric[kProbeLane] = probe.empty() ? "probe of " + plugin : probe;
  return environment;
}

// A job whose steps below 8 were done with the old file, here or elsewhere.
Adopt StoppedAt8(Accepts accepts = {}) {
  Adopt adopt{.id = "job",
              .spec = SpecOf(1, 2),
              .environment = With(kOld),
              .owner = "ann",
              .accepts = accepts};
  adopt.manifest.job = "job";
  adopt.manifest.lineage = LineageNumber(1);
  adopt.manifest.step = Step(8);
  return adopt;
}

Submit Again(bool accepts) { return {"job", SpecOf(1, 2), "", {.plugin = accepts}, "bea"}; }

// It goes on; nothing if it was turned away.
std::vector<int> CodesOf(Desk& desk, const MemberId& id, const NumericEnvironment& environment) {
  desk.DrainAll();
  desk.Join(id, "job", environment);
  std::vector<int> codes;
  for (const auto& [name, leave] : desk.Sent<Leave>())
    if (name == id.name) codes.push_back(leave.exit_code);
  return codes;
}

void Seal(Desk& desk, const std::vector<MemberId>& members) {
  desk.Wait(std::chrono::seconds(11));  // those that are missing are not waited for
  for (const MemberId& id : members) desk.Say(id, Alive{});
  desk.Give(Tick{});
  desk.Activate(members);
}

// The coordinator ends, and another one finds what was journalled.
Desk Restarted(const Desk& before) {
  RecoveredState found;
  found.jobs = {before.Job()};
  found.recorded["job"] = before.Status().step;
  found.manifests["job"] = {StoppedAt8().manifest};
  return Desk(std::move(found));
}

// All of its processes ended, and nobody said so any more.
void Fail(Desk& desk) {
  ProcessExited exited{.job = "job",
                       .start = desk.StartOf(),
                       .name = "worker-0",
                       .exit_code = kExitOtherEnvironment,
                       .cause = "exit code 78"};
  desk.Give(AgentSays{exited});
  ASSERT_EQ(desk.Job().phase, JobPhase::kFailed) << desk.Job().reason;
}

std::vector<PluginChange> ChangesOf(const Desk& desk) { return desk.Job().plugin_changes; }
PluginChange ChangeAt8(const std::string& after, const std::string& by) {
  return {LineageNumber(2), Step(8), kOld, after, by};
}

TEST(AcceptedPlugin, WithoutItBothFilesAndTheWayOutAreNamed) {
  Desk desk;
  desk.Give(StoppedAt8());
  desk.Join(kA, "job", With(kNew));
  const auto leaves = desk.Sent<Leave>();
  ASSERT_EQ(leaves.size(), 1u);
  EXPECT_EQ(leaves[0].second.exit_code, kExitOtherEnvironment);
  EXPECT_THAT(leaves[0].second.reason,
              AllOf(HasSubstr("plugin (a.so sha256:bb; the job has a.so sha256:aa)"),
                    HasSubstr("muster resume job --accept plugin")));
  EXPECT_EQ(desk.Job().environment, With(kOld));
}

// What would not help is not told.
TEST(AcceptedPlugin, WhereMoreThanThatDiffersTheWayOutIsNotNamed) {
  NumericEnvironment other = With(kNew);
  other.numeric["isa"] = "avx512";
  NumericEnvironment same = With(kOld, "another probe");
  for (const NumericEnvironment& environment : {other, same}) {
    Desk desk;
    desk.Give(StoppedAt8());
    desk.Join(kA, "job", environment);
    const auto leaves = desk.Sent<Leave>();
    ASSERT_EQ(leaves.size(), 1u);
    EXPECT_THAT(leaves[0].second.reason, ::testing::Not(HasSubstr("--accept")));
  }
}

TEST(AcceptedPlugin, ItGoesOnAndTheChangeIsJournalledWithTheView) {
  Desk desk;
  desk.Give(StoppedAt8());
  EXPECT_THAT(CodesOf(desk, kA, With(kNew)), ElementsAre(kExitOtherEnvironment));
  Fail(desk);
  desk.Give(Again(true));
  desk.Give(Tick{});
  EXPECT_THAT(CodesOf(desk, Id("worker-0", 2), With(kNew)), IsEmpty());
  EXPECT_THAT(ChangesOf(desk), IsEmpty()) << "no step was done with it";
  EXPECT_THAT(PluginUsesOf(desk.Job()), ElementsAre(PluginUse{8, kOld, std::nullopt}));
  desk.DrainAll();
  Seal(desk, {Id("worker-0", 2)});
  ASSERT_EQ(desk.Job().phase, JobPhase::kRunning);
  EXPECT_THAT(ChangesOf(desk), ElementsAre(ChangeAt8(kNew, "bea")));
  EXPECT_FALSE(desk.Job().accepted);
  EXPECT_EQ(desk.Job().environment, With(kNew));
  bool in_one_row = false, is_told = false;
  for (const Action& action : desk.DrainAll()) {
    if (const auto* row = std::get_if<PersistJob>(&action))
      if (row->job.plugin_changes.size() == 1) {
        EXPECT_EQ(row->job.view->first_step, Step(8)) << "not without its view";
        in_one_row = true;
      }
    if (const auto* said = std::get_if<Announce>(&action))
      is_told |=
          said->text ==
          "from step 8 on a.so sha256:bb computes in place of a.so sha256:aa, which user bea "
          "accepted";
  }
  EXPECT_TRUE(in_one_row);
  EXPECT_TRUE(is_told);
  // From now on it binds as the first one did.
  EXPECT_THAT(CodesOf(desk, kB, With(kOld)), ElementsAre(kExitOtherEnvironment));
}

TEST(AcceptedPlugin, AnAdoptedJobMayHaveItFromTheStart) {
  Desk desk;
  desk.Give(StoppedAt8({.plugin = true}));
  EXPECT_THAT(CodesOf(desk, kA, With(kNew)), IsEmpty());
  Seal(desk, {kA});
  EXPECT_THAT(ChangesOf(desk), ElementsAre(ChangeAt8(kNew, "ann")));
  EXPECT_THAT(PluginUsesOf(desk.Job()), ElementsAre(PluginUse{8, kNew, "ann"}));
}

TEST(AcceptedPlugin, NothingElseMayBeAnother) {
  const struct {
    const char* what;
    NumericEnvironment environment;
  } cases[] = {
      {"data",
       [] {
         auto e = With(kNew);
         e.data_hash = "d2";
         return e;
       }()},
      {"tensors",
       [] {
         auto e = With(kNew);
         e.tensors[0].shape = {64};
         return e;
       }()},
      {"isa",
       [] {
         auto e = With(kNew);
         e.numeric["isa"] = "avx512";
         return e;
       }()},
      {"prepared",
       [] {
         auto e = With(kNew);
         e.numeric["prepared"] = "sha256:11";
         return e;
       }()},
      {"the same file gives other bits", With(kOld, "another probe")},
      {"no file",
       [] {
         auto e = With(kNew);
         e.numeric.erase(kPlugin);
         return e;
       }()},
  };
  for (const auto& one : cases) {
    SCOPED_TRACE(one.what);
    Desk desk;
    desk.Give(StoppedAt8({.plugin = true}));
    EXPECT_THAT(CodesOf(desk, kA, one.environment), ElementsAre(kExitOtherEnvironment));
    EXPECT_EQ(desk.Job().environment, With(kOld));
  }
}

TEST(AcceptedPlugin, AllWorkersHaveTheSame) {
  Desk desk;
  desk.Give(StoppedAt8({.plugin = true}));
  EXPECT_THAT(CodesOf(desk, kA, With(kNew)), IsEmpty());
  EXPECT_THAT(CodesOf(desk, kB, With(kThird)), ElementsAre(kExitOtherEnvironment));
  EXPECT_THAT(CodesOf(desk, Id("worker-1", 2), With(kOld)), ElementsAre(kExitOtherEnvironment));
  EXPECT_THAT(CodesOf(desk, Id("worker-1", 3), With(kNew)), IsEmpty());
}

// It was accepted in vain: that is said, and the next start needs it anew.
TEST(AcceptedPlugin, OneThatIsNotUsedIsForgotten) {
  Desk desk;
  desk.Give(StoppedAt8({.plugin = true}));
  EXPECT_THAT(CodesOf(desk, kA, With(kOld)), IsEmpty());
  desk.DrainAll();
  Seal(desk, {kA});
  EXPECT_THAT(desk.Told(), ::testing::Contains(HasSubstr("was accepted and is not used")));
  EXPECT_THAT(ChangesOf(desk), IsEmpty());
  EXPECT_FALSE(desk.Job().accepted);
}

// ---- what ends in between

TEST(AcceptedPlugin, ACoordinatorThatEndsAfterAcceptingHasNotForgotten) {
  Desk before;
  before.Give(StoppedAt8({.plugin = true}));
  Desk desk = Restarted(before);
  EXPECT_THAT(CodesOf(desk, kA, With(kNew)), IsEmpty());
  Seal(desk, {kA});
  EXPECT_THAT(ChangesOf(desk), ElementsAre(ChangeAt8(kNew, "ann")));
}

// A worker told its file, and coordinator and worker end before the view. Another file comes back.
TEST(AcceptedPlugin, WhatWasToldBeforeTheViewBindsNobody) {
  for (const char* file : {kOld, kNew, kThird}) {
    SCOPED_TRACE(file);
    Desk before;
    before.Give(StoppedAt8({.plugin = true}));
    EXPECT_THAT(CodesOf(before, kA, With(kNew)), IsEmpty());
    EXPECT_EQ(before.Job().environment, With(kNew));
    Desk desk = Restarted(before);
    // The old file with the bits of another machine is not that of the steps so far.
    EXPECT_THAT(CodesOf(desk, kA, With(kOld, "another probe")), ElementsAre(kExitOtherEnvironment));
    EXPECT_THAT(CodesOf(desk, Id("worker-0", 2), With(file)), IsEmpty());
    Seal(desk, {Id("worker-0", 2)});
    ASSERT_EQ(desk.Job().phase, JobPhase::kRunning);
    if (file == kOld)
      EXPECT_THAT(ChangesOf(desk), IsEmpty());
    else
      EXPECT_THAT(ChangesOf(desk), ElementsAre(ChangeAt8(file, "ann")));
    EXPECT_EQ(desk.Job().environment, With(file));
  }
}

TEST(AcceptedPlugin, ACoordinatorThatEndsAfterTheViewHasTheChange) {
  Desk before;
  before.Give(StoppedAt8({.plugin = true}));
  EXPECT_THAT(CodesOf(before, kA, With(kNew)), IsEmpty());
  Seal(before, {kA});
  Desk desk = Restarted(before);
  EXPECT_THAT(ChangesOf(desk), ElementsAre(ChangeAt8(kNew, "ann")));
  EXPECT_THAT(CodesOf(desk, kB, With(kOld)), ElementsAre(kExitOtherEnvironment));
  EXPECT_THAT(CodesOf(desk, Id("worker-1", 2), With(kNew)), IsEmpty());
}

// It failed before a view, with the new file told; the next person accepts nothing.
TEST(AcceptedPlugin, WhoGoesOnWithoutItHasTheOldFileAgain) {
  Desk desk;
  desk.Give(StoppedAt8({.plugin = true}));
  EXPECT_THAT(CodesOf(desk, kA, With(kNew)), IsEmpty());
  Fail(desk);
  desk.Give(Again(false));
  desk.Give(Tick{});
  EXPECT_EQ(desk.Job().environment, With(kOld));
  EXPECT_THAT(CodesOf(desk, Id("worker-0", 2), With(kNew)), ElementsAre(kExitOtherEnvironment));
  EXPECT_THAT(CodesOf(desk, Id("worker-0", 3), With(kOld)), IsEmpty());
}

// Accepted twice: the steps so far are still those of the old file.
TEST(AcceptedPlugin, AcceptedAgainBeforeAViewItIsOneChange) {
  Desk desk;
  desk.Give(StoppedAt8({.plugin = true}));
  EXPECT_THAT(CodesOf(desk, kA, With(kNew)), IsEmpty());
  Fail(desk);
  desk.Give(Again(true));
  desk.Give(Tick{});
  EXPECT_THAT(CodesOf(desk, Id("worker-0", 2), With(kThird)), IsEmpty());
  Seal(desk, {Id("worker-0", 2)});
  EXPECT_THAT(ChangesOf(desk), ElementsAre(ChangeAt8(kThird, "bea")));
}

// Everything was killed while it ran; whoever starts it again has built the plug-in anew.
TEST(AcceptedPlugin, AJobThatWasCutOffStartsAgainWithIt) {
  Desk before;
  before.Give(StoppedAt8());
  EXPECT_THAT(CodesOf(before, kA, With(kOld)), IsEmpty());
  Seal(before, {kA});
  ASSERT_EQ(before.Job().phase, JobPhase::kRunning);
  Desk desk = Restarted(before);
  for (int i = 0; i < 200; ++i) {
    desk.Wait(std::chrono::milliseconds(500));
    desk.Give(Tick{});
  }
  ASSERT_FALSE(desk.Status().may_have_members);
  desk.Give(Again(false));
  ASSERT_FALSE(desk.Job().accepted);
  desk.Give(Again(true));
  ASSERT_TRUE(desk.Job().accepted);
  const StartNumber second = desk.StartOf();
  desk.Give(Again(true));
  EXPECT_EQ(desk.StartOf(), second) << "said again, it is nothing new";
  EXPECT_THAT(CodesOf(desk, Id("worker-0", 2), With(kNew)), IsEmpty());
  Seal(desk, {Id("worker-0", 2)});
  EXPECT_EQ(ChangesOf(desk).size(), 1u);
}

TEST(AcceptedPlugin, OfAJobWithoutAViewNothingNeedsToBeAccepted) {
  Desk desk;
  desk.Give(Submit{"job", SpecOf(1, 2), "", {.plugin = true}, "bea"});
  EXPECT_FALSE(desk.Job().accepted);
  EXPECT_THAT(CodesOf(desk, kA, With(kNew)), IsEmpty());
  Seal(desk, {kA});
  EXPECT_THAT(ChangesOf(desk), IsEmpty());
  EXPECT_THAT(PluginUsesOf(desk.Job()), ElementsAre(PluginUse{0, kNew, std::nullopt}));
}

}  // namespace
}  // namespace muster::coordinator
