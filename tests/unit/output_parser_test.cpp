// What each family's markup means, how formats are chosen, and the shape of the events.
#include "text/output_parser.h"

#include <gtest/gtest.h>

#include "tests/support/output_events.h"

namespace rafter::text {
namespace {

using testing::answer_of;
using testing::lines_of;
using testing::output_format;
using testing::output_options;
using testing::parse_cut;
using testing::parse_whole;
using Lines = std::vector<std::string>;

// The events of `input`, given at once; byte by byte gives the same.
Lines events(const std::string& family, const std::string& input, const std::string& reasoning = "none",
             OutputParserOptions options = output_options()) {
  const OutputFormat format = output_format(family, reasoning);
  const auto whole = parse_whole(format, options, input);
  EXPECT_EQ(parse_cut(format, options, input, [] { return size_t{1}; }), whole) << input;
  return lines_of(whole);
}

Lines called(const std::string& name, const std::string& arguments) {
  return {"call 0: " + name, "arguments 0: " + arguments, "end 0"};
}

// Text that is no call: it comes out as it is, whether or not a call was begun before that showed.
void expect_text(const std::string& family, const std::string& input, const std::string& reasoning = "none") {
  OutputParserOptions options = output_options();
  const auto streamed = answer_of(parse_whole(output_format(family, reasoning), options, input));
  EXPECT_EQ(streamed.content, input);
  EXPECT_TRUE(streamed.calls.empty());
  options.delivery = CallDelivery::whole;
  EXPECT_EQ(events(family, input, reasoning, options), (Lines{"content: " + input}));
}

TEST(OutputParser, Hermes) {
  EXPECT_EQ(events("hermes", R"(<tool_call>
{"name": "get_weather", "arguments": {"city": "Zürich", "days": 3}}
</tool_call>)"),
            called("get_weather", R"({"city":"Zürich","days":3})"));
  // The envelope of the OpenAI protocol, arguments in a string, no arguments, the name last.
  EXPECT_EQ(
      events("hermes", R"(<tool_call>{"type": "function", "function": {"arguments": "{\"city\": \"Z\\n\"}",
                              "name": "get_weather"}}</tool_call>)"),
      called("get_weather", R"({"city":"Z\n"})"));
  EXPECT_EQ(events("hermes", R"(<tool_call>{"name": "get_weather"}</tool_call>)"),
            called("get_weather", "{}"));
  EXPECT_EQ(events("hermes", R"(<tool_call>{"name":"get_weather","arguments":null}</tool_call>)"),
            called("get_weather", "{}"));
  // Escapes that JSON does not need are undone, numbers stay as they are written.
  EXPECT_EQ(
      events("hermes",
             R"(<tool_call>{"name": "get_weather", "arguments": {"any": ["\u00e9\ud83d\ude00\/\u000a\u001f\"",
                              1.50, -0, 1e400, true, null, {}, [ ]]}}</tool_call>)"),
      called("get_weather", "{\"any\":[\"é😀/\\n\\u001f\\\"\",1.50,-0,1e400,true,null,{},[]]}"));
  // Commas before a closing bracket and raw line breaks in strings are mended.
  EXPECT_EQ(
      events("hermes",
             "<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"city\": \"a\nb\",},}</tool_call>"),
      called("get_weather", R"({"city":"a\nb"})"));
  // Markup inside a string is part of it.
  EXPECT_EQ(
      events("hermes",
             R"(<tool_call>{"name": "write-file", "arguments": {"text": "</tool_call>{}"}}</tool_call>)"),
      called("write-file", R"({"text":"</tool_call>{}"})"));
  // The answer ends where only the closing tag is missing.
  EXPECT_EQ(events("hermes", R"(<tool_call>{"name": "get_weather", "arguments": {}})"),
            called("get_weather", "{}"));
  expect_text("hermes", R"(<tool_call>{"name": "get_weather", "arguments": {"city": "Z")");
  expect_text("hermes", R"(<tool_call>{"name": "unknown", "arguments": {}}</tool_call>)");
  expect_text("hermes", R"(<tool_call>{"name": "get_weather", "arguments": {}} or so</tool_call>)");
  expect_text("hermes", R"(<tool_call>{"name": "get_weather", "arguments": [1]}</tool_call>)");
  expect_text("hermes", R"(<tool_call>{"name": "get_weather", "arguments": {"a": 01}}</tool_call>)");
  expect_text("hermes", R"(<tool_call>{"arguments": {}}</tool_call>)");
  expect_text("hermes", "Use <tool_call> and </tool_call>, or <tool_cal");
}

