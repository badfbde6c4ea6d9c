#include "worker/torch/flat_module.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <new>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "lib/base/check.h"
#include "lib/base/status.h"
#include "lib/base/time.h"
#include "lib/task/checks.h"
#include "worker/torch/numerics.h"

namespace muster::worker {
namespace {

// Memories whose views are kept: two generations of state and a handful of gradient buffers come
// round again.
constexpr size_t kCachedMemories = 16;
constexpr uintptr_t kAlignBytes = 64;

constexpr std::pair<at::ScalarType, TensorType> kTypes[] = {
    {at::kFloat, TensorType::kFloat32}, {at::kDouble, TensorType::kFloat64},
    {at::kHalf, TensorType::kFloat16},  {at::kBFloat16, TensorType::kBfloat16},
    {at::kLong, TensorType::kInt64},    {at::kInt, TensorType::kInt32},
    {at::kShort, TensorType::kInt16},   {at::kChar, TensorType::kInt8},
    {at::kByte, TensorType::kUint8},    {at::kBool, TensorType::kBool}};

std::optional<TensorType> TypeOf(const at::Tensor& tensor) {
  for (const auto& [theirs, ours] : kTypes)
    if (tensor.scalar_type() == theirs) return ours;
  return std::nullopt;
}

struct Held {
  at::Tensor tensor;
  TensorSpec spec;
};

// Parameters that are trained, in registration order, and then all that no gradient reaches. A
// tensor that the module has under several names is one. One of a type that is not ours is refused
// by Bind.
std::vector<Held> TensorsOf(const ::torch::nn::Module& module) {
  std::vector<Held> held;
  std::map<const void*, size_t> known;
  const auto add = [&](const std::string& name, const at::Tensor& tensor, TensorKind kind) {
    const auto [known_as, is_new] = known.emplace(tensor.unsafeGetTensorImpl(), held.size());
    if (!is_new) return held[known_as->second].spec.aliases.push_back(name);
    const TensorType type = TypeOf(tensor).value_or(TensorType::kFloat32);
    held.push_back({tensor, {name, tensor.sizes().vec(), kind, type}});
  };
  for (const auto& p : module.named_parameters())
    add(p.key(), p.value(),
        p.value().requires_grad() ? TensorKind::kParameter : TensorKind::kBuffer);
  for (const auto& b : module.named_buffers()) add(b.key(), b.value(), TensorKind::kBuffer);
  std::stable_partition(held.begin(), held.end(),
                        [](const Held& h) { return h.spec.kind == TensorKind::kParameter; });
  return held;
}

absl::Status CheckStorage(const TensorSpec& spec, const at::Tensor& tensor) {
  const char* type = c10::toString(tensor.scalar_type());
  const std::optional<TensorType> ours = TypeOf(tensor);
  if (!ours)
    return absl::FailedPreconditionError(
        absl::StrCat("tensor '", spec.name, "' is of type ", type, ", which Muster does not hold"));
  if (spec.kind == TensorKind::kParameter && *ours != TensorType::kFloat32)
    return absl::FailedPreconditionError(
        absl::StrCat("parameter '", spec.name, "' is of type ", type, "; parameters are Float"));
  if (!tensor.device().is_cpu())
    return absl::FailedPreconditionError(
        absl::StrCat("tensor '", spec.name, "' is on ", tensor.device().str(), ", not on the CPU"));
  return absl::OkStatus();
}

absl::Status CheckAligned(const char* what, const float* base) {
  if (reinterpret_cast<uintptr_t>(base) % kAlignBytes == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(what, " must be 64-byte aligned: other alignments give other bits"));
}

// Of a contiguous tensor.
absl::Span<const float> ValuesOf(const at::Tensor& tensor) {
  return {tensor.const_data_ptr<float>(), static_cast<size_t>(tensor.numel())};
}

// The same, whatever its type.
absl::Span<std::byte> BytesOfTensor(const at::Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.mutable_data_ptr()), tensor.nbytes()};
}

double SecondsOf(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return Seconds(std::chrono::steady_clock::now() - begin);
}

absl::Status OutOfMemory() {
  return absl::ResourceExhaustedError(
      "LibTorch is out of memory: take more lanes or a smaller batch, make the model smaller, or "
      "let fewer workers run on one machine");
}

// TorchScript tells where it failed in many lines, and why in the last: "RuntimeError: …".
absl::string_view ReasonIn(absl::string_view what) {
  absl::string_view reason = what;
  for (const absl::string_view line : absl::StrSplit(what, '\n')) {
    const size_t colon = line.find("Error: ");
    if (colon != line.npos && line.find(' ') > colon) reason = line;
  }
  return reason;
}

// What a backward pass that was left by an exception had still to do waits in its thread's queue,
// with all that its graph has kept, until the next pass on that thread throws it away: this is one,
// of a single number.
void FreeWhatBackwardLeft() {
  CatchTorch([] { at::zeros({}).requires_grad_().backward(); }).IgnoreError();
}

