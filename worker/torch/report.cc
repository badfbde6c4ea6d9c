#include "worker/torch/report.h"

#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/util/Exception.h>
#include <dlfcn.h>

#include <exception>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "worker/torch/numerics.h"

namespace muster::worker {
namespace {

std::string OneLine(absl::string_view text) { return absl::StrReplaceAll(text, {{"\n", " "}}); }

class Complaints : public c10::WarningHandler {
 public:
  void process(const c10::Warning& warning) override { absl::StrAppend(&text, warning.msg(), " "); }
  std::string text;
};

// The library stays loaded: LibTorch cannot unload its parts.
bool Loads(const char* library, std::string* why_not) {
  if (dlopen(library, RTLD_NOW | RTLD_GLOBAL) != nullptr) return true;
  const char* const reason = dlerror();
  *why_not = reason != nullptr ? reason : "no reason was given";
  return false;
}

std::string CudaReport() {
  std::string why_not;
  // Its linear algebra is linked to all the rest of it.
  if (!Loads("libtorch_cuda_linalg.so", &why_not))
    return absl::StrCat("cuda none\ncuda_missing ", OneLine(why_not), "\n");
  Complaints complaints;
  int64_t version = 0, devices = 0;
  try {
    const c10::WarningUtils::WarningHandlerGuard guard(&complaints);
    const at::CUDAHooksInterface& cuda = at::detail::getCUDAHooks();
    version = cuda.versionCUDART();
    devices = cuda.getNumGPUs();
  } catch (const std::exception& error) {
    absl::StrAppend(&complaints.text, error.what());
  }
  return absl::StrCat("cuda ", version / 1000, ".", version % 1000 / 10, "\ncuda_driver ",
                      Loads("libcuda.so.1", &why_not) ? "found" : "none", "\ncuda_devices ",
                      devices, "\n", complaints.text.empty() ? "" : "cuda_complaint ",
                      OneLine(complaints.text), complaints.text.empty() ? "" : "\n");
}

}  // namespace

std::string LibTorchReport() {
  const std::string cuda = CudaReport();
  return absl::StrCat(TorchProperties(), cuda);
}

}  // namespace muster::worker
