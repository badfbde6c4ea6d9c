#include "cli/complete.h"

#include <algorithm>
#include <filesystem>
#include <future>
#include <map>
#include <optional>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cli/arguments_parts.h"
#include "cli/cluster_folder.h"
#include "cli/rest_client.h"
#include "lib/base/printable.h"
#include "lib/http/client.h"

namespace muster::cli {
namespace {

// What the name of an option's type says of its values.
struct Values {
  AlsoFrom also = AlsoFrom::kNothing;
  std::vector<std::string> words{};
};
const std::map<std::string, Values>& KnownTypes() {
  static const auto* const kTypes = new std::map<std::string, Values>{
      {"FILE", {AlsoFrom::kFiles}},
      {"SPEC.yaml", {AlsoFrom::kFiles}},
      {"PLAN.yaml", {AlsoFrom::kFiles}},
      {"WEBHOOKS.yaml", {AlsoFrom::kFiles}},
      {"DIR", {AlsoFrom::kFolders}},
      {"FOLDER", {AlsoFrom::kFolders}},
      {"JOB", {AlsoFrom::kJobs}},
      {"HOST", {AlsoFrom::kHosts}},
      {"ID|HOST", {AlsoFrom::kHosts}},
      {"LEVEL", {AlsoFrom::kNothing, {"debug", "info", "warning", "error"}}},
      {"STATE",
       {AlsoFrom::kNothing,
        {"queued", "checking", "starting", "running", "recovering", "stopping", "done", "stopped",
         "failed", "cancelled"}}},
  };
  return *kTypes;
}

bool IsLiteral(absl::string_view word) {
  return !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
    return absl::ascii_islower(static_cast<unsigned char>(c));
  });
}

// "ROLE:{viewer,operator}" as CLI11 writes a choice, or "auto|none|N|LIST": words in small letters
// stand for themselves.
Values ValuesOf(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  Values values;
  const size_t open = type.find('{');
  if (open != std::string::npos && type.find('}', open) != std::string::npos) {
    values.words = absl::StrSplit(type.substr(open + 1, type.find('}', open) - open - 1), ',');
    return values;
  }
  if (const auto known = KnownTypes().find(type); known != KnownTypes().end()) return known->second;
  if (absl::StrContains(type, '|'))
    for (const absl::string_view word : absl::StrSplit(type, '|'))
      if (IsLiteral(word)) values.words.emplace_back(word);
  return values;
}

bool IsHidden(const CLI::Option& option) { return option.get_group().empty(); }

bool TakesValue(const CLI::Option& option) { return option.get_items_expected_max() > 0; }

// What is one line of a list.
std::string FirstSentence(const std::string& about) {
  return about.substr(0, std::min({about.find('\n'), about.find(": "), about.find("; "),
                                   about.find(" ("), about.size()}));
}

// Walks along a command line.
class Walk {
 public:
  explicit Walk(const CLI::App& app) : app_(&app) {}

  // A word that is complete.
  void Pass(const std::string& word) {
    if (const CLI::Option* option = std::exchange(open_, nullptr); option != nullptr) {
      Note(*option, word);
    } else if (!only_arguments_ && word == "--") {
      only_arguments_ = true;
    } else if (!only_arguments_ && word.size() > 1 && word[0] == '-') {
      PassOption(word);
    } else if (const CLI::App* below = arguments_ == 0 ? Command(word) : nullptr) {
      app_ = below;
    } else {
      ++arguments_;
    }
  }

  // The word that is being typed.
  Completion Offer(const std::string& word) const {
    Completion completion{.at = at_};
    const size_t equals = word.find('=');
    if (open_ != nullptr) {
      OfferValues(*open_, word, "", completion);
    } else if (absl::StartsWith(word, "--") && equals != std::string::npos) {
      if (const CLI::Option* option = Option(word.substr(0, equals)); option != nullptr)
        OfferValues(*option, word.substr(equals + 1), word.substr(0, equals + 1), completion);
    } else if (!only_arguments_ && absl::StartsWith(word, "-")) {
      OfferOptions(word, completion);
    } else if (arguments_ == 0 && !Commands().empty()) {
      for (const CLI::App* command : Commands())
        Add({command->get_name(), command->get_description()}, word, completion);
    } else if (const CLI::Option* argument = Argument(); argument != nullptr) {
      OfferValues(*argument, word, "", completion);
    }
    return completion;
  }

 private:
  static void Add(Candidate candidate, const std::string& typed, Completion& completion) {
    if (absl::StartsWith(candidate.word, typed))
      completion.candidates.push_back(std::move(candidate));
  }

  static void OfferValues(const CLI::Option& option, const std::string& typed,
                          const std::string& before, Completion& completion) {
    const Values values = ValuesOf(option);
    completion.also = values.also;
    completion.typed = typed;
    completion.before = before;
    for (const std::string& value : values.words)
      Add({before + value, ""}, before + typed, completion);
  }

  void OfferOptions(const std::string& word, Completion& completion) const {
    for (const CLI::Option* option : app_->get_options()) {
      const bool may_come_again =
          option->get_multi_option_policy() != CLI::MultiOptionPolicy::TakeLast &&
          option->get_expected_max() > 1;
      if (option->get_positional() || IsHidden(*option)) continue;
      if (given_.contains(option) && !may_come_again) continue;
      for (const std::string& name : option->get_lnames())
        if (!absl::StrContains(name, '_'))  // the same, as torchrun writes it
          Add({"--" + name, FirstSentence(option->get_description())}, word, completion);
    }
  }

