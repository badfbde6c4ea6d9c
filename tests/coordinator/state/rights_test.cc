#include "coordinator/state/rights.h"

#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <string>
#include <utility>

namespace muster::coordinator {
namespace {

struct Row {
  Need need;
  UserRole role;
  const char* scope;
  const char* owner;
  Ruling ruling;
};
// Of a job in namespace vision, asked for by ada.
constexpr Row kRows[] = {
    {Need::kNothing, UserRole::kViewer, "speech", "bob", Ruling::kAllowed},
    {Need::kSeeJobs, UserRole::kViewer, "vision", "bob", Ruling::kAllowed},
    {Need::kSeeJobs, UserRole::kViewer, "*", "bob", Ruling::kAllowed},
    {Need::kSeeJobs, UserRole::kOperator, "speech", "ada", Ruling::kNoSuchJob},
    {Need::kSubmit, UserRole::kViewer, "vision", "", Ruling::kForbidden},
    {Need::kSubmit, UserRole::kSubmitter, "vision", "", Ruling::kAllowed},
    {Need::kSubmit, UserRole::kSubmitter, "speech", "", Ruling::kForbidden},
    {Need::kChangeJob, UserRole::kViewer, "vision", "ada", Ruling::kForbidden},
    {Need::kChangeJob, UserRole::kViewer, "speech", "ada", Ruling::kNoSuchJob},
    {Need::kChangeJob, UserRole::kSubmitter, "vision", "ada", Ruling::kAllowed},
    {Need::kChangeJob, UserRole::kSubmitter, "vision", "bob", Ruling::kForbidden},
    {Need::kChangeJob, UserRole::kSubmitter, "vision", "", Ruling::kForbidden},
    {Need::kChangeJob, UserRole::kSubmitter, "speech", "ada", Ruling::kNoSuchJob},
    {Need::kChangeJob, UserRole::kOperator, "vision", "bob", Ruling::kAllowed},
    {Need::kChangeJob, UserRole::kOperator, "speech", "bob", Ruling::kNoSuchJob},
    {Need::kSeeNamespace, UserRole::kViewer, "vision", "", Ruling::kAllowed},
    {Need::kSeeNamespace, UserRole::kViewer, "*", "", Ruling::kAllowed},
    {Need::kSeeNamespace, UserRole::kOperator, "speech", "", Ruling::kForbidden},
    {Need::kSeeHosts, UserRole::kSubmitter, "*", "", Ruling::kForbidden},
    {Need::kSeeHosts, UserRole::kOperator, "speech", "", Ruling::kAllowed},
    {Need::kRule, UserRole::kOperator, "*", "", Ruling::kForbidden},
    {Need::kRule, UserRole::kAdmin, "vision", "", Ruling::kForbidden},
    {Need::kRule, UserRole::kAdmin, "*", "", Ruling::kAllowed},
};

TEST(Rights, EachRoleMayWhatItsRowSays) {
  for (const Row& row : kRows) {
    const JobRights job{"vision", row.owner};
    EXPECT_EQ(RulingOn({"ada", row.role, row.scope}, row.need, &job), row.ruling)
        << "need " << static_cast<int>(row.need) << ", " << RoleName(row.role) << " in "
        << row.scope << ", job of " << row.owner;
  }
}

TEST(Rights, AJobOfNobodyIsNotOfOneWithoutAName) {
  const JobRights job{"default", ""};
  EXPECT_EQ(RulingOn({"", UserRole::kSubmitter, "*"}, Need::kChangeJob, &job), Ruling::kForbidden);
}

TEST(Rights, NoRouteAndNoMethodStandsTwice) {
  std::set<std::pair<std::string, std::string>> routes;
  std::set<std::string> methods;
  for (const MethodRights& row : kMethods) {
    EXPECT_TRUE(routes.emplace(row.verb, row.pattern).second) << row.pattern;
    if (!row.method.empty()) {
      EXPECT_TRUE(methods.emplace(row.method).second) << row.method;
    }
    EXPECT_EQ(row.changes, row.verb != "GET") << row.verb << " " << row.pattern;
  }
}

TEST(Rights, NothingIsWrittenDownForTheUnknown) {
  EXPECT_EQ(RightsOfRoute("PUT", "/v1/jobs"), nullptr);
  EXPECT_EQ(RightsOfMethod(""), nullptr);
  EXPECT_EQ(RightsOfMethod("muster.v1.Jobs.Nothing"), nullptr);
  ASSERT_NE(RightsOfMethod("muster.v1.Hosts.Drain"), nullptr);
  EXPECT_EQ(RightsOfMethod("muster.v1.Hosts.Drain")->need, Need::kRule);
}

TEST(Rights, AGrantThatCannotBeSaysWhy) {
  EXPECT_EQ(WhyNoGrant({"ada", UserRole::kViewer, "vision"}), "");
  EXPECT_EQ(WhyNoGrant({"ada", UserRole::kAdmin, "*"}), "");
  EXPECT_NE(WhyNoGrant({"ada", UserRole::kAdmin, "vision"}), "");
  EXPECT_NE(WhyNoGrant({"", UserRole::kViewer, "*"}), "");
  EXPECT_NE(WhyNoGrant({"ada/../bob", UserRole::kViewer, "*"}), "");
  EXPECT_NE(WhyNoGrant({std::string(64, 'a'), UserRole::kViewer, "*"}), "");
  EXPECT_NE(WhyNoGrant({"join-host", UserRole::kViewer, "*"}), "");
  EXPECT_NE(WhyNoGrant({"ada", UserRole::kViewer, ""}), "");
  EXPECT_NE(WhyNoGrant({"ada", UserRole::kViewer, "Vision"}), "") << "no job is in it";
}

// It takes places of jobs of all namespaces.
TEST(Rights, AHighPriorityIsGivenByOperators) {
  const auto may = [](UserRole role, int32_t priority, std::optional<int32_t> held) {
    const QueueSpec asked{.priority = priority}, has{.priority = held.value_or(0)};
    return CheckPriority({"ada", role, "vision"}, asked, held ? &has : nullptr, {}).ok();
  };
  EXPECT_TRUE(may(UserRole::kSubmitter, 0, std::nullopt));
  EXPECT_TRUE(may(UserRole::kSubmitter, -5, std::nullopt));
  EXPECT_FALSE(may(UserRole::kSubmitter, 1, std::nullopt)) << "a submitter goes before others";
  EXPECT_TRUE(may(UserRole::kSubmitter, 7, 7)) << "an operator gave it that";
  EXPECT_FALSE(may(UserRole::kSubmitter, 8, 7));
  EXPECT_TRUE(may(UserRole::kSubmitter, 0, -5));
  EXPECT_FALSE(may(UserRole::kSubmitter, 1, -5));
  EXPECT_TRUE(may(UserRole::kOperator, 1000, std::nullopt));
  EXPECT_TRUE(may(UserRole::kAdmin, 1000, 0));
}

TEST(Rights, SubmittersGiveThePriorityThatTheirNamespaceMayHave) {
  const Quotas quotas = {{"vision", {.priority = 5}}, {"late", {.priority = -5}}};
  const auto check = [&](const std::string& name_space, int32_t priority,
                         std::optional<int32_t> held) {
    QueueSpec asked{.priority = priority}, has{.priority = held.value_or(0)};
    asked.name_space = has.name_space = name_space;
    return CheckPriority({"ada", UserRole::kSubmitter, "*"}, asked, held ? &has : nullptr, quotas);
  };
  EXPECT_TRUE(check("vision", 5, std::nullopt).ok());
  EXPECT_FALSE(check("vision", 6, std::nullopt).ok());
  EXPECT_TRUE(check("vision", 5, -1).ok());
  EXPECT_TRUE(check("vision", 7, 7).ok()) << "an operator gave it that";
  EXPECT_FALSE(check("other", 1, std::nullopt).ok()) << "that of another namespace";
  EXPECT_TRUE(check("late", -5, std::nullopt).ok());
  const absl::Status refused = check("late", 0, std::nullopt);
  EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_NE(refused.message().find("may ask for -5 at most"), absl::string_view::npos) << refused;
  EXPECT_NE(refused.message().find("muster quota late --priority"), absl::string_view::npos);
}

TEST(Rights, OneWhoIsForbiddenLearnsWhatItNeeds) {
  const JobRights job{"vision", "bob"};
  EXPECT_EQ(WhatItNeeds({"ada", UserRole::kSubmitter, "vision"}, Need::kChangeJob, &job),
            "ada is submitter in namespace vision, and this needs the role operator, as the job is "
            "of bob; an admin makes tokens (`muster token make`)");
}

TEST(Rights, RolesAreNamed) {
  for (const UserRole role : kRoles) EXPECT_EQ(RoleNamed(RoleName(role)), role);
  EXPECT_EQ(RoleNamed("root"), std::nullopt);
}

}  // namespace
}  // namespace muster::coordinator
