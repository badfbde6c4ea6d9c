// Bounds how long a plug-in may take to be loaded. Its code runs then, in its static constructors
// and in muster_plugin, and nothing but the end of the process stops code that does not return.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <thread>

#include "lib/base/mailbox.h"
#include "lib/base/time.h"

namespace muster::worker {

struct LoadPatience {
  Duration tell = std::chrono::seconds(5);  // until people are told which one it is
  Duration end = std::chrono::seconds(60);  // from the beginning, until the process ends
};

// While `file` is loaded, which is over when this is destroyed.
class LoadWatch {
 public:
  LoadWatch(const std::string& file, const LoadPatience& patience);
  // Instead of what writes to the standard error, and what ends the process: for tests.
  LoadWatch(const std::string& file, const LoadPatience& patience,
            std::function<void(const std::string& line)> say, std::function<void()> end);
  ~LoadWatch();
  LoadWatch(const LoadWatch&) = delete;
  LoadWatch& operator=(const LoadWatch&) = delete;

 private:
  Mailbox<bool> loaded_;
  std::thread thread_;
};

}  // namespace muster::worker
