// What may come next on a command line: `muster __complete`, which the scripts of `muster
// completion` ask. It is found in the description by which command lines are parsed.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "cli/arguments.h"
#include "cli/tokens.h"

namespace muster::cli {

struct Candidate {
  std::string word;
  std::string about;  // for people; may be empty
};

// What else the word may be, which others know.
enum class AlsoFrom { kNothing, kFiles, kFolders, kJobs, kHosts };

struct Completion {
  std::vector<Candidate> candidates;  // whole words that begin with what was typed
  AlsoFrom also = AlsoFrom::kNothing;
  std::string typed;   // of a value that others know
  std::string before;  // what stands before it in the word: "--dir="
  RemoteArguments at;  // of jobs and hosts: where the words say that their cluster is
};
// Pure. `words` as of CompletionArguments.
Completion Complete(const std::vector<std::string>& words);

// Ids of jobs, or names of hosts, that the cluster tells within `patience`, or its folder; none
// where it does not.
std::vector<Candidate> FromCluster(const Completion& completion, const TokenPlaces& places,
                                   Duration patience);

// The first line says what else the shell may offer: files, folders or nothing. Then a line for
// each candidate: the word, a tab, and what it is.
void PrintCompletion(const Completion& completion, const std::vector<Candidate>& more,
                     std::ostream& out);

// For bash, zsh or fish.
std::string CompletionScript(const std::string& shell);

}  // namespace muster::cli
