// Where jobs are runs of MLflow, too, as command lines say it. Plain values.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace muster::cli {

struct MlflowServer {
  std::string url;         // empty: nowhere
  std::string experiment;  // empty: as the coordinator has it by itself
  std::string token_file;  // empty: as of the environment
};

// As options of the coordinator, which may run in another folder; empty: there is no server.
inline std::vector<std::string> WordsOf(const MlflowServer& server) {
  if (server.url.empty()) return {};
  std::vector<std::string> words = {"--mlflow", server.url};
  if (!server.experiment.empty())
    words.insert(words.end(), {"--mlflow-experiment", server.experiment});
  if (!server.token_file.empty())
    words.insert(words.end(),
                 {"--mlflow-token-file", std::filesystem::absolute(server.token_file).string()});
  return words;
}

}  // namespace muster::cli
