#include "cli/ssh_input.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cli/json_text.h"
#include "lib/base/check.h"

namespace muster::cli {
namespace {

constexpr size_t kLongestEnvironment = size_t{1} << 20;
constexpr size_t kLongestLine = 64;  // of a wish

int Milliseconds(Duration time) {
  return static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(time).count());
}

}  // namespace

std::string EnvironmentLine(const Environment& environment) {
  nlohmann::ordered_json values = nlohmann::ordered_json::object();
  for (const auto& [name, value] : environment) values[name] = value;
  return absl::StrCat(Text(nlohmann::ordered_json({{"environment", values}})), "\n");
}

absl::StatusOr<Environment> ParseEnvironmentLine(const std::string& line) {
  const auto object = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  const absl::Status wrong = absl::InvalidArgumentError(
      "the first line of the input is not what muster run --hosts sends: --over-ssh is only for "
      "hosts that it has started");
  if (!object.is_object() || !object.contains("environment") || !object["environment"].is_object())
    return wrong;
  Environment environment;
  for (const auto& [name, value] : object["environment"].items()) {
    const bool is_sound = !name.empty() && name.find('=') == std::string::npos &&
                          name.find('\0') == std::string::npos && value.is_string() &&
                          value.get_ref<const std::string&>().find('\0') == std::string::npos;
    if (!is_sound) return wrong;
    environment[name] = value;
  }
  return environment;
}

absl::StatusOr<Environment> ReadEnvironment(int input, Duration patience) {
  const Time until = std::chrono::steady_clock::now() + patience;
  std::string line;
  for (char c = 0; c != '\n'; line += c) {
    pollfd wait{.fd = input, .events = POLLIN, .revents = 0};
    const Duration left = until - std::chrono::steady_clock::now();
    if (left <= Duration::zero() || poll(&wait, 1, Milliseconds(left) + 1) < 1)
      return absl::UnavailableError("nothing has come over ssh for too long");
    // Byte by byte, so that the wishes behind it stay where they are.
    if (read(input, &c, 1) < 1 || line.size() == kLongestEnvironment)
      return ParseEnvironmentLine("");
  }
  return ParseEnvironmentLine(line);
}

SshInput::SshInput(int input, Patience patience, std::function<void()> on_stop)
    : input_(input),
      patience_(patience),
      on_stop_(std::move(on_stop)),
      end_(eventfd(0, EFD_CLOEXEC)),
      reading_([this] { Run(); }) {
  MUSTER_CHECK(end_.is_open());
}

SshInput::~SshInput() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = write(end_.get(), &one, sizeof one);
  reading_.join();
}

void SshInput::Run() {
  Heard heard = Heard::kLines;
  while (heard == Heard::kLines) {
    heard = Await(/*reads=*/true, patience_.silence);
    if (heard == Heard::kLines && !ReadLines()) heard = Heard::kEnd;
  }
  // Nobody is there any more: in order, and at once if that takes long.
  if (heard == Heard::kTold) return;
  on_stop_();
  if (Await(/*reads=*/false, patience_.leave) != Heard::kTold) on_stop_();
}

SshInput::Heard SshInput::Await(bool reads, Duration time) const {
  std::array<pollfd, 2> wait = {pollfd{.fd = end_.get(), .events = POLLIN, .revents = 0},
                                pollfd{.fd = reads ? input_ : -1, .events = POLLIN, .revents = 0}};
  int ready = 0;
  do {
    ready = poll(wait.data(), wait.size(), Milliseconds(time));
  } while (ready < 0 && errno == EINTR);
  if (wait[0].revents != 0) return Heard::kTold;
  return ready > 0 ? Heard::kLines : Heard::kSilence;
}

// False: there is nothing more to come.
bool SshInput::ReadLines() {
  std::array<char, 4096> bytes{};
  const ssize_t n = read(input_, bytes.data(), bytes.size());
  if (n < 0) return errno == EINTR || errno == EAGAIN;
  for (const char c : std::string(bytes.data(), static_cast<size_t>(n))) {
    if (c != '\n') {
      if (line_.size() < kLongestLine) line_ += c;
      continue;
    }
    if (std::exchange(line_, {}) == "stop") on_stop_();
  }
  return n > 0;
}

}  // namespace muster::cli
