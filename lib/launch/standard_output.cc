#include "lib/launch/standard_output.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
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

// 0, or the error that kept some of it from being written.
int WriteAll(int fd, const char* text, size_t size) {
  while (size > 0) {
    const ssize_t written = write(fd, text, size);
    if (written >= 0) {
      text += written;
      size -= static_cast<size_t>(written);
    }
    if (written >= 0 || errno == EINTR) continue;
    if (errno != EAGAIN) return errno;
    pollfd room{fd, POLLOUT, 0};  // whoever shares it with us may have set O_NONBLOCK
    poll(&room, 1, -1);
  }
  return 0;
}

}  // namespace

StandardError::StandardError(int fd) : fd_(fd), before_(std::cerr.rdbuf(this)) {}

StandardError::~StandardError() { std::cerr.rdbuf(before_); }

StandardError::int_type StandardError::overflow(int_type next) {
  if (traits_type::eq_int_type(next, traits_type::eof())) return traits_type::not_eof(next);
  const char character = traits_type::to_char_type(next);
  return xsputn(&character, 1) == 1 ? next : traits_type::eof();
}

std::streamsize StandardError::xsputn(const char* text, std::streamsize size) {
  return WriteAll(fd_, text, static_cast<size_t>(size)) == 0 ? size : 0;
}

StandardOutput::StandardOutput(int fd) : fd_(fd), before_(std::cout.rdbuf()) {
  HoldClosedStreams();
  setp(buffer_.data(), buffer_.data() + buffer_.size());
  std::cout.rdbuf(this);
}

StandardOutput::~StandardOutput() {
  WriteBuffer();
  std::cout.rdbuf(before_);
}

void StandardOutput::LeavesPrintsToStandardError() {
  sync();
  std::cout.rdbuf(before_);
  // By lines: whoever is ended in its midst has shown what it printed.
  (void)setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  // Else standard output was closed from the first, and who prints is told so.
  if (fd_ != STDOUT_FILENO) dup2(STDERR_FILENO, STDOUT_FILENO);
}

int StandardOutput::CodeOnceWritten(int code, absl::string_view program) {
  sync();
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
  if (error_ == 0) error_ = WriteAll(fd_, pbase(), static_cast<size_t>(pptr() - pbase()));
  setp(buffer_.data(), buffer_.data() + buffer_.size());
  return error_ == 0;
}

}  // namespace muster
