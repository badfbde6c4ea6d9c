// The commands about hosts, against a coordinator's REST that the test plays.

#include <deque>
#include <memory>
#include <sstream>
#include <streambuf>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/hosts.h"
#include "cli/remote.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/base/mutex.h"
#include "lib/http/server.h"
#include "nlohmann/json.hpp"

namespace muster::cli {
namespace {

using Command = RemoteArguments::Command;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

std::string HostJson(const std::string& name, int members, bool draining = false) {
  std::vector<std::string> there;
  for (int i = 0; i < members; ++i)
    there.push_back(absl::StrCat(R"({"job":"j","member":"worker-)", i, "\"}"));
  return absl::StrCat(R"({"name":")", name, R"(","node":"n","slots":4,"up":true,"used":)", members,
                      name == "a" ? R"(,"devices":["0","1"],"devices_used":["1"])" : "",
                      R"(,"draining":)", draining ? "true" : "false", R"(,"members":[)",
                      absl::StrJoin(there, ","), "]}");
}

// Takes so many flushes and then fails, as a pipe does that nobody reads any more.
class ShortOutput final : public std::stringbuf {
 public:
  explicit ShortOutput(int flushes) : flushes_(flushes) {}

 protected:
  int sync() override { return --flushes_ < 0 ? -1 : 0; }

 private:
  int flushes_;
};

class HostCommandsTest : public ::testing::Test {
 protected:
  int Run(RemoteArguments arguments) { return Run(arguments, out_, false); }
  int Run(RemoteArguments arguments, std::ostream& out, bool is_terminal) {
    arguments.to = "http://" + server_->Address();
    arguments.pause = Duration::zero();
    return Remote(arguments, {.out = out, .err = err_, .is_terminal = is_terminal});
  }
  void Answer(const http::Request& request, const http::Responder& respond) {
    const MutexLock lock(mutex_);
    asked_.push_back(request.method + " " + request.path + " " + request.body);
    if (request.params.count("name") > 0 && request.params.at("name") != "b")
      return respond.Send(absl::NotFoundError("there is no host; there are: b"));
    if (looks_.empty()) return respond.Send(absl::NotFoundError("there is no host b"));
    respond.Send({.body = looks_.front()});
    if (looks_.size() > 1 || is_forgotten_) looks_.pop_front();
  }
  std::vector<std::string> Asked() {
    const MutexLock lock(mutex_);
    return asked_;
  }
  http::Handler Answering() {
    return [this](const http::Request& q, const http::Responder& r) { Answer(q, r); };
  }

  void Looks(std::deque<std::string> looks, bool is_forgotten = false) {
    const MutexLock lock(mutex_);
    looks_ = std::move(looks);
    is_forgotten_ = is_forgotten;
  }

  Mutex mutex_;
  std::vector<std::string> asked_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::string> looks_ ABSL_GUARDED_BY(mutex_);  // what a host is, from look to look
  bool is_forgotten_ ABSL_GUARDED_BY(mutex_) = false;      // after the last of them
  const std::unique_ptr<http::Server> server_ =
      http::Server::Start(
          "127.0.0.1:0",
          {{"GET",
            "/v1/hosts",
            [](const http::Request& q, const http::Responder& r) {
              const bool is_first = q.query.count("page_token") == 0;
              r.Send(
                  {.body = absl::StrCat(R"({"hosts":[)", HostJson(is_first ? "a" : "b", 1),
                                        R"(],"next_page_token":")", is_first ? "a" : "", "\"}")});
            },
            {"page_token"}},
           {"GET",
            "/v1/jobs",
            [](const http::Request& q, const http::Responder& r) {
              r.Send({.body = q.query.at("state") == "running"
                                  ? R"({"jobs":[{"id":"j","state":"running","step":50,"steps":100,
                                      "seconds_left":25,"loss":1.5,"waits_for":"a part"}]})"
                                  : R"({"jobs":[]})"});
            },
            {"state"}},
           {"GET", "/v1/hosts/{name}", Answering()},
           {"POST", "/v1/hosts/{name}:drain", Answering()},
           {"POST", "/v1/hosts/{name}:undrain", Answering()},
           {"POST", "/v1/jobs/{id}:scale",
            [this](const http::Request& q, const http::Responder& r) {
              const MutexLock lock(mutex_);
              asked_.push_back(q.body);
              r.Send({.body = R"({"id":"j","state":"running","workers":2})"});
            }}})
          .value();
  std::ostringstream out_, err_;
};

TEST_F(HostCommandsTest, HostsGoThroughAllPages) {
  EXPECT_EQ(Run({.command = Command::kHosts}), 0);
  EXPECT_EQ(out_.str(),
            "host  node  slots      devices  state             jobs\n"
            "a     n     1/4        1/2      up                j\n"
            "b     n     1/4        -        up                j\n");
}

TEST_F(HostCommandsTest, HostsAreALineEachForPrograms) {
  EXPECT_EQ(Run({.command = Command::kHosts, .json = true}), 0);
  std::istringstream lines(out_.str());
  std::vector<std::string> names;
  for (std::string line; std::getline(lines, line);)
    names.push_back(nlohmann::json::parse(line)["name"]);
  EXPECT_THAT(names, ElementsAre("a", "b"));
}

TEST_F(HostCommandsTest, DrainWaitsUntilNothingIsLeft) {
  Looks({HostJson("b", 3, true), HostJson("b", 3, true), HostJson("b", 1, true),
         HostJson("b", 0, true)});
  EXPECT_EQ(Run({.command = Command::kDrain, .host = "b"}), 0);
  EXPECT_EQ(err_.str(),
            "muster drain: 3 members still there\nmuster drain: 1 member still there\n");
  EXPECT_EQ(out_.str(), "host b is drained: nothing is left there\n");
}

