// Values of any message made of a seed, and whether two are the same, field by field: a field that
// somebody adds to a message takes part by itself.
#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "lib/domain/message.h"
#include "tests/lib/wire/fields.h"
#include "tests/lib/wire/random_job.h"

namespace muster {

template <class T>
bool Same(const T& a, const T& b);
template <class T>
bool Same(const std::vector<T>& a, const std::vector<T>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (!Same<T>(a[i], b[i])) return false;
  return true;
}
template <class T>
bool Same(const std::optional<T>& a, const std::optional<T>& b) {
  return a.has_value() == b.has_value() && (!a || Same(*a, *b));
}
template <class... Ts>
bool Same(const std::variant<Ts...>& a, const std::variant<Ts...>& b) {
  return a.index() == b.index() && std::visit(
                                       [&b](const auto& value) {
                                         using Value = std::decay_t<decltype(value)>;
                                         return Same(value, std::get<Value>(b));
                                       },
                                       a);
}
template <class T>
bool Same(const T& a, const T& b) {
  if constexpr (std::equality_comparable<T>) {
    return a == b;
  } else {
    return [&]<size_t... i>(std::index_sequence<i...>) {
      return (Same(std::get<i>(FieldsOf(a)), std::get<i>(FieldsOf(b))) && ...);
    }
    (std::make_index_sequence<FieldCount<T>()>());
  }
}

class RandomMessage {
 public:
  // `printable`: texts are such as people may read; else any bytes.
  explicit RandomMessage(uint64_t seed, bool printable = false)
      : random_(seed), printable_(printable) {}

  // One of the variant's kinds; every kind in turn when called often.
  template <class Variant>
  Variant Make() {
    return MakeKind<Variant>(random_() % std::variant_size_v<Variant>);
  }
  template <class Variant, size_t i = 0>
  Variant MakeKind(size_t kind) {
    if constexpr (i < std::variant_size_v<Variant>) {
      if (i != kind) return MakeKind<Variant, i + 1>(kind);
      std::variant_alternative_t<i, Variant> value;
      Fill(value);
      return value;
    } else {
      return {};
    }
  }

