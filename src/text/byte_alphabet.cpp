#include "text/byte_alphabet.h"

#include <array>

#include "base/utf8.h"

namespace rafter::text {
namespace {

constexpr bool stands_for_itself(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

struct Alphabet {
  std::array<char16_t, 256> character{};
  std::array<int16_t, 0x100 + 68> byte{};  // -1: not in the alphabet
};

constexpr Alphabet make_alphabet() {
  Alphabet alphabet;
  for (auto& byte : alphabet.byte) byte = -1;
  char16_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const char16_t character = stands_for_itself(byte) ? static_cast<char16_t>(byte) : next++;
    alphabet.character[static_cast<size_t>(byte)] = character;
    alphabet.byte[character] = static_cast<int16_t>(byte);
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = make_alphabet();
static_assert(kAlphabet.character[' '] == 0x120 && kAlphabet.character[0xAD] == 0x143);

}  // namespace

char32_t byte_to_alphabet(uint8_t byte) { return kAlphabet.character[byte]; }

std::optional<uint8_t> alphabet_to_byte(char32_t character) {
  if (character >= kAlphabet.byte.size() || kAlphabet.byte[character] < 0) return std::nullopt;
  return static_cast<uint8_t>(kAlphabet.byte[character]);
}

std::optional<std::string> alphabet_to_bytes(std::string_view piece) {
  std::string bytes;
  bytes.reserve(piece.size());
  while (!piece.empty()) {
    const base::Utf8Step step = base::decode_utf8(piece);
    if (!step.valid) return std::nullopt;
    const std::optional<uint8_t> byte = alphabet_to_byte(step.code_point);
    if (!byte) return std::nullopt;
    bytes += static_cast<char>(*byte);
    piece.remove_prefix(step.length);
  }
  return bytes;
}

std::string bytes_to_alphabet(std::string_view bytes) {
  std::string piece;
  for (char byte : bytes) base::append_utf8(piece, byte_to_alphabet(static_cast<uint8_t>(byte)));
  return piece;
}

}  // namespace rafter::text
