// doctor and completion.
#include <CLI/CLI.hpp>
#include <string>

#include "cli/arguments_parts.h"
#include "lib/base/address_list.h"
#include "lib/base/loopback.h"

namespace muster::cli {
namespace {

constexpr char kDoctorFooter[] =
    "It looks at this host: programs, cores, memory, limits, cgroups, disk, GPUs, clock, names, "
    "addresses and ports;\n"
    "at a folder: disk, file system, certificates; and at a cluster: coordinator, token, clock, "
    "versions, hosts, jobs,\n"
    "authority. Each check has a verdict (ok, warning, problem, skipped), and says what to do. All "
    "end within 20 seconds,\n"
    "none changes anything, and none needs root.\n"
    "Exit code 0 where there is no problem, warnings or not; else 1.\n"
    "\n"
    "Examples:\n"
    "  muster doctor                                      before the first job: this host\n"
    "  muster doctor --dir runs/one                       a folder, also when nothing runs there\n"
    "  muster doctor --to 10.0.0.1:8080                   a cluster, from anywhere\n"
    "  muster doctor --coordinator 10.0.0.1:7070 --identity id      before muster agent is started "
    "with these\n"
    "  muster doctor --json | jq '.findings[] | select(.verdict == \"problem\")'";

constexpr char kCompletionFooter[] =
    "The script asks this program what may come next, so it knows each option, and jobs and hosts "
    "of the cluster, too.\n"
    "\n"
    "  bash, into ~/.bashrc:                     source <(muster completion bash)\n"
    "  zsh, into ~/.zshrc, after compinit:       source <(muster completion zsh)\n"
    "  fish, into ~/.config/fish/config.fish:    muster completion fish | source";

CLI::Validator AddressList(DoctorArguments& doctor) {
  return {[&doctor](std::string& text) -> std::string {
            absl::StatusOr<std::vector<std::string>> list = ParseAddressList(text);
            if (!list.ok()) return std::string(list.status().message());
            doctor.coordinators = *std::move(list);
            return "";
          },
          "", ""};
}

CLI::Validator Address() {
  return {[](std::string& text) -> std::string {
            return std::string(ParseHostPort(text).status().message());
          },
          "", ""};
}

}  // namespace

void AddDoctor(CLI::App& app, DoctorArguments& doctor, std::string& coordinator) {
  CLI::App* command =
      AddRemote(app, "doctor", "look at this host, a folder and a cluster, and say what is wrong",
                doctor.remote);
  command
      ->add_option("--coordinator", coordinator,
                   "where this host would join, as muster agent is given it: whether the way "
                   "there is free")
      ->check(AddressList(doctor))
      ->type_name("HOST:PORT[,HOST:PORT...]");
  command
      ->add_option("--listen", doctor.listen,
                   "an address where a coordinator is to listen: whether it is free; may be given "
                   "again (default: 127.0.0.1:8080, where no cluster is looked at)")
      ->check(Address())
      ->type_name("HOST:PORT")
      ->allow_extra_args(false);
  command
      ->add_option("--identity", doctor.identity,
                   "folder with the certificate of this host, as muster agent is given it")
      ->type_name("FOLDER");
  command->footer(kDoctorFooter);
}

void AddCompletion(CLI::App& app, CompletionArguments& completion) {
  CLI::App* command =
      app.add_subcommand("completion", "print what lets a shell complete words of muster");
  command->add_option("shell", completion.shell, "whose script is printed")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}))
      ->type_name("bash|zsh|fish");
  command->footer(kCompletionFooter);
}

}  // namespace muster::cli
