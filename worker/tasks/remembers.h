// An ability of a task whose model's code comes with the job: it tells what that carries from one
// lane to the next.
#pragma once

#include <map>
#include <string>

namespace muster::worker {

class Remembers {
 public:
  virtual ~Remembers() = default;
  // By the name of each thing that the model remembers beside the tensors of the task, which begin
  // anew with each lane: a hash of what it holds now. What no hash can be made of is left out.
  virtual std::map<std::string, std::string> Remembered() = 0;
};

}  // namespace muster::worker
