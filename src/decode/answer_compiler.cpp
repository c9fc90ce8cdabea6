#include <algorithm>

#include "decode/answer_constraint.h"
#include "decode/answer_held.h"
#include "decode/answer_languages.h"

namespace rafter::decode {
namespace {

using text::CompiledSchema;

// Exactly this text, in the grammar's bytes.
std::shared_ptr<const CompiledSchema> just(const std::string& bytes, const text::TokenIndex& index) {
  text::ByteGrammar grammar;
  const int32_t start = grammar.add_state();
  grammar.set_final(grammar.add_text(start, bytes));
  return std::make_shared<CompiledSchema>(std::move(grammar), start, index);
}

}  // namespace

Trigger::Trigger(std::string what, Leads where, bool begins, const text::Tokenizer& tokenizer)
    : text(std::move(what)), leads(where), at_start(begins), crossing(text.size()) {
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    const std::string_view bytes = tokenizer.token_bytes(id);
    const size_t found = bytes.find(text);
    if (found != bytes.npos && (found + text.size() < bytes.size() || at_start)) crossing[0].push_back(id);
    for (size_t k = 1; k < text.size(); ++k) {
      const std::string_view rest = std::string_view(text).substr(k);
      if (bytes.size() > rest.size() && bytes.starts_with(rest)) crossing[k].push_back(id);
    }
  }
}

std::string_view AnswerLanguages::text_of(int32_t token) const {
  if (const auto marker = markers.find(token); marker != markers.end()) return marker->second;
  return tokenizer.is_special(token) ? std::string_view() : tokenizer.token_bytes(token);
}

base::Result<std::shared_ptr<const AnswerLanguages>> AnswerCompiler::compile(const AnswerForm& form) {
  RAFTER_ASSIGN(const text::OutputFormat format, text::choose_output_format("", form.family, form.reasoning));
  const std::vector<std::string> kept = text::kept_markers(format);
  auto languages = std::make_shared<AnswerLanguages>(tokenizer_);
  languages->end_tokens = end_tokens_;
  for (const std::string& marker : kept) {
    const auto id = tokenizer_.token_id(marker);
    if (id && tokenizer_.is_special(*id)) languages->markers[*id] = marker;
  }
  const std::string open(text::reasoning_open(format)), close(text::reasoning_close(format));
  if (!open.empty()) {
    languages->of_text.emplace_back(open, Trigger::Leads::to_reasoning, false, tokenizer_);
    languages->of_reasoning.emplace_back(close, Trigger::Leads::out_of_reasoning, false, tokenizer_);
  }
  if (!form.json_schema && !form.calls) return std::shared_ptr<const AnswerLanguages>(std::move(languages));

  const std::string name = form.family + " " + form.reasoning;
  if (!index_ || index_format_ != name) {
    RAFTER_ASSIGN(index_, text::TokenIndex::from(tokenizer_, end_tokens_, kept));
    index_format_ = name;
  }
  if (form.json_schema) {
    const bool is_any = *form.json_schema == "{}";
    RAFTER_ASSIGN(auto json,
                  text::compile_json_schema(is_any ? text::kAnyJsonObject : *form.json_schema, *index_));
    languages->whole.push_back(std::move(json));
  }
  if (form.calls) {
    text::CallLanguage language{
        .tools_json = form.calls->tools_json, .several = form.calls->several, .older = form.calls->older};
    // Where the answer is held anyway, calls are one thing that it may be.
    language.behind_opener = !form.calls->are_required && !form.json_schema;
    RAFTER_ASSIGN(auto calls, text::compile_calls(format, language, *index_));
    if (!language.behind_opener) {
      languages->whole.push_back(std::move(calls));
    } else {
      languages->calls = std::move(calls);
      for (const text::CallOpener& opener : text::call_openers(format))
        languages->of_text.emplace_back(opener.text, Trigger::Leads::to_calls, opener.at_start, tokenizer_);
    }
  }
  if (!languages->whole.empty() && !open.empty())
    languages->reasoning_opener = just(index_->marked(open), *index_);
  return std::shared_ptr<const AnswerLanguages>(std::move(languages));
}

base::Result<std::shared_ptr<TokenConstraint>> AnswerCompiler::constraint(const AnswerForm& form) {
  constexpr size_t kKept = 32;
  AnswerForm key;  // what is compiled, whatever the prompt and its budget are
  key.family = form.family;
  key.reasoning = form.reasoning;
  key.json_schema = form.json_schema;
  key.calls = form.calls;
  auto found =
      std::find_if(recent_.begin(), recent_.end(), [&](const auto& known) { return known.first == key; });
  std::shared_ptr<const AnswerLanguages> languages;
  if (found == recent_.end()) {
    RAFTER_ASSIGN(languages, compile(form));
    if (recent_.size() == kKept) recent_.pop_back();
  } else {
    languages = found->second;
    recent_.erase(found);
  }
  recent_.emplace_front(std::move(key), languages);
  return held_to(std::move(languages), form);
}

}  // namespace rafter::decode
