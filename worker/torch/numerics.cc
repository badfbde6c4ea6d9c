#include "worker/torch/numerics.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <torch/version.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "lib/kernels/float_env.h"

namespace muster::worker {
namespace {

void SetProcessOnce() {
  static std::once_flag once;
  std::call_once(once, [] {
    at::set_num_interop_threads(1);
    at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
    // Fresh memory is written before it is read; filling it with NaN first would cost a pass over
    // each result.
    at::globalContext().setDeterministicFillUninitializedMemory(false);
  });
}

bool SetFloatEnvironmentHere() {
  SetFloatEnvironment();
  return FloatEnvironmentIsSet();
}

// On the calling thread and on each thread of its pool: iteration i of `threads` runs on thread i.
bool SetFloatEnvironmentOfPool(int32_t threads) {
  std::atomic<int64_t> done = 0;
  at::parallel_for(0, threads, 1, [&](int64_t begin, int64_t end) {
    if (SetFloatEnvironmentHere()) done += end - begin;
  });
  return SetFloatEnvironmentHere() && done == threads;
}

std::string OneLine(const std::string& text) { return absl::StrReplaceAll(text, {{"\n", " "}}); }

}  // namespace

absl::Status UseTorchHere(int32_t threads) {
  thread_local int32_t prepared_for = 0;
  if (prepared_for == threads) return absl::OkStatus();
  SetProcessOnce();
  at::set_num_threads(threads);
  if (!SetFloatEnvironmentOfPool(threads))
    return absl::InternalError("this processor cannot flush denormals to zero");
  prepared_for = threads;
  return absl::OkStatus();
}

std::string TorchProperties() {
  return absl::StrCat("torch ", TORCH_VERSION, "\ncapability ", at::get_cpu_capability(), "\nmkl ",
                      at::hasMKL() ? OneLine(at::get_mkl_version()) : "none", "\nonednn ",
                      at::hasMKLDNN() ? OneLine(at::get_mkldnn_version()) : "none", "\nopenmp ",
                      OneLine(at::get_openmp_version()), "\n");
}

void EndProcess(int exit_code) {
#if !defined(__SANITIZE_ADDRESS__)  // which looks for leaks when a process exits
  std::fflush(nullptr);
  std::_Exit(exit_code);
#endif
  std::exit(exit_code);
}

}  // namespace muster::worker
