#include "muster/torch/torch_data_set.h"

#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lib/base/bytes.h"
#include "lib/base/mutex.h"
#include "lib/base/status.h"
#include "lib/kernels/sha256.h"
#include "worker/torch/flat_module.h"

namespace muster::torch {
namespace {

constexpr size_t kMostHashBytes = 256;
constexpr uint64_t kReadAtOnce = 256;  // samples
constexpr uint64_t kReadTwice = 16;    // samples, spread evenly

constexpr TensorType kTypes[] = {TensorType::kFloat32,  TensorType::kFloat64, TensorType::kFloat16,
                                 TensorType::kBfloat16, TensorType::kInt64,   TensorType::kInt32,
                                 TensorType::kInt16,    TensorType::kInt8,    TensorType::kUint8,
                                 TensorType::kBool};

// "Float (1, 28, 28)".
std::string Described(at::ScalarType type, at::IntArrayRef sizes) {
  return absl::StrCat(c10::toString(type), " (", absl::StrJoin(sizes, ", "), ")");
}

bool CanBeRead(const at::Tensor& tensor) {
  return tensor.defined() && tensor.device().is_cpu() && tensor.layout() == at::kStrided;
}

absl::StatusOr<DataField> FieldOf(const std::string& name, const at::Tensor& tensor) {
  if (!CanBeRead(tensor))
    return absl::FailedPreconditionError(absl::StrCat(
        "the first sample's '", name, "' is no dense tensor on the processor; give one"));
  const auto* type = std::find_if(std::begin(kTypes), std::end(kTypes), [&](TensorType ours) {
    return worker::TorchTypeOf(ours) == tensor.scalar_type();
  });
  if (type == std::end(kTypes) || tensor.numel() == 0)
    return absl::FailedPreconditionError(
        absl::StrCat("the first sample's '", name, "' is ",
                     Described(tensor.scalar_type(), tensor.sizes()), ", which no sample can be"));
  return DataField{name, *type, tensor.sizes().vec()};
}

// Of a data set that one thread may ask at a time.
class OneAtATime {
 public:
  explicit OneAtATime(TorchSamples read) : read_(std::move(read)) {}
  std::vector<std::vector<at::Tensor>> Read(const std::vector<size_t>& ids) {
    const MutexLock lock(mutex_);
    return read_(ids);
  }

 private:
  Mutex mutex_;
  const TorchSamples read_ ABSL_GUARDED_BY(mutex_);
};

TorchSamples ByOneAtATime(TorchSamples read) {
  return [one = std::make_shared<OneAtATime>(std::move(read))](const std::vector<size_t>& ids) {
    return one->Read(ids);
  };
}

class OfTorch final : public DataSet {
 public:
  // `read`: any thread.
  OfTorch(TorchSamples read, uint64_t samples) : read_(std::move(read)), samples_(samples) {}

  // Once, before others read it.
  absl::Status Open(TorchData about) {
    MUSTER_RETURN_IF_ERROR(LearnFields(about.names));
    MUSTER_RETURN_IF_ERROR(CheckRepeats());
    hash_ = std::move(about.content_hash);
    return hash_.empty() ? ComputeHash() : absl::OkStatus();
  }

  const std::vector<DataField>& Fields() const override { return fields_; }
  uint64_t Samples() const override { return samples_; }
  std::string ContentHash() const override { return hash_; }

  absl::Status ReadInto(int64_t, absl::Span<const uint64_t> ids, muster::Batch& batch,
                        size_t first) const override {
    const auto bad =
        std::find_if(ids.begin(), ids.end(), [&](uint64_t id) { return id >= samples_; });
    if (bad != ids.end())
      return absl::InvalidArgumentError(
          absl::StrCat("there is no sample ", *bad, "; there are ", samples_));
    MUSTER_ASSIGN_OR_RETURN(const auto examples, Examples(ids));
    for (size_t i = 0; i < ids.size(); ++i)
      MUSTER_RETURN_IF_ERROR(Put(examples[i], ids[i], batch, first + i));
    return absl::OkStatus();
  }

 private:
  using Example = std::vector<at::Tensor>;

  absl::Status LearnFields(const std::vector<std::string>& names) {
    if (samples_ == 0)
      return absl::InvalidArgumentError("the data set tells no size, or has no sample");
    const uint64_t id = 0;
    MUSTER_ASSIGN_OR_RETURN(const auto first, Examples({&id, 1}));
    const Example& example = first.front();
    const std::set<std::string> differ(names.begin(), names.end());
    if (names.size() < example.size() || differ.size() != names.size() || differ.contains(""))
      return absl::FailedPreconditionError(
          absl::StrCat("a sample has ", example.size(), " fields, and their names are '",
                       absl::StrJoin(names, "', '"), "': give each a name of its own"));
    for (size_t f = 0; f < example.size(); ++f) {
      MUSTER_ASSIGN_OR_RETURN(DataField field, FieldOf(names[f], example[f]));
      fields_.push_back(std::move(field));
    }
    return absl::OkStatus();
  }

