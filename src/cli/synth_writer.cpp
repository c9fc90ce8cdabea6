#include "cli/synth_writer.h"

#include <algorithm>
#include <filesystem>
#include <iterator>

namespace rafter::cli {

int64_t synth_weight_bytes(const SynthJob& job) {
  const int64_t vector_element = job.scheme->container == SynthContainer::gguf ? 4 : 2;
  int64_t bytes = 0;
  for (const SynthTensor& tensor : synth_tensors(*job.shape, *job.scheme)) {
    bytes += tensor.is_matrix() ? tensor.format.matrix_bytes(tensor.rows, tensor.columns)
                                : tensor.rows * vector_element;
  }
  return bytes;
}

std::string synth_gguf_name(const SynthJob& job) {
  return fmt::format("{}-{}.gguf", job.shape->name, job.scheme->name);
}

std::vector<std::string> files_in_the_way(const SynthJob& job) {
  constexpr const char* kSideFiles[] = {"config.json",         "generation_config.json",
                                        "tokenizer.json",      "tokenizer_config.json",
                                        "chat_template.jinja", "model.safetensors.index.json"};
  const bool gguf = job.scheme->container == SynthContainer::gguf;
  std::vector<std::string> files;
  std::error_code failed;
  for (std::filesystem::directory_iterator at(job.folder, failed), end; !failed && at != end;
       at.increment(failed)) {
    const std::string name = at->path().filename().string();
    const bool weights = name.starts_with("model") && name.ends_with(".safetensors");
    const bool side = std::find(std::begin(kSideFiles), std::end(kSideFiles), name) != std::end(kSideFiles);
    if (gguf ? name == synth_gguf_name(job) : weights || side) files.push_back(at->path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace rafter::cli
