// muster-server: one server process of one job, or its reader.
#include "CLI/CLI.hpp"
#include "lib/launch/member_program.h"

int main(int argc, char** argv) {
  bool reads = false;
  muster::MemberProgram program;
  program.name = "muster-server";
  program.description =
      "A server of a Muster job: it owns chunks, adds gradients and applies updates. With --read "
      "it is the job's reader instead, which spools the stream that the job trains on";
  program.role = [&] { return reads ? muster::Role::kReader : muster::Role::kServer; };
  program.add_options = [&](CLI::App& app) {
    app.add_flag("--read", reads, "spool the job's stream (data.format: stream)");
  };
  return muster::RunMember(argc, argv, program);
}
