// Speed of encode and decode on one core.
//
//   tokenizer_bench TOKENIZER TEXT_FILE [repeats]
//
// TOKENIZER is a tokenizer.json, or a folder or GGUF file that has one. Prints MB/s of the whole text in one
// call, the best of `repeats` (5), by the thread's own clock, so that a busy machine says the same; then the
// first kilobyte again and again, and one word without spaces of a megabyte.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>

#include <time.h>

#include "decode/open_tokenizer.h"

namespace {

double thread_seconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

template <typename Work>
double best_seconds(int repeats, Work work) {
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < repeats; ++i) {
    const double start = thread_seconds();
    work();
    best = std::min(best, thread_seconds() - start);
  }
  return best;
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 3) {
    std::fprintf(stderr, "usage: tokenizer_bench TOKENIZER TEXT_FILE [repeats]\n");
    return 2;
  }
  const double start = thread_seconds();
  const auto tokenizer = rafter::decode::open_tokenizer(arguments[1]);
  if (!tokenizer.ok()) {
    std::fprintf(stderr, "%s\n", tokenizer.error().message().c_str());
    return 1;
  }
  std::printf("load          %8.2f s\n", thread_seconds() - start);
  std::ifstream file(arguments[2]);
  std::stringstream content;
  content << file.rdbuf();
  const std::string text = content.str();
  const int repeats = count > 3 ? std::atoi(arguments[3]) : 5;
  std::vector<int32_t> ids;
  const auto encode = [&](const std::string& some) { ids = tokenizer->encode(some, false).value(); };
  const double megabytes = static_cast<double>(text.size()) / 1e6;
  std::printf("encode        %8.1f MB/s\n", megabytes / best_seconds(repeats, [&] { encode(text); }));
  std::printf("decode        %8.1f MB/s\n",
              megabytes / best_seconds(repeats, [&] { (void)tokenizer->decode(ids, false); }));
  const std::string small = text.substr(0, 1000);
  constexpr int kSmallTexts = 1000;
  std::printf("encode 1 kB   %8.1f MB/s\n", 1e-3 * kSmallTexts / best_seconds(repeats, [&] {
                                              for (int i = 0; i < kSmallTexts; ++i) encode(small);
                                            }));
  std::string word;
  for (uint32_t state = 1; word.size() < 1'000'000; state = state * 1664525 + 1013904223) {
    word += "abcdefghijklmnopqrstuvwxyz"[(state >> 24) % 26];
  }
  std::printf("one 1 MB word %8.2f s\n", best_seconds(1, [&] { encode(word); }));
  return 0;
}
