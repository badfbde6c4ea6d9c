#include "cli/plot.h"

#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cli/format.h"
#include "cli/job_history.h"
#include "lib/base/exit_codes.h"
#include "lib/base/output_file.h"
#include "lib/base/printable.h"
#include "lib/base/status.h"
#include "lib/domain/history_series.h"
#include "lib/plot/page.h"
#include "lib/plot/picture.h"

namespace muster::cli {
namespace {

struct SeriesOfJob {
  plot::Curve curve;
  bool has_value = false;  // also one that is no number
};

// One for each series, in their order.
absl::StatusOr<std::vector<SeriesOfJob>> SeriesOf(const JobPlace& job,
                                                  const std::vector<std::string>& series) {
  std::vector<SeriesOfJob> all(series.size());
  MUSTER_RETURN_IF_ERROR(
      ReadHistory(job.rest, job.job, 0, [&](const std::vector<HistoryStep>& steps) {
        const auto first = static_cast<double>(steps.front().step);
        for (size_t i = 0; i < series.size(); ++i) {
          std::vector<plot::Point>& points = all[i].curve.points;
          while (!points.empty() && points.back().x >= first) points.pop_back();
          for (const HistoryStep& step : steps) {
            const std::optional<double> value = ValueOf(step, series[i]);
            all[i].has_value = all[i].has_value || value.has_value();
            if (value || !step.last_state)
              points.push_back({static_cast<double>(step.step), value.value_or(NAN)});
          }
        }
        return true;
      }));
  return all;
}

// "a", "a and b", "3 jobs".
std::string TextOf(const std::vector<std::string>& jobs) {
  constexpr size_t kMostNamed = 2;
  return jobs.size() <= kMostNamed ? Join(jobs) : Plural(static_cast<int64_t>(jobs.size()), "job");
}

}  // namespace

std::vector<std::string> NamesOf(const std::vector<JobPlace>& jobs) {
  std::map<std::string, int> with_id, with_both, seen;
  const auto both = [](const JobPlace& job) {
    return job.folder.empty() ? job.job : absl::StrCat(job.job, " (", job.folder, ")");
  };
  for (const JobPlace& job : jobs) {
    ++with_id[job.job];
    ++with_both[both(job)];
  }
  std::vector<std::string> names;
  for (const JobPlace& job : jobs) {
    std::string name = with_id[job.job] == 1 ? job.job : both(job);
    if (with_both[both(job)] > 1) absl::StrAppend(&name, " #", ++seen[both(job)]);
    names.push_back(std::move(name));
  }
  return names;
}

absl::Status CheckPlot(const RemoteArguments& arguments) {
  if (!absl::EndsWith(arguments.output, ".svg") && !absl::EndsWith(arguments.output, ".html"))
    return absl::InvalidArgumentError(
        absl::StrCat("-o: ", Cut(Printable(arguments.output)),
                     " is to end in .svg or .html, which says what is made"));
  MUSTER_RETURN_IF_ERROR(CheckOutputFile(arguments.output));
  std::set<std::string> seen;
  for (const std::string& name : arguments.series) {
    if (!IsHistorySeries(name))
      return absl::InvalidArgumentError(absl::StrCat(
          "--series: there is no '", Cut(Printable(name)), "'; there are ",
          Join(HistorySeriesNames()), ", and validation.METRIC of jobs that measure it"));
    if (!seen.insert(name).second)
      return absl::InvalidArgumentError(
          absl::StrCat("--series: '", Cut(Printable(name)), "' is named twice; name it once"));
  }
  return absl::OkStatus();
}

absl::StatusOr<int> Plot(const RemoteArguments& arguments, const std::vector<JobPlace>& jobs,
                         std::ostream& out) {
  const std::vector<std::string> names = NamesOf(jobs);
  std::vector<plot::Curve> all;
  bool has_step = false, has_value = false;
  for (size_t i = 0; i < jobs.size(); ++i) {
    MUSTER_ASSIGN_OR_RETURN(std::vector<SeriesOfJob> read, SeriesOf(jobs[i], arguments.series));
    for (size_t of = 0; of < read.size(); ++of) {
      plot::Curve& curve = read[of].curve;
      const std::string& series = arguments.series[of];
      curve.name = read.size() == 1 ? names[i] : absl::StrCat(names[i], " ", series);
      has_step = has_step || !curve.points.empty();
      has_value = has_value || read[of].has_value;
      if (curve.points.empty())
        out << "note: " << Printable(names[i]) << " has no step yet" << std::endl;
      else if (!read[of].has_value)
        out << "note: " << Printable(names[i]) << " has no " << Printable(series) << std::endl;
      all.push_back(std::move(curve));
    }
  }
  if (has_step && !has_value)
    return absl::InvalidArgumentError(
        absl::StrCat("--series: ", Printable(TextOf(names)), names.size() == 1 ? " has" : " have",
                     " no ", Printable(Join(arguments.series)),
                     ", and nothing is drawn; a job has validation.METRIC of "
                     "what it measures, once its first validation is done"));
  const plot::Picture picture = plot::Draw(
      std::move(all), {.title = absl::StrCat(Join(arguments.series), " of ", TextOf(names)),
                       .y_label = Join(arguments.series),
                       .is_log = arguments.is_log,
                       .smooth = arguments.smooth});
  MUSTER_RETURN_IF_ERROR(WriteOutputFile(arguments.output, absl::EndsWith(arguments.output, ".html")
                                                               ? plot::Page(picture)
                                                               : picture.svg));
  out << Printable(arguments.output) << ": " << Printable(picture.options.title) << std::endl;
  return kExitDone;
}

}  // namespace muster::cli
