#include "lib/task/model_size.h"

#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "lib/domain/grid.h"
#include "lib/domain/layout.h"
#include "lib/task/registry.h"

namespace muster {
namespace {

struct Size {
  int64_t elements = 0;   // of the model
  double data_bytes = 0;  // that the task makes
  // What the model's size depends on, what changes it most first.
  std::vector<std::string> fields;
};

class Sizes {
 public:
  explicit Sizes(const TrainingSpec& training) : training_(training) {}

  Size Take() const {
    if (training_.task == "code-lm") return CodeLm();
    if (training_.task == "transformer") return Transformer();
    if (training_.task == "counting")
      return {.elements = static_cast<int64_t>(Samples()), .fields = {"data.samples"}};
    return {};
  }

  int64_t ValueOf(const std::string& field) const {
    return field == "data.samples" ? static_cast<int64_t>(Samples())
                                   : Whole(field.substr(field.find('.') + 1));
  }

 private:
  int64_t Whole(const std::string& name) const {
    return static_cast<int64_t>(std::get<double>(training_.parameters.at(name)));
  }
  uint64_t Samples() const {
    return training_.data.samples > 0 ? training_.data.samples
                                      : FindTask(training_.task)->default_samples;
  }

  static int64_t Linear(int64_t in, int64_t out) { return (in + 1) * out; }
  static int64_t Norm(int64_t width) { return 2 * width; }
  static int64_t Attention(int64_t width) {
    return Linear(width, 3 * width) + Linear(width, width);
  }
  static int64_t FeedForward(int64_t width, int64_t inner) {
    return Linear(width, inner) + Linear(inner, width);
  }

  Size CodeLm() const {
    constexpr int64_t kBytes = 256;
    const int64_t width = Whole("width");
    const int64_t block = 2 * Norm(width) + Attention(width) + FeedForward(width, 4 * width);
    return {
        .elements = (2 * kBytes + Whole("context")) * width + Whole("layers") * block + Norm(width),
        .fields = {"parameters.width", "parameters.layers", "parameters.context"}};
  }

  Size Transformer() const {
    const int64_t width = Whole("width");
    const int64_t inner = FeedForward(width, Whole("feedforward"));
    const int64_t encoder = Attention(width) + inner + 2 * Norm(width);
    const int64_t decoder = 2 * Attention(width) + inner + 3 * Norm(width);
    const double positions =
        static_cast<double>(Whole("source_length")) + static_cast<double>(Whole("target_length"));
    return {
        .elements =
            Whole("encoder_layers") * encoder + Whole("decoder_layers") * decoder + 2 * Norm(width),
        .data_bytes = 4.0 * static_cast<double>(Samples()) * positions * static_cast<double>(width),
        .fields = {"parameters.width", "parameters.feedforward", "parameters.encoder_layers",
                   "parameters.decoder_layers"}};
  }

  const TrainingSpec& training_;
};

// "width 192, layers 4, context 128: that makes a model of 1902720 parameters".
std::string Told(const Sizes& sizes, const Size& size) {
  const auto one = [&](std::string* out, const std::string& field) {
    absl::StrAppend(out, field.substr(field.find('.') + 1), " ", sizes.ValueOf(field));
  };
  return absl::StrFormat("%s: that makes a model of %d parameters",
                         absl::StrJoin(size.fields, ", ", one), size.elements);
}

}  // namespace

int64_t ModelElements(const TrainingSpec& training) { return Sizes(training).Take().elements; }

std::optional<TooLarge> TooLargeForAJob(const TrainingSpec& training) {
  const Sizes sizes(training);
  const Size size = sizes.Take();
  const int64_t most = kMostChunks * (ChunkBytes(training) / 4);
  if (size.elements <= most) return std::nullopt;
  return TooLarge{
      size.fields.front(),
      absl::StrFormat("%s, and with chunks of %d bytes a job may have %d; make %s",
                      Told(sizes, size), ChunkBytes(training), most,
                      training.chunk_bytes < kMaxChunkBytes ? "them smaller, or chunk_bytes larger"
                                                            : "them smaller")};
}

// When a member looks at this itself, it is too late for a worker, which has made its model by
// then.
std::optional<TooLarge> TooLargeForAWorker(const TrainingSpec& training, int64_t memory) {
  constexpr double kGigabyte = 1e9;
  const Sizes sizes(training);
  const Size size = sizes.Take();
  const auto have = static_cast<double>(memory);
  const double model = LeastMemoryOfMember(size.elements, SlotCount(training));
  if (model > have)
    return TooLarge{
        size.fields.front(),
        absl::StrFormat("%s; with gradients and optimizer slots a worker needs %.1f GB of memory "
                        "and more, and may have %.1f GB of this machine's; make them smaller, take "
                        "an optimizer with fewer slots, or raise the limit of its cgroup if it has "
                        "one",
                        Told(sizes, size), model / kGigabyte, have / kGigabyte)};
  if (model + size.data_bytes <= have) return std::nullopt;
  return TooLarge{"data.samples",
                  absl::StrFormat("%d samples take %.1f GB of memory beside the %.1f GB of the "
                                  "model, and a worker may have %.1f GB of this machine's; make "
                                  "them fewer, or shorter",
                                  sizes.ValueOf("data.samples"), size.data_bytes / kGigabyte,
                                  model / kGigabyte, have / kGigabyte)};
}

absl::Status CheckTaskFits(const TrainingSpec& training, int64_t memory) {
  std::optional<TooLarge> too_large = TooLargeForAJob(training);
  if (!too_large) too_large = TooLargeForAWorker(training, memory);
  if (!too_large) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(too_large->field, ": ", too_large->reason));
}

}  // namespace muster
