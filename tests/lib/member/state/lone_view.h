// A view of a job with two chunks, of which one member has all, and how it comes by the state.
#pragma once

#include <utility>

#include "lib/domain/message.h"

namespace muster {

struct LoneView {
  int64_t number = 1, step = 0, end = 0, lineage = 1, term = 0;
};

inline std::pair<View, HealPlan> MakeLoneView(const MemberId& member, const LoneView& of,
                                              HealBy how) {
  View view;
  view.job = "job";
  view.term = TermNumber(of.term);
  view.number = ViewNumber(of.number);
  view.lineage = LineageNumber(of.lineage);
  view.members = {{member}};
  view.owner_of = {0, 0};
  view.lanes.holder_of = view.first_lanes.holder_of = {0, 0};
  view.first_step = Step(of.step);
  view.first_done = {false, false};
  view.end = Step(of.end);
  HealPlan plan;
  plan.lineage = view.lineage;
  plan.base = view.first_step;
  plan.members = view.members;
  plan.how = {how};
  plan.values_from = plan.owner_of = {0, 0};
  plan.slots_from = plan.catch_up_from = plan.done_from = {-1, -1};
  plan.done = {false, false};
  plan.first_lanes = view.first_lanes;
  return {view, plan};
}

}  // namespace muster
