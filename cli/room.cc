#include "cli/room.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "cli/format.h"

namespace muster::cli {
namespace {

constexpr char kNoneWhereOthersStay[] = "the hosts that stay have no room for the job";

}  // namespace

Room::Room(Duration patience, Patience::Timer timer,
           std::function<void(const std::string& why)> on_none)
    : patience_(patience), on_none_(std::move(on_none)), without_room_(timer), alone_(timer) {}

void Room::OnState(const std::string& state) {
  is_queued_ = state == "queued";
  if (!is_queued_) return without_room_.Ends();
  Look();
}

void Room::OnLeave() {
  leaving_ = true;
  without_room_.Ends();
  Look();
}

// Where all were told nobody waits; a host that is lost may come back.
void Room::OnStaying(bool any_stays) {
  if (any_stays) return alone_.Ends();
  alone_.Lasts(kAlone, [this] { on_none_(kNoneWhereOthersStay); });
  Look();
}

void Room::Look() {
  if (!is_queued_) return;
  if (alone_.lasts()) return on_none_(kNoneWhereOthersStay);
  if (leaving_)
    return without_room_.Lasts(kAfterLeaving, [this] { on_none_(kNoneWhereOthersStay); });
  without_room_.Lasts(patience_, [this] {
    on_none_(absl::StrCat("for ", HowLong(Seconds(patience_)),
                          " the hosts that are there have had no room for the job"));
  });
}

}  // namespace muster::cli
