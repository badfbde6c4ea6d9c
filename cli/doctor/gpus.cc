#include "cli/doctor/gpus.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "lib/base/plural.h"
#include "lib/base/printable.h"
#include "lib/base/whole_file.h"

namespace muster::cli::doctor {
namespace {

bool IsGpuFile(const std::string& name) {
  constexpr char kStart[] = "nvidia";
  const absl::string_view number = absl::string_view(name).substr(std::min(name.size(), size_t{6}));
  return absl::StartsWith(name, kStart) && !number.empty() &&
         std::all_of(number.begin(), number.end(),
                     [](char c) { return absl::ascii_isdigit(static_cast<unsigned char>(c)); });
}

bool MayOpen(const std::string& path) { return access(path.c_str(), R_OK | W_OK) == 0; }

// Display controllers (class 0x03….) of NVIDIA.
int CountOnBus(const std::string& root) {
  int count = 0;
  std::error_code none;
  for (const auto& device :
       std::filesystem::directory_iterator(root + "/sys/bus/pci/devices", none)) {
    const auto text = [&device](const char* file) {
      return ReadWholeFile(device.path() / file).value_or("");
    };
    if (absl::StartsWith(text("vendor"), "0x10de") && absl::StartsWith(text("class"), "0x03"))
      ++count;
  }
  return count;
}

// "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.161.08  Tue …": the first word with a dot
// that is a number.
std::string DriverVersion(const std::string& root) {
  const std::string text = ReadWholeFile(root + "/proc/driver/nvidia/version").value_or("");
  const std::vector<std::string> lines = absl::StrSplit(text, '\n');
  for (const absl::string_view word : absl::StrSplit(lines.front(), ' ', absl::SkipEmpty()))
    if (absl::ascii_isdigit(static_cast<unsigned char>(word[0])) && absl::StrContains(word, "."))
      return Cut(Printable(word), 64);
  return text.empty() ? "" : "of an unknown version";
}

}  // namespace

GpuFacts GatherGpus(absl::StatusOr<std::vector<std::string>> offered,
                    std::optional<std::string> visible, const std::string& root) {
  GpuFacts facts{.offered = std::move(offered), .visible = std::move(visible)};
  std::error_code none;
  for (const auto& file : std::filesystem::directory_iterator(root + "/dev", none)) {
    const std::string name = file.path().filename();
    const bool is_control = name == "nvidiactl";
    if (!is_control && !IsGpuFile(name)) continue;
    if (is_control)
      facts.has_control = true;
    else
      ++facts.files;
    if (!MayOpen(file.path())) facts.closed.push_back(name);
  }
  std::sort(facts.closed.begin(), facts.closed.end());
  facts.on_bus = CountOnBus(root);
  facts.driver = DriverVersion(root);
  return facts;
}

Finding JudgeGpus(const GpuFacts& facts) {
  constexpr char kCheck[] = "GPUs";
  if (!facts.offered.ok())
    return Problem(kCheck, Sentence(facts.offered.status().message()),
                   "correct CUDA_VISIBLE_DEVICES");
  const auto offered = static_cast<int64_t>(facts.offered->size());
  const bool is_there = facts.files > 0 || facts.on_bus > 0 || !facts.driver.empty();
  if (offered > 0 && facts.files == 0)
    return Problem(kCheck,
                   absl::StrCat("CUDA_VISIBLE_DEVICES names ", Plural(offered, "device"),
                                ", and there is no file /dev/nvidia0 here."),
                   "unset CUDA_VISIBLE_DEVICES or give --devices none; in a container, pass the "
                   "devices through (docker run --gpus, nvidia.com/gpu of a pod)");
  if (!is_there) return Ok(kCheck, "There are none of NVIDIA; jobs with `devices` run elsewhere.");
  if (facts.files == 0)
    return Warning(kCheck,
                   absl::StrCat("The kernel lists ", Plural(facts.on_bus, "GPU"), " of NVIDIA",
                                facts.driver.empty() ? ", and no driver is loaded."
                                                     : ", and there are no files /dev/nvidia0, …."),
                   facts.driver.empty()
                       ? "install NVIDIA's driver, unless no job needs `devices`"
                       : "run nvidia-smi as root once, which makes them; in a container, pass them "
                         "through (docker run --gpus, nvidia.com/gpu of a pod)");
  if (!facts.closed.empty())
    return Problem(
        kCheck,
        absl::StrCat("This user may not open ", absl::StrJoin(facts.closed, ", "), " of /dev."),
        "add the user to the group of these files (ls -l /dev/nvidia*), often video or "
        "render");
  if (!facts.has_control || facts.driver.empty())
    return Problem(kCheck,
                   absl::StrCat("There ", facts.files == 1 ? "is a file" : "are files", " of ",
                                Plural(facts.files, "GPU"), ", but ",
                                facts.driver.empty() ? "no driver of NVIDIA is loaded."
                                                     : "no /dev/nvidiactl."),
                   "load NVIDIA's driver (modprobe nvidia); in a container, pass all files through "
                   "(docker run --gpus)");
  if (offered > facts.files)
    return Warning(kCheck,
                   absl::StrCat("CUDA_VISIBLE_DEVICES names ", Plural(offered, "device"),
                                ", and there are files of ", facts.files, "."),
                   "name in CUDA_VISIBLE_DEVICES, or --devices, only those that are there");
  const std::string which =
      offered == 0 ? "none of them is offered to jobs, as CUDA_VISIBLE_DEVICES says"
                   : absl::StrCat("muster up and muster agent offer ",
                                  absl::StrJoin(*facts.offered, ", "), " to jobs with `devices`");
  return Ok(kCheck,
            absl::StrCat("There ", facts.files == 1 ? "is " : "are ", Plural(facts.files, "GPU"),
                         " with driver ", facts.driver, "; ", which, "."));
}

}  // namespace muster::cli::doctor
