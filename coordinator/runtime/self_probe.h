// Connects to our own listeners now and then, as a stranger would. A listener that does not answer
// any more looks alive to everybody else: only an answer shows that it hears.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "lib/base/stop_signal.h"
#include "lib/base/time.h"

namespace muster::coordinator {

struct ProbedListener {
  std::string address;   // as it listens; where that is all addresses, loopback is tried
  std::string greeting;  // the first bytes of a client, which any listener answers
};
inline constexpr char kHttpGreeting[] = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
// The preface of HTTP/2 and empty settings.
inline const std::string kGrpcGreeting("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", 33);

struct ProbeOptions {
  Duration every = std::chrono::seconds(5);      // from one round of all listeners to the next
  Duration patience = std::chrono::seconds(10);  // for a byte, however busy the machine is
  int failures = 3;                              // without an answer between them
  // Likewise, times that we could not even ask. Who has no descriptor left for a minute has none
  // for those who call either.
  int most_unasked = 12;
};

enum class Heard {
  kAnswer,    // at least a byte came back in time, be it a refusal
  kNothing,   // it was asked
  kNotAsked,  // for want of a descriptor or memory of our own
};
Heard Probe(const ProbedListener& listener, Duration patience);

class SelfProbe {
 public:
  // `on_deaf` is called once, on the probe's thread, with a sentence that names the address.
  SelfProbe(std::vector<ProbedListener> listeners, ProbeOptions options,
            std::function<void(const std::string&)> on_deaf);
  ~SelfProbe();
  SelfProbe(const SelfProbe&) = delete;
  SelfProbe& operator=(const SelfProbe&) = delete;

 private:
  void Run();

  const std::vector<ProbedListener> listeners_;
  const ProbeOptions options_;
  const std::function<void(const std::string&)> on_deaf_;
  StopSignal stop_;
  std::thread thread_;
};

}  // namespace muster::coordinator
