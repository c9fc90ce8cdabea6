// Any bytes as a GGUF file: an error, or tensors and arrays that lie inside it.
#include <span>

#include "base/check.h"
#include "format/gguf_header.h"
#include "tests/fuzz/seeds.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rafter::format;
  const auto header = parse_gguf_header(std::as_bytes(std::span(data, size)), "fuzz");
  if (!header.ok()) {
    RAFTER_CHECK(!header.error().what.empty());
    return 0;
  }
  uint64_t position = header->data_start;
  for (const GgufTensor& tensor : header->tensors) {
    const uint64_t begin = header->data_start + tensor.offset;
    RAFTER_CHECK(begin >= position && begin <= size && tensor.bytes <= size - begin);
    position = begin + tensor.bytes;
  }
  double sum = 0;
  for (const auto& [key, value] : header->metadata) {
    const auto* array = std::get_if<GgufArray>(&value.value);
    for (uint64_t i = 0; array != nullptr && i < array->count; ++i) sum += array->number(i);
  }
  volatile double sink = sum;
  (void)sink;
  return 0;
}

std::vector<std::string> fuzz_seeds() { return rafter::testing::seed_files("fixtures/format", ".gguf"); }
