// What muster doctor makes of what it finds on a host: each judgement with both its outcomes.
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/doctor/disk.h"
#include "cli/doctor/gpus.h"
#include "cli/doctor/libtorch.h"
#include "cli/doctor/limits.h"
#include "cli/doctor/network.h"
#include "cli/doctor/programs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/base/whole_file.h"
#include "tests/cli/doctor/findings.h"
#include "tests/support/cgroup_tree.h"

namespace muster::cli::doctor {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kGiB = int64_t{1} << 30;

LimitFacts Roomy() {
  return {.descriptors = 65'536,
          .memory_of_machine = 64 * kGiB,
          .memory_for_us = 64 * kGiB,
          .slots = 8};
}

TEST(DoctorLimitsTest, WhatIsRoomyIsWell) {
  for (const Finding& finding : JudgeLimits(Roomy())) Expect(finding, Verdict::kOk, "");
}

struct LimitRow {
  const char* check;
  std::function<void(LimitFacts&)> change;
  Verdict verdict;
  const char* text;
  const char* advice;
};

TEST(DoctorLimitsTest, WhatIsTightIsNamedWithWhatToDo) {
  using F = LimitFacts&;
  const std::vector<LimitRow> rows = {
      {"descriptors", [](F f) { f.descriptors = 64; }, Verdict::kProblem,
       "may open 64 files, and each of Muster's needs at least 96", "ulimit -Hn"},
      {"descriptors", [](F f) { f.descriptors = 95; }, Verdict::kProblem, "95", "ulimit"},
      {"descriptors", [](F f) { f.descriptors = 96; }, Verdict::kWarning, "96", "ulimit"},
      {"descriptors", [](F f) { f.descriptors = 1023; }, Verdict::kWarning, "room for 576 sessions",
       "LimitNOFILE"},
      {"descriptors", [](F f) { f.descriptors = 1024; }, Verdict::kOk, "1024", ""},
      {"descriptors", [](F f) { f.descriptors.reset(); }, Verdict::kOk, "65536", ""},
      {"processes", [](F f) { f.processes = 63; }, Verdict::kProblem, "63", "ulimit -u"},
      {"processes", [](F f) { f.processes = 64; }, Verdict::kWarning, "64", "ulimit -u"},
      {"processes", [](F f) { f.processes = 512; }, Verdict::kOk, "512", ""},
      {"processes",
       [](F f) {
         f.processes = 4096;
         f.pids_left = 10;
       },
       Verdict::kProblem, "cgroup allows 10 more", "pids.max"},
      {"processes",
       [](F f) {
         f.processes = 100;
         f.pids_left = 10'000;
       },
       Verdict::kWarning, "This user may have 100", "ulimit -u"},
      {"memory", [](F f) { f.memory_for_us = 2 * kGiB; }, Verdict::kOk, "2.0 GiB", ""},
      {"memory", [](F f) { f.memory_for_us = kGiB; }, Verdict::kWarning,
       "1.0 GiB of memory, as the cgroup says, of the machine's 64 GiB", "memory.max"},
      {"memory", [](F f) { f.memory_for_us = 256 * kMiB; }, Verdict::kProblem, "256 MiB",
       "memory.max"},
      {"memory", [](F f) { f.memory_for_us = f.memory_of_machine = 256 * kMiB; }, Verdict::kProblem,
       "There are 256 MiB of memory.", "--slots"},
      {"cores", [](F f) { f.cpu_quota = 7.9; }, Verdict::kOk, "8 cores", ""},
      {"cores", [](F f) { f.cpu_quota = 2.5; }, Verdict::kWarning, "the time of 2.5", "--slots 2"},
      {"cores", [](F f) { f.cpu_quota = 0.1; }, Verdict::kWarning, "the time of 0.1", "--slots 1"},
      {"address space", [](F f) { f.address_space = 4 * kGiB; }, Verdict::kWarning, "4.0 GiB",
       "ulimit -v"},
      {"file size", [](F f) { f.file_bytes = 10 * kMiB; }, Verdict::kWarning, "10 MiB",
       "ulimit -f"},
  };
  for (const LimitRow& row : rows) {
    SCOPED_TRACE(absl::StrCat(row.check, ": ", row.text));
    LimitFacts facts = Roomy();
    row.change(facts);
    Expect(Of(JudgeLimits(facts), row.check), row.verdict, row.text, row.advice);
  }
}

TEST(DoctorLimitsTest, CgroupsOfVersion2LeaveTheLeastOfAllAroundUs) {
  const CgroupTree tree;
  EXPECT_EQ(PidsLeft(tree.root()), std::nullopt);
  EXPECT_EQ(CpuQuota(tree.root()), std::nullopt);
  tree.WeAreIn("0::/pod/job\n", kCgroupV2Mount);
  tree.Write("/sys/fs/cgroup/pod/job/pids.max", "max\n");
  tree.Write("/sys/fs/cgroup/pod/job/cpu.max", "max 100000\n");
  EXPECT_EQ(PidsLeft(tree.root()), std::nullopt);
  EXPECT_EQ(CpuQuota(tree.root()), std::nullopt);
  tree.Write("/sys/fs/cgroup/pod/pids.max", "100\n");
  tree.Write("/sys/fs/cgroup/pod/pids.current", "70\n");
  tree.Write("/sys/fs/cgroup/pod/cpu.max", "250000 100000\n");
  EXPECT_EQ(PidsLeft(tree.root()), 30);
  EXPECT_EQ(CpuQuota(tree.root()), 2.5);
  tree.Write("/sys/fs/cgroup/pod/job/cpu.max", "50000 100000\n");
  EXPECT_EQ(CpuQuota(tree.root()), 0.5);
}

TEST(DoctorLimitsTest, CgroupsOfVersion1HaveATreeForEach) {
  const CgroupTree tree;
  tree.WeAreIn("5:pids:/batch\n4:cpu,cpuacct:/batch/7\n0::/\n",
               "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
               "36 31 0:33 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n");
  tree.Write("/sys/fs/cgroup/cpu/batch/7/cpu.cfs_quota_us", "-1\n");
  tree.Write("/sys/fs/cgroup/cpu/batch/7/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(CpuQuota(tree.root()), std::nullopt);
  tree.Write("/sys/fs/cgroup/cpu/batch/cpu.cfs_quota_us", "150000\n");
  tree.Write("/sys/fs/cgroup/cpu/batch/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(CpuQuota(tree.root()), 1.5);
  tree.Write("/sys/fs/cgroup/pids/batch/pids.max", "20\n");
  tree.Write("/sys/fs/cgroup/pids/batch/pids.current", "19\n");
  EXPECT_EQ(PidsLeft(tree.root()), 1);
}

TEST(DoctorLimitsTest, SharedMemoryMattersWhereItTakesMemory) {
  Expect(JudgeSharedMemory({}), Verdict::kOk, "There is no /dev/shm");
  Expect(JudgeSharedMemory({true, 8 * kGiB, 1 * kGiB, 8 * kGiB}), Verdict::kOk, "8.0 GiB");
  Expect(JudgeSharedMemory({true, 8 * kGiB, 3 * kGiB, 8 * kGiB}), Verdict::kWarning,
         "takes 3.0 GiB of memory", "ls -l /dev/shm");
  EXPECT_FALSE(GatherSharedMemory("/nowhere/at/all").is_there);
  EXPECT_TRUE(GatherSharedMemory("/").is_there);
}

TEST(DoctorLimitsTest, AClockThatNothingKeepsRightIsTold) {
  Expect(JudgeOwnClock(true), Verdict::kOk, "kept right");
  Expect(JudgeOwnClock(false), Verdict::kWarning, "five minutes", "chrony");
  Expect(JudgeOwnClock(std::nullopt), Verdict::kSkipped, "does not say");
}

GpuFacts TwoGpus() {
  return {.offered = std::vector<std::string>{"0", "1"},
          .files = 2,
          .has_control = true,
          .on_bus = 2,
          .driver = "535.161.08"};
}

TEST(DoctorGpusTest, EachStateOfADriver) {
  const auto with = [](auto change) {
    GpuFacts facts = TwoGpus();
    change(facts);
    return JudgeGpus(facts);
  };
  using F = GpuFacts&;
  Expect(JudgeGpus({}), Verdict::kOk, "There are none");
  Expect(with([](F) {}), Verdict::kOk, "2 GPUs with driver 535.161.08; muster up");
  Expect(with([](F f) { f.offered = std::vector<std::string>{}; }), Verdict::kOk, "none of them");
  Expect(with([](F f) { f.offered = absl::InvalidArgumentError("7,,: an empty id"); }),
         Verdict::kProblem, "an empty id.", "CUDA_VISIBLE_DEVICES");
  Expect(with([](F f) { f.files = 0; }), Verdict::kProblem, "names 2 devices",
         "CUDA_VISIBLE_DEVICES");
  Expect(with([](F f) {
           f.files = 0;
           f.offered = std::vector<std::string>{};
         }),
         Verdict::kWarning, "no files /dev/nvidia0", "nvidia-smi");
  Expect(with([](F f) {
           f.files = 0;
           f.driver.clear();
           f.offered = std::vector<std::string>{};
         }),
         Verdict::kWarning, "lists 2 GPUs of NVIDIA, and no driver is loaded", "install");
  Expect(with([](F f) { f.closed = {"nvidia1"}; }), Verdict::kProblem, "may not open nvidia1",
         "group");
  Expect(with([](F f) { f.has_control = false; }), Verdict::kProblem, "nvidiactl", "modprobe");
  Expect(with([](F f) { f.driver.clear(); }), Verdict::kProblem, "no driver", "modprobe");
  Expect(with([](F f) { f.files = 1; }), Verdict::kWarning, "names 2 devices, and there are files",
         "--devices");
}

TEST(DoctorGpusTest, AreFoundInFilesOfTheKernel) {
  const CgroupTree tree;
  const GpuFacts none = GatherGpus(std::vector<std::string>{}, std::nullopt, tree.root());
  EXPECT_EQ(none.files + none.on_bus, 0);
  for (const char* name : {"nvidia0", "nvidia11", "nvidia-uvm", "nvidiactl", "nvidia"})
    tree.Write(absl::StrCat("/dev/", name), "");
  tree.Write("/sys/bus/pci/devices/0000:01:00.0/vendor", "0x10de\n");
  tree.Write("/sys/bus/pci/devices/0000:01:00.0/class", "0x030200\n");
  tree.Write("/sys/bus/pci/devices/0000:01:00.1/vendor", "0x10de\n");
  tree.Write("/sys/bus/pci/devices/0000:01:00.1/class", "0x040300\n");  // its sound
  tree.Write("/proc/driver/nvidia/version",
             "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.161.08  Sat Feb 24\nGCC 12.2\n");
  const GpuFacts facts = GatherGpus(std::vector<std::string>{"0"}, "0", tree.root());
  EXPECT_EQ(facts.files, 2);
  EXPECT_EQ(facts.on_bus, 1);
  EXPECT_TRUE(facts.has_control);
  EXPECT_THAT(facts.closed, IsEmpty());
  EXPECT_EQ(facts.driver, "535.161.08");
}

struct LibTorchRow {
  const char* report;  // after the lines of LibTorch itself
  int gpus;
  bool is_hidden;
  Verdict verdict;
  const char* text;
  const char* advice;
};

TEST(DoctorLibTorchTest, WhatItComputesOn) {
  const std::vector<LibTorchRow> rows = {
      {"cuda none\ncuda_missing libx.so: cannot open\n", 0, false, Verdict::kOk,
       "LibTorch 2.11.0 computes on processors, with AVX2. Its CUDA half is not here", ""},
      {"cuda none\ncuda_missing libx.so: cannot open\n", 2, false, Verdict::kWarning,
       "not on the 2 GPUs here: its CUDA half cannot be loaded (libx.so: cannot open).",
       "--variant cuda"},
      {"cuda 13.0\ncuda_driver none\ncuda_devices 0\n", 0, false, Verdict::kOk,
       "(CUDA 13.0) loads; there is no driver", ""},
      {"cuda 13.0\ncuda_driver none\ncuda_devices 0\n", 2, false, Verdict::kWarning,
       "libcuda.so.1, the driver's library, is not found", "container toolkit"},
      {"cuda 13.0\ncuda_driver found\ncuda_devices 2\n", 2, false, Verdict::kOk,
       "(CUDA 13.0) loads and finds 2 devices", ""},
      {"cuda 13.0\ncuda_driver found\ncuda_devices 0\ncuda_complaint the driver is too old\n", 2,
       false, Verdict::kWarning, "but finds no device: the driver is too old.", "580"},
      {"cuda 13.0\ncuda_driver found\ncuda_devices 0\n", 2, false, Verdict::kWarning,
       "finds none of the 2 GPUs", "CUDA_VISIBLE_DEVICES"},
      {"cuda 13.0\ncuda_driver found\ncuda_devices 0\n", 2, true, Verdict::kOk, "finds no device",
       ""},
      {"cuda 13.0\ncuda_driver found\ncuda_devices 0\n", 0, false, Verdict::kOk, "finds no device",
       ""},
  };
  for (const LibTorchRow& row : rows)
    Expect(JudgeLibTorch(
               ReadLibTorchReport(absl::StrCat("torch 2.11.0\ncapability AVX2\n", row.report)),
               row.gpus, row.is_hidden),
           row.verdict, row.text, row.advice);
}

TEST(DoctorLibTorchTest, WhatIsNoReportIsSkipped) {
  for (const char* text : {"", "Illegal option\n", "torch 2.11.0\n", "torch 2.11.0\ncuda 13.0\n",
                           "torch 2.11.0\ncuda 13.0\ncuda_devices many\n"})
    Expect(JudgeLibTorch(ReadLibTorchReport(text), 2, false), Verdict::kSkipped, "it does not say",
           "");
  Expect(JudgeLibTorch(ReadLibTorchReport("torch none\n"), 2, false), Verdict::kSkipped,
         "without it", "");
  Expect(JudgeLibTorch(GatherLibTorch("/bin/false", std::chrono::seconds(5)), 0, false),
         Verdict::kSkipped, "it ended with code 1.", "");
  Expect(JudgeLibTorch(GatherLibTorch("/no/worker", std::chrono::seconds(5)), 0, false),
         Verdict::kSkipped, "/no/worker", "");
}

DiskFacts Ample() {
  return {.folder = "runs",
          .looked_at = "runs",
          .kind = 0xef53,
          .free_bytes = 100 * kGiB,
          .files = 1'000'000,
          .free_files = 900'000,
          .sync_seconds = 0.004};
}

Findings Disk(const std::function<void(DiskFacts&)>& change) {
  DiskFacts facts = Ample();
  change(facts);
  return JudgeDisk("disk", DiskUse::kCluster, facts);
}

TEST(DoctorDiskTest, EachThingThatADiskMayLack) {
  using F = DiskFacts&;
  for (const Finding& finding : Disk([](F) {})) Expect(finding, Verdict::kOk, "");
  Expect(Of(Disk([](F) {}), "disk"), Verdict::kOk, "runs, on ext4, has 100 GiB free");
  Expect(Of(Disk([](F f) { f.free_bytes = kGiB; }), "disk"), Verdict::kWarning, "1.0 GiB free",
         "checkpoint.keep");
  Expect(Of(Disk([](F f) { f.free_bytes = 100 * kMiB; }), "disk"), Verdict::kProblem, "100 MiB",
         "make room");
  Expect(Of(Disk([](F f) { f.free_files = 999; }), "disk"), Verdict::kProblem, "999 files", "room");
  Expect(Of(Disk([](F f) { f.free_files = 9'999; }), "disk"), Verdict::kWarning, "9999", "room");
  Expect(Of(Disk([](F f) { f.files = f.free_files = 0; }), "disk"), Verdict::kOk, "100 GiB free.");
  Expect(Of(Disk([](F f) { f.writes = FileError(ENOSPC, "write", "runs/x"); }), "disk"),
         Verdict::kProblem, "free", "make room");
  Expect(Of(Disk([](F f) { f.writes = FileError(EACCES, "make a file in", "runs"); }), "disk"),
         Verdict::kProblem, "Muster cannot make a file in 'runs': Permission denied", "chown");
  Expect(Of(Disk([](F f) { f.looks = FileError(EIO, "look at", "runs"); }), "disk"),
         Verdict::kProblem, "Muster cannot look at 'runs'", "another folder");
  Expect(
      Of(Disk([](F f) { f.locks = FileError(ENOLCK, "lock a file in", "runs"); }), "disk: locks"),
      Verdict::kProblem, "two coordinators", "nolock");
  Expect(Of(Disk([](F f) { f.sync_seconds = 0.5; }), "disk: speed"), Verdict::kWarning, "500 ms",
         "faster disk");
  Expect(Of(Disk([](F f) { f.looked_at = "/home"; }), "disk"), Verdict::kOk,
         "runs, which is not there yet (/home is)");
  Expect(Of(Disk([](F f) { f.kind = 0x01021994; }), "disk: file system"), Verdict::kWarning,
         "tmpfs", "a folder on a disk");
  Expect(Of(Disk([](F f) { f.kind = 0x794c7630; }), "disk: file system"), Verdict::kWarning,
         "lost with the container", "a folder on a disk");
  Expect(Of(Disk([](F f) { f.kind = 0x65735546; }), "disk: file system"), Verdict::kWarning, "FUSE",
         "a folder on a disk");
  EXPECT_EQ(Of(Disk([](F f) { f.kind = 0x6969; }), "disk: file system").check, "")
      << "hosts share NFS as they should";
}

TEST(DoctorDiskTest, AFolderForKeysMayBeOfMemory) {
  DiskFacts facts = Ample();
  facts.kind = 0x01021994;
  EXPECT_EQ(JudgeDisk("TMPDIR", DiskUse::kTemporary, facts).size(), 1u);
  Expect(JudgeDisk("TMPDIR", DiskUse::kTemporary, facts)[0], Verdict::kOk, "may be written");
  facts.writes = FileError(ENOSPC, "write", "x");
  Expect(JudgeDisk("TMPDIR", DiskUse::kTemporary, facts)[0], Verdict::kProblem, "is full",
         "TMPDIR");
}

TEST(DoctorDiskTest, LooksAtWhatIsThereAndLeavesNothing) {
  const CgroupTree tree;
  const DiskFacts there = GatherDisk(tree.root());
  EXPECT_TRUE(there.looks.ok() && there.writes.ok() && there.locks.ok()) << there.writes;
  EXPECT_GT(there.free_bytes, 0);
  EXPECT_TRUE(std::filesystem::is_empty(tree.root()));
  const DiskFacts missing = GatherDisk(tree.root() + "/runs/one/");
  EXPECT_EQ(missing.looked_at, tree.root());
  EXPECT_TRUE(missing.writes.ok()) << missing.writes;
  tree.Write("/file", "");
  EXPECT_FALSE(GatherDisk(tree.root() + "/file").looks.ok());
}

TEST(DoctorNetworkTest, ANameHasToLeadHere) {
  const std::vector<OwnAddress> own = {{"lo", "127.0.0.1"}, {"eth0", "10.0.0.7"}};
  const auto judge = [&](absl::StatusOr<std::vector<std::string>> found) {
    return JudgeName({.host = "node7", .found = std::move(found), .own = own});
  };
  using List = std::vector<std::string>;
  Expect(judge(List{"10.0.0.7"}), Verdict::kOk, "node7, stands for 10.0.0.7.");
  Expect(judge(List{"10.0.0.9"}), Verdict::kWarning, "no address of an interface here", "hosts");
  Expect(judge(List{"127.0.1.1"}), Verdict::kOk, "another address of this machine is taken");
  Expect(judge(List{"127.0.0.1"}), Verdict::kWarning, "nobody from another machine",
         "--coordinator");
  Expect(judge(absl::NotFoundError("no such host")), Verdict::kWarning, "stands for no address",
         "/etc/hosts");
}

TEST(DoctorNetworkTest, MembersNeedAnAddressThatIsReached) {
  AddressFacts facts{.own = {{"eth0", "10.0.0.7"}}, .free_ports = 28'232};
  facts.reached = {{"10.0.0.7", absl::OkStatus()}};
  Expect(Of(JudgeAddresses(facts), "addresses"), Verdict::kOk, "10.0.0.7");
  EXPECT_EQ(JudgeAddresses(facts).size(), 1u);
  facts.reached = {{"10.0.0.7", absl::DeadlineExceededError("connect")}};
  Expect(Of(JudgeAddresses(facts), "addresses"), Verdict::kProblem, "does not reach itself",
         "firewall");
  facts.reached.clear();
  Expect(Of(JudgeAddresses(facts), "addresses"), Verdict::kWarning, "no address but loopback",
         "network interface");
  facts.free_ports = 100;
  Expect(Of(JudgeAddresses(facts), "port range"), Verdict::kWarning, "100 ports", "sysctl");
}

TEST(DoctorNetworkTest, APortIsFreeOrSomebodyHasIt) {
  const auto judge = [](absl::Status listens, bool named = true, bool of_folder = false) {
    return JudgePort({.address = "127.0.0.1:80",
                      .listens = std::move(listens),
                      .holder = "nginx (process 812)",
                      .is_named = named,
                      .is_of_folder = of_folder});
  };
  Expect(judge(absl::OkStatus()), Verdict::kOk, "free");
  const absl::Status taken = absl::AlreadyExistsError("bind");
  Expect(judge(taken), Verdict::kProblem, "nginx (process 812)", "--listen");
  Expect(judge(taken, /*named=*/false), Verdict::kWarning, "nginx", "--listen");
  Expect(judge(taken, true, /*of_folder=*/true), Verdict::kOk, "The cluster answers there");
  Expect(judge(absl::PermissionDeniedError("bind")), Verdict::kProblem, "may not", "1023");
  Expect(judge(absl::InvalidArgumentError("not here")), Verdict::kProblem, "not here", "numeric");
}

// A socket that listens on loopback.
class Listener {
 public:
  Listener() {
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&at_), size_), 0);
    EXPECT_EQ(listen(fd_, 1), 0);
    getsockname(fd_, reinterpret_cast<sockaddr*>(&at_), &size_);
  }
  ~Listener() { close(fd_); }
  uint16_t port() const { return ntohs(at_.sin_port); }
  std::string address() const { return absl::StrCat("127.0.0.1:", port()); }

 private:
  const int fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in at_{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t size_ = sizeof at_;
};

TEST(DoctorNetworkTest, WhoHasAPortIsFound) {
  const Listener listener;
  const PortFacts facts = GatherPort(listener.address());
  EXPECT_TRUE(absl::IsAlreadyExists(facts.listens)) << facts.listens;
  EXPECT_EQ(facts.holder, absl::StrCat("cli_test (process ", getpid(), ")"));
  EXPECT_TRUE(GatherPort("127.0.0.1:0").listens.ok());
  EXPECT_TRUE(absl::IsInvalidArgument(GatherPort("203.0.113.1:0").listens));
  EXPECT_EQ(HolderOf(listener.port(), "/nowhere"), "");
}

TEST(DoctorNetworkTest, OneOfTheCoordinatorsAddressesAnswers) {
  const Listener listener;
  const std::string address = listener.address();
  const Resolver resolve = [](const std::string& host) -> absl::StatusOr<std::vector<std::string>> {
    if (host == "unknown") return absl::NotFoundError("there is no host unknown");
    return std::vector<std::string>{host};
  };
  const auto judge = [&](const std::vector<std::string>& list) {
    return JudgeReach(GatherReach(list, std::chrono::seconds(10), resolve));
  };
  Expect(judge({address})[0], Verdict::kOk, "A program listens there");
  Expect(judge({"127.0.0.1:1"})[0], Verdict::kProblem, "Nobody listens there",
         "muster up --coordinator");
  Expect(judge({"unknown:7070"})[0], Verdict::kProblem, "no host unknown.", "DNS");
  const Findings both = judge({"127.0.0.1:1", address, "unknown:7070"});
  ASSERT_EQ(both.size(), 3u);
  Expect(both[0], Verdict::kOk, "Another address of the list answers");
  Expect(both[1], Verdict::kOk, "A program listens");
  Expect(both[2], Verdict::kWarning, "no host unknown", "DNS");
  Expect(JudgeReach({{.address = "10.0.0.1:7070",
                      .found = std::vector<std::string>{"10.0.0.1"},
                      .reached = absl::DeadlineExceededError("connect")}})[0],
         Verdict::kProblem, "Nothing comes back from 10.0.0.1", "firewalls");
}

ProgramFacts Says(const std::string& version) {
  return {.path = "/opt/muster-worker", .is_there = true, .version = Ended{.output = version}};
}

Finding Worker(const ProgramFacts& facts) {
  return JudgeProgram("muster-worker", "no worker can be started", facts, "1.2.3");
}

TEST(DoctorProgramsTest, EachWayInWhichAProgramDoesNotStart) {
  Expect(Worker(Says("1.2.3\n")), Verdict::kOk, "of this version, 1.2.3");
  Expect(Worker(Says("1.2.2\n")), Verdict::kProblem, "of version 1.2.2, and this muster of 1.2.3",
         "one version");
  Expect(Worker({.path = "/opt/muster-worker"}), Verdict::kProblem,
         "is not there: no worker can be started", "install");
  ProgramFacts facts = Says("");
  facts.missing_libraries = {"libtorch_cpu.so", "libc10.so"};
  Expect(Worker(facts), Verdict::kProblem, "2 libraries are missing, libtorch_cpu.so, libc10.so",
         "LD_LIBRARY_PATH");
  facts = Says("");
  facts.version = Ended{.signal = SIGILL};
  Expect(Worker(facts), Verdict::kProblem, "this processor", "build");
  facts.version = Ended{.code = 3, .output = "no\n"};
  Expect(Worker(facts), Verdict::kProblem, "ends with code 3: no.", "install");
  facts.version = Ended{.signal = SIGSEGV};
  Expect(Worker(facts), Verdict::kProblem, "signal 11", "install");
  facts.version = absl::PermissionDeniedError("/opt/muster-worker cannot be started: no");
  Expect(Worker(facts), Verdict::kProblem, "/opt/muster-worker cannot be started: no.", "noexec");
  facts.version = absl::DeadlineExceededError("it does not end");
  Expect(Worker(facts), Verdict::kProblem, "it does not end.", "install");
}

TEST(DoctorProgramsTest, TheLinkersListNamesWhatIsMissing) {
  EXPECT_THAT(
      MissingLibraries("\tlinux-vdso.so.1 (0x00007ffc)\n\tlibtorch.so => not found\n"
                       "\tlibc.so.6 => /lib/libc.so.6 (0x00007f)\n\tlibc10.so => not found\n"
                       "\tlibtorch.so => not found\n"),
      ElementsAre("libtorch.so", "libc10.so"));
  EXPECT_THAT(MissingLibraries("Usage: …"), IsEmpty());
}

TEST(DoctorProgramsTest, ProgramsAreRunToTheirEnd) {
  const auto ended =
      RunProgram({"/bin/sh", "-c", "echo $A; echo b >&2; exit 3"}, "A=a", std::chrono::seconds(30));
  ASSERT_TRUE(ended.ok()) << ended.status();
  EXPECT_EQ(ended->code, 3);
  EXPECT_EQ(ended->output, "a\nb\n");
  EXPECT_EQ(RunProgram({"/bin/sh", "-c", "kill -9 $$"}, "", std::chrono::seconds(30))->signal, 9);
  EXPECT_TRUE(
      absl::IsNotFound(RunProgram({"/nowhere/at/all"}, "", std::chrono::seconds(30)).status()));
  // One that hangs, also behind a closed output, is killed.
  for (const char* script : {"read x </dev/zero", "exec >&- 2>&-; read x </dev/zero"})
    EXPECT_TRUE(absl::IsDeadlineExceeded(
        RunProgram({"/bin/sh", "-c", script}, "", std::chrono::milliseconds(50)).status()))
        << script;
}

}  // namespace
}  // namespace muster::cli::doctor
