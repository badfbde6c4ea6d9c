// Commands that show the curves of several jobs.
#include <CLI/CLI.hpp>
#include <string>

#include "absl/strings/numbers.h"
#include "cli/arguments_parts.h"

namespace muster::cli {
namespace {

constexpr char kPlotFooter[] =
    "The file's ending says what is made: a picture (.svg), or a page (.html) that tells the "
    "values under the\n"
    "pointer. Both load nothing, and show themselves light or dark. Series are those of muster "
    "history: loss,\n"
    "learning_rate, gradient_norm, samples_per_second, and validation.METRIC of what the job "
    "measures, as in\n"
    "validation.loss; several of them stand on one axis. Steps that a rewind left out are not "
    "shown, and a value\n"
    "that is not finite is a gap.\n"
    "\n"
    "Examples:\n"
    "  muster plot count-1 count-2 -o loss.svg\n"
    "  muster plot --dir runs/one --dir runs/two -o loss.html --smooth\n"
    "  muster plot count-1 --series gradient_norm --log -o norm.svg\n"
    "  muster plot count-1 --series loss,validation.loss -o both.svg";

constexpr char kTensorBoardFooter[] =
    "Writes the history of each job as a run of TensorBoard, DIR/JOB, with its hyper-parameters, "
    "its "
    "specification\n"
    "and the text that its trained model made. What this has written there before is replaced, and "
    "other files stay. The\n"
    "folder of a muster train or muster up has such runs already, in tensorboard, which grow while "
    "jobs train.\n"
    "\n"
    "Examples:\n"
    "  muster tensorboard count-1 count-2 -o board && tensorboard --logdir board\n"
    "  muster tensorboard --dir runs/one --dir runs/two -o board";

// Of commands about several jobs: words that name them, and folders in their place.
CLI::App* AddOverJobs(CLI::App* command, RemoteArguments& remote) {
  command->add_option("jobs", remote.jobs, "ids of jobs; with --dir they may be left out")
      ->check(NameInUrl())
      ->type_name("JOB");
  command->remove_option(command->get_option("--json"));
  command->remove_option(command->get_option("--dir"));
  command
      ->add_option("--dir", remote.dirs,
                   "in place of --to: the folder of a run or a cluster on this machine, also when "
                   "nothing runs there; of all its jobs, where none is named. May be given again")
      ->type_name("DIR")
      ->allow_extra_args(false)
      ->excludes("--to");
  return command;
}

bool ReadWeight(const std::string& text, double& weight) {
  return absl::SimpleAtod(text, &weight) && weight >= 0 && weight < 1;
}

// "true" is what stands for a flag without a value.
CLI::Validator Weight() {
  const auto read = [](std::string& text) -> std::string {
    if (text == "true") text = "0.9";
    double weight = 0;
    if (ReadWeight(text, weight)) return "";
    return "'" + text +
           "' is no weight; write --smooth, or a number from 0 to below 1, as in "
           "--smooth=0.6";
  };
  return {read, "", ""};
}

}  // namespace

void AddCurves(CLI::App& app, RemoteArguments& remote) {
  CLI::App* plot =
      AddOverJobs(AddRemote(app, "plot", "draw the loss of jobs as a picture", remote), remote);
  plot->add_option("-o,--output", remote.output, "the file that is written, .svg or .html")
      ->required()
      ->type_name("FILE");
  plot->add_option("--series", remote.series, "what is drawn, with commas; may be given again")
      ->default_str("loss")
      ->type_name("NAME")
      ->allow_extra_args(false);
  plot->add_flag("--smooth")
      ->description(
          "without the noise: a moving average, and the values faintly behind it; --smooth=0.6 is "
          "less smooth than 0.9, which it is by itself")
      ->transform(Weight())
      ->each([&remote](const std::string& text) { ReadWeight(text, remote.smooth); });
  plot->add_flag("--log", remote.is_log, "a logarithmic axis");
  plot->footer(kPlotFooter);
  CLI::App* board = AddOverJobs(
      AddRemote(app, "tensorboard", "write the history of jobs for TensorBoard", remote), remote);
  board->add_option("-o,--output", remote.output, "the folder in which each job gets one")
      ->required()
      ->type_name("DIR");
  board->footer(kTensorBoardFooter);
}

}  // namespace muster::cli
