// The standard output of a program, which remembers whether everything was written: an answer that
// did not arrive is no success.
#pragma once

#include <array>
#include <streambuf>

#include "absl/strings/string_view.h"

namespace muster {

// Takes the place of std::cout's own buffer for as long as it lives. Made before the program opens
// anything: what it opened first would get the number of a standard stream that is closed, and
// would receive what is printed. One thread.
class StandardOutput final : public std::streambuf {
 public:
  StandardOutput();
  ~StandardOutput() override;
  StandardOutput(const StandardOutput&) = delete;
  StandardOutput& operator=(const StandardOutput&) = delete;

  // What the program ends with once it has printed everything: `code`, or kExitFailed instead of
  // kExitDone, with a line on standard error, when something could not be written. A reader that
  // has had enough and went away is no error.
  int CodeOnceWritten(int code, absl::string_view program);

 protected:
  int_type overflow(int_type next) override;
  int sync() override;

 private:
  bool WriteBuffer();

  std::array<char, 4096> buffer_;
  int error_ = 0;  // of the first write that failed
  std::streambuf* const before_;
};

}  // namespace muster
