// A tar file of WebDataset, whose images are decoded here.
#include "tests/fuzz/image_file.h"

namespace muster::fuzz {
namespace {

std::string Make(Random& random) {
  return Tar({{"a.png", Png({2, 2, 3, "abcdefghijkl"})},
              {"a.cls", absl::StrCat(Below(random, 10))},
              {"b.cls", "7"},
              {"b.png", Png({2, 2, 3, "abcdefghijkl"})}});
}

void Run(std::string_view input) {
  const MemoryLimit limit(kMostHeldOfAnImage + 300 * input.size());
  const DataFiles files = {{MemorySource("f.tar", std::string(input)), {"f.tar", "one/f.tar"}}};
  bool has_label = false;
  const absl::StatusOr<std::vector<EncodedImage>> images = ImagesOfWebDataset(files, has_label);
  const absl::Status& status = images.status();
  if (images.ok() && !images->empty()) {
    for (const EncodedImage* image : {&images->front(), &images->back()}) {
      const absl::StatusOr<std::string> encoded = ReadAll(*image->source, kMostEncodedBytes);
      Check(encoded.ok(), "what is told of a tar file is there");
      DecodeAsked(*encoded);
    }
  }
  if (!status.ok()) {
    Check(!status.message().empty(), "an error has words");
    ReachError(status.message());
  }
}

const Form kForm = {Make, ChangedNumber};

void ExpectAll() {
  Expect("end", {"read"});
  ExpectAtLeast("error", 5);
}

}  // namespace
}  // namespace muster::fuzz

MUSTER_FUZZ_TARGET(muster::fuzz::kForm, muster::fuzz::ExpectAll, muster::fuzz::Run);
