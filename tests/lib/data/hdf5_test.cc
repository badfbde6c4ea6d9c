// Files of HDF5 that libhdf5 writes, read by way of muster-decoder.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hdf5.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <ostream>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/whole_file.h"
#include "lib/data/array_set.h"
#include "lib/data/byte_source.h"
#include "lib/data/decoder_process.h"
#include "lib/data/decoder_wire.h"
#include "lib/data/hash_listener.h"
#include "lib/data/opened_data.h"
#include "lib/data/read_good.h"
#include "tests/lib/data/opened_set.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A file that is being written.
class Hdf5File {
 public:
  explicit Hdf5File(std::string path, hid_t made = H5P_DEFAULT)
      : path_(std::move(path)), id_(H5Fcreate(path_.c_str(), H5F_ACC_TRUNC, made, H5P_DEFAULT)) {}
  ~Hdf5File() { H5Fclose(id_); }
  Hdf5File(const Hdf5File&) = delete;
  Hdf5File& operator=(const Hdf5File&) = delete;

  hid_t id() const { return id_; }

  // `chunk` rows are packed together by deflate; 0: they lie one after the other. Groups are made.
  template <class T>
  void Add(const std::string& name, hid_t type, const std::vector<hsize_t>& shape,
           const std::vector<T>& values, hsize_t chunk = 0) {
    const hid_t made = H5Pcreate(H5P_DATASET_CREATE), links = H5Pcreate(H5P_LINK_CREATE);
    H5Pset_create_intermediate_group(links, 1);
    if (chunk > 0) {
      std::vector<hsize_t> of_chunk = shape;
      of_chunk[0] = chunk;
      H5Pset_chunk(made, static_cast<int>(shape.size()), of_chunk.data());
      H5Pset_shuffle(made);
      H5Pset_deflate(made, 6);
    }
    const hid_t space = H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr);
    const hid_t set = H5Dcreate2(id_, name.c_str(), type, space, links, made, H5P_DEFAULT);
    if (!values.empty()) {
      EXPECT_GE(H5Dwrite(set, NativeOf(type), H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), 0);
    }
    H5Dclose(set);
    H5Sclose(space);
    H5Pclose(links);
    H5Pclose(made);
  }

 private:
  static hid_t NativeOf(hid_t type) { return H5Tget_native_type(type, H5T_DIR_ASCEND); }

  const std::string path_;
  const hid_t id_;
};

std::vector<float> Numbers(size_t count) {
  std::vector<float> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0.0f);
  return numbers;
}

std::string PathIn(const Files& files, const std::string& name) {
  return files.root() + "/" + name;
}

TEST(Hdf5, ArraysAreFoundByTheirPaths) {
  const Files files;
  const std::string path = PathIn(files, "a.h5");
  {
    Hdf5File file(path);
    file.Add("train/x", H5T_IEEE_F32LE, {5, 3}, Numbers(15));
    file.Add<int64_t>("train/y", H5T_STD_I64BE, {5}, {4, 3, 2, 1, 0});
    file.Add<uint32_t>("unsigned", H5T_STD_U32LE, {5}, {1, 2, 3, 4, 5});
  }
  const auto set = Opened(
      {.paths = {path}, .format = DataFormat::kHdf5, .keys = {"train/x"}, .label = "train/y"});
  ASSERT_NE(set, nullptr);
  EXPECT_THAT(set->Fields(), ElementsAre(DataField{"train/x", TensorType::kFloat32, {3}},
                                         DataField{"train/y", TensorType::kInt64, {}}));
  EXPECT_THAT(Read<float>(*set, 0, {4, 0}), ElementsAre(12, 13, 14, 0, 1, 2));
  EXPECT_THAT(Read<int64_t>(*set, 1, {0, 4, 1}), ElementsAre(4, 0, 3));
}

