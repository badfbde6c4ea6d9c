#include "worker/torch/libtorch_archive.h"

#include <fcntl.h>
#include <torch/serialize/output-archive.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <iterator>
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "lib/base/descriptor.h"
#include "lib/base/status.h"
#include "lib/base/whole_file.h"
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

// LibTorch ends the process where a write of its fails: it throws, and once more while it cleans up
// after that. So it never hears of one; what it says after the first that failed goes nowhere.
class DeafFile {
 public:
  DeafFile(Descriptor file, std::string path) : file_(std::move(file)), path_(std::move(path)) {}

  void Write(const void* bytes, size_t count) {
    const char* next = static_cast<const char*>(bytes);
    while (count > 0 && status_.ok()) {
      const ssize_t n = write(file_.get(), next, count);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) {
        status_ = FileError(errno, "write", path_);
        return;
      }
      next += n;
      count -= static_cast<size_t>(n);
    }
  }
  // The first error.
  const absl::Status& status() const { return status_; }

 private:
  const Descriptor file_;
  const std::string path_;
  absl::Status status_;
};

}  // namespace

absl::Status WriteLibTorchArchive(const FlatSpace& space, absl::Span<const float> state,
                                  const std::string& path) {
  MUSTER_RETURN_IF_ERROR(CheckNames(space));
  MUSTER_ASSIGN_OR_RETURN(Descriptor opened, OpenRegularFile(path, O_WRONLY | O_CREAT | O_TRUNC));
  DeafFile file(std::move(opened), path);
  const absl::Status made = CatchTorch([&] {
    torch::serialize::OutputArchive archive;
    Write(TreeOf(space), state, archive);
    archive.save_to([&file](const void* bytes, size_t count) {
      file.Write(bytes, count);
      return count;
    });
  });
  MUSTER_RETURN_IF_ERROR(file.status());
  return made;
}

}  // namespace muster::worker
