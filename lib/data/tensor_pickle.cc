#include "lib/data/tensor_pickle.h"

#include <algorithm>
#include <iterator>
#include <unordered_map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "lib/base/status.h"

namespace muster {
namespace {

using absl::string_view;

constexpr uint64_t kMadeToBytes = 32;  // what is made of all tensors, to the bytes of the pickle
constexpr uint64_t kVisitCosts = 16;   // of that, for each value that is looked at
constexpr int kMostDepth = 64;         // of modules in modules
constexpr string_view kTorchScript = "__torch__";  // any class of it
// What gives a list or dict of TorchScript its type, and the value itself is the first argument.
constexpr string_view kWithType = "torch.jit._pickle";
constexpr string_view kTyped[] = {"restore_type_tag", "build_intlist", "build_doublelist",
                                  "build_boollist", "build_tensorlist"};
constexpr string_view kModelKeys[] = {"model", "state_dict", "model_state_dict"};

constexpr size_t kMostDimensions = 32;
constexpr size_t kMostWordBytes = 256;  // of a storage's type and of its entry: "FloatStorage", "7"
constexpr size_t kShownBytes = 100;
constexpr int kProtocol = 2;

template <size_t count>
bool IsOneOf(string_view name, const string_view (&names)[count]) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

// The opcodes that torch.save writes, as pickletools calls them.
enum Opcode : char {
  kProto = '\x80',
  kStop = '.',
  kMark = '(',
  kNone = 'N',
  kTrue = '\x88',
  kFalse = '\x89',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kLong1 = '\x8a',
  kBinFloat = 'G',
  kBinUnicode = 'X',
  kEmptyTuple = ')',
  kTuple = 't',
  kTuple1 = '\x85',
  kTuple2 = '\x86',
  kTuple3 = '\x87',
  kEmptyList = ']',
  kAppend = 'a',
  kAppends = 'e',
  kEmptyDict = '}',
  kSetItem = 's',
  kSetItems = 'u',
  kGlobal = 'c',
  kReduce = 'R',
  kBuild = 'b',
  kNewObject = '\x81',
  kBinPersId = 'Q',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kBinGet = 'h',
  kLongBinGet = 'j',
};

using Place = uint32_t;  // of a value among all

enum class Kind {
  kOther,
  kInteger,
  kText,
  kGlobal,
  kTuple,
  kList,
  kDict,
  kModule,
  kStorage,
  kTensor
};

// Values point at one another by their places, so that one that is told of often stands once.
struct Value {
  Kind kind = Kind::kOther;
  int64_t number = 0;        // an integer; of a storage or tensor the place of the tuple it is of
  string_view text;          // a text, or "module name"
  std::vector<Place> parts;  // of a dict key and value in turn; of a module the dict that it is of
};

// Pickle's machine: a stack, marks on it, and values that were put aside.
class Machine {
 public:
  Machine(const ByteSource& pickle, string_view bytes, PickleOf of)
      : pickle_(pickle),
        of_(of),
        most_values_(of == PickleOf::kModel ? 1'600'000 : 200'000),
        left_(bytes) {}

  absl::Status Run() {
    for (;;) {
      at_ = position();
      string_view opcode;
      MUSTER_RETURN_IF_ERROR(Take(1, opcode));
      if (opcode[0] == kStop) break;
      MUSTER_RETURN_IF_ERROR(Do(opcode[0]));
      if (values_.size() > most_values_ || memo_.size() > most_values_)
        return Wrong(absl::StrCat("it tells of more than ", most_values_, " values"));
    }
    if (stack_.size() != 1 || !marks_.empty()) return Wrong("it is broken");
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<PickledTensor>> Tensors() {
    const Place whole = of_ == PickleOf::kModel ? ModelIn(stack_.front()) : stack_.front();
    const std::vector<Place>& parts = values_[whole].parts;
    const Kind kind = values_[whole].kind;
    std::vector<PickledTensor> tensors;
    if (kind == Kind::kTensor) MUSTER_RETURN_IF_ERROR(AddTensor("", whole, tensors));
    if (kind == Kind::kModule) MUSTER_RETURN_IF_ERROR(AddModule("", whole, 0, tensors));
    if (kind == Kind::kDict)
      for (size_t i = 0; i + 1 < parts.size(); i += 2)
        MUSTER_RETURN_IF_ERROR(Add("", parts[i], parts[i + 1], 0, tensors));
    if (kind == Kind::kList || kind == Kind::kTuple)
      for (size_t i = 0; i < parts.size(); ++i)
        if (values_[parts[i]].kind == Kind::kTensor)
          MUSTER_RETURN_IF_ERROR(AddTensor(absl::StrCat(i), parts[i], tensors));
    if (tensors.empty())
      return Bad(pickle_, "it holds no tensor, and no dict, list or module of tensors");
    return tensors;
  }

 private:
  uint64_t position() const { return pickle_.size() - left_.size(); }

  // Files that go on with training hold the model's state beside the optimizer's.
  Place ModelIn(Place whole) const {
    const Value& dict = values_[whole];
    for (size_t i = 0; dict.kind == Kind::kDict && i + 1 < dict.parts.size(); i += 2) {
      const Value& key = values_[dict.parts[i]];
      if (key.kind == Kind::kText && IsOneOf(key.text, kModelKeys) &&
          values_[dict.parts[i + 1]].kind == Kind::kDict)
        return dict.parts[i + 1];
    }
    return whole;
  }

  // A text stands once and may be the name of many, a module may be in many, and two bytes name a
  // tensor once more: what all that comes to is bounded by the pickle's own bytes.
  absl::Status Pay(size_t bytes) {
    const uint64_t most = kMadeToBytes * std::max<uint64_t>(pickle_.size(), 4096);
    made_ += bytes + kVisitCosts;
    if (made_ <= most) return absl::OkStatus();
    return Bad(pickle_,
               absl::StrCat("what it tells of its tensors comes to more than ", most, " bytes"));
  }

  absl::Status Add(const std::string& inside, Place key, Place place, int depth,
                   std::vector<PickledTensor>& tensors) {
    const Kind kind = values_[place].kind;
    const bool is_inner = kind == Kind::kModule && depth > 0;
    MUSTER_RETURN_IF_ERROR(Pay(inside.size() + values_[key].text.size()));
    if (kind != Kind::kTensor && !is_inner) return absl::OkStatus();
    const std::string name = absl::StrCat(inside, inside.empty() ? "" : ".", KeyOf(values_[key]));
    return is_inner ? AddModule(name, place, depth, tensors) : AddTensor(name, place, tensors);
  }

  absl::Status AddModule(const std::string& name, Place place, int depth,
                         std::vector<PickledTensor>& tensors) {
    if (depth == kMostDepth)
      return Bad(pickle_, absl::StrCat("it holds modules in modules, more than ", kMostDepth));
    for (const Place dict : values_[place].parts) {
      const std::vector<Place>& parts = values_[dict].parts;
      for (size_t i = 0; i + 1 < parts.size(); i += 2)
        MUSTER_RETURN_IF_ERROR(Add(name, parts[i], parts[i + 1], depth + 1, tensors));
    }
    return absl::OkStatus();
  }

  absl::Status AddTensor(std::string name, Place place, std::vector<PickledTensor>& tensors) {
    PickledTensor tensor;
    if (!ReadTensor(values_[place], tensor))
      return Bad(pickle_, absl::StrCat("tensor '", name.substr(0, kShownBytes),
                                       "' is not told of as torch.save does"));
    const size_t sizes = tensor.shape.size() + tensor.strides.size();
    MUSTER_RETURN_IF_ERROR(Pay(sizeof(tensor) + sizes * sizeof(int64_t) + tensor.storage.size() +
                               tensor.entry.size()));
    tensor.name = std::move(name);
    tensors.push_back(std::move(tensor));
    return absl::OkStatus();
  }

  absl::Status Wrong(string_view why) const { return BadAt(pickle_, at_, why); }
  absl::Status Broken() const { return Wrong("it is broken"); }

  absl::Status Take(size_t bytes, string_view& into) {
    if (bytes > left_.size()) return BadAt(pickle_, pickle_.size(), "it is cut off");
    into = left_.substr(0, bytes);
    left_.remove_prefix(bytes);
    return absl::OkStatus();
  }

  absl::Status TakeLine(string_view& into) {
    const size_t end = left_.find('\n');
    if (end == string_view::npos) return BadAt(pickle_, pickle_.size(), "it is cut off");
    MUSTER_RETURN_IF_ERROR(Take(end, into));
    left_.remove_prefix(1);
    return absl::OkStatus();
  }

  // A whole number of so many bytes, at most 8.
  absl::Status TakeNumber(size_t bytes, uint64_t& into) {
    string_view text;
    MUSTER_RETURN_IF_ERROR(Take(bytes, text));
    into = 0;
    for (size_t i = bytes; i-- > 0;) into = into << 8 | static_cast<unsigned char>(text[i]);
    return absl::OkStatus();
  }

  absl::Status Push(Value value) {
    values_.push_back(std::move(value));
    stack_.push_back(static_cast<Place>(values_.size() - 1));
    return absl::OkStatus();
  }

  // What stands above the last mark may be taken, and no more.
  size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }

  bool Pop(Place& into) {
    if (stack_.size() <= floor()) return false;
    into = stack_.back();
    stack_.pop_back();
    return true;
  }

  // The last `count` of the stack, to the end of `into`.
  absl::Status PopInto(size_t count, std::vector<Place>& into) {
    if (stack_.size() - floor() < count) return Broken();
    into.insert(into.end(), stack_.end() - static_cast<std::ptrdiff_t>(count), stack_.end());
    stack_.resize(stack_.size() - count);
    return absl::OkStatus();
  }

  absl::Status PopToMark(std::vector<Place>& into) {
    if (marks_.empty()) return Broken();
    MUSTER_RETURN_IF_ERROR(PopInto(stack_.size() - marks_.back(), into));
    marks_.pop_back();
    return absl::OkStatus();
  }

  absl::Status Do(char opcode) {
    switch (opcode) {
      case kProto: return Protocol();
      case kMark: marks_.push_back(stack_.size()); return absl::OkStatus();
      case kNone:
      case kTrue:
      case kFalse: return Push({});
      case kBinFloat: return Real();
      case kBinInt: return Integer(4, true);
      case kBinInt1: return Integer(1, false);
      case kBinInt2: return Integer(2, false);
      case kLong1: return Long();
      case kBinUnicode: return Text();
      case kEmptyTuple: return Push({.kind = Kind::kTuple});
      case kEmptyList: return Push({.kind = Kind::kList});
      case kEmptyDict: return Push({.kind = Kind::kDict});
      case kTuple: return TupleToMark();
      case kTuple1: return TupleOf(1);
      case kTuple2: return TupleOf(2);
      case kTuple3: return TupleOf(3);
      case kAppend: return Extend(Kind::kList, 1);
      case kAppends: return Extend(Kind::kList, 0);
      case kSetItem: return Extend(Kind::kDict, 2);
      case kSetItems: return Extend(Kind::kDict, 0);
      case kGlobal: return Global();
      case kReduce: return Reduce();
      case kBuild: return Build();
      case kNewObject: return NewObject();
      case kBinPersId: return Storage();
      case kBinPut: return Put(1);
      case kLongBinPut: return Put(4);
      case kBinGet: return Get(1);
      case kLongBinGet: return Get(4);
      default:
        return Wrong(absl::StrCat("the instruction 0x",
                                  absl::Hex(static_cast<unsigned char>(opcode), absl::kZeroPad2),
                                  " is none that torch.save writes for tensors"));
    }
  }

  absl::Status Protocol() {
    uint64_t version = 0;
    MUSTER_RETURN_IF_ERROR(TakeNumber(1, version));
    if (version == kProtocol) return absl::OkStatus();
    return Wrong(absl::StrCat("it is of pickle's protocol ", version,
                              "; call torch.save without pickle_protocol, which makes it 2"));
  }

  absl::Status Real() {
    string_view ignored;
    MUSTER_RETURN_IF_ERROR(Take(8, ignored));
    return Push({});
  }

  absl::Status Integer(size_t bytes, bool has_sign) {
    uint64_t number = 0;
    MUSTER_RETURN_IF_ERROR(TakeNumber(bytes, number));
    const auto value =
        has_sign ? int64_t{static_cast<int32_t>(number)} : static_cast<int64_t>(number);
    return Push({.kind = Kind::kInteger, .number = value});
  }

  // In two's complement, of as many bytes as it says.
  absl::Status Long() {
    uint64_t bytes = 0, number = 0;
    MUSTER_RETURN_IF_ERROR(TakeNumber(1, bytes));
    if (bytes > sizeof(number)) {  // no size or offset is so large
      string_view ignored;
      MUSTER_RETURN_IF_ERROR(Take(static_cast<size_t>(bytes), ignored));
      return Push({});
    }
    MUSTER_RETURN_IF_ERROR(TakeNumber(static_cast<size_t>(bytes), number));
    const auto unused = static_cast<unsigned>(8 * (sizeof(number) - bytes));
    const auto value =
        bytes == 0 ? 0 : static_cast<int64_t>(number << unused) >> unused;  // spreads the sign
    return Push({.kind = Kind::kInteger, .number = value});
  }

  absl::Status Text() {
    uint64_t bytes = 0;
    MUSTER_RETURN_IF_ERROR(TakeNumber(4, bytes));
    Value value{.kind = Kind::kText};
    MUSTER_RETURN_IF_ERROR(Take(static_cast<size_t>(bytes), value.text));
    return Push(std::move(value));
  }

  absl::Status TupleToMark() {
    Value value{.kind = Kind::kTuple};
    MUSTER_RETURN_IF_ERROR(PopToMark(value.parts));
    return Push(std::move(value));
  }

  absl::Status TupleOf(size_t parts) {
    Value value{.kind = Kind::kTuple};
    MUSTER_RETURN_IF_ERROR(PopInto(parts, value.parts));
    return Push(std::move(value));
  }

  // `parts` of them, or (0) all to the mark, go into what stands below.
  absl::Status Extend(Kind kind, size_t parts) {
    std::vector<Place> added;
    MUSTER_RETURN_IF_ERROR(parts == 0 ? PopToMark(added) : PopInto(parts, added));
    if (stack_.size() <= floor()) return Broken();
    Value& whole = values_[stack_.back()];
    if (whole.kind != kind || (kind == Kind::kDict && added.size() % 2 != 0)) return Broken();
    whole.parts.insert(whole.parts.end(), added.begin(), added.end());
    return absl::OkStatus();
  }

  // What Python would import. Any type of storage may be named, and is looked at where it is used.
  absl::Status Global() {
    string_view module, name;
    MUSTER_RETURN_IF_ERROR(TakeLine(module));
    MUSTER_RETURN_IF_ERROR(TakeLine(name));
    const bool is_known = (module == "torch._utils" &&
                           (name == "_rebuild_tensor_v2" || name == "_rebuild_parameter")) ||
                          (module == "collections" && name == "OrderedDict") ||
                          (module == "torch" && absl::EndsWith(name, "Storage"));
    if (is_known) return Push({.kind = Kind::kGlobal, .text = name});
    if (module == kTorchScript || absl::StartsWith(module, "__torch__."))
      return Push({.kind = Kind::kGlobal, .text = kTorchScript});
    if (module == "torch.jit._pickle" && IsOneOf(name, kTyped))
      return Push({.kind = Kind::kGlobal, .text = kWithType});
    return Wrong(absl::StrCat("it asks for ", module.substr(0, kShownBytes), ".",
                              name.substr(0, kShownBytes),
                              ", and nothing that a file names is run; save tensors alone, or a "
                              "dict, list or tuple of them"));
  }

  absl::Status Reduce() {
    Place of = 0, called = 0;
    if (!Pop(of) || !Pop(called)) return Broken();
    const Value& arguments = values_[of];
    const string_view name = values_[called].text;
    if (arguments.kind != Kind::kTuple || values_[called].kind != Kind::kGlobal) return Broken();
    if (name == "OrderedDict" && arguments.parts.empty()) return Push({.kind = Kind::kDict});
    if (name == "_rebuild_tensor_v2")
      return Push({.kind = Kind::kTensor, .number = static_cast<int64_t>(of)});
    if ((name != "_rebuild_parameter" && name != kWithType) || arguments.parts.empty())
      return Broken();
    stack_.push_back(arguments.parts.front());  // what a parameter is besides matters to modules
    return absl::OkStatus();
  }

  // Of a class of TorchScript, whose code stays unread.
  absl::Status NewObject() {
    Place of = 0, made = 0;
    if (!Pop(of) || !Pop(made)) return Broken();
    if (values_[made].kind != Kind::kGlobal || values_[made].text != kTorchScript ||
        values_[of].kind != Kind::kTuple)
      return Broken();
    return Push({.kind = Kind::kModule});
  }

  // What a module holds, which may be many a module's; of a dict attributes: a module's state has
  // versions there.
  absl::Status Build() {
    Place state = 0;
    if (!Pop(state) || stack_.size() <= floor()) return Broken();
    Value& built = values_[stack_.back()];
    if (built.kind != Kind::kModule) return built.kind == Kind::kDict ? absl::OkStatus() : Broken();
    if (values_[state].kind == Kind::kDict) built.parts = {state};
    return absl::OkStatus();
  }

  absl::Status Storage() {
    Place of = 0;
    if (!Pop(of)) return Broken();
    return Push({.kind = Kind::kStorage, .number = static_cast<int64_t>(of)});
  }

  absl::Status Put(size_t bytes) {
    uint64_t key = 0;
    MUSTER_RETURN_IF_ERROR(TakeNumber(bytes, key));
    if (stack_.size() <= floor()) return Broken();
    memo_[static_cast<uint32_t>(key)] = stack_.back();
    return absl::OkStatus();
  }

  absl::Status Get(size_t bytes) {
    uint64_t key = 0;
    MUSTER_RETURN_IF_ERROR(TakeNumber(bytes, key));
    const auto found = memo_.find(static_cast<uint32_t>(key));
    if (found == memo_.end()) return Broken();
    stack_.push_back(found->second);
    return absl::OkStatus();
  }

  static std::string KeyOf(const Value& key) {
    return key.kind == Kind::kInteger ? absl::StrCat(key.number) : std::string(key.text);
  }

  bool ReadSizes(const Value& tuple, std::vector<int64_t>& into) const {
    if (tuple.kind != Kind::kTuple || tuple.parts.size() > kMostDimensions) return false;
    for (const Place part : tuple.parts) {
      if (values_[part].kind != Kind::kInteger || values_[part].number < 0) return false;
      into.push_back(values_[part].number);
    }
    return true;
  }

  // (storage, offset, sizes, strides, …) of a storage ("storage", its type, entry, device, size).
  bool ReadTensor(const Value& tensor, PickledTensor& into) const {
    const std::vector<Place>& of = values_[static_cast<size_t>(tensor.number)].parts;
    if (of.size() < 4 || values_[of[0]].kind != Kind::kStorage) return false;
    const Value& offset = values_[of[1]];
    if (offset.kind != Kind::kInteger || offset.number < 0) return false;
    into.offset = static_cast<uint64_t>(offset.number);
    if (!ReadSizes(values_[of[2]], into.shape) || !ReadSizes(values_[of[3]], into.strides) ||
        into.shape.size() != into.strides.size())
      return false;
    const Value& storage = values_[static_cast<size_t>(values_[of[0]].number)];
    if (storage.kind != Kind::kTuple || storage.parts.size() < 3) return false;
    const Value &type = values_[storage.parts[1]], &entry = values_[storage.parts[2]];
    if (type.text.size() > kMostWordBytes || entry.text.size() > kMostWordBytes) return false;
    into.storage = std::string(type.text);
    into.entry = std::string(entry.text);
    return values_[storage.parts[0]].text == "storage" && type.kind == Kind::kGlobal &&
           entry.kind == Kind::kText;
  }

  const ByteSource& pickle_;
  const PickleOf of_;
  const size_t most_values_;
  uint64_t made_ = 0;  // bytes, that were paid for
  string_view left_;   // to be read
  uint64_t at_ = 0;    // of the instruction that is carried out
  std::vector<Value> values_;
  std::vector<Place> stack_;
  std::vector<size_t> marks_;  // heights of the stack
  std::unordered_map<uint32_t, Place> memo_;
};

}  // namespace

absl::StatusOr<std::vector<PickledTensor>> ReadTensorPickle(const ByteSource& pickle, PickleOf of) {
  if (pickle.size() > MostPickleBytes(of))
    return Bad(pickle, absl::StrCat("it has ", pickle.size(), " bytes; at most ",
                                    MostPickleBytes(of), " are allowed"));
  MUSTER_ASSIGN_OR_RETURN(const std::string bytes, ReadString(pickle, 0, pickle.size()));
  Machine machine(pickle, bytes, of);
  MUSTER_RETURN_IF_ERROR(machine.Run());
  return machine.Tensors();
}

}  // namespace muster
