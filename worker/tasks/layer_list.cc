#include "worker/tasks/layer_list.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lib/base/printable.h"
#include "lib/base/status.h"

namespace muster::worker {
namespace {

using nlohmann::json;

constexpr int kMostLayers = 4096;
constexpr int kMostLevels = 32;
constexpr size_t kMostTold = 100;  // bytes of a value that is wrong
constexpr double kMostSize = 1 << 20;
constexpr int64_t kMostElements = int64_t{1} << 31;  // of a sample between two layers
constexpr double kMostParameters = 0x1p38;           // as many as a job may have

enum class NumberKind { kWhole, kReal, kSwitch };

struct Number {
  const char* name;
  NumberKind kind = NumberKind::kWhole;
  double min = 0;
  double max = 0;
  std::optional<double> fallback;  // none: it must be given
  const char* help = "";
};

constexpr Number Size(const char* name, const char* help) {
  return {name, NumberKind::kWhole, 1, kMostSize, {}, help};
}
constexpr Number Whole(const char* name, double min, double fallback, const char* help) {
  return {name, NumberKind::kWhole, min, kMostSize, fallback, help};
}
constexpr Number kBias = {
    "bias", NumberKind::kSwitch, 0, 1, 1, "whether a learned number is added"};
constexpr Number kEpsilon = {"epsilon", NumberKind::kReal, 0, 1, 1e-5, "added to the variance"};

std::vector<Number> OfAPool() {
  return {Size("size", "height and width of the window"),
          Whole("stride", 0, 0, "pixels from one window to the next; 0: size"),
          Whole("padding", 0, 0, "pixels that are added on each side")};
}

// What a block takes beside numbers.
struct Part {
  const char* name;
  const char* help;
  bool is_needed = false;
  const char* fallback = "[]";
  std::vector<std::string> choices{};  // empty: it holds lists of layers
};

struct LayerType {
  const char* name;
  LayerKind kind;
  const char* help;
  std::vector<Number> numbers{};
  bool takes_one = false;  // what stands bare is the first of its numbers or parts
  std::vector<Part> parts{};

  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const Number& number : numbers) names.emplace_back(number.name);
    for (const Part& part : parts) names.emplace_back(part.name);
    return names;
  }
};

const std::vector<LayerType>& Types() {
  using K = LayerKind;
  static const auto& types = *new std::vector<LayerType>{
      {"linear",
       K::kLinear,
       "learned weights make size numbers of the last dimension",
       {Size("size", "numbers that it makes"), kBias},
       true},
      {"conv2d",
       K::kConv2d,
       "learned filters over channels, height and width",
       {Size("channels", "filters, each of which makes a channel"),
        Size("size", "height and width of a filter"),
        Whole("stride", 1, 1, "pixels from one place of a filter to the next"),
        Whole("padding", 0, 0, "pixels of 0 that are added on each side"),
        Whole("groups", 1, 1, "of channels that are filtered apart; divides both their numbers"),
        kBias}},
      {"batch_norm",
       K::kBatchNorm,
       "mean 0 and deviation 1 of each channel over the samples, then learned ones",
       {kEpsilon,
        {"momentum", NumberKind::kReal, 0, 1, 0.1, "share of a step in the running statistics"}}},
      {"layer_norm",
       K::kLayerNorm,
       "mean 0 and deviation 1 over the last dimension, then learned ones",
       {kEpsilon}},
      {"relu", K::kActivation, "what is below 0 becomes 0"},
      {"leaky_relu",
       K::kActivation,
       "what is below 0 is multiplied by slope",
       {{"slope", NumberKind::kReal, 0, 1, 0.01, "of what is below 0"}},
       true},
      {"elu", K::kActivation, "x below 0 becomes e to the x, less 1"},
      {"gelu", K::kActivation, "x times the share of a normal distribution that is below x"},
      {"silu", K::kActivation, "x times its sigmoid"},
      {"sigmoid", K::kActivation, "1 / (1 + e to the -x)"},
      {"softplus", K::kActivation, "the logarithm of 1 + e to the x"},
      {"tanh", K::kActivation, "the hyperbolic tangent"},
      {"max_pool", K::kMaxPool, "the largest number of each window", OfAPool(), true},
      {"avg_pool", K::kAvgPool, "the mean of each window", OfAPool(), true},
      {"global_avg_pool", K::kGlobalAvgPool, "the mean of each channel over height and width"},
      {"flatten", K::kFlatten, "one dimension of all of them"},
      {"transpose", K::kTranspose, "two dimensions, the second first"},
      {"dropout",
       K::kDropout,
       "in training some numbers become 0, at random, and the others larger",
       {{"share", NumberKind::kReal, 0, 0.95, {}, "of the numbers that become 0"}},
       true},
      {"embedding",
       K::kEmbedding,
       "learned numbers for each whole number below count; as the first layer",
       {Size("count", "whole numbers that there are"), Size("size", "numbers for each")}},
      {"residual",
       K::kResidual,
       "adds what came in to what its layers make of it",
       {},
       true,
       {{"layers", "what is added to what came in; the same shape", true},
        {"shortcut", "layers that what came in passes through before"}}},
      {"parallel",
       K::kParallel,
       "gives what comes in to each of its branches, and joins what they make of it",
       {},
       true,
       {{"branches", "two lists of layers or more", true},
        {"join",
         "side by side along the first dimension, or added up",
         false,
         "concatenate",
         {"sum", "concatenate"}}}},
  };
  return types;
}

