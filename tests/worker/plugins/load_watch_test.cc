#include "worker/plugins/load_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "lib/base/clock.h"
#include "lib/base/mailbox.h"

namespace muster::worker {
namespace {

using std::chrono::hours;
using testing::HasSubstr;

class LoadWatchTest : public testing::Test {
 protected:
  std::string Next() {
    return said_.TakeUntil(RealClock().Now() + std::chrono::minutes(1)).value_or("nothing");
  }
  void Watch(const LoadPatience& patience, bool until_it_ends) {
    LoadWatch watch(
        "/plug/ins/a\n.so", patience, [this](const std::string& line) { said_.Post(line); },
        [this] { said_.Post("ends"); });
    if (!until_it_ends) return;
    EXPECT_EQ(Next(),
              "plug-in /plug/ins/a\\n.so: what runs when it is loaded (static constructors, "
              "muster_plugin) has not returned for 0 s; this process waits 0 s for it\n");
    EXPECT_THAT(Next(), HasSubstr("plug-in /plug/ins/a\\n.so is not loaded after 0 s"));
    EXPECT_EQ(Next(), "ends");
  }

  Mailbox<std::string> said_;
};

TEST_F(LoadWatchTest, TellsWhichOneItIsAndEndsTheProcess) {
  Watch({.tell = Duration(), .end = Duration()}, /*until_it_ends=*/true);
}

TEST_F(LoadWatchTest, SaysNothingOfOneThatIsLoaded) {
  Watch({.tell = hours(1), .end = hours(2)}, /*until_it_ends=*/false);
  EXPECT_EQ(said_.size(), 0u);
}

}  // namespace
}  // namespace muster::worker
