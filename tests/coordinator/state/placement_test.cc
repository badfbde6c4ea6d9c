#include "coordinator/state/placement.h"

#include <algorithm>
#include <functional>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster::coordinator {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

HostRoom Host(const std::string& name, int32_t slots) { return {name, name, slots}; }

QueuedJob Queued(const std::string& id, int64_t submission, int32_t min, int32_t max,
                 int32_t servers = 0) {
  return {id, submission, min, max, servers, {}};
}

// Of so many workers on these hosts, in turn; as many as it may have.
PlacedJob Running(const std::string& id, int64_t submission,
                  const std::vector<std::string>& hosts) {
  PlacedJob job{.id = id, .submission = submission};
  for (size_t i = 0; i < hosts.size(); ++i) {
    const std::string name = absl::StrCat("worker-", i);
    job.placed[name] = hosts[i];
    job.workers.insert(job.workers.begin(), name);  // the highest rank leaves first
  }
  job.workers_min = job.workers_max = static_cast<int32_t>(hosts.size());
  return job;
}

PlacedJob Elastic(const std::string& id, int64_t submission, const std::vector<std::string>& hosts,
                  int32_t min, int32_t max) {
  PlacedJob job = Running(id, submission, hosts);
  job.workers_min = min;
  job.workers_max = max;
  job.may_shrink = true;
  return job;
}

void Unplace(PlacedJob& job, const std::string& name) {
  job.unplaced.push_back({name, Role::kWorker});
  job.workers.insert(job.workers.begin(), name);
  job.workers_max = std::max(job.workers_max, static_cast<int32_t>(job.workers.size()));
}

// "job/worker-1 scaled", in the order of jobs and names.
std::string LeavesOf(const PlacementDecision& decision) {
  std::vector<std::string> texts;
  for (const auto& [job, members] : decision.leaves)
    for (const auto& [name, cause] : members)
      texts.push_back(absl::StrCat(job, "/", name,
                                   cause == LeaveCause::kScaled        ? " scaled"
                                   : cause == LeaveCause::kMakesRoom   ? " makes room"
                                   : cause == LeaveCause::kQuota       ? " quota"
                                   : cause == LeaveCause::kForFollower ? " for the follower"
                                                                       : " drained"));
  return absl::StrJoin(texts, ", ");
}

// "job/worker-0@host job/worker-1@host"
std::string PlacesOf(const PlacementDecision& decision) {
  return absl::StrJoin(decision.places, " ",
                       [](std::string* out, const PlacementDecision::Place& place) {
                         absl::StrAppend(out, place.job, "/", place.member.name, "@", place.host);
                       });
}

QueuedJob Streamed(const std::string& host = "", int32_t min = 1, int32_t max = 1) {
  QueuedJob job = Queued("s", 1, min, max);
  job.readers = 1;
  job.reader_host = host;
  return job;
}

TEST(Placement, AReaderNeedsASlot) {
  const std::vector<HostRoom> one = {Host("h", 1)}, two = {Host("h", 2)};
  EXPECT_THAT(DecidePlacement({one, {}, {Streamed()}}).reasons,
              ElementsAre(Pair("s", "needs 2 slots; the cluster has 1")));
  EXPECT_EQ(PlacesOf(DecidePlacement({two, {}, {Streamed()}})), "s/worker-0@h s/reader-0@h");
}

TEST(Placement, AReaderGoesToItsHostOrWaitsForIt) {
  const std::vector<HostRoom> hosts = {Host("a", 2), Host("b", 2)};
  EXPECT_EQ(PlacesOf(DecidePlacement({hosts, {}, {Streamed("b", 1, 3)}})),
            "s/reader-0@b s/worker-0@a s/worker-1@a s/worker-2@b");
  const PlacementDecision waits =
      DecidePlacement({hosts, {Running("r", 0, {"b", "b"})}, {Streamed("b")}});
  EXPECT_EQ(PlacesOf(waits), "s/worker-0@a") << "it begins without";
  EXPECT_THAT(waits.starts, ElementsAre(Pair("s", 1)));
  PlacedJob job = Running("s", 1, {"a"});
  job.reader_host = "b";
  job.unplaced = {{kReaderName, Role::kReader}};
  EXPECT_EQ(PlacesOf(DecidePlacement({hosts, {job, Running("r", 0, {"b", "b"})}, {}})), "");
  EXPECT_EQ(PlacesOf(DecidePlacement({hosts, {job}, {}})), "s/reader-0@b");
}

TEST(Placement, AReaderNeedsNoDevicesAndLeavesADrainedHost) {
  HostRoom with = Host("a", 2);
  with.devices = {"0"};
  QueuedJob job = Streamed();
  job.devices_each = 1;
  const PlacementDecision decision = DecidePlacement({{with}, {}, {job}});
  EXPECT_EQ(PlacesOf(decision), "s/worker-0@a s/reader-0@a");
  EXPECT_THAT(decision.places[1].devices, IsEmpty());
  HostRoom drained = Host("b", 2);
  drained.drains = true;
  PlacedJob running = Running("s", 1, {"a"});
  running.placed[kReaderName] = "b";
  EXPECT_EQ(PlacesOf(DecidePlacement({{Host("a", 2), drained}, {running}, {}})), "s/reader-0@a");
}

TEST(Placement, AJobWhoseReaderIsToBeOnADrainedHostGivesWay) {
  HostRoom drained = Host("b", 2);
  drained.drains = true;
  PlacedJob running = Running("s", 1, {"a"});
  running.placed[kReaderName] = running.reader_host = "b";
  EXPECT_THAT(DecidePlacement({{Host("a", 2), drained}, {running}, {}}).give_way,
              ElementsAre(Pair("s",
                               "host b is drained, and the job's reader is to be there "
                               "(data.stream.host)")));
}

TEST(Placement, TheLastSlotIsNotForAReader) {
  PlacedJob job = Running("s", 1, {});
  job.unplaced = {{kReaderName, Role::kReader}};
  Unplace(job, "worker-0");
  EXPECT_EQ(PlacesOf(DecidePlacement({{Host("a", 1)}, {job}, {}})), "s/worker-0@a");
  job.reader_host = "a";
  EXPECT_EQ(PlacesOf(DecidePlacement({{Host("a", 1)}, {job}, {}})), "s/reader-0@a");
}

TEST(Placement, TheQueueStartsWhatFits) {
  struct Case {
    const char* what;
    PlacementInput input;
    std::map<std::string, int32_t> starts;  // workers by job
    std::map<std::string, std::string> reasons;
  };
  const std::vector<HostRoom> four = {Host("h", 4)};
  const auto held = [](int32_t slots) {
    return Running("r", 1, std::vector<std::string>(static_cast<size_t>(slots), "h"));
  };
  const Case cases[] = {
      {"nothing is queued", {four, {}, {}}, {}, {}},
      {"the only one takes up to its most", {four, {}, {Queued("a", 1, 2, 3)}}, {{"a", 3}}, {}},
      {"and no more than is free", {four, {held(2)}, {Queued("b", 2, 1, 9)}}, {{"b", 2}}, {}},
      {"servers take slots, too", {four, {}, {Queued("a", 1, 1, 9, 2)}}, {{"a", 2}}, {}},
      {"the oldest goes first, whatever its name",
       {four, {}, {Queued("a", 2, 4, 4), Queued("z", 1, 4, 4)}},
       {{"z", 4}},
       {{"a", "needs 4 slots; 0 of 4 are free"}}},
      {"below its least it waits",
       {four, {held(3)}, {Queued("b", 2, 2, 2)}},
       {},
       {{"b", "needs 2 slots; 1 of 4 are free"}}},
      {"without a host agent nobody starts",
       {{}, {}, {Queued("a", 1, 1, 1)}},
       {},
       {{"a", "waits for a host agent"}}},
      {"nor with one that takes nothing new",
       {{{"h", "h", 4, false}}, {}, {Queued("a", 1, 1, 1)}},
       {},
       {{"a", "waits for a host agent"}}},
      {"one that can never fit holds nobody up",
       {four, {}, {Queued("huge", 1, 5, 5), Queued("b", 2, 4, 4)}},
       {{"b", 4}},
       {{"huge", "needs 5 slots; the cluster has 4"}}},
      {"jobs hold more than there is, after an agent came back with less",
       {{Host("h", 2)}, {held(3)}, {Queued("b", 2, 1, 1)}},
       {},
       {{"b", "needs 1 slot; 0 of 2 are free"}}},
      {"a host that is left out for a job has no slots for it",
       {{Host("h", 4), Host("i", 1)}, {}, {{"a", 1, 2, 2, 0, {"h"}}}},
       {},
       {{"a", "needs 2 slots; the cluster has 1"}}},
  };
  for (const Case& c : cases) {
    const PlacementDecision decision = DecidePlacement(c.input);
    EXPECT_EQ(decision.starts, c.starts) << c.what;
    EXPECT_EQ(decision.reasons, c.reasons) << c.what;
  }
}

