// Classes of characters as Oniguruma means them, written as the inside of a PCRE2 character class.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace rafter::text {

inline constexpr std::string_view kSpaceSet =
    R"(\x{9}-\x{D}\x{20}\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";
inline constexpr std::string_view kNotSpaceSet =
    R"(\x{0}-\x{8}\x{E}-\x{1F}\x{21}-\x{84}\x{86}-\x{9F}\x{A1}-\x{167F}\x{1681}-\x{1FFF}\x{200B}-\x{2027})"
    R"(\x{202A}-\x{202E}\x{2030}-\x{205E}\x{2060}-\x{2FFF}\x{3001}-\x{D7FF}\x{E000}-\x{10FFFF})";

// \d, and \w, which has a few more characters outside of a character class than inside.
std::string digit_set();
std::string word_set(bool in_class);

// \p{name}: general categories and the common scripts, completed to Unicode 16. Nothing for any other name.
std::optional<std::string> property_set(std::string_view name);

}  // namespace rafter::text
