// What a job asks for beyond what files hold: types that modules take, the input's shape, its
// normalisation, and random changes of images.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "lib/data/formats.h"
#include "muster/data_set.h"

namespace muster {

// Of `stored`: labels of whole numbers become int64; reals become float32; the first input gets
// `data.shape`, and as a picture, or where a mean or deviation is given, it becomes float32: bytes
// count as value ÷ 255, and then (value - mean) ÷ deviation. What is below float32's normal range
// becomes zero. With `at_random` data.crop and data.flip are done, by (seed, epoch, sample).
// kFailedPrecondition: `data` asks for what this input cannot have.
absl::StatusOr<std::unique_ptr<DataSet>> Prepare(StoredSet stored, const DataSpec& data,
                                                 uint64_t seed, bool at_random);

// The samples of `whole` that are for validation, or the others. kInvalidArgument: there is none.
absl::StatusOr<std::unique_ptr<DataSet>> PartOfSet(std::unique_ptr<DataSet> whole,
                                                   const DataSpec& data, bool for_validation);

}  // namespace muster
