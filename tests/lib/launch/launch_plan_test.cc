// The table of launchers: their environments, as their documentation gives them or as they were
// seen, and what becomes of values that no launcher would set.
#include "lib/launch/launch_plan.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/lib/launch/launcher_variables.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// srun -N3 -n6, its last task.
Environment SlurmStep() {
  return {{"SLURM_JOB_ID", "17"},
          {"SLURM_STEP_ID", "2"},
          {"SLURM_STEP_NODELIST", "n[1-3]"},
          {"SLURM_STEP_NUM_NODES", "3"},
          {"SLURM_STEP_NUM_TASKS", "6"},
          {"SLURM_PROCID", "5"},
          {"SLURM_LOCALID", "1"},
          {"SLURM_NODEID", "2"},
          {"SLURM_JOB_NODELIST", "n[0-3]"},
          {"SLURMD_NODENAME", "n3"}};
}

// mpirun -n 4 of Open MPI 4.1.4.
Environment OpenMpi() {
  return {{"OMPI_COMM_WORLD_RANK", "3"},
          {"OMPI_COMM_WORLD_SIZE", "4"},
          {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
          {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
          {"PMIX_NAMESPACE", "90767361"},
          {"PMIX_RANK", "3"},
          {"OMPI_MCA_orte_precondition_transports", "60923c49a4eb9546-d93cf49bce906277"}};
}

Environment With(Environment environment, const Environment& others) {
  for (const auto& [name, value] : others) environment[name] = value;
  return environment;
}

std::string ErrorOf(const Environment& environment, const LaunchOptions& options = {}) {
  const auto plan = PlanLaunch(environment, options);
  return plan.ok() ? "no error" : std::string(plan.status().message());
}

TEST(LaunchPlan, NobodyMeansOneHost) {
  const auto plan = PlanLaunch({}, {});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->launcher, Launcher::kNone);
  EXPECT_EQ(plan->hosts_max, 1);
  EXPECT_EQ(plan->number, 0);
  EXPECT_THAT(plan->run_id, IsEmpty());
}

TEST(LaunchPlan, OptionsSayAll) {
  const auto plan = PlanLaunch(
      SlurmStep(),
      {.hosts = "2:4", .number = 3, .slots = 8, .coordinator = "10.0.0.1:7070", .run_id = "mine"});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->launcher, Launcher::kOptions);
  EXPECT_EQ(plan->hosts_min, 2);
  EXPECT_EQ(plan->hosts_max, 4);
  EXPECT_EQ(plan->number, 3);
  EXPECT_EQ(plan->first, "10.0.0.1");
  EXPECT_EQ(plan->port, 7070);
  EXPECT_EQ(plan->slots, 8);
  EXPECT_EQ(plan->run_id, "run-mine");
  EXPECT_EQ(plan->suffix, "-3");
}

TEST(LaunchPlan, SlurmSaysTheStep) {
  const auto plan = PlanLaunch(SlurmStep(), {});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->launcher, Launcher::kSlurm);
  EXPECT_EQ(plan->hosts_min, 6);
  EXPECT_EQ(plan->number, 5);
  EXPECT_EQ(plan->local_rank, 1);
  EXPECT_EQ(plan->first, "n1") << "the step's first node, not that of the allocation";
  EXPECT_EQ(plan->run_id, "slurm-17-2");
  EXPECT_THAT(plan->machines, ElementsAre("n1", "n2", "n3"));
}

TEST(LaunchPlan, ABatchScriptThatNamesItsFirstNodeIsNoTorchrun) {
  const auto plan = PlanLaunch(With(SlurmStep(), {{"MASTER_ADDR", "n1"}, {"WORLD_SIZE", "6"}}), {});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->launcher, Launcher::kSlurm);
}

TEST(LaunchPlan, AnAllocationWithoutAStepIsOneHostAndSaysSo) {
  const auto plan = PlanLaunch({{"SLURM_JOB_ID", "17"}, {"SLURM_JOB_NODELIST", "n[1-3]"}}, {});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->hosts_max, 1);
  EXPECT_EQ(plan->run_id, "slurm-17");
  EXPECT_THAT(plan->notes, ElementsAre(HasSubstr("srun muster run")));
}

