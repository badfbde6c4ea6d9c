#include "cli/plot.h"

#include <cmath>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cli/format.h"
#include "cli/job_history.h"
#include "lib/base/exit_codes.h"
#include "lib/base/printable.h"
#include "lib/base/status.h"
#include "lib/base/whole_file.h"
#include "lib/domain/history_series.h"
#include "lib/plot/page.h"
#include "lib/plot/picture.h"

namespace muster::cli {
namespace {

// One for each series, in their order.
absl::StatusOr<std::vector<plot::Curve>> CurvesOf(const JobPlace& job,
                                                  const std::vector<std::string>& series) {
  std::vector<plot::Curve> curves(series.size());
  MUSTER_RETURN_IF_ERROR(
      ReadHistory(job.rest, job.job, 0, [&](const std::vector<HistoryStep>& steps) {
        const auto first = static_cast<double>(steps.front().step);
        for (size_t i = 0; i < series.size(); ++i) {
          std::vector<plot::Point>& points = curves[i].points;
          while (!points.empty() && points.back().x >= first) points.pop_back();
          for (const HistoryStep& step : steps) {
            const std::optional<double> value = ValueOf(step, series[i]);
            if (value || !step.last_state)
              points.push_back({static_cast<double>(step.step), value.value_or(NAN)});
          }
        }
        return true;
      }));
  return curves;
}

// "a", "a and b", "3 jobs".
std::string TitleOf(const std::vector<std::string>& jobs, const std::vector<std::string>& series) {
  constexpr size_t kMostNamed = 2;
  return absl::StrCat(
      Join(series), " of ",
      jobs.size() <= kMostNamed ? Join(jobs) : Plural(static_cast<int64_t>(jobs.size()), "job"));
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
  for (const std::string& name : arguments.series)
    if (!IsHistorySeries(name))
      return absl::InvalidArgumentError(absl::StrCat(
          "--series: there is no '", Cut(Printable(name)), "'; there are ",
          Join(HistorySeriesNames()), ", and validation.METRIC of jobs that measure it"));
  return absl::OkStatus();
}

absl::StatusOr<int> Plot(const RemoteArguments& arguments, const std::vector<JobPlace>& jobs,
                         std::ostream& out) {
  const std::vector<std::string> names = NamesOf(jobs);
  std::vector<plot::Curve> all;
  for (size_t i = 0; i < jobs.size(); ++i) {
    MUSTER_ASSIGN_OR_RETURN(std::vector<plot::Curve> curves, CurvesOf(jobs[i], arguments.series));
    for (size_t of = 0; of < curves.size(); ++of) {
      curves[of].name =
          curves.size() == 1 ? names[i] : absl::StrCat(names[i], " ", arguments.series[of]);
      if (curves[of].points.empty())
        out << "note: " << Printable(names[i]) << " has no step yet" << std::endl;
      all.push_back(std::move(curves[of]));
    }
  }
  const plot::Picture picture =
      plot::Draw(std::move(all), {.title = TitleOf(names, arguments.series),
                                  .y_label = Join(arguments.series),
                                  .is_log = arguments.is_log,
                                  .smooth = arguments.smooth});
  MUSTER_RETURN_IF_ERROR(ReplaceFile(arguments.output, absl::EndsWith(arguments.output, ".html")
                                                           ? plot::Page(picture)
                                                           : picture.svg));
  out << Printable(arguments.output) << ": " << Printable(picture.options.title) << std::endl;
  return kExitDone;
}

}  // namespace muster::cli
