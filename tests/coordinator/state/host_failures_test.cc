#include "coordinator/state/host_failures.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster::coordinator {
namespace {

using std::chrono::minutes;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

const Time kStart = Time(std::chrono::seconds(1000));

TEST(HostFailures, TwoJobsSpeakAgainstAHost) {
  struct Failure {
    const char* host;
    const char* job;
    bool elsewhere;
    int minute;
  };
  struct Case {
    const char* what;
    std::vector<Failure> failures;
    std::vector<std::string> bad;
  };
  const Case cases[] = {
      {"one job", {{"a", "j", false, 0}}, {}},
      {"one job twice", {{"a", "j", false, 0}, {"a", "j", false, 1}}, {}},
      {"two jobs", {{"a", "j", false, 0}, {"a", "k", false, 60}}, {"a"}},
      {"two jobs, long after each other", {{"a", "j", false, 0}, {"a", "k", false, 61}}, {}},
      {"two jobs on different hosts", {{"a", "j", false, 0}, {"b", "k", false, 0}}, {}},
      {"one of them fails elsewhere, too",
       {{"a", "j", false, 0}, {"b", "j", true, 1}, {"a", "k", false, 2}},
       {}},
      {"that is found out later",
       {{"a", "j", false, 0}, {"a", "k", false, 1}, {"b", "j", true, 2}},
       {}},
      {"of three jobs one fails elsewhere, too",
       {{"a", "j", false, 0}, {"a", "k", false, 1}, {"a", "l", false, 2}, {"b", "j", true, 3}},
       {"a"}},
      {"time alone lets no host back",
       {{"a", "j", false, 0}, {"a", "k", false, 1}, {"b", "l", false, 300}},
       {"a"}},
  };
  for (const Case& c : cases) {
    HostFailures failures;
    for (const Failure& f : c.failures) {
      failures.Note(f.host, {f.job}, f.elsewhere, kStart + minutes(f.minute));
      failures.Runs(f.job, {"good"});
    }
    std::vector<std::string> bad;
    for (const auto& [host, jobs] : failures.Bad()) bad.push_back(host);
    EXPECT_EQ(bad, c.bad) << c.what;
  }
}

TEST(HostFailures, WhoIsForgivenBeginsAnew) {
  HostFailures failures;
  for (const char* job : {"j", "k"}) {
    failures.Note("a", {job}, false, kStart);
    failures.Runs(job, {});
  }
  EXPECT_THAT(failures.Bad(), ElementsAre(Pair("a", ElementsAre("j", "k"))));
  failures.Forgive("a");
  failures.Note("a", {"l"}, false, kStart);
  failures.Runs("l", {});
  EXPECT_THAT(failures.Bad(), IsEmpty());
}

// Else two jobs that run nowhere would leave out a host for everybody.
TEST(HostFailures, AJobCountsOnceItRunsElsewhere) {
  HostFailures failures;
  for (const char* job : {"j", "k"}) failures.Note("a", {job}, false, kStart);
  EXPECT_THAT(failures.Bad(), IsEmpty()) << "they may run nowhere";
  failures.Runs("j", {"b"});
  EXPECT_FALSE(failures.Awaits("j"));
  EXPECT_TRUE(failures.Awaits("k"));
  failures.Runs("k", {"a", "b"});
  EXPECT_THAT(failures.Bad(), IsEmpty()) << "another member of it runs there";
  failures.Runs("k", {"b"});
  EXPECT_THAT(failures.Bad(), ElementsAre(Pair("a", ElementsAre("j", "k"))));
  failures.Note("a", {"j"}, false, kStart);
  EXPECT_FALSE(failures.Bad().empty()) << "it did run elsewhere";
}

TEST(HostFailures, JobsOfOnePersonAreOne) {
  HostFailures failures;
  const auto fails = [&](const HostFailures::Job& job) {
    failures.Note("a", job, false, kStart);
    failures.Runs(job.id, {"b"});
  };
  fails({"j", "ada"});
  fails({"k", "ada"});
  EXPECT_THAT(failures.Bad(), IsEmpty()) << "she could leave out any host";
  fails({"l", "ben"});
  EXPECT_THAT(failures.Bad(), ElementsAre(Pair("a", ElementsAre("j", "k", "l"))));
}

}  // namespace
}  // namespace muster::coordinator
