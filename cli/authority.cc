#include "cli/authority.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lib/base/exit_codes.h"
#include "lib/base/printable.h"
#include "lib/base/status.h"

namespace muster::cli {
namespace {

using Command = RemoteArguments::Command;

std::string LineOf(const char* what, const AuthorityCertificateAnswer& one) {
  return absl::StrCat(what, one.sha256, ", from ", one.begins, " until ", one.ends, "\n");
}

std::string NamesOf(const AuthorityAnswer& answer, const std::string& state) {
  std::vector<std::string> names;
  for (const HostTrustAnswer& host : answer.hosts)
    if (host.state == state) names.push_back(host.name);
  return absl::StrJoin(names, ", ");
}

std::string TextOf(const AuthorityAnswer& answer) {
  std::string text = LineOf("signs:       ", answer.signs);
  for (const AuthorityCertificateAnswer& one : answer.trusted_on)
    absl::StrAppend(&text, LineOf("trusted on:  ", one));
  if (!answer.change_ends.empty())
    absl::StrAppend(&text, "the change ends by itself at ", answer.change_ends, "\n");
  for (const auto& [state, words] :
       {std::pair{"renewed", "hosts with new certificates"},
        std::pair{"not yet", "hosts without, which get them within a minute or two"},
        std::pair{"away", "hosts that are away"}})
    if (const std::string names = NamesOf(answer, state); !names.empty())
      absl::StrAppend(&text, words, ": ", names, "\n");
  return text;
}

}  // namespace

absl::StatusOr<int> ShowOrChangeAuthority(const RemoteArguments& arguments, const RestClient& rest,
                                          std::ostream& out) {
  const absl::StatusOr<AuthorityAnswer> answer =
      arguments.command == Command::kChangeAuthority   ? rest.ChangeAuthority()
      : arguments.command == Command::kFinishAuthority ? rest.FinishAuthority(arguments.force)
                                                       : rest.Authority();
  MUSTER_RETURN_IF_ERROR(answer.status());
  if (arguments.json) {
    out << answer->json << std::endl;
    return kExitDone;
  }
  std::string text;
  if (arguments.command == Command::kChangeAuthority)
    text =
        "The authority is another one from now on. Nobody halts: hosts and members get new "
        "certificates\nby themselves. Whoever has a copy of authority.pem needs the new one before "
        "long.\n";
  if (arguments.command == Command::kFinishAuthority)
    text = "The authority before is trusted no more.\n";
  out << PrintableLines(absl::StrCat(text, TextOf(*answer))) << std::flush;
  return kExitDone;
}

}  // namespace muster::cli
