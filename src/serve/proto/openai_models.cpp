#include "serve/proto/openai_models.h"

namespace rafter::serve {

Json model_json(const ModelCard& card) {
  Json capabilities = Json::array({card.embeddings ? "embeddings" : "completion"});
  if (card.tools) capabilities.push_back("tools");
  if (card.reasoning) capabilities.push_back("reasoning");
  Json json = {{"id", card.id}, {"object", "model"}, {"created", card.created}, {"owned_by", "rafter"}};
  if (card.context > 0) {
    for (const char* name : {"context_window", "context_length", "max_model_len"}) json[name] = card.context;
  }
  json["reasoning"] = card.reasoning;
  json["vision"] = false;
  json["capabilities"] = std::move(capabilities);
  json["meta"] = {{"n_ctx", card.context}, {"n_ctx_train", card.trained_context}};
  return json;
}

Json models_json(const ModelCard& served, const std::vector<std::string>& others) {
  Json data = Json::array({model_json(served)});
  for (const std::string& id : others) {
    if (id != served.id)
      data.push_back({{"id", id}, {"object", "model"}, {"created", served.created}, {"owned_by", "rafter"}});
  }
  return {{"object", "list"}, {"data", std::move(data)}};
}

}  // namespace rafter::serve
