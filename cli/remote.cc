#include "cli/remote.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "cli/adopt.h"
#include "cli/authority.h"
#include "cli/certs.h"
#include "cli/cluster_folder.h"
#include "cli/fork.h"
#include "cli/format.h"
#include "cli/hosts.h"
#include "cli/job_columns.h"
#include "cli/job_file.h"
#include "cli/job_history.h"
#include "cli/json_text.h"
#include "cli/logs.h"
#include "cli/plot.h"
#include "cli/progress.h"
#include "cli/queue.h"
#include "cli/spec_file.h"
#include "cli/tensorboard.h"
#include "cli/tokens.h"
#include "cli/train_run.h"
#include "lib/base/amount_text.h"
#include "lib/base/clock.h"
#include "lib/base/exit_codes.h"
#include "lib/base/output_file.h"
#include "lib/base/printable.h"
#include "lib/base/status.h"
#include "lib/domain/best_state.h"
#include "lib/domain/history_series.h"
#include "lib/domain/notes.h"
#include "lib/http/client.h"
#include "lib/wire/job_codec.h"

namespace muster::cli {
namespace {

using Command = RemoteArguments::Command;

// How long we wait for a coordinator that has answered before and does not answer now.
constexpr int kReconnects = 60;
constexpr Duration kReconnectPause = std::chrono::seconds(1);
constexpr Duration kLookPause = std::chrono::milliseconds(250);

// One answer about a job: for programs the job itself, for people a sentence.
int Say(const RemoteArguments& arguments, const JobAnswer& job, const std::string& sentence,
        std::ostream& out) {
  out << (arguments.json ? job.json : PrintableLines(sentence)) << std::endl;
  return kExitDone;
}

// A job that is over stays so: whoever submits it again gets what whoever waited for it got.
int SayOver(const RemoteArguments& arguments, const JobAnswer& job, std::ostream& out) {
  Say(arguments, job,
      absl::StrCat("job ", job.id, " is ", job.state,
                   " already, and nothing is begun anew; to train again, submit it under another "
                   "--id"),
      out);
  return static_cast<int>(job.exit_code);
}

// How the next command names the same cluster.
std::string WhereItIs(const RemoteArguments& arguments) {
  const bool is_of_folder = !arguments.has_to && arguments.to == UrlOfCluster(arguments.dir);
  if (arguments.has_dir || is_of_folder) return absl::StrCat(" --dir ", ShellWord(arguments.dir));
  const std::string authority = arguments.authority.empty()
                                    ? ""
                                    : absl::StrCat(" --authority ", ShellWord(arguments.authority));
  return absl::StrCat(" --to ", arguments.to, authority);
}

int SayTaken(const RemoteArguments& arguments, const JobAnswer& job, std::ostream& out) {
  if (IsOver(job)) return SayOver(arguments, job, out);
  return Say(arguments, job,
             absl::StrCat("job ", job.id, " is ", job.state, "; follow it with: muster watch ",
                          job.id, WhereItIs(arguments)),
             out);
}

absl::StatusOr<int> Submit(const RemoteArguments& arguments, const RestClient& rest,
                           std::ostream& out) {
  MUSTER_ASSIGN_OR_RETURN(const JobSpec spec, ReadSpec(arguments.spec, arguments.settings));
  const std::string id = arguments.job.empty() ? NewJobId(spec.runtime.name) : arguments.job;
  MUSTER_ASSIGN_OR_RETURN(const JobAnswer job, rest.Submit(id, ToJson(spec), arguments.accept));
  if (!arguments.json && !IsOver(job))
    for (const std::string& note : NotesOn(spec))
      out << "note: " << PrintableLines(note) << std::endl;
  return SayTaken(arguments, job, out);
}

// A job that stops makes a checkpoint first, which may take its time: it is waited for.
absl::StatusOr<JobAnswer> OnceStopped(const RemoteArguments& arguments, const RestClient& rest,
                                      std::ostream& err) {
  MUSTER_ASSIGN_OR_RETURN(JobAnswer job, rest.Job(arguments.job));
  if (job.state == "stopping")
    err << "muster resume: job " << job.id << " is stopping; waiting until it is stopped"
        << std::endl;
  const auto patience = std::chrono::steady_clock::now() + arguments.patience;
  while (job.state == "stopping") {
    if (std::chrono::steady_clock::now() >= patience)
      return absl::FailedPreconditionError(absl::StrCat(
          "job ", job.id, " is still stopping after ", HowLong(Seconds(arguments.patience)),
          ", and nothing is changed; resume it when muster status says that it is "
          "stopped"));
    std::this_thread::sleep_for(kLookPause);
    absl::StatusOr<JobAnswer> now = rest.Job(arguments.job);
    if (now.ok())
      job = *std::move(now);
    else if (!IsPassing(now.status()))
      return now.status();
  }
  return job;
}

// The job as it is known there, submitted once more, from its newest checkpoint.
absl::StatusOr<int> Resume(const RemoteArguments& arguments, const RestClient& rest,
                           const Terminal& terminal) {
  std::ostream& out = terminal.out;
  MUSTER_ASSIGN_OR_RETURN(const JobAnswer before, OnceStopped(arguments, rest, terminal.err));
  if (!IsOver(before))
    return Say(arguments, before,
               absl::StrCat("job ", before.id, " is ", before.state,
                            ": it goes on already, and nothing is changed"),
               out);
  MUSTER_ASSIGN_OR_RETURN(JobSpec spec, ParseJobJson(before.spec, "the job's specification"));
  spec.runtime.resume = {};
  MUSTER_ASSIGN_OR_RETURN(const JobAnswer job,
                          rest.Submit(before.id, ToJson(spec), arguments.accept));
  return SayTaken(arguments, job, out);
}

// Kept until all are there: a table is as wide as its widest job, and may be in another order.
absl::StatusOr<int> ListColumns(const RemoteArguments& arguments, const RestClient& rest,
                                std::ostream& out) {
  const std::vector<std::string> columns =
      arguments.columns.empty()
          ? std::vector<std::string>{"job", "state", "step", "loss", "workers"}
          : arguments.columns;
  MUSTER_RETURN_IF_ERROR(CheckJobColumns("--columns", columns));
  if (!arguments.sort.empty()) MUSTER_RETURN_IF_ERROR(CheckJobColumn("--sort", arguments.sort));
  std::vector<JobRow> rows;
  std::string page_token;
  do {
    MUSTER_ASSIGN_OR_RETURN(const JobList page,
                            rest.List(arguments.state, page_token, arguments.name_space,
                                      absl::StrJoin(arguments.labels, ",")));
    for (const JobAnswer& job : page.jobs) rows.push_back(RowOf(job, columns, arguments.sort));
    page_token = page.next_page_token;
  } while (!page_token.empty());
  if (!arguments.sort.empty()) SortRows(rows, arguments.is_reverse);
  out << (rows.empty() ? "There are no jobs.\n" : RowsTable(columns, rows)) << std::flush;
  return kExitDone;
}

// Page by page, so that any number of jobs needs the memory of one page.
absl::StatusOr<int> List(const RemoteArguments& arguments, const RestClient& rest,
                         std::ostream& out) {
  if (!arguments.columns.empty() || !arguments.sort.empty())
    return ListColumns(arguments, rest, out);
  std::string page_token;
  bool is_first = true;
  do {
    MUSTER_ASSIGN_OR_RETURN(const JobList page,
                            rest.List(arguments.state, page_token, arguments.name_space,
                                      absl::StrJoin(arguments.labels, ",")));
    if (!arguments.json) out << PrintableLines(JobTable(page.jobs, is_first)) << std::flush;
    if (arguments.json)
      for (const JobAnswer& job : page.jobs) out << job.json << std::endl;
    is_first = false;
    page_token = page.next_page_token;
  } while (out && !page_token.empty());
  return kExitDone;
}

// Where a command's answers come from.
struct Place {
  RestClient rest;
  bool is_at_rest = false;  // a folder in which nothing runs
};

// No folder at rest can do it.
bool NeedsCluster(Command command) {
  return IsAboutHosts(command) || IsAboutTokens(command) || command == Command::kSubmit ||
         command == Command::kAdopt || command == Command::kFork || command == Command::kWatch ||
         command == Command::kResume || command == Command::kCancel || command == Command::kScale ||
         command == Command::kQueue;
}

absl::StatusOr<Place> PlaceOf(const RemoteArguments& arguments, const FolderOpener& open_folder) {
  const bool reads_files = arguments.command == Command::kLogs;
  const bool is_asked_for_folder = arguments.has_dir && arguments.command != Command::kDelete;
  const bool is_at_rest = is_asked_for_folder && !IsInUse(arguments.dir);
  if (is_at_rest && NeedsCluster(arguments.command))
    return absl::FailedPreconditionError(
        absl::StrCat("nothing runs in ", Cut(Printable(arguments.dir)), " now; muster up --dir ",
                     Cut(Printable(arguments.dir)), " starts a cluster"));
  if (is_at_rest && !reads_files && open_folder) {
    MUSTER_ASSIGN_OR_RETURN(Exchange exchange, open_folder(arguments.dir));
    return Place{RestClient(std::move(exchange)), true};
  }
  const std::string& url =
      is_asked_for_folder && !reads_files ? UrlOfCluster(arguments.dir) : arguments.to;
  if (const absl::Status may_ask = CheckMayAsk(arguments, url); !may_ask.ok()) {
    if (!reads_files) return may_ask;
    // What it reads may be all that it needs.
    const Exchange refuses = [may_ask](const std::string&, const std::string&,
                                       const std::string&) -> absl::StatusOr<http::Response> {
      return may_ask;
    };
    return Place{RestClient(refuses), is_at_rest};
  }
  return Place{RestClient(url, arguments.token, arguments.trust), reads_files && is_at_rest};
}

// A worker tells what the trained model writes when it leaves, and muster train may end before the
// coordinator has heard that. The result in its folder has it.
absl::StatusOr<JobAnswer> JobAt(const RemoteArguments& arguments, const Place& place) {
  MUSTER_ASSIGN_OR_RETURN(const JobAnswer job, place.rest.Job(arguments.job));
  if (!place.is_at_rest || !job.sample.empty()) return job;
  const std::string sample = KeptSample(arguments.dir, job.id, job.state, job.step);
  if (sample.empty()) return job;
  nlohmann::json object = nlohmann::json::parse(job.json);
  object["sample"] = sample;
  return ParseJobAnswer(Text(object));
}

absl::StatusOr<int> Status(const RemoteArguments& arguments, const Place& place,
                           std::ostream& out) {
  MUSTER_ASSIGN_OR_RETURN(JobAnswer job, JobAt(arguments, place));
  if (arguments.json) {
    out << job.json << std::endl;
    return kExitDone;
  }
  if (place.is_at_rest) job.waits_for.clear();  // the last line says it
  out << PrintableLines(JobText(job)) << std::flush;
  if (place.is_at_rest && !IsOver(job))
    out << "nothing runs in " << Printable(arguments.dir)
        << " now: this is what was recorded last; muster train or muster up with that --dir goes on"
        << std::endl;
  return kExitDone;
}

// What `muster watch` shows: the line that `muster train` shows, too, and events above it.
class Watcher {
 public:
  Watcher(const RemoteArguments& arguments, const RestClient& rest, const Terminal& terminal)
      : job_(arguments.job),
        shows_details_(arguments.details),
        rest_(rest),
        out_(terminal.out),
        screen_(terminal, arguments.json) {}

