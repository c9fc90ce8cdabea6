// Decode and prefill on a GPU, one JSON line per figure:
//
//   cuda_decode_bench check  FOLDER                     the GPU's logits against the CPU's, and the order
//   contract cuda_decode_bench speed  FOLDER NAME ROWS  median step of ROWS rows at context 128
//   cuda_decode_bench prefill FOLDER NAME TOKENS        one prompt, in steps of up to 2048 rows
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>

#include "engine/engine.h"

namespace {

using namespace rafter;
using engine::Engine;
using engine::Row;

std::unique_ptr<Engine> open(const std::string& path, engine::ExecutorKind kind, int capacity,
                             bool capture = true) {
  auto checkpoint = format::Checkpoint::open(path);
  if (!checkpoint.ok()) std::printf("%s\n", checkpoint.error().message().c_str()), std::exit(1);
  engine::EngineOptions options;
  options.executor = kind;
  options.row_capacity = capacity;
  options.context_limit = 4096;
  options.max_sequences = 16;
  options.cache_bytes = int64_t{9} << 30;
  options.capture = capture;
  auto engine =
      Engine::open(std::make_shared<const format::Checkpoint>(std::move(checkpoint).value()), options);
  if (!engine.ok()) std::printf("%s\n", engine.error().message().c_str()), std::exit(1);
  return std::move(engine).value();
}

void step(Engine& engine, const std::vector<Row>& rows) {
  const base::Status status = engine.step(rows);
  if (!status.ok()) std::printf("%s\n", status.error().message().c_str()), std::exit(1);
}

int32_t token_at(int position, int64_t vocabulary) {
  return static_cast<int32_t>((int64_t{position} * 7919 + 13) % vocabulary);
}

// A prompt of `length` rows, the last wanting logits, in one step.
void prompt(Engine& engine, int32_t sequence, int length) {
  std::vector<Row> rows;
  for (int p = 0; p < length; ++p)
    rows.push_back({token_at(p, engine.vocabulary_size()), p, sequence, p + 1 == length, 0});
  step(engine, rows);
}

std::vector<float> logits(Engine& engine, int i) {
  const auto span = engine.logits(i);
  return {span.begin(), span.end()};
}

int check(const std::string& path) {
  constexpr int kLength = 300;  // past block and split boundaries
  auto gpu = open(path, engine::ExecutorKind::cuda, 512);
  auto eager = open(path, engine::ExecutorKind::cuda, 512, false);
  auto cpu = open(path, engine::ExecutorKind::cpu, 512);
  std::vector<std::vector<float>> last;
  for (Engine* e : {gpu.get(), eager.get(), cpu.get()}) {
    const int32_t sequence = e->create_sequence().value();
    prompt(*e, sequence, kLength);
    last.push_back(logits(*e, 0));
  }
  double largest = 0, delta = 0;
  for (size_t i = 0; i < last[0].size(); ++i) {
    largest = std::max(largest, std::abs(double{last[2][i]}));
    const double d = std::abs(double{last[0][i]} - last[2][i]);
    delta = std::isnan(d) ? INFINITY : std::max(delta, d);
  }
  const bool graph = std::memcmp(last[0].data(), last[1].data(), last[0].size() * 4) == 0;
  // Row by row, and among 16 rows: the bits of the prompt in one step.
  const int32_t alone = gpu->create_sequence().value();
  for (int p = 0; p < kLength; ++p) step(*gpu, {{token_at(p, gpu->vocabulary_size()), p, alone, true, 0}});
  const std::vector<float> single = logits(*gpu, 0);
  gpu->truncate(alone, kLength - 1);
  std::vector<Row> company = {{token_at(kLength - 1, gpu->vocabulary_size()), kLength - 1, alone, true, 0}};
  for (int other = 0; other < 13; ++other)
    company.push_back({other + 1, 0, gpu->create_sequence().value(), true, 0});
  step(*gpu, company);
  const std::vector<float> among = logits(*gpu, 0);
  const bool order = std::memcmp(single.data(), among.data(), single.size() * 4) == 0;
  const bool prefill = std::memcmp(single.data(), last[0].data(), single.size() * 4) == 0;
  std::printf(
      "{\"check\": \"%s\", \"max_delta_of_max_logit\": %.3g, \"graph_is_eager\": %s, \"alone_is_among_14\": "
      "%s, "
      "\"alone_is_prefill\": %s}\n",
      path.c_str(), delta / largest, graph ? "true" : "false", order ? "true" : "false",
      prefill ? "true" : "false");
  return delta < 0.05 * largest && graph && order && prefill ? 0 : 1;
}

// Steps whose tokens stay on the GPU: the time from one to the next, around context 128.
int chain(const std::string& path, const char* name, int row_count, int context) {
  constexpr int kSteps = 64;
  auto gpu = open(path, engine::ExecutorKind::cuda, 2048);
  std::vector<Row> rows;
  for (int r = 0; r < row_count; ++r) {
    rows.push_back({5, context - kSteps / 2, gpu->create_sequence().value(), true, 0});
    prompt(*gpu, rows.back().sequence, rows.back().position);
  }
  std::vector<double> medians;
  for (int pass = 0; pass < 3; ++pass) {
    std::vector<double> times;
    auto last = std::chrono::steady_clock::now();
    const base::Status status = gpu->decode_greedy(rows, kSteps, [&](std::span<const int32_t>) {
      const auto now = std::chrono::steady_clock::now();
      times.push_back(std::chrono::duration<double, std::micro>(now - last).count());
      last = now;
      return true;
    });
    if (!status.ok()) std::printf("%s\n", status.error().message().c_str()), std::exit(1);
    std::nth_element(times.begin(), times.begin() + kSteps / 2, times.end());
    medians.push_back(times[kSteps / 2]);
    for (const Row& row : rows) gpu->truncate(row.sequence, row.position);
  }
  std::printf("{\"greedy\": \"%s\", \"rows\": %d, \"context\": %d, \"step_us\": [%.1f, %.1f, %.1f]}\n", name,
              row_count, context, medians[0], medians[1], medians[2]);
  return 0;
}

int speed(const std::string& path, const char* name, int row_count) {
  auto gpu = open(path, engine::ExecutorKind::cuda, 2048);
  std::vector<int32_t> sequences;
  for (int r = 0; r < row_count; ++r) {
    sequences.push_back(gpu->create_sequence().value());
    prompt(*gpu, sequences.back(), 127);
  }
  std::vector<double> total, host;
  for (int i = 0; i < 60; ++i) {
    std::vector<Row> rows;
    for (int32_t sequence : sequences) rows.push_back({i + 5, 127, sequence, true, 0});
    const auto start = std::chrono::steady_clock::now();
    step(*gpu, rows);
    total.push_back(
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
    host.push_back(static_cast<double>(gpu->last_step_times().host_ns) / 1e3);
    for (int32_t sequence : sequences) gpu->truncate(sequence, 127);
  }
  std::nth_element(total.begin(), total.begin() + 30, total.end());
  std::nth_element(host.begin(), host.begin() + 30, host.end());
  std::printf(
      "{\"decode\": \"%s\", \"rows\": %d, \"context\": 128, \"step_us\": %.1f, \"host_prepare_us\": %.1f}\n",
      name, row_count, total[30], host[30]);
  return 0;
}

// A few steps without a graph, for a profiler of kernels.
int eager(const std::string& path, int row_count, int prompt_length) {
  auto gpu = open(path, engine::ExecutorKind::cuda, 2048, false);
  std::vector<Row> rows;
  for (int r = 0; r < row_count; ++r) {
    rows.push_back({5, prompt_length, gpu->create_sequence().value(), true, 0});
    prompt(*gpu, rows.back().sequence, prompt_length);
  }
  step(*gpu, rows);
  return 0;
}

int prefill(const std::string& path, const char* name, int tokens) {
  auto gpu = open(path, engine::ExecutorKind::cuda, 2048);
  double best = 1e30;
  for (int i = 0; i < 2; ++i) {
    const int32_t sequence = gpu->create_sequence().value();
    const auto start = std::chrono::steady_clock::now();
    prompt(*gpu, sequence, tokens);
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    gpu->release_sequence(sequence);
  }
  std::printf("{\"prefill\": \"%s\", \"tokens\": %d, \"tokens_per_s\": %.0f}\n", name, tokens, tokens / best);
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 3) return 2;
  const std::string verb = arguments[1];
  if (verb == "check") return check(arguments[2]);
  if (verb == "speed" && count == 5) return speed(arguments[2], arguments[3], std::atoi(arguments[4]));
  if (verb == "greedy" && count == 6)
    return chain(arguments[2], arguments[3], std::atoi(arguments[4]), std::atoi(arguments[5]));
  if (verb == "eager" && count == 5)
    return eager(arguments[2], std::atoi(arguments[3]), std::atoi(arguments[4]));
  if (verb == "prefill" && count == 5) return prefill(arguments[2], arguments[3], std::atoi(arguments[4]));
  return 2;
}
