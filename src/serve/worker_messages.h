// What the front process and its worker say to each other, as JSON objects with a "type":
//
//   to the worker     submit {id, request} · cancel {id} · embed {id, tokens}
//   from the worker   ready {facts} · failed {error} · broken {error} · stats {steps, stats} · events {steps,
//                     events}, where an event is progress, token, finish, embedding or refused, each with its
//                     request's id
//
// `steps` counts what the worker got done, also within a step: while requests are under way and it stands
// still, the worker is stuck. A worker that says `failed` could not open its model; one that says `broken`
// served it and cannot any more, and another one may be able to.
#pragma once

#include <nlohmann/json.hpp>

#include "serve/model_service.h"

namespace rafter::serve {

nlohmann::json json_of_request(const CompletionRequest& request);
nlohmann::json json_of_error(const base::Error& error);
nlohmann::json json_of_facts(const ModelFacts& facts);
nlohmann::json json_of_stats(const ServiceStats& stats);
nlohmann::json json_of_token(uint64_t id, const decode::TokenEvent& event);
// Without text and tokens: the token events had them.
nlohmann::json json_of_result(uint64_t id, const decode::GenerationResult& result);

// Errors (invalid_data): a field that is missing or of another type.
base::Result<CompletionRequest> read_request(const nlohmann::json& json);
base::Result<ModelFacts> read_facts(const nlohmann::json& json);
base::Result<ServiceStats> read_stats(const nlohmann::json& json);
base::Result<decode::TokenEvent> read_token(const nlohmann::json& json);
base::Result<decode::GenerationResult> read_result(const nlohmann::json& json);
base::Result<CompletionProgress> read_progress(const nlohmann::json& json);

// Whatever of it there is; an unknown code is internal.
base::Error read_error(const nlohmann::json& json);

// A whole number, absent or not one: the fallback.
uint64_t whole_number(const nlohmann::json& json, const char* key, uint64_t fallback = 0);
// "" if it is absent or no text.
std::string text_of(const nlohmann::json& json, const char* key);

}  // namespace rafter::serve
