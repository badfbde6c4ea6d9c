#include "lib/data/image_set.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/bytes.h"
#include "lib/base/mutex.h"
#include "lib/base/status.h"
#include "lib/data/decoder_wire.h"
#include "lib/data/image_form.h"
#include "lib/data/samples_text.h"
#include "lib/kernels/sha256.h"

namespace muster {
namespace {

absl::Status Named(const EncodedImage& image, const absl::Status& status) {
  return Prefix(image.source->name(), status);
}

absl::Status Nonsense(const EncodedImage& image) {
  return Bad(*image.source, kDecoderTalksNonsense);
}

class ImageSet final : public StoredDataSet {
 public:
  ImageSet(std::vector<EncodedImage> images, const ImageForm& form, std::vector<DataField> fields,
           std::shared_ptr<Decoders> decoders, std::string versions)
      : images_(std::move(images)),
        form_(form),
        fields_(std::move(fields)),
        decoders_(std::move(decoders)),
        versions_(std::move(versions)) {}

  const std::vector<DataField>& Fields() const override { return fields_; }
  uint64_t Samples() const override { return images_.size(); }
  std::string PlaceOf(uint64_t id) const override {
    return id < images_.size() ? images_[id].source->name() : "";
  }
  const std::vector<EncodedImage>* Encoded() const override { return &images_; }

  uint64_t BytesToHash() const override {
    uint64_t bytes = 0;
    for (const EncodedImage& image : images_) bytes += image.source->size();
    return bytes;
  }

  absl::StatusOr<std::string> ComputeHash(
      const std::function<void(uint64_t)>& told) const override {
    Sha256 hash;
    hash.Update(BytesOf(versions_));
    for (const EncodedImage& image : images_) {
      MUSTER_ASSIGN_OR_RETURN(const std::string bytes, ReadAll(*image.source, kMostEncodedBytes));
      const std::string head = absl::StrCat(bytes.size(), " ", image.label, "\n");
      for (const absl::string_view part : {absl::string_view(head), absl::string_view(bytes)})
        hash.Update(BytesOf(part));
      told(bytes.size());
    }
    return hash.HexFinish();
  }

  absl::Status ReadInto(int64_t epoch, absl::Span<const uint64_t> ids, Batch& batch,
                        size_t first) const override {
    return ReadEach(epoch, ids, [&](size_t i, absl::Span<const absl::Span<const std::byte>> rows) {
      for (size_t f = 0; f < rows.size(); ++f)
        std::copy(rows[f].begin(), rows[f].end(), batch.row(f, first + i).begin());
    });
  }

