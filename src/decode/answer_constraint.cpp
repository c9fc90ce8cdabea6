#include "decode/answer_constraint.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "base/utf8.h"
#include "decode/answer_held.h"
#include "decode/answer_languages.h"

namespace rafter::decode {
namespace {

using Leads = Trigger::Leads;
using text::CompiledSchema;
using text::SchemaState;

constexpr float kForbidden = -std::numeric_limits<float>::infinity();
constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

// A language that the answer is in the middle of.
struct Held {
  std::shared_ptr<const CompiledSchema> language;
  SchemaState state;
  enum class Then { end, text, reasoning } then;  // where its end leads
};

bool is_cut_in_character(std::string_view text) {
  for (size_t back = 1; back <= std::min<size_t>(3, text.size()); ++back) {
    const auto byte = static_cast<uint8_t>(text[text.size() - back]);
    if (byte < 0x80) return false;
    if (byte >= 0xC0) return back < (byte >= 0xF0 ? 4u : byte >= 0xE0 ? 3u : 2u);
  }
  return false;
}

class AnswerConstraint : public TokenConstraint {
 public:
  AnswerConstraint(std::shared_ptr<const AnswerLanguages> languages, const AnswerForm& form)
      : languages_(std::move(languages)),
        budget_(languages_->of_reasoning.empty() || form.reasoning_end.empty()
                    ? kUnlimited
                    : form.reasoning_budget.value_or(kUnlimited)),
        reasoning_end_(form.reasoning_end),
        is_reasoning_(form.begins_in_reasoning && !languages_->of_reasoning.empty()) {
    if (is_reasoning_) return;
    begin_body();
    if (!held_.empty() && form.may_reason && languages_->reasoning_opener != nullptr) {
      const auto& opener = languages_->reasoning_opener;
      held_.push_back({opener, opener->start(), Held::Then::reasoning});
    }
  }

  void mask(std::span<float> logits) override {
    RAFTER_CHECK(!ended_, "the answer has ended");
    if (is_forcing()) return leave_one(logits, reasoning_end_[forced_]);
    if (!held_.empty()) return mask_held(logits);
    if (is_reasoning_ && !languages_->whole.empty()) {
      for (const int32_t id : languages_->end_tokens) forbid(logits, id);
    }
    mask_crossing(logits);
  }

  bool accept(int32_t token) override {
    if (ended_) return false;
    if (is_forcing() && token != reasoning_end_[forced_]) return false;
    const auto& ends = languages_->end_tokens;
    if (std::find(ends.begin(), ends.end(), token) != ends.end()) return accept_end();
    const bool was_reasoning = is_reasoning_, was_forcing = is_forcing();
    if (!held_.empty()) {
      if (!advance_held([&](Held& held) { return held.language->advance(held.state, token); })) return false;
    } else {
      AnswerConstraint after = *this;
      if (!after.read(languages_->text_of(token))) return false;
      *this = std::move(after);
    }
    if (was_forcing) {
      forced_ = forced_ + 1 == reasoning_end_.size() ? 0 : forced_ + 1;
    } else if (was_reasoning) {
      ++reasoned_;
    }
    return true;
  }

  bool is_complete() const override {
    if (held_.empty()) return !is_reasoning_ || languages_->whole.empty();
    return std::any_of(held_.begin(), held_.end(), [](const Held& held) {
      return held.then != Held::Then::reasoning && held.language->is_complete(held.state);
    });
  }
  bool must_end() const override { return ended_; }
  std::unique_ptr<TokenConstraint> fork() const override { return std::make_unique<AnswerConstraint>(*this); }

 private:
  static void forbid(std::span<float> logits, int32_t id) {
    if (id >= 0 && static_cast<size_t>(id) < logits.size()) logits[static_cast<size_t>(id)] = kForbidden;
  }
  static void leave_one(std::span<float> logits, int32_t id) {
    for (size_t i = 0; i < logits.size(); ++i) {
      if (static_cast<int32_t>(i) != id) logits[i] = kForbidden;
    }
  }

  // Whether the next token is one of those that end reasoning. They are not begun in the middle of a
  // character.
  bool is_forcing() const {
    return forced_ > 0 || (is_reasoning_ && reasoned_ >= budget_ && !is_cut_in_character(tail_));
  }

  bool accept_end() {
    if (!is_complete()) return false;
    ended_ = true;
    return true;
  }

  // The union of what all languages take. Those behind the first take little: their tokens are put back.
  void mask_held(std::span<float> logits) {
    std::vector<std::pair<int32_t, float>> others;
    for (size_t i = 1; i < held_.size(); ++i) {
      for (const int32_t id : held_[i].language->mask(held_[i].state)->allowed_ids()) {
        if (static_cast<size_t>(id) < logits.size()) others.emplace_back(id, logits[static_cast<size_t>(id)]);
      }
    }
    held_[0].language->mask(held_[0].state)->apply(logits);
    for (const auto& [id, logit] : others) logits[static_cast<size_t>(id)] = logit;
  }

