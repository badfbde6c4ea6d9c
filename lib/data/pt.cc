#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "lib/base/printable.h"
#include "lib/base/status.h"
#include "lib/data/array_set.h"
#include "lib/data/checksum.h"
#include "lib/data/formats.h"
#include "lib/data/tensor_file.h"
#include "lib/data/tensor_pickle.h"
#include "lib/data/zip.h"
#include "lib/domain/torch_storage.h"

namespace muster {
namespace {

constexpr absl::string_view kPickleName = "data.pkl";
constexpr uint64_t kMostByteOrderBytes = 16;

// The entries of a file of torch.save, which are NAME/data.pkl, NAME/data/0 and so on.
class PtFile {
 public:
  static absl::StatusOr<PtFile> Open(const SourcePtr& file) {
    MUSTER_ASSIGN_OR_RETURN(std::vector<ZipMember> members, ReadZip(*file));
    const auto pickle = std::find_if(members.begin(), members.end(), [](const ZipMember& m) {
      return m.name == kPickleName || absl::EndsWith(m.name, "/data.pkl");
    });
    if (pickle == members.end())
      return Bad(*file, "it is a zip file without data.pkl, and so none of torch.save");
    PtFile opened(file, std::string(absl::StripSuffix(pickle->name, kPickleName)));
    for (ZipMember& member : members) {
      // As torch.serialization.set_crc32_options(False) leaves it.
      if (member.crc == 0u) member.crc.reset();
      std::string name = member.name;
      const auto [known, is_new] = opened.members_.emplace(std::move(name), std::move(member));
      if (!is_new)
        return Bad(*file, absl::StrCat("'", known->first.substr(0, 100), "' stands there twice"));
    }
    return opened;
  }

  absl::StatusOr<std::vector<PickledTensor>> Tensors(PickleOf of) const {
    const ZipMember& member = members_.at(absl::StrCat(folder_, kPickleName));
    if (member.bytes > MostPickleBytes(of))
      return Bad(*file_, absl::StrCat("its data.pkl has ", member.bytes, " bytes; at most ",
                                      MostPickleBytes(of), " are allowed"));
    MUSTER_ASSIGN_OR_RETURN(const SourcePtr pickle, OpenMember(file_, member));
    MUSTER_RETURN_IF_ERROR(CheckChecksum(*pickle));
    return ReadTensorPickle(*pickle, of);
  }

  // Whether its numbers are big-endian. Files of old do not tell, and are little-endian.
  absl::StatusOr<bool> IsSwapped() const {
    const auto found = members_.find(absl::StrCat(folder_, "byteorder"));
    if (found == members_.end() || found->second.bytes > kMostByteOrderBytes) return false;
    MUSTER_ASSIGN_OR_RETURN(const SourcePtr order, OpenMember(file_, found->second));
    MUSTER_ASSIGN_OR_RETURN(const std::string text, ReadAll(*order, kMostByteOrderBytes));
    return text == "big";
  }

  // Tensors may share a storage, and one that is packed is then unpacked once.
  absl::StatusOr<SourcePtr> Storage(const std::string& entry) {
    if (const auto opened = opened_.find(entry); opened != opened_.end()) return opened->second;
    const auto found = members_.find(absl::StrCat(folder_, "data/", entry));
    if (found == members_.end())
      return Bad(*file_, absl::StrCat("it holds no data/", entry.substr(0, 100),
                                      ", which its data.pkl tells of"));
    MUSTER_ASSIGN_OR_RETURN(const SourcePtr storage, OpenMember(file_, found->second));
    opened_[entry] = storage;
    return storage;
  }

 private:
  PtFile(SourcePtr file, std::string folder) : file_(std::move(file)), folder_(std::move(folder)) {}

