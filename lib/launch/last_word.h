// What a program that works in place of another tells it besides its output: whose code it runs,
// and last of all that it has ended by itself. It stands in a file in memory that both have open,
// so that it is there in whatever way the program ends.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lib/base/descriptor.h"

namespace muster {

// Of the program that works. Used by one thread.
class LastWord {
 public:
  LastWord() = default;  // nobody asks
  explicit LastWord(int fd) : fd_(fd) {}

  // "task mlp of plug-in /opt/mlp.so", until the next.
  void Runs(absl::string_view what) const;
  void HasEnded() const;

 private:
  int fd_ = -1;
};

struct HeardWord {
  std::string runs;  // empty: nothing but its own code, as far as it has told
  bool has_ended = false;
};
// Of the one that asks. kInternal: this machine gives no such file.
absl::StatusOr<Descriptor> NewLastWord();
// Whatever stands there: at most 4 KiB of it.
HeardWord HearLastWord(const Descriptor& file);

}  // namespace muster
