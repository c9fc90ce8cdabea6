// Round trip with the publishers' templates: an assistant's turn with reasoning and calls is rendered by the
// template of each family, cut out of the text, and parsed back.
#include <gtest/gtest.h>

#include "tests/support/jinja_vectors.h"
#include "tests/support/output_events.h"

namespace rafter::text {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;
using testing::Answer;

struct Publisher {
  const char* file;
  const char *family, *reasoning;       // what is to be chosen for it
  const char *turn_begins, *turn_ends;  // around the assistant's turn
  bool keeps_reasoning = false;         // renders reasoning_content of the last turn
  bool keeps_content = true;            // renders content beside calls
  size_t most_calls = 9;                // that the template can write as a model would
  bool arguments_are_text = false;
};

constexpr Publisher kPublishers[] = {
    {"Qwen3.5-4B", "qwen3.5", "think", "<|im_start|>assistant\n", "<|im_end|>", true},
    {"Qwen3-Coder", "qwen3.5", "none", "<|im_start|>assistant\n", "<|im_end|>"},
    {"Qwen-Qwen3-0.6B", "hermes", "think", "<|im_start|>assistant\n", "<|im_end|>", true},
    {"Qwen-QwQ-32B", "hermes", "think", "<|im_start|>assistant\n", "<|im_end|>"},
    {"Qwen-Qwen2.5-7B-Instruct", "hermes", "none", "<|im_start|>assistant\n", "<|im_end|>"},
    {"NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use", "hermes", "none", "<|im_start|>assistant\n",
     "<|im_end|>", false, false},
    {"NousResearch-Hermes-3-Llama-3.1-8B-tool_use", "hermes", "none", "<|im_start|>assistant\n", "<|im_end|>",
     false, false},
    {"google-gemma-4-31B-it", "gemma4", "channel", "<|turn>model\n", "<|tool_response>", true, true},
    {"google-gemma-4-31B-it-interleaved", "gemma4", "channel", "<|turn>model\n", "<turn|>", true, true},
    {"mistralai-Mistral-Nemo-Instruct-2407", "mistral", "none", "[/INST]", "</s>", false, false},
    {"Mistral-Small-3.2-24B-Instruct-2506", "mistral", "none", "[/INST]", "</s>", false, false},
    {"meta-llama-Llama-3.1-8B-Instruct", "llama3", "none", "assistant<|end_header_id|>\n\n", "<|eot_id|>",
     false, false, 1},
    {"meta-llama-Llama-3.2-3B-Instruct", "llama3", "none", "assistant<|end_header_id|>\n\n", "<|eot_id|>",
     false, false, 1},
    {"meta-llama-Llama-3.3-70B-Instruct", "llama3", "none", "assistant<|end_header_id|>\n\n", "<|eot_id|>",
     false, false, 1},
    {"deepseek-ai-DeepSeek-V3.1", "deepseek", "think", "<｜Assistant｜>", "<｜end▁of▁sentence｜>"},
    {"deepseek-ai-DeepSeek-R1-Distill-Llama-8B", "deepseek", "think", "<｜Assistant｜>",
     "<｜end▁of▁sentence｜>", false, false, 2, true},
};

const char* const kTools = R"([
  {"type": "function", "function": {"name": "get_weather", "description": "d", "parameters": {"type": "object", "properties": {
    "city": {"type": "string", "description": "d"}, "days": {"type": "integer", "description": "d"},
    "exact": {"type": "boolean", "description": "d"}, "share": {"type": "number", "description": "d"}}}}},
  {"type": "function", "function": {"name": "write_file", "description": "d", "parameters": {"type": "object", "properties": {
    "path": {"type": "string", "description": "d"}, "text": {"type": "string", "description": "d"},
    "modes": {"type": "array", "description": "d", "items": {"type": "object", "properties": {"bits": {"type": "integer", "description": "d"}}}}}}}}])";

// Several calls and single ones.
std::vector<std::vector<Answer::Call>> turns() {
  const Answer::Call weather{
      "get_weather", R"({"city": "Zürich, \"CH\" {x}", "days": 3, "exact": true, "share": 0.25})", ""};
  const Answer::Call plain{"get_weather", R"({"city": "123", "days": -1, "exact": false})", ""};
  const Answer::Call file{"write_file", R"({"path": "a/b.txt", "modes": [{"bits": 420}, {"bits": 7}], "text":
      "\n  if (a < b && c) { print(\"</parameter> </tool_call> <|tool|> <![CDATA[ é 😀\") }\n\n\t\\n"})",
                          ""};
  const Answer::Call empty{"get_weather", "{}", ""};
  return {{weather}, {plain}, {file}, {empty}, {weather, file}, {file, empty, plain}};
}

