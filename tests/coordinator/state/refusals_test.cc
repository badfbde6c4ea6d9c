#include "coordinator/state/refusals.h"

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace muster::coordinator {
namespace {

TEST(Refusals, AreToldOnceForEachNameAndReason) {
  Refusals refusals;
  struct Row {
    std::string name, why;
    bool news;
  };
  for (const Row& row : {Row{"a", "data", true}, Row{"a", "data", false}, Row{"b", "data", true},
                         Row{"a", "start", true}, Row{"a", "start", false}, Row{"a", "data", true}})
    EXPECT_EQ(refusals.IsNews(row.name, row.why), row.news) << row.name << " " << row.why;
}

TEST(Refusals, OfEverOtherNamesAreNotToldWithoutEnd) {
  Refusals refusals;
  size_t told = 0;
  for (int i = 0; i < 1000; ++i) told += refusals.IsNews(absl::StrCat("w", i), "data") ? 1 : 0;
  EXPECT_EQ(told, kMostRefusals);
}

}  // namespace
}  // namespace muster::coordinator
