#include "worker/tasks/torchscript.h"

#include <ATen/core/grad_mode.h>
#include <caffe2/serialize/read_adapter_interface.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/serialization/import.h>
#include <torch/csrc/jit/serialization/pickle.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "lib/base/status.h"
#include "lib/kernels/sha256.h"
#include "muster/torch/named_loss.h"
#include "worker/tasks/remembers.h"
#include "worker/torch/flat_module.h"

namespace muster::worker {
namespace {

[[noreturn]] void Refuse(const std::string& name, const std::string& why) {
  throw TaskError(absl::FailedPreconditionError(absl::StrCat(name, ": ", why)));
}

// A file that stands in memory.
class InMemory final : public caffe2::serialize::ReadAdapterInterface {
 public:
  explicit InMemory(const std::string& bytes) : bytes_(bytes) {}
  size_t size() const override { return bytes_.size(); }
  size_t read(uint64_t pos, void* buf, size_t n, const char*) const override {
    if (pos >= bytes_.size()) return 0;
    return bytes_.copy(static_cast<char*>(buf), n, pos);
  }

 private:
  const std::string& bytes_;
};

// As PyTorch writes tensors and objects of Python: a whole zip file, without what TorchScript has
// besides, or, of old, a pickle.
bool IsOfTorchSave(absl::string_view bytes) {
  const bool is_zip = absl::StartsWith(bytes, "PK\3\4") && absl::StrContains(bytes, "PK\5\6");
  return absl::StartsWith(bytes, "\x80\x02") || (is_zip && absl::StrContains(bytes, "/data.pkl") &&
                                                 !absl::StrContains(bytes, "/constants.pkl"));
}

::torch::jit::Module Load(const std::string& name, const std::string& bytes) {
  ::torch::jit::Module script;
  const absl::Status loaded = CatchTorch([&] {
    script = ::torch::jit::load(std::make_shared<InMemory>(bytes), at::Device(at::kCPU));
  });
  if (absl::IsInternal(loaded) && IsOfTorchSave(bytes))
    Refuse(name,
           "is a file of torch.save, which holds no code; save the module by "
           "torch.jit.script(module).save(path)");
  if (absl::IsInternal(loaded)) {
    const std::vector<std::string> lines = absl::StrSplit(loaded.message(), '\n');
    Refuse(name, absl::StrCat("is no TorchScript file, as torch.jit.save writes it: ", lines[0]));
  }
  if (!loaded.ok()) throw TaskError(loaded);
  if (!script.find_method("forward")) Refuse(name, "its module has no method forward");
  return script;
}

std::string HashOf(const c10::IValue& value) {
  Sha256 hash;
  const auto add = [&hash](const void* bytes, size_t size) {
    hash.Update({static_cast<const std::byte*>(bytes), size});
  };
  std::vector<at::Tensor> tensors;
  ::torch::jit::pickle(add, value, &tensors);
  for (const at::Tensor& tensor : tensors) {
    const at::Tensor in_row = tensor.contiguous();
    const std::string kind = absl::StrCat(c10::toString(in_row.scalar_type()), "(",
                                          absl::StrJoin(in_row.sizes(), ","), ")");
    add(kind.data(), kind.size());
    add(in_row.const_data_ptr(), in_row.nbytes());
  }
  return hash.HexFinish();
}

// The module's tensors as those of a module of LibTorch's own, under the same names, so that they
// are bound to the flat space as all others are. Both have the same tensors, not copies.
class ScriptNetImpl final : public ::torch::nn::Module {
 public:
  ScriptNetImpl(const std::string& name, ::torch::jit::Module script, size_t inputs)
      : name_(name), script_(std::move(script)) {
    CheckTakes(inputs);
    for (const auto& parameter : script_.named_parameters())
      Add(parameter.name, parameter.value, true);
    const std::vector<at::Tensor> all = parameters();
    if (std::none_of(all.begin(), all.end(), [](const at::Tensor& p) { return p.requires_grad(); }))
      Refuse(name_, "has no parameter to train (requires_grad); a frozen module has none");
    AddOthers(script_, "");
  }

