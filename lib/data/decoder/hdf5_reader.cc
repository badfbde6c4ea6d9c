#include "lib/data/decoder/hdf5_reader.h"

#include <hdf5.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lib/base/status.h"

namespace muster {
namespace {

constexpr size_t kMostDatasets = 10'000;
constexpr size_t kMostOpened = 8;
constexpr int kMostDimensions = 32;
// Of each array that is open: the chunks that were unpacked last.
constexpr size_t kChunkCacheBytes = size_t{32} << 20, kChunkCacheSlots = 12'421;

// What libhdf5 gives, closed when it goes. Below 0: it has given nothing.
class Handle {
 public:
  Handle(hid_t id, herr_t (*close)(hid_t)) : id_(id), close_(close) {}
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
  Handle& operator=(Handle&&) = delete;
  ~Handle() {
    if (ok()) close_(id_);
  }
  bool ok() const { return id_ >= 0; }
  hid_t get() const { return id_; }

 private:
  hid_t id_;
  herr_t (*close_)(hid_t);
};

// What went wrong furthest inside, in libhdf5's words.
std::string WhyNot() {
  std::string why;
  H5Ewalk2(
      H5E_DEFAULT, H5E_WALK_UPWARD,
      [](unsigned, const H5E_error2_t* error, void* into) -> herr_t {
        if (error->desc != nullptr) *static_cast<std::string*>(into) = error->desc;
        return 1;  // the first says most
      },
      &why);
  return why.empty() ? "libhdf5 does not say why" : why;
}

// After a call of libhdf5 that failed, before which errno was 0. What the system refuses, memory as
// well, leaves its number there, and libhdf5 does not say which of its errors began with that;
// bytes that are bad leave none. `of_bytes`: the code of those.
absl::Status Failed(absl::string_view what, absl::StatusCode of_bytes) {
  const int refused = errno;
  if (refused == ENOMEM) return absl::ResourceExhaustedError("");
  if (refused != 0)
    return absl::UnavailableError(
        absl::StrCat("it cannot be read: ", std::generic_category().message(refused)));
  return {of_bytes, absl::StrCat(what, ": ", WhyNot())};
}

absl::Status Broken(absl::string_view what) { return Failed(what, absl::StatusCode::kUnavailable); }

// The type that a task gets, and the one that libhdf5 is to give its bytes in.
struct ElementType {
  TensorType type = TensorType::kFloat32;
  Handle memory;
};

bool IsHalf(hid_t type) {
  size_t sign = 0, exponent = 0, exponent_bits = 0, fraction = 0, fraction_bits = 0;
  return H5Tget_size(type) == 2 &&
         H5Tget_fields(type, &sign, &exponent, &exponent_bits, &fraction, &fraction_bits) >= 0 &&
         sign == 15 && exponent == 10 && exponent_bits == 5 && fraction == 0 &&
         fraction_bits == 10 && H5Tget_ebias(type) == 15;
}

// As h5py writes it: bytes that are called FALSE and TRUE.
bool IsBoolean(hid_t type) {
  int8_t no = -1, yes = -1;
  return H5Tget_size(type) == 1 && H5Tget_nmembers(type) == 2 &&
         H5Tenum_valueof(type, "FALSE", &no) >= 0 && H5Tenum_valueof(type, "TRUE", &yes) >= 0 &&
         no == 0 && yes == 1;
}

std::optional<ElementType> TypeOf(hid_t stored) {
  const auto known = [](TensorType type, hid_t memory) {
    return ElementType{type, Handle(H5Tcopy(memory), H5Tclose)};
  };
  const auto same = [&](hid_t little, hid_t big) {
    return H5Tequal(stored, little) > 0 || H5Tequal(stored, big) > 0;
  };
  if (same(H5T_IEEE_F32LE, H5T_IEEE_F32BE)) return known(TensorType::kFloat32, H5T_NATIVE_FLOAT);
  if (same(H5T_IEEE_F64LE, H5T_IEEE_F64BE)) return known(TensorType::kFloat64, H5T_NATIVE_DOUBLE);
  if (same(H5T_STD_I8LE, H5T_STD_I8BE)) return known(TensorType::kInt8, H5T_NATIVE_INT8);
  if (same(H5T_STD_I16LE, H5T_STD_I16BE)) return known(TensorType::kInt16, H5T_NATIVE_INT16);
  if (same(H5T_STD_I32LE, H5T_STD_I32BE)) return known(TensorType::kInt32, H5T_NATIVE_INT32);
  if (same(H5T_STD_I64LE, H5T_STD_I64BE)) return known(TensorType::kInt64, H5T_NATIVE_INT64);
  if (same(H5T_STD_U8LE, H5T_STD_U8BE)) return known(TensorType::kUint8, H5T_NATIVE_UINT8);
  if (H5Tget_class(stored) == H5T_ENUM && IsBoolean(stored))
    return known(TensorType::kBool, stored);
  if (H5Tget_class(stored) != H5T_FLOAT || !IsHalf(stored)) return std::nullopt;
  ElementType half = known(TensorType::kFloat16, stored);
  if (H5Tset_order(half.memory.get(), H5Tget_order(H5T_NATIVE_INT16)) < 0) return std::nullopt;
  return half;
}

constexpr char kInOtherFiles[] = "lies in other files, which data.paths would have to name";

// Of an array that cannot be opened. Of one that is put together from others (a virtual one), newer
// libraries write the parts in a form that this one does not know.
std::string WhyNotOpened() {
  bool is_virtual = false;
  H5Ewalk2(
      H5E_DEFAULT, H5E_WALK_UPWARD,
      [](unsigned, const H5E_error2_t* error, void* into) -> herr_t {
        if (error->desc != nullptr && absl::StrContains(error->desc, "space selection"))
          *static_cast<bool*>(into) = true;
        return 0;
      },
      &is_virtual);
  return is_virtual ? kInOtherFiles : absl::StrCat("cannot be read: ", WhyNot());
}

// Of a link on the way to `key` that is not followed, or behind which there is nothing. Empty:
// there is none.
std::string WhyLinkLeadsNowhere(hid_t file, const std::string& key) {
  for (size_t end = key.find('/', 1);; end = key.find('/', end + 1)) {
    const std::string way = key.substr(0, end);
    const absl::string_view is = end == std::string::npos ? "is" : "lies behind";
    H5L_info_t link{};
    if (H5Lget_info(file, way.c_str(), &link, H5P_DEFAULT) < 0) return "";
    if (link.type == H5L_TYPE_EXTERNAL)
      return absl::StrCat(is, " a link into another file, which data.paths would have to name");
    if (link.type == H5L_TYPE_SOFT && H5Oexists_by_name(file, way.c_str(), H5P_DEFAULT) <= 0)
      return absl::StrCat(is, " a link that leads nowhere in this file");
    if (end == std::string::npos) return "";
  }
}

// Data that lies in other files would be read by whatever name this file gives.
bool LeadsToOtherFiles(hid_t dataset) {
  const Handle made(H5Dget_create_plist(dataset), H5Pclose);
  return !made.ok() || H5Pget_layout(made.get()) == H5D_VIRTUAL ||
         H5Pget_external_count(made.get()) != 0;
}

Handle OpenFile(const std::string& path) {
  return {H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose};
}

// How datasets are opened. It outlives what is asked about one that could not be: to close it
// forgets why.
Handle DatasetAccess() {
  Handle access(H5Pcreate(H5P_DATASET_ACCESS), H5Pclose);
  H5Pset_chunk_cache(access.get(), kChunkCacheSlots, kChunkCacheBytes, 1.0);
  return access;
}

Handle OpenDataset(hid_t file, const std::string& key, const Handle& access) {
  return {H5Dopen2(file, key.c_str(), access.get()), H5Dclose};
}

// Its dimensions. Empty: it has none, or none that can be.
std::vector<hsize_t> DimensionsOf(hid_t dataset) {
  const Handle space(H5Dget_space(dataset), H5Sclose);
  if (!space.ok() || H5Sget_simple_extent_type(space.get()) != H5S_SIMPLE) return {};
  const int count = H5Sget_simple_extent_ndims(space.get());
  if (count < 1 || count > kMostDimensions) return {};
  std::vector<hsize_t> dimensions(static_cast<size_t>(count));
  if (H5Sget_simple_extent_dims(space.get(), dimensions.data(), nullptr) < 0) return {};
  return dimensions;
}

// Nothing: its bytes must be unpacked, turned around or gathered, or were never written.
std::optional<uint64_t> OffsetOf(hid_t dataset, hid_t stored, const ElementType& type) {
  const Handle made(H5Dget_create_plist(dataset), H5Pclose);
  if (!made.ok() || H5Pget_layout(made.get()) != H5D_CONTIGUOUS ||
      H5Tequal(stored, type.memory.get()) <= 0)
    return std::nullopt;
  const haddr_t offset = H5Dget_offset(dataset);
  return offset == HADDR_UNDEF ? std::nullopt : std::optional<uint64_t>(offset);
}

Hdf5Dataset Described(hid_t dataset, const std::string& key) {
  Hdf5Dataset described{.key = key};
  const std::vector<hsize_t> dimensions = DimensionsOf(dataset);
  const Handle stored(H5Dget_type(dataset), H5Tclose);
  const std::optional<ElementType> type = stored.ok() ? TypeOf(stored.get()) : std::nullopt;
  if (!type.has_value()) {
    described.why_not =
        "has elements that are not float16, 32 or 64, int8, 16, 32 or 64, uint8 or bool";
  } else if (dimensions.empty()) {
    described.why_not = "is a single value, or empty; its first dimension must be the samples'";
  } else if (LeadsToOtherFiles(dataset)) {
    described.why_not = kInOtherFiles;
  } else {
    described.type = type->type;
    described.rows = dimensions[0];
    described.shape.assign(dimensions.begin() + 1, dimensions.end());
    described.offset = OffsetOf(dataset, stored.get(), *type);
  }
  return described;
}

}  // namespace

struct Hdf5Reader::Opened {
  std::string path, key;
  Handle file, dataset;
  ElementType type;
  std::vector<hsize_t> dimensions;
};

Hdf5Reader::Hdf5Reader() {
  H5open();
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  H5PLset_loading_state(0);          // no filter of a library that lies somewhere
  H5Lunregister(H5L_TYPE_EXTERNAL);  // no link into another file
}

Hdf5Reader::~Hdf5Reader() = default;

std::string Hdf5Reader::Version() {
  unsigned major = 0, minor = 0, release = 0;
  H5get_libversion(&major, &minor, &release);
  return absl::StrCat("libhdf5 ", major, ".", minor, ".", release);
}

absl::StatusOr<std::vector<Hdf5Dataset>> Hdf5Reader::Datasets(
    const std::string& path, const std::vector<std::string>& keys) {
  errno = 0;
  const Handle file = OpenFile(path);
  if (!file.ok()) return Broken("it is no HDF5 file, or broken");
  std::vector<std::string> names;
  // Of each no more than its kind, so that one that cannot be read is told by its name.
  const herr_t visited = H5Ovisit2(
      file.get(), H5_INDEX_NAME, H5_ITER_INC,
      [](hid_t, const char* name, const H5O_info_t* object, void* into) -> herr_t {
        auto& found = *static_cast<std::vector<std::string>*>(into);
        if (object->type == H5O_TYPE_DATASET) found.emplace_back(name);
        return found.size() > kMostDatasets ? -1 : 0;
      },
      &names, H5O_INFO_BASIC);
  if (names.size() > kMostDatasets)
    return absl::UnavailableError(absl::StrCat("it holds more than ", kMostDatasets, " arrays"));
  if (visited < 0) return Broken("what it holds cannot be read");
  const size_t found = names.size();
  for (const std::string& key : keys)
    if (std::find(names.begin(), names.end(), key) == names.end()) names.push_back(key);
  const Handle access = DatasetAccess();
  std::vector<Hdf5Dataset> datasets;
  for (size_t i = 0; i < names.size(); ++i) {
    const Handle dataset = OpenDataset(file.get(), names[i], access);
    if (dataset.ok()) {
      datasets.push_back(Described(dataset.get(), names[i]));
      continue;
    }
    std::string why_not = i < found ? WhyNotOpened() : WhyLinkLeadsNowhere(file.get(), names[i]);
    if (!why_not.empty()) datasets.push_back({.key = names[i], .why_not = std::move(why_not)});
  }
  return datasets;
}

absl::StatusOr<const Hdf5Reader::Opened*> Hdf5Reader::Open(const std::string& path,
                                                           const std::string& key) {
  const auto known =
      std::find_if(opened_.begin(), opened_.end(), [&](const std::unique_ptr<Opened>& opened) {
        return opened->path == path && opened->key == key;
      });
  if (known != opened_.end()) {
    opened_.splice(opened_.begin(), opened_, known);
    return opened_.front().get();
  }
  errno = 0;
  Handle file = OpenFile(path);
  if (!file.ok()) return Broken("it is no HDF5 file, or broken");
  const Handle access = DatasetAccess();
  Handle dataset = OpenDataset(file.get(), key, access);
  if (!dataset.ok()) return Broken("it cannot be read");
  const Hdf5Dataset described = Described(dataset.get(), key);
  if (!described.why_not.empty()) return absl::UnavailableError("it " + described.why_not);
  const Handle stored(H5Dget_type(dataset.get()), H5Tclose);
  std::vector<hsize_t> dimensions = DimensionsOf(dataset.get());
  while (opened_.size() >= kMostOpened) opened_.pop_back();
  opened_.push_front(
      std::unique_ptr<Opened>(new Opened{path, key, std::move(file), std::move(dataset),
                                         *TypeOf(stored.get()), std::move(dimensions)}));
  return opened_.front().get();
}

absl::StatusOr<std::string> Hdf5Reader::Rows(const std::string& path, const std::string& key,
                                             uint64_t first, uint64_t rows) {
  MUSTER_ASSIGN_OR_RETURN(const Opened* const opened, Open(path, key));
  std::vector<hsize_t> start(opened->dimensions.size(), 0), count = opened->dimensions;
  if (first > count[0] || rows > count[0] - first)
    return absl::UnavailableError(absl::StrCat("it has ", count[0], " rows"));
  start[0] = first;
  count[0] = rows;
  auto bytes = static_cast<uint64_t>(BytesOfElement(opened->type.type));
  for (const hsize_t size : count)
    if (__builtin_mul_overflow(bytes, size, &bytes))
      return absl::UnavailableError("it is too large");
  errno = 0;
  const Handle memory(H5Screate_simple(static_cast<int>(count.size()), count.data(), nullptr),
                      H5Sclose);
  const Handle space(H5Dget_space(opened->dataset.get()), H5Sclose);
  if (!memory.ok() || !space.ok() ||
      H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, start.data(), nullptr, count.data(),
                          nullptr) < 0)
    return Broken("it cannot be read");
  std::string into(static_cast<size_t>(bytes), '\0');
  errno = 0;
  if (H5Dread(opened->dataset.get(), opened->type.memory.get(), memory.get(), space.get(),
              H5P_DEFAULT, into.data()) < 0)
    return Failed("it cannot be read", absl::StatusCode::kDataLoss);
  return into;
}

}  // namespace muster
