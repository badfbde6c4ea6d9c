// Arrays of HDF5 files, by libhdf5, which has known errors with hostile files: for muster-decoder
// alone. One thread.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "muster/tensor.h"

namespace muster {

struct Hdf5Dataset {
  std::string key;
  std::string why_not;  // it cannot be read; empty: it can
  TensorType type = TensorType::kFloat32;
  uint64_t rows = 0;
  std::vector<uint64_t> shape;  // of a row
  // Where its rows begin in the file. Only of one whose rows lie there side by side, as Rows gives
  // them.
  std::optional<uint64_t> offset;
};

// Errors: kResourceExhausted: memory is short. kUnavailable: the file or the machine is at fault,
// or what is asked for. kDataLoss, of Rows alone: the bytes of these rows are bad, wherever they
// are read.
class Hdf5Reader {
 public:
  Hdf5Reader();
  ~Hdf5Reader();

  static std::string Version();  // "libhdf5 1.10.8"

  // All of a file, and those of `keys` that are there by another name, or are links that lead to
  // nothing that is read.
  absl::StatusOr<std::vector<Hdf5Dataset>> Datasets(const std::string& path,
                                                    const std::vector<std::string>& keys);

  // Rows side by side, in this machine's byte order. Files and arrays stay open for the next call.
  absl::StatusOr<std::string> Rows(const std::string& path, const std::string& key, uint64_t first,
                                   uint64_t rows);

 private:
  struct Opened;
  absl::StatusOr<const Opened*> Open(const std::string& path, const std::string& key);

  std::list<std::unique_ptr<Opened>> opened_;  // the one that was used last comes first
};

}  // namespace muster
