#include "lib/wire/manifest_file_codec.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "lib/base/bytes.h"
#include "lib/base/status.h"
#include "lib/domain/job_id.h"
#include "lib/kernels/crc.h"
#include "lib/wire/journal_codec.h"
#include "lib/wire/manifest_codec.h"
#include "lib/wire/parsed_bytes.h"
#include "muster/v1/checkpoint.pb.h"
#include "muster/v1/journal.pb.h"
#include "muster/v1/membership.pb.h"

namespace muster {
namespace {

constexpr absl::string_view kMagic = "MSTRMAN1";
constexpr uint32_t kFormat = 1;
constexpr size_t kFixedBytes = 32;    // of the header: all but the cluster's id
constexpr size_t kChecksumFrom = 16;  // of the header: what stands before is no part of it
constexpr size_t kMostClusterBytes = 64;
static_assert(kFixedBytes + kMostClusterBytes == kMostManifestHeaderBytes);
constexpr size_t kChecksumBytes = 4;  // in front of a manifest
constexpr size_t kMostParsed = size_t{1} << 30;

using Fields = std::map<std::string, std::string>;

void AppendNumber(uint64_t number, size_t bytes, std::string& to) {
  for (size_t i = 0; i < bytes; ++i) to.push_back(static_cast<char>(number >> (8 * i) & 0xff));
}

uint64_t ReadNumber(absl::string_view bytes) {
  uint64_t number = 0;
  for (size_t i = bytes.size(); i-- > 0;)
    number = number << 8 | static_cast<unsigned char>(bytes[i]);
  return number;
}

uint32_t Checksum(absl::string_view bytes) { return Crc32c(BytesOf(bytes)); }

std::string LineageField(size_t index) { return absl::StrCat("lineage/", index); }

// A list of empty parts takes much more memory than bytes.
template <class Message>
absl::Status CheckParsedSize(absl::string_view bytes) {
  const std::optional<size_t> parsed =
      ParsedBytes({bytes.data(), bytes.size()}, *Message::descriptor(), kMostParsed);
  if (!parsed) return absl::DataLossError("it holds something else");
  if (*parsed > kMostParsed) return absl::DataLossError("it would take too much memory");
  return absl::OkStatus();
}

absl::StatusOr<std::string> Take(Fields& fields, const std::string& name) {
  const auto it = fields.find(name);
  if (it == fields.end()) return absl::DataLossError(absl::StrCat("field ", name, " is missing"));
  return std::move(it->second);
}

absl::Status InField(absl::string_view name, const absl::Status& why) {
  return absl::DataLossError(absl::StrCat("field ", name, ": ", why.message()));
}

bool IsClusterId(absl::string_view id) {
  return !id.empty() && id.size() <= kMostClusterBytes &&
         std::all_of(id.begin(), id.end(),
                     [](char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)); });
}

struct Header {
  std::string cluster;
  uint64_t body_bytes = 0;
  uint64_t body_checksum = 0;
  size_t bytes = 0;  // its own
};

absl::StatusOr<Header> ReadHeader(absl::string_view bytes) {
  if (bytes.size() < kFixedBytes || bytes.substr(0, kMagic.size()) != kMagic)
    return absl::DataLossError("it is not the manifest of a checkpoint");
  if (const uint64_t version = ReadNumber(bytes.substr(8, 4)); version != kFormat)
    return absl::FailedPreconditionError(absl::StrCat("it has version ", version,
                                                      ", and this version of muster knows ",
                                                      kFormat, ": use the one that wrote it"));
  const uint64_t cluster_bytes = ReadNumber(bytes.substr(28, 4));
  if (cluster_bytes > kMostClusterBytes || kFixedBytes + cluster_bytes > bytes.size())
    return absl::DataLossError("its header is cut short, or the id of its cluster too long");
  Header header;
  header.bytes = kFixedBytes + cluster_bytes;
  const absl::string_view checked = bytes.substr(kChecksumFrom, header.bytes - kChecksumFrom);
  if (ReadNumber(bytes.substr(12, 4)) != Checksum(checked))
    return absl::DataLossError("the checksum of its header is wrong");
  header.body_bytes = ReadNumber(bytes.substr(16, 8));
  header.body_checksum = ReadNumber(bytes.substr(24, 4));
  header.cluster = std::string(bytes.substr(kFixedBytes, cluster_bytes));
  if (!IsClusterId(header.cluster)) return absl::DataLossError("cluster: not the id of one");
  return header;
}

