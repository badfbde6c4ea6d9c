// The formats of data sets, as one table: how the files of data.paths become one.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/data/byte_source.h"
#include "lib/data/file_walk.h"
#include "lib/data/stored_set.h"
#include "muster/data_set.h"

namespace muster {

// Files in the order of the walk, each opened once.
struct DataFile {
  SourcePtr source;
  WalkedFile place;
};
using DataFiles = std::vector<DataFile>;

struct FormatRule {
  DataFormat format;
  absl::StatusOr<StoredSet> (*open)(const DataFiles& files, const DataSpec& data);
  // Of files that a model is measured with: columns and names of classes are those of `trained`,
  // the files that it was trained with. nullptr: files of this format have none.
  absl::StatusOr<StoredSet> (*open_to_measure)(const DataFiles& files, const DataFiles& trained,
                                               const DataSpec& data) = nullptr;
};

// nullptr: none; text is read by ReadCorpus.
const FormatRule* FindFormat(DataFormat format);

// RFC 4180, of numbers and, in the columns of data.classes, names: "input" of the columns' number,
// float32, or int64 where all of them are classes; and the label. The cells are held in memory.
absl::StatusOr<StoredSet> OpenCsv(const DataFiles& files, const DataSpec& data);
// kDataLoss: a name that is in none of `trained`, which are read for their names once more.
absl::StatusOr<StoredSet> OpenCsvToMeasure(const DataFiles& files, const DataFiles& trained,
                                           const DataSpec& data);
// .npy and .npz: NumPy, "NEP 1" and zip's APPNOTE. The key of a .npy is its name without ending.
absl::StatusOr<StoredSet> OpenNumpy(const DataFiles& files, const DataSpec& data);
// https://huggingface.co/docs/safetensors, "Format".
absl::StatusOr<StoredSet> OpenSafetensors(const DataFiles& files, const DataSpec& data);
// What torch.save writes: zip with data.pkl (ReadTensorPickle) and a storage in each data/N. A file
// that is one tensor has the key of its name without ending.
absl::StatusOr<StoredSet> OpenPt(const DataFiles& files, const DataSpec& data);
// HDF5, by libhdf5 in a process of its own (Decoders). Keys are paths in the file: "train/x".
absl::StatusOr<StoredSet> OpenHdf5(const DataFiles& files, const DataSpec& data);
// MNIST's (LeCun, "The MNIST database"), gzip's too. Files of one dimension are "label", those of
// more "image" (bytes of two dimensions a sample) or "input".
absl::StatusOr<StoredSet> OpenIdx(const DataFiles& files, const DataSpec& data);
// The binary version of Krizhevsky's CIFAR-10 and CIFAR-100: "image" and "label" (the fine one).
absl::StatusOr<StoredSet> OpenCifar10(const DataFiles& files, const DataSpec& data);
absl::StatusOr<StoredSet> OpenCifar100(const DataFiles& files, const DataSpec& data);
// JPEG and PNG, by muster-decoder: "image", and as "label" the number of its folder among all, by
// name.
absl::StatusOr<StoredSet> OpenImages(const DataFiles& files, const DataSpec& data);
// kDataLoss: a folder of a name that is none in `trained`.
absl::StatusOr<StoredSet> OpenImagesToMeasure(const DataFiles& files, const DataFiles& trained,
                                              const DataSpec& data);
// Samples of a stream in files, as a folder of one has them: data.fields side by side, and nothing
// else. kDataLoss: a file ends within a sample.
absl::StatusOr<StoredSet> OpenStreamFiles(const DataFiles& files, const DataSpec& data);
// Tar files of WebDataset: "image" of .jpg, .jpeg and .png, "label" of .cls.
absl::StatusOr<StoredSet> OpenWebDataset(const DataFiles& files, const DataSpec& data);
// Its samples, none of which is decoded.
absl::StatusOr<std::vector<EncodedImage>> ImagesOfWebDataset(const DataFiles& files,
                                                             bool& has_label);

}  // namespace muster