  // A sample that is made at random is found by its second reading, but for those that chance makes
  // the same all the time.
  absl::Status CheckRepeats() const {
    const uint64_t looks = std::min(kReadTwice, samples_);
    for (uint64_t i = 0; i < looks; ++i) {
      const uint64_t id = i * (samples_ / looks);
      MUSTER_ASSIGN_OR_RETURN(const muster::Batch once, Read(-1, {&id, 1}));
      MUSTER_ASSIGN_OR_RETURN(const muster::Batch again, Read(-1, {&id, 1}));
      for (size_t f = 0; f < fields_.size(); ++f)
        if (!std::ranges::equal(once.of(f), again.of(f)))
          return absl::FailedPreconditionError(absl::StrCat(
              "sample ", id, " of the data set is another one when it is read again: its '",
              fields_[f].name, "' must depend on its number alone, without random changes"));
    }
    return absl::OkStatus();
  }

  absl::Status ComputeHash() {
    Sha256 hash;
    for (const DataField& field : fields_)
      hash.Update(BytesOf(absl::StrCat(field.name.size(), ":", field.name, " ",
                                       static_cast<int>(field.type), " ",
                                       absl::StrJoin(field.shape, ","), "\n")));
    hash.Update(BytesOf(absl::StrCat(samples_, "\n")));
    std::vector<uint64_t> ids;
    for (uint64_t next = 0; next < samples_; next += ids.size()) {
      ids.resize(std::min(kReadAtOnce, samples_ - next));
      for (size_t i = 0; i < ids.size(); ++i) ids[i] = next + i;
      MUSTER_ASSIGN_OR_RETURN(const muster::Batch batch, Read(-1, ids));
      for (size_t i = 0; i < ids.size(); ++i)
        for (size_t f = 0; f < fields_.size(); ++f) hash.Update(batch.row(f, i));
    }
    hash_ = hash.HexFinish();
    return absl::OkStatus();
  }

  // What it throws is an error of these samples, and nothing that a thread ends with.
  absl::StatusOr<std::vector<Example>> Examples(absl::Span<const uint64_t> ids) const {
    const auto says = [&](absl::string_view what) {
      return absl::DataLossError(
          absl::StrCat(ids.size() == 1 ? "sample " : "one of the samples from ", ids.front(),
                       " of the data set cannot be read: ", what));
    };
    try {
      const c10::NoGradGuard no_gradients;
      std::vector<Example> examples = read_({ids.begin(), ids.end()});
      if (examples.size() != ids.size())
        return says(
            absl::StrCat("of ", ids.size(), " that were asked for it gives ", examples.size()));
      return examples;
    } catch (const std::bad_alloc&) {
      return absl::ResourceExhaustedError("there is no memory for samples of the data set");
    } catch (const TaskError& thrown) {
      return thrown.status();
    } catch (const c10::Error& thrown) {
      return says(thrown.what_without_backtrace());
    } catch (const std::exception& thrown) {
      return says(thrown.what());
    } catch (...) {
      return says("it throws what is no exception");
    }
  }

  absl::Status Put(const Example& example, uint64_t id, muster::Batch& batch, size_t row) const {
    if (example.size() != fields_.size())
      return absl::DataLossError(absl::StrCat("sample ", id, " of the data set has ",
                                              example.size(), " fields, and the first has ",
                                              fields_.size()));
    for (size_t f = 0; f < fields_.size(); ++f) {
      const DataField& field = fields_[f];
      const at::ScalarType type = worker::TorchTypeOf(field.type);
      if (!CanBeRead(example[f]) || example[f].scalar_type() != type ||
          example[f].sizes() != field.shape)
        return absl::DataLossError(absl::StrCat(
            "sample ", id, " of the data set: '", field.name, "' is ",
            CanBeRead(example[f]) ? Described(example[f].scalar_type(), example[f].sizes())
                                  : std::string("no dense tensor on the processor"),
            ", and that of the first is ", Described(type, field.shape)));
      const at::Tensor whole = example[f].contiguous();
      const auto bytes = batch.row(f, row);
      // lint: not tensor bytes (of the model: it is a sample)
      std::memcpy(bytes.data(), whole.const_data_ptr(), bytes.size());
    }
    return absl::OkStatus();
  }

  const TorchSamples read_;
  const uint64_t samples_;
  std::vector<DataField> fields_;
  std::string hash_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<DataSet>> DataSetOfTorch(TorchSamples read, uint64_t samples,
                                                        TorchData about) {
  if (about.content_hash.size() > kMostHashBytes)
    return absl::FailedPreconditionError(absl::StrCat(
        "a content hash has ", about.content_hash.size(), " characters; at most ", kMostHashBytes));
  if (!about.any_thread) read = ByOneAtATime(std::move(read));
  auto set = std::make_unique<OfTorch>(std::move(read), samples);
  MUSTER_RETURN_IF_ERROR(set->Open(std::move(about)));
  return set;
}

}  // namespace muster::torch
