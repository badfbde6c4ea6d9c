// Which jobs stand on one page of a list.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "coordinator/service/job_questions.h"

namespace muster::coordinator {
namespace {

// `bytes` of paths each.
KnownJobs JobsOf(size_t bytes, int64_t count) {
  KnownJobs jobs;
  for (int64_t i = 1; i <= count; ++i) {
    KnownJob known;
    known.status.job.id = "job-" + std::to_string(i);
    known.status.job.submission = i;
    known.status.job.spec.training.data.paths = {std::string(bytes, 'p')};
    jobs.push_back(std::make_shared<const KnownJob>(std::move(known)));
  }
  return jobs;
}

std::vector<size_t> SizesOfPages(const KnownJobs& jobs, JobQuery query) {
  std::vector<size_t> sizes;
  do {
    const absl::StatusOr<JobPage> page = PageOf(jobs, query);
    if (!page.ok() || page->jobs.empty()) break;
    sizes.push_back(page->jobs.size());
    query.page_token = page->next_page_token;
  } while (!query.page_token.empty());
  return sizes;
}

TEST(Pages, EndWithTheirLimitOrWhereTheirJobsAreLarge) {
  struct Row {
    size_t bytes;
    int64_t jobs;
    int64_t limit;
    std::vector<size_t> pages;
  };
  for (const Row& row :
       {Row{10, 5, 2, {2, 2, 1}}, Row{10, 5, 5, {5}}, Row{kMostPageBytes / 2, 4, 0, {1, 1, 1, 1}},
        Row{kMostPageBytes / 4, 7, 0, {3, 3, 1}}, Row{2 * kMostPageBytes, 2, 0, {1, 1}}})
    EXPECT_EQ(SizesOfPages(JobsOf(row.bytes, row.jobs), {.limit = row.limit}), row.pages)
        << row.bytes;
}

TEST(Pages, HoldOnlyJobsOfTheNamespaceWithTheLabels) {
  KnownJobs jobs;
  for (const char* team : {"see", "hear", ""}) {
    KnownJob known;
    known.status.job.id = absl::StrCat("job-", jobs.size());
    known.status.job.submission = static_cast<int64_t>(jobs.size()) + 1;
    if (*team != '\0') known.status.job.spec.queue.labels = {{"team", team}, {"stage", "one"}};
    if (jobs.empty()) known.status.job.spec.queue.name_space = "vision";
    jobs.push_back(std::make_shared<const KnownJob>(std::move(known)));
  }
  EXPECT_EQ(SizesOfPages(jobs, {.labels = {{"stage", "one"}}}), std::vector<size_t>{2});
  EXPECT_EQ(SizesOfPages(jobs, {.labels = {{"stage", "one"}, {"team", "see"}}}),
            std::vector<size_t>{1});
  EXPECT_EQ(SizesOfPages(jobs, {.labels = {{"stage", "two"}}}), std::vector<size_t>{});
  EXPECT_EQ(SizesOfPages(jobs, {.name_space = "vision"}), std::vector<size_t>{1});
  EXPECT_EQ(SizesOfPages(jobs, {.name_space = "default"}), std::vector<size_t>{2});
  EXPECT_FALSE(PageOf(jobs, {.labels = {{"-", "x"}}}).ok());
}

}  // namespace
}  // namespace muster::coordinator
