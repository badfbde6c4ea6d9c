// A file of tensors with names, as a job's first weights come: safetensors or torch.save's, which
// its first bytes tell.
#include "lib/data/tensor_file.h"
#include "tests/fuzz/data_files.h"

namespace muster::fuzz {
namespace {

constexpr size_t kMostHeld = size_t{4} << 20;

std::string Make(Random& random) {
  const size_t size = 1 + Below(random, 5);
  if (Below(random, 2) == 0)
    return Safetensors(absl::StrCat("{\"w\":{\"dtype\":\"F32\",\"shape\":[", size,
                                    ",2],\"data_offsets\":[0,", 8 * size, "]}}"),
                       std::string(8 * size, 'x'));
  const auto rows = static_cast<int>(size);
  return Pt(PtDict({{"w", PtPickle({"FloatStorage", "0", 0, {rows, 2}, {2, 1}})}}),
            {std::string(8 * size, 'x')}, Below(random, 2) == 0);
}

void RunTensorFile(std::string_view input) {
  const MemoryLimit limit(kMostHeld + 300 * input.size());
  const absl::StatusOr<std::vector<StoredTensor>> tensors =
      ReadTensorFile(MemorySource("f", std::string(input)));
  if (!tensors.ok()) {
    Check(!tensors.status().message().empty(), "an error has words");
    return ReachError(tensors.status().message());
  }
  for (const StoredTensor& tensor : *tensors) {
    Check(tensor.offset <= tensor.source->size() &&
              tensor.bytes <= tensor.source->size() - tensor.offset,
          "a tensor lies within its file");
    std::vector<std::byte> bytes(std::min<uint64_t>(tensor.bytes, 1024));
    Check(tensor.source->ReadAt(tensor.offset, absl::MakeSpan(bytes)).ok(), "it can be read");
    Reach("end", "read");
  }
}

const Form kForm = {Make, ChangedNumber};
void ExpectAll() {
  Expect("end", {"read"});
  ExpectAtLeast("error", 6);
}
void Run(std::string_view input) { RunTensorFile(input); }

}  // namespace
}  // namespace muster::fuzz

MUSTER_FUZZ_TARGET(muster::fuzz::kForm, muster::fuzz::ExpectAll, muster::fuzz::Run);