  std::vector<const CLI::App*> Commands() const {
    std::vector<const CLI::App*> commands;
    for (const CLI::App* command : app_->get_subcommands(nullptr))
      if (!command->get_group().empty()) commands.push_back(command);
    return commands;
  }
  const CLI::App* Command(const std::string& name) const {
    for (const CLI::App* command : Commands())
      if (command->get_name() == name) return command;
    return nullptr;
  }
  const CLI::Option* Option(const std::string& name) const {
    return app_->get_option_no_throw(name);
  }
  // The one that comes next; the last one may take several.
  const CLI::Option* Argument() const {
    size_t number = 0;
    for (const CLI::Option* option : app_->get_options())
      if (option->get_positional() && number++ == arguments_) return option;
    return nullptr;
  }

  void PassOption(const std::string& word) {
    const size_t equals = word.find('=');
    const CLI::Option* option = Option(word.substr(0, equals));
    if (option == nullptr) return;
    given_.insert(option);
    if (!TakesValue(*option)) return;
    if (equals == std::string::npos)
      open_ = option;
    else
      Note(*option, word.substr(equals + 1));
  }

  void Note(const CLI::Option& option, const std::string& value) {
    const std::string name = option.get_name();
    if (name == "--to") std::tie(at_.to, at_.has_to) = std::pair(value, true);
    if (name == "--dir") std::tie(at_.dir, at_.has_dir) = std::pair(value, true);
    if (name == "--authority") at_.authority = value;
  }

  const CLI::App* app_;
  const CLI::Option* open_ = nullptr;  // its value comes next
  bool only_arguments_ = false;        // after "--"
  size_t arguments_ = 0;
  std::set<const CLI::Option*> given_;
  RemoteArguments at_;
};

// A shell takes what we print for words: those of others are ids and names, and nothing else.
bool IsPlain(absl::string_view word) {
  return !word.empty() && word[0] != '-' && std::all_of(word.begin(), word.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' || c == '-';
  });
}

std::vector<Candidate> JobsInFolder(const std::string& folder) {
  std::vector<Candidate> jobs;
  std::error_code none;
  for (const auto& job : std::filesystem::directory_iterator(folder + "/jobs", none))
    jobs.push_back({job.path().filename(), ""});
  return jobs;
}

std::vector<Candidate> Ask(const Completion& completion, const TokenPlaces& places,
                           Duration patience) {
  RemoteArguments at = completion.at;
  const bool wants_jobs = completion.also == AlsoFrom::kJobs;
  const bool runs_here = !at.has_to && IsInUse(at.dir);
  if (runs_here)
    at.to = UrlOfCluster(at.dir);
  else if (at.has_dir)
    return wants_jobs ? JobsInFolder(at.dir) : std::vector<Candidate>{};
  if (!absl::StrContains(at.to, "://")) at.to = "https://" + at.to;
  at.may_ask_in_plain_text = false;
  if (!FindWhatItShows(places, at).ok() || !CheckMayAsk(at, at.to).ok()) return {};
  const absl::StatusOr<http::Response> answer =
      http::Get(at.to + (wants_jobs ? "/v1/jobs?limit=1000" : "/v1/hosts?limit=1000"),
                {.timeout = patience, .token = at.token, .trust = at.trust});
  if (!answer.ok() || !http::StatusFromResponse(*answer).ok()) return {};
  std::vector<Candidate> found;
  if (wants_jobs) {
    if (const auto list = ParseJobList(answer->body); list.ok())
      for (const JobAnswer& job : list->jobs) found.push_back({job.id, job.state});
  } else {
    if (const auto list = ParseHostList(answer->body); list.ok())
      for (const HostAnswer& host : list->hosts)
        found.push_back({host.name, host.up ? "up" : "away"});
  }
  return found;
}

}  // namespace

Completion Complete(const std::vector<std::string>& words) {
  const CommandLine line;
  Walk walk(line.app);
  if (words.empty()) return walk.Offer("");
  for (size_t i = 0; i + 1 < words.size(); ++i) walk.Pass(words[i]);
  return walk.Offer(words.back());
}

std::vector<Candidate> FromCluster(const Completion& completion, const TokenPlaces& places,
                                   Duration patience) {
  if (completion.also != AlsoFrom::kJobs && completion.also != AlsoFrom::kHosts) return {};
  // Files may hang as well as a network.
  std::packaged_task<std::vector<Candidate>()> ask(
      [=] { return Ask(completion, places, patience); });
  std::future<std::vector<Candidate>> answer = ask.get_future();
  std::thread(std::move(ask)).detach();
  if (answer.wait_for(patience) != std::future_status::ready) return {};
  std::vector<Candidate> found;
  for (Candidate& candidate : answer.get()) {
    if (!IsPlain(candidate.word) || !absl::StartsWith(candidate.word, completion.typed)) continue;
    candidate.word.insert(0, completion.before);
    found.push_back(std::move(candidate));
  }
  return found;
}

void PrintCompletion(const Completion& completion, const std::vector<Candidate>& more,
                     std::ostream& out) {
  out << (completion.also == AlsoFrom::kFiles     ? "files"
          : completion.also == AlsoFrom::kFolders ? "folders"
                                                  : "nothing")
      << "\n";
  for (const std::vector<Candidate>* list : {&completion.candidates, &more})
    for (const Candidate& candidate : *list)
      out << candidate.word << "\t" << Printable(FirstSentence(candidate.about)) << "\n";
  out << std::flush;
}

}  // namespace muster::cli
