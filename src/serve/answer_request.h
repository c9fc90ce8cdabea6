// What form a request wants its answer in: JSON by a schema, calls, a budget for reasoning; or none.
#pragma once

#include <optional>

#include "decode/answer_form.h"
#include "serve/front.h"
#include "serve/proto/ask.h"

namespace rafter::serve {

// Absent where nothing has to be held. Errors (invalid_argument): a choice that is not among the tools;
// (unsupported): a model without markup for calls.
base::Result<std::optional<decode::AnswerForm>> answer_form(const Front& front, const Ask& ask,
                                                            const BuiltPrompt& prompt);

}  // namespace rafter::serve