// Of this process, as the system tells them.
std::vector<pid_t> Children() {
  std::vector<pid_t> children;
  for (const auto& thread : fs::directory_iterator("/proc/self/task")) {
    std::ifstream pids(thread.path() / "children");
    children.insert(children.end(), std::istream_iterator<pid_t>(pids), {});
  }
  return children;
}

// A person does that, or a debugger. Nothing is lost, and it is told where one has waited for what.
TEST(Hdf5, ADecoderThatIsStoppedIsReplacedAndTold) {
  const Files files;
  const std::string path = PathIn(files, "a.h5");
  Hdf5File(path).Add("x", H5T_IEEE_F32LE, {5, 3}, Numbers(15), 1);
  std::vector<std::string> warned;
  HashListener listener{[](const PreparedSoFar&) {}, [] { return true; }};
  listener.patience = std::chrono::seconds(16);  // of which it may have two
  listener.warns = [&](const std::string& text) { warned.push_back(text); };
  std::unique_ptr<DataSet> set;
  {
    const HashListening listening(muster_set_hash_listener, listener);
    set = Opened({.paths = {path}, .format = DataFormat::kHdf5});
  }
  ASSERT_NE(set, nullptr);
  const std::vector<float> rows = Read<float>(*set, 0, {4, 0});
  EXPECT_THAT(rows, ElementsAre(12, 13, 14, 0, 1, 2));
  const std::vector<pid_t> stopped = Children();
  ASSERT_FALSE(stopped.empty());
  for (const pid_t pid : stopped) kill(pid, SIGSTOP);
  EXPECT_EQ(Read<float>(*set, 0, {4, 0}), rows);
  EXPECT_THAT(warned, ElementsAre(absl::StrCat("muster-decoder gave no answer for ", path,
                                               " (x): rows from 4 and others within 2 s; it was "
                                               "ended, and another one takes its place")));
}

TEST(Hdf5, PackedAndPlainOnesAreTheSameInAnyNumberOfFiles) {
  const Files files;
  const std::vector<float> numbers = Numbers(3000);
  {
    Hdf5File plain(PathIn(files, "plain.h5")), packed(PathIn(files, "packed.h5"));
    plain.Add("x", H5T_IEEE_F32LE, {1000, 3}, numbers);
    packed.Add("x", H5T_IEEE_F32LE, {1000, 3}, numbers, 64);
    fs::create_directory(PathIn(files, "two"));
    Hdf5File first(PathIn(files, "two/1.h5")), second(PathIn(files, "two/2.h5"));
    first.Add("x", H5T_IEEE_F32LE, {400, 3}, std::vector(numbers.begin(), numbers.begin() + 1200));
    second.Add("x", H5T_IEEE_F32LE, {600, 3}, std::vector(numbers.begin() + 1200, numbers.end()));
  }
  std::vector<std::string> hashes;
  for (const std::string name : {"plain.h5", "packed.h5", "two"}) {
    SCOPED_TRACE(name);
    const auto set = Opened({.paths = {PathIn(files, name)}, .format = DataFormat::kHdf5});
    ASSERT_NE(set, nullptr);
    EXPECT_THAT(Read<float>(*set, 0, {399, 400, 999, 0}),
                ElementsAre(1197, 1198, 1199, 1200, 1201, 1202, 2997, 2998, 2999, 0, 1, 2));
    hashes.push_back(set->ContentHash());
  }
  EXPECT_EQ(hashes[0], hashes[1]);
  EXPECT_EQ(hashes[0], hashes[2]);
}

