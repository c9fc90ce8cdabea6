// What requests and answers look like, for those who generate clients and tests from it. Fields that are not
// listed are ignored.
#include "serve/openapi.h"

namespace rafter::serve {
namespace {

// Written as JSON: shorter to read than code that makes it.
constexpr const char* kSchemas = R"json({
"Error": {"type": "object"},
"Health": {"type": "object", "required": ["status", "state"], "properties": {
  "status": {"const": "ok"}, "state": {"enum": ["loading", "ready", "restarting", "failed"]}}},
"Ready": {"type": "object", "required": ["state"], "properties": {"state": {"type": "string"}, "reason": {"type": "string"}}},
"Fit": {"type": "object", "required": ["fits", "total_bytes"], "properties": {
  "fits": {"type": "boolean"}, "ctx": {"type": "integer"}, "weights_bytes": {"type": "integer"}, "kv_bytes": {"type": "integer"},
  "scratch_bytes": {"type": "integer"}, "total_bytes": {"type": "integer"}, "memory_bytes": {"type": "integer"},
  "max_context": {"type": "integer"}, "predicted_decode_tps": {"type": "number"}}},
"Model": {"type": "object", "required": ["id", "object", "created", "owned_by"], "properties": {
  "id": {"type": "string"}, "object": {"const": "model"}, "created": {"type": "integer"}, "owned_by": {"type": "string"},
  "context_window": {"type": "integer"}, "capabilities": {"type": "array", "items": {"type": "string"}}}},
"ModelList": {"type": "object", "required": ["object", "data"], "properties": {
  "object": {"const": "list"}, "data": {"type": "array", "items": {"$ref": "#/components/schemas/Model"}}}},
"TextPart": {"type": "object", "required": ["type", "text"], "properties": {
  "type": {"enum": ["text", "input_text", "output_text"]}, "text": {"type": "string"}}},
"Content": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"$ref": "#/components/schemas/TextPart"}}]},
"Tool": {"type": "object", "required": ["type", "function"], "properties": {
  "type": {"const": "function"},
  "function": {"type": "object", "required": ["name"], "properties": {
    "name": {"type": "string", "minLength": 1}, "description": {"type": "string"}, "parameters": {"type": "object"}}}}},
"ChatMessage": {"type": "object", "required": ["role", "content"], "properties": {
  "role": {"enum": ["system", "developer", "user", "assistant", "tool"]},
  "content": {"$ref": "#/components/schemas/Content"},
  "reasoning_content": {"type": "string"}, "tool_call_id": {"type": "string"}}},
"Sampling": {"type": "object", "properties": {
  "model": {"type": "string"}, "stream": {"type": "boolean"},
  "temperature": {"type": "number", "minimum": 0, "maximum": 1000000}, "top_p": {"type": "number", "minimum": 0, "maximum": 1},
  "top_k": {"type": "integer", "minimum": -1, "maximum": 2147483647}, "min_p": {"type": "number", "minimum": 0, "maximum": 1},
  "seed": {"type": "integer"},
  "repetition_penalty": {"type": "number", "minimum": 0, "maximum": 1000000},
  "presence_penalty": {"type": "number", "minimum": -1000000, "maximum": 1000000},
  "frequency_penalty": {"type": "number", "minimum": -1000000, "maximum": 1000000},
  "max_tokens": {"type": "integer", "minimum": 1, "maximum": 1073741824}}},
"Stop": {"anyOf": [{"type": "string", "maxLength": 1000}, {"type": "array", "maxItems": 64, "items": {"type": "string", "maxLength": 1000}}]},
"ChatRequest": {"allOf": [{"$ref": "#/components/schemas/Sampling"}, {"type": "object", "required": ["messages"], "properties": {
  "messages": {"type": "array", "minItems": 1, "items": {"$ref": "#/components/schemas/ChatMessage"}},
  "max_completion_tokens": {"type": "integer", "minimum": 1, "maximum": 1073741824},
  "n": {"const": 1}, "stop": {"$ref": "#/components/schemas/Stop"},
  "logprobs": {"type": "boolean"}, "top_logprobs": {"type": "integer", "minimum": 0, "maximum": 20},
  "logit_bias": {"type": "object", "additionalProperties": {"type": "number", "minimum": -100, "maximum": 100}},
  "stream_options": {"type": "object", "properties": {"include_usage": {"type": "boolean"}}},
  "tools": {"type": "array", "items": {"$ref": "#/components/schemas/Tool"}},
  "tool_choice": {"anyOf": [{"enum": ["none", "auto", "required"]}, {"type": "object", "required": ["type", "function"],
    "properties": {"type": {"const": "function"}, "function": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}}}]},
  "parallel_tool_calls": {"type": "boolean"},
  "response_format": {"type": "object", "required": ["type"], "properties": {"type": {"enum": ["text", "json_object", "json_schema"]},
    "json_schema": {"type": "object", "properties": {"name": {"type": "string"}, "schema": {"type": "object"}, "strict": {"type": "boolean"}}}}},
  "reasoning_effort": {"enum": ["none", "minimal", "low", "medium", "high"]},
  "chat_template_kwargs": {"type": "object"}}}]},
