#include "lib/data/initial_values.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lib/base/plural.h"
#include "lib/base/status.h"
#include "lib/data/checksum.h"
#include "lib/data/element.h"
#include "lib/data/file_walk.h"
#include "lib/domain/tensor_type.h"
#include "lib/kernels/sha256.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

constexpr size_t kNamesShown = 8;
constexpr size_t kShownName = 100;
constexpr size_t kPieceBytes = size_t{1} << 20;

std::string Shown(const std::string& name) { return name.substr(0, kShownName); }

std::string List(const std::vector<std::string>& names) {
  std::vector<std::string> shown;
  for (size_t i = 0; i < std::min(names.size(), kNamesShown); ++i) shown.push_back(Shown(names[i]));
  return absl::StrCat(
      absl::StrJoin(shown, ", "),
      names.size() > kNamesShown ? absl::StrCat(" and ", names.size() - kNamesShown, " more") : "");
}

// "float32 of 3×5", "int64 (a single number)".
std::string Form(TensorType type, const std::vector<int64_t>& shape) {
  return absl::StrCat(NameOf(type), shape.empty()
                                        ? " (a single number)"
                                        : absl::StrCat(" of ", absl::StrJoin(shape, "×")));
}

absl::Status Misfit(absl::string_view field, absl::string_view what) {
  return absl::FailedPreconditionError(absl::StrCat(field, ": ", what));
}

std::vector<std::string> NamesOf(const std::vector<StoredTensor>& stored) {
  std::vector<std::string> names;
  for (const StoredTensor& tensor : stored) names.push_back(tensor.name);
  return names;
}

// What the tensors of the file are called after the changes.
absl::StatusOr<std::vector<std::string>> ChangedNames(const InitialSpec& initial,
                                                      const std::vector<StoredTensor>& stored) {
  std::vector<bool> used(initial.map.size());
  std::vector<std::string> names;
  for (const StoredTensor& tensor : stored) {
    const auto change =
        std::find_if(initial.map.begin(), initial.map.end(),
                     [&](const PrefixChange& c) { return absl::StartsWith(tensor.name, c.from); });
    if (change == initial.map.end()) {
      names.push_back(tensor.name);
      continue;
    }
    used[static_cast<size_t>(change - initial.map.begin())] = true;
    names.push_back(absl::StrCat(change->to, tensor.name.substr(change->from.size())));
  }
  for (size_t i = 0; i < used.size(); ++i)
    if (!used[i])
      return Misfit(absl::StrCat("initial.map[", i, "].from"),
                    absl::StrCat("no name in the file begins with '", Shown(initial.map[i].from),
                                 "', or each is changed by an item before it; the file has ",
                                 List(NamesOf(stored))));
  return names;
}

absl::StatusOr<std::map<std::string, size_t>> ByName(const InitialSpec& initial,
                                                     const std::vector<StoredTensor>& stored) {
  MUSTER_ASSIGN_OR_RETURN(const std::vector<std::string> names, ChangedNames(initial, stored));
  std::map<std::string, size_t> by_name;
  for (size_t i = 0; i < names.size(); ++i) {
    const auto [known, is_new] = by_name.emplace(names[i], i);
    if (!is_new)
      return Misfit(
          "initial.map",
          absl::StrCat("'", Shown(stored[known->second].name), "' and '", Shown(stored[i].name),
                       "' of the file both become '", Shown(names[i]), "'"));
  }
  return by_name;
}

bool Takes(const TensorSpec& model, const StoredTensor& stored) {
  const bool is_real = model.type == TensorType::kFloat32 && IsReal(stored.type);
  return model.shape == stored.shape && (is_real || model.type == stored.type);
}

std::string Missing(const TensorSpec& model) {
  const std::string also =
      model.aliases.empty() ? "" : absl::StrCat(" (also ", List(model.aliases), ")");
  return absl::StrCat("the model has a tensor '", Shown(model.name), "'", also, ", ",
                      Form(model.type, model.shape), ", and the file has none of that name");
}

std::string Misfitting(const TensorSpec& model, const std::string& name,
                       const StoredTensor& stored) {
  return absl::StrCat("tensor '", Shown(name), "' is ", Form(model.type, model.shape),
                      " in the model and ", Form(stored.type, stored.shape), " in the file");
}

std::string AndMore(size_t problems) {
  return absl::StrCat(
      problems > 1 ? absl::StrCat("; so it is with ", problems - 1, " more") : "",
      "; change initial.map, or write initial.strict: false to leave out what does not fit");
}

}  // namespace

