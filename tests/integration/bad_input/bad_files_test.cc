// Data files that are broken, others than the job says, or no files at all, in real programs: each
// ends in one sentence that names the file and what is wrong, with its exit code.
#include <hdf5.h>
#include <sys/prctl.h>
#include <sys/stat.h>

// After the headers of the system, as it needs their types.
#include <linux/capability.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <numeric>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/base/exit_codes.h"
#include "tests/integration/bad_input/train.h"
#include "tests/lib/data/written_files.h"
#include "tests/support/program.h"

namespace muster::integration {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr int kSamples = 12;

// ---- sound files of 12 samples of three numbers, or of small images, with one of three classes

std::vector<float> Numbers() {
  std::vector<float> numbers(kSamples * 3);
  std::iota(numbers.begin(), numbers.end(), 0.0F);
  return numbers;
}

template <class T>
std::vector<T> Classes(int most = 3) {
  std::vector<T> classes;
  for (int i = 0; i < kSamples; ++i) classes.push_back(static_cast<T>(i % most));
  return classes;
}

std::string X() { return Npy("<f4", {kSamples, 3}, Bytes(Numbers())); }
std::string Y() { return Npy("<i8", {kSamples}, Bytes(Classes<int64_t>())); }

std::string Csv() {
  std::string rows = "a,b,c,y\n";
  for (int i = 0; i < kSamples; ++i)
    absl::StrAppend(&rows, i, ",", i + 1, ",", 2 * i, ",", i % 3, "\n");
  return rows;
}

std::string SafetensorsOf(const std::string& type = "F32", int rows = kSamples) {
  return Safetensors(absl::StrCat(R"({"x":{"dtype":")", type, R"(","shape":[)", rows,
                                  R"(,3],"data_offsets":[0,144]},)",
                                  R"("y":{"dtype":"I64","shape":[12],"data_offsets":[144,240]}})"),
                     Bytes(Numbers()) + Bytes(Classes<int64_t>()));
}

std::string PtOf(const std::string& storage = "FloatStorage", int rows = kSamples) {
  return Pt(PtDict({{"x", PtPickle({storage, "0", 0, {rows, 3}, {3, 1}})},
                    {"y", PtPickle({"LongStorage", "1", 0, {kSamples}, {1}})}}),
            {Bytes(Numbers()), Bytes(Classes<int64_t>())});
}

std::string Hdf5Of(hid_t type = H5T_IEEE_F32LE, hsize_t labels = kSamples) {
  const std::string path = MakeFolder() + "/made.h5";
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  const auto add = [&](const char* name, hid_t stored, hid_t memory, std::vector<hsize_t> shape,
                       const void* values) {
    const hid_t space = H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr);
    const hid_t set = H5Dcreate2(file, name, stored, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    EXPECT_GE(H5Dwrite(set, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, values), 0);
    H5Dclose(set);
    H5Sclose(space);
  };
  add("x", type, H5T_NATIVE_FLOAT, {kSamples, 3}, Numbers().data());
  add("y", H5T_STD_I64LE, H5T_NATIVE_INT64, {labels}, Classes<int64_t>().data());
  H5Fclose(file);
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string IdxImages(int type = 8) { return Idx(type, {kSamples, 2, 2}, std::string(48, '\7')); }
std::string IdxLabels(uint32_t count = kSamples) {
  return Idx(8, {count}, Bytes(Classes<char>()).substr(0, count));
}

std::string Cifar(const std::string& before, char label) {
  std::string records;
  for (int i = 0; i < kSamples; ++i)
    records += before + std::string(1, label) + std::string(3072, '\7');
  return records;
}

std::string Shard(const std::string& label = "2") {
  std::vector<std::pair<std::string, std::string>> files;
  for (int i = 0; i < kSamples; ++i) {
    files.emplace_back(absl::StrCat(i, ".png"), Png(Slope(4, 4)));
    files.emplace_back(absl::StrCat(i, ".cls"), label);
  }
  return Tar(files);
}

std::string HalfOf(const std::string& bytes) { return bytes.substr(0, bytes.size() / 2); }

// ---- formats

using Contents = std::vector<std::pair<std::string, std::string>>;  // name, bytes

struct Row {
  const char* name;
  Contents files;
  std::vector<const char*> says;  // beside the first file's path, where exit code is 65
  int code = kExitBadData;
  std::string data{};  // in place of the format's
};

struct Format {
  const char* name;
  std::string data;  // what a job says of it, besides the format and paths
  Contents sound;
  std::vector<Row> rows;
  friend std::ostream& operator<<(std::ostream& out, const Format& format) {
    return out << format.name;
  }
};

Format CsvFormat() {
  const std::string rows = Csv();
  return {"csv",
          "label: y, classes: [y]",
          {{"f.csv", rows}},
          {{"CutOff",
            {{"f.csv", rows.substr(0, rows.size() - 3)}},
            {"line 13 (byte ", "has 3 cells, and the first has 4"}},
           {"Empty", {{"f.csv", ""}}, {"no sample in ", "name files that are not empty"}},
           {"NoNumber",
            {{"f.csv", rows + "1,2,three,0\n"}},
            {"line 14 (byte ", "column 'c': 'three' is no number"}},
           {"OtherShape",
            {{"f.csv", rows + "1,2\n"}},
            {"line 14 (byte ", "has 2 cells, and the first has 4"}},
           {"Utf16", {{"f.csv", "\xff\xfe" + rows}}, {"f.csv: it is UTF-16; save it as UTF-8"}},
           {"NoColumn",
            {{"f.csv", rows}},
            {"data.label: ", "has no column 'z'; it has: a, b, c, y"},
            kExitBadConfiguration,
            "label: z"}}};
}

Format NumpyFormat() {
  const auto with = [](const std::string& x, const std::string& y) {
    return Contents{{"x.npy", x}, {"y.npy", y}};
  };
  return {"numpy",
          "label: y",
          with(X(), Y()),
          {{"CutOff",
            with(HalfOf(X()), Y()),
            {"'x' has 12 rows of 12 bytes from byte 128, and the file ends before"}},
           {"CutOffInItsHeader",
            with(X().substr(0, 40), Y()),
            {"its header would have 118 bytes; the file has 30", "it is cut off, or no .npy file"}},
           {"Empty", with("", Y()), {"at byte 0: it is too short for a .npy file"}},
           {"Other", with(std::string(200, 'x'), Y()), {"at byte 0: it is no .npy file"}},
           {"OtherType",
            with(Npy("<u4", {kSamples, 3}, Bytes(Numbers())), Y()),
            {"its elements are '<u4'", "can be read"}},
           {"OtherShape",
            with(X(), Npy("<i8", {2}, std::string(16, '\0'))),
            {"'y' has 2 samples, and 'x' has 12"}},
           {"NoKey",
            with(X(), Y()),
            {"data.keys: the files hold no array 'z'; they hold: x, y"},
            kExitBadConfiguration,
            "keys: [z], label: y"},
           {"NoLabel",
            {{"x.npy", X()}},
            {"data.label: the files hold no array 'y'"},
            kExitBadConfiguration},
           {"LabelAlone",
            {{"y.npy", Y()}},
            {"data.label: the files hold nothing beside 'y'"},
            kExitBadConfiguration}}};
}

Format NpzFormat() {
  const std::string sound = Zip({{"x.npy", X()}, {"y.npy", Y()}}, true);
  return {"numpy",
          "label: y",
          {{"f.npz", sound}},
          {{"CutOff",
            {{"f.npz", HalfOf(sound)}},
            {"it has no directory of a zip file; it may be cut off"}},
           {"Empty", {{"f.npz", ""}}, {"at byte 0: it is too short for a zip file"}},
           {"ArrayTwice",
            {{"f.npz", Zip({{"x.npy", X()}, {"y.npy", Y()}, {"x.npy", X()}}, true)}},
            {"f.npz: array 'x' stands there twice"}},
           {"OtherType",
            {{"f.npz", Zip({{"x.npy", Npy("|O", {kSamples}, std::string(96, 'x'))}, {"y.npy", Y()}},
                           false)}},
            {"(x.npy): its elements are '|O'"}}}};
}

Format SafetensorsFormat() {
  const auto with = [](const std::string& bytes) { return Contents{{"f.safetensors", bytes}}; };
  return {"safetensors",
          "label: y",
          with(SafetensorsOf()),
          {{"CutOff", with(HalfOf(SafetensorsOf())), {"and the file ends before"}},
           {"CutOffInItsHeader",
            with(SafetensorsOf().substr(0, 40)),
            {"the file has 32, and 1048576 are allowed; it is cut off, or no safetensors file"}},
           {"Empty", with(""), {"at byte 0: it is too short for a safetensors file"}},
           {"HeaderOfAGigabyte",
            with(Little<uint64_t>(1 << 30) + "{}"),
            {"its header would have 1073741824 bytes"}},
           {"HeaderBeyondAllNumbers",
            with(Little(~uint64_t{0}) + "{}"),
            {"its header would have 18446744073709551615 bytes"}},
           {"NoJson", with(Safetensors("none", "")), {"its header is no JSON object of tensors"}},
           {"OtherType",
            with(SafetensorsOf("U32")),
            {"tensor 'x' is of type U32, which cannot be read"}},
           {"OtherShape",
            with(SafetensorsOf("F32", 11)),
            {"tensor 'x' has 11 samples of 12 bytes, and its data is 144"}},
           {"NoKey",
            with(SafetensorsOf()),
            {"data.label: the files hold no array 'z'; they hold: x, y"},
            kExitBadConfiguration,
            "label: z"}}};
}

Format PtFormat() {
  const auto with = [](const std::string& bytes) { return Contents{{"f.pt", bytes}}; };
  const std::string runs = absl::StrCat("cposix\nsystem\n(", PtText("true"), "tR");
  return {
      "pt",
      "label: y",
      with(PtOf()),
      {{"CutOff", with(HalfOf(PtOf())), {"it has no directory of a zip file; it may be cut off"}},
       {"Empty", with(""), {"at byte 0: it is too short for a zip file"}},
       {"Runs",
        with(Pt(runs, {})),
        {"it asks for posix.system, and nothing that a file names is run; save tensors alone"}},
       {"OtherType", with(PtOf("ComplexFloatStorage")), {"'x'"}},
       {"OtherShape", with(PtOf("FloatStorage", 99)), {"'x'"}},
       {"NoKey",
        with(PtOf()),
        {"data.keys: the files hold no array 'z'; they hold: y, x"},
        kExitBadConfiguration,
        "keys: [z], label: y"}}};
}

Format Hdf5Format() {
  const auto with = [](const std::string& bytes) { return Contents{{"f.h5", bytes}}; };
  return {
      "hdf5",
      "label: y",
      with(Hdf5Of()),
      {{"CutOff", with(HalfOf(Hdf5Of())), {"it is no HDF5 file, or broken: truncated file"}},
       {"Empty", with(""), {"it is no HDF5 file, or broken: file signature not found"}},
       {"Other",
        with(std::string(5000, 'x')),
        {"it is no HDF5 file, or broken: file signature not found"}},
       {"OtherType",
        with(Hdf5Of(H5T_STD_U32LE)),
        {"'x' has elements that are not float16", "name those that you want in data.keys"}},
       {"OtherShape", with(Hdf5Of(H5T_IEEE_F32LE, 2)), {"f.h5: 'y' has 2 samples, and 'x' has 12"}},
       {"NoKey",
        with(Hdf5Of()),
        {"data.label: the files hold no array 'z'; they hold: x, y"},
        kExitBadConfiguration,
        "label: z"}}};
}

Format IdxFormat() {
  const auto with = [](const std::string& images, const std::string& labels) {
    return Contents{{"images", images}, {"labels", labels}};
  };
  return {"idx",
          "",
          with(IdxImages(), IdxLabels()),
          {{"CutOff",
            with(HalfOf(IdxImages()), IdxLabels()),
            {"'image' has 12 rows of 4 bytes from byte 16, and the file ends before"}},
           {"CutOffGzip",
            with(HalfOf(Gzip(IdxImages())), IdxLabels()),
            {"it ends before all is unpacked"}},
           {"Empty", with("", IdxLabels()), {"at byte 0: it is too short for an idx file"}},
           {"OtherType", with(IdxImages(0x42), IdxLabels()), {"at byte 0: it is no idx file"}},
           {"OtherShape",
            with(IdxImages(), IdxLabels(2)),
            {"'label' has 2 samples, and 'image' has 12"}},
           {"NoLabels",
            {{"images", IdxImages()}},
            {"data.paths: the samples of these files have no label"},
            kExitBadConfiguration},
           {"LabelsAlone", {{"labels", IdxLabels()}}, {"nothing but labels in "}}}};
}

Format CifarFormat(const char* name, const std::string& before) {
  const std::string record = absl::StrCat("each has ", 3073 + before.size(), " bytes");
  return {name,
          "",
          {{"f.bin", Cifar(before, 2)}},
          {{"CutOff",
            {{"f.bin", HalfOf(Cifar(before, 2)) + "x"}},
            {"its last record is cut off; each has 307"}},
           {"Empty", {{"f.bin", ""}}, {"no sample in ", "name files that are not empty"}}}};
}

Format ImagesFormat() {
  const std::string png = Png(Slope(4, 4)), jpeg = Jpeg(Slope(4, 4));
  const auto with = [&](const std::string& bytes) {
    return Contents{{"a/0.png", bytes}, {"b/1.jpg", jpeg}, {"c/2.png", png}};
  };
  return {"images",
          "",
          with(png),
          {{"CutOffPng", with(HalfOf(png)), {"a broken PNG"}},
           {"CutOffJpeg", with(HalfOf(jpeg)), {"a broken JPEG"}},
           {"Empty", with(""), {"it is neither JPEG nor PNG", "name endings in data.suffixes"}},
           {"Other",
            with("#!/bin/sh\n"),
            {"it is neither JPEG nor PNG", "name endings in data.suffixes"}},
           {"InNoFolder", {{"0.png", png}}, {"it lies in no folder of a class"}},
           {"ClassWithoutAnImage",
            {{"a/0.png", png}, {"b/notes.txt", "none"}, {"c/2.png", png}},
            {"/b holds no image of data.suffixes", "put images in it, or take it away"},
            kExitBadData,
            "suffixes: [.png]"}}};
}

Format WebDatasetFormat() {
  const auto with = [](const std::string& bytes) { return Contents{{"f.tar", bytes}}; };
  const std::string shard = Shard();
  return {
      "webdataset",
      "",
      with(shard),
      {{"CutOff", with(shard.substr(0, shard.size() / 2 + 600)), {"f.tar"}},
       {"CutOffBetweenFiles",
        with(shard.substr(0, shard.size() - 1024)),
        {"it has no mark of its end; it is cut off"}},
       {"Empty", with(""), {"it has no mark of its end; it is cut off"}},
       {"Other", with(std::string(2000, 'x')), {"at byte 0: no header of tar stands here"}},
       {"Joined", with(shard + shard), {"something follows the mark of its end"}},
       {"Packed", with(Gzip(shard)), {"it is compressed by gzip", "gzip -d"}},
       {"OtherType", with(Shard("two")), {"(0.cls): a label (.cls) is a whole number"}},
       {"NoImage",
        with(Tar({{"0.json", "{}"}})),
        {"no image in ", "name files that are not empty"}},
       {"LabelAlone",
        with(Tar({{"0.png", Png(Slope(4, 4))}, {"0.cls", "1"}, {"1.cls", "1"}})),
        {"(1.cls): the sample '1' has a label and no image (.jpg, .jpeg or .png) beside it"}},
       {"NegativeLabel", with(Shard("-1")), {"(0.cls): a label (.cls) is a whole number from 0"}},
       {"NoLabel",
        with(Tar({{"0.png", Png(Slope(4, 4))}})),
        {"data.paths: the samples of these files have no label"},
        kExitBadConfiguration}}};
}

// ---- what is no file that can be read

struct Odd {
  const char* name;
  std::function<bool(const std::string& path)> make;
  const char* says;
};
const Odd kOdd[] = {
    {"Missing", [](const std::string&) { return true; },
     " does not exist; name files or directories"},
    {"AFolder", [](const std::string& path) { return fs::create_directory(path); }, "no file in "},
    {"AFifo", [](const std::string& path) { return mkfifo(path.c_str(), 0600) == 0; },
     " is not a file or directory; name files or directories"},
    {"EndlessZeros",
     [](const std::string& path) { return symlink("/dev/zero", path.c_str()) == 0; },
     " is not a file or directory; name files or directories"},
    {"MadeByTheSystem",
     [](const std::string& path) { return symlink("/proc/self/maps", path.c_str()) == 0; },
     "it is no stored file: the system makes it while it is read; make it readable, or name "
     "others"},
    {"ALoop", [](const std::string& path) { return symlink(path.c_str(), path.c_str()) == 0; },
     " cannot be read: Too many levels of symbolic links; make it readable, or name others"},
    {"Forbidden",
     [](const std::string& path) {
       return std::ofstream(path).put('x') && chmod(path.c_str(), 0) == 0;
     },
     " cannot be read: Permission denied; make it readable, or name others"}};

// Who is root reads everything; without these rights root does not.
bool GiveUpReadingEverything() {
  return geteuid() != 0 || (prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE) == 0 &&
                            prctl(PR_CAPBSET_DROP, CAP_DAC_READ_SEARCH) == 0);
}

// ---- the test

class BadFilesTest : public testing::TestWithParam<std::function<Format()>> {
 protected:
  std::string Spec(const Format& format, const std::string& data, const std::string& path) const {
    const bool is_image = format.sound[0].first.find(".npy") == std::string::npos &&
                          !absl::StrContains(format.data, "label");
    return WriteText(
        folder_ + "/job.yaml",
        absl::StrCat("name: bad\ntask: layers\nparameters: {loss: cross_entropy, layers: [",
                     is_image ? "flatten, " : "", "{linear: 3}]}\ndata: {paths: [", path,
                     "], format: ", format.name, data.empty() ? "" : ", ", data,
                     "}\nbatch: 4\nlanes: 2\nsteps: 2\nrestarts: 0\n"));
  }

