// For lib/wire alone: reads numbers and texts of a message from outside and remembers the first
// that is wrong, so that code that reads a message is a list of its fields. After a fault it hands
// out harmless values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "lib/base/frame_limits.h"
#include "lib/base/ids.h"
#include "lib/base/plural.h"
#include "lib/base/printable.h"
#include "lib/domain/device_id.h"
#include "lib/domain/lanes.h"
#include "lib/domain/layout.h"
#include "lib/domain/member_name.h"

namespace muster {

inline constexpr int64_t kMaxChunks = kMostChunks;
inline constexpr int64_t kMaxMembers = 4096;
inline constexpr int64_t kMaxLanes = 4096;
inline constexpr int64_t kMaxTextBytes = 64 * 1024;
inline constexpr int64_t kMaxTensors = kMostTensors;
inline constexpr int64_t kMaxDimensions = kMostDimensions;
static_assert(kLongestTensorName <= kMaxTextBytes && kMostTensorBytes < kMaxHeaderBytes);
inline constexpr int64_t kMaxCommands = 4096;
inline constexpr int64_t kMaxThreads = 64;  // that a member tells of

class Reader {
 public:
  bool ok() const { return status_.ok(); }
  const absl::Status& status() const { return status_; }

  // While it lives, faults are said to be inside `field` (of an item of it, when index is not
  // negative).
  class Scope {
   public:
    Scope(Reader& reader, const char* field, int index = -1) : reader_(reader) {
      reader_.path_.push_back({field, index});
    }
    ~Scope() { reader_.path_.pop_back(); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Reader& reader_;
  };

  void Refuse(const char* field, const std::string& why) {
    if (!ok()) return;
    std::string place;
    for (const Place& at : path_) {
      absl::StrAppend(&place, at.field);
      if (at.index >= 0) absl::StrAppend(&place, "[", at.index, "]");
      absl::StrAppend(&place, ".");
    }
    status_ = absl::InvalidArgumentError(absl::StrCat(place, field, ": ", why));
  }

  bool Require(bool condition, const char* field, const char* why) {
    if (!condition) Refuse(field, why);
    return condition;
  }

  // `value` when low ≤ value ≤ high, else `low`.
  int64_t Number(const char* field, int64_t value, int64_t low = 0, int64_t high = kMaxNumber) {
    if (value >= low && value <= high) return value;
    Refuse(field, absl::StrCat(value, " is not in ", low, " … ", high));
    return low;
  }
  int32_t Small(const char* field, int64_t value, int64_t low, int64_t high) {
    return static_cast<int32_t>(Number(field, value, low, high));
  }
  // May a list have this many items?
  bool Count(const char* field, int64_t count, int64_t high) {
    if (count <= high) return true;
    Refuse(field, absl::StrCat(Plural(count, "item"), "; at most ", high, " are allowed"));
    return false;
  }
  bool SameCount(const char* field, int64_t count, int64_t expected) {
    if (count == expected) return true;
    Refuse(field, absl::StrCat(Plural(count, "item"), " where ", expected, " are needed"));
    return false;
  }
  std::string Text(const char* field, const std::string& text) {
    if (static_cast<int64_t>(text.size()) <= kMaxTextBytes) return text;
    Refuse(field, absl::StrCat(text.size(), " bytes; at most ", kMaxTextBytes, " are allowed"));
    return "";
  }
  // What people will read: made printable and cut, whatever it was.
  static std::string Words(const std::string& text) { return Cut(Printable(text)); }
  // Also as it will be shown: a name that is cut would be another's.
  std::string MemberName(const char* field, const std::string& text) {
    std::string shown = text.size() <= kLongestMemberName ? Printable(text) : text;
    if (shown.size() <= kLongestMemberName) return shown;
    Refuse(field,
           absl::StrCat(shown.size(), " bytes; a member's name may have ", kLongestMemberName));
    return "";
  }
  // Of one who says who it is. What others say of it is read by MemberName.
  std::string OwnName(const char* field, const std::string& text) {
    if (IsMemberName(text)) return text;
    constexpr size_t kMostQuoted = 64;
    Refuse(field, absl::StrCat("'", Cut(Printable(text), kMostQuoted),
                               "' is no name of a member; it must be ", MemberNameRule()));
    return "";
  }
  std::string DeviceId(const char* field, const std::string& text) {
    if (IsDeviceId(text)) return text;
    Refuse(field, absl::StrCat("'", Cut(Printable(text), kLongestDeviceId),
                               "' is no id of a device; it must be ", DeviceIdRule()));
    return "";
  }
  // Lines of a log: more of them, with room for a sentence before them.
  static std::string Lines(const std::string& text) {
    return Cut(PrintableLines(text), kMostLinesBytes - kMostShownBytes);
  }
  // A duration or the like: finite and not negative.
  double Amount(const char* field, double value) {
    if (value >= 0 && value < 1e300) return value;
    Refuse(field, absl::StrCat(value, " is not an amount"));
    return 0;
  }
  // Wire enums are the domain's plus one; 0 is "absent".
  template <class E>
  E Enum(const char* field, int value, E last) {
    const int high = static_cast<int>(last) + 1;
    return static_cast<E>(Small(field, value, 1, high) - 1);
  }
  template <class T>
  T Unwrap(const char* field, absl::StatusOr<T> value) {
    if (value.ok()) return *std::move(value);
    Refuse(field, std::string(value.status().message()));
    return T{};
  }

 private:
  struct Place {
    const char* field;
    int index;
  };
  std::vector<Place> path_;
  absl::Status status_;
};

}  // namespace muster
