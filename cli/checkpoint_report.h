// What the commands of muster checkpoints have in common, wherever the checkpoints lie: what their
// arguments must say, and what is told of a checkpoint.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cli/arguments.h"
#include "lib/checkpoint/files.h"
#include "lib/checkpoint/survey.h"
#include "lib/domain/best_state.h"
#include "nlohmann/json.hpp"

namespace muster::cli {

// One of --name, with a name that may be given, and --release. Else kInvalidArgument.
absl::Status CheckKeepsOrReleases(const CheckpointsArguments& arguments);
// A step or a name. Else kInvalidArgument.
absl::Status CheckSaysWhich(const CheckpointArguments& arguments);

// What a list says of one.
struct CheckpointRow {
  int64_t step = 0;
  int64_t lineage = 0;
  std::optional<int64_t> epoch;
  uint64_t bytes = 0;
  std::string when;       // empty: nobody knows
  std::string why_not{};  // it is not complete; empty: it is
  bool finite = false;
  std::string name{};
  std::optional<StateMeasure> measure{};
  bool best = false;
  std::vector<std::string> unread{};  // small files beside it that cannot be read, for people
};
CheckpointRow RowOf(const SurveyedCheckpoint& one, bool is_best);

nlohmann::ordered_json AsJson(const CheckpointRow& row);
// `place` is what they are called that are listed.
void ListAsText(const std::string& place, const std::vector<CheckpointRow>& rows,
                std::ostream& out);

// kDataLoss, with its step and why.
absl::Status NotComplete(const SurveyedCheckpoint& one);
// All that its manifest says. NotComplete: it has none that can be read.
absl::Status ShowCheckpoint(const SurveyedCheckpoint& one, bool is_best, bool as_json,
                            std::ostream& out);

// Reads it all, and tells meanwhile how far it is. Errors of NotComplete and VerifyCheckpoint, and
// of its name and its measure: all of them in one message.
absl::Status VerifyOne(const CheckpointFiles& files, const SurveyedCheckpoint& one);
struct CheckpointToVerify {
  int64_t step = 0;
  int64_t lineage = 0;
  uint64_t bytes = 0;
  std::function<absl::Status()> look;  // OK: it is sound
};
// All of them are looked at, whatever the first ones are. The first error: one of
// a cluster went meanwhile; kDataLoss: one is damaged.
absl::Status VerifyEach(const std::vector<CheckpointToVerify>& chosen, bool as_json,
                        std::ostream& out);

// Beside the output, so that programs read that alone. Empty: nothing.
void TellNote(const std::string& note);
// What was done to one: `now` as JSON, or `text`.
void TellChange(bool as_json, const nlohmann::ordered_json& now, const std::string& text,
                std::ostream& out);
void TellDeleted(bool as_json, const CheckpointRow& row, std::ostream& out);
// "the checkpoint of step 20 is kept as good", or that it is kept no more.
std::string KeptText(const CheckpointsArguments& arguments, int64_t step);

}  // namespace muster::cli