TEST(Placement, WorkersFillOneNodeAfterTheOtherAndServersAreSpread) {
  const std::vector<HostRoom> hosts = {Host("a", 2), Host("b", 3), Host("c", 2)};
  EXPECT_EQ(PlacesOf(DecidePlacement({hosts, {}, {Queued("j", 1, 5, 5)}})),
            "j/worker-0@b j/worker-1@b j/worker-2@b j/worker-3@a j/worker-4@a");
  EXPECT_EQ(PlacesOf(DecidePlacement({hosts, {}, {Queued("j", 1, 2, 2, 3)}})),
            "j/server-0@b j/server-1@a j/server-2@c j/worker-0@b j/worker-1@b");
}

// Each task of a launcher is a host of its own on the machine that they share.
TEST(Placement, HostsOfOneNodeAreTakenTogether) {
  const std::vector<HostRoom> hosts = {
      {"t0", "m0", 1}, {"t1", "m1", 1}, {"t2", "m0", 1}, {"t3", "m1", 1}};
  EXPECT_EQ(PlacesOf(DecidePlacement({hosts, {}, {Queued("j", 1, 4, 4)}})),
            "j/worker-0@t0 j/worker-1@t2 j/worker-2@t1 j/worker-3@t3");
}

TEST(Placement, WhatWasLostComesBeforeWhatIsNew) {
  PlacedJob hurt = Running("hurt", 1, {"a"});
  Unplace(hurt, "worker-1");
  const PlacementDecision decision =
      DecidePlacement({{Host("a", 1), Host("b", 1)}, {hurt}, {Queued("new", 2, 1, 1)}});
  EXPECT_EQ(PlacesOf(decision), "hurt/worker-1@b");
  EXPECT_THAT(decision.reasons, ElementsAre(Pair("new", "needs 1 slot; 0 of 2 are free")));
}

TEST(Placement, AMemberIsNotPlacedWhereItsJobIsLeftOut) {
  PlacedJob hurt = Running("hurt", 1, {"a"});
  Unplace(hurt, "worker-1");
  hurt.left_out = {"b"};
  const std::vector<HostRoom> hosts = {Host("a", 1), Host("b", 4)};
  EXPECT_THAT(DecidePlacement({hosts, {hurt}, {}}).places, IsEmpty());
  hurt.left_out = {};
  EXPECT_EQ(PlacesOf(DecidePlacement({hosts, {hurt}, {}})), "hurt/worker-1@b");
}

TEST(Placement, JobsGrowIntoWhatNobodyWaitsFor) {
  PlacedJob small = Running("small", 1, {"a"});
  small.workers_max = 6;
  small.may_grow = true;
  const std::vector<HostRoom> hosts = {Host("a", 2), Host("b", 1)};
  PlacementDecision decision = DecidePlacement({hosts, {small}, {}});
  EXPECT_EQ(PlacesOf(decision), "small/worker-1@a small/worker-2@b");
  EXPECT_THAT(decision.grows, ElementsAre(Pair("small", 2)));
  // Somebody waits who needs more than is free: it would wait longer.
  decision = DecidePlacement({hosts, {small}, {Queued("next", 2, 3, 3)}});
  EXPECT_THAT(decision.places, IsEmpty());
  EXPECT_THAT(decision.grows, IsEmpty());
  // One that can never start keeps nobody from growing.
  decision = DecidePlacement({hosts, {small}, {Queued("huge", 2, 9, 9)}});
  EXPECT_THAT(decision.grows, ElementsAre(Pair("small", 2)));
}

// Two hosts of node a, and one of node b.
TEST(Placement, NodesThatAreKeptApartShareNoJob) {
  const std::vector<HostRoom> hosts = {{"a1", "a", 2}, {"a2", "a", 1}, {"b", "b", 3}};
  PlacedJob job = Running("j", 1, {"a1"});
  job.unplaced = {
      {"worker-1", Role::kWorker}, {"worker-2", Role::kWorker}, {"server-0", Role::kServer}};
  EXPECT_EQ(PlacesOf(DecidePlacement({hosts, {job}, {}})),
            "j/worker-1@a1 j/worker-2@a2 j/server-0@b");
  job.apart = {{"a", "b"}};
  EXPECT_EQ(PlacesOf(DecidePlacement({hosts, {job}, {}})), "j/worker-1@a1 j/worker-2@a2");
  job.apart = {{"a", "c"}};
  EXPECT_EQ(PlacesOf(DecidePlacement({hosts, {job}, {}})),
            "j/worker-1@a1 j/worker-2@a2 j/server-0@b");
  // It does not grow there either.
  job = Running("j", 1, {"b", "b", "b"});
  job.apart = {{"a", "b"}};
  job.may_grow = true;
  job.workers_max = 5;
  const PlacementDecision decision = DecidePlacement({hosts, {job}, {}});
  EXPECT_EQ(PlacesOf(decision), "");
  EXPECT_THAT(decision.grows, IsEmpty());
  // Where none of its members is on either, the first one decides.
  job = Running("j", 1, {});
  job.apart = {{"a", "b"}};
  job.unplaced = {{"worker-0", Role::kWorker}, {"worker-1", Role::kWorker}};
  EXPECT_EQ(PlacesOf(DecidePlacement({hosts, {job}, {}})), "j/worker-0@b j/worker-1@b");
}

TEST(Placement, NewWorkersTakeTheNamesThatAreFree) {
  PlacedJob job = Running("j", 1, {"a", "a", "a"});
  job.placed.erase("worker-1");
  std::erase(job.workers, "worker-1");
  job.workers_max = 4;
  job.may_grow = true;
  EXPECT_EQ(PlacesOf(DecidePlacement({{Host("a", 4)}, {job}, {}})), "j/worker-1@a j/worker-3@a");
}

// The head needs 6 of 8 slots and 3 are free: whoever passes it may hold 2 in all.
TEST(Placement, WhoPassesTheHeadTakesOnlyWhatTheHeadLeaves) {
  const std::vector<HostRoom> hosts = {Host("a", 5), Host("b", 3)};
  const PlacedJob elder = Running("elder", 1, {"a", "a", "a", "a", "a"});
  const QueuedJob head = Queued("head", 2, 6, 8);
  EXPECT_THAT(DecidePlacement({hosts, {elder}, {head, Queued("small", 3, 1, 3)}}).starts,
              ElementsAre(Pair("small", 2)));
  const PlacedJob small = Running("small", 3, {"b", "b"});
  const PlacementDecision third =
      DecidePlacement({hosts, {elder, small}, {head, Queued("third", 4, 1, 1)}});
  EXPECT_THAT(third.starts, IsEmpty());
  EXPECT_THAT(third.reasons, ElementsAre(Pair("head", "needs 6 slots; 1 of 8 are free"),
                                         Pair("third",
                                              "needs 1 slot; they are kept for head, which was "
                                              "submitted before")));
  // The elder ends: the head fits, though a job that passed it still runs.
  EXPECT_THAT(DecidePlacement({hosts, {small}, {head, Queued("third", 4, 1, 1)}}).starts,
              ElementsAre(Pair("head", 6)));
}

