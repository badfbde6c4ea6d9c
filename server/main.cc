// muster-server: one server process of one job.
#include "lib/launch/member_program.h"

int main(int argc, char** argv) {
  return muster::RunMember(
      argc, argv,
      {.name = "muster-server",
       .description =
           "A server of a Muster job: it owns chunks, adds gradients and applies updates",
       .role = [] { return muster::Role::kServer; }});
}
