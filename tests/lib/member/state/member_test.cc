// Single situations of a member. Whole runs are the simulator's (tests/sim).
#include "lib/member/state/member.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/base/frame_limits.h"
#include "lib/wire/message_codec.h"
#include "tests/lib/member/state/outcome_of.h"

namespace muster {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const MemberId kMe{"worker-0", {1, 1}}, kPeer{"worker-1", {2, 2}}, kStranger{"worker-9", {9, 9}};
const MemberId kServer0{"server-0", {3, 3}}, kServer1{"server-1", {4, 4}};

ChunkSet Set(const std::vector<int>& bits) { return ChunkSet(bits.begin(), bits.end()); }

template <class M>
std::vector<M> SentTo(const MemberId& to, const Outcome& outcome) {
  std::vector<M> found;
  for (const Send& send : Of<Send>(outcome))
    if (const auto* m = std::get_if<M>(&send.message); m != nullptr && send.to == to)
      found.push_back(*m);
  return found;
}

MemberConfig ConfigOf(const MemberId& id) {
  MemberConfig config;
  config.job = "job";
  config.id = id;
  config.role = id.name[0] == 's' ? Role::kServer : Role::kWorker;
  config.chunks.assign(2, TensorKind::kParameter);
  config.training.batch = 2;
  config.training.lanes = 2;
  config.environment.samples = 100;
  return config;
}
MemberConfig ServerJob(MemberConfig config, bool clips) {
  config.training.sync = Sync::kServer;
  config.training.clip_norm = clips ? 1 : 0;
  return config;
}

// View `number` of these: chunk c belongs to owners[c], lane l to lanes[l].
View ViewOf(int64_t number, const std::vector<MemberId>& ids, std::vector<int32_t> owners,
            std::vector<int32_t> lanes, int64_t first_step = 0) {
  View view;
  view.job = "job";
  view.term = TermNumber(1);
  view.number = ViewNumber(number);
  view.lineage = LineageNumber(1);
  for (const MemberId& id : ids) {
    ViewMember m;
    m.id = id;
    m.role = id.name[0] == 's' ? Role::kServer : Role::kWorker;
    view.members.push_back(m);
  }
  view.owner_of = std::move(owners);
  view.lanes.holder_of = view.first_lanes.holder_of = std::move(lanes);
  view.first_step = Step(first_step);
  view.first_done.assign(view.owner_of.size(), false);
  view.end = Step(50);
  return view;
}

HealPlan PlanOf(const View& view, std::vector<HealBy> how) {
  HealPlan plan;
  plan.lineage = view.lineage;
  plan.base = view.first_step;
  plan.members = view.members;
  plan.how = std::move(how);
  const size_t n = view.owner_of.size();
  plan.values_from.assign(n, 0);
  plan.slots_from.assign(n, -1);
  plan.catch_up_from.assign(n, -1);
  plan.done = ChunkSet(n, false);
  plan.done_from.assign(n, -1);
  plan.owner_of = view.owner_of;
  plan.first_lanes = view.first_lanes;
  return plan;
}

Partial Leaf(int32_t lane) { return {{lane, lane + 1}, 1, 0.5, 0}; }

// A member that is led through its inputs.
class Rig {
 public:
  explicit Rig(MemberConfig config) : member(std::move(config)) {}
  // Its train thread has nothing to give up: that is answered at once.
  Outcome Coordinator(FromCoordinator message) {
    Outcome outcome = member.Handle(CoordinatorSays{std::move(message)});
    for (const Abandon& abandon : Of<Abandon>(outcome)) {
      Outcome more = member.Handle(Abandoned{abandon.id, 0});
      std::move(more.actions.begin(), more.actions.end(), std::back_inserter(outcome.actions));
    }
    return outcome;
  }
  Outcome Peer(const MemberId& from, PeerMessage message) {
    return member.Handle(PeerSays{from, std::move(message)});
  }

  // Through forming into `view`, with its state made anew or held.
  Outcome Enter(const View& view, std::vector<HealBy> how) {
    Coordinator(Seal{TermNumber(1), view.number});
    const Outcome healing =
        Coordinator(Heal{TermNumber(1), view.number, PlanOf(view, std::move(how))});
    if (!Of<Make>(healing).empty()) member.Handle(Made{});
    Outcome active = Coordinator(Activate{view});
    if (const auto compute = Of<Compute>(active); !compute.empty()) compute_id_ = compute.back().id;
    return active;
  }
  Outcome Applied(Step step) {
    Outcome outcome = member.Handle(muster::Applied{step});
    if (const auto compute = Of<Compute>(outcome); !compute.empty())
      compute_id_ = compute.back().id;
    return outcome;
  }
  // The lanes asked for last are done.
  Outcome Computed(const Partial& partial) {
    const Outcome outcome = member.Handle(Ready{compute_id_, {ChunkId(0), ChunkId(1)}, {partial}});
    EXPECT_EQ(outcome.fate, Fate::kTaken) << outcome.reason;
    return outcome;
  }
  Outcome Meet(const MemberId& peer, int64_t step, ChunkSet partials, ChunkSet results) {
    member.Handle(PeerUp{peer});
    return Peer(peer, Inventory{LineageNumber(1), member.sealed(), Step(step), std::move(partials),
                                std::move(results)});
  }
  Partials PartialsOf(int64_t step, std::vector<int> chunks, int32_t lane) {
    Partials p{LineageNumber(1), member.sealed(), Step(step), {}, {}};
    for (int c : chunks) p.chunks.push_back({ChunkId(c), {Leaf(lane)}});
    return p;
  }
  Results ResultsOf(int64_t step, std::vector<int> chunks) {
    Results r{LineageNumber(1), member.sealed(), Step(step), {}, {}};
    for (int c : chunks) r.chunks.push_back({ChunkId(c), {2, 1.0, 0, 0}});
    return r;
  }

  int64_t compute_id() const { return compute_id_; }

  Member member;

