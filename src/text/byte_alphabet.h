// The byte-level alphabet of GPT-2: 256 visible characters that stand for the 256 bytes, so that a vocabulary
// of byte strings can be written as text. Bytes 21-7E, A1-AC and AE-FF (hex) stand for themselves as code
// points; the other 68, in increasing order, are U+0100, U+0101, … (space is U+0120 "Ġ", newline U+010A "Ċ").
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace rafter::text {

char32_t byte_to_alphabet(uint8_t byte);

// The byte that a character of the alphabet stands for; nothing for any other character.
std::optional<uint8_t> alphabet_to_byte(char32_t character);

// The bytes that `piece` stands for; nothing if it is not UTF-8 or has a character outside the alphabet.
std::optional<std::string> alphabet_to_bytes(std::string_view piece);

std::string bytes_to_alphabet(std::string_view bytes);

}  // namespace rafter::text
