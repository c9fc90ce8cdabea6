// Any bytes as a tokenizer.json, or with a first byte of 1 as a tokenizer.model; then encode and decode with
// it: an error or ids that exist, in bounded time. oracle/tokenizer_seeds.py writes the files to begin with.
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/utf8.h"
#include "tests/fuzz/seeds.h"
#include "text/stream_decoder.h"
#include "text/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rafter::text;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const bool is_pieces = input.starts_with('\1');
  const auto tokenizer = is_pieces ? Tokenizer::from_sentencepiece(input.substr(1), "fuzz")
                                   : Tokenizer::from_json(input, "fuzz");
  if (!tokenizer.ok()) {
    RAFTER_CHECK(!tokenizer.error().what.empty());
    return 0;
  }
  for (const std::string_view text :
       {"Hello, w\u00f6rld  12\n", "\xFF<s>\u2581 \u0301\U0001F600", "aaaaaaaaaa </s>"}) {
    const auto ids = tokenizer->encode(text, true);
    if (!ids.ok()) continue;
    StreamDecoder stream(*tokenizer, true);
    for (const int32_t id : *ids) {
      RAFTER_CHECK(id >= 0 && id < tokenizer->vocab_size(), "{}", id);
      RAFTER_CHECK(rafter::base::is_valid_utf8(stream.push(id)));
    }
    (void)stream.flush();
    RAFTER_CHECK(rafter::base::is_valid_utf8(tokenizer->decode(*ids, false)));
  }
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  std::vector<std::string> seeds = rafter::testing::seed_files("fixtures/tokenizer", ".json");
  for (const std::string& model : rafter::testing::seed_files("fixtures/tokenizer", ".model")) {
    seeds.push_back('\1' + model);
  }
  return seeds;
}