class RoundTrip : public ::testing::TestWithParam<size_t> {
 protected:
  void SetUp() override {
    if (testing::chat_template_folder().empty())
      GTEST_SKIP() << "the publishers' chat templates are not beside the source";
    source_ = testing::read_file(testing::chat_template_folder() / (std::string(publisher_.file) + ".jinja"));
  }

  // The assistant's turn as the template writes it, and the prompt in front of it.
  void render(const std::vector<Answer::Call>& calls, const std::string& content,
              const std::string& reasoning) {
    ordered_json message = {{"role", "assistant"}};
    const bool is_null = publisher_.arguments_are_text;
    message["content"] = is_null ? ordered_json() : ordered_json(content);
    if (!reasoning.empty()) message["reasoning_content"] = reasoning;
    for (const Answer::Call& call : calls) {
      const auto arguments = ordered_json::parse(call.arguments);
      message["tool_calls"].push_back(
          {{"id", "call0000" + std::to_string(message["tool_calls"].size())},
           {"type", "function"},
           {"function",
            {{"name", call.name}, {"arguments", is_null ? ordered_json(arguments.dump()) : arguments}}}});
    }
    ordered_json variables = {{"messages", {{{"role", "user"}, {"content", "Weather?"}}, message}},
                              {"bos_token", "<s>"},
                              {"eos_token", "</s>"},
                              {"tools", ordered_json::parse(kTools)}};
    const auto chat = ChatTemplate::parse(source_, publisher_.file);
    ASSERT_TRUE(chat.ok());
    const auto rendered = chat->render_json(variables.dump());
    ASSERT_TRUE(rendered.ok()) << rendered.error().message();
    const std::string begins = publisher_.turn_begins;
    const size_t begin = rendered->rfind(begins) == std::string::npos
                             ? rendered->rfind(begins.substr(0, begins.size() - 1)) + begins.size() - 1
                             : rendered->rfind(begins) + begins.size();
    turn_ = rendered->substr(begin);
    turn_ = turn_.substr(0, turn_.rfind(publisher_.turn_ends));
  }

  Answer parse() {
    format_ = *choose_output_format(source_);
    std::mt19937 random(2);
    const auto whole = testing::parse_whole(*format_, testing::output_options(kTools), turn_);
    EXPECT_EQ(testing::parse_cut(*format_, testing::output_options(kTools), turn_,
                                 [&] { return 1 + random() % 9; }),
              whole);
    return testing::answer_of(whole);
  }

  const Publisher& publisher_ = kPublishers[GetParam()];
  std::string source_, turn_;
  std::optional<OutputFormat> format_;
};

std::string trimmed(std::string text) {
  text.erase(0, text.find_first_not_of(" \n"));
  text.erase(text.find_last_not_of(" \n") + 1);
  return text;
}

