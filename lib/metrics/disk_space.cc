#include "lib/metrics/disk_space.h"

#include <filesystem>
#include <system_error>

namespace muster {

void MeasureDisk(Metrics& metrics, absl::string_view disk, const std::string& path) {
  std::error_code failed;
  const std::filesystem::space_info space = std::filesystem::space(path, failed);
  if (failed) return;
  metrics.GetGauge("muster_disk_free_bytes", disk).Set(static_cast<double>(space.available));
  metrics.GetGauge("muster_disk_size_bytes", disk).Set(static_cast<double>(space.capacity));
}

}  // namespace muster
