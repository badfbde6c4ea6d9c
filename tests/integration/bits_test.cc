// The same bits on any number of workers, undisturbed and with one of them killed.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/integration/cluster.h"
#include "tests/integration/jobs.h"

namespace muster::integration {
namespace {

struct Shape {
  int lanes = 6;
  int workers = 1;
  int servers = 0;
};

std::vector<Shape> Shapes(int lanes, int fewest_workers) {
  std::vector<Shape> shapes;
  for (int servers : {0, 2})
    for (int workers = fewest_workers; workers <= 4; ++workers)
      shapes.push_back({lanes, workers, servers});
  return shapes;
}

void Expect(const Shape& s, const TrainRun& run, const std::string& dir,
            const std::string& digest) {
  ExpectSameBits(run, dir, digest);
  ExpectNoWayBack(run, dir);
  ExpectLanesAddUp(run, dir, s.lanes);
}

class LanguageTest : public testing::TestWithParam<int> {};

// One run of one worker is what all others are compared with.
TEST_P(LanguageTest, AnyNumberOfWorkersMakesTheSameBits) {
  const Folder folder;
  const std::string spec = LanguageSpec(folder / "data", GetParam(), 12);
  const std::string digest = UndisturbedDigest(spec, folder / "one");
  for (const Shape& s : Shapes(GetParam(), 1)) {
    SCOPED_TRACE(absl::StrCat(s.workers, " workers, ", s.servers, " servers"));
    const std::string dir = folder / absl::StrCat("job-", s.workers, "-", s.servers);
    Expect(s, Train({.spec = spec, .dir = dir, .workers = s.workers, .servers = s.servers}), dir,
           digest);
  }
}

TEST_P(LanguageTest, AlsoWhenAWorkerIsKilled) {
  const Folder folder;
  const std::string spec = LanguageSpec(folder / "data", GetParam(), 12);
  const std::string digest = UndisturbedDigest(spec, folder / "one");
  for (const Shape& s : Shapes(GetParam(), 2)) {
    SCOPED_TRACE(absl::StrCat(s.workers, " workers, ", s.servers, " servers"));
    const std::string dir = folder / absl::StrCat("job-", s.workers, "-", s.servers);
    const std::string victim = absl::StrCat("worker-", s.workers - 1);
    const TrainRun run =
        Train({.spec = spec,
               .dir = dir,
               .workers = s.workers,
               .servers = s.servers,
               .faults = {absl::StrCat("{at_point: \"forward:5\", kill: ", victim, "}")}});
    EXPECT_TRUE(run.Fired(victim, "forward")) << run.Trace();
    Expect(s, run, dir, digest);
  }
}

// With `allreduce` nobody else holds the weights: back to the newest checkpoint.
TEST_P(LanguageTest, AlsoWhenTheOnlyWorkerIsKilled) {
  const Folder folder;
  const std::string spec = LanguageSpec(folder / "data", GetParam(), 12);
  const std::string digest = UndisturbedDigest(spec, folder / "one");
  for (const int servers : {0, 2}) {
    SCOPED_TRACE(absl::StrCat(servers, " servers"));
    const std::string dir = folder / absl::StrCat("job-", servers);
    const TrainRun run = Train({.spec = spec,
                                .dir = dir,
                                .workers = 1,
                                .servers = servers,
                                .faults = {"{at_point: \"forward:22\", kill: worker-0}"}});
    EXPECT_TRUE(run.Fired("worker-0", "forward")) << run.Trace();
    EXPECT_EQ(run.result.value("rewinds", -1), servers == 0 ? 1 : 0) << run.Trace();
    ExpectSameBits(run, dir, digest);
    ExpectLanesAddUp(run, dir, GetParam());
  }
}

// Another model, or the comparison above would be worth nothing.
TEST(LanguageSpecTest, LanesDecideTheBits) {
  const Folder folder;
  EXPECT_NE(UndisturbedDigest(LanguageSpec(folder / "data", 4, 12), folder / "four"),
            UndisturbedDigest(LanguageSpec(folder / "data", 6, 12), folder / "six"));
}

INSTANTIATE_TEST_SUITE_P(Lanes, LanguageTest, testing::Values(4, 6),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace muster::integration