TEST_P(RoundTrip, GivesTheCallsAndTheReasoningBack) {
  for (const auto& calls : turns()) {
    if (calls.size() > publisher_.most_calls) continue;
    for (const std::string content : {"", "Let me look."}) {
      for (const std::string reasoning : {"", "Two lines\nof thought, {\"and\": 1} <tool_call>."}) {
        render(calls, content, reasoning);
        const Answer answer = parse();
        EXPECT_STREQ(format_->family_name(), publisher_.family);
        EXPECT_STREQ(format_->reasoning_name(), publisher_.reasoning);
        EXPECT_EQ(trimmed(answer.content), publisher_.keeps_content ? content : "") << turn_;
        EXPECT_EQ(answer.reasoning, publisher_.keeps_reasoning ? reasoning : "") << turn_;
        ASSERT_EQ(answer.calls.size(), calls.size()) << turn_;
        for (size_t i = 0; i < calls.size(); ++i) {
          EXPECT_EQ(answer.calls[i].name, calls[i].name);
          EXPECT_EQ(json::parse(answer.calls[i].arguments), json::parse(calls[i].arguments)) << turn_;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Publishers, RoundTrip, ::testing::Range<size_t>(0, std::size(kPublishers)),
                         [](const auto& tested) {
                           std::string name = kPublishers[tested.param].file;
                           std::erase_if(name,
                                         [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); });
                           return name;
                         });

// Families whose templates are not among them, or render no calls: MiniCPM5's markup by a template of our
// own, and SmolLM3's calls inside content.
TEST(RoundTripByHand, MiniCpm5) {
  const auto chat = ChatTemplate::parse(
      "{% for call in calls %}<function name=\"{{ call.name }}\">{% for k, v in call.arguments | items "
      "%}<param name=\"{{ k }}\">"
      "{% set v = v if v is string else v | tojson %}{% if '<' in v or '&' in v or '\\n' in v %}<![CDATA[{{ "
      "v | replace(']]>', "
      "']]]]><![CDATA[>') }}]]>{% else %}{{ v }}{% endif %}</param>{% endfor %}</function>{% endfor %}",
      "minicpm5");
  ASSERT_TRUE(chat.ok());
  for (const auto& calls : turns()) {
    ordered_json variables;
    for (const Answer::Call& call : calls)
      variables["calls"].push_back({{"name", call.name}, {"arguments", ordered_json::parse(call.arguments)}});
    const auto rendered = chat->render_json(variables.dump());
    ASSERT_TRUE(rendered.ok()) << rendered.error().message();
    const Answer answer = testing::answer_of(
        testing::parse_whole(testing::output_format("minicpm5"), testing::output_options(kTools), *rendered));
    ASSERT_EQ(answer.calls.size(), calls.size()) << *rendered;
    for (size_t i = 0; i < calls.size(); ++i) {
      EXPECT_EQ(json::parse(answer.calls[i].arguments), json::parse(calls[i].arguments)) << *rendered;
    }
  }
}

TEST(RoundTripByHand, SmolLm3) {
  if (testing::chat_template_folder().empty())
    GTEST_SKIP() << "the publishers' chat templates are not beside the source";
  const std::string source =
      testing::read_file(testing::chat_template_folder() / "HuggingFaceTB-SmolLM3-3B.jinja");
  const auto chat = ChatTemplate::parse(source, "smollm3");
  ASSERT_TRUE(chat.ok());
  const std::string call = R"(<tool_call>{"name": "get_weather", "arguments": {"city": "Z"}}</tool_call>)";
  const ordered_json variables = {
      {"messages",
       {{{"role", "user"}, {"content", "Weather?"}},
        {{"role", "assistant"}, {"content", "<think>\nHm.\n</think>\n" + call}}}}};
  const auto rendered = chat->render_json(variables.dump());
  ASSERT_TRUE(rendered.ok());
  const std::string begins = "<|im_start|>assistant\n";
  std::string turn = rendered->substr(rendered->rfind(begins) + begins.size());
  turn = turn.substr(0, turn.rfind("<|im_end|>"));
  const OutputFormat format = *choose_output_format(source);
  EXPECT_STREQ(format.family_name(), "smollm");
  const Answer answer =
      testing::answer_of(testing::parse_whole(format, testing::output_options(kTools), turn));
  EXPECT_EQ(answer.reasoning, "Hm.");
  EXPECT_EQ(answer.content, "");
  ASSERT_EQ(answer.calls.size(), 1u);
  EXPECT_EQ(answer.calls[0].arguments, R"({"city":"Z"})");
}

// Where the answer begins, for each template's own generation prompt.
TEST(RoundTripByHand, PromptsThatOpenReasoning) {
  if (testing::chat_template_folder().empty())
    GTEST_SKIP() << "the publishers' chat templates are not beside the source";
  const auto start = [](const std::string& file, const char* more) {
    const std::string source = testing::read_file(testing::chat_template_folder() / (file + ".jinja"));
    const auto chat = ChatTemplate::parse(source, file);
    const auto rendered = chat->render_json(
        std::string(
            R"({"messages": [{"role": "user", "content": "What is <think>?"}], "add_generation_prompt": true)") +
        more + "}");
    EXPECT_TRUE(rendered.ok());
    return output_start(*choose_output_format(source), *rendered);
  };
  const char *on = R"(, "enable_thinking": true)", *off = R"(, "enable_thinking": false)";
  EXPECT_EQ(start("Qwen3.5-4B", on), OutputStart::reasoning);
  EXPECT_EQ(start("Qwen3.5-4B", off), OutputStart::content);
  EXPECT_EQ(start("Qwen-Qwen3-0.6B", on), OutputStart::content);
  EXPECT_EQ(start("Qwen-Qwen3-0.6B", off), OutputStart::content);
  EXPECT_EQ(start("Qwen-QwQ-32B", on), OutputStart::reasoning);
  EXPECT_EQ(start("google-gemma-4-31B-it", on), OutputStart::content);
  EXPECT_EQ(start("google-gemma-4-31B-it", off), OutputStart::content);
  EXPECT_EQ(start("deepseek-ai-DeepSeek-R1-Distill-Llama-8B", ""), OutputStart::reasoning);
  EXPECT_EQ(start("deepseek-ai-DeepSeek-V3.1", on), OutputStart::reasoning_opened);
  EXPECT_EQ(start("deepseek-ai-DeepSeek-V3.1", off), OutputStart::content);
}

}  // namespace
}  // namespace rafter::text
