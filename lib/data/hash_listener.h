// Who is told how far OpenDataSet is with the hash of its data, and says how what it opens is to
// wait. A task calls that, in its plug-in or not, and the worker that makes the task wants to know:
// what plug-ins link (libmuster_plugin.so) and the worker have each their own, and a plug-in's is
// found by name.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "lib/base/lease.h"
#include "lib/base/time.h"
#include "lib/data/prepare_once.h"

namespace muster {

struct HashListener {
  std::function<void(const PreparedSoFar&)> told;
  std::function<bool()> may_wait;  // for another process that hashes the same
  // Most data is hashed in no time, of which nobody needs to hear.
  std::chrono::milliseconds quiet_for{1000};
  // A file was found or a piece of one was read, of which people hear nothing: opening a large set
  // takes long, and is no standing still.
  std::function<void()> goes_on{};
  // How long the thread that reads the data set may stand still, once it is open.
  Duration patience = kDefaultThreadPatience;
  // People, of what goes wrong and is mended, also later: on any thread, as long as the data set
  // lives. May be empty.
  std::function<void(const std::string& text)> warns{};
};

// What muster_set_hash_listener does, within one library.
void SetHashListenerOfThread(const HashListener* listener);
// Of this thread; null: there is none.
const HashListener* CurrentHashListener();
// Tells it, where there is one.
void DataGoesOn();

// The listener lives until another is set, or none (null). Of the thread that calls OpenDataSet.
using SetHashListener = void (*)(const HashListener* listener);
inline constexpr char kSetHashListener[] = "muster_set_hash_listener";

// Is told while it lives. `set`: null where nothing of that name was found.
class HashListening {
 public:
  HashListening(SetHashListener set, const HashListener& listener) : set_(set) {
    if (set_ != nullptr) set_(&listener);
  }
  HashListening(const HashListening&) = delete;
  HashListening& operator=(const HashListening&) = delete;
  ~HashListening() {
    if (set_ != nullptr) set_(nullptr);
  }

 private:
  const SetHashListener set_;
};

}  // namespace muster

extern "C" __attribute__((visibility("default"))) void muster_set_hash_listener(
    const muster::HashListener* listener);
