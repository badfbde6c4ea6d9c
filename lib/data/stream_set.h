// Streams as data sets (docs/decisions/0112-streams.md): samples that come while the job trains and
// have positions for numbers. `data.stream.fields` says what a sample is.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "lib/domain/stream.h"
#include "lib/spool/spool_map.h"
#include "lib/spool/spool_reader.h"
#include "muster/data_set.h"

namespace muster {

// Whether samples come while the job trains. A stream whose files are named, such as those that a
// model is measured with, is a data set like others.
inline bool IsLive(const DataSpec& data) {
  return data.format == DataFormat::kStream && data.paths.empty();
}

// Has kMostSamples samples, since nobody knows how many will come. In an epoch below 0, where
// something is only tried, each is made of a hash: reals of [0, 1), and zeros. In others it stands
// where `spool` says at that moment. ReadInto then is kInternal for one that it does not name,
// since nobody asks for a sample that is not known; kFailedPrecondition where it is nullptr; else
// as ReadSpooledFile, with 60 s of patience, until the map is closed. The content is in no hash: it
// is that of the fields, and of what is computed with them. kFailedPrecondition: as
// StreamSampleBytes, or `data` asks for what a stream cannot have.
absl::StatusOr<std::unique_ptr<DataSet>> OpenStream(const DataSpec& data, uint64_t seed,
                                                    DataPart part,
                                                    std::shared_ptr<const SpoolMap> spool);
// With patience of one's own.
absl::StatusOr<std::unique_ptr<DataSet>> OpenStream(const DataSpec& data, uint64_t seed,
                                                    DataPart part,
                                                    std::shared_ptr<const SpoolMap> spool,
                                                    SpoolPatience patience);

}  // namespace muster