  absl::StatusOr<int> Run() {
    absl::StatusOr<int> code = Follow();
    screen_.Finish();
    return code;
  }

 private:
  // The job is looked at before each stream: one that is over may send no event any more. After a
  // stream that broke, as that of a slow reader does, there may be some all the same. Where nothing
  // can be written any more, nobody follows.
  absl::StatusOr<int> Follow() {
    MUSTER_ASSIGN_OR_RETURN(const JobAnswer begun, rest_.Job(job_));
    if (screen_.shows_chart()) ShowPast(begun.step);
    int failures = 0;
    bool may_lack_some = false;
    while (out_) {
      const absl::StatusOr<JobAnswer> now = rest_.Job(job_);
      const bool is_over = now.ok() && IsOver(*now);
      if (is_over && !may_lack_some) return ShowEnd(*now);
      if (now.ok()) Take(*now);
      const std::string before = last_id_;
      const absl::Status followed = rest_.Follow(job_, last_id_, [&](const EventAnswer& event) {
        last_id_ = event.id;
        failures = 0;
        Show(event);
        return event.name != "done" && out_.good();
      });
      // What is over, and has told nothing more, has nothing more to tell.
      may_lack_some = !followed.ok() && !(is_over && last_id_ == before);
      if (followed.ok()) continue;
      if (!IsPassing(followed)) return followed;
      if (++failures > kReconnects)
        return absl::UnavailableError("the coordinator does not answer any more");
      std::this_thread::sleep_for(kReconnectPause);
    }
    return kExitDone;  // nobody reads it any more, or main says why it could not be written
  }