TEST(Placement, MoreWorkersThanAJobMayHaveLeave) {
  const std::vector<HostRoom> hosts = {Host("a", 4)};
  PlacedJob job = Elastic("j", 1, {"a", "a", "a"}, 1, 1);
  EXPECT_EQ(LeavesOf(DecidePlacement({hosts, {job}, {}})), "j/worker-1 scaled, j/worker-2 scaled");
  // Those that wait for room are not placed first.
  job = Elastic("j", 1, {"a", "a"}, 1, 2);
  Unplace(job, "worker-2");
  job.workers_max = 2;
  const PlacementDecision decision = DecidePlacement({hosts, {job}, {}});
  EXPECT_EQ(LeavesOf(decision), "j/worker-2 scaled");
  EXPECT_THAT(decision.places, IsEmpty());
}

TEST(Placement, JobsMakeRoomForTheHeadOfTheQueue) {
  const std::vector<HostRoom> hosts = {Host("a", 4)};
  const PlacedJob older = Elastic("older", 1, {"a", "a"}, 1, 2);
  const PlacedJob newer = Elastic("newer", 2, {"a", "a"}, 1, 2);
  const auto leaves = [&](std::vector<PlacedJob> running, std::vector<QueuedJob> queued) {
    return LeavesOf(DecidePlacement({hosts, std::move(running), std::move(queued)}));
  };
  EXPECT_EQ(leaves({older, newer}, {}), "");
  EXPECT_EQ(leaves({older, newer}, {Queued("head", 3, 1, 4)}), "newer/worker-1 makes room");
  EXPECT_EQ(leaves({older, newer}, {Queued("head", 3, 2, 4)}),
            "newer/worker-1 makes room, older/worker-1 makes room");
  EXPECT_EQ(leaves({older, newer}, {Queued("head", 3, 3, 4)}), "") << "it would not fit then";
  EXPECT_EQ(leaves({older, newer}, {Queued("huge", 3, 9, 9), Queued("head", 4, 1, 1)}),
            "newer/worker-1 makes room");
  PlacedJob busy = newer;
  busy.may_shrink = false;
  EXPECT_EQ(leaves({older, busy}, {Queued("head", 3, 1, 4)}), "older/worker-1 makes room");
}

TEST(Placement, WhatBeganGoesOnWhileAHostIsAway) {
  std::vector<HostRoom> hosts = {Host("a", 2), Host("b", 2)};
  hosts[1].takes_new = false;
  PlacedJob job = Elastic("j", 1, {"a", "a"}, 1, 2);
  EXPECT_EQ(LeavesOf(DecidePlacement({hosts, {job}, {Queued("head", 2, 1, 1)}})), "");
  job.leaving = {"worker-1"};
  EXPECT_EQ(LeavesOf(DecidePlacement({hosts, {job}, {Queued("head", 2, 1, 1)}})),
            "j/worker-1 makes room");
}

TEST(Placement, WhatIsMadeForTheHeadIsKeptForIt) {
  const std::vector<HostRoom> hosts = {Host("a", 4)};
  const PlacedJob elastic = Elastic("elastic", 1, {"a", "a", "a"}, 1, 3);
  const PlacementDecision decision =
      DecidePlacement({hosts, {elastic}, {Queued("head", 2, 3, 3), Queued("small", 3, 1, 1)}});
  EXPECT_EQ(LeavesOf(decision), "elastic/worker-1 makes room, elastic/worker-2 makes room");
  EXPECT_THAT(decision.starts, IsEmpty());
}

TEST(Placement, MembersOfADrainedHostLeaveAndNothingNewComes) {
  std::vector<HostRoom> hosts = {Host("a", 4), Host("b", 4)};
  hosts[0].drains = true;
  // As many as leave the job its least number of workers.
  EXPECT_EQ(LeavesOf(DecidePlacement({hosts, {Elastic("j", 1, {"a", "a", "b"}, 1, 3)}, {}})),
            "j/worker-0 drained, j/worker-1 drained");
  // Else others come first, on another host.
  const PlacedJob whole = Elastic("j", 1, {"a", "a"}, 2, 2);
  PlacementDecision decision = DecidePlacement({hosts, {whole}, {Queued("next", 2, 3, 3)}});
  EXPECT_EQ(LeavesOf(decision), "j/worker-0 drained, j/worker-1 drained");
  EXPECT_EQ(PlacesOf(decision), "j/worker-2@b j/worker-3@b");
  EXPECT_THAT(decision.reasons, ElementsAre(Pair("next", "needs 3 slots; 2 of 4 are free")));
  // Where there is no room they stay, those with the lowest ranks.
  hosts[1].slots = 1;
  decision = DecidePlacement({hosts, {whole}, {}});
  EXPECT_EQ(LeavesOf(decision), "j/worker-1 drained");
  EXPECT_EQ(PlacesOf(decision), "j/worker-2@b");
}

TEST(Placement, AHostThatEndsWaitsForNoRoom) {
  std::vector<HostRoom> hosts = {Host("a", 4), Host("b", 4)};
  hosts[0].drains = hosts[0].ends = true;
  EXPECT_EQ(LeavesOf(DecidePlacement({hosts, {Elastic("j", 1, {"a", "b"}, 1, 2)}, {}})),
            "j/worker-0 drained");
  const PlacementDecision decision =
      DecidePlacement({hosts, {Elastic("j", 1, {"a", "b"}, 2, 2)}, {}});
  EXPECT_EQ(LeavesOf(decision), "");
  EXPECT_THAT(decision.places, IsEmpty());
  EXPECT_THAT(decision.give_way,
              ElementsAre(Pair("j",
                               "host a ends, and without it the job has fewer than "
                               "workers.min")));
}

// They keep no state, and may wait for long.
TEST(Placement, WorkersWithoutAPlaceDoNotStayInTheStead) {
  std::vector<HostRoom> hosts = {Host("a", 2), Host("b", 1)};
  hosts[0].drains = true;
  PlacedJob job = Elastic("j", 1, {"a", "b"}, 2, 2);
  Unplace(job, "worker-2");
  EXPECT_EQ(LeavesOf(DecidePlacement({hosts, {job}, {}})), "") << "two are to stay";
  hosts[0].ends = true;
  EXPECT_EQ(DecidePlacement({hosts, {job}, {}}).give_way.size(), 1u);
}

TEST(Placement, NothingIsPlacedWhileItIsNotKnownWhichNodesAreApart) {
  std::vector<HostRoom> hosts = {Host("a", 2), Host("b", 1)};
  hosts[0].node = "";  // its agent is not back after a restart
  hosts[0].takes_new = false;
  PlacedJob job = Elastic("j", 1, {"a"}, 1, 2);
  Unplace(job, "worker-1");
  job.apart = {{"a", "b"}};
  EXPECT_THAT(DecidePlacement({hosts, {job}, {}}).places, IsEmpty());
  job.apart = {};
  EXPECT_EQ(PlacesOf(DecidePlacement({hosts, {job}, {}})), "j/worker-1@b");
}

TEST(Placement, AJobWithAServerOnADrainedHostGivesWay) {
  std::vector<HostRoom> hosts = {Host("a", 4), Host("b", 4)};
  hosts[0].drains = true;
  PlacedJob job = Elastic("j", 1, {"b", "b"}, 1, 2);
  job.placed["server-0"] = "a";
  EXPECT_THAT(DecidePlacement({hosts, {job}, {}}).give_way,
              ElementsAre(Pair("j",
                               "host a is drained, and a server cannot leave while the job "
                               "runs")));
}

PlacedJob With(PlacedJob job, int32_t priority, const std::string& name_space = "") {
  job.priority = priority;
  job.name_space = name_space;
  return job;
}
QueuedJob With(QueuedJob job, int32_t priority, const std::string& name_space = "") {
  job.priority = priority;
  job.name_space = name_space;
  return job;
}

std::vector<std::string> GivingWay(const PlacementDecision& decision) {
  std::vector<std::string> ids;
  for (const auto& [id, why] : decision.give_way) ids.push_back(id);
  return ids;
}

