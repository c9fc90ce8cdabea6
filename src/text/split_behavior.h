// What becomes of the matches at which a text is cut.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "text/regex.h"
#include "text/tokenizer_spec.h"

namespace rafter::text {

// The pieces of a text of `size` bytes cut at `matches`, in order; some may be empty. `inverted` swaps the
// roles of the matches and of what lies between.
std::vector<TextSpan> split_at(size_t size, const std::vector<TextSpan>& matches, bool inverted,
                               SplitBehavior behavior);

}  // namespace rafter::text