// The way to another process and back is many times what a read of the file costs.
TEST(Hdf5, RowsThatLieSideBySideAreReadWithoutADecoder) {
  const Files files;
  const std::string path = PathIn(files, "a.h5");
  {
    Hdf5File file(path);
    file.Add("x", H5T_IEEE_F32LE, {5, 3}, Numbers(15));
    file.Add<float>("unwritten", H5T_IEEE_F32LE, {5}, {});
    file.Add("big", H5T_IEEE_F32BE, {5}, Numbers(5));
  }
  const auto set = Opened({.paths = {path}, .format = DataFormat::kHdf5, .keys = {"x"}});
  ASSERT_NE(set, nullptr);
  EXPECT_THAT(Children(), IsEmpty()) << "it has told all that there is to know";
  EXPECT_THAT(Read<float>(*set, 0, {4, 0}), ElementsAre(12, 13, 14, 0, 1, 2));
  EXPECT_THAT(Children(), IsEmpty());
  const auto others =
      Opened({.paths = {path}, .format = DataFormat::kHdf5, .keys = {"unwritten", "big"}});
  ASSERT_NE(others, nullptr);
  EXPECT_THAT(Read<float>(*others, 0, {4, 2}), ElementsAre(0, 0));
  EXPECT_THAT(Read<float>(*others, 1, {4, 2}), ElementsAre(4, 2));
}

// What is not HDF5's may stand before it, and places in the file are counted from its first byte.
TEST(Hdf5, RowsAreFoundBehindAUserBlock) {
  const Files files;
  const std::string path = PathIn(files, "a.h5");
  {
    const hid_t made = H5Pcreate(H5P_FILE_CREATE);
    H5Pset_userblock(made, 1024);
    Hdf5File(path, made).Add("x", H5T_IEEE_F32LE, {5, 3}, Numbers(15));
    H5Pclose(made);
  }
  const auto set = Opened({.paths = {path}, .format = DataFormat::kHdf5});
  ASSERT_NE(set, nullptr);
  EXPECT_THAT(Read<float>(*set, 0, {4, 0}), ElementsAre(12, 13, 14, 0, 1, 2));
}

TEST(Hdf5, ThreadsReadAtOneTime) {
  const Files files;
  const std::string path = PathIn(files, "a.h5");
  { Hdf5File(path).Add("x", H5T_IEEE_F64LE, {500, 4}, std::vector<double>(2000, 0.5), 10); }
  const auto set = Opened({.paths = {path}, .format = DataFormat::kHdf5});
  ASSERT_NE(set, nullptr);
  const std::vector<float> alone = Read<float>(*set, 0, {7, 499});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) EXPECT_EQ(Read<float>(*set, 0, {7, 499}), alone);
    });
  for (std::thread& thread : threads) thread.join();
}

TEST(Hdf5, AFileThatChangesIsNamed) {
  const Files files;
  const std::string path = PathIn(files, "a.h5");
  { Hdf5File(path).Add("x", H5T_IEEE_F32LE, {5}, Numbers(5)); }
  const auto set = Opened({.paths = {path}, .format = DataFormat::kHdf5});
  ASSERT_NE(set, nullptr);
  { Hdf5File(path).Add("x", H5T_IEEE_F32LE, {6, 200}, Numbers(1200)); }
  const absl::Status status = set->Read(0, std::vector<uint64_t>{3}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr(path));
}

// By its own bytes, with its size and time of modification, as `cp -p` puts them there.
void Replace(const std::string& path) {
  fs::copy_file(path, path + ".new");
  fs::last_write_time(path + ".new", fs::last_write_time(path));
  fs::rename(path + ".new", path);
}

