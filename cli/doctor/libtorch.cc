#include "cli/doctor/libtorch.h"

#include <map>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "lib/base/plural.h"
#include "lib/base/printable.h"
#include "lib/base/status.h"

namespace muster::cli::doctor {
namespace {

constexpr char kCheck[] = "LibTorch";
constexpr size_t kMostOfAReason = 256;

Finding JudgeWithoutCuda(const std::string& what, const CudaHalf& cuda, int gpus) {
  if (gpus == 0)
    return Ok(kCheck, absl::StrCat(what, ". Its CUDA half is not here, and no GPU either."));
  return Warning(
      kCheck,
      absl::StrCat(what, ", not on the ", Plural(gpus, "GPU"),
                   " here: its CUDA half cannot be loaded (", cuda.missing, ")."),
      "nothing where only Muster's own workers run, which do not use CUDA yet; else take the image "
      "of --variant cuda, or install it beside the programs: ./dev setup cuda, and cmake --install "
      "build/release --component cuda --prefix PREFIX");
}

Finding JudgeCuda(const std::string& what, const CudaHalf& cuda, int gpus, bool is_hidden) {
  const std::string has = absl::StrCat(what, ". Its CUDA half (CUDA ", cuda.version, ") loads");
  if (cuda.devices > 0)
    return Ok(kCheck, absl::StrCat(has, " and finds ", Plural(cuda.devices, "device"),
                                   ", which Muster's own workers do not use yet."));
  if (!cuda.has_driver)
    return gpus == 0
               ? Ok(kCheck, absl::StrCat(has, "; there is no driver of NVIDIA, nor a GPU."))
               : Warning(kCheck,
                         absl::StrCat(has,
                                      ", but libcuda.so.1, the driver's library, is not "
                                      "found, so it finds no device."),
                         "install the driver's libraries of the version of its kernel module; "
                         "in a container, let NVIDIA's container toolkit bring them (docker "
                         "run --gpus, runtimeClassName: nvidia of a pod)");
  if (!cuda.complaint.empty())
    return Warning(kCheck, absl::StrCat(has, ", but finds no device: ", Sentence(cuda.complaint)),
                   "see what nvidia-smi says; CUDA 13 needs a driver of version 580 or later");
  if (gpus == 0 || is_hidden) return Ok(kCheck, absl::StrCat(has, "; it finds no device."));
  return Warning(kCheck,
                 absl::StrCat(has, ", but finds none of the ", Plural(gpus, "GPU"), " here."),
                 "see whether nvidia-smi and CUDA_VISIBLE_DEVICES name them as they are");
}

}  // namespace

absl::StatusOr<LibTorchFacts> ReadLibTorchReport(const std::string& output) {
  std::map<std::string, std::string> values;
  for (const absl::string_view line : absl::StrSplit(output, '\n')) {
    const std::pair<std::string, std::string> words = absl::StrSplit(line, absl::MaxSplits(' ', 1));
    values[words.first] = Cut(Printable(absl::StripAsciiWhitespace(words.second)), kMostOfAReason);
  }
  LibTorchFacts facts{.version = values["torch"], .capability = values["capability"]};
  if (facts.version == "none") return LibTorchFacts{};
  facts.cuda.version = values["cuda"];
  if (facts.version.empty() || facts.cuda.version.empty())
    return absl::InvalidArgumentError("it does not say which LibTorch it has");
  if (facts.cuda.version == "none") {
    facts.cuda = {.missing = values["cuda_missing"]};
    return facts;
  }
  facts.cuda.has_driver = values["cuda_driver"] == "found";
  facts.cuda.complaint = values["cuda_complaint"];
  if (!absl::SimpleAtoi(values["cuda_devices"], &facts.cuda.devices))
    return absl::InvalidArgumentError("it does not say how many devices CUDA finds");
  return facts;
}

absl::StatusOr<LibTorchFacts> GatherLibTorch(const std::string& path, Duration patience) {
  MUSTER_ASSIGN_OR_RETURN(const Ended ended, RunProgram({path, "--libtorch"}, "", patience));
  if (ended.signal != 0)
    return absl::InternalError(absl::StrCat("it ended with signal ", ended.signal));
  if (ended.code != 0) return absl::InternalError(absl::StrCat("it ended with code ", ended.code));
  return ReadLibTorchReport(ended.output);
}

Finding JudgeLibTorch(const absl::StatusOr<LibTorchFacts>& facts, int gpus, bool is_hidden) {
  if (!facts.ok())
    return Skipped(kCheck, absl::StrCat("The worker was asked for it (--libtorch): ",
                                        Sentence(Printable(facts.status().message()))));
  if (facts->version.empty())
    return Skipped(kCheck, "This worker was built without it, and trains what needs none.");
  const std::string what = absl::StrCat("LibTorch ", facts->version,
                                        " computes on processors, with ", facts->capability);
  return facts->cuda.version.empty() ? JudgeWithoutCuda(what, facts->cuda, gpus)
                                     : JudgeCuda(what, facts->cuda, gpus, is_hidden);
}

}  // namespace muster::cli::doctor