absl::Status StatusOf(absl::string_view what) {
  // Its allocator throws the same as everything else does.
  if (absl::StrContains(what, "DefaultCPUAllocator")) return OutOfMemory();
  // Of no other samples would the lane have more of them: the specification is wrong.
  if (absl::StrContains(what, "Expected more than 1 value per channel when training"))
    return absl::FailedPreconditionError(
        absl::StrCat("LibTorch: ", ReasonIn(what),
                     "; batch norm needs more than one value a channel in each lane: take a larger "
                     "batch or fewer lanes, also where the last step of an epoch is short, or "
                     "muster::torch::SyncBatchNorm and sync_batch_norm: true"));
  return absl::InternalError(absl::StrCat("LibTorch: ", ReasonIn(what)));
}

}  // namespace

absl::Status CatchTorch(const std::function<void()>& f) {
  try {
    f();
    return absl::OkStatus();
  } catch (const std::bad_alloc&) {
    return OutOfMemory();
  } catch (const TaskError& e) {
    return e.status();
  } catch (const c10::Error& e) {
    return StatusOf(e.what_without_backtrace());
  } catch (const std::exception& e) {
    return StatusOf(e.what());
  }
}

at::ScalarType TorchTypeOf(TensorType type) {
  for (const auto& [theirs, ours] : kTypes)
    if (ours == type) return theirs;
  return at::ScalarType::Undefined;
}

void SeedTorch(uint64_t seed) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_current_seed(seed);
}

at::Tensor TorchGenerator() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  std::lock_guard<std::mutex> lock(generator.mutex());
  return generator.get_state();
}

void SetTorchGenerator(const at::Tensor& state) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_state(state);
}

struct FlatModule::Hook final : ::torch::autograd::PostAccumulateGradHook {
  Hook(FlatModule* the_owner, size_t the_parameter) : owner(the_owner), parameter(the_parameter) {}
  void operator()(const at::Tensor&) override { owner->Finish(parameter); }

  FlatModule* const owner;
  const size_t parameter;
};

FlatModule::FlatModule(std::shared_ptr<::torch::nn::Module> module, int32_t threads,
                       CopyCounter& copied)
    : module_(std::move(module)), threads_(threads), copied_(copied) {
  for (const Held& held : TensorsOf(*module_)) {
    (held.spec.kind == TensorKind::kParameter ? parameters_ : buffers_).push_back(held.tensor);
    specs_.push_back(held.spec);
  }
  for (size_t i = 0; i < parameters_.size(); ++i)
    ::torch::autograd::impl::set_post_acc_grad_hooks(parameters_[i],
                                                     std::make_unique<Hook>(this, i));
}

FlatModule::~FlatModule() {
  for (at::Tensor& p : parameters_) ::torch::autograd::impl::set_post_acc_grad_hooks(p, nullptr);
}

absl::Status FlatModule::Bind(const FlatSpace& space) {
  MUSTER_RETURN_IF_ERROR(CheckSpace(specs_, space));
  for (size_t i = 0; i < specs_.size(); ++i) {
    const bool parameter = i < parameters_.size();
    MUSTER_RETURN_IF_ERROR(
        CheckStorage(specs_[i], parameter ? parameters_[i] : buffers_[i - parameters_.size()]));
  }
  space_ = space;
  parameter_views_.clear();
  gradient_views_.clear();
  return absl::OkStatus();
}

absl::Status FlatModule::Store(const ::torch::nn::Module& source, absl::Span<float> flat) const {
  if (flat.size() != static_cast<size_t>(space_.elements))
    return absl::InvalidArgumentError("the span is not of the bound layout's size");
  const std::vector<Held> values = TensorsOf(source);
  if (values.size() != specs_.size())
    return absl::FailedPreconditionError(
        absl::StrCat("the module has ", specs_.size(), " tensors, and ", values.size(),
                     " when it is made again; it must have the same"));
  for (size_t i = 0; i < values.size(); ++i) {
    const at::Tensor value = values[i].tensor.detach().contiguous();
    if (value.sizes() != specs_[i].shape || TypeOf(value) != specs_[i].type ||
        values[i].spec.kind != specs_[i].kind)
      return absl::FailedPreconditionError(
          absl::StrCat("the module's tensor '", specs_[i].name,
                       "' has another shape or type when it is made again; it must have the same"));
    CopyBytesIn(BytesOfTensor(value), Within(flat, i), copied_);
  }
  return absl::OkStatus();
}

const FlatModule::Views& FlatModule::ViewsOf(const float* base, std::vector<Views>& cache) {
  const auto same = [&](const Views& v) { return v.base == base; };
  if (auto it = std::find_if(cache.begin(), cache.end(), same); it != cache.end()) return *it;
  if (cache.size() == kCachedMemories) cache.erase(cache.begin());
  Views views{base, {}};
  for (size_t i = 0; i < parameters_.size(); ++i)
    views.tensors.push_back(
        at::from_blob(Place(i, const_cast<float*>(base)), specs_[i].shape, at::kFloat));
  return cache.emplace_back(std::move(views));
}

