// Data sets of arrays: every format whose samples are rows of fixed size, wherever they lie.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/data/byte_source.h"
#include "lib/data/stored_set.h"
#include "muster/data_set.h"

namespace muster {

// Rows of one array in one source: row i begins at offset + i * stride.
struct ArrayPart {
  SourcePtr source;
  uint64_t offset = 0;
  uint64_t rows = 0;
  uint64_t stride = 0;  // bytes; at least those of a row
};

// An array whose first dimension is that of the samples.
struct Array {
  DataField field;
  bool swapped = false;  // its elements stand in the other byte order
  std::vector<ArrayPart> parts;

  uint64_t Rows() const;
};

// As `part` of the array of `field.name`: another one of this name must be alike, and its rows come
// after those that are there. kDataLoss: it is not alike, or the source is too small for the rows.
absl::Status AddPart(std::vector<Array>& arrays, const DataField& field, bool swapped,
                     ArrayPart part);

// Bytes of a row of such a shape. kDataLoss (the message is `source`'s): a dimension is 0 or less,
// or the product too large for a sample.
absl::StatusOr<uint64_t> RowBytes(const ByteSource& source, const DataField& field);

// A field for each of `arrays`, in their order, which all must have the same number of rows, 1 at
// least. kInvalidArgument: there is none. kDataLoss: their numbers differ.
// With kSkip rows that are bad are hashed as such, and are no error. `decoder`: what the rows have
// passed through, with its version, which is hashed; empty: nothing.
absl::StatusOr<std::unique_ptr<StoredDataSet>> MakeArraySet(
    std::vector<Array> arrays, OnBadSample on_bad_sample = OnBadSample::kStop,
    std::string decoder = "");

// Whether data.keys and data.label want such a key; one that they do not may be of any type.
bool IsAskedFor(const std::string& key, const DataSpec& data);

// Of arrays found in files: those of data.keys (all, where it is empty) without the label, in that
// order; then the label. kFailedPrecondition: the files hold none of such a name, but, for the
// message, these and `others`, for which nobody has asked; or data.types or data.shapes name one
// that is not used. kDataLoss: an array is of another type or shape than these declare.
absl::StatusOr<std::vector<Array>> ChooseArrays(std::vector<Array> found, const DataSpec& data,
                                                const std::vector<std::string>& others = {});

}  // namespace muster