"Usage": {"type": "object", "required": ["prompt_tokens", "completion_tokens", "total_tokens"], "properties": {
  "prompt_tokens": {"type": "integer"}, "completion_tokens": {"type": "integer"}, "total_tokens": {"type": "integer"}}},
"ChatCompletion": {"type": "object", "required": ["id", "object", "created", "model", "choices", "usage"], "properties": {
  "id": {"type": "string"}, "object": {"const": "chat.completion"}, "created": {"type": "integer"}, "model": {"type": "string"},
  "choices": {"type": "array", "items": {"type": "object", "required": ["index", "message", "finish_reason"], "properties": {
    "index": {"type": "integer"}, "finish_reason": {"enum": ["stop", "length", "tool_calls"]}, "message": {"type": "object"}}}},
  "usage": {"$ref": "#/components/schemas/Usage"}}},
"CompletionRequest": {"allOf": [{"$ref": "#/components/schemas/Sampling"}, {"type": "object", "required": ["prompt"], "properties": {
  "prompt": {"anyOf": [{"type": "string", "minLength": 1}, {"type": "array", "minItems": 1, "items": {"type": "integer", "minimum": 0}}]},
  "suffix": {"type": "string"}, "echo": {"type": "boolean"}, "n": {"const": 1}, "best_of": {"const": 1},
  "logprobs": {"type": "integer", "minimum": 0, "maximum": 20}, "stop": {"$ref": "#/components/schemas/Stop"}}}]},
"Completion": {"type": "object", "required": ["id", "object", "created", "model", "choices", "usage"], "properties": {
  "object": {"const": "text_completion"}, "choices": {"type": "array"}, "usage": {"$ref": "#/components/schemas/Usage"}}},
"MessagesMessage": {"type": "object", "required": ["role", "content"], "properties": {
  "role": {"enum": ["user", "assistant"]},
  "content": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "object", "required": ["type", "text"],
    "properties": {"type": {"const": "text"}, "text": {"type": "string"}}}}]}}},
"CountRequest": {"type": "object", "required": ["messages"], "properties": {
  "model": {"type": "string"}, "system": {"$ref": "#/components/schemas/Content"},
  "messages": {"type": "array", "minItems": 1, "items": {"$ref": "#/components/schemas/MessagesMessage"}},
  "tools": {"type": "array", "items": {"type": "object", "required": ["name", "input_schema"], "properties": {
    "name": {"type": "string", "minLength": 1}, "description": {"type": "string"}, "input_schema": {"type": "object"}}}}}},
"MessagesRequest": {"allOf": [{"$ref": "#/components/schemas/CountRequest"}, {"type": "object", "required": ["max_tokens"], "properties": {
  "max_tokens": {"type": "integer", "minimum": 1, "maximum": 1073741824}, "stream": {"type": "boolean"},
  "temperature": {"type": "number", "minimum": 0, "maximum": 1000000}, "top_p": {"type": "number", "minimum": 0, "maximum": 1},
  "top_k": {"type": "integer", "minimum": -1, "maximum": 2147483647},
  "stop_sequences": {"type": "array", "maxItems": 64, "items": {"type": "string", "maxLength": 1000}},
  "tool_choice": {"type": "object", "required": ["type"], "properties": {"type": {"enum": ["auto", "any", "tool", "none"]}, "name": {"type": "string"}}},
  "thinking": {"type": "object", "required": ["type"], "properties": {"type": {"enum": ["enabled", "disabled", "adaptive"]}, "budget_tokens": {"type": "integer"}}}}}]},
"Message": {"type": "object", "required": ["id", "type", "role", "model", "content", "stop_reason", "usage"], "properties": {
  "type": {"const": "message"}, "role": {"const": "assistant"}, "content": {"type": "array"},
  "stop_reason": {"enum": ["end_turn", "max_tokens", "stop_sequence", "tool_use"]}}},
"TokenCount": {"type": "object", "required": ["input_tokens"], "properties": {"input_tokens": {"type": "integer"}}},
"ResponsesRequest": {"type": "object", "required": ["input"], "properties": {
  "model": {"type": "string"}, "stream": {"type": "boolean"}, "store": {"type": "boolean"},
  "input": {"anyOf": [{"type": "string"}, {"type": "array", "minItems": 1, "items": {"type": "object", "required": ["role", "content"], "properties": {
    "type": {"const": "message"}, "role": {"enum": ["user", "assistant", "system", "developer"]}, "content": {"$ref": "#/components/schemas/Content"}}}}]},
  "instructions": {"type": "string"}, "max_output_tokens": {"type": "integer", "minimum": 1, "maximum": 1073741824},
  "temperature": {"type": "number", "minimum": 0, "maximum": 1000000}, "top_p": {"type": "number", "minimum": 0, "maximum": 1},
  "previous_response_id": {"type": "string"}, "parallel_tool_calls": {"type": "boolean"},
  "reasoning": {"type": "object", "properties": {"effort": {"enum": ["none", "minimal", "low", "medium", "high"]}}},
  "tools": {"type": "array", "items": {"type": "object", "required": ["type", "name"], "properties": {
    "type": {"const": "function"}, "name": {"type": "string", "minLength": 1}, "parameters": {"type": "object"}}}},
  "metadata": {"type": "object"}}},
