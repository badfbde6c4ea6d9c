// What a folder holds, in one order everywhere.
#pragma once

#include <algorithm>
#include <string>
#include <system_error>
#include <vector>

namespace muster {

// The names of what `it` goes through, sorted byte by byte. Where it fails half-way there are none:
// a directory is taken whole or not at all.
template <typename Iterator>
std::vector<std::string> NamesIn(Iterator it, std::error_code& error) {
  std::vector<std::string> names;
  for (; !error && it != Iterator(); it.increment(error))
    names.push_back(it->path().filename().string());
  if (error) names.clear();
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace muster
