// The worker process with the real program: what it answers, and what happens when it dies, hangs, or its
// model goes bad.
#include <filesystem>
#include <thread>

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/engine_flags.h"
#include "lab/embedding.h"
#include "serve/worker_child.h"
#include "serve/worker_frames.h"
#include "serve/worker_messages.h"
#include "tests/support/served_model.h"
#include "tests/support/synth_model.h"
#include "tests/support/temp_folder.h"

namespace rafter::testing {
namespace {

namespace fs = std::filesystem;

using base::ErrorCode;
using decode::FinishReason;
using serve::CompletionRequest;
using serve::ServiceState;

CompletionRequest request_of(int seed, int64_t prompt, std::optional<int64_t> max_tokens) {
  CompletionRequest request;
  for (int64_t i = 0; i < prompt; ++i)
    request.prompt.push_back(static_cast<int32_t>((seed * 31 + i * 7) % 200));
  request.sampling.temperature = seed % 2 == 0 ? 0 : 0.9f;
  request.sampling.seed = static_cast<uint64_t>(seed);
  request.max_tokens = max_tokens;
  request.ignore_end = true;
  return request;
}

class Worker : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TempFolder();
    model_ = write_synth_model("llama3-tiny", "mlx4", *folder_ / "model");
  }
  static void TearDownTestSuite() { delete folder_; }

  // What the lane gives in this process.
  static decode::GenerationResult alone(const CompletionRequest& wanted) {
    cli::EngineFlags flags;
    flags.threads = 1;
    auto model = cli::load_model(model_, flags).value();
    decode::GenerationRequest request;
    request.prompt = wanted.prompt;
    request.sampling = wanted.sampling;
    request.max_tokens = wanted.max_tokens;
    request.ignore_end = wanted.ignore_end;
    return sched::generate_blocking(*model.lane, request).value();
  }

  static TempFolder* folder_;
  static std::string model_;
};
TempFolder* Worker::folder_ = nullptr;
std::string Worker::model_;

TEST_F(Worker, AnswersAsTheLaneInThisProcessDoes) {
  ServedModel served(model_);
  EXPECT_EQ(served.service().state(), ServiceState::loading);
  EXPECT_EQ(served.ask(request_of(1, 5, 5)).error->code, ErrorCode::unavailable);
  ASSERT_TRUE(served.run_until_ready()) << served.service().state_reason();
  const auto& facts = served.service().facts();
  EXPECT_GT(facts->context_limit, 0);
  EXPECT_GT(facts->weight_bytes, 0);
  EXPECT_GT(facts->cache_bytes_limit, 0);
  EXPECT_EQ(facts->batch, 8);
  constexpr int kRequests = 12;
  std::vector<Answer> answers(kRequests);
  std::vector<CompletionRequest> requests;
  for (int i = 0; i < kRequests; ++i) {
    requests.push_back(request_of(i, 3 + 40 * (i % 3), 10 + i));
    requests.back().sampling.top_logprobs = i % 3 - 1;
    served.service().submit(requests.back(), answers[static_cast<size_t>(i)].listener());
  }
  ASSERT_TRUE(served.run_until([&] {
    return std::all_of(answers.begin(), answers.end(), [](const Answer& a) { return a.result.has_value(); });
  }));
  for (size_t i = 0; i < kRequests; ++i) {
    const decode::GenerationResult expected = alone(requests[i]);
    const decode::GenerationResult& result = *answers[i].result;
    EXPECT_EQ(result.tokens, expected.tokens) << i;
    EXPECT_EQ(result.text, expected.text) << i;
    EXPECT_EQ(result.logits_hash, expected.logits_hash) << i;
    EXPECT_EQ(result.reason, FinishReason::length);
    EXPECT_EQ(result.prompt_tokens, static_cast<int64_t>(requests[i].prompt.size()));
    EXPECT_EQ(result.seed, i);
    EXPECT_EQ(answers[i].events.size(), result.tokens.size());
    EXPECT_EQ(answers[i].events[0].logprob.has_value(), i % 3 > 0);
    EXPECT_EQ(answers[i].events[0].best.size(), i % 3 == 2 ? 1u : 0u);
    EXPECT_FALSE(answers[i].progress.empty());
    EXPECT_EQ(answers[i].progress.back().prompt_total, result.prompt_tokens);
  }
  // Again, all but the last token of the prompt found; nothing changes.
  const decode::GenerationResult again = served.ask(requests[4]);
  EXPECT_EQ(again.tokens, answers[4].result->tokens);
  EXPECT_EQ(again.cached_tokens, again.prompt_tokens - 1);
  EXPECT_TRUE(served.run_until([&] { return served.service().stats().generated_tokens > 100; }, 3));
  EXPECT_GT(served.service().stats().cache_bytes, 0);
  EXPECT_GT(served.service().stats().resident_bytes, 0);
  EXPECT_GT(served.service().stats().cached_prefix_tokens, 0);
}

