#include "cli/adopt.h"

#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cli/format.h"
#include "lib/base/clock.h"
#include "lib/base/printable.h"
#include "lib/base/status.h"

namespace muster::cli {
namespace {

constexpr int kReconnects = 60;  // to a coordinator that has answered before

bool IsUnderWay(const AdoptionAnswer& adoption) {
  return adoption.state != "done" && adoption.state != "failed";
}

absl::StatusOr<AdoptionAnswer> OnceEnded(const RemoteArguments& arguments, const RestClient& rest,
                                         AdoptionAnswer adoption, Screen& screen) {
  int failures = 0;
  while (IsUnderWay(adoption)) {
    screen.ShowLine(AdoptionLine(adoption), RealClock().Now());
    std::this_thread::sleep_for(arguments.pause);
    absl::StatusOr<AdoptionAnswer> now = rest.Adoption(adoption.adoption);
    if (!now.ok() && (!IsPassing(now.status()) || ++failures > kReconnects)) return now.status();
    if (!now.ok()) continue;
    failures = 0;
    adoption = *std::move(now);
  }
  return adoption;
}

}  // namespace

std::string AdoptionLine(const AdoptionAnswer& adoption) {
  const std::string job = adoption.job.empty() ? "" : absl::StrCat(" of job ", adoption.job);
  if (adoption.of_bytes <= 0)
    return absl::StrCat("adoption ", adoption.adoption, job, ": reads what is there");
  std::string line = absl::StrCat("adoption ", adoption.adoption, job, ": ", Bytes(adoption.bytes),
                                  " of ", Bytes(adoption.of_bytes), " copied");
  if (adoption.bytes_per_second > 0)
    absl::StrAppend(&line, " · ", Bytes(adoption.bytes_per_second), "/s");
  if (adoption.seconds_left >= 0)
    absl::StrAppend(&line, " · ", HowLong(adoption.seconds_left), " left");
  return Printable(line);
}

absl::StatusOr<JobAnswer> Adopt(const RemoteArguments& arguments, const RestClient& rest,
                                const Terminal& terminal) {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::absolute(arguments.checkpoints, error);
  if (error || arguments.checkpoints.empty())
    return absl::InvalidArgumentError("FOLDER: name a job's folder of checkpoints");
  MUSTER_ASSIGN_OR_RETURN(AdoptionAnswer begun, rest.Adopt(folder.lexically_normal().string(),
                                                           arguments.job, arguments.accept));
  Screen screen(terminal, arguments.json);
  const absl::StatusOr<AdoptionAnswer> ended = OnceEnded(arguments, rest, std::move(begun), screen);
  screen.Finish();
  MUSTER_RETURN_IF_ERROR(ended.status());
  MUSTER_RETURN_IF_ERROR(ended->error);
  for (const std::string& why : ended->passed_over)
    terminal.err << "muster adopt: a newer checkpoint was passed over: " << PrintableLines(why)
                 << std::endl;
  return rest.Job(ended->job);
}

}  // namespace muster::cli
