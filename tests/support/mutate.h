// Damage for model files: what a bad disk, a cut download or an attacker would do.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>

namespace rafter::testing {

class Mutator {
 public:
  // `header` is how many bytes at the front are worth most of the damage.
  Mutator(uint64_t seed, size_t header) : engine_(seed), header_(header) {}

  std::string operator()(std::string file) {
    const size_t damages = 1 + below(3);
    for (size_t i = 0; i < damages && !file.empty(); ++i) damage(file);
    return file;
  }

 private:
  size_t below(size_t limit) {
    return limit == 0 ? 0 : std::uniform_int_distribution<size_t>(0, limit - 1)(engine_);
  }

  size_t position(const std::string& file) {
    return below(below(8) == 0 ? file.size() : std::min(header_, file.size()));
  }

  void damage(std::string& file) {
    switch (below(9)) {
      case 0:
      case 1:
        file[position(file)] ^= static_cast<char>(1 << below(8));
        break;
      case 2:
        file.resize(below(file.size() + 1));
        break;
      case 3:
        file.append(1 + below(100), static_cast<char>(below(256)));
        break;
      case 4:
        put_extreme(file);
        break;
      case 5:
        put_extreme_digits(file);
        break;
      case 6: {  // a piece again: duplicated keys and records
        const size_t at = position(file), length = 1 + below(200);
        file.insert(position(file), file.substr(at, length));
        break;
      }
      case 7:
        file.erase(position(file), 1 + below(30));
        break;
      case 8: {  // two places exchanged: swapped offsets and lengths
        const size_t length = below(2) == 0 ? 8 : 1, a = position(file), b = position(file);
        if (std::max(a, b) + length <= file.size()) std::swap_ranges(&file[a], &file[a] + length, &file[b]);
        break;
      }
    }
  }

  // A 32- or 64-bit number of the kind that arithmetic goes wrong with.
  void put_extreme(std::string& file) {
    constexpr uint64_t kValues[] = {0,
                                    1,
                                    7,
                                    0x7F,
                                    0xFF,
                                    0x7FFF'FFFF,
                                    0x8000'0000,
                                    0xFFFF'FFFF,
                                    1ull << 32,
                                    1ull << 40,
                                    (1ull << 53) + 1,
                                    1ull << 61,
                                    1ull << 62,
                                    (1ull << 63) - 1,
                                    1ull << 63,
                                    ~0ull - 7,
                                    ~0ull};
    const uint64_t value = kValues[below(std::size(kValues))] + below(2) * below(64);
    const size_t width = below(2) == 0 ? 4 : 8;
    const size_t at = below(4) == 0 ? below(24) / 8 * 8 : position(file);
    if (at + width <= file.size()) std::memcpy(&file[at], &value, width);
  }

  // The same for numbers written as text.
  void put_extreme_digits(std::string& file) {
    constexpr const char* kTexts[] = {"0",
                                      "-1",
                                      "1e9",
                                      "9007199254740993",
                                      "4294967296",
                                      "18446744073709551615",
                                      "18446744073709551616",
                                      "9223372036854775808",
                                      "1.5",
                                      "[]",
                                      "null",
                                      "\"1\""};
    const size_t from = file.find_first_of("0123456789", position(file));
    if (from == std::string::npos) return;
    const size_t to = std::min(file.find_first_not_of("0123456789", from), file.size());
    file.replace(from, to - from, kTexts[below(std::size(kTexts))]);
  }

  std::mt19937_64 engine_;
  size_t header_;
};

}  // namespace rafter::testing