  SourcePtr file_;
  std::string folder_;  // "NAME/"
  std::map<std::string, ZipMember> members_;
  std::map<std::string, SourcePtr> opened_;
};

std::optional<TensorType> TypeOf(const PickledTensor& tensor) {
  for (const TorchStorage& known : kTorchStorages)
    if (tensor.storage == known.name) return known.type;
  return std::nullopt;
}

std::string WhyNoType(const PickledTensor& tensor) {
  return absl::StrCat("stands in a ", Cut(tensor.storage, 40), ", whose type cannot be read");
}

absl::Status AddTensor(const SourcePtr& storage, const PickledTensor& tensor,
                       const std::string& key, bool swapped, std::vector<Array>& arrays) {
  const auto bad = [&](const std::string& why) {
    return Bad(*storage, absl::StrCat("tensor '", key.substr(0, 100), "' ", why));
  };
  const std::optional<TensorType> type = TypeOf(tensor);
  if (!type) return bad(WhyNoType(tensor));
  if (tensor.shape.empty())
    return bad("is a single number; its first dimension must be the samples'");
  const auto rows = static_cast<uint64_t>(tensor.shape.front());
  const DataField field{key, *type, {tensor.shape.begin() + 1, tensor.shape.end()}};
  MUSTER_ASSIGN_OR_RETURN(const uint64_t row_bytes, RowBytes(*storage, field));
  int64_t dense = 1;
  for (size_t d = tensor.shape.size(); d-- > 1; dense *= tensor.shape[d])
    if (tensor.shape[d] > 1 && tensor.strides[d] != dense)
      return bad("has samples that lie mixed in memory; save its contiguous()");
  const auto element = static_cast<uint64_t>(BytesOfElement(*type));
  const uint64_t most = storage->size() / element;  // elements; further on there is nothing
  const uint64_t offset = std::min(tensor.offset, most + 1);
  const auto stride = rows < 2 ? static_cast<uint64_t>(dense)
                               : std::min(static_cast<uint64_t>(tensor.strides[0]), most + 1);
  if (stride < static_cast<uint64_t>(dense) && most >= static_cast<uint64_t>(dense))
    return bad("has samples that share memory; save its contiguous()");
  return AddPart(arrays, field, swapped && element > 1,
                 {storage, offset * element, rows, std::max(stride * element, row_bytes)});
}

absl::Status CheckForm(const SourcePtr& file) {
  MUSTER_ASSIGN_OR_RETURN(const std::string begin,
                          ReadString(*file, 0, std::min<uint64_t>(2, file->size())));
  if (!absl::StartsWith(begin, "\x80\x02")) return absl::OkStatus();
  return Bad(*file,
             "it has the form that torch.save had before PyTorch 1.6; load it and save it again");
}

// Its elements lie one after the other.
absl::StatusOr<StoredTensor> WholeTensor(const SourcePtr& storage, const PickledTensor& tensor) {
  const auto bad = [&](const std::string& why) {
    return Bad(*storage, absl::StrCat("tensor '", tensor.name.substr(0, 100), "' ", why));
  };
  const std::optional<TensorType> type = TypeOf(tensor);
  if (!type) return bad(WhyNoType(tensor));
  const auto element = static_cast<uint64_t>(BytesOfElement(*type));
  const uint64_t most = storage->size() / element;
  constexpr uint64_t kMost = uint64_t{1} << 62;  // more than any storage has
  uint64_t elements = 1;
  for (size_t d = tensor.shape.size(); d-- > 0;) {
    const auto size = static_cast<uint64_t>(tensor.shape[d]);
    if (size > 1 && elements > 0 && static_cast<uint64_t>(tensor.strides[d]) != elements)
      return bad("has elements that lie mixed in memory; save its contiguous()");
    elements = size == 0 ? 0 : elements > kMost / size ? kMost : elements * size;
  }
  const uint64_t offset = std::min(tensor.offset, most + 1);
  if (elements > most || offset > most - elements)
    return bad(absl::StrCat("has more elements than the ", most, " of its storage"));
  return StoredTensor{.name = tensor.name,
                      .type = *type,
                      .shape = tensor.shape,
                      .source = storage,
                      .offset = offset * element,
                      .bytes = elements * element};
}

}  // namespace

absl::StatusOr<std::vector<StoredTensor>> ReadPt(const SourcePtr& file) {
  MUSTER_RETURN_IF_ERROR(CheckForm(file));
  MUSTER_ASSIGN_OR_RETURN(PtFile opened, PtFile::Open(file));
  MUSTER_ASSIGN_OR_RETURN(const std::vector<PickledTensor> tensors,
                          opened.Tensors(PickleOf::kModel));
  MUSTER_ASSIGN_OR_RETURN(const bool swapped, opened.IsSwapped());
  if (swapped) return Bad(*file, "its numbers are big-endian; save it on another machine");
  std::vector<StoredTensor> found;
  for (const PickledTensor& tensor : tensors) {
    MUSTER_ASSIGN_OR_RETURN(const SourcePtr storage, opened.Storage(tensor.entry));
    MUSTER_ASSIGN_OR_RETURN(StoredTensor whole, WholeTensor(storage, tensor));
    found.push_back(std::move(whole));
  }
  return found;
}

absl::StatusOr<StoredSet> OpenPt(const DataFiles& files, const DataSpec& data) {
  std::vector<Array> found;
  std::vector<std::string> others;
  for (const DataFile& file : files) {
    MUSTER_RETURN_IF_ERROR(CheckForm(file.source));
    MUSTER_ASSIGN_OR_RETURN(PtFile opened, PtFile::Open(file.source));
    MUSTER_ASSIGN_OR_RETURN(const std::vector<PickledTensor> tensors,
                            opened.Tensors(PickleOf::kArrays));
    MUSTER_ASSIGN_OR_RETURN(const bool swapped, opened.IsSwapped());
    for (const PickledTensor& tensor : tensors) {
      const std::string key = tensor.name.empty() ? file.place.path.stem().string() : tensor.name;
      if (!IsAskedFor(key, data)) {
        others.push_back(key);
        continue;
      }
      MUSTER_ASSIGN_OR_RETURN(const SourcePtr storage, opened.Storage(tensor.entry));
      MUSTER_RETURN_IF_ERROR(AddTensor(storage, tensor, key, swapped, found));
    }
  }
  MUSTER_ASSIGN_OR_RETURN(std::vector<Array> chosen, ChooseArrays(std::move(found), data, others));
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<StoredDataSet> set, MakeArraySet(std::move(chosen)));
  return StoredSet{std::move(set), !data.label.empty()};
}

}  // namespace muster