TEST_F(Worker, RefusesAndSaysWhy) {
  ServedModel served(model_, {"--ctx", "512", "--batch", "1", "--queue", "2"});
  ASSERT_TRUE(served.run_until_ready());
  EXPECT_EQ(served.service().facts()->context_limit, 512);
  const auto refused = [&](const CompletionRequest& request) {
    const decode::GenerationResult result = served.ask(request);
    EXPECT_EQ(result.reason, FinishReason::error);
    return result.error.value_or(base::Error{ErrorCode::internal, "nothing", "", ""});
  };
  const base::Error error = refused(request_of(1, 400, 100000));
  EXPECT_EQ(error.code, ErrorCode::out_of_memory);
  for (const char* number : {"400", "256", "656", "512"})
    EXPECT_NE(error.message().find(number), std::string::npos) << number << " in " << error.message();
  CompletionRequest bad = request_of(1, 4, 4);
  bad.prompt[2] = 1 << 30;
  EXPECT_EQ(refused(bad).code, ErrorCode::invalid_argument);
  bad = request_of(1, 4, 4);
  bad.sampling.top_p = 7;
  EXPECT_EQ(refused(bad).where, "top_p");
  // More than what fits ends where the room does.
  const decode::GenerationResult full = served.ask(request_of(2, 100, 1 << 20));
  EXPECT_EQ(full.reason, FinishReason::length);
  EXPECT_EQ(full.tokens.size(), 412u);
  // A queue that is full.
  Answer answers[4];
  std::vector<uint64_t> ids;
  for (Answer& answer : answers)
    ids.push_back(served.service().submit(request_of(3, 10, 100000), answer.listener()));
  ASSERT_TRUE(served.run_until([&] { return answers[3].result.has_value(); }));
  EXPECT_EQ(answers[3].result->error->code, ErrorCode::busy);
  EXPECT_FALSE(answers[0].result.has_value() && answers[1].result.has_value());
  ASSERT_FALSE(answers[2].progress.empty());
  EXPECT_EQ(answers[2].progress.front().queued_before, 2);
  for (uint64_t id : ids) served.service().cancel(id);
  ASSERT_TRUE(served.run_until([&] { return answers[2].result.has_value(); }));
  for (int i = 1; i < 3; ++i) EXPECT_EQ(answers[i].result->reason, FinishReason::cancelled);
  for (const Answer& answer : answers) EXPECT_EQ(answer.finishes, 1);
}

TEST_F(Worker, HoldsAnswersToASchema) {
  ServedModel served(model_);
  ASSERT_TRUE(served.run_until_ready());
  CompletionRequest request = request_of(3, 5, 200);
  request.ignore_end = false;
  request.form.emplace().json_schema =
      R"({"type":"object","properties":{"a":{"type":"boolean"}},"required":["a"]})";
  const decode::GenerationResult result = served.ask(request);
  ASSERT_FALSE(result.error) << result.error->message();
  const auto json = nlohmann::json::parse(result.text, nullptr, false);
  ASSERT_TRUE(json.is_object()) << result.text;
  EXPECT_TRUE(json["a"].is_boolean());
  request.form.emplace().json_schema = R"({"type":"object","not":{}})";
  EXPECT_EQ(served.ask(request).error->code, ErrorCode::unsupported);
  request.form->json_schema = "{";
  EXPECT_EQ(served.ask(request).error->code, ErrorCode::invalid_argument);
  EXPECT_EQ(served.service().state(), ServiceState::ready);
}