TEST(LaunchPlan, OpenMpiInsideAStepOfSlurm) {
  for (const Environment& environment : {OpenMpi(), With(SlurmStep(), OpenMpi())}) {
    const auto plan = PlanLaunch(environment, {});
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_EQ(plan->launcher, Launcher::kOpenMpi);
    EXPECT_EQ(plan->hosts_min, 4);
    EXPECT_EQ(plan->number, 3);
    EXPECT_EQ(plan->local_rank, 1);
    EXPECT_THAT(plan->first, IsEmpty());
    EXPECT_THAT(plan->run_id, HasSubstr("mpi-90767361"));
  }
}

TEST(LaunchPlan, SaysWhenTheAllocationEnds) {
  EXPECT_EQ(PlanLaunch(SlurmStep(), {})->ends_at, std::nullopt);
  const auto ends = [](const char* text) {
    return PlanLaunch(With(SlurmStep(), {{"SLURM_JOB_END_TIME", text}}), {})->ends_at;
  };
  EXPECT_EQ(ends("1790000000"), 1790000000);
  EXPECT_EQ(ends("Unlimited"), std::nullopt);
  EXPECT_EQ(ends("0"), std::nullopt);
  for (const char* odd : {"-5", "99999999999999999999", "soon"}) {
    const auto plan = PlanLaunch(With(SlurmStep(), {{"SLURM_JOB_END_TIME", odd}}), {});
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_EQ(plan->ends_at, std::nullopt);
    EXPECT_THAT(plan->notes, ElementsAre(HasSubstr("SLURM_JOB_END_TIME: '")));
  }
}

TEST(LaunchPlan, HostsOfAMachineShareTheDevicesThatAllOfThemSee) {
  const auto devices = [](const Environment& environment, const char* visible) {
    const Environment all = With(environment, {{"CUDA_VISIBLE_DEVICES", visible}});
    return DevicesOf(*PlanLaunch(all, {}), all, {"0", "1", "2", "3"});
  };
  EXPECT_EQ(devices(OpenMpi(), "0,1,2,3"), "2,3") << "local rank 1 of 2";
  EXPECT_EQ(devices(OpenMpi(), "GPU-a,GPU-b,GPU-c"), "GPU-b,GPU-c");
  EXPECT_EQ(devices(OpenMpi(), "0"), std::nullopt) << "too few: the launcher has shared them out";
  EXPECT_EQ(devices(OpenMpi(), ""), std::nullopt);
  EXPECT_EQ(devices(Torchrun(), "4,5,6,7"), "6") << "local rank 2 of 4";
  EXPECT_EQ(devices(HydraInPbs(), "0,1,2,3"), "2,3") << "local rank 1 of 2";
  EXPECT_EQ(devices(SlurmStep(), "0,1"), std::nullopt) << "Slurm shows a task its own";
}

TEST(LaunchPlan, HostsOfAMachineShareAllDevicesWhereNobodyHasNamedAny) {
  const auto devices = [](const Environment& environment, const std::vector<std::string>& all) {
    return DevicesOf(*PlanLaunch(environment, {}), environment, all);
  };
  const std::vector<std::string> eight = {"0", "1", "2", "3", "4", "5", "6", "7"};
  EXPECT_EQ(devices(Torchrun({5, 8, 1, 4}), eight), "2,3");
  EXPECT_EQ(devices(Torchrun({7, 8, 3, 4}), eight), "6,7");
  EXPECT_EQ(devices(Pals(), eight), "4,5,6,7");
  EXPECT_EQ(devices(Torchrun({4, 8, 0, 4}), {"0", "1"}), "") << "there are not enough for all";
  EXPECT_EQ(devices(Torchrun({5, 8, 1, 4}), {"0", "1"}), "0");
  EXPECT_EQ(devices(Torchrun(), {}), std::nullopt);
  EXPECT_EQ(devices(Torchrun({1, 2, 0, 1}), eight), std::nullopt) << "one host has them all";
  EXPECT_EQ(devices(SlurmStep(), eight), std::nullopt);
}