  // By type; what the types cannot say is mended in the overloads for whole structs.
  template <class T>
  void Fill(T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      value = Below(2) == 1;
    } else if constexpr (std::is_enum_v<T>) {
      value = static_cast<T>(Below(2));
    } else if constexpr (std::is_floating_point_v<T>) {
      value = std::ldexp(static_cast<double>(random_()), static_cast<int>(Below(100)) - 80);
    } else if constexpr (std::is_same_v<T, int32_t>) {
      value = static_cast<int32_t>(Below(60));
    } else if constexpr (std::is_same_v<T, int64_t>) {
      value = static_cast<int64_t>(random_() >> (2 + Below(60)));
    } else if constexpr (std::is_unsigned_v<T>) {
      value = static_cast<T>(random_());
    } else {
      ForEachField(value, [this](auto& field) { Fill(field); });
    }
  }
  template <class Tag, class Rep>
  void Fill(StrongInt<Tag, Rep>& value) {
    Rep number;
    Fill(number);
    value = StrongInt<Tag, Rep>(number);
  }
  void Fill(LogAmount& amount) {
    for (int64_t* part : {&amount.bytes, &amount.lines}) {
      Fill(*part);
      *part %= kMostLogAmount;
    }
  }
  void Fill(std::string& text) {
    text.resize(Below(8));
    for (char& c : text)
      c = printable_ ? static_cast<char>('a' + Below(26)) : static_cast<char>(random_());
  }
  void Fill(std::map<std::string, std::string>& texts) {
    for (size_t n = Below(4); n > 0; --n) Fill(texts[std::to_string(random_())]);
  }
  void Fill(ChunkSet& set) { Fill(set, Below(40)); }
  void Fill(ChunkSet& set, size_t size) {
    set.resize(size);
    for (size_t i = 0; i < size; ++i) set[i] = Below(2) == 1;
  }
  template <class T>
  void Fill(std::vector<T>& values) {
    values.resize(Below(5));
    for (T& value : values) Fill(value);
  }
  template <class T>
  void Fill(std::optional<T>& value) {
    if (Below(2) == 1) Fill(value.emplace());
  }
  // Of those who say who they are, names are looked at.
  template <class M>
  void FillNamed(M& message, std::string& name) {
    ForEachField(message, [this](auto& field) { Fill(field); });
    name = "member-" + std::to_string(Below(100));
  }
  // Often such that we understand each other: of others the rest of a greeting is not read.
  void Fill(Speaks& speaks) {
    if (Below(2) == 1) ForEachField(speaks, [this](auto& field) { Fill(field); });
  }
  void Fill(AskJob& ask) { FillNamed(ask, ask.name); }
  void Fill(HowFar& how_far) {
    ForEachField(how_far, [this](auto& field) { Fill(field); });
    how_far.percent = static_cast<int32_t>(Below(101));
  }
  void Fill(Join& join) {
    FillNamed(join, join.id.name);
    join.role = static_cast<Role>(Below(static_cast<size_t>(Role::kReader) + 1));
    join.stream_positions = Positions();
  }
  void Fill(Hello& hello) { FillNamed(hello, hello.from.name); }
  void Fill(AgentHello& hello) {
    FillNamed(hello, hello.agent.host);
    hello.agent.incarnation.hi |= 1;  // an agent has one
  }
  void Fill(std::vector<HostDevice>& devices) {
    devices.resize(Below(5));
    for (size_t i = 0; i < devices.size(); ++i) {
      devices[i].id = std::to_string(i);  // no two are the same
      Fill(devices[i].holder);
    }
  }
  void Fill(ProcessWanted& process) {
    ForEachField(process, [this](auto& field) { Fill(field); });
    for (std::string& id : process.devices) id = "GPU-" + std::to_string(Below(100));
  }
  void Fill(JobSpec& spec) { spec = RandomJob(random_()).Make(); }
  void Fill(TreeNode& node) {
    node.lo = static_cast<int32_t>(Below(4096));
    node.hi = node.lo + 1 + static_cast<int32_t>(Below(static_cast<size_t>(4096 - node.lo)));
  }
  void Fill(Partials& partials) {
    ForEachField(partials, [this](auto& field) { Fill(field); });
    if (!partials.chunks.empty()) partials.commands.clear();
  }
  void Fill(Inventory& have) {
    ForEachField(have, [this](auto& field) { Fill(field); });
    Fill(have.results, have.partials.size());
  }
  void Fill(LaneHolders& holders) {
    std::vector<MemberId> members;
    Fill(members);
    std::vector<int32_t> by_lane;
    if (!members.empty()) Indices(by_lane, Below(20), members.size(), 0);
    holders = {std::move(members), std::move(by_lane)};
  }
  void Fill(LocalState& local_state) {
    ForEachField(local_state, [this](auto& field) { Fill(field); });
    FillAscending(local_state.lanes);
  }
  void Fill(LanesNotFinite& found) {
    ForEachField(found, [this](auto& field) { Fill(field); });
    FillAscending(found.lanes);
  }
  void Fill(Unreachable& unreachable) {
    ForEachField(unreachable, [this](auto& field) { Fill(field); });
    FillAscending(unreachable.members);
  }
  void Fill(TensorSpec& tensor) {
    Fill(tensor.name);
    tensor.kind = static_cast<TensorKind>(Below(static_cast<size_t>(TensorKind::kPhase) + 1));
    if (tensor.kind == TensorKind::kBuffer)
      tensor.type = static_cast<TensorType>(Below(static_cast<size_t>(TensorType::kBool) + 1));
    tensor.shape.resize(Below(4));
    for (int64_t& size : tensor.shape) size = 1 + static_cast<int64_t>(Below(1000));
    tensor.aliases.resize(Below(3));
    for (std::string& alias : tensor.aliases) Fill(alias);
  }
  void Fill(MeasureSums& sums) {
    sums.floats.resize(kFloatsOfMetric * (1 + Below(4)));
    for (size_t i = 0; i < sums.floats.size(); ++i) {
      const auto limb = static_cast<float>(Below(1 << 24));
      sums.floats[i] = i % kFloatsOfMetric < 10 && limb > 0 && Below(2) == 1 ? -limb : limb;
    }
  }
  void Fill(Segment& segment) {
    ForEachField(segment, [this](auto& field) { Fill(field); });
    for (SegmentEntry& entry : segment.entries) entry.slot %= kMaxOptimizerSlots;
    segment.file = "folder/w" + std::to_string(Below(100)) + ".segment";
  }
  void Fill(Manifest& manifest) {
    ForEachField(manifest, [this](auto& field) { Fill(field); });
    manifest.job = "job";
    manifest.spec = "{}";
    manifest.fingerprint = "00ff";
    manifest.chunk_bytes = 64 * static_cast<int64_t>(1 + Below(4096));
    manifest.slots %= kMaxOptimizerSlots;
    for (TensorSpec& tensor : manifest.tensors) {
      tensor.name = "weight";
      for (std::string& alias : tensor.aliases) alias = "again.weight";
    }
    if (manifest.pending) manifest.step = manifest.pending->step + 1;
  }
  void Fill(View& view) {
    ForEachField(view, [this](auto& field) { Fill(field); });
    view.members.emplace_back();
    const size_t chunks = Below(40), lanes = Below(20);
    Indices(view.lanes.holder_of, lanes, view.members.size(), 0);
    Indices(view.first_lanes.holder_of, lanes, view.members.size(), 0);
    Indices(view.owner_of, chunks, view.members.size(), 0);
    Fill(view.first_done, chunks);
  }
  void Fill(HealPlan& plan) {
    ForEachField(plan, [this](auto& field) { Fill(field); });
    plan.members.emplace_back();
    const size_t chunks = Below(40), members = plan.members.size();
    plan.how.resize(members);
    for (HealBy& how : plan.how) how = static_cast<HealBy>(Below(6));
    if (!plan.manifest) Fill(plan.manifest.emplace());
    Indices(plan.values_from, chunks, members, 0);
    Indices(plan.slots_from, chunks, members, 1);
    Indices(plan.catch_up_from, chunks, members, 0);
    Indices(plan.done_from, chunks, members, 1);
    Indices(plan.owner_of, chunks, members, 0);
    Indices(plan.first_lanes.holder_of, Below(20), members, 0);
    plan.done.resize(chunks);
    for (size_t c = 0; c < chunks; ++c) plan.done[c] = plan.done_from[c] >= 0;
  }

