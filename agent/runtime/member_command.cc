#include "agent/runtime/member_command.h"

#include "absl/strings/str_cat.h"

namespace muster::agent {

std::vector<std::string> MemberCommand(const Spawn& spawn, const MemberSurroundings& around) {
  const char* program = RunsTask(spawn.role) ? "/muster-worker" : "/muster-server";
  std::vector<std::string> command = {around.programs + program,
                                      "--coordinator",
                                      around.coordinator,
                                      "--job",
                                      spawn.key.job,
                                      "--start",
                                      absl::StrCat(spawn.start.value()),
                                      "--placement",
                                      absl::StrCat(spawn.placement.value()),
                                      "--name",
                                      spawn.key.name,
                                      "--node",
                                      around.node,
                                      "--listen",
                                      around.listen,
                                      "--metrics",
                                      around.metrics};
  if (!around.identity.empty()) command.insert(command.end(), {"--identity", around.identity});
  if (!around.cluster.empty()) command.insert(command.end(), {"--cluster", around.cluster});
  if (spawn.role == Role::kReader) command.push_back("--read");
  if (!RunsTask(spawn.role)) return command;
  if (spawn.role == Role::kFollower) command.push_back("--follow");
  command.insert(command.end(), {"--dir", around.job_folder});  // others have no files there
  for (const std::string& folder : around.plugins)
    command.insert(command.end(), {"--plugins", folder});
  return command;
}

}  // namespace muster::agent
