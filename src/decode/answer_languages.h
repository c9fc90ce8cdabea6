// What answers of one form share: the compiled languages, the texts at which one part of an answer gives way
// to another, and which tokens write over such a place. For decode/answer_*.cpp only.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/call_grammar.h"
#include "text/compiled_schema.h"
#include "text/tokenizer.h"

namespace rafter::decode {

// A text that free text is watched for.
struct Trigger {
  enum class Leads { to_reasoning, out_of_reasoning, to_calls };
  Trigger(std::string what, Leads where, bool begins, const text::Tokenizer& tokenizer);

  std::string text;
  Leads leads;
  bool at_start;  // only as the first visible text, and the text is read again by what follows
  // Tokens that write something behind the text: [0]: that hold all of it; [k]: that begin with all of it but
  // the first k bytes.
  std::vector<std::vector<int32_t>> crossing;
};

struct AnswerLanguages {
  explicit AnswerLanguages(text::Tokenizer value) : tokenizer(std::move(value)) {}

  // What a token adds to the text that the parser reads.
  std::string_view text_of(int32_t token) const;
  // What the answer must be, reasoning aside: one of these; empty: free text.
  std::vector<std::shared_ptr<const text::CompiledSchema>> whole;
  std::shared_ptr<const text::CompiledSchema> reasoning_opener;  // in place of them at first; null: none
  std::shared_ptr<const text::CompiledSchema> calls;             // behind an opener; null: calls are free too
  std::vector<Trigger> of_text, of_reasoning;

  text::Tokenizer tokenizer;
  std::map<int32_t, std::string> markers;  // special tokens that come out as text
  std::vector<int32_t> end_tokens;
};

}  // namespace rafter::decode
