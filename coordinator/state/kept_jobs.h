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

// About what it takes in memory. A list of short texts takes several times its length in JSON.
size_t BytesOf(const JobSpec& spec);

// Why a job with this specification is not taken, for people; empty: it is. `held` is what the job
// of its id has now, which never lacks room for no more than that; null: it is a new one.
std::string WhyNotKept(const KeptJobs& kept, const JobSpec& spec, const JobSpec* held,
                       const JobBudget& budget = {});

}  // namespace muster::coordinator