// Packed rows are read by another process, so that there is nothing to compare a copy with; and
// that rows beside them are the same says nothing of these.
TEST(Hdf5, AFileThatMayHaveBeenReplacedIsNamedWhereADecoderReadsIt) {
  const Files files;
  const std::string path = PathIn(files, "a.h5");
  {
    Hdf5File file(path);
    file.Add("plain", H5T_IEEE_F32LE, {5}, Numbers(5));
    file.Add("packed", H5T_IEEE_F32LE, {5}, Numbers(5), 1);
  }
  const auto both = Opened({.paths = {path}, .format = DataFormat::kHdf5});
  const auto plain = Opened({.paths = {path}, .format = DataFormat::kHdf5, .keys = {"plain"}});
  ASSERT_TRUE(both != nullptr && plain != nullptr);
  Replace(path);
  const absl::Status status = both->Read(0, std::vector<uint64_t>{3}).status();
  EXPECT_TRUE(absl::IsDataLoss(status) && !IsBadSample(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(path + ": it may have been replaced since the job began"));
  EXPECT_THAT(Read<float>(*plain, 0, {3}), ElementsAre(3));
}

// Else rows of the other file would be read from where those of the first one lay.
TEST(Hdf5, AFileThatIsReplacedBeforeAllOfItWasReadIsNamed) {
  const Files files;
  const std::string path = PathIn(files, "a.h5");
  { Hdf5File(path).Add("x", H5T_IEEE_F32LE, {5}, Numbers(5)); }
  for (const bool has_begun : {false, true}) {
    const auto opened = OpenStoredData({.paths = {path}, .format = DataFormat::kHdf5});
    ASSERT_TRUE(opened.ok()) << opened.status();
    const DataSet& set = *opened->stored.set;
    if (has_begun) {
      EXPECT_THAT(Read<float>(set, 0, {3}), ElementsAre(3));
    }
    Replace(path);
    const absl::Status status = set.Read(0, std::vector<uint64_t>{2}).status();
    EXPECT_TRUE(absl::IsDataLoss(status) && !IsBadSample(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(path + ": it may have been replaced since the job began"));
  }
}

struct Unfit {
  const char* name;
  void (*fill)(Hdf5File& file, const Files& files);
  const char* says;
  absl::StatusCode code = absl::StatusCode::kDataLoss;
  DataSpec data{};
  friend std::ostream& operator<<(std::ostream& out, const Unfit& unfit) {
    return out << unfit.name;
  }
};
class UnfitHdf5 : public testing::TestWithParam<Unfit> {};

TEST_P(UnfitHdf5, IsNamed) {
  const Files files;
  const std::string path = PathIn(files, "a.h5");
  {
    Hdf5File file(path);
    GetParam().fill(file, files);
  }
  DataSpec data = GetParam().data;
  data.paths = {path};
  data.format = DataFormat::kHdf5;
  const absl::Status status = OpenDataSet(data, 1).status();
  EXPECT_EQ(status.code(), GetParam().code) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(GetParam().says));
}

// A set of one dimension whose numbers lie elsewhere.
void AddElsewhere(const Hdf5File& file, hid_t made) {
  const hsize_t size = 4;
  const hid_t space = H5Screate_simple(1, &size, nullptr);
  H5Dclose(H5Dcreate2(file.id(), "x", H5T_STD_U8LE, space, H5P_DEFAULT, made, H5P_DEFAULT));
  H5Sclose(space);
  H5Pclose(made);
}

const Unfit kUnfit[] = {
    {"Empty", [](Hdf5File&, const Files&) {}, "no sample", absl::StatusCode::kInvalidArgument},
    {"NoRows",
     [](Hdf5File& file, const Files&) {
       file.Add<float>("x", H5T_IEEE_F32LE, {0, 2}, {});
     },
     "no sample", absl::StatusCode::kInvalidArgument},
    {"Key",
     [](Hdf5File& file, const Files&) { file.Add("x", H5T_IEEE_F32LE, {2}, Numbers(2)); },
     "data.keys: the files hold no array 'z'; they hold: x",
     absl::StatusCode::kFailedPrecondition,
     {.keys = {"z"}}},
    {"Unsigned",
     [](Hdf5File& file, const Files&) {
       file.Add<uint32_t>("x", H5T_STD_U32LE, {2}, {1, 2});
     },
     "a.h5: 'x' has elements that are not float16"},
    {"Scalar",
     [](Hdf5File& file, const Files&) {
       const hid_t space = H5Screate(H5S_SCALAR);
       H5Dclose(H5Dcreate2(file.id(), "x", H5T_IEEE_F32LE, space, H5P_DEFAULT, H5P_DEFAULT,
                           H5P_DEFAULT));
       H5Sclose(space);
     },
     "'x' is a single value"},
    {"InAnotherFile",
     [](Hdf5File& file, const Files& files) {
       const hid_t made = H5Pcreate(H5P_DATASET_CREATE);
       H5Pset_external(made, files.Write("secret", "1234").c_str(), 0, 4);
       AddElsewhere(file, made);
     },
     "'x' lies in other files"},
    {"Virtual",
     [](Hdf5File& file, const Files& files) {
       const hid_t made = H5Pcreate(H5P_DATASET_CREATE);
       const hsize_t size = 4;
       const hid_t space = H5Screate_simple(1, &size, nullptr);
       H5Pset_virtual(made, space, PathIn(files, "b.h5").c_str(), "y", space);
       H5Sclose(space);
       AddElsewhere(file, made);
     },
     "'x' lies in other files"},
    {"LinkToAnotherFile",
     [](Hdf5File& file, const Files& files) {
       const std::string other = PathIn(files, "b.h5");
       { Hdf5File(other).Add("x", H5T_IEEE_F32LE, {2}, Numbers(2)); }
       H5Lcreate_external(other.c_str(), "x", file.id(), "link", H5P_DEFAULT, H5P_DEFAULT);
       file.Add("y", H5T_IEEE_F32LE, {2}, Numbers(2));
     },
     "a.h5: 'link' is a link into another file, which data.paths would have to name",
     absl::StatusCode::kDataLoss,
     {.keys = {"link"}}},
    {"BehindALinkToAnotherFile",
     [](Hdf5File& file, const Files&) {
       H5Lcreate_external("b.h5", "/", file.id(), "link", H5P_DEFAULT, H5P_DEFAULT);
       file.Add("y", H5T_IEEE_F32LE, {2}, Numbers(2));
     },
     "a.h5: 'link/x' lies behind a link into another file",
     absl::StatusCode::kDataLoss,
     {.keys = {"link/x"}}},
    {"LinkToNothing",
     [](Hdf5File& file, const Files&) {
       H5Lcreate_soft("/nothing", file.id(), "link", H5P_DEFAULT, H5P_DEFAULT);
       file.Add("y", H5T_IEEE_F32LE, {2}, Numbers(2));
     },
     "a.h5: 'link' is a link that leads nowhere in this file",
     absl::StatusCode::kDataLoss,
     {.keys = {"link"}}},
    {"LinkToItself",
     [](Hdf5File& file, const Files&) {
       H5Lcreate_soft("/link", file.id(), "link", H5P_DEFAULT, H5P_DEFAULT);
       file.Add("y", H5T_IEEE_F32LE, {2}, Numbers(2));
     },
     "a.h5: 'link' is a link that leads nowhere in this file",
     absl::StatusCode::kDataLoss,
     {.keys = {"y"}, .label = "link"}},
    {"TellsOfMoreThanItHolds",
     [](Hdf5File& file, const Files&) {
       file.Add<float>("x", H5T_IEEE_F32LE, {hsize_t{1} << 40, 4}, {}, 1024);
     },
     "more than a file of"},
    {"Names",
     [](Hdf5File& file, const Files&) {
       file.Add("x", H5T_IEEE_F32LE, {2, 0}, Numbers(0));
     },
     "which holds nothing"},
};
INSTANTIATE_TEST_SUITE_P(Table, UnfitHdf5, testing::ValuesIn(kUnfit),
                         [](const auto& tried) { return std::string(tried.param.name); });

// A newer library writes the parts of a virtual array in another version, which stands where this
// one writes 1.
TEST(Hdf5, AVirtualArrayOfANewerLibraryIsRefusedAloneAndAsWhatItIs) {
  const Files files;
  const std::string path = PathIn(files, "a.h5");
  {
    Hdf5File file(path);
    const hsize_t size = 4, start = 1, count = 2;
    const hid_t made = H5Pcreate(H5P_DATASET_CREATE);
    const hid_t part = H5Screate_simple(1, &size, nullptr);
    H5Sselect_hyperslab(part, H5S_SELECT_SET, &start, nullptr, &count, nullptr);
    H5Pset_virtual(made, part, "b.h5", "y", part);
    H5Sclose(part);
    AddElsewhere(file, made);
    file.Add("y", H5T_IEEE_F32LE, {2}, Numbers(2));
  }
  std::string bytes = *ReadWholeFile(path);
  const std::string selection("\2\0\0\0\1\0\0\0", 8);  // a hyperslab, of version 1
  const size_t at = bytes.find(selection);
  ASSERT_NE(at, std::string::npos);
  bytes[at + 4] = 3;
  files.Write("a.h5", bytes);
  DataSpec data{.paths = {path}, .format = DataFormat::kHdf5, .keys = {"x"}};
  const absl::Status status = OpenDataSet(data, 1).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("a.h5: 'x' lies in other files, which data.paths would have to name"));
  data.keys = {"y"};
  EXPECT_NE(Opened(data), nullptr);
}