 private:
  int64_t compute_id_ = 0;
};

// worker-0 of two, with chunk 0 and lane 0, in view 1 at step 0, its peer greeted.
Rig TwoWorkers(MemberConfig config = ConfigOf(kMe)) {
  Rig rig(std::move(config));
  rig.Enter(ViewOf(1, {kMe, kPeer}, {0, 1}, {0, 1}), {HealBy::kMake, HealBy::kCopy});
  rig.Meet(kPeer, 0, Set({0, 0}), Set({0, 0}));
  return rig;
}

// Up to the moment when the train thread has the Apply of step 0.
Outcome UntilApply(Rig& rig, std::vector<JobCommand> commands = {}) {
  for (const JobCommand& command : commands)
    rig.Coordinator(GiveCommand{TermNumber(1), ViewNumber(1), command});
  rig.Computed(Leaf(0));
  rig.Peer(kPeer, rig.PartialsOf(0, {0}, 1));
  rig.member.Handle(Summed{Step(0), ChunkId(0), {2, 1.0, 0, 0}});
  return rig.Peer(kPeer, rig.ResultsOf(0, {1}));
}

// As TwoWorkers; chunk 2 is a phase, and ours.
Rig Syncing() {
  MemberConfig config = ConfigOf(kMe);
  config.chunks.push_back(TensorKind::kPhase);
  config.layers = {{ChunkId(2), "bn1"}};
  config.training.sync_batch_norm = true;
  Rig rig(std::move(config));
  rig.Enter(ViewOf(1, {kMe, kPeer}, {0, 1, 0}, {0, 1}), {HealBy::kMake, HealBy::kCopy});
  rig.Meet(kPeer, 0, Set({0, 0, 0}), Set({0, 0, 0}));
  return rig;
}

// ---- the way into a view

TEST(Member, TheWayFromSealToTheFirstLanes) {
  Rig rig(ConfigOf(kMe));
  const View view = ViewOf(1, {kMe, kPeer}, {0, 1}, {0, 1});
  const auto sealed = Told<Sealed>(rig.Coordinator(Seal{TermNumber(1), ViewNumber(1)}));
  ASSERT_EQ(sealed.size(), 1u);
  EXPECT_FALSE(sealed[0].local_state.has_state);
  const Outcome healing = rig.Coordinator(
      Heal{TermNumber(1), ViewNumber(1), PlanOf(view, {HealBy::kMake, HealBy::kCopy})});
  ASSERT_EQ(Of<Make>(healing).size(), 1u);
  EXPECT_THAT(Told<HoldsBase>(healing), IsEmpty()) << "not before it is made";
  EXPECT_EQ(Told<HoldsBase>(rig.member.Handle(Made{})).size(), 1u);
  const auto compute = Of<Compute>(rig.Coordinator(Activate{view}));
  ASSERT_EQ(compute.size(), 1u);
  EXPECT_THAT(compute[0].lanes, ElementsAre(LaneId(0)));
  EXPECT_THAT(compute[0].subtrees, ElementsAre(TreeNode{0, 1}));
}

TEST(Member, SaysWhomOfItsViewItDoesNotReach) {
  Rig rig(ConfigOf(kMe));
  const View view = ViewOf(1, {kMe, kPeer}, {0, 1}, {0, 1});
  EXPECT_EQ(rig.member.WhoIsUnreachable(), Unreachable()) << "it is in no view";
  rig.Coordinator(Seal{TermNumber(1), ViewNumber(1)});
  rig.Coordinator(Heal{TermNumber(1), ViewNumber(1), PlanOf(view, {HealBy::kMake, HealBy::kCopy})});
  const Unreachable peer{ViewNumber(1), {1}}, nobody{ViewNumber(1), {}};
  EXPECT_EQ(rig.member.WhoIsUnreachable(), peer) << "of a view that forms";
  rig.member.Handle(PeerUp{kPeer});
  EXPECT_EQ(rig.member.WhoIsUnreachable(), nobody);
  rig.member.Handle(Made{});
  rig.Coordinator(Activate{view});
  rig.member.Handle(PeerDown{kPeer});
  EXPECT_EQ(rig.member.WhoIsUnreachable(), peer);
  rig.Coordinator(Seal{TermNumber(1), ViewNumber(2)});
  EXPECT_EQ(rig.member.WhoIsUnreachable(), Unreachable()) << "its sessions are of another view";
}

TEST(Member, ACheckpointThatCannotBeLoadedIsToldWithItsReason) {
  Rig rig(ConfigOf(kMe));
  rig.Coordinator(Seal{TermNumber(1), ViewNumber(1)});
  rig.Coordinator(Heal{TermNumber(1), ViewNumber(1),
                       PlanOf(ViewOf(1, {kMe}, {0, 0}, {0, 0}), {HealBy::kLoad})});
  const auto failed =
      Told<BaseFailed>(rig.member.Handle(Made{absl::DataLossError("s4/x: wrong checksum")}));
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_EQ(failed[0].reason, "s4/x: wrong checksum");
  const Pieces stray{
      ViewNumber(1), LineageNumber(1), PieceKind::kValues, 0, Step(0), {{ChunkId(0), {}}}, {}, {}};
  EXPECT_THAT(Told<HoldsBase>(rig.Peer(kMe, stray)), IsEmpty()) << "it does not hold the base";
}

// The coordinator tells the plan again to whoever has a new session. The answer was lost with the
// old one, or not: without another it would wait until its patience with this member is over.
TEST(Member, WhatItAnsweredAPlanIsToldAgainWithThePlan) {
  struct Case {
    std::string what;
    absl::Status made;
    size_t failed, holds;
  };
  const std::vector<Case> cases = {
      {"a damaged checkpoint", absl::DataLossError("s4/x: wrong checksum"), 1, 0},
      {"one that it cannot read", absl::PermissionDeniedError("s4/x"), 1, 0},
      {"a sound one", absl::OkStatus(), 0, 1},
  };
  for (const Case& c : cases) {
    Rig rig(ConfigOf(kMe));
    const Heal heal{TermNumber(1), ViewNumber(1),
                    PlanOf(ViewOf(1, {kMe}, {0, 0}, {0, 0}), {HealBy::kLoad})};
    rig.Coordinator(Seal{TermNumber(1), ViewNumber(1)});
    rig.Coordinator(heal);
    rig.member.Handle(Made{c.made});
    for (int session = 0; session < 2; ++session) {
      rig.member.Handle(CoordinatorUp{});
      const Outcome again = rig.Coordinator(heal);
      EXPECT_EQ(Told<BaseFailed>(again).size(), c.failed) << c.what;
      EXPECT_EQ(Told<HoldsBase>(again).size(), c.holds) << c.what;
    }
  }
}

TEST(Member, AViewWhoseBaseItDoesNotHoldIsNotEntered) {
  Rig rig(ConfigOf(kMe));
  rig.Coordinator(Seal{TermNumber(1), ViewNumber(1)});
  EXPECT_EQ(rig.Coordinator(Activate{ViewOf(1, {kMe}, {0, 0}, {0, 0})}).fate, Fate::kDropped);
  EXPECT_FALSE(rig.member.active());
}

// Nor does its term count: a coordinator of ours would be told that its journal is an older copy.
TEST(Member, AnotherClusterIsNotHeard) {
  Rig rig(ConfigOf(kMe));
  const auto job_of = [](const char* cluster, int64_t term) {
    return JobIs{"job", {}, cluster, TermNumber(term), {}, "", std::nullopt};
  };
  rig.Coordinator(job_of("one", 1));
  for (const FromCoordinator& foreign :
       std::vector<FromCoordinator>{job_of("two", 9), Leave{TermNumber(9), 1, "evicted", "two"}}) {
    const Outcome outcome = rig.Coordinator(foreign);
    EXPECT_EQ(outcome.fate, Fate::kDropped) << "message " << foreign.index();
    EXPECT_THAT(outcome.actions, IsEmpty()) << "message " << foreign.index();
    EXPECT_EQ(Told<Join>(rig.member.Handle(CoordinatorUp{})).at(0).term, TermNumber(1));
  }
  EXPECT_EQ(Of<Quit>(rig.Coordinator(Leave{TermNumber(1), 1, "evicted", "one"})).size(), 1u);
  EXPECT_EQ(Of<Quit>(rig.Coordinator(Leave{TermNumber(1), 1, "evicted"})).size(), 1u)
      << "an earlier version does not say which cluster it is";
}

// ---- sealing

TEST(Seal, IsAnsweredOnlyWhenTheApplyIsDone) {
  Rig rig = TwoWorkers();
  ASSERT_EQ(Of<Apply>(UntilApply(rig)).size(), 1u);
  EXPECT_THAT(Told<Sealed>(rig.Coordinator(Seal{TermNumber(1), ViewNumber(2)})), IsEmpty());
  EXPECT_THAT(Told<Sealed>(rig.Coordinator(Seal{TermNumber(1), ViewNumber(2)})), IsEmpty())
      << "nor when asked again";
  const auto sealed = Told<Sealed>(rig.member.Handle(Applied{Step(0)}));
  ASSERT_EQ(sealed.size(), 1u);
  EXPECT_EQ(sealed[0].view, ViewNumber(2));
  EXPECT_EQ(sealed[0].local_state.step, Step(1));
  EXPECT_TRUE(sealed[0].local_state.previous_results);
}

// Who copies that state from us goes on when we are gone, and then nobody else could tell the
// record of the step before it.
TEST(Seal, IsAnsweredOnceEveryRecordBelowTheStateIsTold) {
  MemberConfig config = ConfigOf(kMe);
  config.fingerprint_every = 1;
  for (const bool while_applying : {false, true}) {
    Rig rig = TwoWorkers(config);
    UntilApply(rig);
    Outcome sealed;
    if (while_applying) sealed = rig.Coordinator(Seal{TermNumber(1), ViewNumber(2)});
    EXPECT_THAT(Told<Sealed>(sealed), IsEmpty());
    const Outcome applied = rig.member.Handle(Applied{Step(0)});
    if (!while_applying) sealed = rig.Coordinator(Seal{TermNumber(1), ViewNumber(2)});
    EXPECT_THAT(Told<Records>(applied), IsEmpty()) << "it waits for its fingerprint";
    EXPECT_THAT(Told<Sealed>(applied), IsEmpty()) << "the record of step 0 is not told";
    EXPECT_THAT(Told<Sealed>(sealed), IsEmpty()) << "the record of step 0 is not told";
    const Outcome done = rig.member.Handle(StepBoundaryDone{Step(1), FingerprintPart{1, 2, true}});
    EXPECT_THAT(Told<Records>(done), testing::Not(IsEmpty()));
    ASSERT_EQ(Told<Sealed>(done).size(), 1u);
    EXPECT_EQ(Told<Sealed>(done)[0].local_state.step, Step(1));
    EXPECT_TRUE(std::holds_alternative<Records>(Of<TellCoordinator>(done)[0].message));
  }
}

TEST(Seal, TheAnswerNamesResultsAndLanes) {
  Rig rig = TwoWorkers();
  rig.Peer(kPeer, rig.ResultsOf(0, {1}));
  const auto sealed = Told<Sealed>(rig.Coordinator(Seal{TermNumber(1), ViewNumber(2)}));
  ASSERT_EQ(sealed.size(), 1u);
  EXPECT_EQ(sealed[0].local_state.results, Set({0, 1}));
  EXPECT_THAT(sealed[0].local_state.lanes, ElementsAre(LaneId(0)));
}

TEST(Seal, NothingIsSentInASealedView) {
  Rig rig = TwoWorkers();
  rig.Coordinator(Seal{TermNumber(1), ViewNumber(2)});
  EXPECT_THAT(Of<Send>(rig.Computed(Leaf(0))), IsEmpty());
}

TEST(Seal, OfAnOlderViewIsDropped) {
  Rig rig = TwoWorkers();
  rig.Coordinator(Seal{TermNumber(2), ViewNumber(3)});
  EXPECT_EQ(rig.Coordinator(Seal{TermNumber(2), ViewNumber(2)}).fate, Fate::kDropped);
}

// ---- what becomes of a peer's message

TEST(Fates, TooEarlyIsHeld) {
  Rig rig = TwoWorkers();
  Partials later = rig.PartialsOf(0, {0}, 1);
  later.view = ViewNumber(2);
  EXPECT_EQ(rig.Peer(kPeer, later).fate, Fate::kHold);
  EXPECT_EQ(rig.Peer(kPeer, rig.PartialsOf(1, {0}, 1)).fate, Fate::kHold);
  EXPECT_EQ(rig.Peer(kPeer, rig.ResultsOf(1, {1})).fate, Fate::kHold);
  const int64_t edition = rig.member.edition();
  rig.Coordinator(Seal{TermNumber(1), ViewNumber(2)});
  EXPECT_GT(rig.member.edition(), edition) << "now what was held is tried again";
  EXPECT_EQ(rig.Peer(kPeer, later).fate, Fate::kHold) << "the view is not active yet";
}

TEST(Fates, TooLateIsDropped) {
  Rig rig = TwoWorkers();
  UntilApply(rig);
  rig.member.Handle(Applied{Step(0)});
  EXPECT_EQ(rig.Peer(kPeer, rig.PartialsOf(0, {0}, 1)).fate, Fate::kDropped);
  EXPECT_EQ(rig.Peer(kPeer, rig.ResultsOf(0, {1})).fate, Fate::kDropped);
  Partials old = rig.PartialsOf(1, {0}, 1);
  old.view = ViewNumber(0);
  EXPECT_EQ(rig.Peer(kPeer, old).reason, "an older view");
}

TEST(Fates, ARepetitionAddsNothing) {
  Rig rig = TwoWorkers();
  EXPECT_EQ(Of<FoldIn>(rig.Peer(kPeer, rig.PartialsOf(0, {0}, 1))).size(), 1u);
  EXPECT_THAT(rig.Peer(kPeer, rig.PartialsOf(0, {0}, 1)).actions, IsEmpty());
  rig.Peer(kPeer, rig.ResultsOf(0, {1}));
  EXPECT_EQ(rig.Peer(kPeer, rig.ResultsOf(0, {1})).fate, Fate::kDropped);
}

// The frame of sums that wait for their siblings is kept whole: what it brings besides them would
// be kept too, and nothing would bound how much that is.
TEST(Fates, SumsThatCameBeforeAreNotTakenBesideNewOnes) {
  Rig rig(ConfigOf(kMe));
  rig.Enter(ViewOf(1, {kMe, kPeer}, {0, 0}, {0, 1}), {HealBy::kMake, HealBy::kCopy});
  rig.Meet(kPeer, 0, Set({0, 0}), Set({0, 0}));
  const auto expect_refused = [&](const Partials& partials, const std::string& why) {
    const Outcome outcome = rig.Peer(kPeer, partials);
    EXPECT_EQ(outcome.fate, Fate::kRefused);
    EXPECT_EQ(outcome.reason, why);
    EXPECT_THAT(outcome.actions, IsEmpty()) << "nothing of it is taken";
  };
  const std::string beside = "sums that came before, beside new ones";
  expect_refused(rig.PartialsOf(0, {0, 0}, 1), beside);
  EXPECT_EQ(Of<FoldIn>(rig.Peer(kPeer, rig.PartialsOf(0, {0}, 1))).size(), 1u);
  expect_refused(rig.PartialsOf(0, {0, 1}, 1), beside);
  expect_refused(rig.PartialsOf(0, {1, 0}, 1), beside);
  Partials wrong = rig.PartialsOf(0, {1}, 1);
  wrong.chunks.push_back({ChunkId(0), {Leaf(0), Leaf(1)}});
  expect_refused(wrong, "chunk 0: not the subtrees that member 1 holds");
  EXPECT_EQ(rig.Peer(kPeer, rig.PartialsOf(0, {0}, 1)).fate, Fate::kDropped) << "nothing is kept";
  EXPECT_EQ(Of<FoldIn>(rig.Peer(kPeer, rig.PartialsOf(0, {1}, 1))).size(), 1u);
}

TEST(Fates, WrongIsRefusedWithAReason) {
  Rig rig = TwoWorkers();
  const auto refusal = [&](const MemberId& from, PeerMessage message) {
    const Outcome outcome = rig.Peer(from, std::move(message));
    EXPECT_EQ(outcome.fate, Fate::kRefused);
    EXPECT_THAT(outcome.actions, IsEmpty());
    return outcome.reason;
  };
  EXPECT_EQ(refusal(kPeer, rig.PartialsOf(0, {1}, 1)), "a chunk that is not ours");
  EXPECT_EQ(refusal(kPeer, rig.PartialsOf(0, {7}, 1)), "a chunk that is not ours");
  EXPECT_EQ(refusal(kPeer, rig.PartialsOf(0, {0}, 0)),
            "chunk 0: not the subtrees that member 1 holds");
  EXPECT_EQ(refusal(kPeer, rig.ResultsOf(0, {0})),
            "a result from a member that does not own the chunk");
  EXPECT_EQ(refusal(kPeer, Hello{}), "a second greeting");
  EXPECT_EQ(refusal(kPeer, Inventory{LineageNumber(1), ViewNumber(1), Step(0), Set({0}), Set({0})}),
            "another number of chunks");
  EXPECT_EQ(
      refusal(kPeer, Inventory{LineageNumber(1), ViewNumber(1), Step(5), Set({0, 0}), Set({0, 0})}),
      "a step that cannot be open in this view");
  const std::string foreign = "a lineage or a sender that the view does not have";
  EXPECT_EQ(refusal(kStranger, rig.PartialsOf(0, {0}, 1)), foreign);
  Partials voided = rig.PartialsOf(0, {0}, 1);
  voided.lineage = LineageNumber(2);
  EXPECT_EQ(refusal(kPeer, voided), foreign);
  EXPECT_EQ(refusal(kPeer, Norms{LineageNumber(1), ViewNumber(1), Step(0), {}}),
            "norms go to the owner of chunk 0");
}

// ---- a new session

// ---- phases

TEST(Phases, ATotalGoesToThePeerAndToTheLanesThatWait) {
  Rig rig = Syncing();
  EXPECT_EQ(rig.member.Phase(), "computing");
  const Ready ready{rig.compute_id(), {ChunkId(2)}, {{{0, 1}, 0, 0, 0}}};
  EXPECT_EQ(Of<FoldIn>(rig.member.Handle(ready)).size(), 1u);
  EXPECT_EQ(rig.member.Phase(), "waiting for bn1 of worker-1");
  Partials terms = rig.PartialsOf(0, {2}, 1);
  terms.chunks[0].partials[0].weight = 0;
  ASSERT_EQ(Of<FoldIn>(rig.Peer(kPeer, terms)).size(), 1u);
  const Outcome summed = rig.member.Handle(Summed{Step(0), ChunkId(2), {}});
  EXPECT_EQ(SentTo<Results>(kPeer, summed).size(), 1u);
  ASSERT_EQ(Of<GiveTotals>(summed).size(), 1u);
  EXPECT_THAT(Of<GiveTotals>(summed)[0].chunks, ElementsAre(ChunkId(2)));
  EXPECT_EQ(rig.member.Phase(), "computing");
}

// A lane of ours that waits is told, too, when its total comes while a view forms.
TEST(Phases, ATotalThatIsFetchedForTheNextViewIsGivenAtOnce) {
  Rig rig = Syncing();
  rig.member.Handle(Ready{rig.compute_id(), {ChunkId(2)}, {{{0, 1}, 0, 0, 0}}});
  rig.Coordinator(Seal{TermNumber(1), ViewNumber(2)});
  HealPlan plan =
      PlanOf(ViewOf(2, {kMe, kPeer}, {0, 1, 0}, {0, 1}), {HealBy::kHold, HealBy::kHold});
  plan.done = Set({0, 0, 1});
  plan.done_from = {-1, -1, 1};
  rig.Coordinator(Heal{TermNumber(1), ViewNumber(2), plan});
  const Outcome came = rig.Peer(kPeer, Pieces{ViewNumber(2),
                                              LineageNumber(1),
                                              PieceKind::kResult,
                                              0,
                                              Step(0),
                                              {{ChunkId(2), {}}},
                                              {},
                                              {}});
  EXPECT_EQ(Of<StoreResults>(came).size(), 1u);
  ASSERT_EQ(Of<GiveTotals>(came).size(), 1u);
  EXPECT_EQ(Told<HoldsBase>(came).size(), 1u);
}

// Who gets the lost lane of another begins it with all totals, and tells all phases again.
TEST(Phases, LanesOfALostWorkerBeginWithTheTotalsThatAreHere) {
  Rig rig = Syncing();
  rig.member.Handle(Ready{rig.compute_id(), {ChunkId(2)}, {{{0, 1}, 0, 0, 0}}});
  Partials terms = rig.PartialsOf(0, {2}, 1);
  rig.Peer(kPeer, terms);
  rig.member.Handle(Summed{Step(0), ChunkId(2), {}});
  View alone = ViewOf(2, {kMe}, {0, 0, 0}, {0, 0});
  alone.first_done = Set({0, 0, 1});
  const Outcome active = rig.Enter(alone, {HealBy::kHold});
  ASSERT_EQ(Of<Compute>(active).size(), 1u);
  EXPECT_THAT(Of<Compute>(active)[0].lanes, ElementsAre(LaneId(1)));
  EXPECT_THAT(Of<Compute>(active)[0].totals, ElementsAre(ChunkId(2)));
  EXPECT_THAT(Of<GiveTotals>(active), IsEmpty());
}

// Results of a step that the train thread applies are no news to it.
TEST(Phases, NoTotalFollowsAnApply) {
  Rig rig = Syncing();
  rig.Computed(Leaf(0));
  rig.Peer(kPeer, rig.ResultsOf(0, {1}));
  rig.member.Handle(Summed{Step(0), ChunkId(0), {2, 1.0, 0, 0}});
  const Outcome last = rig.member.Handle(Summed{Step(0), ChunkId(2), {}});
  EXPECT_EQ(Of<Apply>(last).size(), 1u);
  EXPECT_THAT(Of<GiveTotals>(last), IsEmpty());
}

TEST(Session, AfterABreakOnlyTheRestIsSent) {
  Rig rig = TwoWorkers();
  const Outcome sent = rig.Computed(Leaf(0));
  ASSERT_EQ(SentTo<Partials>(kPeer, sent).size(), 1u);
  EXPECT_EQ(SentTo<Partials>(kPeer, sent)[0].chunks.at(0).chunk, ChunkId(1)) << "chunk 0 is ours";

  rig.member.Handle(PeerDown{kPeer});
  EXPECT_THAT(SentTo<Partials>(kPeer, rig.Meet(kPeer, 0, Set({0, 1}), Set({0, 0}))), IsEmpty())
      << "it has them";
  rig.member.Handle(PeerDown{kPeer});
  EXPECT_EQ(SentTo<Partials>(kPeer, rig.Meet(kPeer, 0, Set({0, 0}), Set({0, 0}))).size(), 1u)
      << "they were lost";
}

TEST(Session, WeSendOurInventory) {
  Rig rig = TwoWorkers();
  rig.Peer(kPeer, rig.PartialsOf(0, {0}, 1));
  rig.Peer(kPeer, rig.ResultsOf(0, {1}));
  rig.member.Handle(PeerDown{kPeer});
  const auto have = SentTo<Inventory>(kPeer, rig.member.Handle(PeerUp{kPeer}));
  ASSERT_EQ(have.size(), 1u);
  EXPECT_EQ(have[0].partials, Set({1, 0}));
  EXPECT_EQ(have[0].results, Set({0, 1}));
  EXPECT_EQ(have[0].step, Step(0));
}

TEST(Session, OneThatIsAStepBehindGetsTheResultsOfThatStep) {
  Rig rig = TwoWorkers();
  UntilApply(rig);
  rig.member.Handle(Applied{Step(0)});
  rig.member.Handle(PeerDown{kPeer});
  const auto results = SentTo<Results>(kPeer, rig.Meet(kPeer, 0, Set({1, 1}), Set({0, 1})));
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(results[0].step, Step(0));
  ASSERT_EQ(results[0].chunks.size(), 1u);
  EXPECT_EQ(results[0].chunks[0].chunk, ChunkId(0));
}

// ---- the step

TEST(Step, IsAppliedWhenTheLastResultIsHereAndNotBefore) {
  Rig rig = TwoWorkers();
  EXPECT_THAT(Of<Apply>(rig.Peer(kPeer, rig.ResultsOf(0, {1}))), IsEmpty());
  rig.Computed(Leaf(0));
  rig.Peer(kPeer, rig.PartialsOf(0, {0}, 1));
  EXPECT_EQ(Of<Apply>(rig.member.Handle(Summed{Step(0), ChunkId(0), {2, 1.0, 0, 0}})).size(), 1u);
  const Outcome applied = rig.member.Handle(Applied{Step(0)});
  EXPECT_EQ(Told<Records>(applied).size(), 1u);
  ASSERT_EQ(Of<Compute>(applied).size(), 1u);
  EXPECT_EQ(Of<Compute>(applied)[0].step, Step(1));
}

TEST(Step, NothingIsComputedAtTheEnd) {
  Rig rig(ConfigOf(kMe));
  View view = ViewOf(1, {kMe, kPeer}, {0, 1}, {0, 1});
  view.end = Step(1);
  rig.Enter(view, {HealBy::kMake, HealBy::kCopy});
  rig.Meet(kPeer, 0, Set({0, 0}), Set({0, 0}));
  UntilApply(rig);
  EXPECT_FALSE(rig.member.halted());
  EXPECT_THAT(Of<Compute>(rig.member.Handle(Applied{Step(0)})), IsEmpty());
  EXPECT_TRUE(rig.member.halted());
  View next = ViewOf(2, {kMe, kPeer}, {0, 1}, {0, 1}, 1);
  next.end = Step(1);
  EXPECT_THAT(Of<Compute>(rig.Enter(next, {HealBy::kHold, HealBy::kHold})), IsEmpty());
}

// A coordinator that went on from an older copy of its journal does not have the record's view.
TEST(Step, RecordsAreToldInFullBeforeTheAnswerToASeal) {
  Rig rig = TwoWorkers();
  UntilApply(rig);
  const auto told = Told<Records>(rig.member.Handle(Applied{Step(0)}));
  ASSERT_EQ(told.size(), 1u);
  EXPECT_TRUE(told[0].records.at(0).lane_holders.empty());
  const Outcome sealed = rig.Coordinator(Seal{TermNumber(1), ViewNumber(2)});
  const auto again = Told<Records>(sealed);
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].records.at(0).lane_holders, (LaneHolders{kMe, kPeer}));
  EXPECT_EQ(Told<Sealed>(sealed).size(), 1u);
}

