#include "cli/arguments.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "cli/arguments_parts.h"
#include "cli/cluster_folder.h"
#include "lib/base/exit_codes.h"
#include "lib/base/loopback.h"
#include "lib/base/printable.h"
#include "lib/base/version.h"
#include "lib/config/field_error.h"
#include "lib/launch/command_line.h"

namespace muster::cli {
namespace {

constexpr char kAbout[] =
    "Muster trains neural networks on many processes, with the same bits on any number of\n"
    "workers, through crashes of any of them.";

constexpr char kExamples[] =
    "Examples:\n"
    "  muster train examples/code-lm.yaml                    train here, with as many workers as "
    "the file says\n"
    "  muster train job.yaml --workers 2 --set steps=50      change a field without editing the "
    "file\n"
    "  muster train job.yaml --dir runs/one                  start again there to go on after a "
    "stop or a crash\n"
    "  muster up                                             a cluster that waits for jobs; from "
    "another terminal:\n"
    "  muster submit job.yaml && muster list && muster watch JOB\n"
    "  muster logs JOB --follow                              what the members of a job print\n"
    "  muster stop JOB                                       it goes on with muster resume JOB; "
    "muster cancel JOB ends it for good\n"
    "  muster top                                            hosts and jobs, each second; muster "
    "drain HOST empties a host\n"
    "  muster tasks && muster check job.yaml                 what can be trained; whether a job "
    "would work\n"
    "  muster evaluate --dir runs/one --data held-out        what a trained model is worth, "
    "without a cluster\n"
    "  muster export --dir runs/one -o model.safetensors     its weights as a file that PyTorch "
    "loads\n"
    "  muster doctor                                         what is wrong here, or with a "
    "cluster, "
    "and what to do\n"
    "\n"
    "muster COMMAND --help explains a command. Exit codes: 0 done, 64 bad configuration, 65 bad "
    "data, 66 a step\n"
    "was not finite, 67 a person stopped or cancelled the job, 75 a signal ended it and "
    "it can go on,\n"
    "78 another numeric environment or version than its job's, 1 otherwise; of a worker or server "
    "also 69\n"
    "another process has taken its place, 72 its host lacks the plug-in.";

constexpr char kCompletes[] = "__complete";

constexpr char kMissingHost[] = "host is required: the name of a host (muster hosts shows them)";

constexpr char kMissingJob[] = "job is required: the id of a job (muster list shows them)";

RemoteArguments::Command RemoteCommand(const std::string& name) {
  using Command = RemoteArguments::Command;
  if (name == "token make") return Command::kMakeToken;
  if (name == "token host") return Command::kHostToken;
  if (name == "token list") return Command::kListTokens;
  if (name == "token revoke") return Command::kRevokeToken;
  if (name == "certs user") return Command::kCertifyUser;
  if (name == "certs status") return Command::kShowAuthority;
  if (name == "certs change") return Command::kChangeAuthority;
  if (name == "certs finish") return Command::kFinishAuthority;
  if (name == "submit") return Command::kSubmit;
  if (name == "adopt") return Command::kAdopt;
  if (name == "fork") return Command::kFork;
  if (name == "status") return Command::kStatus;
  if (name == "watch") return Command::kWatch;
  if (name == "stop") return Command::kStop;
  if (name == "resume") return Command::kResume;
  if (name == "cancel") return Command::kCancel;
  if (name == "delete") return Command::kDelete;
  if (name == "logs") return Command::kLogs;
  if (name == "digest") return Command::kDigest;
  if (name == "audit") return Command::kAudit;
  if (name == "ledger") return Command::kLedger;
  if (name == "history") return Command::kHistory;
  if (name == "plot") return Command::kPlot;
  if (name == "tensorboard") return Command::kTensorBoard;
  if (name == "hosts") return Command::kHosts;
  if (name == "drain") return Command::kDrain;
  if (name == "scale") return Command::kScale;
  if (name == "top") return Command::kTop;
  if (name == "queue") return Command::kQueue;
  if (name == "quota") return Command::kQuota;
  return Command::kList;
}

// "127.0.0.1:8080" → "https://127.0.0.1:8080".
std::string UrlFrom(std::string to) {
  const bool is_address = to.find(':') != std::string::npos && to.find("://") == std::string::npos;
  if (is_address) to.insert(0, "https://");
  while (!to.empty() && to.back() == '/') to.pop_back();
  return to;
}

std::string WrongAddress(const std::string& command, const std::string& to) {
  const absl::string_view scheme = absl::StartsWith(to, "https://") ? "https://" : "http://";
  const absl::string_view rest = absl::StripPrefix(to, scheme);
  const absl::string_view address = rest.substr(0, rest.find('/'));
  const absl::Status wrong =
      absl::StrContains(address, "@")
          ? absl::InvalidArgumentError(
                "a user or a password in the address is not taken; write https://HOST:PORT")
          : ParseHostPort(address).status();
  if (absl::StartsWith(to, scheme) && wrong.ok()) return "";
  return absl::StrCat("muster ", command, ": --to: ",
                      absl::StartsWith(to, scheme)
                          ? std::string(wrong.message())
                          : absl::StrCat("'", to, "' is not an address; write HOST:PORT, such as ",
                                         RemoteArguments().to),
                      "\nmuster ", command, " --help explains what is allowed.\n");
}

// Of a command that asks a cluster where --to says so: what is wrong with that; empty: nothing.
std::string NoteAddress(const CLI::App& command, const std::string& name, RemoteArguments& remote) {
  remote.has_to = command.count("--to") > 0;
  remote.to = UrlFrom(remote.to);
  return remote.has_to ? WrongAddress(name, remote.to) : "";
}

bool NeedsJob(RemoteArguments::Command command) {
  using Command = RemoteArguments::Command;
  return command != Command::kList && command != Command::kSubmit && command != Command::kAdopt &&
         command != Command::kFork && !IsAboutHosts(command) && !IsAboutTokens(command);
}

// Where it is left out the folder says it.
std::string MissingJob(const std::string& command, const RemoteArguments& remote) {
  using Command = RemoteArguments::Command;
  const bool needs_none = !NeedsJob(remote.command);
  const bool has_folder = remote.has_dir && remote.command != Command::kDelete;
  if (needs_none || has_folder || !remote.job.empty() || !remote.jobs.empty()) return "";
  return absl::StrCat("muster ", command, ": ", kMissingJob, "\nmuster ", command,
                      " --help explains what is allowed.\n");
}

// Those after "__complete --".
std::vector<std::string> WordsToComplete(int argc, const char* const* argv) {
  std::vector<std::string> words(argv + 2, argv + argc);
  if (!words.empty() && words.front() == "--") words.erase(words.begin());
  if (words.empty()) words.emplace_back();
  return words;
}

std::vector<std::string> CommandsOf(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands(nullptr)) names.push_back(command->get_name());
  return names;
}

// CLI11 says only that a command is missing. `whole`: "muster", or "muster checkpoints", which has
// commands of its own; `words` are those after it.
std::string UnknownCommand(const CLI::App& app, const std::string& whole,
                           absl::Span<const char* const> words) {
  const std::vector<std::string> names = CommandsOf(app);
  if (names.empty() || words.empty() || words[0][0] == '-') return "";
  const std::string first = words[0];
  const auto is_one = [&](const std::string& word) {
    return std::find(names.begin(), names.end(), word) != names.end();
  };
  if (is_one(first))
    return UnknownCommand(*app.get_subcommand(first), absl::StrCat(whole, " ", first),
                          words.subspan(1));
  std::string hint = DidYouMean(first, names);
  if (words.size() > 1 && is_one(words[1]))
    hint = absl::StrCat("; write: ", whole, " ", words[1], " ", Cut(Printable(first)), ".");
  return absl::StrCat(whole, ": '", first, "' is not a command", hint.empty() ? "." : hint,
                      " Commands: ", absl::StrJoin(names, ", "), ". ", whole,
                      " --help explains them.\n");
}

// CLI11 says what is missing before what is wrong: who mistypes an option is told of that first.
std::string UnknownOption(const CLI::App& command) {
  for (const std::string& word : command.remaining()) {
    if (word.empty() || word[0] != '-') continue;
    std::vector<std::string> names;
    for (const CLI::Option* option : command.get_options()) names.push_back(option->get_name());
    return absl::StrCat(word, ": there is no such option", DidYouMean(word, names));
  }
  return "";
}

std::string FailureText(const CLI::App* app, const CLI::Error& error) {
  const CLI::App* given = app;
  std::string command = "muster";
  while (!given->get_subcommands().empty()) {
    given = given->get_subcommands().front();
    absl::StrAppend(&command, " ", given->get_name());
  }
  std::string why = UnknownOption(*given);
  if (why.empty() && given == app) why = "say what to do, such as muster train job.yaml";
  if (why.empty()) why = error.what();
  if (why == "A subcommand is required")
    why = absl::StrCat("say what to do: ", absl::StrJoin(CommandsOf(*given), ", "));
  if (why == "job is required") why = kMissingJob;
  if (why == "host is required") why = kMissingHost;
  return absl::StrCat(command, ": ", why, "\n", command, " --help explains what is allowed.\n");
}

CheckpointsArguments::Verb CheckpointsVerb(absl::string_view name) {
  using Verb = CheckpointsArguments::Verb;
  constexpr std::pair<absl::string_view, Verb> kVerbs[] = {{"list", Verb::kList},
                                                           {"show", Verb::kShow},
                                                           {"verify", Verb::kVerify},
                                                           {"delete", Verb::kDelete},
                                                           {"keep", Verb::kKeep}};
  for (const auto& [known, verb] : kVerbs)
    if (known == name) return verb;
  return Verb::kList;
}

}  // namespace