"Response": {"type": "object", "required": ["id", "object", "status", "output"], "properties": {
  "object": {"const": "response"}, "status": {"enum": ["completed", "incomplete", "in_progress"]}, "output": {"type": "array"}}},
"EmbeddingsRequest": {"type": "object", "required": ["input"], "properties": {
  "model": {"type": "string"}, "encoding_format": {"enum": ["float", "base64"]}, "instruction": {"type": "string"},
  "input": {"anyOf": [{"type": "string", "minLength": 1}, {"type": "array", "minItems": 1, "maxItems": 2048, "items": {"type": "string", "minLength": 1}}]}}},
"Embeddings": {"type": "object", "required": ["object", "data", "model", "usage"], "properties": {"object": {"const": "list"}, "data": {"type": "array"}}},
"OllamaOptions": {"type": "object", "properties": {
  "temperature": {"type": "number", "minimum": 0, "maximum": 1000000}, "top_p": {"type": "number", "minimum": 0, "maximum": 1},
  "num_predict": {"type": "integer", "minimum": -2, "maximum": 1073741824}, "seed": {"type": "integer"}, "stop": {"$ref": "#/components/schemas/Stop"}}},
"OllamaChatRequest": {"type": "object", "required": ["messages"], "properties": {
  "model": {"type": "string"}, "stream": {"type": "boolean"}, "options": {"$ref": "#/components/schemas/OllamaOptions"},
  "messages": {"type": "array", "minItems": 1, "items": {"type": "object", "required": ["role", "content"], "properties": {
    "role": {"enum": ["system", "user", "assistant", "tool"]}, "content": {"type": "string"}, "thinking": {"type": "string"}}}},
  "think": {"type": "boolean"}, "format": {"enum": ["json"]}, "tools": {"type": "array", "items": {"$ref": "#/components/schemas/Tool"}}}},
"OllamaGenerateRequest": {"type": "object", "properties": {
  "model": {"type": "string"}, "prompt": {"type": "string"}, "system": {"type": "string"}, "suffix": {"type": "string"}, "raw": {"type": "boolean"},
  "stream": {"type": "boolean"}, "options": {"$ref": "#/components/schemas/OllamaOptions"}, "think": {"type": "boolean"}, "format": {"enum": ["json"]}}},
"OllamaShowRequest": {"type": "object", "properties": {"model": {"type": "string"}}},
"LlamaCompletionRequest": {"type": "object", "required": ["prompt"], "properties": {
  "prompt": {"anyOf": [{"type": "string", "minLength": 1}, {"type": "array", "minItems": 1, "items": {"type": "integer", "minimum": 0}}]},
  "n_predict": {"type": "integer", "minimum": -2, "maximum": 1073741824}, "stream": {"type": "boolean"},
  "temperature": {"type": "number", "minimum": 0, "maximum": 1000000}, "seed": {"type": "integer"}, "stop": {"$ref": "#/components/schemas/Stop"}, "n_probs": {"type": "integer", "minimum": 0, "maximum": 20}}},
"LlamaInfillRequest": {"type": "object", "properties": {
  "input_prefix": {"type": "string"}, "input_suffix": {"type": "string"}, "prompt": {"type": "string"},
  "input_extra": {"type": "array", "items": {"type": "object", "properties": {"filename": {"type": "string"}, "text": {"type": "string"}}}},
  "n_predict": {"type": "integer", "minimum": -2, "maximum": 1073741824}, "stream": {"type": "boolean"}}},
"LlamaCompletion": {"type": "object", "required": ["content", "stop"], "properties": {"content": {"type": "string"}, "stop": {"type": "boolean"}}},
"TokenizeRequest": {"type": "object", "required": ["content"], "properties": {
  "content": {"type": "string"}, "add_special": {"type": "boolean"}, "parse_special": {"type": "boolean"}, "with_pieces": {"type": "boolean"}}},
"Tokens": {"type": "object", "required": ["tokens"], "properties": {"tokens": {"type": "array"}}},
"DetokenizeRequest": {"type": "object", "required": ["tokens"], "properties": {"tokens": {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 2147483647}}}},
"Text": {"type": "object", "required": ["content"], "properties": {"content": {"type": "string"}}}
})json";

}  // namespace

Json openapi_schemas() { return Json::parse(kSchemas); }

}  // namespace rafter::serve
