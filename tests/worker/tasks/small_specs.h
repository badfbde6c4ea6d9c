// Jobs small enough for a unit test.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "lib/base/check.h"
#include "lib/domain/job.h"

namespace muster::worker {

// A file of its own that lives as long as this.
class TextFile {
 public:
  explicit TextFile(std::string_view content)
      : path_((std::filesystem::temp_directory_path() / "text_XXXXXX").string()) {
    const int file = mkstemp(path_.data());
    MUSTER_CHECK(file >= 0);
    MUSTER_CHECK(write(file, content.data(), content.size()) ==
                 static_cast<ssize_t>(content.size()));
    close(file);
  }
  ~TextFile() { std::filesystem::remove(path_); }
  TextFile(const TextFile&) = delete;
  TextFile& operator=(const TextFile&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// About 5 KB that a small model learns quickly.
inline const TextFile& SmallText() {
  static const TextFile file([] {
    std::string text;
    for (int i = 0; i < 97; ++i)
      absl::StrAppend(&text, "for (int i = 0; i < ", i * i, "; ++i) sum += values[i];\n");
    return text;
  }());
  return file;
}

inline TrainingSpec SmallCodeLm() {
  TrainingSpec training;
  training.task = "code-lm";
  training.parameters = {{"layers", 2},   {"width", 24},    {"heads", 3},
                         {"context", 17}, {"dropout", 0.1}, {"stride", 5}};
  training.data.paths = {SmallText().path()};
  return training;
}

inline TrainingSpec SmallTransformer() {
  TrainingSpec training;
  training.task = "transformer";
  training.parameters = {{"width", 24},         {"heads", 3},        {"encoder_layers", 2},
                         {"decoder_layers", 2}, {"feedforward", 40}, {"source_length", 3},
                         {"target_length", 5},  {"dropout", 0.1}};
  training.data.samples = 53;
  training.seed = 11;
  return training;
}

}  // namespace muster::worker
