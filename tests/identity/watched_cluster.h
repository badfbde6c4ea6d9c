// A cluster of two hosts as people start it: `muster up` with tokens, and an agent that joins with
// a token of its own. What of it is secret is known.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/program.h"

namespace muster::identity {

struct Secret {
  std::string what;  // for people
  std::string text;
  std::string home;  // it may stand in files whose names have this in them
};

class WatchedCluster {
 public:
  // All lies below `dir`.
  explicit WatchedCluster(std::string dir);

  // A job of two workers is submitted by the user ada, who is no admin.
  void Submit(const std::string& spec);
  bool AwaitStep() const;
  struct Said {
    int exit_code = -1;
    std::string text;
  };
  // As ada, or as the admin.
  Said Say(std::vector<std::string> words, bool as_admin = false) const;
  std::string GrpcAddress() const { return grpc_; }
  std::string IdentityOfAda() const { return dir_ + "/ada-identity"; }

  // Tokens and the keys that follow from them, and all private keys that lie below `dir` now.
  std::vector<Secret> Secrets() const;
  // All that it has started, and itself.
  std::vector<pid_t> Processes() const;
  std::string Output() const { return up_.output() + second_->output(); }
  // Ends the hosts, so that all they say is in Output.
  void End();

 private:
  std::function<bool()> As(bool admin) const;
  void MakeToken(const std::vector<std::string>& words, const std::string& file);

  const std::string dir_;
  Program up_;
  std::optional<Program> second_;
  std::string grpc_;
};

}  // namespace muster::identity