TEST_F(Worker, KilledInTheMiddleOfAStream) {
  ServedModel served(model_);
  ASSERT_TRUE(served.run_until_ready());
  const auto lose_worker = [&] {
    Answer answer;
    served.service().submit(request_of(1, 5, 100000), answer.listener());
    EXPECT_TRUE(served.run_until([&] { return answer.events.size() >= 3; }));
    ::kill(served.service().worker_pid(), SIGKILL);
    EXPECT_TRUE(served.run_until([&] { return answer.result.has_value(); }, 5));
    EXPECT_EQ(answer.result->reason, FinishReason::error);
    EXPECT_EQ(answer.result->error->code, ErrorCode::unavailable);
    EXPECT_NE(answer.result->error->what.find("signal 9"), std::string::npos);
    EXPECT_EQ(answer.result->tokens.size(), answer.events.size());
    EXPECT_EQ(answer.finishes, 1);
  };
  for (int round = 1; round <= 2; ++round) {
    lose_worker();
    EXPECT_EQ(served.service().state(), ServiceState::restarting);
    EXPECT_NE(served.service().state_reason(), "");
    EXPECT_EQ(served.ask(request_of(1, 5, 5)).error->code, ErrorCode::unavailable);
    ASSERT_TRUE(served.run_until_ready());
    EXPECT_EQ(served.service().state_reason(), "");
    EXPECT_EQ(served.ask(request_of(4, 5, 5)).tokens, alone(request_of(4, 5, 5)).tokens);
    EXPECT_EQ(served.service().stats().restarts, round);
  }
  lose_worker();  // the third within a minute
  EXPECT_EQ(served.service().state(), ServiceState::failed);
  EXPECT_NE(served.service().state_reason().find("3 times"), std::string::npos);
  EXPECT_EQ(served.service().worker_pid(), -1);
  EXPECT_EQ(served.ask(request_of(1, 5, 5)).error->code, ErrorCode::unavailable);
}

TEST_F(Worker, StoppedOnesAreReplaced) {
  ServedModel served(model_, {}, /*stuck_after_seconds=*/2.5);
  ASSERT_TRUE(served.run_until_ready());
  Answer answer;
  served.service().submit(request_of(1, 5, 1000000), answer.listener());
  ASSERT_TRUE(served.run_until([&] { return answer.events.size() >= 3; }));
  const int stopped = served.service().worker_pid();
  ::kill(stopped, SIGSTOP);
  ASSERT_TRUE(served.run_until([&] { return answer.result.has_value(); }, 10));
  EXPECT_EQ(answer.result->error->code, ErrorCode::unavailable);
  EXPECT_NE(answer.result->error->what.find("stopped answering"), std::string::npos);
  ASSERT_TRUE(served.run_until_ready());
  EXPECT_NE(served.service().worker_pid(), stopped);
  EXPECT_EQ(served.ask(request_of(4, 5, 5)).reason, FinishReason::length);
}

TEST_F(Worker, ATruncatedModelIsAnErrorAndNoCrash) {
  TempFolder folder;
  const std::string model = write_synth_model("llama3-tiny", "bf16", folder / "model");
  ServedModel served(model);
  ASSERT_TRUE(served.run_until_ready());
  EXPECT_FALSE(served.ask(request_of(1, 5, 5)).error);
  for (const auto& file : fs::recursive_directory_iterator(model)) {
    if (file.path().extension() == ".safetensors") fs::resize_file(file.path(), 20000);
  }
  const decode::GenerationResult result = served.ask(request_of(1, 50, 50));
  ASSERT_TRUE(result.error) << "answered from zeros";
  EXPECT_TRUE(result.error->code == ErrorCode::io || result.error->code == ErrorCode::unavailable)
      << result.error->message();
  // Also without a request, it is noticed, and another worker does not open such a file.
  ASSERT_TRUE(served.run_until_state(ServiceState::failed));
  EXPECT_EQ(served.service().stats().restarts, 1);
  EXPECT_NE(served.service().state_reason(), "");
  ASSERT_FALSE(served.log().empty());
  EXPECT_NE(served.log()[1].find("cannot go on"), std::string::npos) << served.log()[1];
  EXPECT_NE(served.log()[1].find(".safetensors"), std::string::npos) << served.log()[1];
}

