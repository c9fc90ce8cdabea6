// Any bytes as a safetensors file: an error, or tensors that lie inside it one after another.
#include <span>

#include "base/check.h"
#include "format/safetensors_header.h"
#include "tests/fuzz/seeds.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto header = rafter::format::parse_safetensors_header(std::as_bytes(std::span(data, size)), "fuzz");
  if (!header.ok()) {
    RAFTER_CHECK(!header.error().what.empty());
    return 0;
  }
  uint64_t position = 0;
  for (const auto& tensor : header->tensors) {
    RAFTER_CHECK(tensor.begin == position && tensor.end >= tensor.begin && tensor.type != nullptr);
    position = tensor.end;
  }
  RAFTER_CHECK(header->data_start + position == size);
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  return rafter::testing::seed_files("fixtures/format", ".safetensors");
}