absl::StatusOr<absl::string_view> BodyOf(const Header& header, absl::string_view bytes) {
  const absl::string_view body = bytes.substr(header.bytes);
  if (header.body_bytes != body.size())
    return absl::DataLossError("it is cut short, or has more than its end");
  if (header.body_checksum != Checksum(body)) return absl::DataLossError("its checksum is wrong");
  return body;
}

absl::StatusOr<Manifest> ReadManifest(const std::string& bytes) {
  if (bytes.size() < kChecksumBytes) return absl::DataLossError("too short");
  MUSTER_RETURN_IF_ERROR(
      CheckParsedSize<v1::Manifest>(absl::string_view(bytes).substr(kChecksumBytes)));
  MUSTER_ASSIGN_OR_RETURN(Manifest manifest, DecodeManifest(bytes));
  if (!IsJobId(manifest.job)) return absl::DataLossError("job: not the id of one");
  return manifest;
}

}  // namespace

std::string EncodeManifestFile(const ManifestFile& file) {
  Fields fields = {{"environment", EncodeEnvironment(file.environment)},
                   {"manifest", EncodeManifest(file.manifest)}};
  for (size_t i = 0; i < file.lineages.size(); ++i)
    fields[LineageField(i)] = EncodeLineage(file.lineages[i]);
  const std::string body = EncodeFields(fields);
  std::string checked;
  AppendNumber(body.size(), 8, checked);
  AppendNumber(Checksum(body), 4, checked);
  AppendNumber(file.cluster.size(), 4, checked);
  checked += file.cluster;
  std::string bytes(kMagic);
  AppendNumber(kFormat, 4, bytes);
  AppendNumber(Checksum(checked), 4, bytes);
  return absl::StrCat(bytes, checked, body);
}

absl::StatusOr<std::string> DecodeManifestCluster(absl::string_view bytes) {
  MUSTER_ASSIGN_OR_RETURN(Header header, ReadHeader(bytes));
  return std::move(header.cluster);
}

absl::StatusOr<ManifestFile> DecodeManifestFile(absl::string_view bytes) {
  MUSTER_ASSIGN_OR_RETURN(Header header, ReadHeader(bytes));
  MUSTER_ASSIGN_OR_RETURN(const absl::string_view body, BodyOf(header, bytes));
  MUSTER_RETURN_IF_ERROR(CheckParsedSize<v1::Fields>(body));
  absl::StatusOr<Fields> fields = DecodeFields({body.data(), body.size()});
  if (!fields.ok()) return absl::DataLossError(fields.status().message());
  ManifestFile file;
  file.cluster = std::move(header.cluster);
  MUSTER_ASSIGN_OR_RETURN(const std::string manifest, Take(*fields, "manifest"));
  absl::StatusOr<Manifest> read = ReadManifest(manifest);
  if (!read.ok()) return InField("manifest", read.status());
  file.manifest = *std::move(read);
  MUSTER_ASSIGN_OR_RETURN(const std::string environment, Take(*fields, "environment"));
  MUSTER_RETURN_IF_ERROR(CheckParsedSize<v1::NumericEnvironment>(environment));
  absl::StatusOr<NumericEnvironment> numeric = DecodeEnvironment(environment);
  if (!numeric.ok()) return InField("environment", numeric.status());
  file.environment = *std::move(numeric);
  for (size_t i = 0; fields->contains(LineageField(i)); ++i) {
    const absl::StatusOr<Lineage> lineage = DecodeLineage(fields->at(LineageField(i)));
    if (!lineage.ok()) return InField(LineageField(i), lineage.status());
    file.lineages.push_back(*lineage);
  }
  return file;
}

}  // namespace muster
