#include "lib/tensorboard/run.h"

#include "absl/strings/str_cat.h"
#include "lib/base/printable.h"
#include "lib/wire/job_codec.h"

namespace muster::tensorboard {

std::string BeginRun(const std::string& run, const JobSpec& spec, int64_t unix_ms) {
  return absl::StrCat(Begin(unix_ms),
                      Text(unix_ms, 0, "specification", AsCode(PrintableLines(ToYaml(spec)))),
                      HyperParameters(unix_ms, run, HyperParametersOf(spec)));
}

std::string Sample(int64_t unix_ms, int64_t step, const std::string& text) {
  return Text(unix_ms, step, kSampleTag, AsCode(PrintableLines(text)));
}

}  // namespace muster::tensorboard