TEST(Step, RecordsAreKeptUntilAcknowledged) {
  Rig rig = TwoWorkers();
  UntilApply(rig);
  rig.member.Handle(Applied{Step(0)});
  EXPECT_EQ(rig.member.records_waiting(), 1u);
  EXPECT_EQ(Told<Records>(rig.member.Handle(CoordinatorUp{})).size(), 1u)
      << "handed over on reattaching";
  rig.Coordinator(AckRecords{TermNumber(1), LineageNumber(1), Step(0)});
  EXPECT_EQ(rig.member.records_waiting(), 1u);
  rig.Coordinator(AckRecords{TermNumber(1), LineageNumber(1), Step(1)});
  EXPECT_EQ(rig.member.records_waiting(), 0u);
}

// ---- commands

TEST(Commands, RideInTheResultOfChunkZeroAndStopAtTheStepBoundary) {
  Rig rig = TwoWorkers();
  const JobCommand stop{7, JobCommandKind::kStop};
  rig.Coordinator(GiveCommand{TermNumber(1), ViewNumber(1), stop});
  rig.Computed(Leaf(0));
  rig.Peer(kPeer, rig.PartialsOf(0, {0}, 1));
  const auto results =
      SentTo<Results>(kPeer, rig.member.Handle(Summed{Step(0), ChunkId(0), {2, 1.0, 0, 0}}));
  ASSERT_EQ(results.size(), 1u);
  EXPECT_THAT(results[0].commands, ElementsAre(stop));
  rig.Peer(kPeer, rig.ResultsOf(0, {1}));
  const Outcome applied = rig.member.Handle(Applied{Step(0)});
  EXPECT_TRUE(rig.member.halted());
  EXPECT_THAT(Of<Compute>(applied), IsEmpty());
  ASSERT_EQ(Of<StepBoundary>(applied).size(), 1u);
  EXPECT_THAT(Of<StepBoundary>(applied)[0].part, ElementsAre(ChunkId(0)));
  EXPECT_THAT(Told<Records>(applied).at(0).records.at(0).commands, ElementsAre(stop));
}

