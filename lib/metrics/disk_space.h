// How full a disk is, as muster_disk_free_bytes and muster_disk_size_bytes.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "lib/metrics/metrics.h"

namespace muster {

// Of the file system of `path`, under the label `disk`. Any thread; it hangs as long as that file
// system does. Where it cannot be asked, what was told last stays.
void MeasureDisk(Metrics& metrics, absl::string_view disk, const std::string& path);

}  // namespace muster
