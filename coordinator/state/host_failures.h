// Which jobs could not run on which host of late: what speaks against a host, and not against the
// job (docs/hosts.md section 6). Pure; lives as long as its Coordinator. A restart forgets it,
// which costs two more jobs a member each: what followed from it is in the journal.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "lib/base/time.h"

namespace muster::coordinator {

class HostFailures {
 public:
  static constexpr Duration kWindow = std::chrono::hours(1);
  static constexpr size_t kEnough = 2;  // jobs that a host has failed within that time

  struct Job {
    std::string id;
    std::string
        owner{};  // all jobs of one owner are one; empty: not known, and it is one by itself
  };

  // That start of the job leaves the host out from now on. It counts once the job runs without that
  // host. `elsewhere`: it leaves out another host, too. Then it is more likely the job, and it
  // speaks against none of them.
  void Note(const std::string& host, const Job& job, bool elsewhere, Time now);
  // The job runs, with members on these hosts only.
  void Runs(const std::string& job, const std::set<std::string>& hosts);
  // It could not run on some host, and has not run without that host yet.
  bool Awaits(const std::string& job) const;
  // A person trusts it again.
  void Forgive(const std::string& host) { jobs_.erase(host); }
  // Hosts that have failed enough jobs, and these. Time alone takes none of them off.
  std::map<std::string, std::vector<std::string>> Bad() const;

 private:
  struct Failure {
    Time when{};
    std::string owner{};
    bool counts = false;  // the job has run without the host
  };
  using Failures = std::map<std::string, Failure>;  // by job
  static bool AreEnough(const Failures& failures);

  std::map<std::string, Failures> jobs_;  // by host
};

}  // namespace muster::coordinator
