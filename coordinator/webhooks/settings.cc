#include "coordinator/webhooks/settings.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "lib/base/status.h"
#include "lib/base/whole_file.h"
#include "lib/config/document.h"
#include "lib/curl/url.h"
#include "lib/domain/labels.h"
#include "lib/domain/member_name.h"
#include "lib/identity/certificates.h"
#include "lib/identity/identity_folder.h"

namespace muster::coordinator {
namespace {

using Json = nlohmann::json;

constexpr size_t kMostNamespaces = 1000;
constexpr size_t kShortestKey = 24;
constexpr size_t kLongestKey = 64;
constexpr char kSecretPrefix[] = "whsec_";
constexpr char kHowToMakeOne[] =
    "make one with: (umask 077; echo whsec_$(openssl rand -base64 32) > FILE)";

// Why it may not be spoken to; empty: it may.
std::string WhyNoUrl(const std::string& url) {
  return WhyNotSentTo(url, "https://hooks.example.com/muster",
                      "the signature says who sends it, so leave them out");
}

absl::StatusOr<std::string> ReadUrl(const Document& document, const std::string& field,
                                    const Json& value) {
  MUSTER_ASSIGN_OR_RETURN(std::string url, ReadText(document, field, value));
  const std::string why = WhyNoUrl(url);
  if (!why.empty()) return ErrorAt(document, field, why);
  return url;
}

absl::StatusOr<std::string> ReadName(const Document& document, const std::string& field,
                                     const Json& value) {
  MUSTER_ASSIGN_OR_RETURN(std::string name, ReadText(document, field, value));
  if (!IsMemberName(name))
    return ErrorAt(document, field, absl::StrCat("must be ", MemberNameRule()));
  return name;
}

absl::StatusOr<std::string> ReadNamespace(const Document& document, const std::string& field,
                                          const Json& value) {
  MUSTER_ASSIGN_OR_RETURN(std::string name, ReadText(document, field, value));
  if (!IsDnsLabel(name))
    return ErrorAt(document, field, absl::StrCat("must be a namespace: ", kDnsLabelRule));
  return name;
}

template <class ReadOne>
absl::StatusOr<std::set<std::string>> ReadList(const Document& document, const std::string& field,
                                               const Json& value, const ReadOne& read) {
  if (!value.is_array() || value.empty() || value.size() > kMostNamespaces)
    return ErrorAt(
        document, field,
        absl::StrCat("must be a list of 1 to ", kMostNamespaces, " entries; leave it out for all"));
  std::set<std::string> list;
  for (size_t i = 0; i < value.size(); ++i) {
    const std::string at = FieldPath(field, i);
    MUSTER_ASSIGN_OR_RETURN(std::string one, read(document, at, value[i]));
    if (!list.insert(std::move(one)).second) return ErrorAt(document, at, "stands there twice");
  }
  return list;
}

absl::StatusOr<WebhookSettings> ReadWebhook(const Document& document, const std::string& field,
                                            const Json& value) {
  static const std::vector<std::string> kTypes(std::begin(kWebhookEventTypes),
                                               std::end(kWebhookEventTypes));
  MUSTER_RETURN_IF_ERROR(CheckKeys(
      document, field, value, {"name", "url", "secret_file", "ca_file", "events", "namespaces"}));
  for (const char* key : {"name", "url", "secret_file"})
    if (!value.contains(key)) return ErrorAt(document, FieldPath(field, key), "is missing");
  WebhookSettings webhook;
  const auto at = [&](const char* key) { return FieldPath(field, key); };
  MUSTER_ASSIGN_OR_RETURN(webhook.name, ReadName(document, at("name"), value["name"]));
  MUSTER_ASSIGN_OR_RETURN(webhook.url, ReadUrl(document, at("url"), value["url"]));
  MUSTER_ASSIGN_OR_RETURN(webhook.secret_file,
                          ReadText(document, at("secret_file"), value["secret_file"]));
  if (value.contains("ca_file")) {
    MUSTER_ASSIGN_OR_RETURN(webhook.ca_file, ReadText(document, at("ca_file"), value["ca_file"]));
    if (webhook.ca_file.empty())
      return ErrorAt(document, at("ca_file"),
                     "is empty; leave it out to trust whom the machine trusts");
  }
  if (value.contains("events")) {
    const auto type = [](const Document& in, const std::string& where, const Json& one) {
      return ReadChoice(in, where, one, kTypes);
    };
    MUSTER_ASSIGN_OR_RETURN(webhook.events,
                            ReadList(document, at("events"), value["events"], type));
  }
  if (value.contains("namespaces")) {
    MUSTER_ASSIGN_OR_RETURN(webhook.namespaces, ReadList(document, at("namespaces"),
                                                         value["namespaces"], ReadNamespace));
  }
  return webhook;
}

absl::StatusOr<std::vector<WebhookSettings>> WebhooksIn(const Document& document) {
  MUSTER_RETURN_IF_ERROR(CheckKeys(document, "", document.root, {"webhooks"}));
  if (!document.root.contains("webhooks"))
    return ErrorAt(document, "webhooks", "is missing; it is a list of webhooks, [] for none");
  const Json& list = document.root["webhooks"];
  if (!list.is_array() || list.size() > kMostWebhooks)
    return ErrorAt(document, "webhooks",
                   absl::StrCat("must be a list of at most ", kMostWebhooks, " webhooks"));
  std::vector<WebhookSettings> webhooks;
  std::set<std::string> names;
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string field = FieldPath("webhooks", i);
    MUSTER_ASSIGN_OR_RETURN(WebhookSettings webhook, ReadWebhook(document, field, list[i]));
    if (!names.insert(webhook.name).second)
      return ErrorAt(document, FieldPath(field, "name"),
                     absl::StrCat("'", webhook.name, "' is the name of another one, too"));
    webhooks.push_back(std::move(webhook));
  }
  return webhooks;
}

absl::StatusOr<std::string> ReadCertificates(const std::string& path) {
  MUSTER_ASSIGN_OR_RETURN(std::string text, ReadGivenFile(path));
  if (const absl::Status read = ClusterOfAuthority(text).status(); !read.ok())
    return absl::InvalidArgumentError(
        absl::StrCat(path, " holds no certificates in PEM (", read.message(),
                     "); leave ca_file out to trust whom the machine trusts"));
  return text;
}

// Its paths begin at `folder`.
absl::Status ReadFilesOf(const Document& document, const std::string& field,
                         const std::filesystem::path& folder, WebhookSettings& webhook) {
  const auto from_folder = [&](const std::string& path) {
    return (folder / path).lexically_normal().string();  // an absolute path stays as it is
  };
  webhook.secret_file = from_folder(webhook.secret_file);
  const absl::StatusOr<std::string> text = ReadSecret(webhook.secret_file);
  absl::StatusOr<std::vector<std::string>> keys =
      text.ok() ? ParseSecrets(*text) : absl::StatusOr<std::vector<std::string>>(text.status());
  if (!keys.ok())
    return ErrorAt(document, FieldPath(field, "secret_file"),
                   absl::StrCat(webhook.secret_file, ": ", keys.status().message()));
  webhook.keys = *std::move(keys);
  if (webhook.ca_file.empty()) return absl::OkStatus();
  webhook.ca_file = from_folder(webhook.ca_file);
  absl::StatusOr<std::string> ca = ReadCertificates(webhook.ca_file);
  if (!ca.ok()) return ErrorAt(document, FieldPath(field, "ca_file"), ca.status().message());
  webhook.ca = *std::move(ca);
  return absl::OkStatus();
}

}  // namespace

