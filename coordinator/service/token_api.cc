#include "coordinator/service/token_api.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "coordinator/service/token_text.h"
#include "lib/base/printable.h"
#include "lib/base/status.h"
#include "lib/identity/identity_folder.h"
#include "lib/log/log.h"

namespace muster::coordinator {
namespace {

constexpr char kFirstAdmin[] = "admin";

TokenInfo InfoOf(const Token& token) {
  return {TokenId(token),    token.grant.user,   std::string(RoleName(token.grant.role)),
          token.grant.scope, token.made_unix_ms, token.expires_unix_ms};
}

const Token* Find(const std::vector<Token>& tokens, const std::string& id) {
  const auto it = std::find_if(tokens.begin(), tokens.end(),
                               [&](const Token& token) { return TokenId(token) == id; });
  return it == tokens.end() ? nullptr : &*it;
}

Token NewToken(const std::string& text, const TokenRequest& request) {
  const int64_t now = absl::ToUnixMillis(absl::Now());
  const int64_t lasts = request.expires_in_seconds * 1000;
  return {HashOfToken(text), request.grant, now, lasts == 0 ? 0 : now + lasts};
}

absl::Status NoSuchToken(const std::string& id) {
  return absl::NotFoundError(
      absl::StrCat("there is no token ", Cut(Printable(id)), "; `muster token list` shows all"));
}

class Api final : public TokenApi {
 public:
  explicit Api(Driver& driver) : driver_(driver) {}

  void Make(const TokenRequest& request, Reply<MadeToken> reply) override {
    if (const std::string why = WhyNoGrant(request.grant); !why.empty())
      return reply(absl::InvalidArgumentError(why));
    std::string text = MakeTokenText(request.grant.user);
    const Token token = NewToken(text, request);
    Change(MakeToken{token}, [token, text = std::move(text),
                              reply = std::move(reply)](const absl::StatusOr<Tokens>& tokens) {
      if (!tokens.ok()) return reply(tokens.status());
      if (Find(**tokens, TokenId(token)) != nullptr) return reply(MadeToken{InfoOf(token), text});
      reply(absl::ResourceExhaustedError(WhyNotMade(**tokens, token)));
    });
  }

  void List(Reply<TokenList> reply) override {
    const absl::StatusOr<Tokens> tokens = Known();
    if (!tokens.ok()) return reply(tokens.status());
    TokenList list;
    for (const Token& token : **tokens) list.tokens.push_back(InfoOf(token));
    reply(std::move(list));
  }

  void Revoke(const std::string& id, Reply<TokenInfo> reply) override {
    const absl::StatusOr<Tokens> known = Known();
    if (!known.ok()) return reply(known.status());
    const Token* token = Find(**known, id);
    if (token == nullptr) return reply(NoSuchToken(id));
    Change(RevokeToken{id},
           [info = InfoOf(*token), reply = std::move(reply)](const absl::StatusOr<Tokens>& tokens) {
             if (!tokens.ok()) return reply(tokens.status());
             if (Find(**tokens, info.id) == nullptr) return reply(info);
             reply(absl::FailedPreconditionError(WhyNotRevoked(**tokens, info.id)));
           });
  }

 private:
  using Tokens = std::shared_ptr<const std::vector<Token>>;

  absl::StatusOr<Tokens> Known() const {
    MUSTER_ASSIGN_OR_RETURN(const KnownCluster known, driver_.KnownWithHosts());
    return known.tokens;
  }

  // What was decided is published once it is written, which is before `done`; only that tells what
  // became of it, as others may change the tokens at the same time.
  void Change(Input input, std::function<void(const absl::StatusOr<Tokens>&)> done) {
    driver_.Change([input = std::move(input)](
                       const KnownJobs&) -> absl::StatusOr<std::optional<Input>> { return input; },
                   [this, done = std::move(done)](const absl::StatusOr<KnownJobs>& jobs) {
                     if (!jobs.ok()) return done(jobs.status());
                     done(Known());
                   });
  }

  Driver& driver_;
};

// Nothing: there is none.
absl::StatusOr<std::optional<std::string>> AdminTokenIn(const std::string& path) {
  const absl::StatusOr<std::string> content = ReadSecret(path);
  if (absl::IsNotFound(content.status())) return std::nullopt;
  MUSTER_RETURN_IF_ERROR(content.status());
  std::string text(absl::StripAsciiWhitespace(*content));
  if (UserInToken(text) == kFirstAdmin) return text;
  return absl::DataLossError(
      absl::StrCat(path, " holds no token of the user ", kFirstAdmin,
                   ", and no other admin is known; delete it, and the next start makes a new one"));
}

}  // namespace

std::unique_ptr<TokenApi> MakeTokenApi(Driver& driver) { return std::make_unique<Api>(driver); }

std::string AdminTokenFileOf(const std::string& dir) { return dir + "/identity/admin.token"; }

absl::Status ProvideAdmin(const std::string& dir, Journal& journal, RecoveredState& recovered) {
  if (HasAdmin(recovered.tokens)) return absl::OkStatus();
  const std::string path = AdminTokenFileOf(dir);
  const std::string folder = std::filesystem::path(path).parent_path().string();
  MUSTER_RETURN_IF_ERROR(CloseToOthers(folder, /*may_be_link=*/true));
  MUSTER_ASSIGN_OR_RETURN(std::optional<std::string> text, AdminTokenIn(path));
  if (!text) {
    text = MakeTokenText(kFirstAdmin);
    MUSTER_RETURN_IF_ERROR(WriteSecret(path, *text + "\n"));
    LogInfo("the token of the user %s is in %s", kFirstAdmin, path);
  }
  const Token token =
      NewToken(*text, {{kFirstAdmin, UserRole::kAdmin, std::string(kAllNamespaces)}});
  recovered.tokens.push_back(token);
  return journal.Write({PersistTokens{recovered.tokens}}, token.made_unix_ms);
}

}  // namespace muster::coordinator