TEST_F(HostCommandsTest, DrainEndsWithTheHost) {
  Looks({HostJson("b", 1, true)}, /*is_forgotten=*/true);
  EXPECT_EQ(Run({.command = Command::kDrain, .host = "b"}), 0);
}

TEST_F(HostCommandsTest, DrainSaysThatSomebodyHasUndoneIt) {
  Looks({HostJson("b", 1, true), HostJson("b", 1, false)});
  EXPECT_EQ(Run({.command = Command::kDrain, .host = "b"}), 1);
  EXPECT_THAT(err_.str(), HasSubstr("somebody has undone it"));
}

TEST_F(HostCommandsTest, DrainIsNotPatientForEver) {
  Looks({HostJson("b", 1, true)});
  EXPECT_EQ(Run({.command = Command::kDrain, .host = "b", .drain_patience = Duration::zero()}), 1);
  EXPECT_THAT(err_.str(), HasSubstr("nothing has left host b"));
}

TEST_F(HostCommandsTest, DrainNeedNotWait) {
  Looks({HostJson("b", 2, true)});
  EXPECT_EQ(Run({.command = Command::kDrain, .host = "b", .no_wait = true}), 0);
  EXPECT_THAT(out_.str(), HasSubstr("2 members still there"));
  EXPECT_THAT(Asked(), ElementsAre("POST /v1/hosts/b:drain {}"));
}

TEST_F(HostCommandsTest, DrainIsUndone) {
  Looks({HostJson("b", 2)});
  EXPECT_EQ(Run({.command = Command::kDrain, .host = "b", .undo = true}), 0);
  EXPECT_EQ(out_.str(), "host b takes members again\n");
  EXPECT_THAT(Asked(), ElementsAre("POST /v1/hosts/b:undrain {}"));
}

TEST_F(HostCommandsTest, AHostThatIsUnknownIsAnError) {
  EXPECT_EQ(Run({.command = Command::kDrain, .host = "x"}), 1);
  EXPECT_THAT(err_.str(), HasSubstr("there are: b"));
}

TEST_F(HostCommandsTest, AJobIsScaled) {
  EXPECT_EQ(Run({.command = Command::kScale, .job = "j", .workers_min = 2, .workers_max = 4}), 0);
  EXPECT_THAT(Asked(), ElementsAre(R"({"workers":{"max":4,"min":2}})"));
  EXPECT_EQ(out_.str(), "job j may have 2 to 4 workers; it has 2 now\n");
}

TEST_F(HostCommandsTest, TopIsPrintedOnceWhereThereIsNoTerminal) {
  EXPECT_EQ(Run({.command = Command::kTop}), 0);
  EXPECT_THAT(out_.str(), HasSubstr("b     n     1/4"));
  EXPECT_THAT(out_.str(),
              HasSubstr("j    running     50 of 100        2.00     25 s       1.5000    a part"));
  EXPECT_THAT(out_.str(), Not(HasSubstr("\x1b")));
}

TEST_F(HostCommandsTest, TopIsDrawnAnewOnATerminalUntilNobodyReadsIt) {
  ShortOutput buffer(2);
  std::ostream out(&buffer);
  Run({.command = Command::kTop}, out, true);
  const std::string text = buffer.str();
  EXPECT_NE(text.find("\x1b[2J"), text.rfind("\x1b[2J"));
}

TEST_F(HostCommandsTest, TopIsALineEachTimeForPrograms) {
  EXPECT_EQ(Run({.command = Command::kTop, .once = true, .json = true}), 0);
  const auto picture = nlohmann::json::parse(out_.str());
  EXPECT_EQ(picture["hosts"].size(), 2u);
  EXPECT_EQ(picture["jobs"][0]["id"], "j");
}

TEST(HostTable, SaysWhatAHostDoes) {
  const auto state = [](bool up, bool draining) {
    return HostTable({{.name = "a", .up = up, .away_for_seconds = 12, .draining = draining}});
  };
  EXPECT_THAT(state(false, false), HasSubstr("  away 12 s  "));
  EXPECT_THAT(state(true, true), HasSubstr("  draining  "));
  EXPECT_THAT(state(false, true), HasSubstr("  draining, away 12 s  "));
  const std::string text = HostTable({{.name = "a", .up = true, .left_out = "why"}});
  EXPECT_THAT(text, HasSubstr("  left out  "));
  EXPECT_THAT(text, HasSubstr("a is left out for all jobs: why; muster drain a --undo lets it"));
  EXPECT_THAT(
      HostTable({{.name = "a", .up = true, .name_space = "vision"}, {.name = "b"}}),
      AllOf(HasSubstr("namespace  jobs"), HasSubstr("vision     -"), HasSubstr("-          -")));
  EXPECT_THAT(HostTable({}), HasSubstr("There are no hosts"));
  EXPECT_THAT(HostTable({}, false), IsEmpty());
  EXPECT_THAT(HostTable({}, true, {"b"}),
              AllOf(StartsWith("There are no hosts now.\nb was revoked"),
                    HasSubstr("muster token host HOST lets one back")));
  EXPECT_THAT(HostTable({{.name = "a", .up = true}}, true, {"b", "c"}),
              HasSubstr("\nb, c were revoked and may not join"));
}

}  // namespace
}  // namespace muster::cli
