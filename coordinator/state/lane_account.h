// How many lanes were run again because of losses: exactly, once the ends of all lost processes are
// told. A plain value that lives as long as the journal entry of its job.
//
// The account is of the whole job: all lanes that its processes ever ran are the lanes of its steps
// and these. A resumption is a rewind to the checkpoint it starts from.
//
// Without a rewind, what is run again are those lanes of a lost member that the next view gave to
// others, as far as it had run them. With one, it is all that was ever run beyond the steps that
// still count: then the totals of all processes tell.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "lib/domain/message.h"

namespace muster::coordinator {

// What is known of the lanes of a process that is gone. Not within the class: clang cannot make one
// of its default values there before the class is complete.
struct DepartedLanes {
  bool lost = false;             // given up by the view it was in
  std::optional<LaneCount> ran;  // told by its host agent
  bool counted = false;
  // Of the view that was formed without it:
  std::optional<Step> base;
  LineageNumber lineage;
  int64_t reassigned = 0;  // of its lanes
  bool rewound = false;
  bool operator==(const DepartedLanes&) const = default;
};

class LaneAccount {
 public:
  using Departed = DepartedLanes;

  void Lose(Incarnation member, Role role);  // nobody tells of a server: it runs no lanes
  bool Told(const LaneCount& ran);           // false: a repetition that is remembered
  bool HasEnded(Incarnation member) const;
  std::set<Incarnation> Gone() const;  // lost, or told that they have ended
  // `after` goes on where `before` was left; `reassigned` are the lanes of its first step that
  // nobody held.
  void GoOn(const View& before, const View& after, const std::vector<LaneId>& reassigned);
  // `after` is the first view of a new lineage; `lanes_run` by each of its members in all, as they
  // told.
  void Rewind(const View& after, int32_t lanes, const std::map<MemberId, int64_t>& lanes_run);

  bool settled() const;  // the ends of all lost processes are told
  // Never more than were run again, and never less than before.
  int64_t recomputed() const { return value_.recomputed; }

  // For the journal.
  struct Value {
    int64_t known = 0;       // by the ends that are told
    int64_t recomputed = 0;  // the most that was known
    // Of those whose end is told and counted, all lanes that they ever ran: a later rewind makes
    // them count in full.
    int64_t settled_total = 0;
    // Who is not settled yet: those of the last views, so that it does not grow with the job.
    std::map<Incarnation, Departed> departed;
    bool operator==(const Value&) const = default;
  };
  LaneAccount() = default;
  explicit LaneAccount(Value value) : value_(std::move(value)) {}
  const Value& value() const { return value_; }
  bool operator==(const LaneAccount&) const = default;

 private:
  void Settle();
  void ForgetSettled(const View& view);

  Value value_;
};

}  // namespace muster::coordinator
