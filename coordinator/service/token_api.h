// The tokens of people, made and taken away through the driver, so that the journal has them first.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "coordinator/runtime/driver.h"
#include "coordinator/runtime/journal.h"
#include "coordinator/service/control_api.h"

namespace muster::coordinator {

// `driver` outlives it.
std::unique_ptr<TokenApi> MakeTokenApi(Driver& driver);

// Where the token lies that an admin begins with, in a coordinator's --dir.
std::string AdminTokenFileOf(const std::string& dir);

// Before the driver is made of `recovered`. Where no admin is known, whoever can read the file of
// that name becomes one: the token in it, or a new one that is put there first, so that an end in
// between locks nobody out.
absl::Status ProvideAdmin(const std::string& dir, Journal& journal, RecoveredState& recovered);

}  // namespace muster::coordinator
