// Records of TensorBoard's event files, and the last one of a file. Pure.
//
// A file is a sequence of TFRecords, each a length (8 bytes, little-endian), its masked CRC32C, the
// bytes, and their masked CRC32C (tensorflow/core/lib/io/record_writer.h). The bytes are a Protobuf
// message `tensorboard.Event`, with the field numbers of TensorBoard's event.proto, summary.proto
// and plugins/hparams/plugin_data.proto; what we need of them is written by hand, so that nothing
// of TensorBoard is needed to build Muster.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "lib/domain/history.h"
#include "lib/wire/hyper_parameters.h"

namespace muster::tensorboard {

// What a file begins with: its version, and the word that whatever its run told before is replaced
// by what follows, so that no step of an earlier file of the run stands beside one of this.
std::string Begin(int64_t unix_ms);

// A run of the plug-in "hparams", which tells its hyper-parameters.
std::string HyperParameters(int64_t unix_ms, const std::string& run,
                            const std::vector<HyperParameter>& parameters);

// The values of a step that are known: loss, learning_rate, gradient_norm, samples_per_second.
std::string StepValues(const HistoryStep& step);

// Of the plug-in "text", which reads Markdown.
std::string Text(int64_t unix_ms, int64_t step, const std::string& tag, const std::string& text);

enum class Status { kSuccess = 1, kFailure = 2 };
// How the run of HyperParameters ended.
std::string End(int64_t unix_ms, int64_t step, Status status);

// `text` so that Markdown shows it as it is.
std::string AsCode(const std::string& text);

// The record with which a file ends.
struct LastRecord {
  int64_t unix_ms = 0;
  int64_t step = 0;
  std::string tag;  // of its first value; empty: it has none
};
// Of the bytes at the end of a file, or of all of them. Nothing: no record ends where they end,
// because they are cut off in the middle of one or are none of ours.
std::optional<LastRecord> FindLastRecord(absl::string_view tail);

// Tags of HyperParameters and of End.
inline constexpr char kStartTag[] = "_hparams_/session_start_info";
inline constexpr char kEndTag[] = "_hparams_/session_end_info";

}  // namespace muster::tensorboard
