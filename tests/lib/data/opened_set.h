// A folder of data files, and data sets of it, for tests.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "muster/data_set.h"

namespace muster {

class Files {
 public:
  Files() {
    std::string name = (std::filesystem::temp_directory_path() / "data_set_XXXXXX").string();
    root_ = mkdtemp(name.data());
  }
  ~Files() { std::filesystem::remove_all(root_); }
  Files(const Files&) = delete;
  Files& operator=(const Files&) = delete;

  std::string Write(const std::string& name, const std::string& content) const {
    std::filesystem::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name, std::ios::binary) << content;
    return (root_ / name).string();
  }
  std::string root() const { return root_.string(); }

 private:
  std::filesystem::path root_;
};

inline std::unique_ptr<DataSet> Opened(const DataSpec& data, DataPart part = DataPart::kTraining) {
  absl::StatusOr<std::unique_ptr<DataSet>> set = OpenDataSet(data, 7, part);
  EXPECT_TRUE(set.ok()) << set.status();
  return set.ok() ? *std::move(set) : nullptr;
}

template <class T>
std::vector<T> Values(absl::Span<const std::byte> bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

// All elements of a field of these samples, in their order.
template <class T>
std::vector<T> Read(const DataSet& set, size_t field, const std::vector<uint64_t>& ids,
                    int64_t epoch = 0) {
  const absl::StatusOr<Batch> batch = set.Read(epoch, ids);
  EXPECT_TRUE(batch.ok()) << batch.status();
  return batch.ok() ? Values<T>(batch->of(field)) : std::vector<T>();
}

}  // namespace muster