TaskParameter ParameterOf(const Number& number) {
  const double fallback = number.fallback.value_or(number.min);
  switch (number.kind) {
    case NumberKind::kWhole:
      return TaskParameter::Integer(number.name, static_cast<int64_t>(fallback),
                                    static_cast<int64_t>(number.min),
                                    static_cast<int64_t>(number.max), number.help);
    case NumberKind::kReal:
      return TaskParameter::Real(number.name, fallback, number.min, number.max, number.help);
    case NumberKind::kSwitch:
      return TaskParameter::Boolean(number.name, fallback != 0, number.help);
  }
  return {};
}

TaskParameter ParameterOf(const Part& part) {
  if (part.choices.empty()) return TaskParameter::Structure(part.name, part.fallback, part.help);
  return TaskParameter::Text(part.name, part.fallback, part.choices, part.help);
}

absl::Status Wrong(const std::string& path, absl::string_view what) {
  return absl::FailedPreconditionError(
      absl::StrCat(CutMiddle(absl::StrCat("parameters.", path)), ": ", what));
}

std::string Told(const json& value) { return Cut(Printable(value.dump()), kMostTold); }

std::string Told(double number) {
  return std::floor(number) == number ? absl::StrCat(static_cast<int64_t>(number))
                                      : absl::StrCat(number);
}

// What the job says, without shapes.
class Reader {
 public:
  absl::StatusOr<std::vector<Layer>> List(const json& list, const std::string& path) {
    if (!list.is_array())
      return Wrong(path,
                   absl::StrCat(Told(list), " is no list of layers; write [linear: 10, relu]"));
    if (++levels_ > kMostLevels)
      return Wrong(path, absl::StrCat("layers nest in more than the ", kMostLevels,
                                      " levels that are allowed; make it flatter"));
    std::vector<Layer> layers;
    for (size_t i = 0; i < list.size(); ++i) {
      if (++layers_ > kMostLayers)
        return Wrong(path, absl::StrCat("there are more than the ", kMostLayers,
                                        " layers that are allowed; take some out"));
      MUSTER_ASSIGN_OR_RETURN(Layer layer, One(list[i], absl::StrCat(path, "[", i, "]")));
      layers.push_back(std::move(layer));
    }
    --levels_;
    return layers;
  }

 private:
  absl::StatusOr<Layer> One(const json& item, const std::string& path) {
    const bool is_mapping = item.is_object() && item.size() == 1;
    if (!item.is_string() && !is_mapping)
      return Wrong(path, absl::StrCat(Told(item), " is no layer; write a name, such as relu, or ",
                                      "a name with what it takes, such as linear: 10"));
    const std::string name = is_mapping ? item.begin().key() : item.get<std::string>();
    const json given = is_mapping ? item.begin().value() : json();
    const auto type = std::find_if(Types().begin(), Types().end(),
                                   [&](const LayerType& t) { return t.name == name; });
    if (type == Types().end()) {
      const auto one = [](std::string* out, const LayerType& t) { out->append(t.name); };
      return Wrong(path,
                   absl::StrCat("'", Cut(Printable(name), kMostTold), "' is no layer; there are ",
                                absl::StrJoin(Types(), ", ", one)));
    }
    Layer layer{.kind = type->kind, .name = name, .path = path};
    if (layer.kind == LayerKind::kResidual) {
      MUSTER_RETURN_IF_ERROR(ReadResidual(given, *type, layer));
    } else if (layer.kind == LayerKind::kParallel) {
      MUSTER_RETURN_IF_ERROR(ReadParallel(given, *type, layer));
    } else {
      MUSTER_RETURN_IF_ERROR(ReadNumbers(given, *type, layer));
    }
    return layer;
  }