  // Events of long ago are not kept; without their steps the chart begins later.
  void ShowPast(int64_t step) {
    constexpr int64_t kMostSteps = 20'000;
    const auto add = [&](const std::vector<HistoryStep>& steps) {
      for (const HistoryStep& of : steps) {
        if (!of.last_state) screen_.AddPast(of.step, of.loss.value_or(NAN));
        if (const auto measured = ValueOf(of, "validation.loss"))
          screen_.AddValidation(of.step, *measured);
      }
      return true;
    };
    ReadHistory(rest_, job_, std::max<int64_t>(0, step - kMostSteps), add).IgnoreError();
  }

  void Take(const JobAnswer& job) {
    tracker_.SetTotals(job.steps, job.epochs);
    if (!shows_details_) return;
    const absl::StatusOr<JobSpec> spec = ParseJobJson(job.spec, "the job's specification");
    if (spec.ok()) training_ = spec->training;
  }

  void Show(const EventAnswer& event) {
    if (event.validation_loss) screen_.AddValidation(event.step, *event.validation_loss);
    if (screen_.json()) {
      nlohmann::ordered_json object = {{"event", event.name}};
      object.update(nlohmann::ordered_json::parse(event.json));
      screen_.Emit(Text(object));
    } else if (event.name == "step") {
      ShowStep(event);
    } else if (IsSaidAtOnce(event)) {
      screen_.Say(event.text);
    } else if (IsLog(event)) {
      log_ = event.text;
    }
  }

  // Events that are kept come all at once: their own times say how fast the steps were.
  void ShowStep(const EventAnswer& event) {
    if (!std::exchange(has_totals_, true)) {
      const absl::StatusOr<JobAnswer> job = rest_.Job(job_);
      if (job.ok()) Take(*job);
    }
    absl::Time at;
    if (!absl::ParseTime(absl::RFC3339_full, event.time, &at, nullptr)) return;
    const bool is_news = tracker_.OnStep({.member = "",
                                          .step = event.step,
                                          .epoch = event.epoch,
                                          .loss = event.loss,
                                          .samples = event.samples,
                                          .gradient_norm = event.gradient_norm},
                                         Time(absl::ToChronoNanoseconds(at - absl::UnixEpoch())));
    if (!is_news) return;
    Progress progress = *tracker_.Now();
    if (!shows_details_) progress.gradient_norm.reset();
    if (training_) progress.learning_rate = LearningRateAt(*training_, progress);
    screen_.ShowProgress(progress, RealClock().Now());
  }

  // With --json the last line is the job itself.
  int ShowEnd(const JobAnswer& job) {
    // Where the process said what is wrong, that is the job's reason.
    const bool is_said = EndsItsJob(static_cast<int>(job.exit_code));
    if (!log_.empty() && job.state == "failed" && !is_said) screen_.Say(log_);
    screen_.Finish();
    nlohmann::ordered_json object = {{"event", "job"}};
    object.update(nlohmann::ordered_json::parse(job.json));
    screen_.Emit(Text(object));
    if (!screen_.json()) out_ << PrintableLines(JobText(job)) << std::flush;
    return static_cast<int>(job.exit_code);
  }

