#include "worker/torch/libtorch_archive.h"

#include <torch/serialize/output-archive.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "lib/base/status.h"
#include "worker/torch/flat_module.h"

namespace muster::worker {
namespace {

// A module: its own tensors, and the modules in it, in the order of their names.
struct Folder {
  std::vector<std::pair<std::string, const Placed*>> tensors;
  std::map<std::string, Folder> folders;
};

void Put(const Placed& tensor, const std::string& name, Folder& root) {
  Folder* folder = &root;
  size_t begin = 0;
  for (size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', begin)) {
    folder = &folder->folders[name.substr(begin, dot - begin)];
    begin = dot + 1;
  }
  folder->tensors.emplace_back(name.substr(begin), &tensor);
}

Folder TreeOf(const FlatSpace& space) {
  Folder root;
  for (const Placed& tensor : space.tensors)
    for (const std::string& name : tensor.spec.Names()) Put(tensor, name, root);
  return root;
}

// LibTorch makes code of the names, which it could not read again.
constexpr const char* kReserved[] = {
    "False", "None",   "True", "and",   "as",     "assert", "break", "class", "continue",
    "def",   "del",    "elif", "else",  "except", "exec",   "for",   "from",  "global",
    "if",    "import", "in",   "is",    "lambda", "not",    "or",    "pass",  "print",
    "raise", "return", "try",  "while", "with",   "yield"};

absl::Status CheckName(const std::string& name) {
  for (const absl::string_view part : absl::StrSplit(name, '.'))
    if (std::find(std::begin(kReserved), std::end(kReserved), part) != std::end(kReserved))
      return absl::FailedPreconditionError(
          absl::StrCat("tensor '", name, "': '", part,
                       "' is a word of TorchScript, which no archive of LibTorch can hold as a "
                       "name; take --format pt or safetensors, or rename the module"));
  return absl::OkStatus();
}

absl::Status CheckNames(const FlatSpace& space) {
  for (const Placed& tensor : space.tensors)
    for (const std::string& name : tensor.spec.Names()) MUSTER_RETURN_IF_ERROR(CheckName(name));
  return absl::OkStatus();
}

void Write(const Folder& folder, absl::Span<const float> state,
           torch::serialize::OutputArchive& archive) {
  for (const auto& [name, tensor] : folder.tensors) {
    // It reads only; the function just lacks a const.
    float* values = const_cast<float*>(state.data()) + tensor->offset;
    const at::Tensor view =
        at::from_blob(values, tensor->spec.shape, TorchTypeOf(tensor->spec.type));
    archive.write(name, view, tensor->spec.kind == TensorKind::kBuffer);
  }
  for (const auto& [name, inner] : folder.folders) {
    torch::serialize::OutputArchive nested(archive.compilation_unit());
    Write(inner, state, nested);
    archive.write(name, nested);
  }
}

}  // namespace

absl::Status WriteLibTorchArchive(const FlatSpace& space, absl::Span<const float> state,
                                  const std::string& path) {
  MUSTER_RETURN_IF_ERROR(CheckNames(space));
  return CatchTorch([&] {
    torch::serialize::OutputArchive archive;
    Write(TreeOf(space), state, archive);
    archive.save_to(path);
  });
}

}  // namespace muster::worker
