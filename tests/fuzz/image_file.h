// What the targets of images share: one is decoded as muster-decoder does it, and whatever comes of
// it has the form that was asked for, or is an error.
#pragma once

#include <string_view>
#include <vector>

#include "absl/strings/string_view.h"
#include "lib/data/decoder/image.h"
#include "tests/fuzz/data_files.h"

namespace muster::fuzz {

// As many pixels as an image may have, and a progressive one holds all of its coefficients.
inline constexpr size_t kMostHeldOfAnImage = size_t{512} << 20;

inline void DecodeAsked(absl::string_view encoded) {
  const ImageForm form{.size = {4, 5}, .channels = 1};
  const absl::StatusOr<ImageSize> size = SizeOfImage(encoded);
  std::vector<uint8_t> planes(static_cast<size_t>(form.Bytes()));
  const absl::Status formed = FormImage(encoded, form, absl::MakeSpan(planes));
  // The same without a change of its size, which is another way through.
  if (size.ok() && size->height * size->width <= 1 << 16) {
    const ImageForm whole{.size = *size, .may_resize = false};
    std::vector<uint8_t> all(static_cast<size_t>(whole.Bytes()));
    Check(FormImage(encoded, whole, absl::MakeSpan(all)).ok() == formed.ok(),
          "it can be read at its size where it can be read at another");
  }
  if (formed.ok()) {
    Check(size.ok() && size->IsWithin(kMostPixels), "what is decoded has a size");
    Reach("end", "read");
    return;
  }
  Check(absl::IsDataLoss(formed), "its bytes are bad, and nothing else");
  Check(!formed.message().empty(), "an error has words");
  ReachError(formed.message());
}

inline void RunImageFile(std::string_view input) {
  const MemoryLimit limit(kMostHeldOfAnImage);
  DecodeAsked({input.data(), input.size()});
}

}  // namespace muster::fuzz

#define MUSTER_IMAGE_FUZZ_TARGET(MAKE, ERRORS)                                 \
  static const muster::fuzz::Form kForm = {MAKE, muster::fuzz::ChangedNumber}; \
  static void ExpectAll() {                                                    \
    muster::fuzz::Expect("end", {"read"});                                     \
    muster::fuzz::ExpectAtLeast("error", ERRORS);                              \
  }                                                                            \
  MUSTER_FUZZ_TARGET(kForm, ExpectAll, muster::fuzz::RunImageFile)