// Cut while nobody asks, and there again before another worker opens it: serving goes on.
TEST_F(Worker, AModelThatComesBackIsServedAgain) {
  TempFolder folder;
  const std::string model = write_synth_model("llama3-tiny", "bf16", folder / "model");
  serve::WorkerOptions options;
  options.command = {RAFTER_PROGRAM, "worker", model, "--device", "cpu", "--threads", "1"};
  options.first_pause = std::chrono::seconds(2);
  ServedModel served(options);
  ASSERT_TRUE(served.run_until_ready());
  const decode::GenerationResult before = served.ask(request_of(2, 20, 20));
  fs::copy(model, folder / "copy", fs::copy_options::recursive);
  for (const auto& file : fs::recursive_directory_iterator(model)) {
    if (file.path().extension() == ".safetensors") fs::resize_file(file.path(), 20000);
  }
  ASSERT_TRUE(served.run_until_state(ServiceState::restarting));
  fs::remove_all(model);
  fs::rename(folder / "copy", model);
  ASSERT_TRUE(served.run_until_ready());
  EXPECT_EQ(served.ask(request_of(2, 20, 20)).tokens, before.tokens);
}

TEST_F(Worker, AModelThatCannotBeOpenedIsSaidOnce) {
  for (const std::string& model : {*folder_ / "missing", folder_->write("bad/model.gguf", "GGUF rubbish")}) {
    ServedModel served(model);
    ASSERT_TRUE(served.run_until_state(ServiceState::failed));
    EXPECT_NE(served.service().state_reason(), "");
    EXPECT_EQ(served.service().stats().restarts, 0);
  }
  ServedModel served(model_, {"--memory-budget", "20KB"});
  ASSERT_TRUE(served.run_until_state(ServiceState::failed));
  EXPECT_NE(served.service().state_reason().find("20000"), std::string::npos)
      << served.service().state_reason();
}

TEST_F(Worker, DrainsAndEnds) {
  ServedModel served(model_);
  ASSERT_TRUE(served.run_until_ready());
  const int pid = served.service().worker_pid();
  Answer answer;
  served.service().submit(request_of(2, 5, 60), answer.listener());
  bool drained = false;
  served.service().drain([&] { drained = true; });
  EXPECT_FALSE(drained);
  EXPECT_EQ(served.ask(request_of(1, 5, 5)).error->code, ErrorCode::unavailable);
  ASSERT_TRUE(served.run_until([&] { return drained; }));
  EXPECT_EQ(answer.result->tokens.size(), 60u);
  EXPECT_EQ(::kill(pid, 0), -1);
}

TEST_F(Worker, TermLetsItFinishWhatItHas) {
  ServedModel served(model_);
  ASSERT_TRUE(served.run_until_ready());
  Answer answer;
  served.service().submit(request_of(2, 5, 200), answer.listener());
  ASSERT_TRUE(served.run_until([&] { return !answer.events.empty(); }));
  ::kill(served.service().worker_pid(), SIGINT);  // a terminal's: left to the front process
  ::kill(served.service().worker_pid(), SIGTERM);
  ASSERT_TRUE(served.run_until([&] { return answer.result.has_value(); }));
  EXPECT_EQ(answer.result->tokens.size(), 200u);
  EXPECT_TRUE(served.run_until_state(ServiceState::restarting));
  EXPECT_TRUE(served.run_until_ready());
}