TEST(Placement, HigherPrioritiesGoFirstAndThenWhoCameFirst) {
  const std::vector<HostRoom> hosts = {Host("a", 2)};
  const PlacementDecision decision =
      DecidePlacement({hosts,
                       {},
                       {Queued("first", 1, 2, 2), With(Queued("later", 3, 2, 2), 5),
                        With(Queued("high", 2, 2, 2), 5), With(Queued("low", 0, 1, 1), -1)}});
  EXPECT_THAT(decision.starts, ElementsAre(Pair("high", 2)));
  EXPECT_THAT(decision.reasons, ElementsAre(Pair("first", "needs 2 slots; 0 of 2 are free"),
                                            Pair("later", "needs 2 slots; 0 of 2 are free"),
                                            Pair("low", "needs 1 slot; 0 of 2 are free")));
  // What is kept for the head is not given to one that came before it.
  const PlacementDecision kept =
      DecidePlacement({{Host("a", 3)},
                       {Running("r", 1, {"a", "a"})},
                       {Queued("older", 2, 1, 1), With(Queued("head", 3, 3, 3), 0)}});
  EXPECT_THAT(kept.starts, ElementsAre(Pair("older", 1)));
  EXPECT_THAT(DecidePlacement({{Host("a", 3)},
                               {With(Running("r", 1, {"a", "a"}), 9)},
                               {Queued("older", 2, 1, 1), With(Queued("head", 3, 3, 3), 1)}})
                  .reasons,
              ElementsAre(Pair("head", "needs 3 slots; 1 of 3 are free"),
                          Pair("older",
                               "needs 1 slot; they are kept for head, which has a higher "
                               "priority")));
}

TEST(Placement, WhoWaitsTakesPlacesOfLowerPriorities) {
  struct Case {
    const char* what;
    std::vector<PlacedJob> running;
    QueuedJob waiting;
    std::vector<std::string> give_way;
    std::string leaves;
  };
  const std::vector<HostRoom> hosts = {Host("a", 4)};
  const QueuedJob two = With(Queued("w", 9, 2, 2), 5);
  const auto pair_of = [](const std::string& id, int64_t submission, int32_t priority) {
    return With(Running(id, submission, {"a", "a"}), priority);
  };
  const Case cases[] = {
      {"never an equal one", {pair_of("r", 1, 5), pair_of("s", 2, 5)}, two, {}, ""},
      {"never a higher one", {pair_of("r", 1, 6), pair_of("s", 2, 7)}, two, {}, ""},
      {"the lowest", {pair_of("r", 1, 2), pair_of("s", 2, 1)}, two, {"s"}, ""},
      {"of equals the newest", {pair_of("r", 1, 1), pair_of("s", 2, 1)}, two, {"s"}, ""},
      {"who can shrink shrinks",
       {pair_of("r", 1, 0), With(Elastic("e", 2, {"a", "a"}, 1, 2), 1)},
       With(Queued("w", 9, 1, 1), 5),
       {},
       "e/worker-1 makes room"},
      {"a higher one does not even shrink",
       {With(Elastic("r", 1, {"a", "a"}, 1, 2), 6), With(Elastic("s", 2, {"a", "a"}, 1, 2), 6)},
       two,
       {},
       ""},
      {"as many as are needed",
       {pair_of("r", 1, 1), pair_of("s", 2, 2)},
       With(Queued("w", 9, 4, 4), 5),
       {"r", "s"},
       ""},
      {"nobody in vain",
       {pair_of("r", 1, 5), pair_of("s", 2, 1)},
       With(Queued("w", 9, 3, 3), 5),
       {},
       ""},
      {"no more than are needed, though more were looked at",
       {With(Running("r", 1, {"a", "a", "a"}), 2), With(Running("s", 2, {"a"}), 1)},
       With(Queued("w", 9, 3, 3), 5),
       {"r"},
       ""},
      {"nor does anybody shrink then",
       {With(Running("r", 1, {"a", "a"}), 1), With(Elastic("e", 2, {"a", "a"}, 1, 2), 5)},
       two,
       {"r"},
       ""},
  };
  for (const Case& c : cases) {
    const PlacementDecision decision = DecidePlacement({hosts, c.running, {c.waiting}});
    EXPECT_EQ(GivingWay(decision), c.give_way) << c.what;
    EXPECT_EQ(decision.preempted, std::set<std::string>(c.give_way.begin(), c.give_way.end()))
        << c.what;
    EXPECT_EQ(LeavesOf(decision), c.leaves) << c.what;
    EXPECT_THAT(decision.starts, IsEmpty()) << c.what;
  }
}

// Who sees the jobs of one namespace is told nothing of others.
TEST(Placement, JobsAreNamedWithinTheirNamespaceOnly) {
  const PlacedJob low = With(Running("low", 1, {"a", "a"}), 0, "n");
  const auto why = [&](const std::string& name_space) {
    const QueuedJob head = With(Queued("head", 2, 2, 2), 1, name_space);
    return DecidePlacement({{Host("a", 2)}, {low}, {head}}).give_way.at("low");
  };
  EXPECT_EQ(why("n"), "job head has a higher priority and needs its places");
  EXPECT_EQ(why("m"), "a job of another namespace has a higher priority and needs its places");
  const auto waits = [&](const std::string& name_space) {
    const QueuedJob head = With(Queued("head", 2, 3, 3), 0, name_space);
    const QueuedJob later = With(Queued("later", 3, 1, 1), 0, "n");
    return DecidePlacement({{Host("a", 3)}, {low}, {head, later}}).reasons.at("later");
  };
  EXPECT_EQ(waits("n"), "needs 1 slot; they are kept for head, which was submitted before");
  EXPECT_EQ(waits("m"),
            "needs 1 slot; they are kept for a job of another namespace, which was submitted "
            "before");
}

TEST(Placement, WhoStopsAlreadyIsWaitedForAndNobodyElseStops) {
  PlacedJob stops = With(Running("r", 1, {"a", "a"}), 1);
  stops.stops = true;
  const PlacementDecision decision =
      DecidePlacement({{Host("a", 4)},
                       {stops, With(Running("s", 2, {"a", "a"}), 0)},
                       {With(Queued("w", 3, 2, 2), 5), Queued("small", 4, 1, 1)}});
  EXPECT_THAT(decision.give_way, IsEmpty());
  EXPECT_THAT(decision.starts, IsEmpty());
}

TEST(Placement, NobodyIsPreemptedOnHostsThatTheJobCannotUse) {
  QueuedJob waiting = With(Queued("w", 9, 2, 2), 5);
  waiting.left_out = {"a"};
  const std::vector<HostRoom> hosts = {Host("a", 2), Host("b", 2)};
  const PlacedJob on_a = With(Running("r", 1, {"a", "a"}), 0);
  const PlacedJob on_b = With(Running("s", 2, {"b", "b"}), 1);
  EXPECT_THAT(GivingWay(DecidePlacement({hosts, {on_a, on_b}, {waiting}})), ElementsAre("s"));
  std::vector<HostRoom> away = hosts;
  away[0].takes_new = false;
  EXPECT_THAT(GivingWay(DecidePlacement({away, {on_a, on_b}, {With(Queued("w", 9, 2, 2), 5)}})),
              IsEmpty())
      << "it may come back with room";
}

