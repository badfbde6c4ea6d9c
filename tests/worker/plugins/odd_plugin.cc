// A plug-in whose oddity is compiled in: ODDITY is one of these names.
#include <cmath>
#include <cstdint>
#include <stdexcept>

#include "tests/worker/plugins/odd_task.h"

#define NONE 0
#define NO_SYMBOL 1
#define OLD_INTERFACE 2
#define OTHER_MUSTER 3
#define OTHER_TORCH 4
#define THROWS 5
#define NO_TASK 6
#define TAKEN_NAME 7
#define BAD_NAME 8
#define BAD_DEFAULT 9
#define NO_RULE 10
#define UNDEFINED 11
#define HANGS 12
#define TWICE 13
#define ENDLESS 14
#define TOO_WIDE 15

#if ODDITY == HANGS
#include <unistd.h>

namespace {
[[maybe_unused]] const int never_made = [] {
  for (;;) pause();
  return 0;
}();
}  // namespace
#endif

#if ODDITY == UNDEFINED
int WhatNobodyHas();
#endif

namespace {

[[maybe_unused]] std::vector<muster::TaskType> Tasks() {
  muster::TaskType type = muster::OddType();
#if ODDITY == THROWS
  throw std::runtime_error("no plug-in today");
#elif ODDITY == UNDEFINED
  return std::vector<muster::TaskType>(static_cast<size_t>(WhatNobodyHas()));
#elif ODDITY == NO_TASK
  return {};
#elif ODDITY == TAKEN_NAME
  type.info.name = "counting";
#elif ODDITY == BAD_NAME
  type.info.name = "Odd One";
#elif ODDITY == BAD_DEFAULT
  type.info.parameters[2].default_value = std::vector<double>{10};
#elif ODDITY == NO_RULE
  type.info.multiple = "width";
  type.info.divisor = "heads";
#elif ODDITY == TWICE
  return {type, type};
#elif ODDITY == ENDLESS
  type.info.parameters.push_back(
      muster::TaskParameter::Real("slope", 0, -INFINITY, INFINITY, "of a line"));
#elif ODDITY == TOO_WIDE
  type.info.parameters.push_back(
      muster::TaskParameter::Integer("key", 0, INT64_MIN, INT64_MAX, "of anything"));
#endif
  return {type};
}

[[maybe_unused]] muster::PluginBuild Build() {
  muster::PluginBuild build = muster::kBuildHere;
#if ODDITY == OLD_INTERFACE
  build.interface = 0;
#elif ODDITY == OTHER_MUSTER
  build.muster = "0.0.9";
#elif ODDITY == OTHER_TORCH
  build.torch = "1.13.1";
#endif
  return build;
}

}  // namespace

#if ODDITY != NO_SYMBOL
extern "C" __attribute__((visibility("default"))) const muster::Plugin* muster_plugin() {
  static const muster::Plugin plugin = {Build(), Tasks};
  return &plugin;
}
#endif
