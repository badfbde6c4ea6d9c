#include "cli/job_history.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "absl/strings/str_split.h"
#include "lib/base/descriptor.h"
#include "lib/base/status.h"
#include "lib/base/whole_file.h"
#include "nlohmann/json.hpp"

namespace muster::cli {
namespace {

constexpr int64_t kMostTail = int64_t{4} << 20;

// From the first line that is whole there.
std::string TailOf(const std::string& path) {
  const absl::StatusOr<Descriptor> file = OpenRegularFile(path, O_RDONLY);
  struct stat status {};
  if (!file.ok() || fstat(file->get(), &status) != 0) return "";
  const int64_t start = std::max<int64_t>(0, status.st_size - kMostTail);
  std::string tail(static_cast<size_t>(status.st_size - start), '\0');
  const ssize_t read = pread(file->get(), tail.data(), tail.size(), start);
  tail.resize(static_cast<size_t>(std::max<ssize_t>(0, read)));
  return start == 0 ? tail : tail.substr(std::min(tail.size(), tail.find('\n')));
}

}  // namespace

absl::Status ReadHistory(const RestClient& rest, const std::string& job, int64_t from,
                         const TakeHistory& take, std::vector<PluginUse>* plugins) {
  int64_t lineage = 0;  // of the last step that was taken
  while (from >= 0) {
    MUSTER_ASSIGN_OR_RETURN(const HistoryPageAnswer page, rest.History(job, from, lineage));
    if (plugins != nullptr && !page.plugins.empty()) *plugins = page.plugins;
    if (!page.steps.empty()) {
      if (!take(page.steps)) break;
      lineage = page.steps.back().lineage;
    }
    from = page.next;
  }
  return absl::OkStatus();
}

std::vector<LossAtStep> NewestLosses(const std::string& path) {
  std::vector<LossAtStep> losses;
  const std::string tail = TailOf(path);
  for (const absl::string_view line : absl::StrSplit(tail, '\n')) {
    const auto object = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!object.is_object()) continue;
    if (object.contains("last_state")) continue;  // the job goes on, and so does that step
    const auto step = object.find("step"), loss = object.find("loss");
    if (step == object.end() || !step->is_number_integer()) continue;
    const bool has_loss = loss != object.end() && loss->is_number();
    LossAtStep& of = losses.emplace_back();
    of.step = step->get<int64_t>();
    of.loss = has_loss ? loss->get<double>() : NAN;
    const auto measured = object.find("validation.loss");
    if (measured != object.end() && measured->is_number())
      of.validation_loss = measured->get<double>();
  }
  return losses;
}

}  // namespace muster::cli
