// Planted faults in how messages become tokens: the vectors of transformers' own prompts must see them.
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include <gtest/gtest.h>

#include "decode/model_text.h"
#include "tests/support/synth_model.h"
#include "tests/support/temp_folder.h"

namespace rafter::decode {
namespace {

using Messages = std::vector<ChatMessage>;
using PromptMaker = std::function<std::vector<int32_t>(const ModelText&, const Messages&)>;

// Conversations whose prompt `make` gets wrong.
int count_failures(const PromptMaker& make) {
  std::ifstream file(RAFTER_SOURCE_DIR "/tests/data/chat_prompt_vectors.json");
  int failures = 0;
  for (const auto& vector : nlohmann::json::parse(file)) {
    if (!vector.contains("messages")) continue;
    testing::TempFolder folder;
    const std::string path = testing::write_synth_model(vector["shape"], "mlx4", folder.path());
    const format::Checkpoint checkpoint = format::Checkpoint::open(path).value();
    const ModelText text = ModelText::from_checkpoint(checkpoint).value();
    Messages messages;
    for (const auto& message : vector["messages"]) messages.push_back({message["role"], message["content"]});
    failures += make(text, messages) == vector["ids"].get<std::vector<int32_t>>() ? 0 : 1;
  }
  return failures;
}

TEST(ModelTextMutants, TheUnchangedPromptPasses) {
  EXPECT_EQ(
      count_failures([](const ModelText& text, const Messages& m) { return text.chat_prompt(m).value(); }),
      0);
}

TEST(ModelTextMutants, BosAroundARenderedTemplateIsCaught) {
  EXPECT_GT(
      count_failures([](const ModelText& text, const Messages& messages) {
        return text.tokenizer().encode(text.render_chat(messages).value(), /*add_special=*/true).value();
      }),
      0);
}

TEST(ModelTextMutants, MarkersReadAsTextAreCaught) {
  EXPECT_GT(count_failures([](const ModelText& text, const Messages& messages) {
              const std::string rendered = text.render_chat(messages).value();
              return text.tokenizer().encode(rendered, false, text::SpecialTokens::as_text).value();
            }),
            0);
}

TEST(ModelTextMutants, ALostSystemMessageIsCaught) {
  EXPECT_GT(count_failures([](const ModelText& text, Messages messages) {
              if (messages.front().role == "system") messages.erase(messages.begin());
              return text.chat_prompt(messages).value();
            }),
            0);
}

TEST(ModelTextMutants, TrimmedContentIsCaught) {
  EXPECT_GT(count_failures([](const ModelText& text, Messages messages) {
              std::string& content = messages.back().content;
              while (content.ends_with(' ')) content.pop_back();
              return text.chat_prompt(messages).value();
            }),
            0);
}

}  // namespace
}  // namespace rafter::decode
