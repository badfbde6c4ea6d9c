// About how many bytes an answer takes before it is made, in JSON or as a message: large ones need
// room first, and are made on a thread of their own.
#pragma once

#include <cstddef>
#include <string>
#include <variant>
#include <vector>

#include "coordinator/service/control_api.h"

namespace muster::coordinator {

inline size_t AboutBytesOf(const ParameterValue& value) {
  constexpr size_t kOfNumber = 24;
  size_t bytes = kOfNumber;
  if (const auto* text = std::get_if<std::string>(&value)) bytes += text->size();
  if (const auto* numbers = std::get_if<std::vector<double>>(&value))
    bytes += kOfNumber * numbers->size();
  if (const auto* texts = std::get_if<std::vector<std::string>>(&value))
    for (const std::string& text : *texts) bytes += text.size() + 4;
  return bytes;
}
inline size_t AboutBytesOf(const JobInfo& info) {
  size_t bytes = 2048 + info.reason.size() + info.waits_for.size() + info.sample.size() +
                 32 * info.checkpoints.size();
  for (const JobMember& member : info.members)
    bytes += 256 + member.name.size() + member.host.size() + member.phase.size() +
             8 * member.lanes.size();
  const TrainingSpec& training = info.spec->training;
  for (const std::string& path : training.data.paths) bytes += path.size() + 4;
  for (const std::string& suffix : training.data.suffixes) bytes += suffix.size() + 4;
  for (const DataField& field : training.data.fields)
    bytes += field.name.size() + 64 + 12 * field.shape.size();
  bytes += info.spec->runtime.stream.path.size() + info.spec->runtime.stream.host.size();
  bytes += training.initial.file.size() + 4;
  for (const MetricValue& of : info.validation) bytes += of.metric.size() + 64;
  for (const PrefixChange& change : training.initial.map)
    bytes += change.from.size() + change.to.size() + 32;
  for (const auto& [name, value] : training.parameters)
    bytes += name.size() + 8 + AboutBytesOf(value);
  for (const auto& [key, value] : info.spec->queue.labels) bytes += key.size() + value.size() + 8;
  return bytes;
}
inline size_t AboutBytesOf(const SubmittedJob& submitted) { return AboutBytesOf(submitted.job); }
inline size_t AboutBytesOf(const JobPage& page) {
  size_t bytes = 0;
  for (const JobInfo& job : page.jobs) bytes += AboutBytesOf(job);
  return bytes;
}
inline size_t AboutBytesOf(const HostInfo& host) {
  size_t bytes = 256 + host.name.size() + host.node.size() + host.left_out.size();
  for (const std::string& job : host.left_out_by) bytes += 4 + job.size();
  for (const HostMember& member : host.members)
    bytes += 128 + member.job.size() + member.member.size() + 16 * member.devices.size();
  for (const std::string& id : host.devices) bytes += 8 + 2 * id.size();
  return bytes;
}
inline size_t AboutBytesOf(const TokenList& list) {
  size_t bytes = 0;
  for (const TokenInfo& token : list.tokens)
    bytes += 128 + token.user.size() + token.name_space.size();
  return bytes;
}
inline size_t AboutBytesOf(const HostPage& page) {
  size_t bytes = 0;
  for (const HostInfo& host : page.hosts) bytes += AboutBytesOf(host);
  return bytes;
}
inline size_t AboutBytesOf(const NamespaceList& list) {
  constexpr size_t kOfOne = 256;
  return kOfOne * list.namespaces.size();
}
// All others are bounded in number and made where they are found, on the query thread.
template <class T>
size_t AboutBytesOf(const T&) {
  return 0;
}

}  // namespace muster::coordinator