bool Wants(const WebhookSettings& webhook, const OutboxEvent& event) {
  return (webhook.events.empty() || webhook.events.contains(event.type)) &&
         (webhook.namespaces.empty() || webhook.namespaces.contains(event.name_space));
}

absl::StatusOr<std::vector<WebhookSettings>> ParseWebhooks(absl::string_view text,
                                                           absl::string_view source) {
  MUSTER_ASSIGN_OR_RETURN(const Document document, ParseYamlDocument(text, source));
  return WebhooksIn(document);
}

absl::StatusOr<std::vector<std::string>> ParseSecrets(absl::string_view text) {
  std::vector<std::string> keys;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    absl::string_view word = absl::StripAsciiWhitespace(line);
    if (word.empty()) continue;
    std::string key;
    if (!absl::ConsumePrefix(&word, kSecretPrefix) || !absl::Base64Unescape(word, &key))
      return absl::InvalidArgumentError(
          absl::StrCat("a line is no secret, whsec_ and base64; ", kHowToMakeOne));
    if (key.size() < kShortestKey || key.size() > kLongestKey)
      return absl::InvalidArgumentError(absl::StrCat("a secret is of ", key.size(),
                                                     " bytes, and must be of ", kShortestKey,
                                                     " to ", kLongestKey, "; ", kHowToMakeOne));
    keys.push_back(std::move(key));
  }
  if (keys.empty())
    return absl::InvalidArgumentError(absl::StrCat("it holds no secret; ", kHowToMakeOne));
  if (keys.size() > kMostSecrets)
    return absl::InvalidArgumentError(absl::StrCat(
        "it holds ", keys.size(), " secrets, and at most ", kMostSecrets, " may sign"));
  return keys;
}

absl::StatusOr<std::vector<WebhookSettings>> ReadWebhooks(const std::string& file) {
  const absl::StatusOr<std::string> text = ReadGivenFile(file);
  if (!text.ok()) return absl::InvalidArgumentError(text.status().message());
  MUSTER_ASSIGN_OR_RETURN(const Document document, ParseYamlDocument(*text, file));
  MUSTER_ASSIGN_OR_RETURN(std::vector<WebhookSettings> webhooks, WebhooksIn(document));
  const std::filesystem::path folder = std::filesystem::absolute(file).parent_path();
  for (size_t i = 0; i < webhooks.size(); ++i)
    MUSTER_RETURN_IF_ERROR(ReadFilesOf(document, FieldPath("webhooks", i), folder, webhooks[i]));
  return webhooks;
}

}  // namespace muster::coordinator