struct PackedChunk {
  haddr_t place = 0;  // in the file
  hsize_t bytes = 0;
};

// Eight rows of numbers, two in a chunk; where the second chunk lies.
PackedChunk WriteChunks(const std::string& path) {
  PackedChunk chunk;
  Hdf5File file(path);
  file.Add("x", H5T_IEEE_F32LE, {8, 5}, Numbers(40), 2);
  H5Fflush(file.id(), H5F_SCOPE_GLOBAL);
  const hid_t set = H5Dopen2(file.id(), "x", H5P_DEFAULT);
  const hsize_t second[] = {2, 0};
  EXPECT_GE(H5Dget_chunk_info_by_coord(set, second, nullptr, &chunk.place, &chunk.bytes), 0);
  H5Dclose(set);
  return chunk;
}

// Rows that are packed together are bad together, and all others can be read.
TEST(Hdf5, RowsOfADamagedChunkAreBadSamples) {
  const Files files;
  const std::string path = PathIn(files, "a.h5");
  const auto [place, bytes] = WriteChunks(path);
  DataSpec data = {.paths = {path}, .format = DataFormat::kHdf5};
  const std::string sound_hash = Opened(data)->ContentHash();
  std::string content = ReadWholeFile(path).value_or("");
  ASSERT_GT(content.size(), place + bytes);
  for (hsize_t i = 0; i < bytes; ++i) content[place + i] = '\xff';
  files.Write("a.h5", content);
  EXPECT_TRUE(absl::IsDataLoss(OpenDataSet(data, 1).status())) << "it is hashed";
  data.on_bad_sample = OnBadSample::kSkip;
  const auto set = Opened(data), again = Opened(data);
  ASSERT_NE(set, nullptr);
  EXPECT_EQ(set->ContentHash(), again->ContentHash());
  EXPECT_NE(set->ContentHash(), sound_hash);
  const std::vector<uint64_t> ids = {7, 3, 0, 2};
  Batch batch(set->Fields(), ids.size());
  const auto left_out = ReadGood(*set, 0, ids, batch, 0);
  ASSERT_TRUE(left_out.ok()) << left_out.status();
  EXPECT_THAT(*left_out, ElementsAre(1, 3));
  EXPECT_THAT(Values<float>(batch.row(0, 2)), ElementsAre(0, 1, 2, 3, 4));
  files.Write("a.h5", content + "more");
  EXPECT_FALSE(ReadGood(*set, 0, ids, batch, 0).ok()) << "it has changed";
}

