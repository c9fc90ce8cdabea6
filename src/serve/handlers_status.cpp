// Routes about the server itself. They answer whatever the model does.
#include <fmt/format.h>

#include "base/version.h"
#include "serve/handlers.h"

namespace rafter::serve::handlers {
namespace {

// Prometheus' text format.
class MetricsText {
 public:
  void add(const char* name, const char* type, const char* help, double value,
           const std::string& labels = "") {
    if (last_ != name)
      text_ += fmt::format("# HELP rafter_{0} {1}\n# TYPE rafter_{0} {2}\n", name, help, type);
    last_ = name;
    text_ += fmt::format("rafter_{}{} {}\n", name, labels, value);
  }
  std::string text_;

 private:
  std::string last_;
};

}  // namespace

void index(Front& front, RoutedRequest, Exchange exchange) {
  Json endpoints = Json::array();
  for (const Route& route : routes()) endpoints.push_back(std::string(route.method) + " " + route.path);
  respond_json(*exchange, {{"name", "rafter"},
                           {"version", base::version()},
                           {"model", front.options().model_id},
                           {"endpoints", std::move(endpoints)}});
}

// Always 200: the server is there. Whether the model is says `state`, and /ready by its status.
void health(Front& front, RoutedRequest, Exchange exchange) {
  exchange->respond({200, fmt::format(R"({{"status": "ok", "state": "{}"}})",
                                      service_state_name(front.service().state()))});
}

void ready(Front& front, RoutedRequest, Exchange exchange) {
  const ServiceState state = front.service().state();
  const Json json = {{"state", service_state_name(state)}, {"reason", front.service().state_reason()}};
  if (state == ServiceState::ready) return respond_json(*exchange, json);
  exchange->respond({503, to_text(json), "application/json", {{"Retry-After", "1"}}});
}

void stats(Front& front, RoutedRequest, Exchange exchange) {
  const ModelService& service = front.service();
  const ServiceStats& now = service.stats();
  const ModelFacts facts = service.facts().value_or(ModelFacts{});
  const auto rate = [](int64_t tokens, double seconds) {
    return seconds > 0 ? static_cast<double>(tokens) / seconds : 0;
  };
  respond_json(
      *exchange,
      {{"server",
        {{"owner", "serve"},
         {"model", front.options().model_id},
         {"version", base::version()},
         {"started_at", front.started_at()}}},
       {"engine",
        {{"state", service_state_name(service.state())},
         {"last_error", service.state_reason()},
         {"executor", facts.executor},
         {"active_requests", now.active},
         {"queued", now.queued},
         {"prefill_tps", rate(now.prompt_tokens - now.cached_tokens, now.prefill_seconds)},
         {"decode_tps", rate(now.generated_tokens, now.decode_seconds)},
         {"memory_bytes", now.resident_bytes},
         {"restarts", now.restarts},
         {"uptime_s", unix_seconds() - front.started_at()}}},
       {"prompt_cache",
        {{"bytes", now.cache_bytes},
         {"max_bytes", facts.cache_bytes_limit},
         {"prefix_bytes", now.kept_bytes},
         {"prefix_tokens", now.cached_prefix_tokens},
         {"prompt_tokens", now.prompt_tokens},
         {"cached_tokens", now.cached_tokens}}},
       {"response_store",
        {{"entries", front.responses().size()},
         {"bytes", front.responses().bytes()},
         {"max_bytes", front.responses().most_bytes()},
         {"ttl_ms", front.responses().seconds() * 1000}}},
       {"admission", {{"max_safe_context", facts.context_limit}, {"weights_bytes", facts.weight_bytes}}},
       {"batch", {{"configured", facts.batch}, {"active_rows", now.active}, {"pending_rows", now.queued}}},
       {"http",
        {{"requests", front.counts().requests},
         {"open_streams", front.counts().open_streams},
         {"cancelled", front.counts().cancelled}}}});
}

void metrics(Front& front, RoutedRequest, Exchange exchange) {
  const ServiceStats& now = front.service().stats();
  MetricsText out;
  const auto counter = [&](const char* name, const char* help, auto value) {
    out.add(name, "counter", help, static_cast<double>(value));
  };
  const auto gauge = [&](const char* name, const char* help, auto value) {
    out.add(name, "gauge", help, static_cast<double>(value));
  };
  gauge("ready", "1 while the model serves.", front.service().state() == ServiceState::ready ? 1 : 0);
  counter("requests_total", "HTTP requests.", front.counts().requests);
  for (const auto& [status, count] : front.counts().responses) {
    out.add("responses_total", "counter", "Answers by status.", static_cast<double>(count),
            fmt::format("{{status=\"{}\"}}", status));
  }
  counter("requests_cancelled_total", "Requests whose client went away.", front.counts().cancelled);
  counter("prompt_tokens_total", "Prompt tokens, reused ones included.", now.prompt_tokens);
  counter("prompt_tokens_cached_total", "Prompt tokens that were reused.", now.cached_tokens);
  counter("generated_tokens_total", "Generated tokens.", now.generated_tokens);
  counter("prefill_seconds_total", "Time of steps with prompt rows.", now.prefill_seconds);
  counter("decode_seconds_total", "Time of steps without.", now.decode_seconds);
  counter("worker_restarts_total", "Times the worker was replaced.", now.restarts);
  gauge("requests_active", "Requests whose rows are computed.", now.active);
  gauge("requests_queued", "Requests that wait.", now.queued);
  gauge("cache_bytes", "Keys, values and states.", now.cache_bytes);
  gauge("worker_resident_bytes", "Resident memory of the worker.", now.resident_bytes);
  exchange->respond({200, std::move(out.text_), "text/plain; version=0.0.4; charset=utf-8"});
}

}  // namespace rafter::serve::handlers