absl::Status FlatModule::Attach(absl::Span<const float> parameters) {
  if (parameters.size() != static_cast<size_t>(space_.elements) || parameters.empty())
    return absl::InvalidArgumentError("the parameters' span is not of the bound layout's size");
  MUSTER_RETURN_IF_ERROR(CheckAligned("the parameters' span", parameters.data()));
  MUSTER_RETURN_IF_ERROR(UseTorchHere(threads_));
  for (size_t b = 0; b < buffers_.size(); ++b) MUSTER_RETURN_IF_ERROR(CheckBuffer(b));
  return CatchTorch([&] {
    const Views& views = ViewsOf(parameters.data(), parameter_views_);
    for (size_t i = 0; i < parameters_.size(); ++i) parameters_[i].set_data(views.tensors[i]);
    for (size_t b = 0; b < buffers_.size(); ++b)
      CopyBytesOut(Within(parameters, parameters_.size() + b), BytesOfTensor(buffers_[b]), copied_);
  });
}

absl::StatusOr<LaneOutput> FlatModule::Run(const LaneInput& input, GradientSink& sink,
                                           const LaneWork& work) {
  MUSTER_RETURN_IF_ERROR(Attach(input.parameters));
  if (sink.gradient.size() != input.parameters.size())
    return absl::InvalidArgumentError("the gradient's span is not of the bound layout's size");
  MUSTER_RETURN_IF_ERROR(CheckAligned("the gradient's span", sink.gradient.data()));
  LaneOutput output;
  sink_ = &sink;
  announced_.assign(parameters_.size(), false);
  bool goes_backward = false;
  const absl::Status status = CatchTorch([&] {
    const Views& gradients = ViewsOf(sink.gradient.data(), gradient_views_);
    for (size_t i = 0; i < parameters_.size(); ++i)
      parameters_[i].mutable_grad() = gradients.tensors[i];
    module_->train();
    output.input_seconds = SecondsOf(work.make_batch);
    if (work.left_out) output.left_out = work.left_out();
    at::Tensor sum;
    if (output.left_out.empty() || output.left_out.size() < input.samples.size()) {
      output.weight = work.weight();
      SeedTorch(input.seed);
      sum = work.loss();
      output.loss = sum.item<double>();
    }
    sink.outcome(output);
    goes_backward = sum.defined();
    if (goes_backward) sum.backward();
    for (size_t i = 0; i < parameters_.size(); ++i) Finish(i);
  });
  if (!status.ok() && goes_backward) FreeWhatBackwardLeft();
  const absl::Status finished = status.ok() ? FinishBuffers(sink.gradient) : status;
  sink_ = nullptr;
  MUSTER_RETURN_IF_ERROR(finished);
  return output;
}

absl::Status FlatModule::Evaluate(absl::Span<const float> parameters,
                                  const std::function<void()>& work) {
  MUSTER_RETURN_IF_ERROR(Attach(parameters));
  return CatchTorch([&] {
    const at::NoGradGuard no_grad;
    module_->eval();
    work();
  });
}

void FlatModule::Finish(size_t parameter) {
  if (sink_ == nullptr || announced_[parameter]) return;
  announced_[parameter] = true;
  const at::Tensor& gradient = parameters_[parameter].grad();
  const absl::Span<float> place = Within(sink_->gradient, parameter);
  // A module may have put another tensor in its place.
  if (!gradient.defined() || gradient.scalar_type() != at::kFloat ||
      gradient.sizes() != specs_[parameter].shape)
    throw TaskError(absl::FailedPreconditionError(
        absl::StrCat("the gradient of parameter '", specs_[parameter].name,
                     "' is not of its shape and type; leave it to LibTorch")));
  if (gradient.const_data_ptr() != place.data()) {
    CopyFloats(ValuesOf(gradient.contiguous()), place, copied_);
    ++copied_gradients_;
  }
  sink_->ready(parameter);
}

// A lane may have made another tensor of it.
absl::Status FlatModule::CheckBuffer(size_t buffer) const {
  const TensorSpec& spec = specs_[parameters_.size() + buffer];
  const at::Tensor& tensor = buffers_[buffer];
  if (tensor.sizes() == spec.shape && TypeOf(tensor) == spec.type && tensor.is_contiguous())
    return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("buffer '", spec.name, "' must be contiguous and keep its shape and type"));
}

absl::Status FlatModule::FinishBuffers(absl::Span<float> gradient) {
  for (size_t b = 0; b < buffers_.size(); ++b) {
    const size_t tensor = parameters_.size() + b;
    MUSTER_RETURN_IF_ERROR(CheckBuffer(b));
    CopyBytesIn(BytesOfTensor(buffers_[b]), Within(gradient, tensor), copied_);
    sink_->ready(tensor);
  }
  return absl::OkStatus();
}

}  // namespace muster::worker
