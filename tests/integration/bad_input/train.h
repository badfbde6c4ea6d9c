// `muster train` on a counting job in a folder of its own, for tests of what people and networks do
// to it.
#pragma once

#include <fstream>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/program.h"

namespace muster::integration {

inline std::string ProgramPath(const std::string& name) {
  return std::string(MUSTER_PROGRAMS) + "/" + name;
}

// 1009 is a prime: 16 steps in each epoch, the last one short.
// `length`: "epochs: 2", "steps: 30".
inline std::string CountingSpecOf(const std::string& length, const std::string& more = "") {
  return "name: count\ntask: counting\ndata: {samples: 1009}\nbatch: 64\nlanes: 7\n" + length +
         "\nreduction: sum\noptimizer: {kind: sgd, learning_rate: 1}\ncheckpoint: {every_steps: "
         "100}\n" +
         more;
}
inline std::string CountingSpec(int epochs, const std::string& more = "") {
  return CountingSpecOf("epochs: " + std::to_string(epochs), more);
}

inline std::string WriteText(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

inline std::vector<std::string> Train(const std::string& spec, const std::string& dir,
                                      const std::vector<std::string>& more = {}) {
  std::vector<std::string> command = {ProgramPath("muster"), "train", spec, "--dir", dir};
  command.insert(command.end(), more.begin(), more.end());
  return command;
}

// The last object of --json; null where there is none.
inline nlohmann::json ResultOf(const Program& program) {
  const size_t at = program.output().rfind("{\"event\":\"result\"");
  if (at == std::string::npos) return nullptr;
  return nlohmann::json::parse(program.output().substr(at, program.output().find('\n', at) - at),
                               nullptr, false);
}

// Of the same job on one worker whom nobody disturbs.
inline std::string UndisturbedDigest(const std::string& spec) {
  Program program(Train(spec, MakeFolder() + "/job", {"--workers", "1", "--json"}));
  EXPECT_EQ(program.End(), 0) << program.output();
  const nlohmann::json result = ResultOf(program);
  return result.is_object() ? result.value("digest", "") : "";
}

}  // namespace muster::integration
