// A committed checkpoint as one file beside its segments: with it, a cluster that never knew the
// job can go on from there. It may come from anybody, so reading trusts nothing.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lib/domain/ledger.h"
#include "lib/domain/manifest.h"
#include "lib/domain/message.h"

namespace muster {

struct ManifestFile {
  std::string cluster;  // that committed it
  Manifest manifest;    // with the job's whole specification
  NumericEnvironment environment;
  std::vector<Lineage> lineages;  // the job's at that time
  bool operator==(const ManifestFile&) const = default;
};

// Of a state of some terabytes.
inline constexpr size_t kMostManifestFileBytes = size_t{256} << 20;
// Of the header, which tells whose the file is without the rest.
inline constexpr size_t kMostManifestHeaderBytes = 96;

// docs/formats.md says what is in it.
std::string EncodeManifestFile(const ManifestFile& file);
// kDataLoss: damaged, or none; kFailedPrecondition: of a version that this program does not know.
// Messages say what is wrong, not of which file. What the manifest describes is CheckComplete's
// question, and what its specification says that of ParseJobJson.
absl::StatusOr<ManifestFile> DecodeManifestFile(absl::string_view bytes);
// Whose it is, of the first kMostManifestHeaderBytes of a file, or of all of a shorter one. The
// rest may be damaged.
absl::StatusOr<std::string> DecodeManifestCluster(absl::string_view bytes);

}  // namespace muster
