#include <gtest/gtest.h>

#include "format/safetensors_header.h"
#include "tests/support/format_files.h"

namespace rafter::format {
namespace {

using testing::safetensors_file;

base::Result<SafetensorsHeader> parse(const std::string& file) {
  return parse_safetensors_header(testing::as_bytes(file), "test");
}

// The error's text; "" if the header was accepted.
std::string refusal(const std::string& header, const std::string& data = "") {
  const auto result = parse(safetensors_file(header, data));
  return result.ok() ? "" : result.error().message();
}

std::string refusal_of_file(const std::string& file) {
  const auto result = parse(file);
  return result.ok() ? "" : result.error().message();
}

#define EXPECT_CONTAINS(text, part) EXPECT_NE(std::string(text).find(part), std::string::npos) << (text)

TEST(Safetensors, ReadsEveryLegalOddity) {
  // Rank 0, zero dims that share a point, a header of odd length, unknown keys, tensors out of order.
  const auto result = parse(safetensors_file(
      R"({"__metadata__":{"format":"pt"},)"
      R"("b":{"dtype":"F16","shape":[],"data_offsets":[3,5],"extra":{"x":[1,{"y":2}]}},)"
      R"("z0":{"dtype":"F32","shape":[0,7],"data_offsets":[3,3]},)"
      R"("z1":{"dtype":"U8","shape":[9007199254740992,9007199254740992,0],"data_offsets":[3,3]},)"
      R"("a\u00e9":{"data_offsets":[0,3],"shape":[3,2],"dtype":"F4"}} )",
      "12345"));
  ASSERT_TRUE(result.ok()) << result.error().message();
  const SafetensorsHeader& header = *result;
  ASSERT_EQ(header.tensors.size(), 4u);
  EXPECT_EQ(header.tensors[0].name, "aé");
  EXPECT_FALSE(header.tensors[0].type->dtype.has_value());
  EXPECT_EQ(header.tensors[3].name, "b");
  EXPECT_TRUE(header.tensors[3].shape.empty());
  EXPECT_EQ(header.metadata.at("format"), "pt");
  EXPECT_TRUE(parse(safetensors_file("{}")).ok());
  EXPECT_TRUE(parse(safetensors_file("{}      ")).ok());
}

TEST(Safetensors, ChecksTheLengthFirst) {
  EXPECT_CONTAINS(refusal_of_file("short"), "5 bytes");
  EXPECT_CONTAINS(refusal_of_file(testing::packed<uint64_t>(0) + "{}"), "header length 0");
  EXPECT_CONTAINS(refusal_of_file(testing::packed<uint64_t>(100'000'001) + "{}"), "header length");
  EXPECT_CONTAINS(refusal_of_file(testing::packed<uint64_t>(~0ull) + "{}"), "header length");
  EXPECT_CONTAINS(refusal_of_file(testing::packed<uint64_t>(~0ull - 6) + "{}"), "header length");
  EXPECT_CONTAINS(refusal_of_file(testing::packed<uint64_t>(3) + "{}"), "past the end");
}

TEST(Safetensors, RefusesMalformedJson) {
  EXPECT_CONTAINS(refusal(" {}"), "begin with {");
  EXPECT_CONTAINS(refusal("[]"), "begin with {");
  EXPECT_CONTAINS(refusal("{} x"), "malformed");
  EXPECT_CONTAINS(refusal("{}{}"), "malformed");
  EXPECT_CONTAINS(refusal(std::string("{}\0garbage", 10)), "NUL");
  EXPECT_CONTAINS(refusal("{\"\xC0\xAF\":{}}"), "UTF-8");      // overlong
  EXPECT_CONTAINS(refusal("{\"\xED\xA0\x80\":{}}"), "UTF-8");  // surrogate
  EXPECT_CONTAINS(refusal("{\"\xF4\x90\x80\x80\":{}}"), "UTF-8");
  EXPECT_CONTAINS(refusal(R"({"\ud800":{}})"), "malformed");
  EXPECT_CONTAINS(refusal(R"({"a":{"x":[[[[[[[[1]]]]]]]]}})"), "deeper");
  EXPECT_CONTAINS(refusal("{\"a\":" + std::string(100'000, '[')), "is not an object");
}

TEST(Safetensors, RefusesDuplicateKeysAtAnyLevel) {
  const std::string entry = R"({"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  EXPECT_EQ(refusal("{\"a\":" + entry + "}"), "");
  EXPECT_CONTAINS(refusal("{\"a\":" + entry + ",\"a\":" + entry + "}"), "duplicate");
  EXPECT_CONTAINS(refusal("{\"a\":" + entry + ",\"\\u0061\":" + entry + "}"), "duplicate");
  EXPECT_CONTAINS(refusal(R"({"a":{"dtype":"U8","dtype":"U8","shape":[0],"data_offsets":[0,0]}})"),
                  "duplicate");
  EXPECT_CONTAINS(refusal(R"({"__metadata__":{"x":"1","x":"2"}})"), "duplicate");
  EXPECT_CONTAINS(refusal(R"({"__metadata__":{},"__metadata__":{}})"), "duplicate");
  EXPECT_CONTAINS(refusal(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0],"x":[{"y":1,"y":2}]}})"),
                  "duplicate");
}

TEST(Safetensors, RefusesMalformedEntries) {
  EXPECT_CONTAINS(refusal(R"({"__metadata__":3})"), "not an object");
  EXPECT_CONTAINS(refusal(R"({"__metadata__":{"a":3}})"), "strings");
  EXPECT_CONTAINS(refusal(R"({"__metadata__":{"a":{}}})"), "strings");
  EXPECT_CONTAINS(refusal(R"({"a":3})"), "not an object");
  EXPECT_CONTAINS(refusal(R"({"a":{"shape":[0],"data_offsets":[0,0]}})"), "no dtype");
  EXPECT_CONTAINS(refusal(R"({"a":{"dtype":"U8","data_offsets":[0,0]}})"), "no shape");
  EXPECT_CONTAINS(refusal(R"({"a":{"dtype":"U8","shape":[0]}})"), "data_offsets");
  EXPECT_CONTAINS(refusal(R"({"a":{"dtype":8,"shape":[0],"data_offsets":[0,0]}})"), "dtype");
  EXPECT_CONTAINS(refusal(R"({"a":{"dtype":"U8","shape":3,"data_offsets":[0,0]}})"), "shape");
  EXPECT_CONTAINS(refusal(R"({"":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})"), "name");
  EXPECT_CONTAINS(refusal(R"({"a\u0000b":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})"), "NUL");
  EXPECT_CONTAINS(
      refusal("{\"" + std::string(4097, 'a') + R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})"),
      "too long");
}

TEST(Safetensors, RefusesBadShapes) {
  for (const char* shape : {"[-1]", "[1.0]", "[1e3]", "[\"1\"]", "[[1]]", "[true]", "[null]",
                            "[9007199254740993]", "[18446744073709551616]", "[-0]", "{\"a\":1}"}) {
    EXPECT_CONTAINS(
        refusal(std::string(R"({"a":{"dtype":"U8","shape":)") + shape + R"(,"data_offsets":[0,1]}})", "1"),
        "shape");
  }
  EXPECT_CONTAINS(
      refusal(R"({"a":{"dtype":"U8","shape":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],"data_offsets":[0,1]}})",
              "1"),
      "16 dimensions");
  EXPECT_EQ(
      refusal(R"({"a":{"dtype":"U8","shape":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],"data_offsets":[0,1]}})", "1"),
      "");
  // 2^32 · 2^32 elements wrap to zero.
  EXPECT_CONTAINS(refusal(R"({"a":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]}})"),
                  "too many");
  EXPECT_CONTAINS(refusal(R"({"a":{"dtype":"F64","shape":[4611686018427387904],"data_offsets":[0,0]}})"),
                  "shape");
  EXPECT_CONTAINS(refusal(R"({"a":{"dtype":"F4","shape":[3],"data_offsets":[0,2]}})", "12"), "whole number");
}

TEST(Safetensors, RefusesBadOffsets) {
  const auto with = [](const std::string& offsets, const std::string& data) {
    return refusal(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":)" + offsets + "}}", data);
  };
  EXPECT_EQ(with("[0,2]", "12"), "");
  EXPECT_CONTAINS(with("[0]", "12"), "two numbers");
  EXPECT_CONTAINS(with("[0,2,2]", "12"), "more than two");
  EXPECT_CONTAINS(with("[0,-2]", "12"), "whole numbers");
  EXPECT_CONTAINS(with("[0,2.0]", "12"), "whole numbers");
  EXPECT_CONTAINS(with("[[0,2]]", "12"), "whole numbers");
  EXPECT_CONTAINS(with("[2,0]", "12"), "do not lie");
  EXPECT_CONTAINS(with("[1,3]", "12"), "do not lie");
  EXPECT_CONTAINS(with("[0,18446744073709551615]", "12"), "do not lie");
  EXPECT_CONTAINS(with("[0,1]", "12"), "hold 1 bytes");
  EXPECT_CONTAINS(with("[1,3]", "123"), "begins at 1");       // hole at the front
  EXPECT_CONTAINS(with("[0,2]", "123"), "data has 3 bytes");  // trailing bytes
  const auto two = [](const std::string& a, const std::string& b, const std::string& data) {
    return refusal(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":)" + a +
                       R"(},"b":{"dtype":"U8","shape":[2],"data_offsets":)" + b + "}}",
                   data);
  };
  EXPECT_EQ(two("[2,4]", "[0,2]", "1234"), "");
  EXPECT_CONTAINS(two("[0,2]", "[1,3]", "123"), "begins at 1");
  EXPECT_CONTAINS(two("[0,2]", "[0,2]", "12"), "begins at 0");
  EXPECT_CONTAINS(two("[0,2]", "[3,5]", "12345"), "begins at 3");
}

TEST(Safetensors, NamesTheTensorAndTypeThatItDoesNotKnow) {
  const auto result =
      parse(safetensors_file(R"({"model.x":{"dtype":"Q9","shape":[0],"data_offsets":[0,0]}})"));
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, base::ErrorCode::unsupported);
  EXPECT_EQ(result.error().message(), "test: model.x: unknown dtype Q9");
  // A name cannot write to the terminal.
  const auto hostile = refusal("{\"\\u001b[2J\":3}");
  EXPECT_EQ(hostile.find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace rafter::format
