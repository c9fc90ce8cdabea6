// rafter tokenize and rafter detokenize: between text and token ids.
#include <CLI/CLI.hpp>
#include <charconv>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/utf8.h"
#include "cli/find_model.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "decode/open_tokenizer.h"

namespace rafter::cli {
namespace {

struct Flags {
  std::string model, input;
  bool no_special = false, skip_special = false, json = false;
};

// Also a folder that holds nothing but a tokenizer, by whatever name.
base::Result<text::Tokenizer> find_tokenizer(const std::string& model) {
  std::error_code failed;
  for (const char* name : {"tokenizer.json", "tokenizer.model"}) {
    if (std::filesystem::is_regular_file(std::filesystem::path(model) / name, failed)) {
      return decode::open_tokenizer(model);
    }
  }
  RAFTER_ASSIGN(const NamedModel named, find_model(model));
  return decode::open_tokenizer(named.path);
}

std::string text_of(const std::string& argument) {
  if (argument != "-") return argument;
  return {std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
}

// Vocabularies may hold bytes that are not text.
std::string printable(std::string_view piece) { return base::replace_malformed_utf8(piece); }

base::Status tokenize(const Flags& flags) {
  RAFTER_ASSIGN(const text::Tokenizer tokenizer, find_tokenizer(flags.model));
  RAFTER_ASSIGN(const auto ids, tokenizer.encode(text_of(flags.input), !flags.no_special));
  if (flags.json) {
    nlohmann::ordered_json pieces = nlohmann::ordered_json::array();
    for (const int32_t id : ids) pieces.push_back(printable(tokenizer.piece(id)));
    std::cout << nlohmann::ordered_json{{"tokens", ids}, {"pieces", pieces}}.dump() << "\n";
    return {};
  }
  for (const int32_t id : ids) {
    std::cout << fmt::format("{:>7}  {}\n", id, one_line(printable(tokenizer.piece(id))));
  }
  return {};
}

// Numbers with anything that is not a letter between them: "1 2 3", "[1, 2, 3]"; or what `tokenize --json`
// prints.
base::Result<std::vector<int32_t>> read_ids(const std::string& text) {
  const nlohmann::json object = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  const std::string list = object.is_object() && object.contains("tokens") ? object["tokens"].dump() : text;
  std::vector<int32_t> ids;
  for (size_t at = 0; at < list.size();) {
    if (std::string_view(" \t\r\n,[]").find(list[at]) != std::string_view::npos) {
      ++at;
      continue;
    }
    int32_t id = -1;
    const auto [end, failed] = std::from_chars(list.data() + at, list.data() + list.size(), id);
    if (failed != std::errc() || id < 0) {
      return base::Error{base::ErrorCode::invalid_argument,
                         fmt::format("\"{}\" is not a token id", one_line(printable(list.substr(at, 20)))),
                         "IDS", "write them as 1 2 3 or [1, 2, 3]"};
    }
    ids.push_back(id);
    at = static_cast<size_t>(end - list.data());
  }
  return ids;
}

base::Status detokenize(const Flags& flags) {
  RAFTER_ASSIGN(const std::vector<int32_t> ids, read_ids(text_of(flags.input)));
  RAFTER_ASSIGN(const text::Tokenizer tokenizer, find_tokenizer(flags.model));
  for (const int32_t id : ids) {
    if (id < tokenizer.vocab_size()) continue;
    return base::Error{
        base::ErrorCode::invalid_argument,
        fmt::format("token {} does not exist; the vocabulary has {}", id, tokenizer.vocab_size()), "IDS", ""};
  }
  const std::string text = tokenizer.decode(ids, flags.skip_special);
  if (flags.json) {
    std::cout << nlohmann::ordered_json{{"text", text}}.dump() << "\n";
    return {};
  }
  (void)write_stdout(text);
  if (!text.ends_with('\n')) (void)write_stdout("\n");
  return {};
}

void add_model(CLI::App& app, Flags& flags) {
  app.add_option("--model", flags.model,
                 "a path (model, tokenizer.json or its folder), or part of a registered model's name")
      ->required();
}

Action define_tokenize(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  add_model(app, *flags);
  app.add_option("text", flags->input, "the text; - reads it from standard input")->required();
  app.add_flag("--no-special", flags->no_special,
               "no beginning-of-text or end-of-text token around the text");
  app.add_flag("--json", flags->json, "print one JSON object: tokens, pieces");
  return [flags] { return tokenize(*flags); };
}

Action define_detokenize(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  add_model(app, *flags);
  app.add_option("ids", flags->input, "token ids; - reads them from standard input")->required();
  app.add_flag("--skip-special", flags->skip_special, "leave special tokens out");
  app.add_flag("--json", flags->json, "print one JSON object: text");
  return [flags] { return detokenize(*flags); };
}

}  // namespace

const Verb kTokenizeVerb{
    "tokenize", "print the tokens of a text",
    "  rafter tokenize --model smollm2 \"Hello, world\"\n"
    "  rafter tokenize --model ~/models/some-model --no-special - < prompt.txt\n"
    "  rafter tokenize --model tokenizer.json --json \"Hello\" | jq '.tokens | length'\n",
    define_tokenize};

const Verb kDetokenizeVerb{
    "detokenize", "print the text of tokens",
    "  rafter detokenize --model smollm2 \"19556 28 905\"\n"
    "  rafter tokenize --model smollm2 --json \"Hello\" | rafter detokenize --model smollm2 -\n",
    define_detokenize};

}  // namespace rafter::cli
