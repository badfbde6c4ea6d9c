#include "lib/launch/host_limits.h"

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <system_error>

namespace muster {
namespace {

const char* program_name = "";
int code_at_limit = 1;

// What the host refuses; null: it is something else, a mistake of ours.
const char* WhatIsRefused() {
  const std::exception_ptr exception = std::current_exception();
  if (!exception) return nullptr;
  try {
    std::rethrow_exception(exception);
  } catch (const std::bad_alloc&) {
    return "memory";
  } catch (const std::system_error& error) {
    if (error.code() == std::errc::resource_unavailable_try_again) return "threads";
    if (error.code() == std::errc::not_enough_memory) return "memory";
  } catch (...) {
  }
  return nullptr;
}

// Without memory of its own.
[[noreturn]] void Terminate() {
  const char* refused = WhatIsRefused();
  if (refused == nullptr) std::abort();
  char text[256];
  const int size = std::snprintf(text, sizeof(text),
                                 "%s: this host gives it no more %s; raise the limit (ulimit -v, "
                                 "ulimit -u, or that of its cgroup), or give it less to do\n",
                                 program_name, refused);
  if (size > 0 && write(STDERR_FILENO, text, static_cast<size_t>(size)) < 0) {
    // There is nobody to tell.
  }
  std::_Exit(code_at_limit);
}

}  // namespace

void EndInWordsAtLimits(const char* program, int exit_code) {
  program_name = program;
  code_at_limit = exit_code;
  std::signal(SIGXFSZ, SIG_IGN);
  std::set_terminate(Terminate);
}

}  // namespace muster