TEST(Commands, ACheckpointCommandCopiesThePartAndGoesOn) {
  Rig rig = TwoWorkers();
  UntilApply(rig, {{8, JobCommandKind::kCheckpoint}});
  const Outcome applied = rig.member.Handle(Applied{Step(0)});
  EXPECT_EQ(Of<StepBoundary>(applied).size(), 1u);
  EXPECT_EQ(Of<Compute>(applied).size(), 1u);
}

TEST(Commands, ThatComeWhenChunkZeroIsCompleteRideInTheNextStep) {
  Rig rig = TwoWorkers();
  const JobCommand stop{9, JobCommandKind::kStop};
  UntilApply(rig);
  EXPECT_NE(rig.Coordinator(GiveCommand{TermNumber(1), ViewNumber(1), stop}).fate, Fate::kDropped);
  rig.member.Handle(Applied{Step(0)});
  EXPECT_FALSE(rig.member.halted());
  const auto results =
      SentTo<Results>(kPeer, rig.member.Handle(Summed{Step(1), ChunkId(0), {2, 1.0, 0, 0}}));
  ASSERT_EQ(results.size(), 1u);
  EXPECT_THAT(results[0].commands, ElementsAre(stop));
}

// What a member alone keeps while the coordinator is away for `steps` steps.
Rig AwayFor(int steps) {
  Rig rig(ConfigOf(kMe));
  View view = ViewOf(1, {kMe}, {0, 0}, {0, 0});
  view.end = Step(steps + 1);
  Outcome outcome = rig.Enter(view, {HealBy::kMake});
  for (int64_t step = 0; step < steps; ++step) {
    const int64_t id = Of<Compute>(outcome).at(0).id;
    rig.member.Handle(Ready{id, {ChunkId(0), ChunkId(1)}, {{{0, 2}, 2, 1.0, 0}}});
    for (int c : {0, 1}) rig.member.Handle(Summed{Step(step), ChunkId(c), {2, 1.0, 0, 0}});
    outcome = rig.member.Handle(Applied{Step(step)});
  }
  return rig;
}

