#include "cli/cluster_folder.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "lib/base/status.h"
#include "nlohmann/json.hpp"

namespace muster::cli {
namespace {

namespace fs = std::filesystem;

std::string JobFolder(const std::string& cluster, const std::string& job) {
  return absl::StrCat(cluster, "/jobs/", job);
}

}  // namespace

std::string LogFolder(const std::string& cluster, const std::string& job) {
  return JobFolder(cluster, job) + "/logs";
}

std::string UrlOfCluster(const std::string& cluster) {
  std::ifstream in(cluster + "/cluster.json");
  const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const auto object = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  const bool is_there = object.is_object() && object.contains("http") && object["http"].is_string();
  return is_there ? "http://" + object["http"].get<std::string>() : "";
}

absl::Status RemoveJobFolder(const std::string& cluster, const std::string& job) {
  MUSTER_RETURN_IF_ERROR(CheckJobId(job));
  const std::string folder = JobFolder(cluster, job);
  std::error_code error;
  fs::remove_all(folder, error);
  if (!error) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat("cannot remove ", folder, ": ", error.message(), "; remove it by hand"));
}

absl::Status CheckJobId(const std::string& job) {
  if (!job.empty() && job[0] != '.' && job.find('/') == std::string::npos) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("'", job, "' is not the id of a job; muster list shows all jobs"));
}

}  // namespace muster::cli
