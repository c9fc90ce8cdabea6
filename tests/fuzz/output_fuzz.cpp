// Any bytes as a model's answer, in a format and with cuts that the first bytes choose: the events do not
// depend on the cuts, calls that end have JSON for arguments, and without calls or reasoning the content is
// the text.
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/utf8.h"
#include "tests/fuzz/seeds.h"
#include "tests/support/output_checks.h"

namespace {

using namespace rafter;
using Events = std::vector<text::OutputEvent>;

Events parse(const text::OutputFormat& format, const text::OutputParserOptions& options,
             std::string_view input, uint32_t cuts) {
  text::OutputParser parser(format, options);
  Events events;
  while (!input.empty()) {
    const size_t size = cuts == 0 ? input.size() : std::min<size_t>(input.size(), 1 + (cuts >> 16) % 13);
    cuts = cuts == 0 ? 0 : cuts * 1664525 + 1013904223;
    testing::join_events(events, parser.push(input.substr(0, size)));
    input.remove_prefix(size);
  }
  testing::join_events(events, parser.finish());
  return events;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::vector<std::string> families = text::output_family_names();
  static const std::vector<std::string> reasoning = text::reasoning_names();
  static const text::ToolSchemas tools = *text::ToolSchemas::from_json(testing::kTestTools);
  if (size < 3) return 0;
  const text::OutputFormat format = *text::choose_output_format("", families[data[0] % families.size()],
                                                                reasoning[data[1] % reasoning.size()]);
  text::OutputParserOptions options;
  if ((data[1] & 0x80) == 0) options.tools = tools;
  options.start = static_cast<text::OutputStart>((data[2] >> 5) % 3);
  options.delivery = static_cast<text::CallDelivery>(data[2] & 1);
  const std::string_view input(reinterpret_cast<const char*>(data) + 3, size - 3);
  const Events whole = parse(format, options, input, 0);
  RAFTER_CHECK(parse(format, options, input, 1 + data[2]) == whole);
  const std::string fault = testing::fault_of_shape(whole);
  RAFTER_CHECK(fault.empty(), "{}", fault);
  const testing::Answer answer = testing::answer_of(whole);
  if (answer.calls.empty() && format.reasoning == nullptr) {
    RAFTER_CHECK(answer.content == base::replace_malformed_utf8(input));
  }
  return 0;
}

// A few calls in every family's markup, with reasoning in front of some.
std::vector<std::string> fuzz_seeds() {
  std::mt19937 random(1);
  const auto families = text::output_family_names();
  std::vector<std::string> seeds;
  for (const testing::FamilySpelling& spelling : testing::family_spellings()) {
    const auto family = std::find(families.begin(), families.end(), spelling.family) - families.begin();
    for (char reasoning = 0; reasoning < 4; ++reasoning) {
      const std::string begin = {static_cast<char>(family), reasoning, static_cast<char>(reasoning & 1)};
      const std::string thought = reasoning == 0   ? "<|channel>thought\nHm.\n<channel|>"
                                  : reasoning == 1 ? "<think>\nHm.\n</think>\n\n"
                                                   : "";
      const std::vector<testing::RandomCall> calls = {testing::random_call(random),
                                                      testing::random_call(random)};
      seeds.push_back(begin + thought + (reasoning == 2 ? "Text. " : "") + spelling.write(calls, random));
    }
  }
  return seeds;
}