TEST(NamedEnvironment, IsWhatAPersonNames) {
  const Environment ours = {{"HERE", "x=y"}, {"EMPTY", ""}};
  const auto named = NamedEnvironment({"HERE", "EMPTY", "A=1=2", "B="}, ours);
  ASSERT_TRUE(named.ok()) << named.status();
  EXPECT_EQ(*named, (Environment{{"HERE", "x=y"}, {"EMPTY", ""}, {"A", "1=2"}, {"B", ""}}));
  EXPECT_THAT(std::string(NamedEnvironment({"AWAY"}, ours).status().message()),
              HasSubstr("is not set here"));
  EXPECT_THAT(std::string(NamedEnvironment({"=x"}, ours).status().message()),
              HasSubstr("has no name"));
}

TEST(LaunchPlan, TwoRunsOfMpirunHaveTwoIds) {
  const auto other =
      With(OpenMpi(), {{"OMPI_MCA_orte_precondition_transports", "60923c49a4eb9546-0"}});
  EXPECT_NE(PlanLaunch(OpenMpi(), {})->run_id, PlanLaunch(other, {})->run_id);
}

TEST(LaunchPlan, TorchrunsPortIsLeftAloneAndItsRanksNameNoHost) {
  const auto plan = PlanLaunch(Torchrun(), {});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->launcher, Launcher::kTorchrun);
  EXPECT_EQ(plan->hosts_min, 8);
  EXPECT_EQ(plan->number, 6);
  EXPECT_EQ(plan->first, "node-a");
  EXPECT_EQ(plan->port, 0);
  EXPECT_EQ(plan->suffix, "-2");
  EXPECT_THAT(plan->run_id, IsEmpty()) << "none is no id";
  EXPECT_EQ(PlanLaunch(With(Torchrun(), {{"TORCHELASTIC_RUN_ID", "a1"}}), {})->run_id,
            "torchrun-a1");
}

TEST(LaunchPlan, PalsHasTheNodeFile) {
  const char* const file = "x1.cluster\nx1.cluster\nx2.cluster\n";
  const auto other = PlanLaunch(Pals(), {});
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_EQ(other->launcher, Launcher::kPals);
  EXPECT_EQ(other->number, 1);
  EXPECT_EQ(other->hosts_min, 4);
  EXPECT_FALSE(ReadsNodeFile(*other)) << "PBS has it at the first host only";
  auto plan = PlanLaunch(Pals({0, 4, 0, 2}), {});
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_TRUE(ReadsNodeFile(*plan));
  ASSERT_TRUE(TakeNodeFile(file, *plan).ok());
  EXPECT_EQ(plan->first, "x1.cluster");
  EXPECT_FALSE(plan->one_machine);
  EXPECT_THAT(plan->machines, ElementsAre("x1.cluster", "x2.cluster"));
  EXPECT_THAT(plan->run_id, AllOf(HasSubstr("pals-123-head-f00-1")));
}

TEST(LaunchPlan, APersonsWordOnTheCoordinatorCountsMoreThanTheNodeFile) {
  auto plan = PlanLaunch(Pals({0, 4, 0, 2}), {.coordinator = "n9:7070"});
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_TRUE(TakeNodeFile("x1\n", *plan).ok());
  EXPECT_EQ(plan->first, "n9");
  EXPECT_TRUE(plan->one_machine);
}

TEST(LaunchPlan, MpiexecOfHydraInPbsHasItsLocalRanksAndTheNodeFile) {
  const auto other = PlanLaunch(HydraInPbs(), {});
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_EQ(other->launcher, Launcher::kHydra);
  EXPECT_EQ(other->local_rank, 1);
  EXPECT_EQ(other->local_size, 2);
  EXPECT_THAT(other->run_id, IsEmpty()) << "a second mpiexec of the allocation is another run";
  auto first = PlanLaunch(HydraInPbs({0, 4, 0, 2}), {});
  ASSERT_TRUE(first.ok() && ReadsNodeFile(*first));
  ASSERT_TRUE(TakeNodeFile("x1\nx2\n", *first).ok());
  EXPECT_EQ(first->first, "x1");
}

