// A conversation as templates take it, whatever the protocol wrote.
#pragma once

#include "serve/proto/json.h"

namespace rafter::serve {

// OpenAI's `messages`, each step of which is testable alone:
//  - `developer` becomes `system`;
//  - content parts that are all text become one string; null becomes an empty string;
//  - the arguments of calls become objects; a tool message gets the name of the function it answers;
//  - `reasoning` and `reasoning_content` are one thing: templates read the latter;
//  - a changing header in front of the system prompt, which coding agents send, is left out
//    (strip_volatile_headers).
// Errors (invalid_argument) name the message's index: "messages required", images, a role that is missing.
base::Result<Json> normalise_messages(const Json* messages);

// The text of a content: a string, null, or an array of text parts, which are joined by `separator`.
// Errors: other kinds of parts.
base::Result<std::string> content_text(const Json& content, const std::string& where,
                                       const char* separator = "");

// Without the lines at its start that differ from request to request and mean nothing to a model
// ("x-anthropic-billing-header: …"): with them no two prompts would share a prefix.
std::string_view strip_volatile_headers(std::string_view system);

// {"name", "description"?, "parameters", "strict"?} with a type in every schema node: some templates print it
// unconditionally. Inferred from enum and const, properties, items, anyOf; else string.
base::Result<Json> clean_function(const Json& function);

}  // namespace rafter::serve
