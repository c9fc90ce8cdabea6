// Byte-pair merging of a list of symbols, whatever the symbols are.
#pragma once

#include <cstdint>

#include "text/bpe_tables.h"
#include "text/word_model.h"

namespace rafter::text {

// Merges the adjacent pair of lowest rank in workspace.ids, the leftmost of equals, until none is left. Pairs
// may share a rank. O(n log n). Precondition: fewer than 2³² symbols.
void merge_symbols(const MergeTable& merges, WordWorkspace& workspace);

}  // namespace rafter::text
