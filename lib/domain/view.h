// A view: who takes part, who does what; published whole (docs/protocol.md section 1). Pure values.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/ids.h"
#include "lib/domain/job.h"

namespace muster {

// A follower measures what the others train, a reader spools a stream for them; both are in no
// view.
enum class Role { kWorker, kServer, kFollower, kReader };
inline constexpr char kFollowerName[] = "follower-0";
inline constexpr char kReaderName[] = "reader-0";
// Its program is the worker's, which has LibTorch and the job's task; that of others is the
// server's.
inline bool RunsTask(Role role) { return role == Role::kWorker || role == Role::kFollower; }
inline bool IsInViews(Role role) { return role == Role::kWorker || role == Role::kServer; }

struct MemberId {
  std::string name;
  Incarnation incarnation;
  auto operator<=>(const MemberId&) const = default;
};

// Who holds each lane. A job may have thousands of lanes and few members, so each member stands
// here once.
class LaneHolders {
 public:
  LaneHolders() = default;
  LaneHolders(std::initializer_list<MemberId> by_lane);
  // By lane: an index into `members`.
  LaneHolders(std::vector<MemberId> members, std::vector<int32_t> by_lane)
      : members_(std::move(members)), by_lane_(std::move(by_lane)) {}

  bool empty() const { return by_lane_.empty(); }
  size_t size() const { return by_lane_.size(); }
  const MemberId& operator[](size_t lane) const {
    return members_[static_cast<size_t>(by_lane_[lane])];
  }
  const std::vector<MemberId>& members() const { return members_; }
  const std::vector<int32_t>& by_lane() const { return by_lane_; }
  bool operator==(const LaneHolders& other) const;

 private:
  std::vector<MemberId> members_;
  std::vector<int32_t> by_lane_;
};

struct ViewMember {
  MemberId id;
  Role role = Role::kWorker;
  std::string node;        // host
  std::string address;     // of its data port
  Rank rank;               // dense per role
  int32_t local_rank = 0;  // dense per node and role
  bool operator==(const ViewMember&) const = default;
};

// One bit per chunk.
using ChunkSet = std::vector<bool>;

// Who adds what, for one step: index into the view's members.
struct LaneMap {
  std::vector<int32_t> holder_of;  // by lane
  bool operator==(const LaneMap&) const = default;
};

struct View {
  std::string job;
  TermNumber term;
  ViewNumber number;
  LineageNumber lineage;
  std::vector<ViewMember> members;  // workers by rank, then servers by rank
  LaneMap lanes;                    // from first_step + 1 on
  std::vector<int32_t> owner_of;    // by chunk: index into members
  Step first_step;                  // the open step when the view became active
  LaneMap first_lanes;              // of first_step
  ChunkSet first_done;  // chunks of first_step whose sums are complete: never summed again
  Step end;             // members halt at state(end): the job's last, or where it was told to stop
  bool operator==(const View&) const = default;

  const LaneMap& LanesAt(Step step) const { return step == first_step ? first_lanes : lanes; }
  // Index of the member, -1 when it takes no part.
  int32_t IndexOf(const MemberId& id) const {
    for (size_t i = 0; i < members.size(); ++i)
      if (members[i].id == id) return static_cast<int32_t>(i);
    return -1;
  }
  // False for a spare, and for whoever takes no part: it has neither a lane nor a chunk.
  bool HasPart(int32_t index) const;
  std::map<MemberId, int32_t> Indexes() const;  // for who asks about many members
  LaneHolders LaneHoldersAt(Step step) const;
};

// Chunk → member index: runs of `stripe` chunks go round the owners, so that every bucket touches
// every owner.
std::vector<int32_t> StripeOwners(int32_t chunks, int32_t stripe,
                                  const std::vector<int32_t>& owners);

// Members that own chunks: servers, or, with all-reduce, the workers that hold lanes after the
// first step.
std::vector<int32_t> OwnersOf(const std::vector<ViewMember>& members, const LaneMap& lanes,
                              Sync sync);

}  // namespace muster
