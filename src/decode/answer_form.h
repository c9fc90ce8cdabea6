// The form that a request wants its answer in, as it travels from whoever reads requests to whoever samples.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace rafter::decode {

struct CallForm {
  std::string tools_json;     // the functions that may be called (text/call_grammar.h)
  bool are_required = false;  // the answer is calls; else calls obey wherever the answer begins one
  bool several = true;
  bool older = false;
  bool operator==(const CallForm&) const = default;
};

struct AnswerForm {
  using Calls = CallForm;
  // How the model marks calls and reasoning, by name (text/output_parser.h).
  std::string family = "none", reasoning = "none";
  // The answer, reasoning aside, is JSON that obeys this, or what `calls` says. Neither: it is free.
  std::optional<std::string> json_schema;
  std::optional<Calls> calls;

  bool begins_in_reasoning = false;
  bool may_reason = true;  // it may begin with reasoning that the prompt did not begin
  // After so many tokens of reasoning these come: what ends it.
  std::optional<int64_t> reasoning_budget;
  std::vector<int32_t> reasoning_end;

  bool operator==(const AnswerForm&) const = default;
};

}  // namespace rafter::decode