TEST(LaunchPlan, AnAllocationOfPbsWithoutMpiexecIsOneHostAndSaysSo) {
  const auto plan =
      PlanLaunch({{"PBS_JOBID", "123.head"}, {"PBS_NODEFILE", "/var/spool/pbs/aux/123.head"}}, {});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->launcher, Launcher::kPbs);
  EXPECT_EQ(plan->hosts_max, 1);
  EXPECT_THAT(plan->run_id, HasSubstr("pbs-123-head"));
  EXPECT_FALSE(ReadsNodeFile(*plan));
  EXPECT_THAT(plan->notes, ElementsAre(HasSubstr("mpiexec muster run")));
}

TEST(LaunchPlan, HydraGivesNoId) {
  const auto plan = PlanLaunch(Hydra(), {});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->launcher, Launcher::kHydra);
  EXPECT_EQ(plan->number, 2);
  EXPECT_THAT(plan->run_id, IsEmpty());
  EXPECT_THAT(plan->first, IsEmpty());
}

TEST(LaunchPlan, APodOfAnIndexedJobFindsTheFirst) {
  const Environment pod = {{"JOB_COMPLETION_INDEX", "2"}, {"HOSTNAME", "train-2"}};
  const auto plan = PlanLaunch(pod, {.hosts = "2:4"});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->launcher, Launcher::kKubernetes);
  EXPECT_EQ(plan->number, 2);
  EXPECT_EQ(plan->first, "train-0");
  EXPECT_THAT(ErrorOf(pod), HasSubstr("--nnodes"));
  EXPECT_THAT(ErrorOf({{"JOB_COMPLETION_INDEX", "2"}, {"HOSTNAME", "elsewhere"}}, {.hosts = "4"}),
              HasSubstr("HOSTNAME"));
}

