// Holds an answer to its form behind reasoning: reasoning is free until its end or its budget; what follows
// is free text, JSON, or calls, or free text in which calls obey.
//
//   AnswerCompiler compiler(tokenizer, end_tokens);                 // once per model
//   RAFTER_ASSIGN(request.constraint, compiler.constraint(form));   // per request
//
// An answer that must have a form does not end inside its reasoning: end tokens come where the form is
// complete.
#pragma once

#include <deque>
#include <memory>
#include <string>

#include "decode/answer_form.h"
#include "decode/token_constraint.h"
#include "text/call_grammar.h"
#include "text/compiled_schema.h"
#include "text/tokenizer.h"

namespace rafter::decode {

struct AnswerLanguages;  // what all answers of one form share

class AnswerCompiler {
 public:
  AnswerCompiler(text::Tokenizer tokenizer, std::vector<int32_t> end_tokens)
      : tokenizer_(std::move(tokenizer)), end_tokens_(std::move(end_tokens)) {}

  // Compiling takes longer than a token may: clients send the same few forms again and again, so the last
  // ones are kept. Errors: those of compile_json_schema and compile_calls; unsupported: a tokenizer that
  // cannot be held.
  base::Result<std::shared_ptr<TokenConstraint>> constraint(const AnswerForm& form);

 private:
  base::Result<std::shared_ptr<const AnswerLanguages>> compile(const AnswerForm& form);

  text::Tokenizer tokenizer_;
  std::vector<int32_t> end_tokens_;
  std::string index_format_;  // whose markers the index has
  std::optional<text::TokenIndex> index_;
  std::deque<std::pair<AnswerForm, std::shared_ptr<const AnswerLanguages>>> recent_;
};

}  // namespace rafter::decode