  void Fill(SpoolSegment& segment) {
    ForEachField(segment, [this](auto& field) { Fill(field); });
    segment.first = Positions();
    segment.count = Positions();
  }
  void Fill(StreamPlace& place) {
    ForEachField(place, [this](auto& field) { Fill(field); });
    place.sample = Positions();
  }
  void Fill(SpoolFrom& from) {
    ForEachField(from, [this](auto& field) { Fill(field); });
    for (uint64_t* number : {&from.positions, &from.needed, &from.room}) *number = Positions();
  }
  void Fill(AckSpooled& ack) {
    ForEachField(ack, [this](auto& field) { Fill(field); });
    for (uint64_t* number : {&ack.positions, &ack.needed, &ack.room}) *number = Positions();
  }
  void Fill(Spooled& spooled) {
    ForEachField(spooled, [this](auto& field) { Fill(field); });
    for (uint64_t* number : {&spooled.first, &spooled.count}) *number = Positions();
  }
  void Fill(StreamIs& stream) {
    ForEachField(stream, [this](auto& field) { Fill(field); });
    stream.positions = Positions();
    if (stream.end) stream.end = Positions();
  }

  size_t Below(size_t n) { return random_() % n; }
  // Of a stream.
  uint64_t Positions() { return random_() >> (24 + Below(40)); }

 private:
  template <class Index>
  void FillAscending(std::vector<Index>& indices) {
    for (size_t i = 0; i < indices.size(); ++i)
      indices[i] = Index(static_cast<int32_t>(i * 1000 + Below(1000) % 96));
  }
  // `count` numbers from -spare to end - 1.
  void Indices(std::vector<int32_t>& indices, size_t count, size_t end, size_t spare) {
    indices.resize(count);
    for (int32_t& index : indices)
      index = static_cast<int32_t>(Below(end + spare)) - static_cast<int32_t>(spare);
  }

  std::mt19937_64 random_;
  const bool printable_;
};

}  // namespace muster
