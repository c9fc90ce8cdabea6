#include "serve/openapi.h"

#include "base/version.h"

namespace rafter::serve {
namespace {

Json schema_ref(const std::string& name) { return {{"$ref", "#/components/schemas/" + name}}; }

Json json_content(Json schema) { return {{"application/json", {{"schema", std::move(schema)}}}}; }

Json error_response_json(const char* description) {
  return {{"description", description}, {"content", json_content(schema_ref("Error"))}};
}

bool is_anthropic(const Route& route) { return std::string_view(route.path).starts_with("/v1/messages"); }
bool is_ollama(const Route& route) { return std::string_view(route.path).starts_with("/api/"); }

Json operation(const Route& route) {
  Json content =
      json_content(route.response != nullptr ? schema_ref(route.response) : Json{{"type", "object"}});
  if (route.streams)
    content[is_ollama(route) ? "application/x-ndjson" : "text/event-stream"] = {
        {"schema", {{"type", "string"}}}};
  if (std::string_view(route.path) == "/metrics")
    content = {{"text/plain", {{"schema", {{"type", "string"}}}}}};
  Json responses = {{"200", {{"description", "The answer."}, {"content", std::move(content)}}}};
  if (route.needs_key) responses["401"] = error_response_json("A key is asked for, and this is none.");
  if (route.request != nullptr) {
    responses["400"] = error_response_json("The request is wrong, or does not fit the context.");
    responses["413"] = error_response_json("The body is too large.");
    responses["415"] = error_response_json("The body is no JSON.");
  }
  if (route.request != nullptr || std::string_view(route.path).ends_with("{id}"))
    responses["404"] = error_response_json("There is no such thing.");
  if (route.streams) responses["429"] = error_response_json("Too many requests wait: try again.");
  if (route.request != nullptr || std::string_view(route.path) == "/ready")
    responses["503"] = error_response_json("The model does not serve now: try again.");
  Json result = {{"summary", route.summary}, {"responses", std::move(responses)}};
  if (route.request != nullptr)
    result["requestBody"] = {{"required", true}, {"content", json_content(schema_ref(route.request))}};
  if (std::string_view(route.path).ends_with("{id}"))
    result["parameters"] = Json::array({{{"name", "id"},
                                         {"in", "path"},
                                         {"required", true},
                                         {"schema", {{"type", "string"}, {"minLength", 1}}}}});
  if (!route.needs_key) result["security"] = Json::array();
  if (is_anthropic(route) || is_ollama(route))
    result["tags"] = Json::array({is_ollama(route) ? "ollama" : "anthropic"});
  return result;
}

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
  return text;
}

}  // namespace

Json openapi_json(std::span<const Route> routes) {
  Json paths = Json::object();
  for (const Route& route : routes) paths[route.path][lower(route.method)] = operation(route);
  return {{"openapi", "3.1.0"},
          {"info", {{"title", "rafter"}, {"version", base::version()}, {"description", "A local model."}}},
          {"paths", std::move(paths)},
          {"security", Json::array({Json::object(), {{"bearer", Json::array()}}, {{"key", Json::array()}}})},
          {"components",
           {{"schemas", openapi_schemas()},
            {"securitySchemes",
             {{"bearer", {{"type", "http"}, {"scheme", "bearer"}}},
              {"key", {{"type", "apiKey"}, {"in", "header"}, {"name", "x-api-key"}}}}}}}};
}

}  // namespace rafter::serve
