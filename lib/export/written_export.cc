#include "lib/export/written_export.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "lib/base/amount_text.h"
#include "lib/base/plural.h"
#include "lib/base/printable.h"
#include "lib/wire/json_text.h"

namespace muster {

std::string ExportAsText(const WrittenExport& written) {
  return absl::StrCat(
      Printable(written.file), ": ", Plural(static_cast<int64_t>(written.tensors), "tensor"), ", ",
      Bytes(static_cast<double>(written.bytes)), ", of job ", Printable(written.job), " at step ",
      written.step, written.average ? ", the moving average of its parameters\n" : "\n");
}

std::string ExportAsJson(const WrittenExport& written) {
  using nlohmann::ordered_json;
  const ordered_json json = {{"job", written.job},         {"step", written.step},
                             {"format", written.format},   {"file", written.file},
                             {"tensors", written.tensors}, {"bytes", written.bytes},
                             {"average", written.average}};
  return TextOfJson(json) + "\n";
}

}  // namespace muster
