#include "lib/data/runtime/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <random>
#include <set>
#include <stdexcept>
#include <thread>

#include "lib/base/mutex.h"

namespace muster {
namespace {

using testing::HasSubstr;

// A sample is its id and the epoch. Reads can be held up and counted.
class Numbers final : public DataSet {
 public:
  explicit Numbers(size_t numbers_of_a_sample)
      : fields_{{"n", TensorType::kInt64, {static_cast<int64_t>(numbers_of_a_sample)}}} {}

  const std::vector<DataField>& Fields() const override { return fields_; }
  uint64_t Samples() const override { return 1'000'000; }
  std::string ContentHash() const override { return "hash"; }

  absl::Status ReadInto(int64_t epoch, absl::Span<const uint64_t> ids, Batch& batch,
                        size_t first) const override {
    {
      MutexLock lock(mutex_);
      while (held_) changed_.Wait(mutex_);
      for (size_t i = 0; i < ids.size(); ++i) read_.push_back(ids[i]);
      changed_.NotifyAll();
    }
    for (size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] == bad_) return absl::DataLossError(absl::StrCat("sample ", ids[i], " is bad"));
      if (broken_.count(ids[i]) > 0) return BadSample("broken");
      if (ids[i] == thrown_) throw std::runtime_error("thrown");
      const absl::Span<std::byte> row = batch.row(0, first + i);
      const int64_t number = epoch * 1'000'000 + static_cast<int64_t>(ids[i]);
      for (size_t at = 0; at < row.size(); at += sizeof(number))
        std::memcpy(row.data() + at, &number, sizeof(number));
    }
    return absl::OkStatus();
  }

  void Hold() {
    const MutexLock lock(mutex_);
    held_ = true;
  }
  void LetGo() {
    const MutexLock lock(mutex_);
    held_ = false;
    changed_.NotifyAll();
  }
  void WaitUntilRead(size_t count) const {
    MutexLock lock(mutex_);
    while (read_.size() < count) changed_.Wait(mutex_);
  }
  std::vector<uint64_t> read() const {
    const MutexLock lock(mutex_);
    return read_;
  }
  uint64_t bad_ = UINT64_MAX, thrown_ = UINT64_MAX;
  std::set<uint64_t> broken_;

 private:
  const std::vector<DataField> fields_;
  mutable Mutex mutex_;
  mutable CondVar changed_;
  mutable std::vector<uint64_t> read_ ABSL_GUARDED_BY(mutex_);
  bool held_ ABSL_GUARDED_BY(mutex_) = false;
};

