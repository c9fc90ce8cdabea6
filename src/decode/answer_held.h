// The constraint of one answer. For decode/answer_*.cpp only.
#pragma once

#include <memory>

#include "decode/answer_form.h"
#include "decode/token_constraint.h"

namespace rafter::decode {

struct AnswerLanguages;

std::shared_ptr<TokenConstraint> held_to(std::shared_ptr<const AnswerLanguages> languages,
                                         const AnswerForm& form);

}  // namespace rafter::decode