TEST(Ledger, ManyRecordsAreToldInFramesOfABoundedSize) {
  constexpr int kSteps = 20'000;
  Rig rig = AwayFor(kSteps);
  ASSERT_EQ(rig.member.records_waiting(), static_cast<size_t>(kSteps));
  Step next(0);
  for (const Records& told : Told<Records>(rig.member.Handle(CoordinatorUp{}))) {
    EXPECT_LE(Encode(ToCoordinator(told)).size(), kMaxHeaderBytes / 2);
    for (const StepRecord& record : told.records) {
      EXPECT_EQ(record.step, next);
      next = next + 1;
    }
  }
  EXPECT_EQ(next, Step(kSteps));
}

TEST(Commands, ThatAreGivenAgainAreTakenOnce) {
  Rig rig = TwoWorkers();
  const JobCommand checkpoint{8, JobCommandKind::kCheckpoint};
  rig.Coordinator(GiveCommand{TermNumber(1), ViewNumber(1), checkpoint});
  rig.Coordinator(GiveCommand{TermNumber(1), ViewNumber(1), checkpoint});
  rig.Computed(Leaf(0));
  rig.Peer(kPeer, rig.PartialsOf(0, {0}, 1));
  const auto results =
      SentTo<Results>(kPeer, rig.member.Handle(Summed{Step(0), ChunkId(0), {2, 1.0, 0, 0}}));
  ASSERT_EQ(results.size(), 1u);
  EXPECT_THAT(results[0].commands, ElementsAre(checkpoint));
}

// The view ends before the command could ride; the owner gets it again in the next one, under the
// same id.
TEST(Commands, ThatAViewCutOffAreTakenAgainInTheNext) {
  Rig rig = TwoWorkers();
  const JobCommand stop{7, JobCommandKind::kStop};
  rig.Coordinator(GiveCommand{TermNumber(1), ViewNumber(1), stop});
  rig.Enter(ViewOf(2, {kMe, kPeer}, {0, 1}, {0, 1}), {HealBy::kHold, HealBy::kHold});
  rig.Meet(kPeer, 0, Set({0, 0}), Set({0, 0}));
  rig.Coordinator(GiveCommand{TermNumber(1), ViewNumber(2), stop});
  rig.Peer(kPeer, rig.PartialsOf(0, {0}, 1));
  const auto results =
      SentTo<Results>(kPeer, rig.member.Handle(Summed{Step(0), ChunkId(0), {2, 1.0, 0, 0}}));
  ASSERT_EQ(results.size(), 1u);
  EXPECT_THAT(results[0].commands, ElementsAre(stop));
}

TEST(Commands, OfAnotherViewAreDropped) {
  Rig rig = TwoWorkers();
  EXPECT_EQ(
      rig.Coordinator(GiveCommand{TermNumber(1), ViewNumber(2), {9, JobCommandKind::kStop}}).fate,
      Fate::kDropped);
}

// ---- servers and the global norm

View ServerView(int64_t number) {
  return ViewOf(number, {kMe, kServer0, kServer1}, {1, 2}, {0, 0});
}
const std::vector<HealBy> kAllMake = {HealBy::kMake, HealBy::kMake, HealBy::kMake};

// Only the owner of chunk 0 made the result that they ride in.
TEST(Commands, AreToldToAServerAgainWhenItsSessionIsNew) {
  Rig rig(ServerJob(ConfigOf(kMe), false));
  rig.Enter(ServerView(1), kAllMake);
  rig.Meet(kServer1, 0, Set({0, 0}), Set({0, 0}));
  rig.Meet(kServer0, 0, Set({0, 0}), Set({0, 0}));
  const JobCommand stop{7, JobCommandKind::kStop};
  Results first = rig.ResultsOf(0, {0});
  first.commands = {stop};
  rig.Peer(kServer0, first);
  ASSERT_EQ(Of<Apply>(rig.Peer(kServer1, rig.ResultsOf(0, {1}))).size(), 1u);
  const auto commands = [](const Outcome& outcome) {
    std::vector<JobCommand> told;
    for (const Partials& partials : SentTo<Partials>(kServer1, outcome))
      told.insert(told.end(), partials.commands.begin(), partials.commands.end());
    return told;
  };
  EXPECT_THAT(commands(rig.member.Handle(Applied{Step(0)})), ElementsAre(stop));
  rig.member.Handle(PeerDown{kServer1});
  EXPECT_THAT(commands(rig.Meet(kServer1, 1, Set({0, 0}), Set({0, 0}))), ElementsAre(stop))
      << "they may have been lost with the session";
}

Partials BothLanes(const Rig& rig, int chunk) {
  return {LineageNumber(1),
          rig.member.sealed(),
          Step(0),
          {{ChunkId(chunk), {{{0, 2}, 2, 1.0, 0}}}},
          {}};
}

