#include "bench/coordinator/coordinator_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"

namespace muster::bench {
namespace {

constexpr int kReportFd = 3;

// The first line that the child reports.
std::string ReadLine(int fd) {
  std::string line;
  for (char c; read(fd, &c, 1) == 1 && c != '\n';) line += c;
  return line;
}

[[noreturn]] void BecomeProgram(std::vector<std::string>& command, int report) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  dup2(report, kReportFd);
  if (report == kReportFd) fcntl(kReportFd, F_SETFD, 0);
  std::vector<char*> words;
  for (std::string& word : command) words.push_back(word.data());
  words.push_back(nullptr);
  execv(words[0], words.data());
  _exit(127);
}

}  // namespace

CoordinatorProcess::CoordinatorProcess(std::string program, std::string dir, int32_t slots)
    : program_(std::move(program)), dir_(std::move(dir)), slots_(slots) {}

CoordinatorProcess::~CoordinatorProcess() { Kill(); }

absl::Status CoordinatorProcess::Start() {
  std::vector<std::string> command = {program_,
                                      "--dir",
                                      dir_ + "/store",
                                      "--listen",
                                      grpc_,
                                      "--http",
                                      http_,
                                      "--log",
                                      dir_ + "/coordinator.log",
                                      "--slots",  // no host agent says how many there are
                                      absl::StrCat(slots_),
                                      "--report-fd",
                                      absl::StrCat(kReportFd)};
  int report[2];
  if (pipe2(report, O_CLOEXEC) != 0) return absl::UnavailableError("no pipe for the coordinator");
  pid_ = fork();
  if (pid_ == 0) BecomeProgram(command, report[1]);
  close(report[1]);
  const auto json = nlohmann::json::parse(ReadLine(report[0]), nullptr, false);
  close(report[0]);
  if (!json.is_object() || json.value("event", "") != "listening")
    return absl::UnavailableError(
        absl::StrCat(program_, " did not come to listen; see ", dir_, "/coordinator.log"));
  grpc_ = json.value("grpc", "");
  http_ = json.value("http", "");
  return absl::OkStatus();
}

void CoordinatorProcess::Kill() {
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  waitpid(std::exchange(pid_, -1), nullptr, 0);
}

std::string CoordinatorProcess::Url(const std::string& path) const {
  return absl::StrCat("http://", http_, path);
}

double CoordinatorProcess::CpuSeconds() const {
  std::ifstream in(absl::StrCat("/proc/", pid_, "/stat"));
  std::string line;
  std::getline(in, line);
  // The second field, the program's name, may hold blanks; it ends at the last parenthesis.
  std::istringstream fields(line.substr(std::min(line.size(), line.rfind(')') + 1)));
  std::string skipped;
  for (int field = 3; field < 14; ++field) fields >> skipped;
  double user = 0;
  double system = 0;
  fields >> user >> system;
  return (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

int CoordinatorProcess::Threads() const {
  std::error_code error;
  const std::filesystem::directory_iterator tasks(absl::StrCat("/proc/", pid_, "/task"), error);
  return static_cast<int>(std::distance(begin(tasks), end(tasks)));
}

double CoordinatorProcess::RssBytes() const {
  std::ifstream in(absl::StrCat("/proc/", pid_, "/statm"));
  double total = 0;
  double resident = 0;
  in >> total >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE));
}

}  // namespace muster::bench