TEST_F(Worker, EndsWithTheFrontProcess) {
  auto child = serve::WorkerChild::start({RAFTER_PROGRAM, "worker", model_, "--threads", "1"});
  ASSERT_TRUE(child.ok());
  const int socket = child->release_socket();
  char byte = 0;
  ASSERT_EQ(::read(socket, &byte, 1), 1);  // it is there
  ::close(socket);
  bool ended = false;
  for (int i = 0; i < 500 && !ended; ++i) {
    siginfo_t info{};
    ended = ::waitid(P_PID, static_cast<id_t>(child->pid()), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
            info.si_pid == child->pid();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_TRUE(ended);
}

TEST_F(Worker, GivesEmbeddings) {
  ServedModel served(model_, {"--embeddings"});
  ASSERT_TRUE(served.run_until_ready());
  EXPECT_TRUE(served.service().facts()->is_embedder);
  std::vector<base::Result<std::vector<float>>> vectors;
  const std::vector<int32_t> tokens = {1, 2, 3, 4};
  served.service().embed(tokens, [&](auto vector) { vectors.push_back(std::move(vector)); });
  served.service().embed({1 << 30}, [&](auto vector) { vectors.push_back(std::move(vector)); });
  ASSERT_TRUE(served.run_until([&] { return vectors.size() == 2; }));
  cli::EngineFlags flags;
  flags.threads = 1;
  flags.embeddings = true;
  auto engine = cli::open_engine(model_, flags, true).value();
  EXPECT_EQ(*vectors[0], lab::embed_blocking(*engine, std::span(&tokens, 1)).value()[0]);
  EXPECT_EQ(vectors[1].error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(served.ask(request_of(1, 5, 5)).error->code, ErrorCode::unsupported);
}

// Workers that the real one should never be like.
class PretendedWorker : public ::testing::Test {
 protected:
  static serve::WorkerOptions options(const std::string& once, const std::string& again) {
    serve::WorkerOptions options;
    options.command = pretended_worker(once, again);
    options.first_pause = std::chrono::milliseconds(10);
    options.stuck_after = std::chrono::milliseconds(1500);
    return options;
  }
  static std::string ready() {
    return serve::encode_frame({{"type", "ready"}, {"facts", serve::json_of_facts({})}});
  }
  static std::string alive(int steps) {
    return serve::encode_frame({{"type", "stats"}, {"steps", steps}, {"stats", serve::json_of_stats({})}});
  }
};

TEST_F(PretendedWorker, ThatLivesAndGetsNothingDoneIsReplaced) {
  ServedModel served(options(ready(), alive(7)));
  ASSERT_TRUE(served.run_until_ready());
  const int pid = served.service().worker_pid();
  EXPECT_FALSE(served.run_until([&] { return served.service().worker_pid() != pid; }, 3))
      << "it had nothing to do";
  const decode::GenerationResult result = served.ask(request_of(1, 5, 5));
  EXPECT_EQ(result.error->code, ErrorCode::unavailable);
  EXPECT_NE(result.error->what.find("stopped making progress"), std::string::npos) << result.error->what;
  ASSERT_TRUE(served.run_until_ready());
  EXPECT_NE(served.service().worker_pid(), pid);
}

// A step may take long: as long as its ops come along, it is none that is stuck.
TEST_F(PretendedWorker, WhoseStepTakesLongIsLeftAlone) {
  serve::WorkerOptions slow = options(ready(), "");
  std::string script = print_command(ready());
  for (int step = 1; step < 100; ++step)
    script += "; sleep 0.2; " + print_command(alive(step)) + " || exit 0";
  slow.command = {"/bin/sh", "-c", script};
  ServedModel served(slow);
  ASSERT_TRUE(served.run_until_ready());
  Answer answer;
  served.service().submit(request_of(1, 5, 5), answer.listener());
  EXPECT_FALSE(served.run_until([&] { return answer.result.has_value(); }, 4))
      << answer.result->error->message();
}

TEST_F(PretendedWorker, WhoseSocketIsCutIsEndedAndReplaced) {
  serve::WorkerOptions cut = options(ready(), "");
  // It lives on without its socket, and takes no notice of anybody.
  cut.command = {"/bin/sh", "-c",
                 print_command(ready()) + "; sleep 0.5; trap '' TERM HUP; exec 3>&-; exec sleep 1000"};
  ServedModel served(cut);
  ASSERT_TRUE(served.run_until_ready());
  const int pid = served.service().worker_pid();
  Answer answer;
  served.service().submit(request_of(1, 5, 5), answer.listener());
  ASSERT_TRUE(served.run_until([&] { return answer.result.has_value(); }, 5));
  EXPECT_EQ(answer.result->error->code, ErrorCode::unavailable);
  EXPECT_EQ(::kill(pid, 0), -1) << "nobody ended it";
  EXPECT_EQ(served.service().state(), ServiceState::restarting);
  EXPECT_NE(served.service().state_reason().find("signal 9"), std::string::npos)
      << served.service().state_reason();
}

TEST_F(PretendedWorker, ThatTalksNonsenseIsGivenUp) {
  const std::string token = serve::encode_frame(
      {{"type", "events"}, {"steps", 1}, {"events", {{{"type", "token"}, {"id", 1}, {"text", 5}}}}});
  for (const std::string& nonsense : {std::string("\xFF\xFF\xFF\xFF zz"), std::string("\2\0\0\0{]", 6),
                                      serve::encode_frame({{"type", "ready"}, {"facts", 5}}),
                                      serve::encode_frame({{"type", "stats"}, {"steps", 5}}),
                                      serve::encode_frame({{"type", "events"}, {"events", 5}})}) {
    ServedModel served(options(nonsense, token));
    EXPECT_TRUE(served.run_until_state(ServiceState::failed));
    EXPECT_NE(served.service().state_reason().find("3 times"), std::string::npos);
  }
  {
    ServedModel served(options(ready(), token));
    ASSERT_TRUE(served.run_until_ready());
    EXPECT_EQ(served.ask(request_of(1, 5, 5)).error->code, ErrorCode::unavailable);
    EXPECT_EQ(served.service().state(), ServiceState::restarting);
  }
  // Events of requests that nobody made, and what is not known, are passed over.
  ServedModel served(options(ready(), serve::encode_frame({{"type", "later version"}}) +
                                          serve::encode_frame({{"type", "events"}, {"events", {5, token}}})));
  EXPECT_TRUE(served.run_until_ready());
  EXPECT_FALSE(served.run_until([&] { return served.service().state() != ServiceState::ready; }, 1));
}

TEST(WorkerFrames, ComeWholeHoweverTheyAreCut) {
  std::string bytes;
  for (int i = 0; i < 50; ++i) bytes += serve::encode_frame({{"n", i}, {"text", std::string(i * 7, 'x')}});
  for (size_t cut : {size_t{1}, size_t{3}, size_t{100}, bytes.size()}) {
    serve::FrameReader reader;
    int next = 0;
    for (size_t at = 0; at < bytes.size(); at += cut) {
      reader.push(std::string_view(bytes).substr(at, cut));
      for (;;) {
        const auto frame = reader.next().value();
        if (!frame) break;
        EXPECT_EQ((*frame)["n"], next++);
      }
    }
    EXPECT_EQ(next, 50);
  }
}

TEST(WorkerFrames, HostileOnesAreErrors) {
  const auto fails = [](std::string_view bytes) {
    serve::FrameReader reader;
    reader.push(bytes);
    return !reader.next().ok();
  };
  EXPECT_TRUE(fails("\xFF\xFF\xFF\xFF"));  // no memory is taken for what is only announced
  EXPECT_TRUE(fails(std::string_view("\x02\0\0\0{x", 6)));
  EXPECT_TRUE(fails(std::string_view("\x02\0\0\0[]", 6)));
  const std::string deep(1 << 20, '[');
  std::string frame = {0, 0, 0x10, 0};
  EXPECT_TRUE(fails(frame + deep));
}

// A worker that ends in order saves what it keeps; the next one finds it. Every kind of cache.
TEST_F(Worker, ARestartFindsWhatWasComputed) {
  struct Restarted {
    const char* shape;
    std::vector<std::string> flags;
  };
  const Restarted kCases[] = {{"llama3-tiny", {}},
                              {"llama3-tiny", {"--kv-quant", "8"}},
                              {"gemma4-e2b-tiny", {"--kv-quant", "4"}},
                              {"qwen3.5-4b-tiny", {}}};
  for (const Restarted& restarted : kCases) {
    const TempFolder folder, cache;
    const std::string model = write_synth_model(restarted.shape, "mlx4", folder / "model");
    std::vector<std::string> flags = {"--prompt-cache-dir", cache.path()};
    flags.insert(flags.end(), restarted.flags.begin(), restarted.flags.end());
    CompletionRequest request = request_of(2, 300, 20);
    request.boundaries = {200, 300};
    decode::GenerationResult first;
    for (const bool is_restarted : {false, true}) {
      ServedModel served(model, flags);
      ASSERT_TRUE(served.run_until_ready()) << served.service().state_reason();
      if (is_restarted) {  // goes on with what was answered, and asks again what was asked
        CompletionRequest again = request;
        const decode::GenerationResult same = served.ask(again);
        EXPECT_EQ(same.tokens, first.tokens) << restarted.shape;
        EXPECT_EQ(same.logits_hash, first.logits_hash) << restarted.shape;
        EXPECT_GE(same.cached_tokens, 200) << restarted.shape;
      } else {
        first = served.ask(request);
        ASSERT_FALSE(first.error.has_value()) << first.error->message();
        EXPECT_EQ(first.cached_tokens, 0);
      }
      bool drained = false;
      served.service().drain([&] { drained = true; });
      EXPECT_TRUE(served.run_until([&] { return drained; }));
      EXPECT_FALSE(fs::is_empty(cache.path())) << restarted.shape;
    }
  }
}

TEST_F(Worker, SavesWhileNobodyAsks) {
  const TempFolder cache;
  ServedModel served(model_, {"--prompt-cache-dir", cache.path()});
  ASSERT_TRUE(served.run_until_ready());
  served.ask(request_of(2, 100, 5));
  EXPECT_TRUE(served.run_until([&] { return !fs::is_empty(cache.path()); }, 20));
  ::kill(served.service().worker_pid(), SIGKILL);  // in the middle of anything: a new one reads what is whole
  ASSERT_TRUE(served.run_until([&] { return served.service().state() != ServiceState::ready; }));
  ASSERT_TRUE(served.run_until_ready());
  EXPECT_EQ(served.ask(request_of(2, 100, 5)).cached_tokens, 99);
}

// As when the disk is full: files of the worker may have 4 KiB.
TEST_F(Worker, AFullDiskIsSaidAndHarmsNothing) {
  const TempFolder cache;
  const std::string errors = cache / "errors";
  serve::WorkerOptions options;
  options.command = {"/bin/sh",
                     "-c",
                     fmt::format("ulimit -f 8; exec \"$@\" 2>>{}", errors),
                     "sh",
                     RAFTER_PROGRAM,
                     "worker",
                     model_,
                     "--device",
                     "cpu",
                     "--threads",
                     "1",
                     "--prompt-cache-dir",
                     cache / "prefixes"};
  ServedModel served(options);
  ASSERT_TRUE(served.run_until_ready());
  const decode::GenerationResult first = served.ask(request_of(2, 300, 5));
  EXPECT_TRUE(served.run_until([&] { return read_file(errors).find("not saved") != std::string::npos; }, 20))
      << read_file(errors);
  EXPECT_NE(read_file(errors).find("File too large"), std::string::npos) << read_file(errors);
  EXPECT_TRUE(fs::is_empty(cache / "prefixes")) << "a part of a file is left";
  const decode::GenerationResult again = served.ask(request_of(2, 300, 5));
  EXPECT_EQ(again.tokens, first.tokens);
  EXPECT_EQ(again.cached_tokens, 299);
  EXPECT_EQ(served.log().size(), 1u) << served.log().back();  // that the model is ready
}

}  // namespace
}  // namespace rafter::testing