// Whatever this thread starts gets an error of the disk from what it reads at `place` of a file.
bool MakeTheDiskFailAt(haddr_t place) {
  sock_filter filter[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_pread64, 0, 3),
                          BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[3])),
                          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(place), 0, 1),
                          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EIO),
                          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog program{std::size(filter), filter};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// Else a worker with a broken disk would leave out samples that all others have.
TEST(Hdf5, AnErrorOfTheDiskIsNoBadSample) {
  const Files files;
  const std::string path = PathIn(files, "a.h5");
  const haddr_t place = WriteChunks(path).place;
  DataSpec data = {.paths = {path}, .format = DataFormat::kHdf5};
  data.on_bad_sample = OnBadSample::kSkip;
  absl::Status status;
  bool can_fail = false;
  std::thread([&] {
    can_fail = MakeTheDiskFailAt(place);
    status = OpenDataSet(data, 1).status();
  }).join();
  if (!can_fail) GTEST_SKIP() << "system calls cannot be filtered here";
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_FALSE(IsBadSample(status));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(path + " (x): rows from 0: it cannot be read: Input/output error"));
}

std::string AskRows(const std::string& path, const std::string& key, uint64_t first,
                    uint64_t rows) {
  return Asking(DecoderRequest::kHdf5Rows).Text(path).Text(key).Number(first).Number(rows).bytes();
}