TEST(GlobalNorm, IsGivenByTheOwnerOfChunkZeroWhenEveryNormIsIn) {
  Rig rig(ServerJob(ConfigOf(kServer0), true));
  rig.Enter(ServerView(1), kAllMake);
  rig.Meet(kMe, 0, Set({0, 0}), Set({0, 0}));
  rig.Meet(kServer1, 0, Set({0, 0}), Set({0, 0}));
  ASSERT_EQ(Of<FoldIn>(rig.Peer(kMe, BothLanes(rig, 0))).size(), 1u);
  EXPECT_THAT(Of<ApplyChunks>(rig.member.Handle(Summed{Step(0), ChunkId(0), {2, 1.0, 9, 0}})),
              IsEmpty());
  const Outcome decided = rig.Peer(
      kServer1, Norms{LineageNumber(1), ViewNumber(1), Step(0), {{ChunkId(1), {2, 1.0, 16, 0}}}});
  ASSERT_EQ(SentTo<GlobalNorm>(kServer1, decided).size(), 1u);
  EXPECT_EQ(SentTo<GlobalNorm>(kServer1, decided)[0].norm, 5.0);
  ASSERT_EQ(Of<ApplyChunks>(decided).size(), 1u);
  EXPECT_EQ(Of<ApplyChunks>(decided)[0].norm, 5.0);
  EXPECT_THAT(SentTo<GlobalNorm>(kMe, decided), IsEmpty()) << "workers need none";
}

TEST(GlobalNorm, IsWaitedForByTheOtherServers) {
  Rig rig(ServerJob(ConfigOf(kServer1), true));
  rig.Enter(ServerView(1), kAllMake);
  rig.Meet(kMe, 0, Set({0, 0}), Set({0, 0}));
  rig.Meet(kServer0, 0, Set({0, 0}), Set({0, 0}));
  rig.Peer(kMe, BothLanes(rig, 1));
  const Outcome summed = rig.member.Handle(Summed{Step(0), ChunkId(1), {2, 1.0, 16, 0}});
  ASSERT_EQ(SentTo<Norms>(kServer0, summed).size(), 1u);
  EXPECT_THAT(Of<ApplyChunks>(summed), IsEmpty());
  const Outcome global_norm =
      rig.Peer(kServer0, GlobalNorm{LineageNumber(1), ViewNumber(1), Step(0), 5.0});
  ASSERT_EQ(Of<ApplyChunks>(global_norm).size(), 1u);
  EXPECT_EQ(rig.Peer(kServer0, GlobalNorm{LineageNumber(1), ViewNumber(1), Step(0), 5.0}).fate,
            Fate::kDropped);
}

// A step that is not finite is to leave the state as it was, so nothing is applied before that is
// known of all chunks. It rides with the norms.
TEST(GlobalNorm, TellsServersThatAStepIsNotFinite) {
  Rig rig(ServerJob(ConfigOf(kServer0), false));
  rig.Enter(ServerView(1), kAllMake);
  rig.Meet(kMe, 0, Set({0, 0}), Set({0, 0}));
  rig.Meet(kServer1, 0, Set({0, 0}), Set({0, 0}));
  rig.Peer(kMe, BothLanes(rig, 0));
  EXPECT_THAT(Of<ApplyChunks>(rig.member.Handle(Summed{Step(0), ChunkId(0), {2, 1.0, 0, 0}})),
              IsEmpty());
  const Outcome decided =
      rig.Peer(kServer1, Norms{LineageNumber(1),
                               ViewNumber(1),
                               Step(0),
                               {{ChunkId(1), {2, 1.0, 0, 0, /*finite=*/false}}}});
  ASSERT_EQ(SentTo<GlobalNorm>(kServer1, decided).size(), 1u);
  EXPECT_FALSE(SentTo<GlobalNorm>(kServer1, decided)[0].finite);
  ASSERT_EQ(Of<ApplyChunks>(decided).size(), 1u);
  EXPECT_TRUE(Of<ApplyChunks>(decided)[0].skip);
  const Outcome applied =
      rig.member.Handle(ChunksApplied{Step(0), {{ChunkId(0), {2, 1.0, 0, 0, /*finite=*/false}}}});
  ASSERT_EQ(SentTo<Results>(kMe, applied).size(), 1u);
  EXPECT_FALSE(SentTo<Results>(kMe, applied)[0].chunks[0].meta.finite) << "workers learn it so";
  EXPECT_EQ(rig.member.step(), Step(1));
  EXPECT_TRUE(rig.member.halted()) << "on_nan: stop";
  ASSERT_EQ(Told<Records>(applied).size(), 1u);
  EXPECT_TRUE(Told<Records>(applied)[0].records[0].skipped);
  ASSERT_EQ(Of<StepBoundary>(applied).size(), 1u) << "the last checkpoint";
  EXPECT_THAT(Of<StepBoundary>(applied)[0].part, ElementsAre(ChunkId(0)));
}

TEST(GlobalNorm, WithoutClippingAServerAppliesAtOnceWhateverItsValues) {
  MemberConfig config = ServerJob(ConfigOf(kServer0), false);
  config.training.on_nan = OnNan::kContinue;
  Rig rig(config);
  rig.Enter(ServerView(1), kAllMake);
  rig.Meet(kMe, 0, Set({0, 0}), Set({0, 0}));
  rig.Peer(kMe, BothLanes(rig, 0));
  EXPECT_EQ(Of<ApplyChunks>(rig.member.Handle(Summed{Step(0), ChunkId(0), {2, 1.0, 0, 0}})).size(),
            1u);
}

// It gets its sums from one worker. Alone it would be two steps further while another worker still
// waits for what it has forgotten.
TEST(GlobalNorm, AServerOfBuffersWaitsForThoseOfParametersWhateverTheJobSays) {
  MemberConfig config = ServerJob(ConfigOf(kServer0), false);
  config.training.on_nan = OnNan::kContinue;
  config.chunks[0] = TensorKind::kBuffer;
  Rig rig(config);
  rig.Enter(ServerView(1), kAllMake);
  rig.Meet(kMe, 0, Set({0, 0}), Set({0, 0}));
  rig.Meet(kServer1, 0, Set({0, 0}), Set({0, 0}));
  rig.Peer(kMe, BothLanes(rig, 0));
  EXPECT_THAT(Of<ApplyChunks>(rig.member.Handle(Summed{Step(0), ChunkId(0), {2, 1.0, 0, 0}})),
              IsEmpty());
  const Outcome decided = rig.Peer(
      kServer1, Norms{LineageNumber(1), ViewNumber(1), Step(0), {{ChunkId(1), {2, 1.0, 0, 0}}}});
  EXPECT_EQ(Of<ApplyChunks>(decided).size(), 1u);
}

// An owner of two chunks has begun the next state with one of them when the view changes: its
// memory is no longer state(s), so no part of the checkpoint at s may be copied.
TEST(Checkpoint, APartIsNotCopiedOnceTheNextStateHasBegun) {
  MemberConfig config = ServerJob(ConfigOf(kServer0), false);
  config.training.on_nan = OnNan::kContinue;
  config.checkpoint_every = 1;
  Rig rig(config);
  const auto view = [](int64_t number) {
    return ViewOf(number, {kMe, kServer0}, {1, 1}, {0, 0}, 4);
  };
  const Outcome entered = rig.Enter(view(1), {HealBy::kMake, HealBy::kMake});
  ASSERT_EQ(Of<StepBoundary>(entered).size(), 1u) << "a checkpoint is due at step 4";
  rig.Meet(kMe, 4, Set({0, 0}), Set({0, 0}));
  Partials partials = BothLanes(rig, 0);
  partials.step = Step(4);
  rig.Peer(kMe, partials);
  ASSERT_EQ(Of<ApplyChunks>(rig.member.Handle(Summed{Step(4), ChunkId(0), {2, 1.0, 0, 0}})).size(),
            1u);
  rig.member.Handle(ChunksApplied{Step(4), {{ChunkId(0), {2, 1.0, 0, 0}}}});
  View next = view(2);
  next.first_done = Set({1, 0});
  EXPECT_THAT(Of<StepBoundary>(rig.Enter(next, {HealBy::kHold, HealBy::kHold})), IsEmpty());
  EXPECT_TRUE(rig.member.active());
}

// The only worker, to whom a checkpoint is due after each step.
Rig Alone(int64_t end, int64_t fingerprint_every = 0) {
  MemberConfig config = ConfigOf(kMe);
  config.checkpoint_every = 1;
  config.fingerprint_every = fingerprint_every;
  Rig rig(config);
  View view = ViewOf(1, {kMe}, {0, 0}, {0, 0});
  view.end = Step(end);
  rig.Enter(view, {HealBy::kMake});
  return rig;
}

