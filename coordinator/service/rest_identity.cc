#include "coordinator/service/rest_identity.h"

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "coordinator/service/rest_operations.h"
#include "coordinator/service/rest_route.h"
#include "lib/config/document.h"

namespace muster::coordinator {
namespace {

absl::StatusOr<TokenRequest> ParseTokenRequest(const std::string& body) {
  if (body.empty())
    return absl::InvalidArgumentError(
        "the body is empty; send a JSON object such as {\"user\": \"ada\", \"role\": "
        "\"viewer\", \"namespace\": \"default\"}");
  MUSTER_ASSIGN_OR_RETURN(const Document document, ParseJsonDocument(body, ""));
  MUSTER_RETURN_IF_ERROR(CheckKeys(document, "", document.root, KeysOf(TokenBody())));
  std::map<std::string, std::string> fields;
  for (const char* key : {"namespace", "role", "user"}) {
    const auto value = document.root.find(key);
    if (value == document.root.end()) return ErrorAt(document, key, "is missing");
    MUSTER_ASSIGN_OR_RETURN(fields[key], ReadText(document, key, *value));
  }
  const std::optional<UserRole> role = RoleNamed(fields["role"]);
  if (!role) return ErrorAt(document, "role", "must be viewer, submitter, operator or admin");
  TokenRequest asked{{fields["user"], *role, fields["namespace"]}};
  if (const std::string why = WhyNoGrant(asked.grant); !why.empty())
    return absl::InvalidArgumentError(why);
  const auto expires = document.root.find("expires_in");
  if (expires == document.root.end()) return asked;
  MUSTER_ASSIGN_OR_RETURN(const absl::int128 seconds,
                          ReadWhole(document, "expires_in", *expires, 1, kLongestTokenSeconds));
  asked.expires_in_seconds = static_cast<int64_t>(seconds);
  return asked;
}

struct AdmissionAsked {
  std::string name_space{kFirstNamespace};
  bool certified = false;
};

absl::StatusOr<AdmissionAsked> ParseAdmission(const std::string& body) {
  AdmissionAsked asked;
  if (body.empty()) return asked;
  MUSTER_ASSIGN_OR_RETURN(const Document document, ParseJsonDocument(body, ""));
  MUSTER_RETURN_IF_ERROR(CheckKeys(document, "", document.root, KeysOf(AdmissionBody())));
  if (const auto value = document.root.find("namespace"); value != document.root.end()) {
    MUSTER_ASSIGN_OR_RETURN(asked.name_space, ReadText(document, "namespace", *value));
  }
  if (const auto value = document.root.find("certified"); value != document.root.end()) {
    if (!value->is_boolean()) return ErrorAt(document, "certified", "must be true or false");
    asked.certified = value->get<bool>();
  }
  return asked;
}

struct ChangeAsked {
  bool force = false;
  std::optional<absl::Time> now;
};

absl::StatusOr<ChangeAsked> ParseChange(const std::string& body) {
  ChangeAsked asked;
  if (body.empty()) return asked;
  MUSTER_ASSIGN_OR_RETURN(const Document document, ParseJsonDocument(body, ""));
  MUSTER_RETURN_IF_ERROR(CheckKeys(document, "", document.root, KeysOf(AuthorityChangeBody())));
  if (const auto force = document.root.find("force"); force != document.root.end()) {
    if (!force->is_boolean()) return ErrorAt(document, "force", "must be true or false");
    asked.force = force->get<bool>();
  }
  if (const auto now = document.root.find("now"); now != document.root.end()) {
    MUSTER_ASSIGN_OR_RETURN(const std::string text, ReadText(document, "now", *now));
    asked.now.emplace();
    if (std::string why; !absl::ParseTime(absl::RFC3339_full, text, &*asked.now, &why))
      return ErrorAt(document, "now", "must be a time such as 2027-01-15T08:00:00Z");
  }
  return asked;
}

absl::StatusOr<std::string> ParsePublicKey(const std::string& body) {
  if (body.empty())
    return absl::InvalidArgumentError(
        "the body is empty; send a JSON object such as {\"public_key\": \"BASE64\"}");
  MUSTER_ASSIGN_OR_RETURN(const Document document, ParseJsonDocument(body, ""));
  MUSTER_RETURN_IF_ERROR(CheckKeys(document, "", document.root, KeysOf(PublicKeyBody())));
  const auto value = document.root.find("public_key");
  if (value == document.root.end()) return ErrorAt(document, "public_key", "is missing");
  MUSTER_ASSIGN_OR_RETURN(const std::string text, ReadText(document, "public_key", *value));
  std::string key;
  if (!absl::Base64Unescape(text, &key)) return ErrorAt(document, "public_key", "is no base64");
  return key;
}

}  // namespace

std::vector<http::Route> TokenRoutes(TokenApi& api, Background* large_answers, Gate& gate) {
  const auto make = [&api, &gate](const http::Request& request, const http::Responder& respond) {
    const absl::StatusOr<TokenRequest> asked = ParseTokenRequest(request.body);
    if (!asked.ok()) return respond.Send(asked.status(), FieldOf(asked.status()));
    const Caller& grant = asked->grant;
    const MethodRights& rights = *RightsOfRoute("POST", "/v1/tokens");
    const std::string object = absl::StrCat(
        grant.user, " ", std::string(RoleName(grant.role)), " ", grant.scope,
        asked->expires_in_seconds == 0 ? ""
                                       : absl::StrCat(" for ", asked->expires_in_seconds, " s"));
    const absl::StatusOr<Caller> caller = gate.Enter(rights, OriginOf(rights, request), object);
    if (!caller.ok()) return respond.Send(RefusalOf(caller.status()));
    api.Make(*asked, Answering<MadeToken>(respond));
  };
  const auto list = [&api, large_answers](const http::Request&, const http::Responder& respond) {
    api.List(Answering<TokenList>(respond, large_answers));
  };
  const auto revoke = [&api](const http::Request& request, const http::Responder& respond) {
    api.Revoke(request.params.at("id"), Answering<TokenInfo>(respond));
  };
  return {Guarded(&gate, {"POST", "/v1/tokens", make}), Guarded(&gate, {"GET", "/v1/tokens", list}),
          Guarded(&gate, {"DELETE", "/v1/tokens/{id}", revoke})};
}

std::vector<http::Route> JoiningRoutes(HostTokenApi& hosts, CertificateApi& certificates,
                                       Gate* gate) {
  const auto admit = [&hosts](const http::Request& request, const http::Responder& respond) {
    const absl::StatusOr<AdmissionAsked> asked = ParseAdmission(request.body);
    if (!asked.ok()) return respond.Send(asked.status(), FieldOf(asked.status()));
    hosts.Admit(request.params.at("name"), asked->name_space, asked->certified,
                Answering<AdmittedHost>(respond));
  };
  const auto revoke = [&hosts](const http::Request& request, const http::Responder& respond) {
    hosts.Revoke(request.params.at("name"), Answering<AdmittedHost>(respond));
  };
  const auto sign = [&certificates, gate](const http::Request& request,
                                          const http::Responder& respond) {
    const absl::StatusOr<std::string> key = ParsePublicKey(request.body);
    if (!key.ok()) return respond.Send(key.status(), FieldOf(key.status()));
    std::string user, token_id;
    if (gate != nullptr) {
      const MethodRights& rights = *RightsOfRoute("POST", "/v1/certificates");
      const CallOrigin origin = OriginOf(rights, request);
      const absl::StatusOr<Caller> caller = gate->Enter(rights, origin, "");
      if (!caller.ok()) return respond.Send(RefusalOf(caller.status()));
      user = caller->user;
      token_id = TokenIdIn(origin);
    }
    certificates.SignUser(user, token_id, *key, Answering<SignedCertificate>(respond));
  };
  return {Guarded(gate, {"POST", "/v1/hosts/{name}:admit", admit}),
          Guarded(gate, {"POST", "/v1/hosts/{name}:revoke", revoke}),
          Guarded(gate, {"POST", "/v1/certificates", sign})};
}

std::vector<http::Route> AuthorityRoutes(AuthorityApi& api, Gate* gate) {
  const auto get = [&api](const http::Request&, const http::Responder& respond) {
    api.Get(Answering<AuthorityInfo>(respond));
  };
  const auto change = [&api](const http::Request& request, const http::Responder& respond) {
    const absl::StatusOr<ChangeAsked> asked = ParseChange(request.body);
    if (!asked.ok()) return respond.Send(asked.status(), FieldOf(asked.status()));
    api.Change(asked->now, Answering<AuthorityInfo>(respond));
  };
  const auto finish = [&api](const http::Request& request, const http::Responder& respond) {
    const absl::StatusOr<ChangeAsked> asked = ParseChange(request.body);
    if (!asked.ok()) return respond.Send(asked.status(), FieldOf(asked.status()));
    api.Finish(asked->force, asked->now, Answering<AuthorityInfo>(respond));
  };
  return {Guarded(gate, {"GET", "/v1/authority", get}),
          Guarded(gate, {"POST", "/v1/authority:change", change}),
          Guarded(gate, {"POST", "/v1/authority:finish", finish})};
}

}  // namespace muster::coordinator
