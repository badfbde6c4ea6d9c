// The standard output of a program, which remembers whether everything was written: an answer that
// did not arrive is no success.
#pragma once

#include <unistd.h>

#include <array>
#include <ostream>
#include <streambuf>

#include "absl/strings/string_view.h"

namespace muster {

// What goes to std::cerr, written at once to `fd` for as long as this lives.
class StandardError final : public std::streambuf {
 public:
  explicit StandardError(int fd);
  ~StandardError() override;
  StandardError(const StandardError&) = delete;
  StandardError& operator=(const StandardError&) = delete;

 protected:
  int_type overflow(int_type next) override;
  std::streamsize xsputn(const char* text, std::streamsize size) override;

 private:
  const int fd_;
  std::streambuf* const before_;
};

// Takes the place of std::cout's own buffer for as long as it lives. Made before the program opens
// anything: what it opened first would get the number of a standard stream that is closed, and
// would receive what is printed. One thread.
class StandardOutput final : public std::streambuf {
 public:
  // `fd`: where it goes; it stays the caller's.
  explicit StandardOutput(int fd = STDOUT_FILENO);
  ~StandardOutput() override;
  StandardOutput(const StandardOutput&) = delete;
  StandardOutput& operator=(const StandardOutput&) = delete;

  // For a program that runs code of others: from now on what is printed to std::cout, by printf or
  // to the descriptor of standard output goes to standard error, and what goes to own() is all that
  // is written to `fd`, which is to be another descriptor. It stays so when this is gone.
  void LeavesPrintsToStandardError();
  std::ostream& own() { return own_; }

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
  const int fd_;
  int error_ = 0;  // of the first write that failed
  std::streambuf* const before_;
  std::ostream own_{this};
};

}  // namespace muster
