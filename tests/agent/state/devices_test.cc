// Devices of a host: a process starts when all of its own are free.
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "agent/state/supervisor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster::agent {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// "spawn worker-0 0,1", "SIG15 worker-0", "held 0 by 7"; exits are left out.
std::string Describe(const SupervisorAction& action) {
  if (const auto* spawn = std::get_if<Spawn>(&action))
    return absl::StrCat("spawn ", spawn->key.name, " ", absl::StrJoin(spawn->devices, ","));
  if (const auto* tell = std::get_if<TellDevices>(&action)) {
    std::string text = "held";
    for (const HostDevice& device : tell->devices)
      if (device.holder != PlacementNumber())
        absl::StrAppend(&text, " ", device.id, " by ", device.holder.value());
    return text;
  }
  if (const auto* wait = std::get_if<NoteWait>(&action)) return wait->text;
  return "";
}

class DevicesTest : public ::testing::Test {
 protected:
  struct Place {
    std::string name;
    int64_t number = 0;
    std::vector<std::string> devices;
  };

  std::vector<std::string> Do(const SupervisorEvent& event) {
    std::vector<std::string> texts;
    for (const SupervisorAction& action : supervisor_.Step(event, now_))
      if (std::string text = Describe(action); !text.empty()) texts.push_back(std::move(text));
    return texts;
  }
  std::vector<std::string> Want(const std::map<std::string, std::vector<Place>>& jobs) {
    Wanted wanted;
    for (const auto& [id, places] : jobs) {
      JobProcesses& job = wanted.jobs.emplace_back(JobProcesses{id, StartNumber(1), {}});
      for (const Place& place : places)
        job.processes.push_back(
            {place.name, Role::kWorker, PlacementNumber(place.number), place.devices});
    }
    return Do(WantMembers{wanted});
  }
  std::vector<std::string> Exits(const std::string& job, const std::string& name, int code = 0) {
    return Do(Exited{{job, name}, Exit{.code = code}});
  }

  Time now_ = Time{} + seconds(100);
  Supervisor supervisor_{SupervisorOptions{.devices = {"0", "1", "2"}}};
};

TEST_F(DevicesTest, AreToldWheneverTheyHaveAnotherHolderAndInEachSession) {
  EXPECT_THAT(Do(SessionUp{}), ElementsAre("held"));
  EXPECT_THAT(Want({{"a", {{"w", 7, {"0", "2"}}}}}),
              ElementsAre("spawn w 0,2", "held 0 by 7 2 by 7"));
  EXPECT_THAT(Want({{"a", {{"w", 7, {"0", "2"}}}}}), IsEmpty());
  EXPECT_THAT(Do(SessionUp{}), ElementsAre("held 0 by 7 2 by 7"));
  EXPECT_THAT(Exits("a", "w", 1), ElementsAre("held")) << "it starts again later";
  now_ = supervisor_.NextTick().value();
  EXPECT_THAT(Do(Tick{}), ElementsAre("spawn w 0,2", "held 0 by 7 2 by 7"));
}

TEST_F(DevicesTest, WhoIsToHaveOneThatAnotherStillHasWaitsForItsEnd) {
  Want({{"a", {{"w", 7, {"0"}}}}});
  EXPECT_THAT(Want({{"b", {{"x", 8, {"0"}}, {"y", 9, {"1"}}}}}),
              ElementsAre("x waits for device 0, which a process that ends still has", "spawn y 1",
                          "held 0 by 7 1 by 9"));
  EXPECT_THAT(Do(Tick{}), IsEmpty()) << "it is said once";
  EXPECT_THAT(Exits("a", "w"), ElementsAre("spawn x 0", "held 0 by 8 1 by 9"));
}

TEST_F(DevicesTest, ThatHoldsWithinAJobAndAtItsNextStart) {
  Want({{"a", {{"w", 7, {"0"}}, {"v", 8, {"1"}}}}});
  EXPECT_THAT(Want({{"a", {{"w", 9, {"1"}}, {"v", 8, {"1"}}}}}), IsEmpty());
  EXPECT_THAT(Exits("a", "w"), ElementsAre(HasSubstr("w waits for device 1"), "held 1 by 8"))
      << "v has it, whoever is at fault";
  EXPECT_THAT(Want({{"a", {{"w", 9, {"1"}}}}}), IsEmpty());
  EXPECT_THAT(Exits("a", "v"), ElementsAre("spawn w 1", "held 1 by 9"));
}

TEST_F(DevicesTest, WhoNeverStartedLeavesNothingHeld) {
  Want({{"a", {{"w", 7, {"0"}}}}});
  EXPECT_THAT(Want({{"b", {{"x", 8, {"0"}}}}}), ElementsAre(HasSubstr("x waits")));
  EXPECT_THAT(Want({}), IsEmpty());
  EXPECT_THAT(Exits("a", "w"), ElementsAre("held"));
}

TEST_F(DevicesTest, AHostWithoutDevicesTellsNothing) {
  Supervisor supervisor;
  EXPECT_TRUE(supervisor.Step(SessionUp{}, now_).empty());
}

TEST(DevicesOfSigned, AProcessHasThemOnceItIsSignedAndStarts) {
  const Time now = Time{} + seconds(100);
  Supervisor supervisor{SupervisorOptions{.devices = {"0"}, .signs = true}};
  const auto texts_of = [&](const SupervisorEvent& event) {
    std::vector<std::string> texts;
    for (const SupervisorAction& action : supervisor.Step(event, now))
      if (std::string text = Describe(action); !text.empty()) texts.push_back(std::move(text));
    return texts;
  };
  JobProcesses job{.job = "j", .start = StartNumber(1), .processes = {}};
  job.processes.push_back({"w", Role::kWorker, PlacementNumber(7), {"0"}});
  EXPECT_THAT(texts_of(WantMembers{Wanted{{job}}}), IsEmpty());
  EXPECT_THAT(texts_of(Signed{{"j", "w"}, PlacementNumber(7)}),
              ElementsAre("spawn w 0", "held 0 by 7"));
}

}  // namespace
}  // namespace muster::agent