CommandLine::CommandLine() : app(kAbout, "muster") {
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  up.slots = cores;
  agent.slots = cores;
  app.set_version_flag("--version", kVersion);
  app.require_subcommand(1);
  app.failure_message(FailureText);
  AddTrain(app, train, log);
  AddRun(app, run, log);
  AddDemo(app, demo, log);
  AddUp(app, up, log);
  AddAgent(app, agent, log);
  AddRemotes(app, remote);
  AddCurves(app, remote);
  AddHostCommands(app, remote, workers);
  AddTokenCommands(app, remote);
  AddCerts(app, certs, remote);
  AddDoctor(app, doctor, coordinator);
  AddTasks(app, tasks);
  AddCheck(app, check);
  AddData(app, data);
  AddEvaluate(app, evaluate);
  AddGenerate(app, generate);
  AddExport(app, exported);
  AddCheckpoints(app, checkpoints);
  AddCompletion(app, completion);
  app.footer(kExamples);
}

Parsed ParseArguments(int argc, const char* const* argv) {
  // What the scripts of `muster completion` ask; the words are not ours to refuse.
  if (argc > 1 && absl::string_view(argv[1]) == kCompletes)
    return {.arguments = CompletionArguments{.words = WordsToComplete(argc, argv)}};
  CommandLine line;
  CLI::App& app = line.app;
  const absl::Span<const char* const> given_words(argv, static_cast<size_t>(argc));
  if (std::string unknown = UnknownCommand(app, "muster", given_words.subspan(1)); !unknown.empty())
    return {.exit_code = kExitBadConfiguration, .text = std::move(unknown)};
  // Scripts for torchrun are full of -nr, which is no option of one letter.
  std::vector<const char*> words(argv, argv + argc);
  if (argc > 1 && absl::string_view(argv[1]) == "run")
    std::replace_if(
        words.begin() + 2, words.end(),
        [](const char* word) { return absl::string_view(word) == "-nr"; }, "--node-rank");
  try {
    ParseCommandLine(app, argc, words.data());
  } catch (const CLI::ParseError& error) {
    std::ostringstream out;
    const int code = app.exit(error, out, out);
    return {.exit_code = code == 0 ? kExitDone : kExitBadConfiguration, .text = out.str()};
  }
  Parsed parsed{.log = line.log};
  const CLI::App& first = *app.get_subcommands().front();
  const bool is_pair = !first.get_subcommands().empty();
  const CLI::App& given = is_pair ? *first.get_subcommands().front() : first;
  const std::string name =
      is_pair ? absl::StrCat(first.get_name(), " ", given.get_name()) : first.get_name();
  std::string wrong;
  if (name == "train") {
    parsed.arguments = line.train;
  } else if (name == "run") {
    RunArguments& run = line.run;
    if (run.epochs) run.settings.push_back(absl::StrCat("epochs=", *run.epochs));
    run.words.assign(words.begin() + 2, words.end());
    parsed.arguments = run;
  } else if (name == "demo") {
    parsed.arguments = line.demo;
  } else if (name == "up") {
    parsed.arguments = line.up;
  } else if (name == "agent") {
    parsed.arguments = line.agent;
  } else if (name == "certs init" || name == "certs show") {
    line.certs.command =
        name == "certs init" ? CertsArguments::Command::kInit : CertsArguments::Command::kShow;
    parsed.arguments = line.certs;
  } else if (name == "tasks") {
    parsed.arguments = line.tasks;
  } else if (name == "check") {
    parsed.arguments = line.check;
  } else if (name == "data inspect" || name == "data hash" || name == "data convert") {
    using Command = DataArguments::Command;
    line.data.command = name == "data hash"      ? Command::kHash
                        : name == "data convert" ? Command::kConvert
                                                 : Command::kInspect;
    parsed.arguments = line.data;
  } else if (name == "evaluate") {
    wrong = NoteAddress(given, name, line.evaluate.remote);
    parsed.arguments = line.evaluate;
  } else if (name == "generate") {
    wrong = NoteAddress(given, name, line.generate.remote);
    parsed.arguments = line.generate;
  } else if (name == "export") {
    wrong = NoteAddress(given, name, line.exported.remote);
    parsed.arguments = line.exported;
  } else if (first.get_name() == "checkpoints") {
    wrong = NoteAddress(given, "checkpoints", line.checkpoints.remote);
    line.checkpoints.verb = CheckpointsVerb(given.get_name());
    parsed.arguments = line.checkpoints;
  } else if (name == "completion") {
    parsed.arguments = line.completion;
  } else if (name == "doctor") {
    // Of its folder nothing is read here: where that hangs, doctor is to say it.
    RemoteArguments& remote = line.doctor.remote;
    remote.has_dir = given.count("--dir") > 0;
    wrong = NoteAddress(given, name, remote);
    parsed.arguments = line.doctor;
  } else {
    RemoteArguments& remote = line.remote;
    remote.command = RemoteCommand(name);
    remote.has_dir = given.get_option_no_throw("--dir") != nullptr && given.count("--dir") > 0;
    if (!remote.dirs.empty()) remote.dir = remote.dirs.front();
    // Here, since a delimiter of CLI11 drops what is empty between two of it.
    if (!remote.columns.empty())
      remote.columns = absl::StrSplit(absl::StrJoin(remote.columns, ","), ',');
    remote.series = absl::StrSplit(absl::StrJoin(remote.series, ","), ',');
    if (std::string missing = MissingJob(name, remote); !missing.empty())
      return {.exit_code = kExitBadConfiguration, .text = std::move(missing)};
    remote.has_to = given.count("--to") > 0;
    // A folder says where its cluster answers, unless the command line does.
    const bool has_folder = remote.command == RemoteArguments::Command::kDelete ||
                            remote.command == RemoteArguments::Command::kLogs;
    const bool says_nothing = !remote.has_dir && !remote.has_to && IsInUse(remote.dir);
    const std::string url = has_folder || says_nothing ? UrlOfCluster(remote.dir) : "";
    if (!url.empty() && given.count("--to") == 0) remote.to = url;
    remote.to = UrlFrom(remote.to);
    wrong = remote.has_to ? WrongAddress(name, remote.to) : "";
    parsed.arguments = remote;
  }
  if (!wrong.empty()) return {.exit_code = kExitBadConfiguration, .text = std::move(wrong)};
  return parsed;
}

}  // namespace muster::cli