TEST(OutputParser, SeveralCallsAndTextAround) {
  const std::string one = R"(<tool_call>{"name": "get_weather", "arguments": {"city": "A"}}</tool_call>)";
  const std::string two = R"(<tool_call>{"name": "get_weather", "arguments": {"city": "B"}}</tool_call>)";
  EXPECT_EQ(events("hermes", "Let me look.\n" + one + "\n \n" + two + "\nDone. \n"),
            (Lines{"content: Let me look.\n", "call 0: get_weather", "arguments 0: {\"city\":\"A\"}", "end 0",
                   "call 1: get_weather", "arguments 1: {\"city\":\"B\"}", "end 1", "content: \nDone. \n"}));
  // White space alone is dropped around calls, and nowhere else.
  EXPECT_EQ(events("hermes", "\n\n" + one + "\n").size(), 3u);
  EXPECT_EQ(events("hermes", "\n\n"), (Lines{"content: \n\n"}));
  // Two objects between one pair of tags, and an array of them.
  EXPECT_EQ(
      events("hermes", R"(<tool_call>{"name":"get_weather"} {"name":"place_order"}</tool_call>)").size(), 6u);
  EXPECT_EQ(events("smollm",
                   R"(<tool_call>[{"name": "get_weather", "arguments": {"city": "A"}}, {"name": "place_order",
                              "arguments": {"gift": true}}]</tool_call>)"),
            (Lines{"call 0: get_weather", "arguments 0: {\"city\":\"A\"}", "end 0", "call 1: place_order",
                   "arguments 1: {\"gift\":true}", "end 1"}));
  // A broken call does not hide the next one.
  EXPECT_EQ(
      events("hermes", "<tool_call>{oops" + one),
      (Lines{"content: <tool_call>{oops", "call 0: get_weather", "arguments 0: {\"city\":\"A\"}", "end 0"}));
  EXPECT_EQ(events("hermes", "<tool_call>" + one)[0], "content: <tool_call>");
}

TEST(OutputParser, ABrokenCallIsTakenBack) {
  const std::string broken = R"(<tool_call>{"name": "get_weather", "arguments": {"city": "A"; )";
  EXPECT_EQ(events("hermes", "a " + broken + "b"),
            (Lines{"content: a ", "call 0: get_weather", "arguments 0: {\"city\":\"A\"", "void 0",
                   "content: " + broken + "b"}));
  OutputParserOptions options = output_options();
  options.delivery = CallDelivery::whole;
  EXPECT_EQ(events("hermes", "a " + broken + "b", "none", options), (Lines{"content: a " + broken + "b"}));
}

