// What the coordinator's state machine is told once, at its start. Plain values, which live as long
// as it does.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>

#include "lib/base/ids.h"
#include "lib/base/lease.h"
#include "lib/base/time.h"

namespace muster::coordinator {

struct Settings {
  Duration lease = kDefaultLease;
  Duration thread_patience = kDefaultThreadPatience;
  // For those that are silent, or do not come back after a restart, and hold the only copy of the
  // state: to give them up costs the steps since the last checkpoint.
  Duration last_copy_patience = std::chrono::seconds(15);
  // The same while no other machine is heard at all, and perhaps it is we who are cut off.
  Duration cut_off_patience = std::chrono::seconds(60);
  // After a restart, for those that have not come back: an attempt to connect that began before it,
  // and the next one.
  Duration return_patience = kCoordinatorConnectTimeout + std::chrono::seconds(1);
  // Without a word of a host's agent, nor of any member placed there: then they are placed anew.
  // Longer than the patience with the only copy of the state, which may be there.
  Duration host_patience = std::chrono::seconds(20);
  // Between two looks for room into which jobs may grow.
  Duration grow_interval = std::chrono::seconds(60);
  // For room for a member without which a job cannot go on: then the job waits in the queue, and
  // others have the places that it holds.
  Duration room_patience = std::chrono::seconds(60);
  Duration start_patience = std::chrono::seconds(10);  // for more than the least number of workers
  // For a member to get ready, and for the last checkpoint to come; besides, a second for each 10
  // MB of state.
  Duration forming_patience = std::chrono::seconds(120);
  Duration checkpoint_patience = std::chrono::seconds(60);
  // For a job to stop with a checkpoint while others wait for its place, or its time is over.
  Duration stop_patience = std::chrono::seconds(60);
  Duration first_retry = std::chrono::seconds(1);  // of the last checkpoint; doubled up to …
  Duration longest_retry = std::chrono::seconds(60);
  int retries = 100;
  int retries_of_stop = 6;  // of one at which a person has stopped the job: a minute of pauses
  std::string node;         // the machine that this coordinator runs on
  bool launches = false;    // each job has hosts that are made for it, and no others
  int32_t slots = 0;        // for members that are started by others than host agents

  Duration PatienceAfterRestart() const { return std::max(lease, return_patience); }
};

// This start of the coordinator: what each of its jobs needs to know of it.
struct Leadership {
  std::string cluster;
  TermNumber term;
  Settings settings;
};

}  // namespace muster::coordinator
