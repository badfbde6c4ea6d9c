// What all jobs that are kept may come to, ended ones too: whoever submits jobs fills memory and
// store until they are deleted. Plain values, which live as long as whoever counts.
#pragma once

#include <cstddef>
#include <string>

#include "lib/domain/job.h"

namespace muster::coordinator {

// A store of earlier times may hold more: then nothing is added.
struct JobBudget {
  size_t jobs = 10'000;
  size_t spec_bytes = size_t{64} << 20;  // of all specifications, by BytesOf
};

struct KeptJobs {
  size_t jobs = 0;
  size_t spec_bytes = 0;
};

// One of so many equal shares, of each at least one.
JobBudget ShareOf(const JobBudget& all, size_t shares);
inline constexpr size_t kSharesOfUsers = 8;  // as many users together fill it
inline constexpr size_t kSharesOfNamespaces = 2;

// About what it takes in memory. A list of short texts takes several times its length in JSON.
size_t BytesOf(const JobSpec& spec);

// Why a job with this specification is not taken, for people; empty: it is. `who`: keeps them: "the
// coordinator". `held` is what the job
// of its id has now, which never lacks room for no more than that; null: it is a new one.
std::string WhyNotKept(const KeptJobs& kept, const JobSpec& spec, const JobSpec* held,
                       const JobBudget& budget = {}, const std::string& who = "the coordinator");

}  // namespace muster::coordinator