TEST(OutputParser, ArgumentsComeAsTheyAreWritten) {
  OutputParser parser(output_format("hermes"), output_options());
  EXPECT_TRUE(parser.push("<tool_call>{\"name\": \"write-file\", \"arg").empty());
  EXPECT_EQ(lines_of(parser.push("uments\": {\"text\": \"one")),
            (Lines{"call 0: write-file", "arguments 0: {\"text\":\"one"}));
  EXPECT_EQ(lines_of(parser.push(" two")), (Lines{"arguments 0:  two"}));
  EXPECT_EQ(lines_of(parser.push("\"}}")), (Lines{"arguments 0: \"}"}));
  EXPECT_FALSE(parser.called());
  EXPECT_EQ(lines_of(parser.push("</tool_call>")), (Lines{"end 0"}));
  EXPECT_TRUE(parser.called());

  OutputParser xml(output_format("qwen3.5"), output_options());
  EXPECT_TRUE(xml.push("<tool_call>\n<function=write-file>\n").empty());
  EXPECT_EQ(lines_of(xml.push("<parameter=text>\none")),
            (Lines{"call 0: write-file", "arguments 0: {\"text\":\"one"}));
  EXPECT_EQ(lines_of(xml.push(" two\n</para")), (Lines{"arguments 0:  two"}));
  EXPECT_EQ(lines_of(xml.push("graph")), (Lines{"arguments 0: \\n</paragraph"}));

  OutputParser gemma(output_format("gemma4"), output_options());
  EXPECT_TRUE(gemma.push("<|tool_call>call:write-file").empty());
  EXPECT_EQ(lines_of(gemma.push("{text:<|\"|>one")),
            (Lines{"call 0: write-file", "arguments 0: {\"text\":\"one"}));
  EXPECT_EQ(lines_of(gemma.push(" two<|\"")), (Lines{"arguments 0:  two"}));
}

TEST(OutputParser, Qwen35) {
  EXPECT_EQ(events("qwen3.5",
                   "<tool_call>\n<function=get_weather>\n<parameter=city>\nZürich\n</parameter>\n"
                   "<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>"),
            called("get_weather", R"({"city":"Zürich","days":3})"));
  EXPECT_EQ(events("qwen3.5", "<tool_call>\n<function=get_weather>\n</function>\n</tool_call>"),
            called("get_weather", "{}"));
  // A value is literal to the byte, but for one line break at each end.
  EXPECT_EQ(
      events("qwen3.5",
             "<tool_call>\n<function=write-file>\n<parameter=text>\n\n a &lt; \"b\"\\\n</parameter> </p>\n\n"
             "</parameter>\n</function>\n</tool_call>"),
      called("write-file", R"({"text":"\n a &lt; \"b\"\\\n</parameter> </p>\n"})"));
  EXPECT_EQ(events("qwen3.5",
                   "<tool_call><function=write-file><parameter=text>a</parameter></function></tool_call>"),
            called("write-file", R"({"text":"a"})"));
  EXPECT_EQ(
      events("qwen3.5",
             "<tool_call>\n<function=write-file>\n<parameter=text>\n</parameter>\n</function>\n</tool_call>"),
      called("write-file", R"({"text":""})"));
  expect_text("qwen3.5", "<tool_call>\n<function=nothing>\n</function>\n</tool_call>");
  expect_text("qwen3.5", "<tool_call>\n<function=write-file>\n<parameter=text>\nnever ends</parameter>\n");
  expect_text("qwen3.5", "<tool_call>\n<function=write-file>\ntext\n</function>\n</tool_call>");
  expect_text("qwen3.5", "<tool_call>\n{\"name\": \"write-file\", \"arguments\": {}}\n</tool_call>");
}

