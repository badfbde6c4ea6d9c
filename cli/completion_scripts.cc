// Each asks the muster that was typed, so it is never of another version than that.
#include <string>

#include "cli/complete.h"

namespace muster::cli {
namespace {

// bash cuts words at = and : as well, which the command line does not, and takes only what comes
// behind the last cut.
constexpr char kBash[] = R"script(# Completion of muster for bash: source <(muster completion bash)
_muster() {
  local rest=${COMP_LINE:0:COMP_POINT} words=() lines=() word i
  for ((i = 0; i <= COMP_CWORD; ++i)); do
    word=${COMP_WORDS[i]}
    if ((i > 0)) && [[ $rest != [[:space:]]* ]]; then
      words[-1]+=$word
    else
      words+=("$word")
    fi
    rest=${rest#"${rest%%[![:space:]]*}"}
    rest=${rest#"$word"}
  done
  local typed=${words[-1]}
  local cut=${typed%"${typed##*[=:]}"}
  mapfile -t lines < <("${words[0]/#\~/$HOME}" __complete -- "${words[@]:1}" 2>/dev/null)
  COMPREPLY=()
  case ${lines[0]} in
    files)
      compopt -o filenames
      mapfile -t COMPREPLY < <(compgen -f -- "${typed#--*=}")
      ;;
    folders)
      compopt -o filenames
      mapfile -t COMPREPLY < <(compgen -d -- "${typed#--*=}")
      ;;
    *)
      for word in "${lines[@]:1}"; do
        word=${word%%$'\t'*}
        COMPREPLY+=("${word#"$cut"}")
      done
      ;;
  esac
}
complete -F _muster muster
)script";

constexpr char kZsh[] = R"script(#compdef muster
# Completion of muster for zsh: source <(muster completion zsh), after compinit
_muster() {
  local -a lines candidates described
  local line
  lines=("${(@f)$(${(Q)words[1]} __complete -- "${(@Q)words[2,CURRENT-1]}" "$PREFIX" 2>/dev/null)}")
  case $lines[1] in
    files)
      compset -P '--*='
      _files
      ;;
    folders)
      compset -P '--*='
      _files -/
      ;;
    *)
      for line in "${(@)lines[2,-1]}"; do
        candidates+=("${line%%$'\t'*}")
        described+=("${line/$'\t'/  -- }")
      done
      compadd -l -d described -a candidates
      ;;
  esac
}
compdef _muster muster
)script";

constexpr char kFish[] = R"script(# Completion of muster for fish: muster completion fish | source
function __muster_complete
    set -l words (commandline -opc)
    set -l typed (commandline -ct)
    set -l lines ($words[1] __complete -- $words[2..-1] "$typed" 2>/dev/null)
    switch "$lines[1]"
        case files
            __fish_complete_path (string replace -r -- '^--[^=]*=' '' "$typed")
        case folders
            __fish_complete_directories (string replace -r -- '^--[^=]*=' '' "$typed") ''
        case '*'
            if test (count $lines) -gt 1
                printf '%s\n' $lines[2..-1]
            end
    end
end
complete -c muster -f -a '(__muster_complete)'
)script";

}  // namespace

std::string CompletionScript(const std::string& shell) {
  return shell == "bash" ? kBash : shell == "zsh" ? kZsh : kFish;
}

}  // namespace muster::cli
