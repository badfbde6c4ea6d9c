// The hosts of `muster run --hosts`, each a `muster run` behind an ssh of its own: what is done
// about what they do. Values only; cli/ssh_run.h has the processes.
//
// The other end (cli/ssh_input.h) prints kSshBegun once it runs. Its standard input is a line with
// its environment, and then a line for each wish: "alive" once a second, "stop" as if it had got
// SIGINT. The end of it, or a minute without a line, is SIGINT, too: so nothing of a run outlives
// the command that started it by more than a few minutes, however that ends.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "lib/base/time.h"
#include "lib/launch/host_list.h"
#include "lib/launch/launch_plan.h"

namespace muster::cli {

inline constexpr char kSshBegun[] = "muster-run-begun";
// What the first host prints on a line of its own once enough hosts have joined.
inline constexpr char kSshJoined[] = "muster-run-joined";

// The whole command line with which the host of that number is started. `words`: what the person
// gave to `muster run`, without what names hosts.
struct SshCommand {
  std::string program;  // path of muster, on all hosts
  std::string folder;   // in which it is started there, too
  std::vector<std::string> words;
  int hosts_min = 1;
  std::string run_id;  // empty: the words give one
};
std::vector<std::string> SshCommandFor(const SshCommand& command, const NamedHosts& list,
                                       int number);

// The words of a command line that every host is given.
std::vector<std::string> WordsForHosts(const std::vector<std::string>& words);

class SshHosts {
 public:
  struct Say {
    std::string text;
  };
  struct TellToStop {
    int host = 0;
  };
  struct CloseInput {
    int host = 0;
  };
  struct Kill {  // of its ssh
    int host = 0;
    bool at_once = false;  // it was told politely before
  };
  using Action = std::variant<Say, TellToStop, CloseInput, Kill>;
  using Actions = std::vector<Action>;

  // Of `names`, in their order, as many as `hosts_min` have to begin within `patience`.
  SshHosts(std::vector<std::string> names, int hosts_min, Duration patience, Time now);

  Actions Begun(int host);
  void EnoughHaveJoined() { enough_joined_ = true; }
  Actions Ended(int host, int code, Time now);  // its ssh; minus the signal that ended it
  Actions Signal(Time now);                     // Ctrl-C and its kin
  Actions Tick(Time now);                       // about once a second

  bool over() const;  // nothing runs any more
  int exit_code() const { return exit_code_.value_or(kNoCode); }

 private:
  static constexpr int kNoCode = 1;
  struct Host {
    std::string name;
    bool has_begun = false;
    bool has_ended = false;
    bool is_out = false;         // it has ended, and not because it was told to
    std::optional<Time> killed;  // politely
  };

  void OtherEnded(Host& host, int code, Actions& out);
  void CloseAll(Actions& out) const;
  void KillPolitely(size_t number, Time now, Actions& out);
  void EndOthers(Time close_at, Time kill_at);

  const int hosts_min_;
  const Time begin_until_;
  std::vector<Host> hosts_;
  bool enough_joined_ = false;
  std::optional<int> exit_code_;
  bool too_few_ = false;  // are left, so that the run is ended
  int signals_ = 0;
  std::optional<Time> close_at_;  // then inputs of those that still run are closed …
  std::optional<Time> kill_at_;   // … and then their ssh is killed
};

}  // namespace muster::cli