  absl::Status ReadResidual(const json& given, const LayerType& type, Layer& layer) {
    const std::string path = layer.path + ".residual";
    const bool is_long = given.is_object();
    MUSTER_RETURN_IF_ERROR(CheckKeys(given, type.Names(), path));
    MUSTER_ASSIGN_OR_RETURN(
        std::vector<Layer> layers,
        is_long ? List(given.value("layers", json()), path + ".layers") : List(given, path));
    std::vector<Layer> shortcut;
    if (is_long && given.contains("shortcut")) {
      MUSTER_ASSIGN_OR_RETURN(shortcut, List(given["shortcut"], path + ".shortcut"));
    }
    layer.lists = {std::move(layers), std::move(shortcut)};
    return absl::OkStatus();
  }

  absl::Status ReadParallel(const json& given, const LayerType& type, Layer& layer) {
    const bool is_long = given.is_object();
    std::string path = layer.path + ".parallel";
    MUSTER_RETURN_IF_ERROR(CheckKeys(given, type.Names(), path));
    if (is_long) {
      const json join = given.value("join", json("concatenate"));
      if (join != "sum" && join != "concatenate")
        return Wrong(path + ".join",
                     absl::StrCat(Told(join), " is not known; allowed: sum, concatenate"));
      layer.adds = join == "sum";
      path += ".branches";
    }
    const json branches = is_long ? given.value("branches", json()) : given;
    if (!branches.is_array() || branches.size() < 2)
      return Wrong(path,
                   absl::StrCat(Told(branches), " is no list of two lists of layers or more"));
    for (size_t i = 0; i < branches.size(); ++i) {
      MUSTER_ASSIGN_OR_RETURN(std::vector<Layer> branch,
                              List(branches[i], absl::StrCat(path, "[", i, "]")));
      layer.lists.push_back(std::move(branch));
    }
    return absl::OkStatus();
  }

  static absl::Status CheckKeys(const json& given, const std::vector<std::string>& allowed,
                                const std::string& path) {
    if (!given.is_object()) return absl::OkStatus();
    for (const auto& item : given.items())
      if (std::find(allowed.begin(), allowed.end(), item.key()) == allowed.end())
        return Wrong(absl::StrCat(path, ".", Cut(Printable(item.key()), kMostTold)),
                     allowed.empty()
                         ? "it takes nothing; remove it"
                         : absl::StrCat("is not known; allowed: ", absl::StrJoin(allowed, ", ")));
    return absl::OkStatus();
  }

  static absl::Status ReadNumbers(json given, const LayerType& type, Layer& layer) {
    if (type.takes_one && given.is_number()) {
      json named = json::object();
      named[type.numbers.front().name] = given;
      given = std::move(named);
    }
    if (given.is_null()) given = json::object();
    const std::vector<std::string> names = type.Names();
    const std::string path = absl::StrCat(layer.path, ".", layer.name);
    if (!given.is_object())
      return Wrong(path, names.empty()
                             ? absl::StrCat(Told(given), " is not for it; it takes nothing")
                             : absl::StrCat(Told(given), " is no mapping; write {",
                                            absl::StrJoin(names, ": …, "), ": …}"));
    MUSTER_RETURN_IF_ERROR(CheckKeys(given, names, path));
    for (const Number& number : type.numbers) {
      MUSTER_ASSIGN_OR_RETURN(layer.numbers[number.name],
                              Read(given, number, absl::StrCat(path, ".", number.name)));
    }
    return absl::OkStatus();
  }

  static absl::StatusOr<double> Read(const json& given, const Number& number,
                                     const std::string& path) {
    if (!given.contains(number.name)) {
      if (number.fallback) return *number.fallback;
      return Wrong(path, absl::StrCat("is missing; give a number of ", Told(number.min), " to ",
                                      Told(number.max)));
    }
    const json& value = given[number.name];
    if (number.kind == NumberKind::kSwitch) {
      if (value.is_boolean()) return value.get<bool>() ? 1 : 0;
      return Wrong(path, absl::StrCat(Told(value), " is neither true nor false"));
    }
    const double read = value.is_number() ? value.get<double>() : std::nan("");
    const bool is_whole = number.kind == NumberKind::kWhole;
    if (read >= number.min && read <= number.max && (!is_whole || std::floor(read) == read))
      return read;
    return Wrong(path, absl::StrCat(Told(value), " is not allowed; allowed: ",
                                    is_whole ? "whole numbers of " : "", Told(number.min), " to ",
                                    Told(number.max)));
  }

