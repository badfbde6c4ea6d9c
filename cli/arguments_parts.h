// The parts of the command line, each in a file of its own; cli/arguments.cc puts them together.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/arguments.h"
#include "lib/launch/log_flags.h"

namespace muster::cli {

// Each adds its commands, which fill what follows.
void AddTrain(CLI::App& app, TrainArguments& train, LogFlags& log);
void AddRun(CLI::App& app, RunArguments& run, LogFlags& log);
void AddDemo(CLI::App& app, DemoArguments& demo, LogFlags& log);
void AddUp(CLI::App& app, UpArguments& up, LogFlags& log);
void AddAgent(CLI::App& app, AgentArguments& agent, LogFlags& log);
void AddRemotes(CLI::App& app, RemoteArguments& remote);
void AddCurves(CLI::App& app, RemoteArguments& remote);
// `workers`: of scale, which `remote` has as numbers.
void AddHostCommands(CLI::App& app, RemoteArguments& remote, std::string& workers);
void AddTokenCommands(CLI::App& app, RemoteArguments& remote);
void AddCerts(CLI::App& app, CertsArguments& certs, RemoteArguments& remote);
// `coordinator`: of doctor, which has it as a list.
void AddDoctor(CLI::App& app, DoctorArguments& doctor, std::string& coordinator);
void AddTasks(CLI::App& app, TasksArguments& tasks);
void AddCheck(CLI::App& app, CheckArguments& check);
void AddData(CLI::App& app, DataArguments& data);
void AddEvaluate(CLI::App& app, EvaluateArguments& evaluate);
void AddGenerate(CLI::App& app, GenerateArguments& generate);
void AddExport(CLI::App& app, ExportArguments& arguments);
void AddCheckpoints(CLI::App& app, CheckpointsArguments& arguments);
void AddCompletion(CLI::App& app, CompletionArguments& completion);

// All commands with all their options, and what they fill. It parses a command line, and says what
// may stand on one.
struct CommandLine {
  CommandLine();
  CommandLine(const CommandLine&) = delete;  // the options of `app` point to the rest
  CommandLine& operator=(const CommandLine&) = delete;

  TrainArguments train;
  RunArguments run;
  UpArguments up;
  AgentArguments agent;
  RemoteArguments remote;
  DemoArguments demo;
  CertsArguments certs;
  DoctorArguments doctor;
  TasksArguments tasks;
  CheckArguments check;
  DataArguments data;
  EvaluateArguments evaluate;
  GenerateArguments generate;
  ExportArguments exported;
  CheckpointsArguments checkpoints;
  CompletionArguments completion;
  LogFlags log;
  std::string workers;      // of scale, which `remote` has as numbers
  std::string coordinator;  // of doctor, which has it as a list
  CLI::App app;
};

// Options of several commands that are about a job's file.
void AddSpec(CLI::App& command, std::string& spec);
void AddProcesses(CLI::App& command, std::optional<int>& workers, std::optional<int>& servers);
void AddSettings(CLI::App& command, std::vector<std::string>& settings);
void AddAccept(CLI::App& command, std::vector<std::string>& accept);
void AddPlugins(CLI::App& command, std::vector<std::string>& folders);

// A command that asks a cluster, with the options that all of these have.
CLI::App* AddRemote(CLI::App& app, const char* name, const char* about, RemoteArguments& remote);

// Digits that fit: CLI11 takes the largest number for one that is too large, and 010 for 8.
CLI::Validator WholeNumber();

// Of a job, a host, a token or a namespace, as it stands in the path of a request.
CLI::Validator NameInUrl();

struct PeriodLimits {
  int64_t longest = 0;         // seconds
  bool may_be_number = false;  // without a unit, of seconds
};
// "90s", "15m", "2h", "3d", of a second at least, as seconds.
CLI::Validator Period(PeriodLimits limits);

inline constexpr char kAboutDetails[] = "progress shows learning rate and gradient norm, too";

}  // namespace muster::cli
