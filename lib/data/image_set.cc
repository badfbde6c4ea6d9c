#include "lib/data/image_set.h"

#include <algorithm>
#include <cstring>
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

// Of one request, where it is for several images: of what they are encoded in, and of their pixels.
constexpr uint64_t kBytesTogether = uint64_t{8} << 20;
constexpr uint64_t kMostTogether = 1 << 12;
constexpr size_t kMostWords = 500;  // of an error

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

  absl::Status ReadInto(int64_t, absl::Span<const uint64_t> ids, Batch& batch,
                        size_t first) const override {
    MUSTER_RETURN_IF_ERROR(CheckIds(ids, images_.size()));
    while (!ids.empty()) {
      std::vector<std::string> encoded;
      MUSTER_RETURN_IF_ERROR(ReadTogether(ids, encoded));
      const absl::Span<const uint64_t> now = ids.first(encoded.size());
      MUSTER_RETURN_IF_ERROR(Decode(now, encoded, batch, first));
      ids.remove_prefix(now.size());
      first += now.size();
    }
    return absl::OkStatus();
  }

 private:
  // Of `ids` the first ones that go into one request, at least one.
  absl::Status ReadTogether(absl::Span<const uint64_t> ids,
                            std::vector<std::string>& encoded) const {
    const uint64_t most = std::clamp<uint64_t>(kBytesTogether / form_.Bytes(), 1, kMostTogether);
    uint64_t bytes = 0;
    for (const uint64_t id : ids) {
      const ByteSource& source = *images_[id].source;
      const bool is_alone = IsAskedForAlone(id);
      if (!encoded.empty() &&
          (is_alone || encoded.size() == most || source.size() > kBytesTogether - bytes))
        break;
      absl::StatusOr<std::string> read = ReadAll(source, kMostEncodedBytes);
      if (!read.ok()) return Prefix(absl::StrCat("sample ", id), read.status());
      bytes = std::min(bytes + read->size(), kBytesTogether);
      encoded.push_back(*std::move(read));
      if (is_alone) break;
    }
    return absl::OkStatus();
  }

  // By one request, as each one costs the way to another process and back. Where the process ends
  // or lacks memory they are asked for one by one, which says what is the fault of which. An image
  // that ends it is never again asked for with others, since there may not be many deaths.
  absl::Status Decode(absl::Span<const uint64_t> ids, absl::Span<const std::string> encoded,
                      Batch& batch, size_t first) const {
    bool together = true;
    for (size_t i = 0; i < ids.size();) {
      const size_t asked = together ? ids.size() - i : 1;
      const std::string request = RequestOf(encoded.subspan(i, asked));
      const absl::StatusOr<std::string> told =
          asked > 1 ? decoders_->AskForMany(request) : decoders_->Ask(request);
      if (!told.ok() && asked > 1) {
        together = false;
        continue;
      }
      if (!told.ok()) {
        if (IsBadSample(told.status())) AskForAloneFromNowOn(ids[i]);
        return Prefix(absl::StrCat("sample ", ids[i]), Named(images_[ids[i]], told.status()));
      }
      MUSTER_ASSIGN_OR_RETURN(const size_t taken,
                              Take(*told, ids.subspan(i, asked), batch, first + i));
      i += taken;
    }
    return absl::OkStatus();
  }

  std::string RequestOf(absl::Span<const std::string> encoded) const {
    WireWriter request = Asking(DecoderRequest::kImages);
    request.Number(static_cast<uint64_t>(form_.size.height));
    request.Number(static_cast<uint64_t>(form_.size.width));
    request.Number(form_.may_resize ? 1 : 0);
    request.Number(form_.fit == ImageFit::kCrop ? 0 : 1);
    request.Number(static_cast<uint64_t>(form_.channels)).Number(encoded.size());
    for (const std::string& image : encoded) request.Text(image);
    return request.bytes();
  }

  // What was told of the first of `ids`, to their rows. Returns of how many, at least one.
  absl::StatusOr<size_t> Take(absl::string_view told, absl::Span<const uint64_t> ids, Batch& batch,
                              size_t first) const {
    WireReader reader(told);
    size_t taken = 0;
    while (taken == 0 || !reader.AtEnd()) {
      if (taken == ids.size()) return Nonsense(images_[ids.back()]);
      const uint64_t id = ids[taken];
      const EncodedImage& image = images_[id];
      const uint64_t code = reader.Number();
      const absl::string_view text = reader.Text();
      if (!reader.ok()) return Nonsense(image);
      const std::string sample = absl::StrCat("sample ", id);
      const absl::string_view words = text.substr(0, kMostWords);
      switch (static_cast<DecoderAnswer>(code)) {
        case DecoderAnswer::kBadBytes: return Prefix(sample, Named(image, BadSample(words)));
        case DecoderAnswer::kFault: return Prefix(sample, Bad(*image.source, words));
        case DecoderAnswer::kRead:
          if (text.size() == form_.Bytes()) break;
          [[fallthrough]];
        default: return Prefix(sample, Nonsense(image));
      }
      std::memcpy(batch.row(0, first + taken).data(), text.data(), text.size());
      if (fields_.size() > 1)
        std::memcpy(batch.row(1, first + taken).data(), &image.label, sizeof(image.label));
      ++taken;
    }
    return taken;
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
