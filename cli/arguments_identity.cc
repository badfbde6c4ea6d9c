// Commands about tokens and certificates.
#include <CLI/CLI.hpp>
#include <cstdint>

#include "cli/arguments_parts.h"

namespace muster::cli {
namespace {

constexpr char kTokenFooter[] =
    "A coordinator asks who calls. The token of its first admin is in store/identity/admin.token "
    "of "
    "the folder of\n"
    "muster up, so that whoever started it types nothing more. muster sends the token that lies in "
    "the file which\n"
    "MUSTER_TOKEN_FILE names, else the first admin's in --dir, else that in "
    "~/.config/muster/token; "
    "over https:// to\n"
    "the coordinator of that cluster (--authority).\n"
    "\n"
    "Examples:\n"
    "  (umask 077; muster token make ada --role submitter --namespace default --expires-in 90d > "
    "ada.token)\n"
    "  muster token list\n"
    "  MUSTER_TOKEN_FILE=ada.token muster list";

constexpr char kHostTokenFooter[] =
    "The token is printed once, and is for one host of that name, which takes jobs of one "
    "namespace "
    "only. It binds to\n"
    "the first key that joins with it; a new one takes the place of that before.\n"
    "\n"
    "Examples:\n"
    "  (umask 077; muster token host node7 --namespace vision > node7.token)\n"
    "  muster token revoke node7";

constexpr char kCertsFooter[] =
    "A coordinator with --authority makes the authority of its cluster by itself. init makes it "
    "before, so that its\n"
    "certificate can be given to others first.\n"
    "\n"
    "Examples:\n"
    "  muster certs init --dir coordinator --cluster-id c1\n"
    "  muster certs show coordinator/identity";

constexpr char kCertsUserFooter[] =
    "Programs that speak gRPC to a coordinator with certificates need one of a user. It is made "
    "with the token that\n"
    "muster sends (muster token --help), is of that user, and may what that token may, for 24 "
    "hours "
    "and as long as\n"
    "nobody revokes the token. The same command makes the next one.\n"
    "\n"
    "With --role an admin makes a token for USER first, which then lies in FOLDER/token.\n"
    "\n"
    "Examples:\n"
    "  muster certs user --identity ada-identity --to https://10.0.0.1:7080\n"
    "  muster certs user ada --role submitter --namespace default --identity ada-identity\n"
    "  MUSTER_TOKEN_FILE=ada-identity/token muster certs user --identity ada-identity";

constexpr char kCertsChangeFooter[] =
    "The key of a cluster's own authority is changed while jobs run: because somebody may have it, "
    "or a rule asks\n"
    "for it. The one before is trusted for 25 hours more, until all that it has signed has ended; "
    "finish ends that\n"
    "sooner. Hosts, members and the coordinator get new certificates by themselves; users ask for "
    "new ones, and\n"
    "copies of authority.pem are replaced.\n"
    "\n"
    "Examples:\n"
    "  muster certs change\n"
    "  muster certs status\n"
    "  muster certs finish";

CLI::Option* AddExpiresIn(CLI::App& command, RemoteArguments& remote) {
  return command
      .add_option("--expires-in", remote.expires_in,
                  "how long the token is of use, such as 12h or 90d (default: until it is revoked)")
      ->transform(Period({.longest = int64_t{3650} * 86400}))
      ->type_name("TIME");
}

}  // namespace

void AddTokenCommands(CLI::App& app, RemoteArguments& remote) {
  CLI::App* token =
      app.add_subcommand("token", "make, list and revoke tokens of people, and of hosts");
  token->require_subcommand(1);
  token->footer(kTokenFooter);
  CLI::App* make = AddRemote(*token, "make", "make a token, which is printed once", remote);
  make->add_option("user", remote.user, "whose it is")->required()->type_name("USER");
  make->add_option("--role", remote.role, "viewer, submitter, operator or admin")
      ->required()
      ->check(CLI::IsMember({"viewer", "submitter", "operator", "admin"}))
      ->type_name("ROLE");
  make->add_option("--namespace", remote.name_space, "where it is of use; * for all")
      ->required()
      ->type_name("NAME");
  AddExpiresIn(*make, remote);
  make->footer(kTokenFooter);
  AddRemote(*token, "list", "show what tokens there are, without their secrets", remote);
  CLI::App* host = AddRemote(*token, "host", "make the token with which a host joins", remote);
  host->add_option("host", remote.host, "its name (--host of muster agent)")
      ->check(NameInUrl())
      ->required()
      ->type_name("HOST");
  host->add_option("--namespace", remote.name_space,
                   "jobs of which it takes (default: those of the namespace default)")
      ->type_name("NAME");
  host->add_flag("--certified", remote.certified,
                 "it has a certificate of an authority from outside, and needs no token");
  host->footer(kHostTokenFooter);
  CLI::App* revoke =
      AddRemote(*token, "revoke", "take a token away, or a host out of the cluster", remote);
  revoke
      ->add_option("id", remote.token_id,
                   "id of the token (muster token list shows them), or the name of a host")
      ->check(NameInUrl())
      ->required()
      ->type_name("ID|HOST");
}

void AddCerts(CLI::App& app, CertsArguments& certs, RemoteArguments& remote) {
  const auto add = [](CLI::App* above, const char* name, const char* about) {
    return above->add_subcommand(name, about);
  };
  CLI::App* command = app.add_subcommand("certs", "make an authority, make and show certificates");
  command->require_subcommand(1);
  command->footer(kCertsFooter);
  CLI::App* init = add(command, "init", "make the authority of a cluster that is begun next");
  init->add_option("--dir", certs.dir, "what will be --dir of muster-coordinator")
      ->capture_default_str()
      ->type_name("DIR");
  init->add_option("--cluster-id", certs.cluster,
                   "the cluster, as certificates name it (default: random)")
      ->type_name("ID");
  CLI::App* show = add(command, "show", "show who an identity folder is, until when");
  show->add_option("folder", certs.folder, "the identity folder")->required()->type_name("FOLDER");
  CLI::Option* const json = show->add_flag("--json", certs.json, "one object in JSON");
  show->add_flag("--pem", certs.pem,
                 "only whom it trusts: what others keep as authority.pem (--authority)")
      ->excludes(json);
  CLI::App* user = AddRemote(*command, "user", "make the certificate of a user, for gRPC", remote);
  CLI::Option* name =
      user->add_option("user", remote.user, "who it is (default: the user of the token)")
          ->type_name("USER");
  user->add_option("--identity", remote.identity,
                   "the identity folder that it is put into, with its key")
      ->required()
      ->type_name("FOLDER");
  CLI::Option* role =
      user->add_option("--role", remote.role,
                       "make a token for it first: viewer, submitter, operator or admin")
          ->check(CLI::IsMember({"viewer", "submitter", "operator", "admin"}))
          ->needs(name)
          ->type_name("ROLE");
  CLI::Option* name_space =
      user->add_option("--namespace", remote.name_space, "where that is of use; * for all")
          ->needs(role)
          ->type_name("NAME");
  role->needs(name_space);
  AddExpiresIn(*user, remote)->needs(role);
  user->footer(kCertsUserFooter);
  CLI::App* status =
      AddRemote(*command, "status", "show who signs in a cluster, and who has heard", remote);
  status->footer(kCertsChangeFooter);
  AddRemote(*command, "change", "make another authority, which signs from now on", remote)
      ->footer(kCertsChangeFooter);
  CLI::App* finish = AddRemote(*command, "finish", "trust the authority before it no more", remote);
  finish->add_flag("--force", remote.force,
                   "also where hosts have no new certificates yet: they join again");
  finish->footer(kCertsChangeFooter);
}

}  // namespace muster::cli