  void train(bool on) override {
    ::torch::nn::Module::train(on);
    script_.train(on);
  }

  at::Tensor forward(const std::vector<at::Tensor>& inputs) {
    // The optimizer of graphs may make another graph after the first runs, and a lane other bits.
    const ::torch::jit::GraphOptimizerEnabledGuard as_it_is(false);
    c10::IValue output;
    const absl::Status ran = CatchTorch([&] {
      output = script_.forward({inputs.begin(), inputs.end()});
    });
    // A lack of memory, wherever it shows, is named with the task and its file (MakeGuarded).
    if (!ran.ok()) throw TaskError(absl::IsResourceExhausted(ran) ? ran : Prefix(name_, ran));
    TakeBack();
    if (!output.isTensor())
      Refuse(name_, absl::StrCat("forward returns a ", output.tagKind(),
                                 "; it must return one tensor, whose first dimension is that of "
                                 "the samples"));
    return output.toTensor();
  }

  std::map<std::string, std::string> Remembered() const {
    std::map<std::string, std::string> remembered;
    AddRemembered(script_, "", remembered);
    return remembered;
  }

 private:
  // A tensor, and who has it in the script.
  struct Kept {
    ::torch::jit::Module owner;
    std::string attribute;
    std::string name;
    at::Tensor tensor;
  };

  void CheckTakes(size_t inputs) {
    const auto& arguments = script_.get_method("forward").function().getSchema().arguments();
    const size_t most = arguments.size() - 1;  // but for self
    const size_t least = static_cast<size_t>(
        std::count_if(arguments.begin() + 1, arguments.end(),
                      [](const c10::Argument& a) { return !a.default_value().has_value(); }));
    if (inputs >= least && inputs <= most) return;
    Refuse(name_, absl::StrCat("forward takes ", most, " inputs, and a sample has ", inputs,
                               " beside its label; data.columns and data.keys choose them"));
  }

  // Once for each name; FlatModule sees where several are of one tensor.
  void Add(const std::string& name, const at::Tensor& tensor, bool is_parameter) {
    if (!names_.insert(name).second) return;
    if (tensors_.insert(tensor.unsafeGetTensorImpl()).second) CheckMemory(name, tensor);
    if (tensor.numel() == 0)
      Refuse(name_,
             absl::StrCat("'", name, "' has the shape (", absl::StrJoin(tensor.sizes(), ", "),
                          "), which holds no number; a tensor of a model has one or more"));
    if (is_parameter && tensor.requires_grad() && tensor.scalar_type() != at::kFloat)
      Refuse(name_,
             absl::StrCat("parameter '", name, "' is of type ", c10::toString(tensor.scalar_type()),
                          "; parameters are 32-bit floats, which float() makes of a module"));
    const size_t dot = name.rfind('.');
    ::torch::nn::Module& owner = dot == std::string::npos ? *this : FolderOf(name.substr(0, dot));
    const std::string last = dot == std::string::npos ? name : name.substr(dot + 1);
    if (is_parameter) {
      owner.register_parameter(last, tensor, tensor.requires_grad());
    } else {
      owner.register_buffer(last, tensor);
    }
  }

  void CheckMemory(const std::string& name, const at::Tensor& tensor) {
    for (const auto& [memory, whose] : memories_)
      if (memory == tensor.storage().unsafeGetStorageImpl())
        Refuse(name_, absl::StrCat("'", whose, "' and '", name,
                                   "' share memory and are not the same tensor; take a copy of one "
                                   "(clone) before the module is saved"));
    memories_.emplace_back(tensor.storage().unsafeGetStorageImpl(), name);
  }

  ::torch::nn::Module& FolderOf(const std::string& path) {
    if (const auto found = folders_.find(path); found != folders_.end()) return *found->second;
    const size_t dot = path.rfind('.');
    ::torch::nn::Module& owner = dot == std::string::npos ? *this : FolderOf(path.substr(0, dot));
    const std::string last = dot == std::string::npos ? path : path.substr(dot + 1);
    return *(folders_[path] =
                 owner.register_module(last, std::make_shared<::torch::nn::Module>(last)));
  }

