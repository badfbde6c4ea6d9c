// The port at which hosts join (docs/identity.md section 3): one question and one answer over a
// PskChannel, on one thread that waits for nobody. What strangers may hold is bounded.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "lib/base/descriptor.h"
#include "lib/base/time.h"
#include "lib/domain/join.h"
#include "lib/join/psk_channel.h"
#include "lib/log/limited_log.h"

namespace muster {

struct JoinLimits {
  int served_of_address = 4;                     // connections at a time
  int waiting_of_address = 4;                    // besides; more are closed at once
  int all = 64;                                  // served or waiting
  Duration patience = std::chrono::seconds(10);  // with one that is served
  size_t bytes = kMostJoinBytes;                 // that one may send
};

class JoinListener {
 public:
  // `identity`: of the key that its sender has shown to know. `answer` is called once, on any
  // thread, also after the listener is gone.
  using Decide = std::function<void(const std::string& identity, const JoinHost& ask,
                                    std::function<void(JoinAnswer)> answer)>;

  // Both are called on the listener's thread, and must not wait. kInvalidArgument: the address is
  // not numeric; kAlreadyExists: somebody else listens there.
  static absl::StatusOr<std::unique_ptr<JoinListener>> Start(const std::string& address,
                                                             PskChannel::FindKey find_key,
                                                             Decide decide, JoinLimits limits = {});
  ~JoinListener();  // closes what is open
  JoinListener(const JoinListener&) = delete;
  JoinListener& operator=(const JoinListener&) = delete;

  const std::string& Address() const { return address_; }  // with the port in effect

 private:
  class Inbox;  // answers on their way to the thread
  struct Connection {
    Descriptor socket;
    std::string address;                  // of the other end, without the port
    std::unique_ptr<PskChannel> channel;  // null: it waits to be served
    Time until{};                         // of one that is served
    size_t taken = 0;                     // bytes that came
    std::string said;                     // of its question
    std::string out;                      // bytes that go
    bool asked = false;
    bool closes = false;  // once `out` is sent
  };
  using Number = uint64_t;

  JoinListener(Descriptor socket, std::string address, PskChannel::FindKey find_key, Decide decide,
               JoinLimits limits, std::shared_ptr<Inbox> inbox);
  void Run();
  Duration UntilNext(Time now) const;
  void AcceptAll(Time now);
  bool HasRoomFor(const std::string& address) const;
  int Served(const std::string& address) const;
  void ServeWaiting(Time now);
  // The three tell whether the connection stays.
  bool Read(Number number, Connection& connection);
  bool Hear(Number number, Connection& connection);
  static bool Write(Connection& connection);
  void Answer(Number number, const JoinAnswer& answer);
  void CloseLate(Time now);

  const Descriptor socket_;
  const std::string address_;
  const PskChannel::FindKey find_key_;
  const Decide decide_;
  const JoinLimits limits_;
  const std::shared_ptr<Inbox> inbox_;
  LimitedLog strangers_;

  // The thread only.
  std::map<Number, Connection> connections_;  // the oldest first
  Number next_ = 1;
  Time accepts_from_{};  // not before: descriptors had run out

  std::thread thread_;
};

}  // namespace muster