absl::StatusOr<InitialMatch> MatchInitial(const InitialSpec& initial,
                                          const std::vector<StoredTensor>& stored,
                                          const std::vector<TensorSpec>& model) {
  MUSTER_ASSIGN_OR_RETURN(const auto by_name, ByName(initial, stored));
  InitialMatch match;
  std::vector<bool> used(stored.size());
  std::string first;  // problem
  for (const TensorSpec& tensor : model) {
    std::optional<size_t> its;
    std::string why;
    for (const std::string& name : tensor.Names()) {
      const auto found = by_name.find(name);
      if (found == by_name.end()) continue;
      if (!Takes(tensor, stored[found->second])) {
        if (why.empty()) why = Misfitting(tensor, name, stored[found->second]);
        continue;
      }
      used[found->second] = true;
      if (its) match.equal.emplace_back(*its, found->second);
      if (!its) its = found->second;
    }
    match.of_model.push_back(its);
    if (!its && why.empty()) why = Missing(tensor);
    if (!its) match.missing.push_back(tensor.name);
    if (first.empty()) first = why;
  }
  for (size_t i = 0; i < stored.size(); ++i)
    if (!used[i]) match.unused.push_back(stored[i].name);
  if (stored.empty()) return Misfit("initial.file", "no tensor is in it; name another file");
  if (match.missing.size() == model.size())
    return Misfit("initial.file", absl::StrCat("no tensor of the model is in it; the model has ",
                                               List(match.missing), ", and the file ",
                                               List(NamesOf(stored)), "; change initial.map"));
  if (!initial.strict || (match.missing.empty() && match.unused.empty())) return match;
  if (!first.empty())
    return Misfit("initial.file", absl::StrCat(first, AndMore(match.missing.size())));
  const auto left = static_cast<size_t>(std::find(used.begin(), used.end(), false) - used.begin());
  return Misfit("initial.file",
                absl::StrCat("tensor '", Shown(stored[left].name), "' of the file, ",
                             Form(stored[left].type, stored[left].shape), ", is none of the model",
                             AndMore(match.unused.size())));
}

std::string LeftOutOf(const InitialMatch& match) {
  std::vector<std::string> parts;
  if (!match.missing.empty())
    parts.push_back(absl::StrCat(match.missing.size(), " of ",
                                 Plural(static_cast<int64_t>(match.of_model.size()), "tensor"),
                                 match.missing.size() == 1 ? " begins" : " begin",
                                 " at the task's own values: ", List(match.missing)));
  if (!match.unused.empty())
    parts.push_back(absl::StrCat(Plural(static_cast<int64_t>(match.unused.size()), "tensor"),
                                 " of the file ", match.unused.size() == 1 ? "is" : "are",
                                 " not used: ", List(match.unused)));
  return absl::StrJoin(parts, "; ");
}

namespace {

absl::Status CheckPlace(const std::string& path) {
  const auto bad = [&](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat("initial.file: ", path, " ", why));
  };
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found)
    return bad("does not exist; it must lie on the host of every worker");
  if (error) return bad(absl::StrCat("cannot be read: ", error.message()));
  if (!fs::is_regular_file(status)) return bad("is not a file");
  if (const fs::path own = OurOwnAround(path); !own.empty())
    return bad(absl::StrCat("lies in ", own.string(),
                            ", the folder of a run or a cluster, which holds what is of others; "
                            "copy the file elsewhere"));
  return absl::OkStatus();
}

absl::StatusOr<std::string> HashOf(const ByteSource& source) {
  Sha256 hash;
  std::vector<std::byte> piece;
  for (uint64_t at = 0; at < source.size(); at += piece.size()) {
    piece.resize(static_cast<size_t>(std::min<uint64_t>(kPieceBytes, source.size() - at)));
    MUSTER_RETURN_IF_ERROR(source.ReadAt(at, absl::MakeSpan(piece)));
    hash.Update(piece);
  }
  return hash.HexFinish();
}

// Of all that is taken. Tensors may share what they lie in.
absl::Status CheckChecksums(const std::vector<StoredTensor>& stored, const InitialMatch& match) {
  std::set<const ByteSource*> checked;
  for (const std::optional<size_t>& found : match.of_model)
    if (found && checked.insert(stored[*found].source.get()).second)
      MUSTER_RETURN_IF_ERROR(CheckChecksum(*stored[*found].source));
  return absl::OkStatus();
}

// A boolean of any other byte is undefined in C++.
absl::Status CheckBooleans(const StoredTensor& from, uint64_t at,
                           absl::Span<const std::byte> bytes) {
  for (size_t i = 0; from.type == TensorType::kBool && i < bytes.size(); ++i)
    if (bytes[i] > std::byte{1})
      return BadAt(*from.source, from.offset + at + i,
                   absl::StrCat("no boolean, in tensor '", Shown(from.name), "'"));
  return absl::OkStatus();
}