  // One after the other by one process, which decodes the next ones while `take` runs. One on which
  // it ends, takes too long or lacks memory is asked for alone, which says what is its fault. An
  // image that ends it is never again asked for with others, since there may not be many deaths.
  absl::Status ReadEach(int64_t, absl::Span<const uint64_t> ids, TakeSample take) const override {
    MUSTER_RETURN_IF_ERROR(CheckIds(ids, images_.size()));
    for (size_t done = 0; done < ids.size();) {
      // Of the first that fails. Those behind it, which were asked for before, are not taken.
      absl::Status failed;
      const auto next = [&](size_t part) -> std::optional<std::string> {
        const size_t i = done + part;
        if (!failed.ok() || i == ids.size() || IsAskedForAlone(ids[i])) return std::nullopt;
        absl::StatusOr<std::string> request = RequestOf(ids[i]);
        if (!request.ok()) return std::nullopt;
        return *std::move(request);
      };
      const auto given = [&](size_t part, const absl::StatusOr<absl::string_view>& pixels) {
        if (failed.ok()) failed = Give(ids[done + part], done + part, pixels, take);
      };
      const auto about = [&](size_t part) { return NameOf(ids[done + part]); };
      MUSTER_ASSIGN_OR_RETURN(const Decoders::Asked asked,
                              decoders_->AskForMany(next, given, about));
      MUSTER_RETURN_IF_ERROR(failed);
      done += asked.answered;
      if (done == ids.size()) break;
      MUSTER_ASSIGN_OR_RETURN(const std::string request, RequestOf(ids[done]));
      const absl::StatusOr<std::string> alone =
          decoders_->Ask(request, NameOf(ids[done]), /*takes=*/asked.took_too_long ? 1 : 2);
      if (!alone.ok() && decoders_->AreEndedBy(request)) AskForAloneFromNowOn(ids[done]);
      MUSTER_RETURN_IF_ERROR(
          Give(ids[done], done,
               alone.ok() ? absl::StatusOr<absl::string_view>(*alone) : alone.status(), take));
      ++done;
    }
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<std::string> RequestOf(uint64_t id) const {
    const absl::StatusOr<std::string> encoded = ReadAll(*images_[id].source, kMostEncodedBytes);
    if (!encoded.ok()) return Prefix(absl::StrCat("sample ", id), encoded.status());
    return Asking(DecoderRequest::kImage)
        .Number(static_cast<uint64_t>(form_.size.height))
        .Number(static_cast<uint64_t>(form_.size.width))
        .Number(form_.may_resize ? 1 : 0)
        .Number(form_.fit == ImageFit::kCrop ? 0 : 1)
        .Number(static_cast<uint64_t>(form_.channels))
        .Text(*encoded)
        .bytes();
  }

  // For people.
  std::string NameOf(uint64_t id) const {
    return absl::StrCat("sample ", id, ": ", images_[id].source->name());
  }

  // What was told of the sample `id`.
  absl::Status Give(uint64_t id, size_t i, const absl::StatusOr<absl::string_view>& pixels,
                    TakeSample take) const {
    const EncodedImage& image = images_[id];
    const std::string sample = absl::StrCat("sample ", id);
    if (!pixels.ok()) return Prefix(sample, Named(image, pixels.status()));
    if (pixels->size() != form_.Bytes()) return Prefix(sample, Nonsense(image));
    const absl::Span<const std::byte> rows[] = {
        BytesOf(*pixels), {reinterpret_cast<const std::byte*>(&image.label), sizeof(image.label)}};
    take(i, absl::MakeConstSpan(rows, fields_.size()));
    return absl::OkStatus();
  }

  bool IsAskedForAlone(uint64_t id) const {
    const MutexLock lock(mutex_);
    return alone_.count(id) > 0;
  }
  void AskForAloneFromNowOn(uint64_t id) const {
    const MutexLock lock(mutex_);
    alone_.insert(id);
  }

  const std::vector<EncodedImage> images_;
  const ImageForm form_;
  const std::vector<DataField> fields_;
  const std::shared_ptr<Decoders> decoders_;
  const std::string versions_;  // of the decoder's libraries
  mutable Mutex mutex_;
  mutable std::set<uint64_t> alone_ ABSL_GUARDED_BY(mutex_);  // as few as there may be deaths
};

absl::StatusOr<ImageSize> SizeOf(const EncodedImage& image, Decoders& decoders) {
  MUSTER_ASSIGN_OR_RETURN(const std::string bytes, ReadAll(*image.source, kMostEncodedBytes));
  const absl::StatusOr<std::string> told =
      decoders.Ask(Asking(DecoderRequest::kImageSize).Text(bytes).bytes());
  if (!told.ok()) return Named(image, told.status());
  WireReader reader(*told);
  ImageSize size;
  size.height = static_cast<int64_t>(reader.Number());
  size.width = static_cast<int64_t>(reader.Number());
  if (!reader.AtEnd() || !size.IsWithin(kMostPixels)) return Nonsense(image);
  return size;
}

// Of the first image; of the first whose size can be read, where bad ones are left out.
absl::StatusOr<ImageSize> FirstSize(const std::vector<EncodedImage>& images,
                                    OnBadSample on_bad_sample, Decoders& decoders) {
  absl::Status first;
  for (const EncodedImage& image : images) {
    absl::StatusOr<ImageSize> found = SizeOf(image, decoders);
    if (found.ok() || !IsBadSample(found.status())) return found;
    if (first.ok()) first = found.status();
    if (on_bad_sample == OnBadSample::kStop) break;
  }
  return first;
}

absl::Status CheckSize(const std::vector<int64_t>& image_size) {
  if (image_size.empty()) return absl::OkStatus();
  if (image_size.size() != 2)
    return absl::FailedPreconditionError("data.image_size: it takes two numbers, [height, width]");
  if (ImageSize{image_size[0], image_size[1]}.IsWithin(kMostPixelsMade)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("data.image_size: [", image_size[0], ", ", image_size[1],
                   "] is no size of an image of at most ", kMostPixelsMade, " pixels"));
}

}  // namespace

absl::StatusOr<StoredSet> MakeImageSet(std::vector<EncodedImage> images, bool has_label,
                                       const DataSpec& data, std::shared_ptr<Decoders> decoders) {
  if (images.empty()) return absl::InvalidArgumentError("no image");
  if (data.channels != 1 && data.channels != 3)
    return absl::FailedPreconditionError(
        absl::StrCat("data.channels: ", data.channels, " is not allowed; 1 or 3 are"));
  MUSTER_RETURN_IF_ERROR(CheckSize(data.image_size));
  const absl::StatusOr<std::string> versions =
      decoders->Ask(Asking(DecoderRequest::kImageVersions).bytes());
  if (!versions.ok()) return Named(images.front(), versions.status());
  ImageForm form{.may_resize = !data.image_size.empty(),
                 .fit = data.fit,
                 .channels = static_cast<int64_t>(data.channels)};
  if (form.may_resize) {
    form.size = {data.image_size[0], data.image_size[1]};
  } else {
    MUSTER_ASSIGN_OR_RETURN(form.size, FirstSize(images, data.on_bad_sample, *decoders));
  }
  std::vector<DataField> fields = {
      {"image", TensorType::kUint8, {form.channels, form.size.height, form.size.width}}};
  if (has_label) fields.push_back({"label", TensorType::kInt64, {}});
  return StoredSet{.set = std::make_unique<ImageSet>(std::move(images), form, std::move(fields),
                                                     std::move(decoders), *versions),
                   .has_label = has_label,
                   .is_picture = true,
                   .decoder = *versions};
}

}  // namespace muster
