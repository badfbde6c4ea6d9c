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
    for (const Failure& f : c.failures)
      failures.Note(f.host, f.job, f.elsewhere, kStart + minutes(f.minute));
    std::vector<std::string> bad;
    for (const auto& [host, jobs] : failures.Bad()) bad.push_back(host);
    EXPECT_EQ(bad, c.bad) << c.what;
  }
}

TEST(HostFailures, WhoIsForgivenBeginsAnew) {
  HostFailures failures;
  failures.Note("a", "j", false, kStart);
  failures.Note("a", "k", false, kStart);
  EXPECT_THAT(failures.Bad(), ElementsAre(Pair("a", ElementsAre("j", "k"))));
  failures.Forgive("a");
  failures.Note("a", "l", false, kStart);
  EXPECT_THAT(failures.Bad(), IsEmpty());
}

}  // namespace
}  // namespace muster::coordinator