TEST(Placement, AHostTakesJobsOfItsNamespaceOnly) {
  const auto host = [](const std::string& name, int32_t slots, const std::string& name_space) {
    HostRoom room = Host(name, slots);
    room.name_space = name_space;
    return room;
  };
  const std::vector<HostRoom> hosts = {host("v", 2, "vision"), host("s", 4, "speech")};
  const auto queued = [](const std::string& id, int64_t submission, int32_t workers,
                         const std::string& name_space) {
    return With(Queued(id, submission, workers, workers), 0, name_space);
  };
  struct Case {
    const char* what;
    std::vector<PlacedJob> running;
    std::vector<QueuedJob> queued;
    std::string places;
    std::map<std::string, std::string> reasons;
  };
  PlacedJob waits = With(Running("r", 1, {"v"}), 0, "vision");
  Unplace(waits, "worker-1");
  Unplace(waits, "worker-2");
  // Its namespace was changed while it ran.
  const PlacedJob moved = With(Running("m", 1, {"v", "v"}), 0, "speech");
  PlacedJob grows = With(Elastic("g", 1, {"v"}, 1, 9), 0, "vision");
  grows.may_grow = true;
  const Case cases[] = {
      {"each job where its namespace is",
       {},
       {queued("a", 1, 2, "vision"), queued("b", 2, 1, "speech")},
       "b/worker-0@s a/worker-0@v a/worker-1@v",
       {}},
      {"what others have free is nothing to it",
       {},
       {queued("a", 1, 3, "vision")},
       "",
       {{"a", "needs 3 slots; the cluster has 2 for namespace vision"}}},
      {"one without a host waits for one",
       {},
       {queued("a", 1, 1, "text")},
       "",
       {{"a", "waits for a host agent for namespace text"}}},
      {"the head of one holds up no other",
       {With(Running("r", 1, {"v"}), 0, "vision")},
       {queued("a", 2, 2, "vision"), queued("b", 3, 4, "speech")},
       "b/worker-0@s b/worker-1@s b/worker-2@s b/worker-3@s",
       {{"a", "needs 2 slots; 1 of 2 for namespace vision are free"}}},
      {"what has lost its place gets one there", {waits}, {}, "r/worker-1@v", {}},
      {"it grows there, and no further", {grows}, {}, "g/worker-1@v", {}},
      {"who was moved to another keeps its slots until it leaves",
       {moved},
       {queued("a", 2, 1, "vision")},
       "",
       {{"a", "needs 1 slot; the cluster has 0 for namespace vision"}}},
  };
  for (const Case& c : cases) {
    const PlacementDecision decision = DecidePlacement({hosts, c.running, c.queued});
    EXPECT_EQ(PlacesOf(decision), c.places) << c.what;
    EXPECT_EQ(decision.reasons, c.reasons) << c.what;
  }
}

TEST(Placement, NamespacesHoldNoMoreThanTheirQuotas) {
  struct Case {
    const char* what;
    std::vector<PlacedJob> running;
    std::vector<QueuedJob> queued;
    std::map<std::string, int32_t> starts;
    std::map<std::string, std::string> reasons;
    std::string leaves;
    std::vector<std::string> give_way;
  };
  const auto held = [](const std::string& id, int32_t priority = 0) {
    return With(Running(id, 1, {"a", "a"}), priority, "n");
  };
  const Case cases[] = {
      {"a job takes what is left of it",
       {held("r")},
       {With(Queued("q", 2, 1, 4), 0, "n")},
       {{"q", 1}},
       {},
       "",
       {}},
      {"one that waits for it holds up nobody else",
       {held("r")},
       {With(Queued("q", 2, 2, 2), 0, "n"), With(Queued("o", 3, 4, 4), 0, "m")},
       {{"o", 4}},
       {{"q", "needs 2 slots; namespace n holds 2 of its quota of 3"}},
       "",
       {}},
      {"but those of its namespace",
       {held("r")},
       {With(Queued("q", 2, 2, 2), 0, "n"), With(Queued("p", 3, 1, 1), 0, "n")},
       {},
       {{"q", "needs 2 slots; namespace n holds 2 of its quota of 3"},
        {"p",
         "needs 1 slot; what is left of the quota of namespace n is kept for q, which comes "
         "first"}},
       "",
       {}},
      {"one that never fits holds up nobody",
       {held("r")},
       {With(Queued("q", 2, 4, 4), 0, "n"), With(Queued("p", 3, 1, 1), 0, "n")},
       {{"p", 1}},
       {{"q", "needs 4 slots; the quota of namespace n is 3"}},
       "",
       {}},
      {"jobs of it shrink",
       {With(Elastic("e", 1, {"a", "a", "a"}, 1, 3), 0, "n")},
       {With(Queued("q", 2, 2, 2), 0, "n")},
       {},
       {{"q", "needs 2 slots; namespace n holds 3 of its quota of 3"}},
       "e/worker-1 makes room, e/worker-2 makes room",
       {}},
      {"or give way to a higher priority; those of others do not",
       {held("r", 1), With(Running("o", 3, {"a"}), 0, "m")},
       {With(Queued("q", 2, 2, 2), 2, "n")},
       {},
       {{"q", "needs 2 slots; namespace n holds 2 of its quota of 3"}},
       "",
       {"r"}},
      {"who holds more than a quota that was lowered shrinks",
       {With(Elastic("e", 1, {"a", "a", "a", "a", "a"}, 1, 5), 0, "n")},
       {},
       {},
       {},
       "e/worker-3 quota, e/worker-4 quota",
       {}},
      {"as far as it can",
       {With(Elastic("e", 1, {"a", "a", "a", "a", "a"}, 4, 5), 0, "n")},
       {},
       {},
       {},
       "e/worker-4 quota",
       {}},
  };
  for (const Case& c : cases) {
    const PlacementDecision decision =
        DecidePlacement({{Host("a", 8)}, c.running, c.queued, {{"n", 3}}});
    EXPECT_EQ(decision.starts, c.starts) << c.what;
    EXPECT_EQ(decision.reasons, c.reasons) << c.what;
    EXPECT_EQ(LeavesOf(decision), c.leaves) << c.what;
    EXPECT_EQ(GivingWay(decision), c.give_way) << c.what;
  }
  PlacedJob grows = With(Elastic("e", 1, {"a", "a"}, 1, 9), 0, "n");
  grows.may_grow = true;
  EXPECT_THAT(DecidePlacement({{Host("a", 8)}, {grows}, {}, {{"n", 3}}}).grows,
              ElementsAre(Pair("e", 1)));
}

// Somebody who gives way for a quota waits in the queue then, and must not take it again.
TEST(Placement, NobodyGivesWayForAQuotaInVain) {
  const std::vector<HostRoom> hosts = {Host("a", 8)};
  const auto held = [](const std::string& id, int64_t submission, size_t slots, int32_t priority,
                       const std::string& name_space) {
    return With(Running(id, submission, std::vector<std::string>(slots, "a")), priority,
                name_space);
  };
  const PlacedJob v = held("v", 2, 2, 0, "n");
  const QueuedJob w = With(Queued("w", 3, 3, 3), 2, "n");
  const auto decided = [&](std::vector<PlacedJob> running, std::vector<QueuedJob> queued) {
    return DecidePlacement({hosts, std::move(running), std::move(queued), {{"n", 3}}});
  };
  EXPECT_THAT(GivingWay(decided({held("o", 1, 6, 5, "m"), v}, {w})), IsEmpty())
      << "there would be two slots for it";
  EXPECT_THAT(GivingWay(decided({held("o", 1, 5, 5, "m"), v}, {w})), ElementsAre("v"));
  EXPECT_THAT(GivingWay(decided({held("o", 1, 6, 0, "m"), v}, {w})), ElementsAre("v"))
      << "once it is the head, others make room for it";
  PlacedJob stops = held("o", 1, 6, 5, "m");
  stops.stops = true;
  EXPECT_THAT(GivingWay(decided({stops, v}, {w})), ElementsAre("v")) << "there will be";
  // Behind a head that leaves two slots to others.
  EXPECT_THAT(
      GivingWay(decided({held("o", 1, 5, 9, "m"), v}, {With(Queued("x", 4, 6, 6), 9, "m"), w})),
      IsEmpty());
}

TEST(Placement, NobodyPassesTheHeadIntoItsQuota) {
  const PlacedJob other = With(Running("o", 1, std::vector<std::string>(6, "a")), 5, "m");
  const QueuedJob head = With(Queued("w", 3, 3, 3), 2, "n");
  const auto decided = [&](const QueuedJob& later, int32_t quota) {
    return DecidePlacement({{Host("a", 8)}, {other}, {head, later}, {{"n", quota}}});
  };
  const QueuedJob same = With(Queued("v", 2, 2, 2), 0, "n");
  const PlacementDecision decision = decided(same, 3);
  EXPECT_THAT(decision.starts, IsEmpty());
  EXPECT_EQ(decision.reasons.at("v"),
            "needs 2 slots; what is left of the quota of namespace n is kept for w, which comes "
            "first");
  EXPECT_THAT(decided(same, 5).starts, ElementsAre(Pair("v", 2))) << "both have room in it";
  EXPECT_THAT(decided(With(Queued("v", 2, 2, 2), 0, "k"), 3).starts, ElementsAre(Pair("v", 2)));
}

// ---- devices

