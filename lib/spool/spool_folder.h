// Deletes files of a spool. What we did not make, by its name, is left alone; what is not there is
// no error. Errors as FileError, once all else is done.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "lib/base/ids.h"
#include "lib/domain/stream.h"

namespace muster {

// Those that were trimmed (TrimmedAt), after the journal has no row of them any more.
absl::Status RemoveSegments(const std::string& folder, absl::Span<const SpoolSegment> segments);

// What readers that are gone have left: all segments of other incarnations than `reader`, the one
// that joins, that are none of `facts`, which are all there are. Of `reader` itself, whose newest
// has no row yet, only what is older than all of these, as its deletion after a trim has failed.
absl::Status SweepSpool(const std::string& folder, absl::Span<const SpoolSegment> facts,
                        Incarnation reader);

// All segments, and the folder, if nothing else is in it: of a job that is deleted.
absl::Status RemoveSpool(const std::string& folder);

}  // namespace muster