  int layers_ = 0;
  int levels_ = 0;
};

std::string Told(const Sizes& sizes) {
  return sizes.empty() ? "one number" : absl::StrJoin(sizes, " × ");
}

bool IsImage(const Sizes& sizes) { return sizes.size() == 3; }

// Works out shapes, and counts parameters.
class Shaper {
 public:
  // `is_whole`: what comes into the first layer are whole numbers, which one layer alone takes.
  absl::StatusOr<Sizes> List(std::vector<Layer>& layers, Sizes sizes, bool is_whole) {
    for (Layer& layer : layers) {
      if (is_whole && layer.kind != LayerKind::kEmbedding)
        return Wrong(layer.path,
                     absl::StrCat(layer.name, " takes reals, and the samples are whole numbers; ",
                                  "begin with embedding, or give data.mean and data.deviation"));
      if (!is_whole && layer.kind == LayerKind::kEmbedding)
        return Wrong(layer.path,
                     absl::StrCat("embedding takes whole numbers, and what comes in are reals",
                                  &layer == &layers.front()
                                      ? "; of CSV, data.classes names all columns of the input then"
                                      : ""));
      is_whole = false;
      layer.input = sizes;
      MUSTER_ASSIGN_OR_RETURN(layer.output, After(layer));
      sizes = layer.output;
      const int64_t elements =
          std::accumulate(sizes.begin(), sizes.end(), int64_t{1},
                          [](int64_t a, int64_t b) { return a > kMostElements ? a : a * b; });
      if (elements > kMostElements)
        return Wrong(layer.path, absl::StrCat("makes ", Told(sizes), " of a sample; at most ",
                                              kMostElements, " numbers are allowed"));
      if (parameters_ > kMostParameters)
        return Wrong(layer.path,
                     absl::StrCat("with it the model has ", Told(parameters_),
                                  " parameters; a job may have ", Told(kMostParameters)));
    }
    return sizes;
  }

  int64_t parameters() const { return static_cast<int64_t>(parameters_); }

 private:
  absl::StatusOr<Sizes> After(Layer& layer) {
    const Sizes& in = layer.input;
    switch (layer.kind) {
      case LayerKind::kLinear: return AfterLinear(layer);
      case LayerKind::kConv2d: return AfterConvolution(layer);
      case LayerKind::kBatchNorm:
        if (!IsImage(in) && in.size() != 1)
          return Needs(layer, "channels × height × width, or one dimension");
        parameters_ += 2 * static_cast<double>(in.front());
        return in;
      case LayerKind::kLayerNorm:
        if (in.empty()) return Needs(layer, "one dimension or more");
        parameters_ += 2 * static_cast<double>(in.back());
        return in;
      case LayerKind::kActivation:
      case LayerKind::kDropout: return in;
      case LayerKind::kMaxPool:
      case LayerKind::kAvgPool: return AfterPool(layer);
      case LayerKind::kGlobalAvgPool:
        if (!IsImage(in)) return Needs(layer, "channels × height × width");
        return Sizes{in[0]};
      case LayerKind::kFlatten:
        return Sizes{std::accumulate(in.begin(), in.end(), int64_t{1}, std::multiplies<>())};
      case LayerKind::kTranspose:
        if (in.size() != 2) return Needs(layer, "two dimensions");
        return Sizes{in[1], in[0]};
      case LayerKind::kEmbedding: {
        parameters_ += layer.numbers.at("count") * layer.numbers.at("size");
        Sizes out = in;
        out.push_back(layer.Whole("size"));
        return out;
      }
      case LayerKind::kResidual: return AfterResidual(layer);
      case LayerKind::kParallel: return AfterParallel(layer);
    }
    return absl::InternalError("a layer of no kind");
  }

  static absl::Status Needs(const Layer& layer, absl::string_view what) {
    return Wrong(layer.path, absl::StrCat(layer.name, " needs ", what, "; what comes in is ",
                                          Told(layer.input)));
  }

  absl::StatusOr<Sizes> AfterLinear(const Layer& layer) {
    Sizes out = layer.input;
    if (out.empty()) return Needs(layer, "one dimension or more");
    parameters_ +=
        (static_cast<double>(out.back()) + layer.numbers.at("bias")) * layer.numbers.at("size");
    out.back() = layer.Whole("size");
    return out;
  }

