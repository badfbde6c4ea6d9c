// A data set as its files have it, before anything is computed with it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "lib/data/byte_source.h"
#include "muster/data_set.h"

namespace muster {

struct EncodedImage {
  SourcePtr source;  // the image's bytes, all of it
  int64_t label = 0;
};

// Its hash is given once, before others read it: computed of all its bytes, or kept from before.
class StoredDataSet : public DataSet {
 public:
  virtual uint64_t BytesToHash() const = 0;
  // `told`, of bytes that are hashed, now and then. Errors as ReadInto.
  virtual absl::StatusOr<std::string> ComputeHash(
      const std::function<void(uint64_t bytes)>& told) const = 0;

  // Whether files have the bytes that were saved, as far as they tell a checksum: for whoever reads
  // all samples and computes no hash, with which that is looked at anyway. kDataLoss, and names it.
  virtual absl::Status CheckChecksums() const { return absl::OkStatus(); }

  // As ReadInto, but each sample's rows are given to `take` once they are read, those of ids[0]
  // first: of each field one, whose bytes are there as long as it runs. Whoever turns them into
  // something else so does it while they are near, and while other processes read the next ones.
  using TakeSample =
      absl::FunctionRef<void(size_t i, absl::Span<const absl::Span<const std::byte>> rows)>;
  virtual absl::Status ReadEach(int64_t epoch, absl::Span<const uint64_t> ids,
                                TakeSample take) const;

  // The images as files have them, by sample; nullptr: samples are none.
  virtual const std::vector<EncodedImage>* Encoded() const { return nullptr; }

  std::string ContentHash() const final { return hash_; }
  void SetHash(std::string hash) { hash_ = std::move(hash); }

 private:
  std::string hash_;
};

struct StoredSet {
  std::unique_ptr<StoredDataSet> set;
  bool has_label = false;    // the last field is one
  bool is_picture = false;   // the first field is (channels, height, width) of bytes 0 to 255
  std::string decoder = {};  // of muster-decoder, with its versions; its hash is of them, too
  std::string names = {};    // a hash of those whose numbers other files tell; empty: none do
};

}  // namespace muster
