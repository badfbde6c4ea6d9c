#include "cli/job_columns.h"

#include <cmath>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

JobAnswer Job(const std::string& id, double loss) {
  JobAnswer job;
  job.id = id;
  job.state = "running";
  job.step = 12;
  job.steps = 100;
  job.loss = loss;
  job.spec = R"({"batch":8,"optimizer":{"kind":"adam","learning_rate":0.001},"lanes":null})";
  return job;
}

std::vector<std::string> InOrderOf(const std::string& sort, std::vector<JobAnswer> jobs,
                                   bool is_reverse = false) {
  std::vector<JobRow> rows;
  for (const JobAnswer& job : jobs) rows.push_back(RowOf(job, {"job"}, sort));
  SortRows(rows, is_reverse);
  std::vector<std::string> ids;
  for (const JobRow& row : rows) ids.push_back(row.cells[0]);
  return ids;
}

TEST(JobColumnsTest, ATableHasWhatIsAskedForAndIsAsWideAsThat) {
  const std::vector<std::string> columns = {"job", "step", "loss", "spec.optimizer.kind",
                                            "spec.batch"};
  std::vector<JobRow> rows = {RowOf(Job("count-1", 0.25), columns, ""),
                              RowOf(Job("läng", NAN), columns, "")};
  rows[1].cells[3] = "-";
  EXPECT_EQ(RowsTable(columns, rows),
            "job      step       loss    spec.optimizer.kind  spec.batch\n"
            "count-1  12 of 100  0.2500  adam                 8\n"
            "läng     12 of 100  -       -                    8\n");
}

TEST(JobColumnsTest, FieldsOfASpecificationThatAreNotThereAreUnknown) {
  EXPECT_THAT(RowOf(Job("a", 1), {"spec.ema.decay", "spec.on_nan"}, "").cells,
              ElementsAre("0", "stop"))
      << "left out, they have their default";
  for (const char* column : {"spec.lanes", "spec.none", "spec.batch.none", "spec.optimizer.x"})
    EXPECT_THAT(RowOf(Job("a", 1), {column}, "").cells, ElementsAre("-")) << column;
  EXPECT_THAT(RowOf(Job("a", 1), {"spec.optimizer"}, "").cells,
              ElementsAre(R"({"kind":"adam","learning_rate":0.001})"));
  JobAnswer broken = Job("a", 1);
  broken.spec = "{";
  EXPECT_THAT(RowOf(broken, {"spec.batch"}, "").cells, ElementsAre("-"));
}

TEST(JobColumnsTest, NumbersAreInOrderOfTheirSizeAndWhatIsUnknownIsLast) {
  const std::vector<JobAnswer> jobs = {Job("a", 10), Job("b", NAN), Job("c", 9), Job("d", 10)};
  EXPECT_THAT(InOrderOf("loss", jobs), ElementsAre("c", "a", "d", "b"));
  EXPECT_THAT(InOrderOf("loss", jobs, /*is_reverse=*/true), ElementsAre("a", "d", "c", "b"));
  EXPECT_THAT(InOrderOf("job", jobs, /*is_reverse=*/true), ElementsAre("d", "c", "b", "a"));
  EXPECT_THAT(InOrderOf("spec.batch", jobs), ElementsAre("a", "b", "c", "d")) << "all alike";
}

TEST(JobColumnsTest, WhatWasMeasuredLastIsAColumn) {
  std::vector<JobAnswer> jobs = {Job("none", 1), Job("worse", 2), Job("bad", 3), Job("better", 4)};
  jobs[1].validation = {{"loss", 0.51234}, {"accuracy", 0.75}};
  jobs[2].validation = {{"loss", std::nullopt}, {"accuracy", 0.5}};
  jobs[3].validation = {{"loss", 0.25}};
  const std::vector<std::string> columns = {"validation.loss", "validation.accuracy"};
  EXPECT_THAT(RowOf(jobs[0], columns, "").cells, ElementsAre("-", "-"));
  EXPECT_THAT(RowOf(jobs[1], columns, "").cells, ElementsAre("0.5123", "0.75"));
  EXPECT_THAT(RowOf(jobs[2], columns, "").cells, ElementsAre("-", "0.5"));
  EXPECT_THAT(RowOf(jobs[3], columns, "").cells, ElementsAre("0.25", "-"));
  EXPECT_THAT(InOrderOf("validation.loss", jobs), ElementsAre("better", "worse", "none", "bad"));
}

TEST(JobColumnsTest, AColumnIsNamedOnceAndItsHeadIsPrintable) {
  EXPECT_TRUE(CheckJobColumns("--columns", {"job", "loss", "spec.batch"}).ok());
  EXPECT_EQ(CheckJobColumns("--columns", {"job", "loss", "job"}).message(),
            "--columns: 'job' is named twice; name it once");
  EXPECT_THAT(std::string(CheckJobColumns("--columns", {"job", ""}).message()),
              HasSubstr("--columns: between two commas, or at an end, no column is named"));
  EXPECT_THAT(std::string(CheckJobColumns("--columns", {"job", "los"}).message()),
              HasSubstr("there is no column 'los'"));
  const std::vector<std::string> columns = {"job", "validation.\x1b[31m\xff"};
  const std::string table = RowsTable(columns, {RowOf(Job("a", 1), columns, "")});
  EXPECT_EQ(table.find('\x1b'), std::string::npos) << table;
  EXPECT_EQ(table.find('\xff'), std::string::npos) << table;
}

TEST(JobColumnsTest, AColumnThatThereIsNotIsNamedWithThoseThatThereAre) {
  EXPECT_TRUE(CheckJobColumn("--columns", "loss").ok());
  for (const char* field :
       {"spec.batch", "spec.optimizer", "spec.optimizer.kind", "spec.parameters.width",
        "spec.labels.team", "spec.checkpoint.keep.best"})
    EXPECT_TRUE(CheckJobColumn("--columns", field).ok()) << field;
  EXPECT_EQ(CheckJobColumn("--columns", "spec.bacth").message(),
            "--columns: a job's specification has no field 'bacth'; did you mean 'batch'?");
  for (const char* odd : {"spec.TYPO", "spec.optimizer.lr", "spec.batch_", "spec.bat"})
    EXPECT_THAT(std::string(CheckJobColumn("--sort", odd).message()),
                HasSubstr("--sort: a job's specification has no field '"))
        << odd;
  EXPECT_TRUE(CheckJobColumn("--columns", "validation.loss").ok());
  for (const char* odd : {"", "Loss", "spec.", "speck", "validation.", "validation"})
    EXPECT_THAT(std::string(CheckJobColumn("--sort", odd).message()),
                HasSubstr("--sort: there is no column '"))
        << odd;
}

}  // namespace
}  // namespace muster::cli
