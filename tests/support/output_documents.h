// Random answers in every family's markup, and what they must be parsed into.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

namespace rafter::testing {

using Json = nlohmann::ordered_json;

struct RandomCall {
  std::string name;
  Json arguments;
};

struct FamilySpelling {
  std::string family;
  // Calls one after another, as the family writes them.
  std::function<std::string(const std::vector<RandomCall>&, std::mt19937&)> write;
  std::vector<std::string> openers;
  bool is_whole_answer = false;  // text beside calls makes them text
};

inline std::string one_of(const std::vector<std::string>& choices, std::mt19937& random) {
  return choices[random() % choices.size()];
}

inline std::string random_value_text(std::mt19937& random) {
  static const std::vector<std::string> kParts = {"a",
                                                  "é",
                                                  "😀",
                                                  "\n",
                                                  " ",
                                                  "<",
                                                  ">",
                                                  "{",
                                                  "}",
                                                  "[",
                                                  "]",
                                                  ",",
                                                  ":",
                                                  ";",
                                                  "\"",
                                                  "'",
                                                  "\\",
                                                  "</parameter",
                                                  "</tool_call>",
                                                  "</think>",
                                                  "&lt;",
                                                  "x:",
                                                  "<|",
                                                  "|>",
                                                  "\t",
                                                  "123",
                                                  "nul",
                                                  "``",
                                                  "]]",
                                                  "<param>",
                                                  "</parameter>",
                                                  "<tool_call>",
                                                  "[ARGS]",
                                                  "<｜",
                                                  "word "};
  std::string text;
  for (uint32_t i = random() % 9; i > 0; --i) text += one_of(kParts, random);
  return text;
}

inline RandomCall random_call(std::mt19937& random) {
  if (random() % 2 == 0)
    return {"write-file", {{"path", random_value_text(random)}, {"text", random_value_text(random)}}};
  Json arguments = Json::object();
  if (random() % 2) arguments["city"] = random_value_text(random);
  if (random() % 2) arguments["days"] = static_cast<int>(random() % 2000) - 1000;
  if (random() % 2) arguments["exact"] = random() % 2 == 0;
  if (random() % 2) arguments["share"] = static_cast<int>(random() % 4096) / 64.0;
  if (random() % 2) arguments["any"] = {1, nullptr, true, {{"k", random_value_text(random)}}, Json::array()};
  return {"get_weather", arguments};
}

inline std::string dump(const Json& value, std::mt19937& random) {
  const int indent = random() % 3 == 0 ? 1 : -1;
  return value.dump(indent, ' ', random() % 3 == 0);
}

inline std::string gemma_value(const Json& value) {
  if (value.is_string()) return "<|\"|>" + value.get<std::string>() + "<|\"|>";
  if (!value.is_structured()) return value.dump();
  std::string out;
  for (const auto& [key, part] : value.items()) {
    out += (out.empty() ? "" : ",") + (value.is_object() ? key + ":" : "") + gemma_value(part);
  }
  return value.is_object() ? "{" + out + "}" : "[" + out + "]";
}

inline std::string cdata(std::string text) {
  for (size_t at = 0; (at = text.find("]]>", at)) != std::string::npos; at += 15) {
    text.replace(at, 3, "]]]]><![CDATA[>");
  }
  return "<![CDATA[" + text + "]]>";
}

inline std::vector<FamilySpelling> family_spellings() {
  const auto each = [](const std::function<std::string(const RandomCall&, std::mt19937&)>& one,
                       std::string before, std::string between, std::string after) {
    return [=](const std::vector<RandomCall>& calls, std::mt19937& random) {
      std::string text = before;
      for (size_t i = 0; i < calls.size(); ++i) text += (i > 0 ? between : "") + one(calls[i], random);
      return text + after;
    };
  };
  const auto object = [](const char* key) {
    return [=](const RandomCall& call, std::mt19937& random) {
      Json json = {{"name", call.name}, {key, call.arguments}};
      if (random() % 8 == 0) json = {{key, call.arguments}, {"name", call.name}};
      return dump(json, random);
    };
  };
  const auto qwen = [](const RandomCall& call, std::mt19937& random) {
    std::string text = "<function=" + call.name + ">\n";
    for (const auto& [key, value] : call.arguments.items()) {
      text += "<parameter=" + key + ">\n" +
              (value.is_string() ? value.get<std::string>() : dump(value, random)) + "\n</parameter>\n";
    }
    return text + "</function>";
  };
  const auto minicpm = [](const RandomCall& call, std::mt19937& random) {
    std::string text = "<function name=\"" + call.name + "\">";
    for (const auto& [key, value] : call.arguments.items()) {
      text += "<param name=\"" + key + "\">" +
              cdata(value.is_string() ? value.get<std::string>() : dump(value, random)) + "</param>";
    }
    return text + "</function>";
  };
  const auto gemma = [](const RandomCall& call, std::mt19937&) {
    return "call:" + call.name + gemma_value(call.arguments);
  };
  const auto mistral = [](const RandomCall& call, std::mt19937& random) {
    return "[TOOL_CALLS]" + call.name + "[ARGS]" + dump(call.arguments, random);
  };
  const auto deepseek = [](const RandomCall& call, std::mt19937& random) {
    const bool is_old = random() % 2 == 0;
    const std::string arguments = dump(call.arguments, random);
    return "<｜tool▁call▁begin｜>" + (is_old ? "function<｜tool▁sep｜>" : std::string()) + call.name +
           (is_old ? "\n```json\n" + arguments + "\n```" : "<｜tool▁sep｜>" + arguments) +
           "<｜tool▁call▁end｜>";
  };
  return {
      {"hermes",
       each(object("arguments"), "<tool_call>\n", "\n</tool_call>\n<tool_call>\n", "\n</tool_call>"),
       {"<tool_call>"}},
      {"smollm", each(object("arguments"), "<tool_call>[", ", ", "]</tool_call>"), {"<tool_call>"}},
      {"qwen3.5",
       each(qwen, "<tool_call>\n", "\n</tool_call>\n<tool_call>\n", "\n</tool_call>"),
       {"<tool_call>"}},
      {"minicpm5", each(minicpm, "", "\n", ""), {"<function name=\""}},
      {"gemma4", each(gemma, "<|tool_call>", "<tool_call|><|tool_call>", "<tool_call|>"), {"<|tool_call>"}},
      {"mistral", each(mistral, "", "", ""), {"[TOOL_CALLS]"}},
      {"deepseek",
       each(deepseek, "<｜tool▁calls▁begin｜>", "\n", "<｜tool▁calls▁end｜>"),
       {"<｜tool▁calls▁begin｜>"}},
      {"llama3", each(object("parameters"), "", "; ", ""), {"<|python_tag|>", "{"}, true},
  };
}

}  // namespace rafter::testing