// serving: schema-aware decoding.
TEST(OutputParser, ValuesAreTypedByTheSchema) {
  const auto value = [&](const std::string& key, const std::string& text) {
    const auto answer =
        answer_of(parse_whole(output_format("qwen3.5"), output_options(),
                              "<tool_call>\n<function=get_weather>\n<parameter=" + key + ">\n" + text +
                                  "\n</parameter>\n</function>\n</tool_call>"));
    const std::string prefix = "{\"" + key + "\":";
    return answer.calls.at(0).arguments.substr(prefix.size(),
                                               answer.calls[0].arguments.size() - prefix.size() - 1);
  };
  for (const char* text : {"123", "true", "null", "{}", "[1]", ""})
    EXPECT_EQ(value("city", text), '"' + std::string(text) + '"');
  EXPECT_EQ(value("units", "null"), "null");
  EXPECT_EQ(value("units", "nul"), "\"nul\"");
  EXPECT_EQ(value("units", "true"), "\"true\"");
  EXPECT_EQ(value("days", "1.0"), "1");
  EXPECT_EQ(value("days", " -12 "), "-12");
  EXPECT_EQ(value("days", "1.5"), "1.5");
  EXPECT_EQ(value("days", "null"), "\"null\"");
  EXPECT_EQ(value("days", "12345678901234567890123"), "12345678901234567890123");
  EXPECT_EQ(value("days", "three"), "\"three\"");
  EXPECT_EQ(value("days", "007"), "\"007\"");
  EXPECT_EQ(value("share", "1.0"), "1.0");
  EXPECT_EQ(value("share", "2e3"), "2e3");
  EXPECT_EQ(value("share", "NaN"), "\"NaN\"");
  EXPECT_EQ(value("exact", "True"), "true");
  EXPECT_EQ(value("exact", "FALSE"), "false");
  EXPECT_EQ(value("exact", "yes"), "\"yes\"");
  EXPECT_EQ(value("any", "[1, 2]"), "[1,2]");
  EXPECT_EQ(value("any", "plain"), "\"plain\"");
  EXPECT_EQ(value("any", "True"), "\"True\"");
  EXPECT_EQ(value("undeclared", "7"), "7");
}

TEST(ArgumentJson, ByDeclaredTypes) {
  EXPECT_EQ(argument_json("[1, 'a', None, True, (2,), {'k': \"v\\x41\"}]", kArrayType),
            R"([1,"a",null,true,[2],{"k":"vA"}])");
  EXPECT_EQ(argument_json("{'a': 1,}", kObjectType), R"({"a":1})");
  EXPECT_EQ(argument_json("[1", kArrayType), R"("[1")");
  EXPECT_EQ(argument_json("[1]", kObjectType), R"("[1]")");
  EXPECT_EQ(argument_json("5", kIntegerType | kStringType), "5");
  EXPECT_EQ(argument_json("x", kIntegerType | kStringType), "\"x\"");
  EXPECT_EQ(argument_json("\"x\"", kIntegerType | kStringType), R"("\"x\"")");
  EXPECT_EQ(argument_json("1.0", kIntegerType | kNumberType), "1.0");
  EXPECT_EQ(argument_json("None", kIntegerType | kNullType), "null");
  EXPECT_EQ(argument_json("\"x\"", 0), "\"x\"");
  EXPECT_EQ(argument_json(std::string(5000, '['), kArrayType), '"' + std::string(5000, '[') + '"');
}

TEST(ToolSchemas, TypesFromWhatSchemasSay) {
  const auto tools = ToolSchemas::from_json(R"([{"name": "f", "parameters": {"properties": {
      "enum": {"enum": ["a", 1]}, "const": {"const": true}, "any_of": {"anyOf": [{"type": "string"}, {"type": "null"}]},
      "open": {"anyOf": [{"type": "string"}, {}]}, "properties": {"properties": {"x": {"type": "INTEGER"}}},
      "nullable": {"type": "number", "nullable": true}, "items": {"items": {"type": "string"}}}}}])");
  ASSERT_TRUE(tools.ok());
  const ArgumentSchema* f = tools->find("f");
  ASSERT_NE(f, nullptr);
  EXPECT_EQ(f->property("enum").types, kStringType | kIntegerType);
  EXPECT_EQ(f->property("const").types, kBooleanType);
  EXPECT_EQ(f->property("any_of").types, kStringType | kNullType);
  EXPECT_EQ(f->property("open").types, 0);
  EXPECT_EQ(f->property("properties").types, kObjectType);
  EXPECT_EQ(f->property("properties").property("x").types, kIntegerType);
  EXPECT_EQ(f->property("nullable").types, kNumberType | kNullType);
  EXPECT_EQ(f->property("items").item().types, kStringType);
  EXPECT_EQ(f->property("missing").types, 0);
  EXPECT_EQ(tools->find("g"), nullptr);
  for (const char* wrong : {"{}", "[1]", "[", "", "7"})
    EXPECT_FALSE(ToolSchemas::from_json(wrong).ok()) << wrong;
  EXPECT_FALSE(ToolSchemas::from_json(std::string(100'000, '[')).ok());
  EXPECT_TRUE(ToolSchemas::from_json("null")->empty());
}

TEST(OutputParser, Gemma4) {
  EXPECT_EQ(
      events("gemma4", R"(<|tool_call>call:get_weather{city:<|"|>Zürich, word:{x}<|"|>,days:3}<tool_call|>)"),
      called("get_weather", R"({"city":"Zürich, word:{x}","days":3})"));
  EXPECT_EQ(
      events(
          "gemma4",
          R"(<|tool_call>call:place_order{gift:false,items:[{price:1.0,sku:<|"|>A<1>"\<|"|>},{}],note:None}<tool_call|>)"),
      called("place_order", R"({"gift":false,"items":[{"price":1.0,"sku":"A<1>\"\\"},{}],"note":null})"));
  EXPECT_EQ(events("gemma4", "<|tool_call>call:get_weather{}<tool_call|>"), called("get_weather", "{}"));
  // The schema decides about bare words.
  EXPECT_EQ(
      events(
          "gemma4",
          "<|tool_call>call:get_weather{city: Paris ,days: 3, any:None,exact:True, units:null}<tool_call|>"),
      called("get_weather", R"({"city":"Paris","days":3,"any":null,"exact":true,"units":null})"));
  EXPECT_EQ(events("gemma4", "<|tool_call>call:get_weather{city:12}<tool_call|>"),
            called("get_weather", R"({"city":"12"})"));
  EXPECT_EQ(events("gemma4", "<|tool_call>call:place_order{to:{name:7,<|\"|>b c<|\"|>:[7,]}}<tool_call|>"),
            called("place_order", R"({"to":{"name":"7","b c":[7]}})"));
  EXPECT_EQ(events("gemma4", R"(<|tool_call>call:get_weather{city:"a\"b"}<tool_call|>)"),
            called("get_weather", R"({"city":"a\"b"})"));
  // Several calls in one segment, and several segments.
  EXPECT_EQ(events("gemma4",
                   "<|tool_call>call:get_weather{days:1}call:get_weather{days:2}<tool_call|><|tool_call>"
                   "call:get_weather{days:3}<tool_call|>")
                .size(),
            9u);
  expect_text("gemma4", "<|tool_call>call:get_weather{city:<|\"|>open}<tool_call|>");
  expect_text("gemma4", "<|tool_call>call:get_weather{city}<tool_call|>");
  expect_text("gemma4", "<|tool_call>get_weather{}<tool_call|>");
  expect_text("gemma4", "<|tool_call>call:other{}<tool_call|>");
  expect_text("gemma4", "<|tool_call>call:get_weather{days:1");
}

