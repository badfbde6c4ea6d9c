#include "tests/integration/up_cluster.h"

#include <fstream>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/integration/jobs.h"
#include "tests/support/run_trust.h"

namespace muster::integration {
namespace {

std::vector<std::string> CommandOf(const std::string& programs, std::vector<std::string> words) {
  words = MusterCommand(words);
  if (!programs.empty()) words[0] = programs + "/muster";
  return words;
}

std::vector<std::string> UpCommand(const std::string& dir, const std::vector<std::string>& options,
                                   const std::string& programs) {
  std::vector<std::string> words = {"up", "--dir", dir, "--listen", "127.0.0.1:0"};
  words.insert(words.end(), options.begin(), options.end());
  return CommandOf(programs, words);
}

std::string NameOf(pid_t pid) {
  std::string name;
  std::getline(std::ifstream("/proc/" + std::to_string(pid) + "/comm"), name);
  return name;
}

}  // namespace

std::vector<std::string> MusterCommand(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), std::string(MUSTER_PROGRAMS) + "/muster");
  return arguments;
}

UpCluster::UpCluster(const std::string& dir, const std::vector<std::string>& options,
                     const std::string& programs)
    : dir_(dir), up_(UpCommand(dir, options, programs)) {
  const std::string ready = "ready at ";
  if (!up_.WaitFor(ready) || !up_.WaitFor("\n", up_.output().find(ready))) return;
  const size_t at = up_.output().find(ready) + ready.size();
  url_ = up_.output().substr(at, up_.output().find('\n', at) - at);
}

std::vector<std::string> UpCluster::Command(std::vector<std::string> words) const {
  words.insert(words.end(), {"--to", url_, "--authority", AuthorityFileOf(dir_)});
  words = MusterCommand(words);
  words.insert(words.begin(),
               {"/usr/bin/env", absl::StrCat("MUSTER_TOKEN_FILE=", AdminTokenFileOf(dir_))});
  return words;
}

UpCluster::Said UpCluster::Say(const std::vector<std::string>& words) const {
  Program program(Command(words));
  const int exit_code = program.End();
  return {exit_code, program.output()};
}

nlohmann::json UpCluster::Ask(const std::vector<std::string>& words) const {
  const Said said = Say(words);
  const auto json = nlohmann::json::parse(said.text, nullptr, /*allow_exceptions=*/false);
  return json.is_object() ? json : nlohmann::json(said.text);
}

std::unique_ptr<Program> UpCluster::Join(const std::string& host,
                                         const std::vector<std::string>& options,
                                         const std::string& programs,
                                         const std::function<bool()>& before) {
  const std::string told = "other hosts join with: muster agent --coordinator ";
  const bool is_told = up_.WaitFor(told) && up_.WaitFor(" --dir", up_.output().find(told));
  EXPECT_TRUE(is_told) << up_.output();
  const size_t at = is_told ? up_.output().find(told) + told.size() : up_.output().size();
  std::vector<std::string> words = {"agent",
                                    "--dir",
                                    dir_,
                                    "--host",
                                    host,
                                    "--coordinator",
                                    up_.output().substr(at, up_.output().find(' ', at) - at)};
  words.insert(words.end(), options.begin(), options.end());
  auto agent = std::make_unique<Program>(CommandOf(programs, words), before);
  EXPECT_TRUE(agent->WaitFor("joined the cluster")) << agent->output();
  return agent;
}

std::vector<pid_t> UpCluster::PidsOf(const std::string& program) const {
  constexpr size_t kMostOfName = 15;  // the kernel keeps no more
  std::vector<pid_t> pids;
  for (const pid_t child : up_.Children())
    if (NameOf(child) == program.substr(0, kMostOfName)) pids.push_back(child);
  return pids;
}

void ExpectCountedJob(const UpCluster& cluster, const std::string& job, int samples, int epochs) {
  const UpCluster::Said watched = cluster.Say({"watch", job});
  EXPECT_EQ(watched.exit_code, 0) << watched.text;
  const nlohmann::json digest = cluster.Ask({"digest", job, "--json"});
  ASSERT_TRUE(digest.is_object()) << digest;
  EXPECT_EQ(digest.value("digest", ""), CountingDigest(samples, static_cast<float>(epochs))) << job;
  const nlohmann::json audit = cluster.Ask({"audit", job, "--json"});
  EXPECT_TRUE(audit.is_object() && audit.value("ok", false)) << job << ": " << audit;
}

}  // namespace muster::integration