Outcome DoStep(Rig& rig) {
  const Step step = rig.member.step();
  rig.Computed({{0, 2}, 2, 1.0, 0});
  for (const int chunk : {0, 1}) rig.member.Handle(Summed{step, ChunkId(chunk), {2, 1.0, 0, 0}});
  return rig.Applied(step);
}

TEST(Checkpoint, WhileOnePartIsWrittenAndOneWaitsTheNextRoundIsSkipped) {
  Rig rig = Alone(50);
  for (const int64_t step : {1, 2}) {
    const auto copied = Of<StepBoundary>(DoStep(rig));
    ASSERT_EQ(copied.size(), 1u) << "nothing is on disk yet";
    EXPECT_EQ(copied[0].step, Step(step));
  }
  const Outcome third = DoStep(rig);
  EXPECT_THAT(Of<StepBoundary>(third), IsEmpty()) << "a third copy of the state";
  ASSERT_EQ(Told<SegmentFailed>(third).size(), 1u) << "the coordinator says it";
  EXPECT_EQ(Told<SegmentFailed>(third)[0].step, Step(3));
  EXPECT_THAT(Told<SegmentFailed>(third)[0].reason, testing::HasSubstr("its disk is slow"));
  EXPECT_TRUE(Told<SegmentFailed>(third)[0].disk_is_slow);
  EXPECT_EQ(Of<Compute>(third).size(), 1u) << "training goes on";
  EXPECT_THAT(Of<StepBoundary>(rig.member.Handle(SegmentWritten{})), IsEmpty());
  EXPECT_EQ(Of<StepBoundary>(DoStep(rig)).size(), 1u) << "there is room again";
  EXPECT_THAT(Of<StepBoundary>(DoStep(rig)), IsEmpty());
  rig.member.Handle(SegmentFailed{});
  EXPECT_EQ(Of<StepBoundary>(DoStep(rig)).size(), 1u) << "what failed is under way no more";
}

TEST(Checkpoint, ASkippedRoundHasItsFingerprint) {
  Rig rig = Alone(50, /*fingerprint_every=*/1);
  DoStep(rig);
  DoStep(rig);
  const auto third = Of<StepBoundary>(DoStep(rig));
  ASSERT_EQ(third.size(), 1u);
  EXPECT_TRUE(third[0].fingerprint);
  EXPECT_THAT(third[0].part, IsEmpty());
}

TEST(Checkpoint, TheLastOneIsNeverSkippedButCopiedWhenThereIsRoom) {
  Rig rig = Alone(3);
  DoStep(rig);
  DoStep(rig);
  const Outcome last = DoStep(rig);
  ASSERT_TRUE(rig.member.halted());
  EXPECT_THAT(Of<StepBoundary>(last), IsEmpty());
  EXPECT_THAT(Told<SegmentFailed>(last), IsEmpty());
  const auto copied = Of<StepBoundary>(rig.member.Handle(SegmentWritten{}));
  ASSERT_EQ(copied.size(), 1u);
  EXPECT_EQ(copied[0].step, Step(3));
  EXPECT_THAT(copied[0].part, ElementsAre(ChunkId(0), ChunkId(1)));
  EXPECT_THAT(Of<StepBoundary>(rig.member.Handle(SegmentWritten{})), IsEmpty()) << "once";
}

TEST(Checkpoint, TheLastOneBelongsToItsView) {
  Rig rig = Alone(3);
  for (int step = 0; step < 3; ++step) DoStep(rig);
  rig.Coordinator(Seal{TermNumber(1), ViewNumber(2)});
  EXPECT_THAT(Of<StepBoundary>(rig.member.Handle(SegmentWritten{})), IsEmpty());
  View next = ViewOf(2, {kMe}, {0, 0}, {0, 0}, 3);
  next.end = Step(3);
  EXPECT_EQ(Of<StepBoundary>(rig.Enter(next, {HealBy::kHold})).size(), 1u)
      << "the next view begins with it";
}

// ---- healing

TEST(CatchUp, BringsTheRecordOfWhoDidTheStep) {
  // The donor did step 0 in view 1.
  Rig donor = TwoWorkers();
  UntilApply(donor);
  donor.member.Handle(Applied{Step(0)});
  // The other one has lanes and results of step 0, but not the result of chunk 0.
  Rig late(ConfigOf(kPeer));
  late.Enter(ViewOf(1, {kMe, kPeer}, {0, 1}, {0, 1}), {HealBy::kMake, HealBy::kMake});
  late.Peer(kMe, late.PartialsOf(0, {1}, 0));

  const View next = ViewOf(2, {kMe, kPeer}, {0, 1}, {0, 1}, 1);
  HealPlan plan = PlanOf(next, {HealBy::kHold, HealBy::kCatchUp});
  plan.catch_up_from.assign(2, 0);
  for (Rig* rig : {&donor, &late}) rig->Coordinator(Seal{TermNumber(1), ViewNumber(2)});
  late.member.Handle(PeerUp{kMe});
  donor.Coordinator(Heal{TermNumber(1), ViewNumber(2), plan});
  const auto fetches =
      SentTo<Fetch>(kMe, late.Coordinator(Heal{TermNumber(1), ViewNumber(2), plan}));
  ASSERT_EQ(fetches.size(), 1u);
  EXPECT_EQ(fetches[0].kind, PieceKind::kResult);
  EXPECT_EQ(fetches[0].step, Step(0));

  const auto pieces = SentTo<Pieces>(kPeer, donor.Peer(kPeer, fetches[0]));
  ASSERT_EQ(pieces.size(), 1u);
  ASSERT_TRUE(pieces[0].record.has_value());
  const Outcome stored = late.Peer(kMe, pieces[0]);
  EXPECT_EQ(Of<StoreResults>(stored).size(), 1u);
  ASSERT_EQ(Of<Apply>(stored).size(), 1u);
  EXPECT_THAT(Told<HoldsBase>(stored), IsEmpty());
  const Outcome applied = late.member.Handle(Applied{Step(0)});
  EXPECT_EQ(Told<HoldsBase>(applied).size(), 1u);
  ASSERT_EQ(Told<Records>(applied).size(), 1u);
  EXPECT_EQ(Told<Records>(applied)[0].records.at(0), *pieces[0].record);
  EXPECT_EQ(pieces[0].record->view, ViewNumber(1));
}

TEST(CatchUp, TheRecordIsTheDonorsWhereTheStepWasDoneInAnotherView) {
  Rig late = TwoWorkers();  // active in view 1; the others did step 0 in view 2, without it
  late.Coordinator(Seal{TermNumber(1), ViewNumber(3)});
  const View next = ViewOf(3, {kMe, kPeer}, {0, 1}, {0, 1}, 1);
  HealPlan plan = PlanOf(next, {HealBy::kCatchUp, HealBy::kHold});
  plan.catch_up_from.assign(2, 1);
  late.Coordinator(Heal{TermNumber(1), ViewNumber(3), plan});
  StepRecord record;
  record.lineage = LineageNumber(1);
  record.step = Step(0);
  record.view = ViewNumber(2);
  record.lane_holders = {kPeer, kPeer};
  const Pieces pieces{ViewNumber(3),
                      LineageNumber(1),
                      PieceKind::kResult,
                      0,
                      Step(0),
                      {{ChunkId(0), {2, 1.0, 0, 0}}, {ChunkId(1), {2, 1.0, 0, 0}}},
                      {},
                      record};
  ASSERT_EQ(Of<Apply>(late.Peer(kPeer, pieces)).size(), 1u);
  const auto told = Told<Records>(late.member.Handle(Applied{Step(0)}));
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].records.at(0), record);
}

// A rewind: what was computed and told of the voided lineage is of no use any more.
TEST(Heal, WithTheStateItsLanesAndRecordsAreForgotten) {
  Rig rig = TwoWorkers();
  UntilApply(rig);
  const auto compute = Of<Compute>(rig.member.Handle(Applied{Step(0)}));
  ASSERT_EQ(compute.size(), 1u);
  rig.Coordinator(Seal{TermNumber(1), ViewNumber(2)});
  View next = ViewOf(2, {kMe, kPeer}, {0, 1}, {0, 1});
  next.lineage = LineageNumber(2);
  const Outcome healing = rig.member.Handle(CoordinatorSays{
      Heal{TermNumber(1), ViewNumber(2), PlanOf(next, {HealBy::kMake, HealBy::kCopy})}});
  ASSERT_EQ(Of<Abandon>(healing).size(), 1u);
  EXPECT_EQ(rig.member.Handle(Ready{compute[0].id, {ChunkId(0)}, {Leaf(0)}}).fate, Fate::kDropped);
  EXPECT_THAT(Told<Records>(rig.member.Handle(CoordinatorUp{})), IsEmpty());
  EXPECT_THAT(Told<HoldsBase>(rig.member.Handle(Made{})), IsEmpty())
      << "a lane of before may still run";
  const auto holds =
      Told<HoldsBase>(rig.member.Handle(Abandoned{Of<Abandon>(healing)[0].id, /*lanes_run=*/2}));
  ASSERT_EQ(holds.size(), 1u);
  EXPECT_EQ(holds[0].lanes_run, 2);
  const auto again = Of<Compute>(rig.Coordinator(Activate{next}));
  ASSERT_EQ(again.size(), 1u);
  EXPECT_THAT(again[0].lanes, ElementsAre(LaneId(0))) << "they are run anew";
  EXPECT_GT(again[0].id, Of<Abandon>(healing)[0].id);
}