TEST(OutputParser, MiniCpm5) {
  EXPECT_EQ(events("minicpm5", R"(<function name="get_weather"><param name="city"> Z&#252;rich &amp; &x; &lt;
 </param><param name="days">3</param></function>)"),
            called("get_weather", R"({"city":"Zürich & &x; <","days":3})"));
  EXPECT_EQ(events("minicpm5", R"(<function name="write-file">
  <param name="text"><![CDATA[ a </param> &lt; ]] b
]]></param></function>)"),
            called("write-file", R"({"text":" a </param> &lt; ]] b\n"})"));
  EXPECT_EQ(events("minicpm5",
                   "<function name=\"write-file\"><param "
                   "name=\"text\"><![CDATA[a]]]]><![CDATA[>b]]></param></function>"),
            called("write-file", R"({"text":"a]]>b"})"));
  EXPECT_EQ(events("minicpm5", R"(<function name="write-file"><param name="text"><b>x</param></function>)"),
            called("write-file", R"({"text":"<b>x"})"));
  EXPECT_EQ(events("minicpm5", R"(<function name="write-file"><param name="text"></param></function>)"),
            called("write-file", R"({"text":""})"));
  EXPECT_EQ(events("minicpm5",
                   R"(<function name="get_weather"></function><function name="get_weather"></function>)")
                .size(),
            6u);
  expect_text("minicpm5", R"(<function name="get_weather"><param name="city">Z)");
  expect_text("minicpm5", R"(<function name="get_weather"><other/></function>)");
  expect_text("minicpm5", R"(<function name="other"></function>)");
}