  // Tokens that end one part and go on with what the next does not take.
  void mask_crossing(std::span<float> logits) {
    for (const Trigger& trigger : is_reasoning_ ? languages_->of_reasoning : languages_->of_text) {
      const bool leads_to_held = trigger.leads == Leads::out_of_reasoning ? !languages_->whole.empty()
                                                                          : trigger.leads == Leads::to_calls;
      if (!leads_to_held || (trigger.at_start && has_text_)) continue;
      for (size_t k = 0; k < trigger.crossing.size(); ++k) {
        if (k > 0 && !std::string_view(tail_).ends_with(std::string_view(trigger.text).substr(0, k)))
          continue;
        for (const int32_t id : trigger.crossing[k]) {
          AnswerConstraint after = *this;
          if (!after.read(languages_->text_of(id))) forbid(logits, id);
        }
      }
    }
  }

  void begin_body() {
    is_reasoning_ = false;
    tail_.clear();
    for (const auto& language : languages_->whole)
      held_.push_back({language, language->start(), Held::Then::end});
  }
  void begin_reasoning() {
    held_.clear();
    tail_.clear();
    is_reasoning_ = true;
  }

  // Goes on in those languages that take what `advance` reads; false if none does.
  template <typename Advance>
  bool advance_held(const Advance& advance) {
    std::vector<Held> alive;
    for (Held held : held_) {
      if (advance(held)) alive.push_back(std::move(held));
    }
    if (alive.empty()) return false;
    held_ = std::move(alive);
    for (const Held& held : held_) {
      if (held.language->can_continue(held.state)) continue;
      if (held.then == Held::Then::reasoning) {
        begin_reasoning();
      } else if (held.then == Held::Then::text) {
        held_.clear();
        tail_.clear();
      } else if (held_.size() == 1) {
        ended_ = true;
      }
      break;
    }
    return true;
  }

  // Text of a part that is free, up to where another begins, and what follows there.
  bool read(std::string_view bytes) {
    while (!bytes.empty()) {
      if (!held_.empty())
        return advance_held([&](Held& held) { return held.language->advance_bytes(held.state, bytes); });
      const Trigger* const trigger = find_trigger(bytes);
      if (trigger == nullptr) return true;
      if (trigger->leads == Leads::out_of_reasoning) {
        begin_body();
      } else if (trigger->leads == Leads::to_reasoning) {
        begin_reasoning();
      } else {
        held_.push_back({languages_->calls, languages_->calls->start(), Held::Then::text});
      }
      if (trigger->at_start) {
        if (!advance_held(
                [&](Held& held) { return held.language->advance_bytes(held.state, trigger->text); }))
          return false;
      }
    }
    return true;
  }

  // The trigger that is complete first, and the bytes behind it; null, with the bytes taken, if none is.
  const Trigger* find_trigger(std::string_view& bytes) {
    const auto& triggers = is_reasoning_ ? languages_->of_reasoning : languages_->of_text;
    size_t longest = 4;
    for (const Trigger& trigger : triggers) longest = std::max(longest, trigger.text.size());
    for (size_t i = 0; i < bytes.size(); ++i) {
      const bool is_space = std::string_view(" \t\r\n").find(bytes[i]) != std::string_view::npos;
      tail_ += bytes[i];
      for (const Trigger& trigger : triggers) {
        if (!tail_.ends_with(trigger.text) || (trigger.at_start && has_text_)) continue;
        bytes.remove_prefix(i + 1);
        has_text_ = has_text_ || trigger.at_start;
        tail_.clear();
        return &trigger;
      }
      if (!is_reasoning_ && !is_space) has_text_ = true;
      if (tail_.size() > 2 * longest) tail_.erase(0, tail_.size() - longest);
    }
    bytes = {};
    return nullptr;
  }

  std::shared_ptr<const AnswerLanguages> languages_;
  int64_t budget_;
  std::vector<int32_t> reasoning_end_;
  bool is_reasoning_;
  int64_t reasoned_ = 0;    // tokens
  size_t forced_ = 0;       // of reasoning_end_, that came
  std::vector<Held> held_;  // empty: the text is free
  std::string tail_;        // the end of the free text
  bool has_text_ = false;   // visible, of the answer
  bool ended_ = false;
};

}  // namespace

std::shared_ptr<TokenConstraint> held_to(std::shared_ptr<const AnswerLanguages> languages,
                                         const AnswerForm& form) {
  return std::make_shared<AnswerConstraint>(std::move(languages), form);
}

}  // namespace rafter::decode
