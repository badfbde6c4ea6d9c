#include <map>

#include "lib/base/mutex.h"
#include "lib/base/status.h"
#include "lib/storage/kv.h"

namespace muster {
namespace {

using Pairs = std::vector<std::pair<std::string, std::string>>;

class MemoryKv final : public Kv {
 public:
  explicit MemoryKv(const std::vector<std::string>& families) {
    for (const std::string& family : families) families_[family];
  }

  absl::StatusOr<std::string> Get(absl::string_view family, absl::string_view key) const override {
    MutexLock lock(mutex_);
    MUSTER_ASSIGN_OR_RETURN(const Family* found, FindLocked(family));
    const auto it = found->find(key);
    if (it == found->end())
      return absl::NotFoundError(absl::StrCat("store: no such key in '", family, "'"));
    return it->second;
  }

  absl::Status Write(const Batch& batch) override {
    MutexLock lock(mutex_);
    for (const Batch::Change& change : batch.changes())
      MUSTER_RETURN_IF_ERROR(FindLocked(change.family).status());
    for (const Batch::Change& change : batch.changes()) {
      Family& family = families_.find(change.family)->second;
      if (change.value) {
        family[change.key] = *change.value;
      } else {
        family.erase(change.key);
      }
    }
    return absl::OkStatus();
  }

  absl::Status Scan(absl::string_view family, absl::string_view first, absl::string_view last,
                    const Visit& visit) const override {
    MUSTER_ASSIGN_OR_RETURN(const Pairs pairs, Copy(family, first, last));
    for (const auto& [key, value] : pairs) {
      if (!visit(key, value)) break;
    }
    return absl::OkStatus();
  }

 private:
  using Family = std::map<std::string, std::string, std::less<>>;

  absl::StatusOr<const Family*> FindLocked(absl::string_view family) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto it = families_.find(family);
    if (it == families_.end())
      return absl::InvalidArgumentError(absl::StrCat("store: there is no family '", family, "'"));
    return &it->second;
  }

  // Copied, so that the visitor runs without the lock.
  absl::StatusOr<Pairs> Copy(absl::string_view family, absl::string_view first,
                             absl::string_view last) const {
    MutexLock lock(mutex_);
    MUSTER_ASSIGN_OR_RETURN(const Family* found, FindLocked(family));
    Pairs pairs;
    for (auto it = found->lower_bound(first);
         it != found->end() && (last.empty() || it->first < last); ++it)
      pairs.emplace_back(it->first, it->second);
    return pairs;
  }

  mutable Mutex mutex_;
  std::map<std::string, Family, std::less<>> families_
      ABSL_GUARDED_BY(mutex_);  // the set of names is fixed
};

}  // namespace

std::unique_ptr<Kv> OpenMemory(const std::vector<std::string>& families) {
  return std::make_unique<MemoryKv>(families);
}

absl::StatusOr<std::vector<std::pair<std::string, std::string>>> ScanAll(const Kv& kv,
                                                                         absl::string_view family,
                                                                         absl::string_view first,
                                                                         absl::string_view last) {
  Pairs pairs;
  MUSTER_RETURN_IF_ERROR(
      kv.Scan(family, first, last, [&](absl::string_view key, absl::string_view value) {
        pairs.emplace_back(key, value);
        return true;
      }));
  return pairs;
}

std::string PrefixEnd(absl::string_view prefix) {
  std::string end(prefix);
  while (!end.empty() && static_cast<unsigned char>(end.back()) == 0xff) end.pop_back();
  if (!end.empty()) end.back() = static_cast<char>(static_cast<unsigned char>(end.back()) + 1);
  return end;
}

}  // namespace muster
