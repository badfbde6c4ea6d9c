// What hosts of `muster run` leave in their folder, and which process is which.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

#include "nlohmann/json.hpp"

namespace muster::integration {

inline nlohmann::json ReadJson(const std::string& file) {
  std::ifstream in(file);
  return nlohmann::json::parse(in, nullptr, /*allow_exceptions=*/false);
}

// Of the muster that uses a folder, by its lock; -1: none does.
inline pid_t PidIn(const std::string& folder) {
  std::ifstream in(folder + "/lock");
  pid_t pid = -1;
  in >> pid;
  return pid;
}

// The folder of the host with that number; the first one has that of the run. Empty: there is none.
inline std::string FolderOfHost(const std::string& run, int number) {
  if (number == 0) return run;
  const std::string suffix = "-" + std::to_string(number);
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(run + "/hosts", none))
    if (entry.path().filename().string().ends_with(suffix)) return entry.path();
  return "";
}

}  // namespace muster::integration
