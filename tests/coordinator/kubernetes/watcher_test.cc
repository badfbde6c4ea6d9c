// When a watcher asks again, by an API that a test plays over HTTPS and pauses that it only notes.
#include "coordinator/kubernetes/watcher.h"

#include <atomic>
#include <chrono>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/base/mailbox.h"
#include "tests/coordinator/kubernetes/played_server.h"

namespace muster::coordinator {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using testing::AllOf;
using testing::Ge;
using testing::Le;

constexpr char kPath[] = "/api/v1/namespaces/jobs/pods";
constexpr char kEmptyList[] = R"({"items":[],"metadata":{"resourceVersion":"1"}})";
constexpr char kBookmark[] = R"({"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"2"}}})"
                             "\n";

http::Response Refusal(int status, const std::string& retry_after) {
  http::Response refusal{.status = status, .body = R"({"kind":"Status","message":"not now"})"};
  if (!retry_after.empty()) refusal.headers.emplace_back("Retry-After", retry_after);
  return refusal;
}

class WatcherTest : public testing::Test {
 protected:
  WatcherTest() {
    server_.Serve({{"GET", kPath,
                    [this](const http::Request& request, const http::Responder& respond) {
                      const MutexLock lock(mutex_);
                      respond.Send(request.query.contains("watch") ? watch_ : list_);
                    },
                    QueryOfWatch()}});
  }

  // From now on; each list, and each watch.
  void Answer(http::Response list, http::Response watch) {
    const MutexLock lock(mutex_);
    list_ = std::move(list);
    watch_ = std::move(watch);
  }

  // The pauses of a watcher that has begun now, the first `count`: it waits for none of them, and
  // `in_pause` is done in each.
  std::vector<Duration> Pauses(
      size_t count, const std::function<void()>& in_pause = [] {}) {
    Mailbox<Duration> noted;
    std::atomic<size_t> left = count;
    std::vector<Duration> pauses;
    Watcher watcher(server_.Place(), kPath, "labelSelector=a",
                    {.on_list = [](const auto&) {},
                     .on_put = [](const auto&) {},
                     .on_gone = [](const auto&) {},
                     .on_trouble = [](const auto&) {}},
                    [&](Duration pause) {
                      noted.Post(pause);
                      in_pause();
                      return --left == 0;
                    });
    const Time end = RealClock().Now() + seconds(40);
    while (pauses.size() < count) {
      const std::optional<Duration> pause = noted.TakeUntil(end);
      if (!pause) break;
      pauses.push_back(*pause);
    }
    EXPECT_EQ(pauses.size(), count) << "it does not ask again";
    pauses.resize(count);
    return pauses;
  }

 private:
  Mutex mutex_;
  http::Response list_ ABSL_GUARDED_BY(mutex_);
  http::Response watch_ ABSL_GUARDED_BY(mutex_);
  PlayedServer server_;
};

TEST_F(WatcherTest, AListThatIsRefusedIsNotTriedBeforeTheApiAsksForIt) {
  Answer(Refusal(429, "7"), {});
  for (const Duration pause : Pauses(3)) EXPECT_THAT(pause, AllOf(Ge(seconds(7)), Le(seconds(8))));
}

TEST_F(WatcherTest, AWatchThatIsRefusedIsNotTriedBeforeTheApiAsksForIt) {
  Answer({.body = kEmptyList}, Refusal(503, "9"));
  for (const Duration pause : Pauses(3))
    EXPECT_THAT(pause, AllOf(Ge(seconds(9)), Le(seconds(10)))) << "as the watch was told";
}

TEST_F(WatcherTest, ARetryAfterHasABound) {
  Answer(Refusal(503, "4000000000"), {});
  EXPECT_THAT(Pauses(1)[0], AllOf(Ge(minutes(5)), Le(minutes(5) + seconds(1))));
}

// A date, or nonsense, is passed over.
TEST_F(WatcherTest, WithoutARetryAfterPausesGrowToHalfAMinute) {
  for (const char* odd : {"", "-1", "soon", "Fri, 31 Dec 1999 23:59:59 GMT"}) {
    Answer(Refusal(500, odd), {});
    const std::vector<Duration> pauses = Pauses(10);
    EXPECT_LE(pauses.front(), seconds(1));
    EXPECT_THAT(pauses.back(), AllOf(Ge(seconds(15)), Le(seconds(30))));
  }
}

// What it was told is not heeded again by what fails later without such a word.
TEST_F(WatcherTest, ARetryAfterIsForOneTry) {
  Answer(Refusal(429, "60"), {});
  const std::vector<Duration> pauses =
      Pauses(2, [this] { Answer({.body = kEmptyList}, {.body = "no line of a watch\n"}); });
  EXPECT_GE(pauses[0], seconds(60));
  EXPECT_LE(pauses[1], seconds(1));
}

TEST_F(WatcherTest, APauseIsShortAgainOnceAWatchHasToldSomething) {
  Answer({.body = kEmptyList},
         {.body = std::string(kBookmark) +
                  R"({"type":"ERROR","object":{"code":410,"message":"too old"}})" + "\n"});
  for (const Duration pause : Pauses(8)) EXPECT_LE(pause, seconds(1));
}

// As of what stands before the API and lets nothing stay open.
TEST_F(WatcherTest, AWatchThatEndsAtOnceIsNotBegunAgainWithoutAPause) {
  Answer({.body = kEmptyList}, {});
  const std::vector<Duration> pauses = Pauses(10);
  EXPECT_LE(pauses.front(), seconds(1));
  EXPECT_THAT(pauses.back(), AllOf(Ge(seconds(15)), Le(seconds(30)))) << "it asks without a pause";
}

TEST_F(WatcherTest, AListWithoutEndIsGivenUp) {
  Answer({.body = R"({"items":[],"metadata":{"resourceVersion":"1","continue":"more"}})"}, {});
  EXPECT_LE(Pauses(1)[0], seconds(1));
}

TEST_F(WatcherTest, WatchersThatWereRefusedTogetherComeBackApart) {
  Answer(Refusal(429, "2"), {});
  std::set<Duration> first;
  for (int i = 0; i < 8; ++i) first.insert(Pauses(1)[0]);
  EXPECT_EQ(first.size(), 8u) << "they come back at one moment";
}

}  // namespace
}  // namespace muster::coordinator
