// tasks, check, data, evaluate, generate, export and checkpoints, which need no cluster.
#include <CLI/CLI.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "cli/arguments_parts.h"
#include "lib/domain/labels.h"

namespace muster::cli {
namespace {

constexpr int kMostEntries = 10'000;
constexpr int kUsualEntries = 20;
constexpr int kMostGenerated = 1 << 20;

constexpr char kTasksFooter[] =
    "Examples:\n"
    "  muster tasks                        those that are part of Muster\n"
    "  muster tasks code-lm                one of them: its parameters, their bounds and defaults\n"
    "  muster tasks --plugins build        and those of your own (docs/plugins.md)";

constexpr char kCheckFooter[] =
    "A worker reads the data, makes the model, runs the first lane and says what a worker needs of "
    "memory. Nothing is\n"
    "trained, and nothing is written. The lane is run again, to see that it gives the same bits.\n"
    "It ends where nothing goes on for the job's thread_patience, or 120 s: a constructor, or a "
    "pass through the model,\n"
    "does not return.\n"
    "Exit code 0 where the job is fit to run, 64 where its specification or its model is not, 65 "
    "where its data is not.\n"
    "\n"
    "Examples:\n"
    "  muster check examples/code-lm.yaml\n"
    "  muster check job.yaml --plugins build --gradients      and whether gradients are those of "
    "the loss\n"
    "  muster check job.yaml --json | jq .memory.worker";

constexpr char kDataFooter[] =
    "A file that ends in .yaml, .yml or .json is a job's specification; its task is not asked. "
    "Other files are read as what\n"
    "their name ends in (.csv, .npy, .npz, .safetensors, .pt, .h5, .tar), a folder as images; "
    "--set "
    "data.format says otherwise.\n"
    "\n"
    "Examples:\n"
    "  muster data inspect job.yaml                    formats, fields, shapes, the first sample\n"
    "  muster data inspect train.h5 --set data.label=y\n"
    "  muster data hash job.yaml                       reads all, and keeps the hash for "
    "data.verify: quick\n"
    "  muster data hash job.yaml --set data.verify=quick --json\n"
    "  muster data convert train.csv --set data.label=price -o train.safetensors";

constexpr char kConvertFooter[] =
    "Samples are written as the files hold them, nothing computed. Of what a name ends in:\n"
    "  TARGET.safetensors   all arrays in one file\n"
    "  TARGET.npy           of samples with one array; else a folder of them, with --format numpy\n"
    "  TARGET.tar           images and their labels, the files as they are (WebDataset); a folder "
    "of shards with\n"
    "                       --format webdataset\n"
    "Images become bytes where the target holds arrays. The target is there whole or not at all, "
    "and what a job writes\n"
    "as its data is told.\n"
    "\n"
    "Examples:\n"
    "  muster data convert train.h5 --set data.label=y -o train.safetensors\n"
    "  muster data convert photos --set data.image_size='[224, 224]' -o photos.safetensors\n"
    "  muster data convert photos --format webdataset --shard-mib 512 -o shards\n"
    "  muster data convert jan.csv feb.csv --set data.label=y --format numpy -o table --json";

constexpr char kEvaluateFooter[] =
    "It reads the checkpoint from the disk, where it does not matter whether its cluster runs; "
    "with --to the coordinator\n"
    "of a cluster gives it out, to whoever may see the job. The worker, the data and plug-ins are "
    "those of this machine.\n"
    "Each sample is used once, in the order of their numbers, as many at a time as a lane of the "
    "job has; so the result\n"
    "has the same bits each time.\n"
    "\n"
    "Examples:\n"
    "  muster evaluate --dir runs/one                            on the data that it was trained "
    "with\n"
    "  muster evaluate JOB --dir cluster --step 500 --data held-out.csv\n"
    "  muster evaluate JOB@best --to train.example.org:8080 --data held-out.csv\n"
    "  muster evaluate --dir runs/one --average                  by the moving average of "
    "ema.decay\n"
    "  muster evaluate --checkpoints /backup/JOB --data held-out --json | jq .metrics.loss";

constexpr char kExportFooter[] =
    "Tensors have the names and shapes that the module gives them, buffers too.\n"
    "  safetensors   by safetensors' load_file, in Python, Rust and others\n"
    "  pt            by torch.load(FILE, weights_only=True): a state_dict; with --optimizer\n"
    "                {\"model\": state_dict, \"optimizer\": state_dict of torch.optim}\n"
    "  libtorch      by torch::load(module, FILE) in C++\n"
    "The file is there whole or not at all. With --to the coordinator of a cluster gives the "
    "checkpoint out, to\n"
    "whoever may see the job; its checksums are compared here.\n"
    "\n"
    "Examples:\n"
    "  muster export --dir runs/one -o model.safetensors\n"
    "  muster export JOB@500 --to train.example.org:8080 -o model.safetensors\n"
    "  muster export JOB --dir cluster --step 500 --format pt --optimizer -o state.pt\n"
    "  muster export --dir runs/one --average -o average.safetensors";

constexpr char kCheckpointsFooter[] =
    "Of --dir and --checkpoints they are read from the disk; whether their cluster runs does not "
    "matter, except for\n"
    "delete. With --to the coordinator of a cluster that stays up is asked, and what its job may "
    "go back to stays.\n"
    "\n"
    "Examples:\n"
    "  muster checkpoints list --dir runs/one\n"
    "  muster checkpoints keep JOB --dir cluster --step 500 --name before-cut\n"
    "  muster checkpoints delete JOB --step before-cut --force --to train.example.org:8080\n"
    "  muster export JOB@before-cut --dir cluster -o model.safetensors\n"
    "  muster evaluate JOB@best --dir cluster          by what checkpoint.keep.best of the job "
    "says\n"
    "  muster checkpoints verify --checkpoints /backup/JOB";

constexpr char kGenerateFooter[] =
    "Of tasks that make text, such as code-lm. The same seed makes the same text. With --to the "
    "coordinator of a cluster\n"
    "gives the checkpoint out, to whoever may see the job.\n"
    "\n"
    "Examples:\n"
    "  muster generate --dir runs/one --prompt 'int main(' --bytes 200 --seed 7\n"
    "  muster generate JOB --to train.example.org:8080 --prompt 'int main('";

CLI::Validator StepOrName() {
  return CLI::Validator(
      [](const std::string& text) {
        const bool is_number =
            !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
        if (is_number) return WholeNumber()(text);
        return IsKeptName(text) ? std::string()
                                : absl::StrCat("'", text, "' is neither a step nor a name (",
                                               kKeptNameRule, ")");
      },
      "");
}

// Which checkpoint.
void AddCheckpoint(CLI::App& command, CheckpointArguments& checkpoint) {
  command
      .add_option("job", checkpoint.job,
                  "id of the job (default: the one job of --dir); JOB@STEP and JOB@NAME say which "
                  "checkpoint, too")
      ->type_name("JOB");
  command.add_option("--dir", checkpoint.dir, "folder of the run or of the cluster")
      ->capture_default_str()
      ->type_name("DIR");
  command
      .add_option("--checkpoints", checkpoint.checkpoints,
                  "the job's own folder of checkpoints, wherever it lies now")
      ->type_name("FOLDER")
      ->excludes("--dir")
      ->excludes("job");
  command
      .add_option("--step", checkpoint.step,
                  "of the checkpoint, the name that it is kept by, or best (default: the newest)")
      ->check(StepOrName())
      ->type_name("STEP");
  command.add_flag("--json", checkpoint.json, "as one JSON object, for programs");
}

// From a folder or from a cluster.
void AddCheckpointOfAny(CLI::App& command, AnyCheckpointArguments& checkpoint) {
  AddCheckpoint(command, checkpoint);
  RemoteArguments& remote = checkpoint.remote;
  CLI::Option* const to =
      command
          .add_option("--to", remote.to,
                      "from a cluster: its REST interface, which gives the checkpoint out")
          ->type_name("HOST:PORT")
          ->excludes("--dir")
          ->excludes("--checkpoints");
  command
      .add_option("--authority", remote.authority,
                  "whom to trust at https://: authority.pem of the cluster's identity (default: "
                  "MUSTER_AUTHORITY, ~/.config/muster/authority.pem)")
      ->type_name("FILE")
      ->needs(to);
}

void AddAnyCheckpoint(CLI::App& command, AnyCheckpointArguments& checkpoint) {
  AddCheckpointOfAny(command, checkpoint);
  command.add_flag("--average", checkpoint.average,
                   "the moving average of the parameters (ema.decay of the job) in their place; "
                   "buffers are as they are");
}

void AddSavedModel(CLI::App& command, SavedModelArguments& model) {
  AddAnyCheckpoint(command, model);
  command
      .add_option("--data", model.data,
                  "a file or folder in place of the job's data; may be given again")
      ->allow_extra_args(false)
      ->type_name("FILE");
  AddSettings(command, model.settings);
  AddPlugins(command, model.plugins);
}

}  // namespace

void AddTasks(CLI::App& app, TasksArguments& tasks) {
  CLI::App* command = app.add_subcommand("tasks", "what can be trained, and with which parameters");
  command->add_option("task", tasks.task, "one of them, with its parameters")->type_name("TASK");
  AddPlugins(*command, tasks.plugins);
  command->add_flag("--json", tasks.json, "as one JSON object, for programs");
  command->footer(kTasksFooter);
}

void AddCheck(CLI::App& app, CheckArguments& check) {
  CLI::App* command =
      app.add_subcommand("check", "try a job, short of training it: model, memory, data, one lane");
  AddSpec(*command, check.spec);
  AddProcesses(*command, check.workers, check.servers);
  AddSettings(*command, check.settings);
  AddPlugins(*command, check.plugins);
  command
      ->add_option("--gradients", check.gradients,
                   "compare so many entries of the first lane's gradient with central differences "
                   "of its loss (20 where no number is given)")
      ->check(CLI::Range(1, kMostEntries))
      ->expected(0, 1)
      ->default_str(std::to_string(kUsualEntries))
      ->type_name("N");
  command->add_flag("--json", check.json, "as one JSON object, for programs");
  command->footer(kCheckFooter);
}

void AddData(CLI::App& app, DataArguments& data) {
  CLI::App* command =
      app.add_subcommand("data", "look at the files of a job, hash or convert them");
  command->require_subcommand(1);
  command->footer(kDataFooter);
  const auto add = [&](const char* name, const char* about) {
    CLI::App* one = command->add_subcommand(name, about);
    one->add_option("what", data.what, "a job's specification, files of data or a folder")
        ->required()
        ->type_name("FILE");
    AddSettings(*one, data.settings);
    one->add_flag("--json", data.json, "as one JSON object, for programs");
    one->footer(kDataFooter);
    return one;
  };
  add("inspect", "say what samples are in them");
  add("hash", "compute the hash that workers compare, and keep it");
  CLI::App* const convert = add("convert", "write their samples in a format to train from");
  convert
      ->add_option("-o,--output", data.output,
                   "a file, which is replaced if it is there, or a new folder")
      ->required()
      ->type_name("TARGET");
  convert->add_option("--format", data.format, "of the target (default: what its name ends in)")
      ->check(CLI::IsMember({"numpy", "safetensors", "webdataset"}))
      ->type_name("numpy|safetensors|webdataset");
  convert->add_option("--shard-mib", data.shard_mib, "of a shard of images at most (default: 256)")
      ->check(CLI::Range(1, 1 << 20))
      ->type_name("MIB");
  convert->footer(kConvertFooter);
}

void AddEvaluate(CLI::App& app, EvaluateArguments& evaluate) {
  CLI::App* command =
      app.add_subcommand("evaluate", "measure a trained model on a data set, on this machine");
  AddSavedModel(*command, evaluate);
  command->footer(kEvaluateFooter);
}

void AddGenerate(CLI::App& app, GenerateArguments& generate) {
  CLI::App* command =
      app.add_subcommand("generate", "let a trained model make text, on this machine");
  AddSavedModel(*command, generate);
  command
      ->add_option("--prompt", generate.prompt,
                   "what it goes on from (default: somewhere in its data, which is read then)")
      ->type_name("TEXT");
  command->add_option("--bytes", generate.bytes, "how many it makes")
      ->check(CLI::Range(1, kMostGenerated))
      ->capture_default_str()
      ->type_name("N");
  command->add_option("--seed", generate.seed, "of what it draws")
      ->check(WholeNumber())
      ->capture_default_str()
      ->type_name("SEED");
  command->footer(kGenerateFooter);
}

void AddExport(CLI::App& app, ExportArguments& arguments) {
  CLI::App* command = app.add_subcommand(
      "export", "write the weights of a checkpoint as a file for other programs");
  AddAnyCheckpoint(*command, arguments);
  command->add_option("--format", arguments.format, "of the file")
      ->check(CLI::IsMember({"safetensors", "pt", "libtorch"}))
      ->capture_default_str()
      ->type_name("safetensors|pt|libtorch");
  command->add_option("-o,--output", arguments.output, "the file, which is replaced if it is there")
      ->required()
      ->type_name("FILE");
  command
      ->add_flag("--optimizer", arguments.optimizer,
                 "the optimizer's state, too, and the moving average beside the parameters "
                 "(safetensors and pt)")
      ->excludes("--average");
  command->footer(kExportFooter);
}

void AddCheckpoints(CLI::App& app, CheckpointsArguments& arguments) {
  CLI::App* command =
      app.add_subcommand("checkpoints", "list, show, verify, delete and keep checkpoints");
  command->require_subcommand(1);
  command->footer(kCheckpointsFooter);
  const auto add = [&](const char* name, const char* about) {
    CLI::App* verb = command->add_subcommand(name, about);
    AddCheckpointOfAny(*verb, arguments);
    verb->get_option("--to")->description("those of a cluster: its REST interface");
    return verb;
  };
  add("list", "all of them: step, epoch, bytes, time, whether they are complete, and names");
  add("show", "one of them: its members and tensors");
  CLI::App* verify = add("verify", "read every chunk and compare its checksum");
  verify->get_option("--step")->description(
      "of the checkpoint, the name that it is kept by, or best (default: all of them)");
  CLI::App* remove =
      add("delete", "delete that of --step; the newest that is complete only with --force");
  remove->get_option("--step")->description(
      "of the checkpoint, the name that it is kept by, or best; it is to be said, here or as "
      "JOB@STEP");
  remove->add_flag("--force", arguments.force,
                   "also the newest that is complete, or one with a name");
  CLI::App* keep = add("keep", "keep one under a name, whatever checkpoint.keep of the job says");
  keep->add_option("--name", arguments.name, "of the checkpoint, such as before-cut")
      ->type_name("NAME");
  keep->add_flag("--release", arguments.release, "keep it no more");
}

}  // namespace muster::cli
