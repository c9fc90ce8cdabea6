// The formats that are held, as regular expressions. Others are annotations, as JSON Schema has it.
#include <string_view>

#include "text/json_schema_compiler.h"

namespace rafter::text::schema {
namespace {

// Years 0001 to 9999; 29 February only in leap years.
#define RAFTER_DATE                                                                                     \
  "(?:(?:000[1-9]|00[1-9]\\d|0[1-9]\\d\\d|[1-9]\\d{3})-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|" \
  "(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)|02-(?:0[1-9]|1\\d|2[0-8]))|"                                     \
  "(?:\\d\\d(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)-02-29)"
#define RAFTER_TIME \
  "(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d{1,6})?(?:Z|[+-](?:[01]\\d|2[0-3]):[0-5]\\d)"
#define RAFTER_BYTE "(?:\\d|[1-9]\\d|1\\d\\d|2[0-4]\\d|25[0-5])"
#define RAFTER_LABEL "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"

struct Format {
  std::string_view name;
  const char* pattern;
};
constexpr Format kFormats[] = {
    {"date", "^" RAFTER_DATE "$"},
    {"time", "^" RAFTER_TIME "$"},
    {"date-time", "^" RAFTER_DATE "T" RAFTER_TIME "$"},
    {"duration",
     "^P(?:\\d{1,4}W|(?:\\d{1,4}Y(?:\\d{1,4}M(?:\\d{1,4}D)?)?|\\d{1,4}M(?:\\d{1,4}D)?|\\d{1,4}D)"
     "(?:T(?:\\d{1,4}H(?:\\d{1,4}M(?:\\d{1,4}S)?)?|\\d{1,4}M(?:\\d{1,4}S)?|\\d{1,4}S))?|"
     "T(?:\\d{1,4}H(?:\\d{1,4}M(?:\\d{1,4}S)?)?|\\d{1,4}M(?:\\d{1,4}S)?|\\d{1,4}S))$"},
    {"uuid", "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$"},
    {"email", "^[A-Za-z0-9_%+-]+(?:\\.[A-Za-z0-9_%+-]+)*@(?:" RAFTER_LABEL "\\.)+[A-Za-z]{2,24}$"},
    {"hostname", "^" RAFTER_LABEL "(?:\\." RAFTER_LABEL "){0,3}$"},
    {"ipv4", "^" RAFTER_BYTE "(?:\\." RAFTER_BYTE "){3}$"},
    {"uri", "^[A-Za-z][A-Za-z0-9+.-]*:(?:[A-Za-z0-9._~:/?#@!$&'()*+,;=-]|%[0-9a-fA-F]{2})+$"},
};

}  // namespace

const char* format_pattern(std::string_view format) {
  for (const Format& known : kFormats) {
    if (known.name == format) return known.pattern;
  }
  return nullptr;
}

}  // namespace rafter::text::schema
