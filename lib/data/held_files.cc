#include "lib/data/held_files.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

#include "lib/base/status.h"

namespace muster {
namespace {

// A read is of a lane, or of a good part of one: so many files cost it nothing.
constexpr size_t kAtOnce = 4;

class Held final : public ByteSource {
 public:
  Held(SourcePtr memory, std::function<absl::Status()> check)
      : memory_(std::move(memory)), check_(std::move(check)) {}

  const std::string& name() const override { return memory_->name(); }
  uint64_t size() const override { return memory_->size(); }

  absl::Status ReadEach(absl::Span<const Piece> pieces) const override {
    MUSTER_RETURN_IF_ERROR(check_());
    return memory_->ReadEach(pieces);
  }

 private:
  const SourcePtr memory_;
  const std::function<absl::Status()> check_;
};

}  // namespace

std::function<absl::Status()> CheckInTurn(std::vector<SourcePtr> files) {
  const auto next = std::make_shared<std::atomic<size_t>>(0);
  return [files = std::move(files), next]() -> absl::Status {
    const size_t some = std::min(kAtOnce, files.size());
    const size_t first = next->fetch_add(some, std::memory_order_relaxed);
    for (size_t i = 0; i < some; ++i)
      MUSTER_RETURN_IF_ERROR(files[(first + i) % files.size()]->ReadEach({}));
    return absl::OkStatus();
  };
}

SourcePtr HeldSource(std::string name, std::string bytes, std::function<absl::Status()> check,
                     DataMemory memory) {
  return std::make_shared<Held>(MemorySource(std::move(name), std::move(bytes), std::move(memory)),
                                std::move(check));
}

}  // namespace muster
