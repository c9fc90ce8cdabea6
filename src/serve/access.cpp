#include "serve/access.h"

#include <algorithm>

namespace rafter::serve {
namespace {

// "localhost:8080" → "localhost", "[::1]:8080" → "::1". Empty for what is no host with or without a port,
// such as several Host headers, or a user's name in front: only a part of it might look like this machine.
std::string_view without_port(std::string_view host) {
  const bool is_bracketed = host.starts_with('[');
  const std::string_view part_of_name =
      is_bracketed ? "0123456789abcdefABCDEF:."
                   : "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-_";
  if (is_bracketed) host.remove_prefix(1);
  const size_t end = std::min(host.find_first_not_of(part_of_name), host.size());
  const std::string_view name = host.substr(0, end);
  std::string_view rest = host.substr(end);
  if (is_bracketed && !rest.starts_with(']')) return "";
  if (is_bracketed) rest.remove_prefix(1);
  const bool is_port = rest.starts_with(':') && rest.find_first_not_of("0123456789", 1) == rest.npos;
  return rest.empty() || is_port ? name : "";
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
  return out;
}

// The time depends on the length of what was sent alone.
bool equal_in_constant_time(std::string_view given, std::string_view key) {
  unsigned difference = given.size() == key.size() ? 0 : 1;
  for (size_t i = 0; i < given.size(); ++i)
    difference |= static_cast<unsigned char>(given[i]) ^
                  static_cast<unsigned char>(key[key.empty() ? 0 : i % key.size()]);
  return difference == 0;
}

}  // namespace

bool is_loopback(std::string_view host) {
  const std::string name = lower(host);
  return name == "localhost" || name == "::1" || name.ends_with(".localhost") ||
         (name.starts_with("127.") && name.find_first_not_of("0123456789.") == std::string::npos);
}

base::Status check_exposure(const AccessOptions& options) {
  for (const std::string& key : options.keys) {
    if (key.empty())
      return base::Error{base::ErrorCode::invalid_argument, "a key must not be empty", "--api-key", ""};
  }
  for (const std::string& origin : options.allowed_origins) {
    const size_t scheme = origin.find("://");
    const bool is_origin = scheme != std::string::npos && scheme > 0 && scheme + 3 < origin.size() &&
                           origin.find('/', scheme + 3) == std::string::npos;
    if (origin == "*" || is_origin) continue;
    return base::Error{base::ErrorCode::invalid_argument, fmt::format("\"{}\" is no origin", origin),
                       "--allowed-origins", "it is a scheme and a host: https://a.example"};
  }
  if (is_loopback(options.host) || !options.keys.empty() || options.no_auth) return {};
  return base::Error{base::ErrorCode::invalid_argument, "others could use the server without a key",
                     "--host " + options.host, "give an --api-key, or --no-auth if that is what you want"};
}

bool Access::host_allowed(std::string_view host_header) const {
  if (!is_loopback(options_.host) || host_header.empty()) return true;
  return is_loopback(without_port(host_header));
}

bool Access::origin_allowed(std::string_view origin, std::string_view host_header) const {
  if (origin.empty()) return true;
  for (const std::string& allowed : options_.allowed_origins) {
    if (allowed == "*" || lower(allowed) == lower(origin)) return true;
  }
  const size_t scheme = origin.find("://");
  if (scheme == std::string_view::npos) return false;  // "null": a file, a sandbox
  const std::string_view host = origin.substr(scheme + 3);
  if (!host_header.empty() && lower(host) == lower(host_header)) return true;
  return is_loopback(without_port(host));
}

bool Access::key_allowed(std::string_view authorization, std::string_view api_key) const {
  if (options_.keys.empty()) return true;
  constexpr std::string_view kBearer = "bearer ";
  std::string_view given = api_key;
  if (lower(authorization.substr(0, kBearer.size())) == kBearer) given = authorization.substr(kBearer.size());
  bool found = false;
  for (const std::string& key : options_.keys) found |= equal_in_constant_time(given, key);
  return found;
}

}  // namespace rafter::serve
