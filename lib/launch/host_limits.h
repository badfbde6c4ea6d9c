// What a program does where its host, or a limit (ulimit), gives it less than it needs.
#pragma once

namespace muster {

// First in main. A file that may not grow is an error of the write, which says so, and not the end
// by SIGXFSZ. Memory or a thread that is refused where nobody can go on without it ends the program
// with `exit_code` and a sentence on standard error that says what to do, and not with SIGABRT: it
// is no fault of the program. `program` lives as long as it.
void EndInWordsAtLimits(const char* program, int exit_code);

}  // namespace muster