HostRoom With(HostRoom host, std::vector<std::string> devices, std::set<std::string> held = {}) {
  host.devices = std::move(devices);
  host.held = std::move(held);
  return host;
}

QueuedJob Needs(QueuedJob job, int32_t devices) {
  job.devices_each = devices;
  return job;
}

// Its workers have these, in turn.
PlacedJob Has(PlacedJob job, int32_t each, const std::vector<std::vector<std::string>>& devices) {
  job.devices_each = each;
  for (size_t i = 0; i < devices.size(); ++i)
    if (!devices[i].empty()) job.devices[absl::StrCat("worker-", i)] = devices[i];
  return job;
}

// "j/worker-0@a:0,1"
std::string DevicesOf(const PlacementDecision& decision) {
  return absl::StrJoin(
      decision.places, " ", [](std::string* out, const PlacementDecision::Place& place) {
        absl::StrAppend(out, place.job, "/", place.member.name, "@", place.host,
                        place.devices.empty() ? "" : ":", absl::StrJoin(place.devices, ","));
      });
}

TEST(Placement, WhoWasMovedToAnotherNamespaceKeepsItsDevicesUntilItLeaves) {
  HostRoom host = With(Host("v", 4), {"0", "1"});
  host.name_space = "vision";
  const PlacedJob moved = With(Has(Running("m", 1, {"v"}), 1, {{"0"}}), 0, "speech");
  const auto decide = [&](int32_t devices) {
    return DecidePlacement(
        {{host}, {moved}, {With(Needs(Queued("a", 2, 1, 2), devices), 0, "vision")}});
  };
  EXPECT_EQ(DevicesOf(decide(1)), "a/worker-0@v:1");
  EXPECT_THAT(decide(2).reasons,
              ElementsAre(Pair("a",
                               "needs 2 devices for each worker; no host for namespace vision has "
                               "more than 1")));
}

TEST(Placement, WorkersGetTheirDevicesWithTheirSlot) {
  struct Case {
    const char* what;
    PlacementInput input;
    std::string places;
    std::map<std::string, std::string> reasons{};
  };
  const HostRoom a = With(Host("a", 4), {"0", "1"}), b = With(Host("b", 4), {"0", "1", "2"});
  const auto holder = Has(Running("r", 1, {"a"}), 1, {{"0"}});
  const Case cases[] = {
      {"the first ones that are free, in the order of the host",
       {{With(Host("a", 4), {"1", "0"})}, {}, {Needs(Queued("j", 1, 1, 9), 1)}},
       "j/worker-0@a:1 j/worker-1@a:0"},
      {"what is placed has its own",
       {{a}, {holder}, {Needs(Queued("j", 2, 1, 9), 1)}},
       "j/worker-0@a:1"},
      {"and what is held is not free",
       {{With(Host("a", 4), {"0", "1"}, {"1"})}, {holder}, {Needs(Queued("j", 2, 1, 9), 1)}},
       "",
       {{"j", "needs 1 worker with 1 device each; enough are free for 0 of 2"}}},
      {"the host goes first into which most of them fit",
       {{a, b}, {}, {Needs(Queued("j", 1, 4, 4), 1)}},
       "j/worker-0@b:0 j/worker-1@b:1 j/worker-2@b:2 j/worker-3@a:0"},
      {"two on two hosts are not two on one",
       {{With(Host("a", 4), {"0"}), With(Host("b", 4), {"0"})},
        {},
        {Needs(Queued("j", 1, 1, 1), 2), Queued("k", 2, 1, 1)}},
       "k/worker-0@a",
       {{"j", "needs 2 devices for each worker; no host has more than 1"}}},
      {"nor three on two",
       {{a, b}, {}, {Needs(Queued("j", 1, 3, 3), 2)}},
       "",
       {{"j", "needs 3 workers with 2 devices each; the hosts have enough for 2"}}},
      {"nobody has any",
       {{Host("a", 4)}, {}, {Needs(Queued("j", 1, 1, 1), 1)}},
       "",
       {{"j", "needs 1 device for each worker; no host has any (muster agent --devices)"}}},
      {"it holds up nobody who can never fit",
       {{a}, {}, {Needs(Queued("j", 1, 1, 1), 3), Queued("k", 2, 4, 4)}},
       "k/worker-0@a k/worker-1@a k/worker-2@a k/worker-3@a",
       {{"j", "needs 3 devices for each worker; no host has more than 2"}}},
      {"slots count, too",
       {{With(Host("a", 1), {"0", "1"})}, {}, {Needs(Queued("j", 1, 1, 2), 1)}},
       "j/worker-0@a:0"},
      {"workers come before servers, which would take their slots",
       {{With(Host("a", 2), {"0", "1"}), Host("b", 1)}, {}, {Needs(Queued("j", 1, 2, 2, 1), 1)}},
       "j/worker-0@a:0 j/worker-1@a:1 j/server-0@b"},
      {"who needs none leaves them to others",
       {{a, Host("z", 1)}, {}, {Queued("j", 1, 1, 1)}},
       "j/worker-0@z"},
      {"a device host that is away counts for whether it could fit",
       {{{"a", "a", 4, false, false, false, {"0"}}, Host("b", 4)},
        {},
        {Needs(Queued("j", 1, 1, 1), 1)}},
       "",
       {{"j", "needs 1 worker with 1 device each; enough are free for 0 of 1"}}},
  };
  for (const Case& c : cases) {
    const PlacementDecision decision = DecidePlacement(c.input);
    EXPECT_EQ(DevicesOf(decision), c.places) << c.what;
    EXPECT_EQ(decision.reasons, c.reasons) << c.what;
  }
}

TEST(Placement, WhatWasLostGetsDevicesWorkersFirst) {
  PlacedJob hurt = Has(Running("r", 1, {}), 1, {});
  hurt.unplaced = {{"server-0", Role::kServer}, {"worker-0", Role::kWorker}};
  hurt.workers = {"worker-0"};
  hurt.workers_max = 1;
  EXPECT_EQ(DevicesOf(DecidePlacement({{With(Host("a", 1), {"0"})}, {hurt}, {}})),
            "r/worker-0@a:0");
}

TEST(Placement, RoomForDevicesIsMadeOnOneHost) {
  const std::vector<HostRoom> hosts = {With(Host("a", 4), {"0", "1"}),
                                       With(Host("b", 4), {"0", "1"})};
  const std::vector<std::vector<std::string>> taken = {{"0"}, {"0"}, {"1"}, {"1"}};
  const PlacedJob elastic =
      Has(Elastic("e", 1, {"a", "b", "b", "a"}, 1, 4), 1, taken);  // a b b a by worker
  const QueuedJob head = Needs(Queued("j", 2, 1, 1), 2);
  EXPECT_EQ(LeavesOf(DecidePlacement({hosts, {elastic}, {head}})),
            "e/worker-0 makes room, e/worker-3 makes room");

  PlacedJob two_of_four = elastic;
  two_of_four.workers_min = 3;
  EXPECT_EQ(LeavesOf(DecidePlacement({hosts, {two_of_four}, {head}})), "")
      << "one that leaves does not suffice";

  // Who was told to leave goes, and nobody else.
  PlacedJob begun = elastic;
  begun.leaving = {"worker-1", "worker-2"};
  EXPECT_EQ(LeavesOf(DecidePlacement({hosts, {begun}, {head}})),
            "e/worker-1 makes room, e/worker-2 makes room");

  // What a process still has comes free without anybody.
  const std::vector<HostRoom> ending = {With(Host("a", 4), {"0", "1"}, {"1"})};
  const PlacementDecision waits =
      DecidePlacement({ending, {Has(Elastic("e", 1, {"a", "a"}, 1, 2), 0, {})}, {head}});
  EXPECT_EQ(LeavesOf(waits), "");
  EXPECT_THAT(waits.starts, IsEmpty());

  // Whose host has no devices gains nothing.
  const std::vector<HostRoom> mixed = {With(Host("a", 4), {"0", "1"}), Host("c", 4)};
  const PlacedJob apart = Has(Elastic("e", 1, {"a", "c", "c"}, 1, 3), 0, {});
  PlacedJob pinned = Has(Running("p", 2, {"a", "a"}), 1, {{"0"}, {"1"}});
  EXPECT_EQ(LeavesOf(DecidePlacement({mixed, {apart, pinned}, {Needs(Queued("j", 3, 1, 1), 2)}})),
            "");
  pinned.priority = -1;
  const PlacementDecision preempts =
      DecidePlacement({mixed, {apart, pinned}, {Needs(Queued("j", 3, 1, 1), 2)}});
  EXPECT_EQ(LeavesOf(preempts), "");
  EXPECT_THAT(preempts.preempted, ElementsAre("p"));
}