TEST(OutputParser, Llama3) {
  EXPECT_EQ(events("llama3", R"({"name": "get_weather", "parameters": {"city": "Z"}})"),
            called("get_weather", R"({"city":"Z"})"));
  EXPECT_EQ(events("llama3",
                   "\n<|python_tag|>{\"type\": \"function\", \"name\": \"get_weather\", \"parameters\": {}}"),
            called("get_weather", "{}"));
  EXPECT_EQ(events("llama3",
                   R"({"name": "get_weather", "parameters": {}}; {"name": "place_order", "parameters": {}})")
                .size(),
            6u);
  EXPECT_EQ(events("llama3", R"(<|python_tag|>get_weather.call(city="Z", days=3, any=['a', None]))"),
            called("get_weather", R"({"city":"Z","days":3,"any":["a",null]})"));
  expect_text("llama3", R"({"answer": 42})");
  expect_text("llama3", R"({"name": "get_weather", "city": "Z"})");
  expect_text("llama3", R"({"name": "get_weather"})");
  expect_text("llama3", R"(So: {"name": "get_weather", "parameters": {}})");
  expect_text("llama3", R"({"name": "get_weather", "parameters": {}} is a call)");
  expect_text("llama3", "<|python_tag|>print(1)");
}

TEST(OutputParser, Mistral) {
  EXPECT_EQ(events("mistral", R"([TOOL_CALLS]get_weather[ARGS]{"city": "Z"}[TOOL_CALLS]place_order[ARGS]{})"),
            (Lines{"call 0: get_weather", "arguments 0: {\"city\":\"Z\"}", "end 0", "call 1: place_order",
                   "arguments 1: {}", "end 1"}));
  EXPECT_EQ(
      events("mistral",
             R"([TOOL_CALLS] [{"name": "get_weather", "arguments": {"city": "Z"}, "id": "abcdefghi"}])"),
      called("get_weather", R"({"city":"Z"})"));
  const auto with_id = parse_whole(output_format("mistral"), output_options(),
                                   R"([TOOL_CALLS]get_weather[CALL_ID]abcdefghi[ARGS]{})");
  ASSERT_EQ(with_id.size(), 3u);
  EXPECT_EQ(with_id[0].id, "abcdefghi");
  EXPECT_EQ(
      answer_of(parse_whole(output_format("mistral"), output_options(), "[TOOL_CALLS]get_weather[ARGS]{}"))
          .calls[0]
          .id.size(),
      9u);
  expect_text("mistral", R"([TOOL_CALLS]get_weather)");
  expect_text("mistral", R"([TOOL_CALLS]other[ARGS]{})");
  expect_text("mistral", R"([TOOL_CALLS]get_weather[ARGS][1])");
  expect_text("mistral", R"([TOOL_CALL] [TOOL_CALLS)");
  expect_text("mistral", R"([TOOL_CALLS][] and more)");  // a list of no calls is no call
  expect_text("smollm", R"(<tool_call>[]</tool_call>)");
}

TEST(OutputParser, DeepSeek) {
  EXPECT_EQ(events("deepseek",
                   "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{\"city\": "
                   "\"Z\"}<｜tool▁call▁end｜>"
                   "<｜tool▁call▁begin｜>place_order<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>"),
            (Lines{"call 0: get_weather", "arguments 0: {\"city\":\"Z\"}", "end 0", "call 1: place_order",
                   "arguments 1: {}", "end 1"}));
  EXPECT_EQ(events("deepseek",
                   "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n{"
                   "\"city\": \"Z\"}\n```"
                   "<｜tool▁call▁end｜>"),
            called("get_weather", R"({"city":"Z"})"));
  expect_text("deepseek",
              "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{\"city\": \"Z\"}");
  expect_text("deepseek", "<｜tool▁calls▁begin｜>nothing<｜tool▁calls▁end｜>");
}

