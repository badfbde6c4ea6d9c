#include "cli/arguments_parts.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "lib/base/digits.h"
#include "lib/base/printable.h"
#include "lib/domain/plugin_use.h"
#include "lib/wire/job_codec.h"

namespace muster::cli {

CLI::Validator WholeNumber() {
  const auto read = [](std::string& text) -> std::string {
    int64_t number = 0;
    if (!ParseDigits(text, &number))
      return absl::StrCat("'", text, "' is not a whole number from 0 to ",
                          std::numeric_limits<int64_t>::max());
    text = absl::StrCat(number);
    return "";
  };
  return {read, "", ""};
}

CLI::Validator Period(PeriodLimits limits) {
  const auto read = [limits](std::string& text) -> std::string {
    const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
    const std::string unit = text.substr(digits);
    const int64_t seconds = unit == "s" || (unit.empty() && limits.may_be_number) ? 1
                            : unit == "m"                                         ? 60
                            : unit == "h"                                         ? 3600
                            : unit == "d"                                         ? 86400
                                                                                  : 0;
    int64_t number = 0;
    if (seconds == 0 || !ParseDigits(text.substr(0, digits), &number) || number < 1)
      return absl::StrCat("'", text, "' is no time; write 90s, 15m, 2h or 3d");
    if (number > limits.longest / seconds)
      return absl::StrCat("'", text, "' is too long; at most ", limits.longest / 86400, "d");
    text = absl::StrCat(number * seconds);
    return "";
  };
  return {read, "", ""};
}

CLI::Validator NameInUrl() {
  const auto read = [](std::string& text) -> std::string {
    const bool is_odd =
        text == "." || text == ".." || std::any_of(text.begin(), text.end(), [](unsigned char c) {
          return c < 0x20 || c == 0x7f || c == '/' || c == '\\' || c == '%';
        });
    if (!is_odd) return "";
    return absl::StrCat(
        "'", Cut(Printable(text)),
        "' is no name: it has a control character, '/', '\\' or '%', or is . or ..");
  };
  return {read, "", ""};
}

void AddSpec(CLI::App& command, std::string& spec) {
  command
      .add_option("spec", spec,
                  "the job: a YAML or JSON file (docs/job-spec.md, installed below share/muster, "
                  "explains every field)")
      ->required()
      ->type_name("SPEC.yaml");
}

void AddProcesses(CLI::App& command, std::optional<int>& workers, std::optional<int>& servers) {
  command.add_option("--workers", workers, "worker processes, in place of the file's")
      ->check(CLI::Range(1, kMaxProcesses))
      ->type_name("N");
  command
      .add_option("--servers", servers, "server processes, in place of the file's (sync: server)")
      ->check(CLI::Range(0, kMaxProcesses))
      ->type_name("M");
}

void AddSettings(CLI::App& command, std::vector<std::string>& settings) {
  command.add_option("--set", settings, "set a field of the file; may be given again")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
}

void AddAccept(CLI::App& command, std::vector<std::string>& accept) {
  command
      .add_option("--accept", accept,
                  "what may be another than it was where the job goes on: plugin, the file of its "
                  "task; it is noted in the ledger")
      ->check(CLI::IsMember({kAcceptsPlugin}))
      ->allow_extra_args(false)
      ->type_name("WHAT");
}

void AddPlugins(CLI::App& command, std::vector<std::string>& folders) {
  command
      .add_option("--plugins", folders,
                  "folder of plug-ins, shared libraries that bring tasks of your own "
                  "(docs/plugins.md); may be given again")
      ->allow_extra_args(false)
      ->type_name("FOLDER");
}

CLI::App* AddRemote(CLI::App& app, const char* name, const char* about, RemoteArguments& remote) {
  CLI::App* command = app.add_subcommand(name, about);
  command
      ->add_option("--to", remote.to, "REST interface of the cluster; https:// may stand before it")
      ->capture_default_str()
      ->type_name("HOST:PORT");
  command
      ->add_option("--authority", remote.authority,
                   "whom to trust at https://: authority.pem of the cluster's identity (default: "
                   "MUSTER_AUTHORITY, the one in --dir, ~/.config/muster/authority.pem)")
      ->type_name("FILE");
  command
      ->add_option("--dir", remote.dir,
                   "in place of --to: the folder of a cluster that runs on this machine (default: "
                   "muster-cluster, where one runs in that)")
      ->default_str("")
      ->type_name("DIR")
      ->excludes("--to");
  command->add_flag("--json", remote.json, "JSON, for programs");
  return command;
}

}  // namespace muster::cli
