// Decoders that are shell scripts, which tell, end or start the real one as a test wants it.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lib/data/decoder_wire.h"
#include "tests/lib/data/opened_set.h"

namespace muster {

// A decoder that does what a shell script says; its standard input is the socket.
inline std::string Script(const Files& files, const std::string& lines) {
  const std::string path = files.Write("decoder", "#!/bin/sh\n" + lines + "\n");
  chmod(path.c_str(), 0755);
  return path;
}

// The first answer of such a script, which it writes into the socket, as octal numbers for printf.
inline std::string Printf(const std::string& bytes) {
  std::string text = "printf '";
  for (const char byte : bytes) absl::StrAppendFormat(&text, "\\%03o", byte & 0xff);
  return text + "' >&0";
}

inline std::string Answered(uint64_t code, const std::string& text) {
  const std::string body = WireWriter().Number(code).Text(text).bytes();
  return WireWriter().Number(body.size()).bytes() + body;
}

// The last line of one that becomes the real decoder.
inline std::string ExecTheRealOne() {
  const std::filesystem::path folder =
      std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path();
  return absl::StrCat("exec ", (folder / "bin/muster-decoder").string(), " \"$@\"");
}

}  // namespace muster
