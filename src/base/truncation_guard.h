// What happens when a mapped file is cut short, or its disk fails, while it is being read. Without the guard
// the system ends the process (SIGBUS). With it the lost pages read as zeros and the mapping is marked, so
// that MappedFile::check_not_truncated() is an error; whoever reads weights asks it before trusting a result.
#pragma once

#include <cstddef>

namespace rafter::base {

// Takes over SIGBUS for the whole process; once, at the start of a program. Faults that do not lie in a
// watched mapping go to the handler that was there before.
void install_truncation_guard();

// A mapping under the guard. −1 if there are too many; such a mapping is unprotected, nothing worse.
int watch_mapping(const void* begin, size_t bytes);
// Before the mapping goes away.
void unwatch_mapping(int watch);
// Did a read of the mapping fail?
bool mapping_was_cut(int watch);

}  // namespace rafter::base