TEST(Placement, WhoPassesTheHeadLeavesItsDevices) {
  const std::vector<HostRoom> hosts = {With(Host("a", 8), {"0", "1", "2", "3"})};
  const PlacedJob first = Has(Running("r", 1, {"a", "a"}), 1, {{"0"}, {"1"}});
  const QueuedJob head = Needs(Queued("j", 2, 1, 1), 3);
  const auto decided = [&](const QueuedJob& later) {
    return DevicesOf(DecidePlacement({hosts, {first}, {head, later}}));
  };
  EXPECT_EQ(decided(Needs(Queued("k", 3, 1, 1), 1)), "k/worker-0@a:2")
      << "when the first has ended there are three";
  EXPECT_EQ(decided(Needs(Queued("k", 3, 1, 2), 1)), "k/worker-0@a:2") << "and no more than that";
  EXPECT_EQ(decided(Needs(Queued("k", 3, 2, 2), 1)), "");
  EXPECT_EQ(decided(Queued("k", 3, 2, 2)), "k/worker-0@a k/worker-1@a");
}

// Each costs copies of the room, and a queue may be long.
TEST(Placement, BehindAHeadWithDevicesNotAllAreTried) {
  const std::vector<HostRoom> hosts = {With(Host("a", 8), {"0", "1", "2", "3"})};
  const PlacedJob first = Has(Running("r", 1, {"a", "a"}), 1, {{"0"}, {"1"}});
  const auto starts_behind = [&](int32_t others) {
    std::vector<QueuedJob> queued = {Needs(Queued("head", 2, 1, 1), 3)};
    for (int32_t i = 0; i < others; ++i)  // none of them passes
      queued.push_back(Needs(Queued(absl::StrCat("k", i), 3 + i, 2, 2), 1));
    queued.push_back(Needs(Queued("last", 1000, 1, 1), 1));
    return DecidePlacement({hosts, {first}, queued}).starts;
  };
  EXPECT_THAT(starts_behind(99), ElementsAre(Pair("last", 1)));
  EXPECT_THAT(starts_behind(100), IsEmpty());
}

using FreeDevices = std::set<std::pair<std::string, std::string>>;  // with their hosts
using UpTo = std::function<int32_t(int)>;                           // chance

void GiveDevices(const UpTo& upto, HostRoom& host, FreeDevices& free_ones) {
  for (int32_t d = upto(5); d > 0; --d) {
    host.devices.push_back(absl::StrCat(d));
    if (upto(4) > 0)
      free_ones.insert({host.name, absl::StrCat(d)});
    else
      host.held.insert(absl::StrCat(d));
  }
}

void TakeDevices(const UpTo& upto, PlacedJob& job, const std::string& member,
                 FreeDevices& free_ones) {
  for (int32_t d = 1; d < 5 && upto(2) == 0; ++d)
    if (free_ones.erase({job.placed.at(member), absl::StrCat(d)}) > 0)
      job.devices[member].push_back(absl::StrCat(d));
}

// Each worker gets as many as it needs, and each of them once.
void ExpectDevices(const PlacementInput& input, const PlacementDecision& decision,
                   FreeDevices free_ones) {
  std::map<std::string, int32_t> needs;
  for (const PlacedJob& job : input.running) needs[job.id] = job.devices_each;
  for (const QueuedJob& job : input.queued) needs[job.id] = job.devices_each;
  for (const PlacementDecision::Place& place : decision.places) {
    for (const std::string& id : place.devices)
      EXPECT_EQ(free_ones.erase({place.host, id}), 1u) << place.host << " " << id;
    const int32_t need = place.member.role == Role::kServer ? 0 : needs.at(place.job);
    EXPECT_EQ(static_cast<int32_t>(place.devices.size()), need) << place.job;
  }
}

// As many as there may be. Everything that the coordinator does waits for this decision: when each
// place and each job that waits cost a look at the devices of all hosts, it took minutes.
TEST(Placement, ThousandsOfHostsAndOfJobsAreNoWork) {
  constexpr int kHosts = 4096, kWaiting = 4000, kDevices = 8;
  PlacementInput input;
  for (int i = 0; i < kHosts; ++i) {
    std::vector<std::string> devices;
    for (int d = 0; d < kDevices; ++d)
      devices.push_back(absl::StrCat("GPU-8932f937-d72c-4106-c12f-20bd9faed9f6-", d));
    input.hosts.push_back(With(Host(absl::StrCat("host-", i), 1), std::move(devices)));
  }
  input.queued.push_back(Needs(Queued("wide", 1, kHosts, kHosts), kDevices));
  for (int i = 0; i < kWaiting; ++i)
    input.queued.push_back(Needs(Queued(absl::StrCat("later-", i), 2 + i, 1, 4), i % kDevices));
  PlacementDecision decision = DecidePlacement(input);
  EXPECT_THAT(decision.starts, ElementsAre(Pair("wide", kHosts)));
  EXPECT_EQ(decision.reasons.size(), size_t{kWaiting});
  std::set<std::string> hosts;
  for (const PlacementDecision::Place& place : decision.places) {
    EXPECT_EQ(place.devices.size(), size_t{kDevices});
    hosts.insert(place.host);
  }
  EXPECT_EQ(hosts.size(), size_t{kHosts});
  // All of them are lost at once, and find places again; then the job grows from one of them.
  PlacedJob lost{.id = "wide", .submission = 1, .devices_each = kDevices};
  for (int i = 0; i < kHosts; ++i) Unplace(lost, absl::StrCat("worker-", i));
  lost.workers_min = kHosts;
  EXPECT_EQ(DecidePlacement({input.hosts, {lost}, {}}).places.size(), size_t{kHosts});
  PlacedJob grows = Has(Elastic("wide", 1, {"host-7"}, 1, kHosts), kDevices, {{}});
  grows.may_grow = true;
  decision = DecidePlacement({input.hosts, {grows}, {}});
  EXPECT_THAT(decision.grows, ElementsAre(Pair("wide", kHosts - 1)));
}

TEST(Placement, AWorkerMakesRoomForTheFollowerOfItsJob) {
  struct Case {
    const char* what;
    PlacementInput input;
    std::string leaves;
  };
  // Two workers on a, one of which it can do without, and a follower without a place.
  PlacedJob job = Elastic("j", 1, {"a", "a"}, 1, 2);
  job.unplaced = {{kFollowerName, Role::kFollower}};
  PlacedJob least = job, shrinks_not = job, leaves_already = job, left_out = job, scattered = job;
  least.workers_min = 2;
  shrinks_not.may_shrink = false;
  leaves_already.workers_max = 1;
  left_out.left_out = {"a"};
  scattered.placed["worker-0"] = "b";
  scattered.left_out = {"a"};
  PlacedJob waits = Elastic("j", 1, {"a"}, 1, 2);
  Unplace(waits, "worker-1");
  waits.unplaced.push_back({kFollowerName, Role::kFollower});
  HostRoom held{"a", "a", 3};
  held.devices = {"0", "1", "2"};
  held.held = {"2"};
  PlacedJob with_devices = job;
  with_devices.devices_each = 1;
  with_devices.devices = {{"worker-0", {"0"}}, {"worker-1", {"1"}}};
  HostRoom drained = Host("b", 1);
  drained.drains = true;
  PlacedJob moves = Elastic("j", 1, {"a", "a"}, 1, 2);
  moves.placed[kFollowerName] = "b";
  for (const Case& c : std::vector<Case>{
           {"the last worker", {{Host("a", 2)}, {job}, {}}, "j/worker-1 for the follower"},
           {"it gets a slot", {{Host("a", 3)}, {job}, {}}, ""},
           {"none is beyond workers.min", {{Host("a", 2)}, {least}, {}}, ""},
           {"its steps do not go on", {{Host("a", 2)}, {shrinks_not}, {}}, ""},
           {"one leaves anyway", {{Host("a", 2)}, {leaves_already}, {}}, "j/worker-1 scaled"},
           {"it could not use their host", {{Host("a", 2)}, {left_out}, {}}, ""},
           {"it could use that of one",
            {{Host("a", 1), Host("b", 1)}, {scattered}, {}},
            "j/worker-0 for the follower"},
           {"the others wait for a place, too", {{Host("a", 1)}, {waits}, {}}, ""},
           {"a device is free soon", {{held}, {with_devices}, {}}, ""},
           {"its host is drained",
            {{Host("a", 2), drained}, {moves}, {}},
            "j/worker-1 for the follower"}}) {
    SCOPED_TRACE(c.what);
    EXPECT_EQ(LeavesOf(DecidePlacement(c.input)), c.leaves);
  }
}