  // Whatever tensors a module has beside its parameters might change in a lane, also those that
  // nobody has called a buffer.
  void AddOthers(const ::torch::jit::Module& module, const std::string& prefix) {
    for (const auto& attribute : module.named_attributes(/*recurse=*/false)) {
      if (!attribute.value.isTensor() || !attribute.value.toTensor().defined()) continue;
      const at::Tensor tensor = attribute.value.toTensor();
      const std::string name = prefix + attribute.name;
      Add(name, tensor, false);
      kept_.push_back({module, attribute.name, name, tensor});
    }
    for (const auto& child : module.named_children())
      AddOthers(child.value, absl::StrCat(prefix, child.name, "."));
  }

  // Of all that is neither a module nor one of the tensors of the task. `training` is set before
  // each pass.
  void AddRemembered(const ::torch::jit::Module& module, const std::string& prefix,
                     std::map<std::string, std::string>& remembered) const {
    for (const auto& attribute : module.named_attributes(/*recurse=*/false)) {
      const std::string name = prefix + attribute.name;
      if (attribute.value.isModule() || names_.count(name) > 0 || attribute.name == "training")
        continue;
      std::string hash;
      if (CatchTorch([&] { hash = HashOf(attribute.value); }).ok()) remembered[name] = hash;
    }
    for (const auto& child : module.named_children())
      AddRemembered(child.value, absl::StrCat(prefix, child.name, "."), remembered);
  }

  // `self.mean = 0.9 * self.mean + …` puts another tensor there: its value counts, and the next
  // lane begins from the flat space's.
  void TakeBack() {
    const at::NoGradGuard no_grad;
    for (Kept& kept : kept_) {
      const c10::IValue now = kept.owner.attr(kept.attribute);
      if (!now.isTensor() || !IsLike(now.toTensor(), kept.tensor))
        Refuse(name_, absl::StrCat("'", kept.name, "' must keep its shape and type in forward"));
      if (now.toTensor().unsafeGetTensorImpl() == kept.tensor.unsafeGetTensorImpl()) continue;
      kept.tensor.copy_(now.toTensor());  // lint: not tensor bytes (a buffer within the module)
      kept.owner.setattr(kept.attribute, kept.tensor);
    }
  }

  static bool IsLike(const at::Tensor& now, const at::Tensor& before) {
    return now.defined() && now.sizes() == before.sizes() &&
           now.scalar_type() == before.scalar_type();
  }

  const std::string name_;
  ::torch::jit::Module script_;
  std::set<std::string> names_;
  std::set<const void*> tensors_;
  std::vector<std::pair<const void*, std::string>> memories_;
  std::map<std::string, std::shared_ptr<::torch::nn::Module>> folders_;
  std::vector<Kept> kept_;
};
using ScriptNet = ::torch::nn::ModuleHolder<ScriptNetImpl>;

class TorchScriptTask final : public muster::torch::NamedLossTask<ScriptNet>, public Remembers {
 public:
  TorchScriptTask(const TaskOptions& options, const std::string& name,
                  std::shared_ptr<const std::string> bytes)
      : NamedLossTask(options, [=](const DataSet& set) {
          return ScriptNet(name, Load(name, *bytes), set.Fields().size() - 1);
        }) {
    TryOutput();
  }

  std::map<std::string, std::string> Remembered() override { return net()->Remembered(); }

 private:
  at::Tensor Output(ScriptNet& net, const Tensors& inputs) override { return net(inputs); }
};

}  // namespace

std::unique_ptr<Task> MakeTorchScript(const TaskOptions& options, std::string name,
                                      std::string bytes) {
  return std::make_unique<TorchScriptTask>(options, name,
                                           std::make_shared<const std::string>(std::move(bytes)));
}

}  // namespace muster::worker
