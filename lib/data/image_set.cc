#include "lib/data/image_set.h"

#include <cstring>
#include <utility>

#include "lib/base/bytes.h"
#include "lib/base/status.h"
#include "lib/data/image.h"
#include "lib/data/samples_text.h"
#include "lib/kernels/sha256.h"

namespace muster {
namespace {

absl::Status Named(const EncodedImage& image, const absl::Status& status) {
  return Prefix(image.source->name(), status);
}

class ImageSet final : public StoredDataSet {
 public:
  ImageSet(std::vector<EncodedImage> images, ImageSize size, bool may_resize, const DataSpec& data,
           std::vector<DataField> fields)
      : images_(std::move(images)),
        size_(size),
        may_resize_(may_resize),
        fit_(data.fit),
        is_gray_(data.channels == 1),
        fields_(std::move(fields)) {}

  const std::vector<DataField>& Fields() const override { return fields_; }
  uint64_t Samples() const override { return images_.size(); }
  const std::vector<EncodedImage>* Encoded() const override { return &images_; }

  uint64_t BytesToHash() const override {
    uint64_t bytes = 0;
    for (const EncodedImage& image : images_) bytes += image.source->size();
    return bytes;
  }

  absl::StatusOr<std::string> ComputeHash(
      const std::function<void(uint64_t)>& told) const override {
    Sha256 hash;
    const std::string decoders = ImageDecoders();
    hash.Update(BytesOf(decoders));
    for (const EncodedImage& image : images_) {
      MUSTER_ASSIGN_OR_RETURN(const std::string bytes, ReadAll(*image.source, kMostEncodedBytes));
      const std::string head = absl::StrCat(bytes.size(), " ", image.label, "\n");
      for (const absl::string_view part : {absl::string_view(head), absl::string_view(bytes)})
        hash.Update(BytesOf(part));
      told(bytes.size());
    }
    return hash.HexFinish();
  }

  absl::Status ReadInto(int64_t, absl::Span<const uint64_t> ids, Batch& batch,
                        size_t first) const override {
    MUSTER_RETURN_IF_ERROR(CheckIds(ids, images_.size()));
    for (size_t i = 0; i < ids.size(); ++i) {
      const EncodedImage& image = images_[ids[i]];
      MUSTER_RETURN_IF_ERROR(
          Prefix(absl::StrCat("sample ", ids[i]), ReadImage(image, batch.row(0, first + i))));
      if (fields_.size() > 1)
        std::memcpy(batch.row(1, first + i).data(), &image.label, sizeof(image.label));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status ReadImage(const EncodedImage& encoded, absl::Span<std::byte> into) const {
    MUSTER_ASSIGN_OR_RETURN(const std::string bytes, ReadAll(*encoded.source, kMostEncodedBytes));
    absl::StatusOr<Image> decoded = DecodeImage(bytes);
    if (absl::IsDataLoss(decoded.status()))
      return Named(encoded, BadSample(decoded.status().message()));
    if (!decoded.ok()) return Named(encoded, decoded.status());
    Image image = *std::move(decoded);
    if (is_gray_) image = Gray(image);
    if (image.size != size_ && !may_resize_)
      return Bad(*encoded.source,
                 absl::StrCat("it has ", image.size.width, " by ", image.size.height,
                              " pixels, and the first one ", size_.width, " by ", size_.height,
                              "; give data.image_size"));
    image = Resized(image, size_, fit_);
    // From pixel after pixel to channel after channel.
    const auto pixels = static_cast<size_t>(size_.height * size_.width);
    const auto channels = static_cast<size_t>(image.channels);
    auto* plane = reinterpret_cast<uint8_t*>(into.data());
    for (size_t c = 0; c < channels; ++c, plane += pixels)
      for (size_t p = 0; p < pixels; ++p) plane[p] = image.pixels[p * channels + c];
    return absl::OkStatus();
  }

  const std::vector<EncodedImage> images_;
  const ImageSize size_;
  const bool may_resize_;
  const ImageFit fit_;
  const bool is_gray_;
  const std::vector<DataField> fields_;
};

// Of the first image; of the first whose size can be read, where others are left out.
absl::StatusOr<ImageSize> FirstSize(const std::vector<EncodedImage>& images,
                                    OnBadSample on_bad_sample) {
  absl::Status first;
  for (const EncodedImage& image : images) {
    MUSTER_ASSIGN_OR_RETURN(const std::string bytes, ReadAll(*image.source, kMostEncodedBytes));
    absl::StatusOr<ImageSize> found = SizeOfImage(bytes);
    if (found.ok()) return found;
    if (first.ok()) first = Named(image, found.status());
    if (on_bad_sample == OnBadSample::kStop) break;
  }
  return first;
}

}  // namespace

absl::StatusOr<std::unique_ptr<StoredDataSet>> MakeImageSet(std::vector<EncodedImage> images,
                                                            bool has_label, const DataSpec& data) {
  if (images.empty()) return absl::InvalidArgumentError("no image");
  if (data.channels != 1 && data.channels != 3)
    return absl::FailedPreconditionError(
        absl::StrCat("data.channels: ", data.channels, " is not allowed; 1 or 3 are"));
  if (!data.image_size.empty() && data.image_size.size() != 2)
    return absl::FailedPreconditionError("data.image_size: it takes two numbers, [height, width]");
  ImageSize size;
  if (data.image_size.empty()) {
    MUSTER_ASSIGN_OR_RETURN(size, FirstSize(images, data.on_bad_sample));
  } else {
    size = {data.image_size[0], data.image_size[1]};
  }
  std::vector<DataField> fields = {
      {"image",
       TensorType::kUint8,
       {static_cast<int64_t>(data.channels), size.height, size.width}}};
  if (has_label) fields.push_back({"label", TensorType::kInt64, {}});
  return std::make_unique<ImageSet>(std::move(images), size, !data.image_size.empty(), data,
                                    std::move(fields));
}

}  // namespace muster