TEST(OutputParser, ReasoningBetweenThinkTags) {
  EXPECT_EQ(events("hermes", "<think>\nIt is 4.\n\nSo.\n</think>\n\n4 \n", "think"),
            (Lines{"reasoning: It is 4.\n\nSo.", "content: 4 \n"}));
  EXPECT_EQ(events("hermes", "<think>\n\n</think>\n\n4", "think"), (Lines{"content: 4"}));
  EXPECT_EQ(events("hermes", "<think>cut </thin", "think"), (Lines{"reasoning: cut </thin"}));
  EXPECT_EQ(events("hermes", "<think>a</think>b", "none"), (Lines{"content: <think>a</think>b"}));
  EXPECT_EQ(events("hermes", "</think>x", "think"), (Lines{"content: </think>x"}));
  // A call in reasoning is none; one after it is.
  const std::string call = R"(<tool_call>{"name": "get_weather", "arguments": {}}</tool_call>)";
  EXPECT_EQ(events("hermes", "<think>\n" + call + "\n</think>\n\n" + call, "think"),
            (Lines{"reasoning: " + call, "call 0: get_weather", "arguments 0: {}", "end 0"}));
  OutputParserOptions options = output_options();
  options.start = OutputStart::reasoning;
  EXPECT_EQ(events("hermes", "Hm.\n</think>\n\n4", "think", options),
            (Lines{"reasoning: Hm.", "content: 4"}));
  EXPECT_EQ(events("hermes", "\nHm.", "think", options), (Lines{"reasoning: \nHm."}));
  options.start = OutputStart::reasoning_opened;
  EXPECT_EQ(events("hermes", "\nHm.</think>4", "think", options), (Lines{"reasoning: Hm.", "content: 4"}));
  EXPECT_EQ(
      events("llama3", "<think>a</think>\n\n{\"name\": \"get_weather\", \"parameters\": {}}", "think").size(),
      4u);
}

TEST(OutputParser, GemmaChannels) {
  const auto text = [](const std::string& input) { return events("gemma4", input, "channel"); };
  EXPECT_EQ(text("<|channel>thought\nIt is 4.\n<channel|>4"), (Lines{"reasoning: It is 4.", "content: 4"}));
  EXPECT_EQ(text("<|channel>thought\n<channel|>4"), (Lines{"content: 4"}));
  EXPECT_EQ(text("<|channel>thought<channel|>4"), (Lines{"content: 4"}));
  EXPECT_EQ(text("<|channel>thoughtful<channel|>4"), (Lines{"reasoning: thoughtful", "content: 4"}));
  EXPECT_EQ(text("<|channel>thought\ncut"), (Lines{"reasoning: cut"}));
  EXPECT_EQ(text("<|channel>plan\n<channel|><|tool_call>call:get_weather{}<tool_call|>"),
            (Lines{"reasoning: plan", "call 0: get_weather", "arguments 0: {}", "end 0"}));
}

TEST(OutputParser, WithoutToolsNothingIsACall) {
  const std::string input =
      "\n "
      R"(<tool_call>{"name": "f", "arguments": {}}</tool_call>)";
  OutputParserOptions options;
  options.parse_calls = false;
  EXPECT_EQ(events("hermes", input, "none", options), (Lines{"content: " + input}));
  EXPECT_EQ(events("llama3", R"({"name": "f", "parameters": {}})", "think", options).size(), 1u);
  EXPECT_EQ(events("hermes", "<think>a</think>b", "think", options), (Lines{"reasoning: a", "content: b"}));
  options.parse_calls = true;  // nothing declared: every name is fine
  EXPECT_EQ(events("hermes", input, "none", options), called("f", "{}"));
  EXPECT_EQ(events("none", input, "none"), (Lines{"content: " + input}));
}

