// What is told of an export that was written, to people and to programs. Pure; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace muster {

struct WrittenExport {
  std::string job;  // its id
  int64_t step = 0;
  std::string format;
  std::string file;
  size_t tensors = 0;    // slots of the optimizer included
  uint64_t bytes = 0;    // of the tensors
  bool average = false;  // the moving average of the parameters, in their place
};

std::string ExportAsText(const WrittenExport& written);  // a line
std::string ExportAsJson(const WrittenExport& written);  // an object on a line

}  // namespace muster