// Of one shape, which are one tensor in the model.
absl::Status CheckEqual(const StoredTensor& one, const StoredTensor& other) {
  if (one.source == other.source && one.offset == other.offset && one.type == other.type)
    return absl::OkStatus();
  const absl::Status differ = Misfit(
      "initial.file", absl::StrCat("'", Shown(one.name), "' and '", Shown(other.name),
                                   "' of the file are one tensor in the model, and differ; make "
                                   "them equal, or leave one of them out"));
  if (one.type != other.type) return differ;
  std::vector<std::byte> piece, beside;
  for (uint64_t at = 0; at < one.bytes; at += piece.size()) {
    piece.resize(static_cast<size_t>(std::min<uint64_t>(kPieceBytes, one.bytes - at)));
    beside.resize(piece.size());
    MUSTER_RETURN_IF_ERROR(one.source->ReadAt(one.offset + at, absl::MakeSpan(piece)));
    MUSTER_RETURN_IF_ERROR(other.source->ReadAt(other.offset + at, absl::MakeSpan(beside)));
    if (piece != beside) return differ;
  }
  return absl::OkStatus();
}

// `to` is the tensor's place: of float32, or byte for byte of its own type.
absl::Status Fill(const StoredTensor& from, bool as_float, absl::Span<float> to,
                  const std::function<void()>& after_each) {
  const auto element = static_cast<uint64_t>(BytesOfElement(from.type));
  auto* const own = reinterpret_cast<std::byte*>(to.data());
  std::vector<std::byte> piece;
  for (uint64_t at = 0; at < from.bytes; at += piece.size()) {
    piece.resize(static_cast<size_t>(std::min<uint64_t>(kPieceBytes, from.bytes - at)));
    MUSTER_RETURN_IF_ERROR(from.source->ReadAt(from.offset + at, absl::MakeSpan(piece)));
    MUSTER_RETURN_IF_ERROR(CheckBooleans(from, at, piece));
    if (as_float) {
      for (size_t i = 0; i < piece.size(); i += element)
        to[(at + i) / element] = ToFloat(ElementAsReal(from.type, piece.data() + i));
    } else {
      std::copy(piece.begin(), piece.end(), own + at);
    }
    if (after_each) after_each();
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<InitialValues> InitialValues::Open(const InitialSpec& initial,
                                                  const std::vector<TensorSpec>& model) {
  MUSTER_RETURN_IF_ERROR(CheckPlace(initial.file));
  InitialValues values;
  const auto named = [](const absl::Status& status) { return Prefix("initial.file", status); };
  const absl::StatusOr<SourcePtr> source = FileSource(initial.file);
  if (!source.ok()) return named(source.status());
  absl::StatusOr<std::vector<StoredTensor>> stored = ReadTensorFile(*source);
  if (!stored.ok()) return named(stored.status());
  values.stored_ = *std::move(stored);
  MUSTER_ASSIGN_OR_RETURN(values.match_, MatchInitial(initial, values.stored_, model));
  for (const auto& [one, other] : values.match_.equal) {
    const absl::Status equal = CheckEqual(values.stored_[one], values.stored_[other]);
    if (absl::IsFailedPrecondition(equal)) return equal;
    if (!equal.ok()) return named(equal);
  }
  absl::StatusOr<std::string> hash = HashOf(**source);
  if (!hash.ok()) return named(hash.status());
  values.hash_ = *std::move(hash);
  MUSTER_RETURN_IF_ERROR(named(CheckChecksums(values.stored_, values.match_)));
  return values;
}

size_t InitialValues::loaded() const { return match_.of_model.size() - match_.missing.size(); }

absl::Status InitialValues::Write(const FlatSpace& space, absl::Span<float> state,
                                  const std::function<void()>& after_each) const {
  for (size_t t = 0; t < space.tensors.size(); ++t) {
    if (!match_.of_model[t]) continue;
    const StoredTensor& from = stored_[*match_.of_model[t]];
    const Placed& place = space.tensors[t];
    const absl::Span<float> to =
        state.subspan(static_cast<size_t>(place.offset), static_cast<size_t>(place.count));
    const bool as_float = place.spec.type != from.type;
    MUSTER_RETURN_IF_ERROR(Prefix("initial.file", Fill(from, as_float, to, after_each)));
  }
  return absl::OkStatus();
}

}  // namespace muster