TEST(Hdf5, WantOfDescriptorsIsNoBadSample) {
  const Files files;
  for (const std::string name : {"a.h5", "b.h5"})
    Hdf5File(PathIn(files, name)).Add("x", H5T_IEEE_F32LE, {4}, Numbers(4));
  const fs::path folder = fs::read_symlink("/proc/self/exe").parent_path().parent_path();
  const std::string program =
      files.Write("decoder", "#!/bin/sh\nexec 3>&-\nulimit -n 4\nexec " +
                                 (folder / "bin/muster-decoder").string() + " \"$@\"\n");
  fs::permissions(program, fs::perms::owner_all);
  Decoders decoders({.program = program});
  const auto first = decoders.Ask(AskRows(PathIn(files, "a.h5"), "x", 0, 1));
  ASSERT_TRUE(first.ok()) << first.status();
  const absl::Status second = decoders.Ask(AskRows(PathIn(files, "b.h5"), "x", 0, 1)).status();
  EXPECT_TRUE(absl::IsDataLoss(second)) << second;
  EXPECT_FALSE(IsBadSample(second));
  EXPECT_THAT(std::string(second.message()), HasSubstr("Too many open files"));
  EXPECT_EQ(decoders.Ask(AskRows(PathIn(files, "c.h5"), "x", 0, 1)).status().message(),
            "it cannot be read: No such file or directory");
}

TEST(Hdf5, WhatNeedsTooMuchMemoryIsRefusedAndTheNextIsRead) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer takes more address space than any limit";
#endif
  const Files files;
  const std::string path = PathIn(files, "a.h5");
  {
    Hdf5File file(path);
    file.Add<float>("x", H5T_IEEE_F32LE, {4, 1 << 24}, {}, 1);
    file.Add("packed", H5T_STD_U8LE, {1, 1 << 25}, std::vector<uint8_t>(1 << 25), 1);
  }
  Decoders decoders({.memory = uint64_t{64} << 20});
  // Of the second libhdf5 itself gets no memory, to unpack it.
  for (const auto& [key, rows] : {std::pair("x", 4), std::pair("packed", 1)}) {
    const absl::Status status = decoders.Ask(AskRows(path, key, 0, rows)).status();
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("needs more than the 67108864 bytes of memory"));
    EXPECT_FALSE(IsBadSample(status)) << key;
  }
  EXPECT_THAT(std::string(decoders.Ask(AskRows(path, "x", 0, 5)).status().message()),
              HasSubstr("it has 4 rows"));
}

