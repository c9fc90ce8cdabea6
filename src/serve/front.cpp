#include "serve/front.h"

#include <algorithm>
#include <chrono>
#include <random>

#include <fmt/format.h>

namespace rafter::serve {

base::Result<std::unique_ptr<Front>> Front::create(EventLoop& loop, ModelService& service,
                                                   decode::ModelText text, FrontOptions options) {
  RAFTER_ASSIGN(
      const text::OutputFormat format,
      text::choose_output_format(text.template_source(), options.tool_format, options.reasoning_format));
  return std::unique_ptr<Front>(new Front(loop, service, std::move(text), format, std::move(options)));
}

Front::Front(EventLoop& loop, ModelService& service, decode::ModelText text, text::OutputFormat format,
             FrontOptions options)
    : loop_(loop),
      service_(service),
      text_(std::move(text)),
      format_(format),
      options_(std::move(options)),
      prompts_(text_, format_, options_.prompt),
      shows_reasoning_(text_.template_source().find("reasoning") != std::string_view::npos),
      started_at_(unix_seconds()) {}

uint64_t Front::add_answer(std::function<void()> stop) {
  answers_.emplace(next_answer_, std::move(stop));
  return next_answer_++;
}

void Front::remove_answer(uint64_t id) { answers_.erase(id); }

void Front::stop_answers() {
  const auto stopped = std::exchange(answers_, {});
  for (const auto& [id, stop] : stopped) stop();
}

base::Status Front::check_model(const std::string& name) const {
  const auto holds = [&](const std::vector<std::string>& names) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  if (name.empty() || name == options_.model_id || holds(options_.aliases) || !holds(options_.other_models))
    return {};
  return base::Error{base::ErrorCode::not_found,
                     fmt::format("this server serves {}, not {}", options_.model_id, name), "model",
                     "start another with rafter serve " + name};
}

int64_t Front::context() const {
  const auto& facts = service_.facts();
  return facts ? facts->context_limit : 0;
}

ModelCard model_card(const Front& front) {
  const auto& facts = front.service().facts();
  return {.id = front.options().model_id,
          .created = front.started_at(),
          .context = front.context(),
          .trained_context = front.options().trained_context,
          .reasoning = front.format().reasoning != nullptr,
          .tools = std::string_view(front.format().family_name()) != "none",
          .embeddings = facts && facts->is_embedder};
}

int64_t unix_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::string random_hex(size_t digits) {
  static thread_local std::random_device device;  // a system call per word: ids must not repeat after a fork
  std::string text;
  while (text.size() < digits) text += fmt::format("{:08x}", device());
  return text.substr(0, digits);
}

base::Error too_many_to_read() {
  return {base::ErrorCode::busy, "too many requests are being read", "", "try again in a moment"};
}

HttpResponse error_response(const ApiError& error, const Json& body) {
  HttpResponse response{error.status, to_text(body)};
  if (error.retry_after) response.headers.emplace_back("Retry-After", std::to_string(*error.retry_after));
  return response;
}

void respond_json(HttpExchange& exchange, const Json& json, int status) {
  exchange.respond({status, to_text(json)});
}

void respond_error(HttpExchange& exchange, const ApiError& error) {
  exchange.respond(error_response(error, openai_error(error)));
}

}  // namespace rafter::serve