TEST(LaunchPlan, WhatIsWrongIsNamed) {
  struct Row {
    Environment environment;
    std::string variable;
  };
  std::vector<Row> rows;
  for (const char* bad : {"", "-1", "+1", " 1", "0x1", "99999999999999999999", "4097"}) {
    for (const char* name : {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"})
      rows.push_back({With(SlurmStep(), {{name, bad}}), name});
    for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK"})
      rows.push_back({With(Torchrun(), {{name, bad}}), name});
    for (const char* name : {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"})
      rows.push_back({With(OpenMpi(), {{name, bad}}), name});
    rows.push_back({With(Pals(), {{"PMI_SIZE", bad}}), "PMI_SIZE"});
    rows.push_back({With(Hydra(), {{"PMI_RANK", bad}}), "PMI_RANK"});
  }
  for (const char* bad : {"", "n[1-3", "n[3-1]", "n[]", "n[1-99999]", "n[1-],x", "a b,n"})
    rows.push_back({With(SlurmStep(), {{"SLURM_STEP_NODELIST", bad}}), "SLURM_STEP_NODELIST"});
  rows.push_back({With(SlurmStep(), {{"SLURM_STEP_NUM_NODES", "2"}}), "SLURM_STEP_NUM_NODES"});
  rows.push_back({With(SlurmStep(), {{"SLURM_PROCID", "6"}}), "SLURM_PROCID"});
  rows.push_back({With(Torchrun(), {{"MASTER_ADDR", ""}}), "MASTER_ADDR"});
  for (const Row& row : rows) EXPECT_THAT(ErrorOf(row.environment), HasSubstr(row.variable));
}

TEST(LaunchPlan, WrongOptionsAreNamed) {
  for (const char* bad : {"0", "-1", "3:2", ":2", "2:", "a", "1:99999"})
    EXPECT_THAT(ErrorOf({}, {.hosts = bad, .number = 0}), HasSubstr("--nnodes"));
  EXPECT_THAT(ErrorOf({}, {.number = 0}), HasSubstr("--nnodes"));
  EXPECT_THAT(ErrorOf({}, {.hosts = "2"}), HasSubstr("--node-rank"));
  EXPECT_THAT(ErrorOf({}, {.hosts = "2", .number = 2}), HasSubstr("--node-rank"));
  EXPECT_THAT(ErrorOf({}, {.hosts = "2", .number = -1}), HasSubstr("--node-rank"));
  EXPECT_THAT(ErrorOf({}, {.slots = 0}), HasSubstr("--nproc-per-node"));
  EXPECT_THAT(ErrorOf({}, {.coordinator = "no-port"}), HasSubstr("--coordinator"));
}

TEST(NodeList, IsExpandedAsSlurmDoes) {
  const auto of = [](const std::string& list) { return ExpandNodeList(list).value(); };
  EXPECT_THAT(of("node[01-03,7],x[1-2]y"),
              ElementsAre("node01", "node02", "node03", "node7", "x1y", "x2y"));
  EXPECT_THAT(of("n[09-11]"), ElementsAre("n09", "n10", "n11"));
  EXPECT_THAT(of("a[1-2]b[1-2]"), ElementsAre("a1b1", "a1b2", "a2b1", "a2b2"));
  EXPECT_THAT(of("alone"), ElementsAre("alone"));
  EXPECT_EQ(of("n[1-4096]").size(), 4096u);
}

TEST(NodeList, IsBounded) {
  for (const std::string& bad :
       {std::string("n[1-4097]"), std::string("n[1-4096],m"), std::string("a[1-100]b[1-100]"),
        std::string("n[0-999999999999]"), std::string("n[99999999999999999999]"),
        std::string(1 << 19, 'a'), std::string(300, 'a'), std::string("n[1],"), std::string("]"),
        std::string("n[[1]"), std::string("-o"), std::string("a\0b", 3), std::string(",")})
    EXPECT_FALSE(ExpandNodeList(bad).ok()) << bad.substr(0, 40);
}

TEST(NodeFile, HasEachMachineOnce) {
  EXPECT_THAT(MachinesOf("b\r\na\n\nb\n").value(), ElementsAre("b", "a"));
  for (const char* bad : {"", "\n", "a b\n", "-o\n"}) EXPECT_FALSE(MachinesOf(bad).ok()) << bad;
}

TEST(HostNameIn, IsFitForAPathWhateverTheMachineIsCalled) {
  LaunchPlan plan{.suffix = "-3"};
  EXPECT_EQ(HostNameIn(plan, "node01.cluster"), "node01.cluster-3");
  EXPECT_EQ(HostNameIn(plan, "../x y"), "_._x_y-3");
  EXPECT_EQ(HostNameIn(plan, ""), "host-3");
  EXPECT_EQ(HostNameIn(plan, std::string(300, 'a')).size(), 255u);
  plan.suffix = "";
  EXPECT_EQ(HostNameIn(plan, "job-0"), "job-0");
}

TEST(MissingHosts, AreNamedByNumberAndMachine) {
  LaunchPlan plan{.launcher = Launcher::kSlurm, .hosts_max = 4};
  EXPECT_EQ(MissingHosts(plan, {"a-0", "b-3"}), ", without 1, 2");
  plan.machines = {"n1", "n2", "n3", "n4"};
  EXPECT_EQ(MissingHosts(plan, {"n1-0", "n2-1", "n4-3", "other", "n9-99"}), ", without 2 (on n3)");
  EXPECT_EQ(MissingHosts(plan, {"n1-0", "n2-1", "n3-2", "n4-3"}), "");
  plan.launcher = Launcher::kTorchrun;
  EXPECT_EQ(MissingHosts(plan, {"a-0"}), "") << "its suffix is no number of all";
  plan = {.launcher = Launcher::kOptions, .hosts_max = kMostHosts};
  EXPECT_THAT(MissingHosts(plan, {}), HasSubstr("18, 19 and 4076 more"));
}

TEST(LaunchPlan, KnowsWhenAllHostsAreOnOneMachine) {
  const auto on_one = [](const Environment& environment) {
    return PlanLaunch(environment, {})->one_machine;
  };
  EXPECT_TRUE(on_one({}));
  EXPECT_FALSE(on_one(SlurmStep()));
  EXPECT_TRUE(
      on_one(With(SlurmStep(), {{"SLURM_STEP_NODELIST", "n2"}, {"SLURM_STEP_NUM_NODES", "1"}})));
  EXPECT_FALSE(on_one(OpenMpi()));
  EXPECT_TRUE(on_one(With(OpenMpi(), {{"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}})));
}

}  // namespace
}  // namespace muster
