// `TARGET --write-seeds DIR` of every libFuzzer target.
#include <cstdlib>
#include <string_view>

#include "tests/fuzz/seeds.h"

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  if (*argc != 3 || std::string_view((*argv)[1]) != "--write-seeds") return 0;
  const std::filesystem::path folder = (*argv)[2];
  std::filesystem::create_directories(folder);
  int number = 0;
  if (fuzz_seeds != nullptr) {
    for (const std::string& seed : fuzz_seeds()) {
      std::ofstream(folder / ("seed" + std::to_string(number++)), std::ios::binary) << seed;
    }
  }
  std::exit(0);
}

// For more executions per second. Readings throw often, and unwinding is four times as fast with plain stack
// frames; freed memory need not be kept from one execution to the next; a report's allocation stacks may be
// short.
extern "C" const char* __asan_default_options() {
  return "detect_stack_use_after_return=0:quarantine_size_mb=8:malloc_context_size=6";
}
