// The values that a job starts from where its specification names a file (`initial`): which tensor
// of the file stands for which of the model, and how they get there. Does not change; any thread.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "lib/data/tensor_file.h"
#include "lib/domain/initial_spec.h"
#include "muster/tensor.h"

namespace muster {

// What belongs together, by position in `of_model` and in the file.
struct InitialMatch {
  // For each tensor of the model that of the file; nothing: it begins at the task's own values.
  std::vector<std::optional<size_t>> of_model;
  std::vector<std::string> missing;  // of these the names, and of those with another shape or type
  std::vector<std::string> unused;   // tensors of the file, by their names there, that no other is
  // Two tensors of the file that are one in the model, under two of its names: they must be equal.
  std::vector<std::pair<size_t, size_t>> equal;
};

// A tensor of the model may be in the file under any of its names, or several.
// A tensor of float32 takes any of real numbers, one of another type its own alone; the shapes are
// equal. kFailedPrecondition, with the path of the field and what to do: a change of names that
// fits no name, two tensors of the file that get one name, none at all that fits; and with `strict`
// one that is missing, left over or does not fit, with both shapes.
absl::StatusOr<InitialMatch> MatchInitial(const InitialSpec& initial,
                                          const std::vector<StoredTensor>& stored,
                                          const std::vector<TensorSpec>& model);

// "2 of 6 tensors begin at the task's own values: head.bias, head.weight; 1 tensor of the file is
// not used: classifier.weight". Empty: neither.
std::string LeftOutOf(const InitialMatch& match);

class InitialValues {
 public:
  // Reads all of the file once, for its hash. `initial` names one. kInvalidArgument: it is not
  // there, no file, or lies in a folder of ours; kDataLoss: it is broken; kFailedPrecondition as
  // MatchInitial, and where two that are one in the model differ.
  static absl::StatusOr<InitialValues> Open(const InitialSpec& initial,
                                            const std::vector<TensorSpec>& model);

  const std::string& content_hash() const { return hash_; }  // SHA-256: 64 lower-case digits
  const InitialMatch& match() const { return match_; }
  size_t loaded() const;  // tensors of the model that the file has

  // Over what the task has written there: the values of the file, and what it does not have stays.
  // `space` is that of the model. Other real types become float32, rounded once, those below its
  // normal range zero. Calls `after_each`, if given, after each megabyte or so. kDataLoss: the file
  // cannot be read any more or has changed.
  absl::Status Write(const FlatSpace& space, absl::Span<float> state,
                     const std::function<void()>& after_each = {}) const;

 private:
  std::vector<StoredTensor> stored_;
  InitialMatch match_;
  std::string hash_;
};

}  // namespace muster
