#include "hyperion/hub/listing.h"

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>

#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/base/read_file.h"
#include "hyperion/hub/blob_hash.h"

namespace hyperion::hub {
namespace {

using base::ConfigError;
using base::CorruptError;
using base::format;
using base::Json;

// All but letters, digits and what the standard leaves alone; `kept` too.
std::string percent_encoded(std::string_view text, std::string_view kept) {
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       std::string_view("-._~").find(c) != std::string_view::npos || kept.find(c) != kept.npos;
    out += plain ? std::string(1, c) : format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

std::string page_of(const HttpClient& client, const Repo& repo) {
  return format("{}/{}{}", client.endpoint(), repo.kind == RepoKind::set ? "datasets/" : "", repo.name);
}

std::string text_at(const Json& json, const char* key) {
  const auto found = json.is_object() ? json.find(key) : json.end();
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

// Nothing where it is no size.
std::optional<uint64_t> size_at(const Json& json, const char* key) {
  const auto found = json.is_object() ? json.find(key) : json.end();
  return found != json.end() && found->is_number_unsigned() ? std::optional(found->get<uint64_t>()) : std::nullopt;
}

RemoteFile read_sibling(const Json& sibling, const std::string& place) {
  RemoteFile file;
  file.name = text_at(sibling, "rfilename");
  if (!is_safe_file_name(file.name))
    throw CorruptError(
        format("{} lists a file \"{}\", a name that could be written anywhere", place, shown_words(file.name)),
        "nothing was fetched; do not trust this server or repository");
  const auto large = sibling.find("lfs");
  const bool kept_apart = large != sibling.end() && large->is_object();
  const std::string hash = kept_apart ? text_at(*large, "sha256") : text_at(sibling, "blobId");
  const auto size = kept_apart && size_at(*large, "size") ? size_at(*large, "size") : size_at(sibling, "size");
  if (is_blob_hash(hash) && size) file.hash = hash, file.size = *size;
  return file;
}

// `"abc"`, W/"abc" or abc.
std::string bare_etag(std::string etag) {
  if (etag.starts_with("W/")) etag.erase(0, 2);
  if (etag.size() >= 2 && etag.front() == '"' && etag.back() == '"') etag = etag.substr(1, etag.size() - 2);
  return etag;
}

}  // namespace

std::string file_address(const HttpClient& client, const Repo& repo, const std::string& commit,
                         const std::string& name) {
  return format("{}/resolve/{}/{}", page_of(client, repo), commit, percent_encoded(name, "/"));
}

void expect_good(const Response& response, const HttpClient& client, const Repo& repo, const std::string& what) {
  const int status = response.status;
  if (status / 100 == 2) return;
  const std::string page = page_of(client, repo), reason = response.header("x-error-code"),
                    words = shown_words(response.header("x-error-message")),
                    said = format("{}: the hub answers {}{}", what, status, words.empty() ? "" : " (" + words + ")");
  if (status == 401 || status == 403)
    throw ConfigError(
        format("{}: gated, private, or not there", said),
        client.has_token()
            ? format("the token may not read it: accept the license at {}, or use another token (HF_TOKEN)", page)
            : format("check the name; set HF_TOKEN to a token of yours, and accept the license at {}", page));
  if (status == 404)
    throw ConfigError(
        said, reason == "RevisionNotFound"
                  ? format("there is no {} of it; its revisions are listed at {}/tree/main", repo.revision, page)
                  : format("check the name and the revision: {}", page));
  if (status == 429 || status >= 500) throw NetworkError(said, "try again in a while; what was fetched stays");
  throw base::Error(said, "check HF_ENDPOINT");
}

Listing list_repo(const HttpClient& client, const Repo& repo) {
  const std::string url =
      format("{}/api/{}/{}/revision/{}?blobs=true", client.endpoint(),
             repo.kind == RepoKind::set ? "datasets" : "models", repo.name, percent_encoded(repo.revision, ""));
  std::string body;
  const auto response = client.send({url}, [&](const Response&, std::string_view piece) {
    body += piece;
    if (body.size() > base::kLongestDescription)
      throw CorruptError(format("{} answers with more than a list of files", url), "check HF_ENDPOINT");
  });
  expect_good(response, client, repo, repo.text());
  const Json json = base::parse_json(body, url);
  Listing listing{text_at(json, "sha"), {}};
  const auto siblings = json.is_object() ? json.find("siblings") : json.end();
  if (!is_commit(listing.commit) || siblings == json.end() || !siblings->is_array())
    throw CorruptError(format("{} tells no commit and files", url), "check HF_ENDPOINT: it may be no hub");
  if (is_commit(repo.revision) && listing.commit != repo.revision)
    throw CorruptError(format("{} tells of another commit, {}", url, listing.commit), "check HF_ENDPOINT");
  for (const auto& sibling : *siblings) listing.files.push_back(read_sibling(sibling, repo.text()));
  return listing;
}

void ask_of_file(const HttpClient& client, const Repo& repo, const std::string& commit, RemoteFile& file) {
  if (!file.hash.empty()) return;
  Request request{file_address(client, repo, commit, file.name)};
  request.head = request.stay = true;
  const auto response = client.send(request, [](const Response&, std::string_view) {});
  const std::string linked = response.header("x-linked-etag");
  if (response.status / 100 != 3) expect_good(response, client, repo, repo.text() + "/" + file.name);
  file.hash = bare_etag(linked.empty() ? response.header("etag") : linked);
  const std::string size = response.header(linked.empty() ? "content-length" : "x-linked-size");
  if (!is_blob_hash(file.hash) || size.empty() || size.find_first_not_of("0123456789") != size.npos)
    throw CorruptError(format("the hub tells no hash and size of {}/{}", repo.text(), file.name),
                       "what cannot be verified is not fetched; check HF_ENDPOINT");
  file.size = std::strtoull(size.c_str(), nullptr, 10);
}

}  // namespace hyperion::hub