TEST(OutputParser, MalformedBytesBecomeReplacementCharacters) {
  EXPECT_EQ(events("hermes", "a\xFF\xC3(", "none"), (Lines{"content: a\xEF\xBF\xBD\xEF\xBF\xBD("}));
  EXPECT_EQ(
      events(
          "hermes",
          "<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"city\": \"\xFF\\ud800\"}}</tool_call>"),
      called("get_weather", "{\"city\":\"\xEF\xBF\xBD\xEF\xBF\xBD\"}"));
}

TEST(OutputParser, IdsDependOnSeedAndIndex) {
  const std::string one = R"(<tool_call>{"name":"get_weather"}</tool_call>)";
  OutputParserOptions options = output_options();
  const auto ids = [&] {
    const auto answer = answer_of(parse_whole(output_format("hermes"), options, one + one));
    return std::vector{answer.calls.at(0).id, answer.calls.at(1).id};
  };
  const auto first = ids();
  EXPECT_EQ(first[0].substr(0, 5), "call_");
  EXPECT_EQ(first[0].size(), 13u);
  EXPECT_NE(first[0], first[1]);
  EXPECT_EQ(ids(), first);
  options.id_seed = 8;
  EXPECT_NE(ids()[0], first[0]);
}

TEST(OutputFormat, IsChosenByTheTemplateOrByName) {
  const auto family = [](const char* source) {
    return std::string(choose_output_format(source)->family_name());
  };
  EXPECT_EQ(family("<|tool_call>call:<tool_call|>"), "gemma4");
  EXPECT_EQ(family("{{ '<tool_call>\\n<function=' }}"), "qwen3.5");
  EXPECT_EQ(family("<tool_call>\n{\"name\""), "hermes");
  EXPECT_EQ(family("<function name=\"f\">"), "minicpm5");
  EXPECT_EQ(family("[TOOL_CALLS]"), "mistral");
  EXPECT_EQ(family("plain"), "none");
  EXPECT_EQ(std::string(choose_output_format("[TOOL_CALLS]", "hermes", "think")->family_name()), "hermes");
  EXPECT_EQ(std::string(choose_output_format("[TOOL_CALLS]", "none")->family_name()), "none");
  EXPECT_EQ(std::string(choose_output_format("</think>", "auto", "none")->reasoning_name()), "none");
  const auto unknown = choose_output_format("", "hermse");
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().code, base::ErrorCode::invalid_argument);
  EXPECT_NE(unknown.error().message().find("hermes"), std::string::npos);
  EXPECT_FALSE(choose_output_format("", "auto", "thunk").ok());
  EXPECT_EQ(output_family_names().size(), 9u);
}

TEST(OutputFormat, ReasoningMayBeginInThePrompt) {
  const OutputFormat think = output_format("hermes", "think");
  EXPECT_EQ(output_start(think, "<|im_start|>assistant\n"), OutputStart::content);
  EXPECT_EQ(output_start(think, "<|im_start|>assistant\n<think>\n"), OutputStart::reasoning);
  EXPECT_EQ(output_start(think, "<|im_start|>assistant\n<think>"), OutputStart::reasoning_opened);
  EXPECT_EQ(output_start(think, "<|im_start|>assistant\n<think>\n\n</think>\n\n"), OutputStart::content);
  EXPECT_EQ(output_start(think, "What does <think> mean?<|im_end|>\n<|im_start|>assistant\n"),
            OutputStart::content);
  const OutputFormat channel = output_format("gemma4", "channel");
  EXPECT_EQ(output_start(channel, "<|turn>model\n<|channel>thought\n<channel|>"), OutputStart::content);
  EXPECT_EQ(output_start(channel, "<|turn>model\n<|channel>thought\n"), OutputStart::reasoning);
  EXPECT_EQ(output_start(output_format("hermes"), "<think>"), OutputStart::content);
}

}  // namespace
}  // namespace rafter::text