  absl::StatusOr<Sizes> AfterConvolution(const Layer& layer) {
    if (!IsImage(layer.input)) return Needs(layer, "channels × height × width");
    const int64_t channels = layer.Whole("channels"), groups = layer.Whole("groups");
    if (layer.input[0] % groups != 0 || channels % groups != 0)
      return Wrong(layer.path,
                   absl::StrCat("conv2d: groups ", groups, " does not divide the ", layer.input[0],
                                " channels that come in, or the ", channels, " that go out"));
    const double size = layer.numbers.at("size");
    parameters_ +=
        layer.numbers.at("channels") *
        (static_cast<double>(layer.input[0] / groups) * size * size + layer.numbers.at("bias"));
    return Windows(layer, channels, layer.Whole("stride"));
  }

  static absl::StatusOr<Sizes> AfterPool(const Layer& layer) {
    if (!IsImage(layer.input)) return Needs(layer, "channels × height × width");
    const int64_t stride = layer.Whole("stride"), size = layer.Whole("size");
    if (2 * layer.Whole("padding") > size)
      return Wrong(layer.path, absl::StrCat(layer.name, ": padding ", layer.Whole("padding"),
                                            " is more than half of size ", size));
    return Windows(layer, layer.input[0], stride == 0 ? size : stride);
  }

  static absl::StatusOr<Sizes> Windows(const Layer& layer, int64_t channels, int64_t stride) {
    Sizes out = {channels};
    for (const size_t dimension : {1, 2}) {
      const int64_t room =
          layer.input[dimension] + 2 * layer.Whole("padding") - layer.Whole("size");
      if (room < 0)
        return Wrong(layer.path, absl::StrCat(layer.name, ": size ", layer.Whole("size"),
                                              " is larger than the ", Told(layer.input),
                                              " that come in, with their padding"));
      out.push_back(room / stride + 1);
    }
    return out;
  }

  absl::StatusOr<Sizes> AfterResidual(Layer& layer) {
    MUSTER_ASSIGN_OR_RETURN(const Sizes through, List(layer.lists[0], layer.input, false));
    MUSTER_ASSIGN_OR_RETURN(const Sizes beside, List(layer.lists[1], layer.input, false));
    if (through == beside) return through;
    return Wrong(layer.path, absl::StrCat("residual: its layers make ", Told(through), ", and ",
                                          layer.lists[1].empty() ? "what comes in" : "its shortcut",
                                          " is ", Told(beside), "; give it a shortcut that fits"));
  }

  absl::StatusOr<Sizes> AfterParallel(Layer& layer) {
    std::vector<Sizes> ends;
    for (std::vector<Layer>& branch : layer.lists) {
      MUSTER_ASSIGN_OR_RETURN(Sizes end, List(branch, layer.input, false));
      ends.push_back(std::move(end));
    }
    Sizes out = ends.front();
    for (size_t i = 1; i < ends.size(); ++i) {
      Sizes end = ends[i];
      const bool fits =
          !out.empty() && end.size() == out.size() &&
          (layer.adds ? end == out : std::equal(end.begin() + 1, end.end(), out.begin() + 1));
      if (!fits)
        return Wrong(layer.path,
                     absl::StrCat("parallel: branch ", i, " makes ", Told(end), ", and branch 0 ",
                                  Told(ends.front()), "; they must be alike",
                                  layer.adds ? "" : " but for the first dimension"));
      if (!layer.adds) out.front() += end.front();
    }
    return out;
  }

  double parameters_ = 0;
};

}  // namespace

absl::StatusOr<LayerList> ReadLayers(absl::string_view text, const DataField& input) {
  const json list = json::parse(text, nullptr, /*allow_exceptions=*/false);
  LayerList read;
  MUSTER_ASSIGN_OR_RETURN(read.layers, Reader().List(list, "layers"));
  if (read.layers.empty())
    return Wrong("layers", "is empty; a model has a layer, such as linear: 1");
  const bool is_whole = input.type != TensorType::kFloat32;
  Shaper shaper;
  MUSTER_ASSIGN_OR_RETURN(read.output, shaper.List(read.layers, input.shape, is_whole));
  read.parameters = shaper.parameters();
  if (read.parameters == 0)
    return Wrong("layers", "has no layer that learns; add one, such as linear: 1");
  return read;
}

std::vector<LayerHelp> LayersThereAre() {
  std::vector<LayerHelp> all;
  for (const LayerType& type : Types()) {
    LayerHelp one{type.name, type.help, {}, type.takes_one};
    for (const Number& number : type.numbers)
      one.fields.push_back({ParameterOf(number), !number.fallback.has_value()});
    for (const Part& part : type.parts) one.fields.push_back({ParameterOf(part), part.is_needed});
    all.push_back(std::move(one));
  }
  return all;
}

}  // namespace muster::worker
