#include <gtest/gtest.h>

#include "format/gguf_header.h"
#include "tests/support/format_files.h"

namespace rafter::format {
namespace {

using testing::GgufParts;
using testing::packed;

constexpr uint32_t kU8 = 0, kU32 = 4, kBool = 7, kString = 8, kArray = 9, kU64 = 10, kI64 = 11;
constexpr uint32_t kTypeF32 = 0, kTypeQ4_0 = 2, kTypeQ4_K = 12;

std::string refusal(const std::string& file) {
  const auto result = parse_gguf_header(testing::as_bytes(file), "test");
  return result.ok() ? "" : result.error().message();
}

std::string refusal_of_key(const std::string& record) {
  GgufParts parts;
  parts.keys = {record};
  return refusal(parts.file());
}

std::string refusal_of_tensor(const std::string& record, size_t data_bytes = 64) {
  GgufParts parts;
  parts.tensors = {record};
  parts.data.assign(data_bytes, 'x');
  return refusal(parts.file());
}

#define EXPECT_CONTAINS(text, part) EXPECT_NE(std::string(text).find(part), std::string::npos) << (text)

TEST(Gguf, ReadsEveryScalarAndArrayType) {
  GgufParts parts;
  parts.version = 2;
  parts.keys = {
      GgufParts::key("u8", 0, packed<uint8_t>(200)),
      GgufParts::key("i8", 1, packed<int8_t>(-3)),
      GgufParts::key("u16", 2, packed<uint16_t>(60000)),
      GgufParts::key("i16", 3, packed<int16_t>(-300)),
      GgufParts::key("u32", 4, packed<uint32_t>(4000000000u)),
      GgufParts::key("i32", 5, packed<int32_t>(-5)),
      GgufParts::key("f32", 6, packed(0.5f)),
      GgufParts::key("bool", 7, packed<uint8_t>(1)),
      GgufParts::key("string", 8, GgufParts::text("\xFFraw")),
      GgufParts::key("u64", 10, packed<uint64_t>(~0ull)),
      GgufParts::key("i64", 11, packed<int64_t>(-1)),
      GgufParts::key("f64", 12, packed(0.25)),
      GgufParts::key("array", kArray,
                     packed<uint32_t>(3) + packed<uint64_t>(2) + packed<int16_t>(-7) + packed<int16_t>(9)),
      GgufParts::key("strings", kArray,
                     packed(kString) + packed<uint64_t>(2) + GgufParts::text("") + GgufParts::text("b")),
      GgufParts::key("none", kArray, packed(kU8) + packed<uint64_t>(0))};
  parts.tensors = {GgufParts::tensor("b", {3, 2}, kTypeF32, 32), GgufParts::tensor("a", {32}, kTypeQ4_0, 0)};
  parts.data.assign(32 + 24, 'x');
  const std::string file = parts.file();
  const auto result = parse_gguf_header(testing::as_bytes(file), "test");
  ASSERT_TRUE(result.ok()) << result.error().message();
  const GgufMetadata& metadata = result->metadata;
  EXPECT_EQ(std::get<uint64_t>(metadata.at("u8").value), 200u);
  EXPECT_EQ(std::get<int64_t>(metadata.at("i8").value), -3);
  EXPECT_EQ(std::get<uint64_t>(metadata.at("u16").value), 60000u);
  EXPECT_EQ(std::get<int64_t>(metadata.at("i16").value), -300);
  EXPECT_EQ(std::get<uint64_t>(metadata.at("u32").value), 4000000000u);
  EXPECT_EQ(std::get<int64_t>(metadata.at("i32").value), -5);
  EXPECT_EQ(std::get<double>(metadata.at("f32").value), 0.5);
  EXPECT_TRUE(std::get<bool>(metadata.at("bool").value));
  EXPECT_EQ(std::get<std::string>(metadata.at("string").value), "\xFFraw");
  EXPECT_EQ(std::get<uint64_t>(metadata.at("u64").value), ~0ull);
  EXPECT_EQ(std::get<int64_t>(metadata.at("i64").value), -1);
  EXPECT_EQ(std::get<double>(metadata.at("f64").value), 0.25);
  EXPECT_EQ(std::get<GgufArray>(metadata.at("array").value).integer(0), -7);
  EXPECT_EQ(std::get<GgufArray>(metadata.at("array").value).number(1), 9.0);
  EXPECT_EQ(std::get<std::vector<std::string>>(metadata.at("strings").value)[1], "b");
  EXPECT_EQ(std::get<GgufArray>(metadata.at("none").value).count, 0u);
  ASSERT_EQ(result->tensors.size(), 2u);
  EXPECT_EQ(result->tensors[0].name, "a");
  EXPECT_EQ(result->tensors[0].bytes, 18u);
  EXPECT_EQ(result->tensors[1].shape, (std::vector<int64_t>{2, 3}));  // the file's order reversed
}

TEST(Gguf, ChecksMagicVersionAndByteOrder) {
  GgufParts parts;
  EXPECT_EQ(refusal(parts.file()), "");
  EXPECT_CONTAINS(refusal("GG"), "not a GGUF file");
  parts.magic = "GGJT";
  EXPECT_CONTAINS(refusal(parts.file()), "not a GGUF file");
  parts.magic = "GGUF";
  parts.version = 1;
  EXPECT_CONTAINS(refusal(parts.file()), "version 1");
  parts.version = 0x03000000;
  EXPECT_CONTAINS(refusal(parts.file()), "big-endian");
  for (uint32_t version : {0u, 4u, 1000u, ~0u}) {
    parts.version = version;
    EXPECT_CONTAINS(refusal(parts.file()), fmt::format("version {}", version));
  }
}

TEST(Gguf, BoundsEveryCountBeforeItReservesMemory) {
  GgufParts parts;
  parts.key_count = ~0ull;
  EXPECT_CONTAINS(refusal(parts.file()), "metadata keys");
  parts.key_count = 0;
  parts.tensor_count = ~0ull;
  EXPECT_CONTAINS(refusal(parts.file()), "tensors do not fit");
  parts.tensor_count = 1ull << 40;
  EXPECT_CONTAINS(refusal(parts.file()), "tensors do not fit");
  EXPECT_CONTAINS(refusal_of_key(packed(~0ull) + "abc"), "key");
  EXPECT_CONTAINS(refusal_of_key(GgufParts::key("a", kString, packed(~0ull) + "abc")), "string");
  EXPECT_CONTAINS(refusal_of_key(GgufParts::key("a", kArray, packed(kU64) + packed(1ull << 61))),
                  "past the end");
  EXPECT_CONTAINS(refusal_of_key(GgufParts::key("a", kArray, packed(kU8) + packed(~0ull))), "past the end");
  EXPECT_CONTAINS(refusal_of_key(GgufParts::key("a", kArray, packed(kString) + packed(1ull << 61))),
                  "past the end");
}

TEST(Gguf, RefusesBadKeys) {
  const std::string one = packed<uint32_t>(1);
  EXPECT_EQ(refusal_of_key(GgufParts::key("a", kU32, one)), "");
  EXPECT_CONTAINS(refusal_of_key(GgufParts::key("", kU32, one)), "empty");
  EXPECT_CONTAINS(refusal_of_key(GgufParts::key(std::string(65537, 'a'), kU32, one)), "too long");
  EXPECT_CONTAINS(refusal_of_key(GgufParts::key("\xC0\xAF", kU32, one)), "UTF-8");
  EXPECT_CONTAINS(refusal_of_key(GgufParts::key("a", 13, one)), "unknown metadata type 13");
  EXPECT_CONTAINS(refusal_of_key(GgufParts::key("a", kBool, packed<uint8_t>(2))), "boolean");
  EXPECT_CONTAINS(refusal_of_key(GgufParts::key("a", kArray, packed(kBool) + packed<uint64_t>(1) + "\x02")),
                  "boolean");
  EXPECT_CONTAINS(refusal_of_key(GgufParts::key("a", kArray, packed(kArray) + packed<uint64_t>(1))),
                  "array of arrays");
  EXPECT_CONTAINS(refusal_of_key(GgufParts::key("a", kArray, packed<uint32_t>(99) + packed<uint64_t>(1))),
                  "unknown type");
  GgufParts parts;
  parts.keys = {GgufParts::key("a", kU32, one), GgufParts::key("a", kU32, one)};
  EXPECT_CONTAINS(refusal(parts.file()), "duplicate");
}

TEST(Gguf, ChecksTheAlignment) {
  const auto with = [](uint32_t type, const std::string& value) {
    return refusal_of_key(GgufParts::key("general.alignment", type, value));
  };
  EXPECT_EQ(with(kU32, packed<uint32_t>(64)), "");
  EXPECT_EQ(with(kI64, packed<int64_t>(1)), "");
  EXPECT_EQ(with(kU64, packed<uint64_t>(1 << 20)), "");
  EXPECT_CONTAINS(with(kU32, packed<uint32_t>(0)), "power of two");
  EXPECT_CONTAINS(with(kU32, packed<uint32_t>(48)), "power of two");
  EXPECT_CONTAINS(with(kU32, packed<uint32_t>(1 << 21)), "power of two");
  EXPECT_CONTAINS(with(kI64, packed<int64_t>(-32)), "power of two");
  EXPECT_CONTAINS(with(kString, GgufParts::text("32")), "power of two");
}

TEST(Gguf, RefusesBadTensors) {
  EXPECT_EQ(refusal_of_tensor(GgufParts::tensor("a", {4, 4}, kTypeF32, 0)), "");
  EXPECT_CONTAINS(refusal_of_tensor(GgufParts::tensor("", {4}, kTypeF32, 0)), "empty");
  EXPECT_CONTAINS(refusal_of_tensor(GgufParts::tensor(std::string("a\0b", 3), {4}, kTypeF32, 0)), "UTF-8");
  EXPECT_CONTAINS(refusal_of_tensor(GgufParts::tensor("\xFF", {4}, kTypeF32, 0)), "UTF-8");
  EXPECT_CONTAINS(refusal_of_tensor(GgufParts::tensor("a", {}, kTypeF32, 0)), "0 dimensions");
  EXPECT_CONTAINS(refusal_of_tensor(GgufParts::tensor("a", {1, 1, 1, 1, 1}, kTypeF32, 0)), "5 dimensions");
  EXPECT_CONTAINS(refusal_of_tensor(GgufParts::tensor("a", {0, 4}, kTypeF32, 0)), "dimension of 0");
  EXPECT_CONTAINS(refusal_of_tensor(GgufParts::tensor("a", {~0ull}, kTypeF32, 0)), "dimension of");
  EXPECT_CONTAINS(refusal_of_tensor(GgufParts::tensor("a", {1ull << 32, 1ull << 32}, kTypeF32, 0)),
                  "too many");
  EXPECT_CONTAINS(refusal_of_tensor(GgufParts::tensor("a", {1ull << 62}, kTypeF32, 0)), "too many");
  // A total of 64 elements is two blocks, but a row is none.
  EXPECT_CONTAINS(refusal_of_tensor(GgufParts::tensor("a", {16, 4}, kTypeQ4_0, 0)),
                  "whole number of Q4_0 blocks");
  EXPECT_CONTAINS(refusal_of_tensor(GgufParts::tensor("a", {4, 4}, kTypeF32, 8)), "alignment");
  EXPECT_CONTAINS(refusal_of_tensor(GgufParts::tensor("a", {4, 4}, kTypeF32, 32)), "past the end");
  EXPECT_CONTAINS(refusal_of_tensor(GgufParts::tensor("a", {4, 4}, kTypeF32, ~0ull - 31)), "past the end");
  EXPECT_CONTAINS(refusal_of_tensor(GgufParts::tensor("a", {4, 4}, kTypeF32, 0), 63), "past the end");
  GgufParts parts;
  parts.data.assign(128, 'x');
  parts.tensors = {GgufParts::tensor("a", {4}, kTypeF32, 0), GgufParts::tensor("a", {4}, kTypeF32, 32)};
  EXPECT_CONTAINS(refusal(parts.file()), "duplicate");
  parts.tensors = {GgufParts::tensor("a", {16}, kTypeF32, 32), GgufParts::tensor("b", {16}, kTypeF32, 0)};
  EXPECT_CONTAINS(refusal(parts.file()), "overlaps");
}

TEST(Gguf, NamesTheTensorAndTypeThatItDoesNotKnow) {
  EXPECT_EQ(refusal_of_tensor(GgufParts::tensor("blk.0.x", {4}, 339, 0)),
            "test: blk.0.x: unknown tensor type 339 (a type of the ik_llama.cpp fork)");
  EXPECT_CONTAINS(refusal_of_tensor(GgufParts::tensor("a", {4}, 4, 0)), "dropped");
  EXPECT_CONTAINS(refusal_of_tensor(GgufParts::tensor("a", {4}, 16, 0)), "codebook");
  EXPECT_EQ(refusal_of_tensor(GgufParts::tensor("a", {256}, kTypeQ4_K, 0), 144), "");  // known by its size
}

TEST(Gguf, EveryTruncationIsAnError) {
  GgufParts parts;
  parts.keys = {GgufParts::key("a", kString, GgufParts::text("value")),
                GgufParts::key("b", kArray, packed(kString) + packed<uint64_t>(1) + GgufParts::text("x"))};
  parts.tensors = {GgufParts::tensor("t", {4, 4}, kTypeF32, 0)};
  parts.data.assign(64, 'x');
  const std::string file = parts.file();
  EXPECT_EQ(refusal(file), "");
  for (size_t length = 0; length < file.size(); ++length)
    EXPECT_NE(refusal(file.substr(0, length)), "") << length;
}

}  // namespace
}  // namespace rafter::format
