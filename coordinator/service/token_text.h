// What a person holds to be known by, and what is kept of it. The secret has 128 random bits, so
// its hash needs neither salt nor time.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace muster::coordinator {

// "muster-USER-SECRET". The system's randomness, or the process ends.
std::string MakeTokenText(std::string_view user);
// The user of what has the form of a token; nothing: it has not.
std::optional<std::string> UserInToken(std::string_view text);
// SHA-256, 64 hexadecimal digits: what the journal keeps.
std::string HashOfToken(std::string_view text);
// Takes the same time wherever they differ.
bool SameHash(std::string_view a, std::string_view b);
// The token in the value of an Authorization header; nothing: it is not "Bearer TOKEN".
std::optional<std::string> BearerIn(std::string_view authorization);

}  // namespace muster::coordinator
