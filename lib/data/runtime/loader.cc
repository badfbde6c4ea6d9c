#include "lib/data/runtime/loader.h"

#include <algorithm>
#include <exception>
#include <new>
#include <utility>

#include "lib/base/status.h"
#include "lib/data/read_good.h"
#include "lib/kernels/float_env.h"

namespace muster {
namespace {

// Enough that a slice costs more than to hand it out, and so few that threads share a lane.
constexpr size_t kSliceBytes = size_t{256} << 10;
// Where samples are large a slice is several of them, since what decodes images goes on with the
// next one of a slice while the last one is taken.
constexpr size_t kSlicesPerThread = 4;

// Positions in `ids` of those that are left out. A data set may be anybody's: what it throws is an
// error here.
absl::StatusOr<std::vector<uint32_t>> ReadInto(const DataSet& set, OnBadSample on_bad_sample,
                                               int64_t epoch, absl::Span<const uint64_t> ids,
                                               Batch& batch, size_t first) {
  try {
    if (on_bad_sample == OnBadSample::kSkip) return ReadGood(set, epoch, ids, batch, first);
    MUSTER_RETURN_IF_ERROR(set.ReadInto(epoch, ids, batch, first));
    return std::vector<uint32_t>();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("no memory to read samples");
  } catch (const std::exception& thrown) {
    return absl::InternalError(absl::StrCat("the data set throws: ", thrown.what()));
  } catch (...) {
    return absl::InternalError("the data set throws what is no exception");
  }
}

absl::Status Make(const DataSet& set, size_t samples, Batch& batch) {
  try {
    batch = Batch(set.Fields(), samples);
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no memory for a lane of ", samples,
                     " samples; take more lanes, a smaller batch or smaller samples"));
  }
  return absl::OkStatus();
}

}  // namespace

Loader::Loader(const DataSet& set, int threads, size_t most_bytes, OnBadSample on_bad_sample)
    : set_(set),
      most_bytes_(most_bytes),
      on_bad_sample_(on_bad_sample),
      slice_(std::max<size_t>(
          1, kSliceBytes / std::max<size_t>(1, Batch::BytesFor(set.Fields(), 1)))) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Run(); });
}

Loader::~Loader() {
  {
    const MutexLock lock(mutex_);
    ends_ = true;
  }
  changed_.NotifyAll();
  for (std::thread& thread : threads_) thread.join();
}

size_t Loader::BytesOf(const Lane& lane) const {
  return Batch::BytesFor(set_.Fields(), lane.wanted.samples.size());
}

void Loader::Forget(const Lane& lane) {
  if (lane.has_batch) held_bytes_ -= BytesOf(lane);
}

Loader::LanePtr Loader::Find(int64_t epoch, absl::Span<const uint64_t> ids) {
  for (const LanePtr& lane : lanes_)
    if (lane->wanted.epoch == epoch && absl::MakeConstSpan(lane->wanted.samples) == ids)
      return lane;
  return nullptr;
}

void Loader::Coming(std::vector<ComingLane> lanes) {
  if (threads_.empty()) return;
  const MutexLock lock(mutex_);
  std::deque<LanePtr> wanted;
  for (ComingLane& coming : lanes) {
    LanePtr lane = Find(coming.epoch, coming.samples);
    if (lane == nullptr) {
      lane = std::make_shared<Lane>();
      lane->wanted = std::move(coming);
    }
    wanted.push_back(std::move(lane));
  }
  for (const LanePtr& lane : lanes_)
    if (std::find(wanted.begin(), wanted.end(), lane) == wanted.end()) Forget(*lane);
  lanes_ = std::move(wanted);
  changed_.NotifyAll();
}

// The first lane of which something is not handed out, if there is room for it. None behind it is
// begun before it.
Loader::LanePtr Loader::NextLane() {
  for (const LanePtr& lane : lanes_) {
    if (lane->handed_out == lane->wanted.samples.size()) continue;
    const bool fits = held_bytes_ == 0 || held_bytes_ + BytesOf(*lane) <= most_bytes_;
    return lane->has_batch || fits ? lane : nullptr;
  }
  return nullptr;
}

Loader::Slice Loader::HandOut(Lane& lane) {
  const size_t first = lane.handed_out;
  const size_t all = lane.wanted.samples.size();
  const size_t share = threads_.empty() ? all : all / (kSlicesPerThread * threads_.size());
  const size_t count = std::min(std::max(slice_, share), all - first);
  lane.handed_out += count;
  return {first, count};
}

// A slice of it, with the mutex let go meanwhile.
void Loader::Read(Lane& lane) {
  const Slice slice = HandOut(lane);
  mutex_.Unlock();
  const absl::StatusOr<std::vector<uint32_t>> left_out =
      ReadInto(set_, on_bad_sample_, lane.wanted.epoch,
               absl::MakeConstSpan(lane.wanted.samples).subspan(slice.first, slice.count),
               lane.batch, slice.first);
  mutex_.Lock();
  lane.done += slice.count;
  // The same error whichever thread was faster.
  if (!left_out.ok() && slice.first < lane.bad_from) {
    lane.bad_from = slice.first;
    lane.status = left_out.status();
  }
  if (left_out.ok())
    for (const uint32_t position : *left_out)
      lane.left_out.push_back(static_cast<uint32_t>(slice.first) + position);
  if (lane.done == lane.wanted.samples.size()) changed_.NotifyAll();
}

void Loader::Run() {
  SetFloatEnvironment();
  const MutexLock lock(mutex_);
  while (!ends_) {
    const LanePtr lane = NextLane();
    if (lane == nullptr) {
      changed_.Wait(mutex_);
      continue;
    }
    if (!lane->has_batch) {
      lane->status = Make(set_, lane->wanted.samples.size(), lane->batch);
      if (!lane->status.ok()) {
        lane->bad_from = 0;
        lane->handed_out = lane->done = lane->wanted.samples.size();
        changed_.NotifyAll();
        continue;
      }
      lane->has_batch = true;
      held_bytes_ += BytesOf(*lane);
    }
    Read(*lane);
  }
}

absl::StatusOr<Batch> Loader::Take(int64_t epoch, absl::Span<const uint64_t> ids,
                                   std::vector<uint32_t>* left_out) {
  const MutexLock lock(mutex_);
  LanePtr lane = Find(epoch, ids);
  if (lane == nullptr || !lane->has_batch) {
    if (lane != nullptr) std::erase(lanes_, lane);
    lane = std::make_shared<Lane>();
    lane->wanted = {epoch, {ids.begin(), ids.end()}};
    MUSTER_RETURN_IF_ERROR(Make(set_, ids.size(), lane->batch));
  } else {
    std::erase(lanes_, lane);
    Forget(*lane);
    changed_.NotifyAll();  // there is room for another one
  }
  while (lane->handed_out < ids.size()) Read(*lane);
  while (lane->done < ids.size()) changed_.Wait(mutex_);
  MUSTER_RETURN_IF_ERROR(lane->status);
  // Slices end in any order.
  std::sort(lane->left_out.begin(), lane->left_out.end());
  if (left_out != nullptr) *left_out = std::move(lane->left_out);
  return std::move(lane->batch);
}

}  // namespace muster