TEST(Placement, OfJobsThatStandStillForWantOfRoomTheLastOneGivesUpItsPlaces) {
  const auto starving = [](const std::string& id, int64_t submission) {
    PlacedJob job = Running(id, submission, {"a"});
    Unplace(job, "worker-1");
    job.lacks = "worker-1";
    return job;
  };
  PlacedJob one = starving("one", 1), two = starving("two", 2);
  const std::vector<HostRoom> full = {Host("a", 2)};
  EXPECT_THAT(DecidePlacement({full, {one, two}, {}}).give_way,
              ElementsAre(Pair("two", "there has been no room for worker-1")));
  one.priority = -1;
  EXPECT_THAT(DecidePlacement({full, {one, two}, {}}).give_way,
              ElementsAre(Pair("one", testing::_)))
      << "the one of the lesser priority";
  two.stops = true;
  one.priority = 0;
  EXPECT_THAT(DecidePlacement({full, {one, two}, {}}).give_way,
              ElementsAre(Pair("one", testing::_)));
  one.stops = true;
  EXPECT_THAT(DecidePlacement({full, {one, two}, {}}).give_way, IsEmpty());
  // One that is alone and gets room now keeps its places.
  const PlacementDecision decision = DecidePlacement({{Host("a", 2)}, {starving("one", 1)}, {}});
  EXPECT_THAT(decision.give_way, IsEmpty());
  EXPECT_EQ(PlacesOf(decision), "one/worker-1@a");
}

// Random clusters: whatever is decided fits.
TEST(Placement, NoHostGetsMoreThanItsSlotsAndNobodyIsPlacedTwice) {
  std::mt19937 random(7);
  const auto upto = [&](int n) {
    return static_cast<int32_t>(random() % static_cast<unsigned>(n));
  };
  for (int round = 0; round < 2000; ++round) {
    PlacementInput input;
    std::map<std::string, int32_t> left;
    FreeDevices free_devices;
    for (int32_t i = 1 + upto(5); i > 0; --i) {
      const std::string name = absl::StrCat("h", i);
      const bool drains = upto(5) == 0;
      input.hosts.push_back(
          {name, absl::StrCat("n", i / 2), upto(5), upto(4) > 0, drains, drains && upto(2) == 0});
      left[name] = input.hosts.back().slots;
      GiveDevices(upto, input.hosts.back(), free_devices);
    }
    for (int32_t j = upto(4); j > 0; --j) {
      PlacedJob job{.id = absl::StrCat("r", j), .submission = j};
      job.devices_each = upto(3);
      job.may_shrink = upto(2) == 0;
      job.may_grow = upto(2) == 0;
      for (int32_t w = upto(4); w > 0; --w) {
        const std::string host = absl::StrCat("h", 1 + upto(6));
        const std::string name = absl::StrCat("worker-", w);
        job.workers.push_back(name);
        if (upto(4) == 0) job.leaving.insert(name);
        if (left.count(host) > 0 && left[host] > 0) {
          job.placed[name] = host;
          --left[host];
          TakeDevices(upto, job, name, free_devices);
        } else {
          job.unplaced.push_back({name, Role::kWorker});
        }
      }
      if (upto(3) == 0) job.left_out.insert("h1");
      job.workers_min = 1 + upto(3);
      job.workers_max = job.workers_min + upto(3);
      job.priority = upto(3);
      job.name_space = upto(2) == 0 ? "n" : "m";
      job.stops = upto(8) == 0;
      if (job.stops) job.may_shrink = job.may_grow = false;
      input.running.push_back(job);
    }
    for (int32_t j = upto(4); j > 0; --j)
      input.queued.push_back({absl::StrCat("q", j),
                              10 + j,
                              1 + upto(3),
                              3 + upto(3),
                              upto(2),
                              {},
                              upto(4),
                              upto(2) == 0 ? "n" : "m",
                              upto(3)});
    if (upto(2) == 0) input.quotas["n"] = upto(6);
    const PlacementDecision decision = DecidePlacement(input);
    ExpectDevices(input, decision, free_devices);
    std::set<std::pair<std::string, std::string>> seen;
    for (const PlacementDecision::Place& place : decision.places) {
      EXPECT_GE(--left[place.host], 0) << "round " << round << ": " << place.host;
      EXPECT_TRUE(seen.insert({place.job, place.member.name}).second) << round;
      for (const PlacedJob& job : input.running)
        if (job.id == place.job) {
          EXPECT_EQ(job.placed.count(place.member.name), 0u);
          EXPECT_EQ(job.left_out.count(place.host), 0u);
        }
      for (const HostRoom& host : input.hosts)
        EXPECT_FALSE(host.name == place.host && host.drains) << "round " << round;
    }
    for (const auto& [id, workers] : decision.starts) {
      const auto job = std::find_if(input.queued.begin(), input.queued.end(),
                                    [&, id = id](const QueuedJob& q) { return q.id == id; });
      EXPECT_GE(workers, job->workers_min);
      EXPECT_LE(workers, job->workers_max);
      const auto placed =
          std::count_if(decision.places.begin(), decision.places.end(),
                        [&, id = id](const auto& place) { return place.job == id; });
      EXPECT_EQ(placed, workers + job->servers) << "a job starts whole";
    }
    int32_t highest_waiting = -1;
    for (const QueuedJob& job : input.queued)
      if (decision.reasons.contains(job.id))
        highest_waiting = std::max(highest_waiting, job.priority);
    std::map<std::string, int32_t> held, got_in;
    for (const PlacedJob& job : input.running) {
      held[job.name_space] += static_cast<int32_t>(job.placed.size() + job.unplaced.size());
      if (decision.preempted.contains(job.id)) {
        EXPECT_LT(job.priority, highest_waiting) << "round " << round << ": " << job.id;
        EXPECT_FALSE(job.stops) << "round " << round;
      }
    }
    for (const QueuedJob& job : input.queued)
      if (const auto start = decision.starts.find(job.id); start != decision.starts.end())
        got_in[job.name_space] += start->second + job.servers;
    for (const auto& [name_space, quota] : input.quotas) {
      if (got_in[name_space] == 0) continue;
      EXPECT_LE(held[name_space] + got_in[name_space], quota) << "round " << round;
    }
    EXPECT_EQ(decision.starts.size() + decision.reasons.size(), input.queued.size());
    for (const PlacedJob& job : input.running) {
      const auto leaves = decision.leaves.find(job.id);
      const auto grows = decision.grows.find(job.id);
      const auto had = static_cast<int32_t>(job.workers.size());
      const int32_t gone =
          leaves == decision.leaves.end() ? 0 : static_cast<int32_t>(leaves->second.size());
      const int32_t got = grows == decision.grows.end() ? 0 : grows->second;
      if (decision.give_way.contains(job.id)) {
        EXPECT_EQ(gone + got, 0) << "round " << round;
        continue;
      }
      EXPECT_LE(had - gone + got, job.workers_max) << "round " << round;
      EXPECT_GE(had - gone + got, std::min(had, job.workers_min))
          << "round " << round << ": only those leave without whom there are still enough";
    }
  }
}

}  // namespace
}  // namespace muster::coordinator
