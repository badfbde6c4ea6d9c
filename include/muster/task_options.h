// What a job's specification says to its task: `parameters` and `data` of docs/job-spec.md, with
// every default filled in.
#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "muster/data_field.h"
#include "muster/tensor.h"

namespace muster {

class SpoolMap;

// Whole numbers are doubles without a fraction, as in JSON.
struct ParameterValue
    : std::variant<double, bool, std::string, std::vector<double>, std::vector<std::string>> {
  using variant::variant;
  ParameterValue(int number) : variant(static_cast<double>(number)) {}  // NOLINT: as variant's
};
using ParameterValues = std::map<std::string, ParameterValue>;

// What is done where data.paths holds something that cannot be read.
enum class Unreadable { kFail, kSkip };

// What is done about a sample that cannot be read once the job trains, such as a broken image.
enum class OnBadSample { kStop, kSkip };

// What the files of data.paths are. kText: bytes, one file after the other (muster/corpus.h); all
// others are read by OpenDataSet (muster/data_set.h), which kText is, too, where `shape` is given.
enum class DataFormat {
  kText,
  kCsv,
  kNumpy,
  kSafetensors,
  kIdx,
  kCifar10,
  kCifar100,
  kImages,
  kWebDataset,
  kPt,
  kHdf5,
  kStream  // what comes while the job trains
};

// What the hash of a data set is made of: all its bytes each time, or, where each file has the
// path, size, times and inode that it had, the hash that this machine has kept.
enum class VerifyData { kFull, kQuick };

// How an image of another shape than data.image_size becomes one: what stands over at two sides is
// cut off, or all of it is squeezed.
enum class ImageFit { kCrop, kStretch };

struct DataSpec {
  // Files and directories (walked, in name order); empty: the task makes its own.
  std::vector<std::string> paths;
  std::vector<std::string> suffixes;  // ".h"; "": names without a dot; an empty list: every file
  uint64_t max_bytes = 0;             // of text: read no more than this; 0: all
  Unreadable unreadable = Unreadable::kFail;
  uint64_t samples = 0;  // size of a made data set; 0: the task's default
  VerifyData verify = VerifyData::kFull;
  OnBadSample on_bad_sample = OnBadSample::kStop;

  // What a sample is: for OpenDataSet.
  DataFormat format = DataFormat::kText;
  std::vector<std::string> columns;  // of CSV, those that are the input; empty: all but the label
  std::vector<std::string> keys;     // of arrays, those that are inputs; empty: all but the label
  std::string label;                 // the column or key that is the label; empty: none
  std::vector<std::string> classes;  // columns of CSV whose cells are names and not numbers
  bool header = true;                // of CSV: the first line of each file names the columns
  std::string delimiter = ",";       // of CSV, one character
  std::vector<int64_t> shape;        // of an input sample; empty: as it is stored
  std::vector<int64_t> image_size;   // height, width; empty: all images must have the same
  ImageFit fit = ImageFit::kCrop;    // of an image that has another size than image_size
  uint64_t channels = 3;             // of decoded images: 3 are red, green, blue; 1 is their gray
  std::vector<double> mean;          // one for each channel, or one for all: subtracted, and then
  std::vector<double> deviation;     // divided by; both empty: nothing of this is done
  uint64_t crop = 0;                 // pixels that an image may move at random; 0: none
  bool flip = false;                 // half of all images are mirrored, at random
  double validation_share = 0;       // of all samples, left out of training; 0 to 1
  uint64_t split_seed = 0;           // which ones
  // Of columns of CSV and keys of arrays what they are in the files, and of keys the shape of one
  // sample; who is not named may be anything.
  std::map<std::string, TensorType> types;
  std::map<std::string, std::vector<int64_t>> shapes;
  std::vector<DataField> fields{};  // of a stream: a sample is their bytes side by side
  bool operator==(const DataSpec&) const = default;
};

// Which samples of a data set: those that data.validation_share leaves for training, the others,
// all, or none, of a task that is made for its Generate alone (TaskInfo::model_holds_all).
enum class DataPart { kTraining, kValidation, kAll, kNone };

struct TaskOptions {
  ParameterValues parameters;  // each that the task has declared, within its bounds
  DataSpec data;               // of the training data
  uint64_t seed = 0;           // of the job
  int32_t threads = 1;         // of one worker, for one operation
  // A job with validation makes its task once more, with kValidation: its samples are then those of
  // `validation_paths`, or, where there are none, what data.validation_share leaves for it. The
  // tensors are to be the same, and so whatever is made of the training data alone, such as a
  // tokenizer, or the numbers of names of classes.
  DataPart part = DataPart::kTraining;
  std::vector<std::string> validation_paths{};
  // The folder that TaskType::prepare has filled; empty: the task has no such function, or all of
  // its state comes from a checkpoint (TaskInfo::model_holds_all).
  std::string prepared{};
  // The job has batch norm use mean and variance of all samples of a step (Syncs).
  bool sync_batch_norm = false;
  // Where the samples of a stream are found, for OpenDataSet. nullptr: nowhere.
  std::shared_ptr<const SpoolMap> spool{};

  // `data` with the files that samples of `part` come from.
  DataSpec DataOfPart() const {
    DataSpec of = data;
    if (part == DataPart::kValidation && !validation_paths.empty()) of.paths = validation_paths;
    return of;
  }

  // Of a parameter that the task has declared as such; std::logic_error: it has not.
  double Real(const std::string& name) const { return Get<double>(name); }
  int64_t Integer(const std::string& name) const { return std::llround(Get<double>(name)); }
  bool Boolean(const std::string& name) const { return Get<bool>(name); }
  const std::string& Text(const std::string& name) const { return Get<std::string>(name); }
  const std::vector<double>& Reals(const std::string& name) const {
    return Get<std::vector<double>>(name);
  }
  std::vector<int64_t> Integers(const std::string& name) const {
    std::vector<int64_t> whole;
    for (const double number : Reals(name)) whole.push_back(std::llround(number));
    return whole;
  }
  const std::vector<std::string>& Texts(const std::string& name) const {
    return Get<std::vector<std::string>>(name);
  }

 private:
  template <class T>
  const T& Get(const std::string& name) const {
    const auto found = parameters.find(name);
    const T* value = found == parameters.end() ? nullptr : std::get_if<T>(&found->second);
    if (value == nullptr)
      throw std::logic_error("the task has declared no parameter '" + name + "' of that type");
    return *value;
  }
};

}  // namespace muster
