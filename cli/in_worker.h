// Commands that need LibTorch or plug-ins, which workers alone have: the worker program runs in
// this process's place and answers on its standard output.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/arguments.h"
#include "lib/checkpoint/files.h"

namespace muster::cli {

struct WorkerCommand {
  std::vector<std::string> words;  // after the program's name
  std::string input;               // on its standard input
  // What it reads of a checkpoint that it does not see itself; null: it sees it, or needs none.
  std::shared_ptr<const CheckpointFiles> files{};
};
// `plugins`: the folders that count, those of the installation first.
WorkerCommand TasksCommand(const TasksArguments& tasks, const std::vector<std::string>& plugins);
// kInvalidArgument: the specification cannot be read or is wrong; the message names the place.
absl::StatusOr<WorkerCommand> CheckCommand(const CheckArguments& check,
                                           const std::vector<std::string>& plugins);

// kInvalidArgument likewise; or nothing says of which format the files are.
absl::StatusOr<WorkerCommand> DataCommand(const DataArguments& data,
                                          const std::vector<std::string>& plugins);

// Its exit code, once it has ended. A signal that others send, such as that of Ctrl-C, ends this
// process as it has ended the worker. kInternal: the worker was killed by another signal, or has
// not come to its own end; whose code it ran is named. kNotFound, and others: it cannot be started.
absl::StatusOr<int> RunInWorker(const std::string& program, const WorkerCommand& command);

}  // namespace muster::cli