TEST(Heal, APlanThatNeedsAStateWeDoNotHoldIsDropped) {
  for (HealBy how : {HealBy::kHold, HealBy::kCatchUp}) {
    Rig rig(ConfigOf(kMe));
    rig.Coordinator(Seal{TermNumber(1), ViewNumber(1)});
    const View view = ViewOf(1, {kMe, kPeer}, {0, 1}, {0, 1});
    EXPECT_EQ(rig.Coordinator(Heal{TermNumber(1), ViewNumber(1), PlanOf(view, {how, how})}).fate,
              Fate::kDropped);
    EXPECT_EQ(rig.Coordinator(Activate{view}).fate, Fate::kDropped);
  }
}

// So that a coordinator that restarted need not tell all of them the view.
TEST(Join, SaysInWhichViewTheMemberIsActive) {
  Rig rig(ConfigOf(kMe));
  const auto joined = [&] { return Told<Join>(rig.member.Handle(CoordinatorUp{})).at(0).active; };
  EXPECT_EQ(joined(), ViewNumber(0));
  rig.Enter(ViewOf(1, {kMe}, {0, 0}, {0, 0}), {HealBy::kMake});
  EXPECT_EQ(joined(), ViewNumber(1));
  rig.Coordinator(Seal{TermNumber(1), ViewNumber(2)});
  EXPECT_EQ(joined(), ViewNumber(0));
}

// A coordinator of an earlier term may live on without knowing that another has taken its place.
TEST(Join, NothingThatAnEarlierTermSaysIsObeyed) {
  const View next = ViewOf(2, {kMe}, {0, 0}, {0, 0}, 1);
  const auto all_in_term = [&](TermNumber term) {
    View view = next;
    view.term = term;
    return std::vector<FromCoordinator>{
        JobIs{.job = "job", .cluster = "c", .term = term},
        ViewStands{term, ViewNumber(1)},
        GiveCommand{term, ViewNumber(1), {1, JobCommandKind::kStop}},
        AckRecords{term, LineageNumber(1), Step(1)},
        AckSegments{term, {1}},
        Seal{term, ViewNumber(2)},
        Heal{term, ViewNumber(2), PlanOf(view, {HealBy::kHold})},
        Activate{view},
        Leave{term, 1, "evicted"}};
  };
  Rig rig = TwoWorkers();
  UntilApply(rig);
  rig.member.Handle(Applied{Step(0)});
  rig.member.Handle(SegmentWritten{});
  rig.Coordinator(ViewStands{TermNumber(5), ViewNumber(1)});
  const auto told_again = [&] {
    const Outcome up = rig.member.Handle(CoordinatorUp{});
    return Told<Records>(up).size() + Told<SegmentWritten>(up).size();
  };
  ASSERT_EQ(told_again(), 2u);
  for (const FromCoordinator& said : all_in_term(TermNumber(4))) {
    const Outcome outcome = rig.Coordinator(said);
    EXPECT_EQ(outcome.fate, Fate::kDropped) << "message " << said.index();
    EXPECT_THAT(outcome.actions, IsEmpty()) << "message " << said.index();
  }
  EXPECT_TRUE(rig.member.active());
  EXPECT_EQ(told_again(), 2u) << "nothing was acknowledged";
  for (const FromCoordinator& said : all_in_term(TermNumber(6)))
    EXPECT_NE(rig.Coordinator(said).fate, Fate::kDropped) << "message " << said.index();
}

TEST(Fetch, IsHeldUntilTheDonorHasIt) {
  Rig rig(ConfigOf(kMe));
  const View view = ViewOf(1, {kMe, kPeer}, {0, 1}, {0, 1});
  rig.Coordinator(Seal{TermNumber(1), ViewNumber(1)});
  const Fetch fetch{ViewNumber(1), PieceKind::kValues, 0, Step(0), {ChunkId(0)}};
  EXPECT_EQ(rig.Peer(kPeer, fetch).fate, Fate::kHold) << "there is no plan yet";
  rig.Coordinator(Heal{TermNumber(1), ViewNumber(1), PlanOf(view, {HealBy::kMake, HealBy::kCopy})});
  EXPECT_EQ(rig.Peer(kPeer, fetch).fate, Fate::kHold) << "the state is being made";
  rig.member.Handle(Made{});
  EXPECT_EQ(SentTo<Pieces>(kPeer, rig.Peer(kPeer, fetch)).size(), 1u);
  Fetch old = fetch;
  old.view = ViewNumber(0);
  EXPECT_EQ(rig.Peer(kPeer, old).fate, Fate::kDropped);
}

TEST(Pieces, OfAnotherLineageAreRefusedAndUnwantedOnesDropped) {
  Rig rig(ConfigOf(kPeer));
  rig.Coordinator(Seal{TermNumber(1), ViewNumber(1)});
  const View view = ViewOf(1, {kMe, kPeer}, {0, 1}, {0, 1});
  rig.Coordinator(Heal{TermNumber(1), ViewNumber(1), PlanOf(view, {HealBy::kMake, HealBy::kCopy})});
  Pieces pieces{
      ViewNumber(1), LineageNumber(2), PieceKind::kValues, 0, Step(0), {{ChunkId(0), {}}}, {}, {}};
  EXPECT_EQ(rig.Peer(kMe, pieces).fate, Fate::kRefused);
  pieces.lineage = LineageNumber(1);
  EXPECT_EQ(Of<StorePieces>(rig.Peer(kMe, pieces)).size(), 1u);
  EXPECT_EQ(rig.Peer(kMe, pieces).fate, Fate::kDropped);
  pieces.chunks = {{ChunkId(1), {}}};
  EXPECT_EQ(Told<HoldsBase>(rig.Peer(kMe, pieces)).size(), 1u) << "that was the last one";
}

// ---- spares

TEST(Spare, HoldsNothingAndRunsNothing) {
  Rig rig(ConfigOf(kPeer));
  const View view = ViewOf(1, {kMe, kPeer}, {0, 0}, {0, 0});
  rig.Coordinator(Seal{TermNumber(1), ViewNumber(1)});
  const Outcome heal = rig.Coordinator(
      Heal{TermNumber(1), ViewNumber(1), PlanOf(view, {HealBy::kMake, HealBy::kNothing})});
  EXPECT_EQ(Told<HoldsBase>(heal).size(), 1u) << "at once";
  const Outcome active = rig.Coordinator(Activate{view});
  EXPECT_EQ(Of<DropState>(active).size(), 1u);
  EXPECT_THAT(Of<Compute>(active), IsEmpty());
  EXPECT_THAT(Of<Send>(rig.member.Handle(PeerUp{kMe})), IsEmpty()) << "it has nothing to say";
  EXPECT_FALSE(rig.member.has_state());
}

TEST(Spare, KeepsItsStateForDonorsUntilTheViewIsActive) {
  Rig rig = TwoWorkers();
  const View next = ViewOf(2, {kPeer, kMe}, {0, 0}, {0, 0});
  rig.Coordinator(Seal{TermNumber(1), ViewNumber(2)});
  rig.Coordinator(
      Heal{TermNumber(1), ViewNumber(2), PlanOf(next, {HealBy::kCopy, HealBy::kNothing})});
  const Fetch fetch{ViewNumber(2), PieceKind::kValues, 0, Step(0), {ChunkId(0)}};
  EXPECT_EQ(SentTo<Pieces>(kPeer, rig.Peer(kPeer, fetch)).size(), 1u);
  rig.Coordinator(Activate{next});
  EXPECT_FALSE(rig.member.has_state());
}

}  // namespace
}  // namespace muster