std::string BytesOf(const absl::StatusOr<Batch>& batch) {
  EXPECT_TRUE(batch.ok()) << batch.status();
  if (!batch.ok()) return "";
  const absl::Span<const std::byte> bytes = batch->of(0);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

ComingLane Lane(int64_t epoch, uint64_t first, size_t count) {
  ComingLane lane{epoch, {}};
  for (size_t i = 0; i < count; ++i) lane.samples.push_back(first + i * 7 % 101);
  return lane;
}

// Samples of 8 bytes are read in slices of 32768, those of 256 KiB one by one.
constexpr size_t kSmall = 1, kLarge = 32768;

TEST(Loader, ReadsAheadInTheOrderThatItIsTold) {
  const Numbers set(kLarge);
  Loader loader(set, 1, 1 << 24);
  const ComingLane one = Lane(0, 10, 3), two = Lane(0, 200, 2);
  loader.Coming({one, two});
  set.WaitUntilRead(5);
  std::vector<uint64_t> both = one.samples;
  both.insert(both.end(), two.samples.begin(), two.samples.end());
  EXPECT_EQ(set.read(), both);
  EXPECT_EQ(BytesOf(loader.Take(0, one.samples)), BytesOf(set.Read(0, one.samples)));
}

TEST(Loader, HoldsNoMoreThanItsBound) {
  const Numbers set(kLarge);  // 256 KiB each
  Loader loader(set, 2, 5 * (size_t{256} << 10));
  const ComingLane one = Lane(0, 0, 2), two = Lane(0, 100, 2), three = Lane(0, 200, 2);
  loader.Coming({one, two, three});
  set.WaitUntilRead(4);
  EXPECT_EQ(set.read().size(), 4u);
  EXPECT_TRUE(loader.Take(0, one.samples).ok());
  set.WaitUntilRead(6);  // there is room for the third now
}

TEST(Loader, ALaneLargerThanTheBoundIsReadAllTheSame) {
  const Numbers set(kLarge);
  Loader loader(set, 1, 1);
  const ComingLane lane = Lane(0, 0, 3);
  loader.Coming({lane});
  set.WaitUntilRead(3);
  EXPECT_TRUE(loader.Take(0, lane.samples).ok());
}

TEST(Loader, WhatDoesNotComeAnyMoreIsForgotten) {
  const Numbers set(kLarge);
  Loader loader(set, 1, 2 * (size_t{256} << 10));
  const ComingLane one = Lane(0, 0, 2), two = Lane(0, 100, 2);
  loader.Coming({one});
  set.WaitUntilRead(2);
  loader.Coming({two});  // there is no room for it, unless the first is forgotten
  set.WaitUntilRead(4);
  EXPECT_EQ(BytesOf(loader.Take(0, one.samples)), BytesOf(set.Read(0, one.samples)));
}

TEST(Loader, WhatIsToldAgainIsReadOnce) {
  const Numbers set(kLarge);
  Loader loader(set, 1, 1 << 24);
  const ComingLane one = Lane(0, 0, 2), two = Lane(0, 100, 2);
  loader.Coming({one});
  set.WaitUntilRead(2);
  loader.Coming({one, two});
  set.WaitUntilRead(4);
  EXPECT_TRUE(loader.Take(0, one.samples).ok());
  EXPECT_EQ(set.read().size(), 4u);
}

TEST(Loader, TheEpochIsPartOfWhatIsRead) {
  const Numbers set(kSmall);
  Loader loader(set, 2, 1 << 20);
  const ComingLane lane = Lane(3, 0, 10);
  loader.Coming({lane});
  set.WaitUntilRead(10);
  EXPECT_EQ(BytesOf(loader.Take(4, lane.samples)), BytesOf(set.Read(4, lane.samples)));
  EXPECT_EQ(BytesOf(loader.Take(3, lane.samples)), BytesOf(set.Read(3, lane.samples)));
}

TEST(Loader, TheFirstBadSampleIsToldWhicheverThreadIsFaster) {
  Numbers set(kLarge);
  set.bad_ = 14;
  for (const int threads : {0, 1, 3}) {
    Loader loader(set, threads, 1 << 24);
    const ComingLane lane = Lane(0, 0, 20);
    loader.Coming({lane});
    EXPECT_THAT(std::string(loader.Take(0, lane.samples).status().message()),
                HasSubstr("sample 14 is bad"));
    EXPECT_TRUE(loader.Take(0, std::vector<uint64_t>{1}).ok());
  }
}

// In the order of the lane, whichever threads read it; other errors remain.
TEST(Loader, BadSamplesAreLeftOutWhereTheyMayBe) {
  Numbers set(kLarge);
  set.broken_ = {14, 35, 0};
  const ComingLane lane = Lane(0, 0, 20);
  std::vector<uint32_t> right;
  for (uint32_t i = 0; i < 20; ++i)
    if (set.broken_.count(lane.samples[i]) > 0) right.push_back(i);
  ASSERT_EQ(right.size(), 3u);
  for (const int threads : {0, 1, 3})
    for (const size_t numbers : {kSmall, kLarge}) {
      Numbers sized(numbers);
      sized.broken_ = set.broken_;
      Loader loader(sized, threads, 1 << 24, OnBadSample::kSkip);
      loader.Coming({lane});
      std::vector<uint32_t> left_out;
      const auto batch = loader.Take(0, lane.samples, &left_out);
      ASSERT_TRUE(batch.ok()) << batch.status();
      EXPECT_EQ(left_out, right);
      for (uint32_t i = 0; i < 20; ++i) {
        int64_t number = 0;
        std::memcpy(&number, batch->row(0, i).data(), sizeof(number));
        if (sized.broken_.count(lane.samples[i]) == 0) {
          EXPECT_EQ(number, static_cast<int64_t>(lane.samples[i]));
        }
      }
      left_out = {7};
      ASSERT_TRUE(loader.Take(0, std::vector<uint64_t>{1, 2}, &left_out).ok());
      EXPECT_TRUE(left_out.empty());
      ASSERT_TRUE(loader.Take(0, std::vector<uint64_t>{35, 14}, &left_out).ok());
      EXPECT_EQ(left_out, (std::vector<uint32_t>{0, 1}));
      sized.bad_ = 21;
      EXPECT_FALSE(loader.Take(0, lane.samples, &left_out).ok()) << "this is no bad sample";
      Loader stops(sized, threads, 1 << 24);
      EXPECT_TRUE(IsBadSample(stops.Take(0, std::vector<uint64_t>{1, 14}).status()));
    }
}

TEST(Loader, WhatADataSetThrowsIsAnError) {
  Numbers set(kSmall);
  set.thrown_ = 7;
  for (const int threads : {0, 2}) {
    Loader loader(set, threads, 1 << 20);
    const ComingLane lane = Lane(0, 0, 20);
    loader.Coming({lane});
    EXPECT_THAT(std::string(loader.Take(0, lane.samples).status().message()),
                HasSubstr("the data set throws: thrown"));
  }
}

TEST(Loader, EndsWhileSomethingIsBeingRead) {
  Numbers set(kLarge);
  set.Hold();
  std::thread lets_go;
  {
    Loader loader(set, 2, 1 << 24);
    loader.Coming({Lane(0, 0, 5)});
    lets_go = std::thread([&] { set.LetGo(); });
  }
  lets_go.join();
}

// The dumb twin is the data set itself: whatever is told, skipped, repeated or never told, the
// bytes are its.
TEST(Loader, GivesWhatTheDataSetGives) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    std::mt19937 random(seed);
    const Numbers set(seed % 2 == 0 ? kSmall : 4000);
    Loader loader(set, static_cast<int>(random() % 4), 1 << (10 + random() % 12));
    std::vector<ComingLane> lanes;
    for (uint64_t i = 0; i < 30; ++i)
      lanes.push_back(Lane(static_cast<int64_t>(random() % 2), i * 1000, 1 + random() % 60));
    for (size_t at = 0; at < lanes.size(); ++at) {
      if (random() % 2 == 0)
        loader.Coming({lanes.begin() + static_cast<std::ptrdiff_t>(at),
                       lanes.begin() +
                           static_cast<std::ptrdiff_t>(std::min(lanes.size(), at + random() % 6))});
      const ComingLane& lane = lanes[random() % 5 == 0 ? random() % lanes.size() : at];
      ASSERT_EQ(BytesOf(loader.Take(lane.epoch, lane.samples)),
                BytesOf(set.Read(lane.epoch, lane.samples)));
    }
  }
}

}  // namespace
}  // namespace muster
