// rafter synth: a checkpoint with a real model's tensors and random weights.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>

#include <sys/statvfs.h>

#include "cli/interrupt.h"
#include "cli/progress_bar.h"
#include "cli/synth_writer.h"
#include "cli/verb.h"

namespace rafter::cli {
namespace {

struct SynthFlags {
  std::string shape, format, out;
  uint64_t seed = 0;
  bool force = false;
};

base::Status make_folder(const std::string& folder) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (!failed) return {};
  return base::Error{base::ErrorCode::io, "cannot create the folder: " + failed.message(), folder, ""};
}

base::Status clear_the_way(const SynthJob& job, bool force) {
  const std::vector<std::string> files = files_in_the_way(job);
  if (files.empty()) return {};
  if (!force) {
    return base::Error{base::ErrorCode::io, "the file exists already", files.front(),
                       "choose another folder, or --force to replace it"};
  }
  for (const std::string& file : files) {
    std::error_code failed;
    if (!std::filesystem::remove(file, failed)) {
      return base::Error{base::ErrorCode::io, "cannot remove the file: " + failed.message(), file, ""};
    }
  }
  return {};
}

base::Status check_disk_space(const std::string& folder, int64_t needed) {
  constexpr int64_t kReserve = 64 << 20;
  struct statvfs info{};
  if (::statvfs(folder.c_str(), &info) != 0) return {};  // unknown: the writer will find out
  const auto free = static_cast<int64_t>(info.f_bavail * info.f_frsize);
  if (needed + kReserve <= free) return {};
  return base::Error{
      base::ErrorCode::io,
      fmt::format("{} are needed and {} are free on this disk", format_bytes(needed), format_bytes(free)),
      folder, "choose a smaller shape, another format or another disk"};
}

base::Status run(const SynthFlags& flags) {
  SynthJob job;
  RAFTER_ASSIGN(job.shape, find_synth_shape(flags.shape));
  RAFTER_ASSIGN(job.scheme, find_synth_scheme(flags.format));
  job.folder = flags.out;
  job.seed = flags.seed;
  const int64_t bytes = synth_weight_bytes(job);
  RAFTER_TRY(make_folder(job.folder));
  RAFTER_TRY(clear_the_way(job, flags.force));
  RAFTER_TRY(check_disk_space(job.folder, bytes));
  const InterruptFlag interrupt;
  {
    ProgressBar bar("writing", bytes);
    job.on_progress = [&](int64_t written) {
      bar.advance(written);
      return interrupt.check();
    };
    const bool gguf = job.scheme->container == SynthContainer::gguf;
    RAFTER_TRY(gguf ? write_synth_gguf(job) : write_synth_folder(job));
    if (gguf) job.folder += "/" + synth_gguf_name(job);
  }
  std::cout << fmt::format("{}: {} as {}, {} of weights\n", job.folder, job.shape->name, job.scheme->name,
                           format_bytes(bytes));
  return {};
}

template <typename Entry>
std::string names_of(std::span<const Entry> entries) {
  std::string names;
  for (const Entry& entry : entries) names += (names.empty() ? "" : ", ") + std::string(entry.name);
  return names;
}

Action define(CLI::App& app) {
  auto flags = std::make_shared<SynthFlags>();
  app.add_option("shape", flags->shape, "which model to imitate: " + names_of(synth_shapes()))->required();
  app.add_option("--format", flags->format, "how weights are stored: " + names_of(synth_schemes()))
      ->required();
  app.add_option("--out", flags->out, "folder to write to")->required();
  app.add_option("--seed", flags->seed, "seed of the random weights (default 0)");
  app.add_flag("--force", flags->force, "replace an older checkpoint in the folder");
  return [flags] { return run(*flags); };
}

}  // namespace

const Verb kSynthVerb{"synth", "write a random-weight checkpoint with a real model's tensors",
                      "  rafter synth llama3-tiny --format bf16 --out /tmp/tiny\n"
                      "  rafter synth llama3-8b --format mlx4 --out ~/models/llama3-8b-mlx4\n"
                      "  rafter synth cpm5-1b --format q8_0 --out ~/models\n",
                      define};

}  // namespace rafter::cli