  void ExpectOneSentence(const std::string& spec, int code, const std::vector<std::string>& says) {
    Program check({ProgramPath("muster"), "check", spec}, GiveUpReadingEverything);
    EXPECT_EQ(check.End(), code) << check.output();
    if (code == kExitDone) return;
    const std::string said(absl::StripSuffix(check.output(), "\n"));
    EXPECT_EQ(said.find('\n'), std::string::npos) << said;
    EXPECT_THAT(said, testing::StartsWith("muster check: "));
    for (const std::string& words : says) EXPECT_THAT(said, HasSubstr(words));
  }

  std::string Write(const Contents& files) {
    const std::string data = absl::StrCat(folder_, "/", ++written_);
    for (const auto& [name, bytes] : files) {
      fs::create_directories(fs::path(data + "/" + name).parent_path());
      WriteText(data + "/" + name, bytes);
    }
    return data;
  }

  const std::string folder_ = MakeFolder();
  int written_ = 0;
};

TEST_P(BadFilesTest, EndInOneSentence) {
  const Format format = GetParam()();
  ExpectOneSentence(Spec(format, format.data, Write(format.sound)), kExitDone, {});
  for (const Row& row : format.rows) {
    SCOPED_TRACE(row.name);
    const std::string data = Write(row.files);
    std::vector<std::string> says(row.says.begin(), row.says.end());
    if (row.code == kExitBadData) says.push_back(data);
    ExpectOneSentence(Spec(format, row.data.empty() ? format.data : row.data, data), row.code,
                      says);
  }
  for (const Odd& odd : kOdd) {
    SCOPED_TRACE(odd.name);
    const std::string path = absl::StrCat(Write({{"other", ""}}), "/odd");
    ASSERT_TRUE(odd.make(path));
    ExpectOneSentence(Spec(format, format.data, path), kExitBadData, {path, odd.says});
  }
}

INSTANTIATE_TEST_SUITE_P(
    Formats, BadFilesTest,
    testing::Values(
        CsvFormat, NumpyFormat, NpzFormat, SafetensorsFormat, PtFormat, Hdf5Format, IdxFormat,
        [] { return CifarFormat("cifar10", ""); }, [] { return CifarFormat("cifar100", "\x07"); },
        ImagesFormat, WebDatasetFormat),
    [](const auto& tried) {
      const Format format = tried.param();
      return absl::StrCat(format.name, absl::StrContains(format.sound[0].first, ".npz") ? "z" : "");
    });

// What `muster check` says of them jobs end with, and no worker is started again for it.
TEST(BadFilesInJobsTest, EndTheJobInTheSameSentence) {
  const std::string folder = MakeFolder();
  const std::string png = Png(Slope(4, 4));
  fs::create_directories(folder + "/images/a");
  WriteText(folder + "/images/a/0.png", png);
  WriteText(folder + "/images/a/1.png", HalfOf(png));
  const struct {
    const char* name;
    std::string path;
    std::string data;
    std::string says;
  } kRows[] = {
      {"csv", WriteText(folder + "/f.csv", Csv() + "1,2\n"), "format: csv, label: y, classes: [y]",
       "f.csv: line 14 (byte "},
      {"safetensors", WriteText(folder + "/f.safetensors", Little<uint64_t>(1 << 30) + "{}"),
       "format: safetensors, label: y",
       "f.safetensors: at byte 0: its header would have 1073741824 bytes"},
      {"hdf5", WriteText(folder + "/f.h5", HalfOf(Hdf5Of())), "format: hdf5, label: y",
       "f.h5: it is no HDF5 file, or broken: truncated file"},
      {"images", folder + "/images", "format: images",
       "sample 1: " + folder + "/images/a/1.png: a broken PNG"}};
  for (const auto& row : kRows) {
    SCOPED_TRACE(row.name);
    const std::string spec = WriteText(
        folder + "/job.yaml",
        absl::StrCat("name: bad\ntask: layers\nparameters: {loss: cross_entropy, layers: [flatten, "
                     "{linear: 3}]}\ndata: {paths: [",
                     row.path, "], ", row.data, "}\nbatch: 2\nlanes: 2\nsteps: 2\nworkers: 2\n"));
    Program program(Train(spec, folder + "/job-" + row.name, {"--json"}));
    EXPECT_EQ(program.End(), kExitBadData) << program.output();
    EXPECT_THAT(ResultOf(program).value("reason", ""), HasSubstr(row.says));
    EXPECT_THAT(program.output(), testing::Not(HasSubstr("starts again")));
  }
}

// The worker that reads the data is told there what to do, which is no data.
TEST(BadInput, StandardInputIsNoFile) {
  Program program(
      {MUSTER_PROGRAMS "/muster", "data", "hash", "/dev/stdin", "--set", "data.format=text"});
  EXPECT_EQ(program.End(), kExitBadData);
  EXPECT_THAT(program.output(), HasSubstr("/dev/stdin is not a file or directory"));
}

}  // namespace
}  // namespace muster::integration
