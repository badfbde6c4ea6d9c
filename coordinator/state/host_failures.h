// Which jobs could not run on which host of late: what speaks against a host, and not against the
// job (docs/hosts.md section 6). Pure; lives as long as its Coordinator. A restart forgets it,
// which costs two more jobs a member each: what followed from it is in the journal.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "lib/base/time.h"

namespace muster::coordinator {

class HostFailures {
 public:
  static constexpr Duration kWindow = std::chrono::hours(1);
  static constexpr size_t kEnough = 2;  // jobs that a host has failed within that time

  // That start of the job leaves the host out from now on. `elsewhere`: it leaves out another host,
  // too. Then it is more likely the job, and it speaks against none of them.
  void Note(const std::string& host, const std::string& job, bool elsewhere, Time now);
  // A person trusts it again.
  void Forgive(const std::string& host) { jobs_.erase(host); }
  // Hosts that have failed enough jobs, and these. Time alone takes none of them off.
  std::map<std::string, std::vector<std::string>> Bad() const;

 private:
  std::map<std::string, std::map<std::string, Time>> jobs_;  // by host: when each job failed there
};

}  // namespace muster::coordinator