// What a decoder can read is not a matter of what it has read before.
TEST(Hdf5, ADecoderWhoseMemoryIsFullOfOtherArraysIsReplaced) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer takes more address space than any limit";
#endif
  const Files files;
  const std::string path = PathIn(files, "a.h5");
  const std::vector<std::string> keys = {"a", "b", "c", "d", "e", "f"};
  {
    Hdf5File file(path);
    for (const std::string& key : keys)
      file.Add(key, H5T_STD_U8LE, {1, 1 << 23}, std::vector<uint8_t>(1 << 23), 1);
  }
  Decoders decoders({.memory = uint64_t{96} << 20});
  for (const std::string& key : keys) {
    const auto read = decoders.Ask(AskRows(path, key, 0, 1));
    ASSERT_TRUE(read.ok()) << key << ": " << read.status();
    EXPECT_EQ(read->size(), size_t{1} << 23);
  }
}

TEST(Hdf5, TheHashIsOfTheDecoderToo) {
  const Files files;
  const std::string path = PathIn(files, "a.h5");
  const std::vector<float> numbers = Numbers(15);
  { Hdf5File(path).Add("x", H5T_IEEE_F32LE, {5, 3}, numbers); }
  const DataSpec data = {.paths = {path}, .format = DataFormat::kHdf5};
  const auto opened = OpenStoredData(data);
  ASSERT_TRUE(opened.ok()) << opened.status();
  const std::string version =
      absl::StrCat("libhdf5 ", H5_VERS_MAJOR, ".", H5_VERS_MINOR, ".", H5_VERS_RELEASE);
  EXPECT_EQ(opened->stored.decoder, version);
  const auto hash_with = [&](const std::string& decoder) {
    const SourcePtr rows = MemorySource(
        "x", {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(float)});
    const Array x{{"x", TensorType::kFloat32, {3}}, false, {{rows, 0, 5, 12}}};
    return *(*MakeArraySet({x}, OnBadSample::kStop, decoder))->ComputeHash([](uint64_t) {});
  };
  const std::string hash = Opened(data)->ContentHash();
  EXPECT_EQ(hash, hash_with(version));
  EXPECT_NE(hash, hash_with("libhdf5 1.10.0"));
  EXPECT_NE(hash, hash_with(""));
}

// Whatever a byte is changed to: there is a set whose rows can be read, or an error that names the
// file. Each seed ends the decoder or not, and never this process.
TEST(Hdf5, BrokenFilesAreNamed) {
  const Files files;
  const std::string path = PathIn(files, "a.h5");
  {
    Hdf5File file(path);
    file.Add("train/x", H5T_IEEE_F32LE, {8, 4}, Numbers(32), 4);
    file.Add("y", H5T_IEEE_F32LE, {8}, Numbers(8));
  }
  const std::string sound = ReadWholeFile(path).value_or("");
  ASSERT_GT(sound.size(), 1000u);
  std::vector<std::string> broken = {"", "HDF", sound.substr(0, 40), sound.substr(0, 900),
                                     sound.substr(0, sound.size() - 100)};
  uint64_t random = 7;
  for (int i = 0; i < 60; ++i) {
    std::string changed = sound;
    for (int byte = 0; byte < 3; ++byte) {
      random = random * 6364136223846793005u + 1442695040888963407u;
      changed[(random >> 33) % changed.size()] = static_cast<char>(random >> 24);
    }
    broken.push_back(std::move(changed));
  }
  int refused = 0;
  for (const std::string& content : broken) {
    files.Write("a.h5", content);
    const auto set = OpenDataSet({.paths = {path}, .format = DataFormat::kHdf5}, 1);
    absl::Status status = set.status();
    if (set.ok()) status = (*set)->Read(0, std::vector<uint64_t>{0}).status();
    if (status.ok()) continue;
    ++refused;
    EXPECT_THAT(std::string(status.message()),
                testing::AnyOf(HasSubstr(path), HasSubstr("no sample")));
  }
  EXPECT_GE(refused, 5);
}

}  // namespace
}  // namespace muster
