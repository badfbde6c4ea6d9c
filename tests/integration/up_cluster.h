// `muster up` as a child, and the commands that are given its address.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "tests/support/program.h"

namespace muster::integration {

// "muster" and what follows it.
std::vector<std::string> MusterCommand(std::vector<std::string> arguments);

class UpCluster {
 public:
  // It answers when this returns, unless it could not start: its output says why. `programs`: the
  // folder of the muster that is started; empty: the one that was built.
  explicit UpCluster(const std::string& dir, const std::vector<std::string>& options = {},
                     const std::string& programs = "");

  std::vector<std::string> Command(std::vector<std::string> words) const;
  struct Said {
    int exit_code = -1;
    std::string text;
  };
  Said Say(const std::vector<std::string>& words) const;
  // What a command with --json says of a job; not an object: it did not.
  nlohmann::json Ask(const std::vector<std::string>& words) const;

  // Another host: `muster agent` in its folder. It has joined when this returns; where it has not,
  // the test has failed, and its output says why. The cluster was told --coordinator. `programs` as
  // above, `before` as of Program.
  std::unique_ptr<Program> Join(const std::string& host, const std::vector<std::string>& options,
                                const std::string& programs = "",
                                const std::function<bool()>& before = {});

  // Of its children.
  std::vector<pid_t> PidsOf(const std::string& program) const;
  std::vector<pid_t> WorkerPids() const { return PidsOf("muster-worker"); }
  const std::string& url() const { return url_; }
  const std::string& dir() const { return dir_; }
  Program& up() { return up_; }
  const Program& up() const { return up_; }

 private:
  const std::string dir_;
  Program up_;
  std::string url_;
};

// A counting job ends well, with the digest that it has alone and an account of all its samples.
void ExpectCountedJob(const UpCluster& cluster, const std::string& job, int samples, int epochs);

}  // namespace muster::integration