  const std::string job_;
  const bool shows_details_;
  const RestClient& rest_;
  std::ostream& out_;
  Screen screen_;
  ProgressTracker tracker_;
  std::optional<TrainingSpec> training_;  // where details are shown, and it can be read
  std::string last_id_;
  std::string log_;          // the last lines of a process with which the job may have failed
  bool has_totals_ = false;  // since the first step: then they are known
};

// A muster train ends with its job, and its coordinator with it.
std::string HowItGoesOn(const RemoteArguments& arguments, const std::string& job) {
  if (arguments.has_dir && IsOfTrain(arguments.dir))
    return absl::StrCat("it goes on with the same muster train command again, with --dir ",
                        ShellWord(arguments.dir));
  return absl::StrCat("it goes on with: muster resume ", job, WhereItIs(arguments));
}

absl::StatusOr<int> Stop(const RemoteArguments& arguments, const Place& place, std::ostream& out) {
  if (place.is_at_rest) {
    MUSTER_ASSIGN_OR_RETURN(const JobAnswer job, JobAt(arguments, place));
    return Say(
        arguments, job,
        absl::StrCat("nothing runs in ", arguments.dir, ": there is nothing to stop; job ", job.id,
                     IsOver(job) ? " is " : " goes on when it is started again there, as ",
                     job.state),
        out);
  }
  MUSTER_ASSIGN_OR_RETURN(const JobAnswer job, place.rest.Stop(arguments.job));
  const bool was_over = IsOver(job) && job.state != "stopped";
  if (was_over)
    return Say(
        arguments, job,
        absl::StrCat("job ", job.id, " is ", job.state, " already; there is nothing to stop"), out);
  return Say(arguments, job,
             absl::StrCat("job ", job.id, IsOver(job) ? " is stopped" : " stops after a checkpoint",
                          "; ", HowItGoesOn(arguments, job.id)),
             out);
}

absl::StatusOr<int> Cancel(const RemoteArguments& arguments, const RestClient& rest,
                           std::ostream& out) {
  MUSTER_ASSIGN_OR_RETURN(const JobAnswer job, rest.Cancel(arguments.job));
  const bool cancelled = job.state == "cancelled" || !IsOver(job);
  Say(arguments, job,
      absl::StrCat("job ", job.id, " is ", job.state,
                   cancelled ? "" : ", and is not cancelled: it was over before"),
      out);
  return cancelled ? kExitDone : kExitFailed;
}

absl::StatusOr<int> Digest(const RemoteArguments& arguments, const RestClient& rest,
                           std::ostream& out) {
  MUSTER_ASSIGN_OR_RETURN(const DigestAnswer digest, rest.Digest(arguments.job));
  out << (arguments.json ? digest.json + "\n" : PrintableLines(DigestText(digest))) << std::flush;
  return kExitDone;
}

absl::StatusOr<int> Audit(const RemoteArguments& arguments, const RestClient& rest,
                          std::ostream& out) {
  MUSTER_ASSIGN_OR_RETURN(const AuditAnswer audit, rest.Audit(arguments.job));
  out << (arguments.json ? audit.json + "\n" : PrintableLines(AuditText(audit))) << std::flush;
  return audit.ok ? kExitDone : kExitBadData;
}

absl::Status NoSuchStep(const RemoteArguments& arguments) {
  const std::string of = arguments.step ? absl::StrCat(" of step ", *arguments.step) : "";
  const std::string with = arguments.sample ? absl::StrCat(" with sample ", *arguments.sample) : "";
  return absl::NotFoundError(
      absl::StrCat("the ledger of job ", arguments.job, " has no record", of, with));
}

// A rewind between two pages leaves out steps that are printed already.
absl::StatusOr<int> History(const RemoteArguments& arguments, const RestClient& rest,
                            const Terminal& terminal) {
  std::ostream& out = terminal.out;
  bool has_head = arguments.json;
  std::vector<std::string> measures;
  const auto add = [&](const std::vector<MetricValue>& metrics) {
    for (const MetricValue& of : metrics)
      if (std::string name = absl::StrCat(kMeasuredPrefix, of.metric);
          std::find(measures.begin(), measures.end(), name) == measures.end())
        measures.push_back(std::move(name));
  };
  // The job names what it measures before a step does. An older coordinator does not name it.
  if (!arguments.json) {
    MUSTER_ASSIGN_OR_RETURN(const JobAnswer job, rest.Job(arguments.job));
    add(job.validation);
  }
  const auto print_head = [&] {
    if (!std::exchange(has_head, true)) out << HistoryHead(arguments.csv, measures);
  };
  int64_t next = 0;
  const auto print = [&](const std::vector<HistoryStep>& steps) {
    if (!has_head)
      for (const HistoryStep& step : steps) add(step.validation);
    print_head();
    const int64_t first = steps.front().step;
    if (first < next)
      terminal.err
          << "muster history: the job went back to step " << first
          << " meanwhile: what follows takes the place of the lines above from that step on"
          << std::endl;
    for (const HistoryStep& step : steps)
      out << (arguments.json ? HistoryLine(step)
                             : PrintableLines(HistoryText(step, arguments.csv, measures)));
    next = steps.back().step + 1;
    out << std::flush;
    return out.good();
  };
  std::vector<PluginUse> plugins;
  MUSTER_RETURN_IF_ERROR(ReadHistory(rest, arguments.job, 0, print, &plugins));
  print_head();  // of a job without a step, too
  out << std::flush;
  // Not among the lines of the steps, which programs read.
  for (const std::string& change : DescribeChanges(plugins))
    terminal.err << "muster history: " << Printable(change) << std::endl;
  return kExitDone;
}

// Above the steps: what no step of them used. As JSON an object of its own, so that those of the
// steps stay alike.
void ShowDataLeftOut(const std::string& left_out, bool json, std::ostream& out) {
  if (left_out.empty()) return;
  if (json) {
    out << Text(nlohmann::ordered_json({{"data_left_out", left_out}})) << "\n";
  } else {
    out << "the data is without " << Printable(left_out) << "\n";
  }
}

void ShowParent(const std::string& parent, bool json, std::ostream& out) {
  if (parent.empty()) return;
  if (json) {
    out << Text(nlohmann::ordered_json({{"parent", parent}})) << "\n";
  } else {
    out << "begins with the state of " << Printable(parent) << "\n";
  }
}

// Likewise, where another file than the first one computed.
void ShowPlugins(const std::vector<PluginUse>& plugins, bool json, std::ostream& out) {
  const std::vector<std::string> changes = DescribeChanges(plugins);
  if (changes.empty()) return;
  if (!json) {
    for (const std::string& change : changes) out << Printable(change) << "\n";
    return;
  }
  auto uses = nlohmann::ordered_json::array();
  for (const PluginUse& use : plugins)
    uses.push_back({{"from", use.from},
                    {"file", use.file},
                    {"accepted_by", use.accepted_by ? nlohmann::ordered_json(*use.accepted_by)
                                                    : nlohmann::ordered_json(nullptr)}});
  out << Text(nlohmann::ordered_json({{"plugins", std::move(uses)}})) << "\n";
}

// Page by page, so that any number of steps needs the memory of one page.
absl::StatusOr<int> Ledger(const RemoteArguments& arguments, const RestClient& rest,
                           std::ostream& out) {
  bool is_empty = true;
  for (int64_t from = arguments.step.value_or(0); out && from >= 0;) {
    MUSTER_ASSIGN_OR_RETURN(
        const LedgerPage page,
        rest.Ledger(arguments.job, from, arguments.sample, arguments.step ? 1 : 0));
    for (const LedgerStepAnswer& step : page.steps) {
      if (arguments.step && step.step != *arguments.step) continue;
      if (std::exchange(is_empty, false)) {
        if (!arguments.step) ShowParent(page.parent, arguments.json, out);
        ShowDataLeftOut(page.data_left_out, arguments.json, out);
        ShowPlugins(page.plugins, arguments.json, out);
      }
      out << (arguments.json ? step.json + "\n" : PrintableLines(LedgerText(step)));
    }
    out << std::flush;
    from = arguments.step ? -1 : page.next;
  }
  if (is_empty) return NoSuchStep(arguments);
  return kExitDone;
}

absl::StatusOr<int> Run(const RemoteArguments& arguments, const Place& place,
                        const Terminal& terminal, const Asker& ask) {
  const bool may_make_an_id = arguments.command == Command::kSubmit ||
                              arguments.command == Command::kAdopt ||
                              arguments.command == Command::kFork;
  const bool names_a_job = arguments.command != Command::kList &&
                           !IsAboutHosts(arguments.command) && !IsAboutTokens(arguments.command) &&
                           !(may_make_an_id && arguments.job.empty());
  if (names_a_job) MUSTER_RETURN_IF_ERROR(CheckJobId(arguments.job));
  const RestClient& rest = place.rest;
  std::ostream& out = terminal.out;
  switch (arguments.command) {
    case Command::kSubmit: return Submit(arguments, rest, out);
    case Command::kAdopt: {
      MUSTER_ASSIGN_OR_RETURN(const JobAnswer job, Adopt(arguments, rest, terminal));
      return SayTaken(arguments, job, out);
    }
    case Command::kFork: {
      MUSTER_ASSIGN_OR_RETURN(const JobAnswer job, Fork(arguments, rest, terminal));
      return SayTaken(arguments, job, out);
    }
    case Command::kStatus: return Status(arguments, place, out);
    case Command::kWatch: return Watcher(arguments, rest, terminal).Run();
    case Command::kStop: return Stop(arguments, place, out);
    case Command::kResume: return Resume(arguments, rest, terminal);
    case Command::kCancel: return Cancel(arguments, rest, out);
    case Command::kDelete: return Delete(arguments, rest, ask, out);
    case Command::kLogs: return Logs(arguments, rest, out);
    case Command::kList: return List(arguments, rest, out);
    case Command::kDigest: return Digest(arguments, rest, out);
    case Command::kAudit: return Audit(arguments, rest, out);
    case Command::kLedger: return Ledger(arguments, rest, out);
    case Command::kHistory: return History(arguments, rest, terminal);
    case Command::kPlot:
    case Command::kTensorBoard: break;  // they are about several
    case Command::kHosts: return Hosts(arguments, rest, out);
    case Command::kDrain: return Drain(arguments, rest, terminal);
    case Command::kScale: return Scale(arguments, rest, out);
    case Command::kTop: return Top(arguments, rest, terminal);
    case Command::kQueue: return SetQueue(arguments, rest, out);
    case Command::kQuota: return Quota(arguments, rest, out);
    case Command::kMakeToken: return MakeToken(arguments, rest, out);
    case Command::kListTokens: return ListTokens(arguments, rest, out);
    case Command::kRevokeToken: return RevokeToken(arguments, rest, out);
    case Command::kHostToken: return MakeHostToken(arguments, rest, out);
    case Command::kCertifyUser: return CertifyUser(arguments, rest, out);
    case Command::kShowAuthority:
    case Command::kChangeAuthority:
    case Command::kFinishAuthority: return ShowOrChangeAuthority(arguments, rest, out);
  }
  return absl::InternalError("unknown command");
}

absl::StatusOr<std::vector<std::string>> AllJobsAt(const RestClient& rest) {
  std::vector<std::string> jobs;
  std::string page_token;
  do {
    MUSTER_ASSIGN_OR_RETURN(JobList page, rest.List("", page_token));
    for (JobAnswer& job : page.jobs) jobs.push_back(std::move(job.id));
    page_token = std::move(page.next_page_token);
  } while (!page_token.empty());
  return jobs;
}

// What --dir stands for without an id. Only the journal knows all of its jobs; logs are files.
absl::StatusOr<std::string> OnlyJobAt(const RemoteArguments& arguments, const Place& place) {
  const std::string& folder = arguments.dir;
  if (arguments.command == Command::kLogs || IsOfTrain(folder)) return OnlyJobIn(folder);
  MUSTER_ASSIGN_OR_RETURN(std::vector<std::string> jobs, AllJobsAt(place.rest));
  return OnlyOneOf(std::move(jobs), folder);
}

absl::StatusOr<int> RunAtItsPlace(RemoteArguments arguments, const Terminal& terminal,
                                  const Asker& ask, const FolderOpener& open_folder) {
  const bool needs_no_job =
      arguments.command == Command::kList || arguments.command == Command::kSubmit ||
      arguments.command == Command::kAdopt || arguments.command == Command::kFork ||
      IsAboutHosts(arguments.command) || IsAboutTokens(arguments.command);
  const bool reads_files =
      arguments.command == Command::kLogs || arguments.command == Command::kDelete;
  if (arguments.has_dir) MUSTER_RETURN_IF_ERROR(CheckIsFolder(arguments.dir));
  if (arguments.has_dir || reads_files) MUSTER_RETURN_IF_ERROR(CheckFilesOf(arguments.dir));
  MUSTER_ASSIGN_OR_RETURN(const Place place, PlaceOf(arguments, open_folder));
  if (arguments.has_dir && arguments.job.empty() && !needs_no_job) {
    MUSTER_ASSIGN_OR_RETURN(arguments.job, OnlyJobAt(arguments, place));
  }
  // Files of members that do not run do not grow.
  if (place.is_at_rest) arguments.follow = false;
  return Run(arguments, place, terminal, ask);
}

// Those that are named, or all of the folders, each with who answers for it.
absl::StatusOr<std::vector<JobPlace>> JobsOf(const RemoteArguments& arguments,
                                             const FolderOpener& open_folder,
                                             const ShowsFinder& find_what_it_shows) {
  for (const std::string& job : arguments.jobs) MUSTER_RETURN_IF_ERROR(CheckJobId(job));
  std::vector<RemoteArguments> places;
  for (const std::string& folder : arguments.dirs) {
    RemoteArguments at = arguments;
    at.dir = folder;
    MUSTER_RETURN_IF_ERROR(CheckIsFolder(folder));
    MUSTER_RETURN_IF_ERROR(CheckFilesOf(folder));
    if (find_what_it_shows) MUSTER_RETURN_IF_ERROR(find_what_it_shows(at));
    places.push_back(std::move(at));
  }
  if (places.empty()) places.push_back(arguments);
  std::vector<JobPlace> all;
  for (const RemoteArguments& at : places) {
    MUSTER_ASSIGN_OR_RETURN(const Place place, PlaceOf(at, open_folder));
    std::vector<std::string> jobs = arguments.jobs;
    if (jobs.empty()) {
      MUSTER_ASSIGN_OR_RETURN(jobs, AllJobsAt(place.rest));
    }
    if (jobs.empty())
      return absl::NotFoundError(absl::StrCat("there is no job in ", Cut(Printable(at.dir))));
    for (std::string& job : jobs)
      all.push_back({place.rest, std::move(job), at.has_dir ? at.dir : ""});
  }
  return all;
}

absl::StatusOr<int> RunOverJobs(const RemoteArguments& arguments, const Terminal& terminal,
                                const FolderOpener& open_folder,
                                const ShowsFinder& find_what_it_shows) {
  const bool is_plot = arguments.command == Command::kPlot;
  MUSTER_RETURN_IF_ERROR(is_plot ? CheckPlot(arguments) : CheckFolderToFill(arguments.output));
  MUSTER_ASSIGN_OR_RETURN(const std::vector<JobPlace> jobs,
                          JobsOf(arguments, open_folder, find_what_it_shows));
  return is_plot ? Plot(arguments, jobs, terminal.out) : TensorBoard(arguments, jobs, terminal.out);
}

}  // namespace

int Remote(const RemoteArguments& arguments, const Terminal& terminal, const Asker& ask,
           const FolderOpener& open_folder, const ShowsFinder& find_what_it_shows) {
  const absl::StatusOr<int> code =
      IsOverJobs(arguments.command)
          ? RunOverJobs(arguments, terminal, open_folder, find_what_it_shows)
          : RunAtItsPlace(arguments, terminal, ask, open_folder);
  if (code.ok()) return *code;
  std::ostream& err = terminal.err;
  err << "muster: " << PrintableLines(code.status().message()) << std::endl;
  if (http::NobodyListens(code.status()))
    err << (arguments.has_dir
                ? "A muster holds that folder, and its coordinator does not answer now: try again."
                : "Does a cluster run there? muster up starts one; --dir names its folder, or --to "
                  "says where it is.")
        << std::endl;
  return ExitCodeOf(code.status());
}

namespace {

// "epoch 1 of 2"; empty: it has not begun, or nobody knows yet how long one is.
std::string EpochText(const JobAnswer& job) {
  if (job.steps == 0) return "";
  if (job.epochs == 0) return absl::StrCat(", epoch ", job.epoch + 1);
  // After the last step all of them are complete.
  return absl::StrCat(", epoch ", std::min(job.epoch + 1, job.epochs), " of ", job.epochs);
}

std::string StepText(const JobAnswer& job) {
  return job.steps > 0 ? absl::StrCat(job.step, " of ", job.steps) : absl::StrCat(job.step);
}

// Whoever took part last is not there any more.
std::string WorkersText(const JobAnswer& job) {
  return IsOver(job) || job.state == "queued" ? "-" : absl::StrCat(job.workers);
}

}  // namespace

std::string JobTable(const std::vector<JobAnswer>& jobs, bool with_head) {
  if (jobs.empty()) return with_head ? "There are no jobs.\n" : "";
  size_t width = 3;
  for (const JobAnswer& job : jobs) width = std::max(width, job.id.size());
  std::string text;
  if (with_head)
    absl::StrAppendFormat(&text, "%-*s  %-10s  %-15s  %-8s  %s\n", static_cast<int>(width), "job",
                          "state", "step", "loss", "workers");
  for (const JobAnswer& job : jobs)
    absl::StrAppendFormat(&text, "%-*s  %-10s  %-15s  %-8s  %s\n", static_cast<int>(width), job.id,
                          job.state, StepText(job), Loss(job.loss), WorkersText(job));
  return text;
}

namespace {

// What people ask first.
std::string ProgressText(const JobAnswer& job) {
  std::string text =
      absl::StrCat("step ", StepText(job), EpochText(job), ", loss ", Loss(job.loss));
  if (job.seconds_left >= 0) absl::StrAppend(&text, ", ", HowLong(job.seconds_left), " left");
  return text;
}

// Why it waits, or how it ended. The reason of a job that runs is that of its view.
std::string ReasonText(const JobAnswer& job) {
  const bool says_more = !job.reason.empty() && job.reason != job.state && job.state != "running";
  return says_more ? absl::StrCat("  reason: ", Printable(job.reason), "\n") : "";
}

std::string WaitsText(const JobAnswer& job) {
  const bool says_more = !IsOver(job) && !job.waits_for.empty() && job.waits_for != job.reason;
  return says_more ? absl::StrCat("  waits: ", Printable(job.waits_for), "\n") : "";
}

// Samples are those of the whole job, the time is that of its last start. A job that goes on and
// waits has samples already, and has not begun to take time.
std::string SamplesText(const JobAnswer& job) {
  const bool takes_time = job.seconds > 0 && job.state != "queued" && job.state != "checking" &&
                          job.state != "starting";
  const std::string time =
      takes_time ? absl::StrCat(" in all; ", HowLong(job.seconds), " in its last start") : "";
  return absl::StrCat("  ", Plural(job.samples, "sample"), time, "\n");
}

std::string InsideText(const JobAnswer& job) {
  const bool has_reason = job.state == "running" && !job.reason.empty();
  return absl::StrCat("  inside: view ", job.view, ", lineage ", job.lineage, "; ",
                      Plural(job.recoveries, "recovery", "recoveries"), ", ",
                      Plural(job.rewinds, "rewind"), ", ", Plural(job.lanes_recomputed, "lane"),
                      " computed again", has_reason ? "; " : "",
                      has_reason ? Printable(job.reason) : "", "\n");
}

// Which files may be removed: those before the one that was begun last, or all.
std::string StreamText(const StreamAnswer& stream) {
  std::string text = stream.end >= 0 ? absl::StrCat("ended after ", Plural(stream.end, "sample"))
                                     : absl::StrCat(Plural(stream.samples, "sample"), " so far");
  if (stream.trimmed > 0)
    absl::StrAppend(&text, ", those before ", stream.trimmed, " are not kept any more");
  absl::StrAppend(&text, "; ", Bytes(static_cast<double>(stream.spool_bytes)), " on the disk");
  if (!stream.file.empty())
    absl::StrAppend(&text, "; all files",
                    stream.end >= 0 ? "" : absl::StrCat(" before ", Printable(stream.file)),
                    " are taken");
  return absl::StrCat("  stream: ", text, "\n");
}

std::string MemberText(const MemberAnswer& member) {
  std::string text = absl::StrCat("  ", Printable(member.name), " on ",
                                  Printable(member.host.empty() ? member.node : member.host), ": ",
                                  Printable(member.state), ", ", Plural(member.lanes, "lane"));
  if (!member.phase.empty()) absl::StrAppend(&text, ", ", Printable(member.phase));
  return text + "\n";
}

}  // namespace

std::string JobText(const JobAnswer& job) {
  std::string text = absl::StrCat("job ", job.id, " is ", job.state, ": ", ProgressText(job), "\n",
                                  ReasonText(job), WaitsText(job), SamplesText(job));
  if (job.stream) text += StreamText(*job.stream);
  if (!job.parent.empty()) absl::StrAppend(&text, "  forked from ", job.parent, "\n");
  if (job.checkpoint_step >= 0)
    absl::StrAppend(&text, "  newest checkpoint: step ", job.checkpoint_step, "\n");
  if (const std::string digest = DigestOf(job); !digest.empty())
    absl::StrAppend(&text, "  digest ", digest, "\n");
  text += InsideText(job);
  if (!job.fingerprint.empty())
    absl::StrAppend(&text, "  fingerprint ", job.fingerprint, " after step ", job.fingerprint_step,
                    "\n");
  for (const MemberAnswer& member : job.members) text += MemberText(member);
  if (!job.sample.empty())
    absl::StrAppend(&text, "  a sample of the trained model:\n", PrintableLines(job.sample), "\n");
  return text;
}

std::string DigestText(const DigestAnswer& digest) {
  return absl::StrCat("digest ", digest.digest,
                      "\n  of the parameters and the optimizer's state after ",
                      Plural(digest.step, "step"), "\n");
}

std::string AuditText(const AuditAnswer& audit) {
  std::string text =
      absl::StrCat(audit.ok ? "proven: " : "not proven: ", PrintableLines(audit.conclusion), "\n");
  if (audit.ok)
    absl::StrAppend(&text, "  ", Plural(audit.samples, "use", "uses"), " of samples in ",
                    Plural(audit.lanes, "lane"), " of ", Plural(audit.steps, "step"), "\n");
  for (const LineageAnswer& lineage : audit.lineages)
    if (lineage.parent > 0)
      absl::StrAppend(&text, "  lineage ", lineage.number, " left lineage ", lineage.parent,
                      " before step ", lineage.fork, ": ", PrintableLines(lineage.cause), "\n");
  return text;
}

std::string LedgerText(const LedgerStepAnswer& step) {
  std::string text = absl::StrCat("step ", step.step, ": epoch ", step.epoch + 1, ", lineage ",
                                  step.lineage, ", view ", step.view, ", loss ", Loss(step.loss),
                                  step.skipped ? ", skipped: it was not finite" : "", "\n");
  if (!step.left_out.empty())
    absl::StrAppend(&text, "  left out, since ", step.left_out.size() == 1 ? "it" : "they",
                    " cannot be read: ", absl::StrJoin(step.left_out, " "), "\n");
  for (const LedgerLaneAnswer& lane : step.lanes) {
    absl::StrAppend(&text, "  lane ", lane.lane, " by ", Printable(lane.worker), ", ",
                    Plural(lane.count, "sample"));
    // Of a sample that was asked for only that one is named.
    const bool names_all = static_cast<int64_t>(lane.samples.size()) == lane.count;
    if (!lane.samples.empty())
      absl::StrAppend(&text, names_all ? ": " : ", among them ", absl::StrJoin(lane.samples, " "));
    text += "\n";
  }
  return text;
}

namespace {

// For programs all digits that the number has; what is not known is empty.
std::string CsvNumber(std::optional<double> number) {
  return number ? absl::StrFormat("%.9g", *number) : "";
}

std::string Short(std::optional<double> number) {
  return number ? absl::StrFormat("%.4g", *number) : "-";
}

// All cells but the last one are as wide as their columns.
std::string TableRow(const std::vector<std::string>& cells,
                     const std::vector<std::string>& measures) {
  constexpr size_t kWidths[] = {8, 5, 24, 10, 10, 10, 10};
  std::string row;
  for (size_t i = 0; i + 1 < cells.size(); ++i) {
    const size_t used = ColumnsOf(cells[i]);
    const size_t width = i < std::size(kWidths)
                             ? kWidths[i]
                             : ColumnsOf(Printable(measures[i - std::size(kWidths)]));
    row += cells[i] + std::string(std::max(width, used) - used, ' ') + "  ";
  }
  return row + cells.back() + "\n";
}

}  // namespace

std::string HistoryHead(bool csv, const std::vector<std::string>& measures) {
  std::vector<std::string> cells =
      csv ? std::vector<std::string>{"step",
                                     "epoch",
                                     "time",
                                     "loss",
                                     "learning_rate",
                                     "gradient_norm",
                                     "samples_per_second",
                                     "samples",
                                     "seconds"}
          : std::vector<std::string>{"step", "epoch", "time", "loss", "rate", "norm", "samples/s"};
  for (const std::string& measure : measures) cells.push_back(Printable(measure));
  return csv ? absl::StrJoin(cells, ",") + "\n" : TableRow(cells, measures);
}

std::string HistoryText(const HistoryStep& step, bool csv,
                        const std::vector<std::string>& measures) {
  const std::string time = step.unix_ms == 0 ? "" : UtcTime(step.unix_ms);
  const auto cell = csv ? CsvNumber : Short;
  std::vector<std::string> cells = {
      absl::StrCat(step.step),           absl::StrCat(csv ? step.epoch : step.epoch + 1),
      csv || !time.empty() ? time : "-", cell(step.loss),
      cell(step.learning_rate),          cell(step.gradient_norm),
      cell(step.samples_per_second)};
  if (csv) {
    cells.push_back(step.samples ? absl::StrCat(*step.samples) : "");
    cells.push_back(CsvNumber(step.seconds));
  }
  for (const std::string& measure : measures) cells.push_back(cell(ValueOf(step, measure)));
  return csv ? absl::StrJoin(cells, ",") + "\n" : TableRow(cells, measures);
}

}  // namespace muster::cli
