#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "lib/base/printable.h"
#include "lib/base/status.h"
#include "lib/data/formats.h"
#include "lib/data/image_set.h"
#include "lib/data/tar.h"

namespace muster {
namespace {

constexpr uint64_t kMostLabelBytes = 32;
constexpr size_t kShownName = 100;

// "a/b.c.jpg" is the file "c.jpg" of the sample "a/b".
std::pair<std::string, std::string> SampleAndKind(const std::string& name) {
  const size_t slash = name.rfind('/');
  const size_t dot = name.find('.', slash == std::string::npos ? 0 : slash);
  if (dot == std::string::npos) return {name, ""};
  return {name.substr(0, dot), absl::AsciiStrToLower(name.substr(dot + 1))};
}

absl::StatusOr<int64_t> ReadLabel(const ByteSource& file) {
  std::string text;  // of a longer file: none
  if (file.size() <= kMostLabelBytes) {
    MUSTER_ASSIGN_OR_RETURN(text, ReadAll(file, kMostLabelBytes));
  }
  int64_t label = 0;
  if (!absl::SimpleAtoi(text, &label) || label < 0)
    return Bad(file, "a label (.cls) is a whole number from 0, that of a class");
  return label;
}

bool IsImage(absl::string_view kind) { return kind == "jpg" || kind == "jpeg" || kind == "png"; }

// The files of one sample stand side by side.
struct Sample {
  SourcePtr tar;
  std::string name;
  SourcePtr image;
  SourcePtr label_file;
  std::optional<int64_t> label;
};

class Samples {
 public:
  absl::Status Add(const SourcePtr& tar, const TarMember& member) {
    const auto [name, kind] = SampleAndKind(member.name);
    if (samples_.empty() || samples_.back().name != name || samples_.back().tar != tar)
      samples_.push_back({tar, name, nullptr, nullptr, {}});
    Sample& sample = samples_.back();
    SourcePtr file =
        PartOf(tar, absl::StrCat(tar->name(), " (", member.name, ")"), member.at, member.bytes);
    if (kind == "cls") {
      if (sample.label) return Bad(*file, "its sample has another label already");
      MUSTER_ASSIGN_OR_RETURN(sample.label, ReadLabel(*file));
      sample.label_file = std::move(file);
    } else if (IsImage(kind)) {
      if (sample.image != nullptr) return Bad(*file, "its sample has another image already");
      sample.image = std::move(file);
    } else if (other_.file == nullptr && IsImage(kind.substr(kind.rfind('.') + 1))) {
      other_ = {std::move(file), kind};
    }
    return absl::OkStatus();
  }

  // All files of a tar were added. A sample whose files stand apart would be two, neither of them
  // whole, and one that was appended once more would count twice.
  absl::Status EndTar() {
    std::vector<const Sample*> sorted;
    for (size_t i = checked_; i < samples_.size(); ++i)
      if (samples_[i].image != nullptr || samples_[i].label) sorted.push_back(&samples_[i]);
    checked_ = samples_.size();
    std::sort(sorted.begin(), sorted.end(),
              [](const Sample* a, const Sample* b) { return a->name < b->name; });
    const auto twice =
        std::adjacent_find(sorted.begin(), sorted.end(),
                           [](const Sample* a, const Sample* b) { return a->name == b->name; });
    if (twice == sorted.end()) return absl::OkStatus();
    return Bad(*(*twice)->tar,
               absl::StrCat("the sample '", (*twice)->name.substr(0, kShownName),
                            "' stands there twice; the files of one stand side by side"));
  }

  // Samples without an image and a label are none: a tar may hold a file that describes it.
  absl::StatusOr<std::vector<EncodedImage>> Finish(bool& has_label) {
    const bool has_image = std::any_of(samples_.begin(), samples_.end(), [](const Sample& sample) {
      return sample.image != nullptr;
    });
    if (!has_image && other_.file != nullptr)
      return Bad(*other_.file,
                 absl::StrCat("what follows the first dot of a name says what the file is, and '",
                              Cut(Printable(other_.kind)), "' is no image; take names of samples ",
                              "without a dot"));
    for (const Sample& sample : samples_)
      if (sample.label && sample.image == nullptr)
        return Bad(*sample.label_file,
                   absl::StrCat("the sample '", sample.name.substr(0, kShownName),
                                "' has a label and no image (.jpg, .jpeg or .png) beside it"));
    std::erase_if(samples_, [](const Sample& sample) { return sample.image == nullptr; });
    has_label = !samples_.empty() && samples_.front().label.has_value();
    std::vector<EncodedImage> images;
    for (const Sample& sample : samples_) {
      if (sample.label.has_value() != has_label)
        return Bad(*sample.image, has_label ? "its sample has no label (.cls), and the first has"
                                            : "its sample has a label, and the first has none");
      images.push_back({sample.image, sample.label.value_or(0)});
    }
    return images;
  }

 private:
  struct Other {
    SourcePtr file;
    std::string kind;
  };
  std::vector<Sample> samples_;
  size_t checked_ = 0;  // of these, by EndTar
  Other other_;         // the first that only its last dot makes an image
};

}  // namespace

absl::StatusOr<std::vector<EncodedImage>> ImagesOfWebDataset(const DataFiles& files,
                                                             bool& has_label) {
  Samples samples;
  for (const DataFile& file : files) {
    MUSTER_ASSIGN_OR_RETURN(const std::vector<TarMember> members, ReadTar(*file.source));
    for (const TarMember& member : members)
      MUSTER_RETURN_IF_ERROR(samples.Add(file.source, member));
    MUSTER_RETURN_IF_ERROR(samples.EndTar());
  }
  return samples.Finish(has_label);
}

absl::StatusOr<StoredSet> OpenWebDataset(const DataFiles& files, const DataSpec& data) {
  bool has_label = false;
  MUSTER_ASSIGN_OR_RETURN(std::vector<EncodedImage> images, ImagesOfWebDataset(files, has_label));
  return MakeImageSet(std::move(images), has_label, data);
}

}  // namespace muster
