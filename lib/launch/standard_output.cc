#include "lib/launch/standard_output.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <iostream>
#include <system_error>

#include "lib/base/exit_codes.h"

namespace muster {
namespace {

// Who writes there is told that it is no place to write to, as if it were still closed.
void HoldClosedStreams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(stream, F_GETFD) < 0) (void)open("/dev/null", O_RDONLY);
}

}  // namespace

StandardOutput::StandardOutput() : before_(std::cout.rdbuf()) {
  HoldClosedStreams();
  setp(buffer_.data(), buffer_.data() + buffer_.size());
  std::cout.rdbuf(this);
}

StandardOutput::~StandardOutput() {
  WriteBuffer();
  std::cout.rdbuf(before_);
}

int StandardOutput::CodeOnceWritten(int code, absl::string_view program) {
  std::cout.flush();
  if (error_ == 0 || error_ == EPIPE) return code;
  std::cerr << program << ": cannot write the output: " << std::generic_category().message(error_)
            << std::endl;
  return code == kExitDone ? kExitFailed : code;
}

StandardOutput::int_type StandardOutput::overflow(int_type next) {
  if (!WriteBuffer()) return traits_type::eof();
  if (traits_type::eq_int_type(next, traits_type::eof())) return traits_type::not_eof(next);
  return sputc(traits_type::to_char_type(next));
}

int StandardOutput::sync() { return WriteBuffer() ? 0 : -1; }

bool StandardOutput::WriteBuffer() {
  const char* at = pbase();
  while (error_ == 0 && at < pptr()) {
    const ssize_t written = write(STDOUT_FILENO, at, static_cast<size_t>(pptr() - at));
    if (written >= 0) at += written;
    if (written >= 0 || errno == EINTR) continue;
    pollfd room{STDOUT_FILENO, POLLOUT, 0};  // whoever shares it with us may have set O_NONBLOCK
    if (errno == EAGAIN)
      poll(&room, 1, -1);
    else
      error_ = errno;
  }
  setp(buffer_.data(), buffer_.data() + buffer_.size());
  return error_ == 0;
}

}  // namespace muster
