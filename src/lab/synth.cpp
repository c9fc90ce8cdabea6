#include "lab/synth.h"

#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "format/gguf_writer.h"
#include "format/safetensors_writer.h"
#include "lab/synth_config.h"
#include "lab/synth_folder.h"
#include "lab/synth_random.h"
#include "lab/synth_shapes.h"
#include "lab/synth_tensors.h"
#include "lab/synth_tokenizer.h"

namespace rafter::lab {
namespace {

using format::Container;
using format::GgufWriter;
using format::SafetensorsWriter;
using tensor::FormatKind;

constexpr int64_t kPortionBytes = 4 << 20;   // generated and written at a time
constexpr int64_t kRoomForTexts = 64 << 20;  // headers, tokenizer, configuration

// The next bytes of a tensor of the file, by the tensor's name there.
using Append = std::function<base::Status(const std::string& name, std::span<const std::byte> bytes)>;

// What a vector's values lie between: about what trained ones do.
VectorRange range_of(const SynthTensor& tensor) {
  switch (tensor.content) {
    case SynthContent::centred_norm:
      return {-0.25f, 0.25f};
    case SynthContent::decay:
      return {0, 2};  // rates of 1 to 7.4
    case SynthContent::negative_rate:
      return {-7, -1};
    case SynthContent::time_bias:
      return {-4, -2};
    default:
      return {0.75f * tensor.scale, 1.25f * tensor.scale};
  }
}

// One run: makes the numbers and hands them to a writer, in portions.
class Synthesis {
 public:
  Synthesis(const SynthOptions& options, const SynthProgress& progress, const SynthShape& shape,
            const SynthFormat& format, std::vector<SynthTensor> tensors)
      : options_(options), progress_(progress), shape_(shape), format_(format), tensors_(std::move(tensors)) {
    for (const SynthTensor& tensor : tensors_) total_ += tensor.bytes();
  }

  base::Result<SynthSummary> run_blocking() {
    const auto start = std::chrono::steady_clock::now();
    const bool gguf = format_.container == Container::gguf;
    const std::string gguf_name = fmt::format("{}-{}.gguf", shape_.name, format_.name);
    const SynthFolder::Replaces replaces = [&](const std::string& name) {
      return gguf ? name == gguf_name : is_safetensors_checkpoint_file(name);
    };
    RAFTER_ASSIGN(SynthFolder folder,
                  SynthFolder::prepare(options_.folder, static_cast<uint64_t>(total_ + kRoomForTexts),
                                       options_.force, replaces));
    SynthSummary summary;
    summary.path = gguf ? folder.add(gguf_name) : folder.path();
    RAFTER_TRY(gguf ? write_gguf(summary.path) : write_safetensors(folder));
    summary.files = folder.files();
    summary.bytes = static_cast<int64_t>(folder.bytes());
    for (const SynthTensor& tensor : tensors_) {
      summary.parameters += tensor.parameters();
      summary.streamed_bytes += tensor.streamed_bytes();
    }
    folder.keep();
    summary.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return summary;
  }

 private:
  base::Status write_gguf(const std::string& path);
  base::Status write_safetensors(SynthFolder& folder);
  std::vector<std::span<const SynthTensor>> shards() const;
  base::Status write_shard(const std::string& path, std::span<const SynthTensor> tensors);
  base::Status write_index(SynthFolder& folder, const std::map<std::string, std::string>& files);
  base::Status fill(const SynthTensor& tensor, const Append& append);
  base::Status fill_matrix(const SynthTensor& tensor, uint64_t key, const Append& append);
  base::Status advance(size_t bytes);

  const SynthOptions& options_;
  const SynthProgress& progress_;
  const SynthShape& shape_;
  const SynthFormat& format_;
  const std::vector<SynthTensor> tensors_;
  int64_t total_ = 0, done_ = 0;  // bytes of tensors
};

base::Status Synthesis::advance(size_t bytes) {
  done_ += static_cast<int64_t>(bytes);
  return progress_ ? progress_(done_, total_) : base::Status{};
}

base::Status Synthesis::fill_matrix(const SynthTensor& tensor, uint64_t key, const Append& append) {
  const RandomMatrix random(tensor.format, tensor.columns(), key);
  const int64_t row_bytes = tensor.format.row_bytes(tensor.columns());
  const int64_t scale_bytes = tensor.format.scale_row_bytes(tensor.columns());
  const int64_t portion = std::max<int64_t>(1, kPortionBytes / row_bytes);  // rows
  std::vector<std::byte> data, scales, biases;
  for (int64_t row = 0; row < tensor.rows(); row += portion) {
    const int64_t rows = std::min(portion, tensor.rows() - row);
    data.resize(static_cast<size_t>(rows * row_bytes));
    scales.resize(static_cast<size_t>(rows * scale_bytes));
    biases.resize(scales.size());
    random.fill(row, data, scales, biases);
    RAFTER_TRY(append(tensor.name(), data));
    if (!scales.empty()) {
      RAFTER_TRY(append(tensor.module + ".scales", scales));
      RAFTER_TRY(append(tensor.module + ".biases", biases));
    }
    RAFTER_TRY(advance(data.size() + 2 * scales.size()));
  }
  return {};
}

base::Status Synthesis::fill(const SynthTensor& tensor, const Append& append) {
  const uint64_t key = synth_key(options_.seed, tensor.module);
  if (tensor.content == SynthContent::matrix || tensor.content == SynthContent::convolution)
    return fill_matrix(tensor, key, append);
  std::vector<std::byte> data(static_cast<size_t>(tensor.bytes()));
  if (tensor.content == SynthContent::divisors) {
    const std::vector<float> divisors = rope_divisors(shape_);
    RAFTER_CHECK(divisors.size() * sizeof(float) == data.size());
    std::memcpy(data.data(), divisors.data(), data.size());
  } else {
    const bool bf16 = tensor.format.kind == FormatKind::bf16;
    fill_random_vector(bf16 ? tensor::DType::bf16 : tensor::DType::f32, key, data, range_of(tensor));
  }
  RAFTER_TRY(append(tensor.name(), data));
  return advance(data.size());
}

base::Status Synthesis::write_gguf(const std::string& path) {
  GgufWriter writer(path);
  put_gguf_config(shape_, format_, writer);
  put_gguf_tokenizer(shape_, writer);
  for (const SynthTensor& tensor : tensors_) {
    RAFTER_TRY(writer.declare(tensor.name(), tensor.format, tensor.shape));
  }
  RAFTER_TRY(writer.begin());
  const Append append = [&](const std::string& name, std::span<const std::byte> bytes) {
    return writer.append(name, bytes);
  };
  for (const SynthTensor& tensor : tensors_) RAFTER_TRY(fill(tensor, append));
  return writer.finish_blocking();
}

// Cuts the list where a file would grow beyond the limit. A module's parts stay together.
std::vector<std::span<const SynthTensor>> Synthesis::shards() const {
  std::vector<std::span<const SynthTensor>> result;
  size_t begin = 0;
  int64_t bytes = 0;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (i > begin && bytes + tensors_[i].bytes() > options_.shard_bytes) {
      result.push_back(std::span(tensors_).subspan(begin, i - begin));
      begin = i;
      bytes = 0;
    }
    bytes += tensors_[i].bytes();
  }
  result.push_back(std::span(tensors_).subspan(begin));
  return result;
}

base::Status Synthesis::write_shard(const std::string& path, std::span<const SynthTensor> tensors) {
  const bool mlx = format_.inner.kind == FormatKind::affine;
  SafetensorsWriter writer(path, {{"format", mlx ? "mlx" : "pt"}});
  for (const SynthTensor& tensor : tensors) {
    for (const SynthPart& part : safetensors_parts(tensor))
      RAFTER_TRY(writer.declare(part.name, part.type, part.shape));
  }
  RAFTER_TRY(writer.begin());
  const Append append = [&](const std::string& name, std::span<const std::byte> bytes) {
    return writer.append(name, bytes);
  };
  for (const SynthTensor& tensor : tensors) RAFTER_TRY(fill(tensor, append));
  return writer.finish_blocking();
}

base::Status Synthesis::write_index(SynthFolder& folder, const std::map<std::string, std::string>& files) {
  const nlohmann::json index = {{"metadata", {{"total_size", total_}}}, {"weight_map", files}};
  return folder.write_blocking("model.safetensors.index.json", index.dump(2) + "\n");
}

base::Status Synthesis::write_safetensors(SynthFolder& folder) {
  const std::vector<std::span<const SynthTensor>> parts = shards();
  std::map<std::string, std::string> files;  // by tensor
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::string name = parts.size() == 1
                                 ? "model.safetensors"
                                 : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, parts.size());
    RAFTER_TRY(write_shard(folder.add(name), parts[i]));
    for (const SynthTensor& tensor : parts[i]) {
      for (const SynthPart& part : safetensors_parts(tensor)) files[part.name] = name;
    }
  }
  if (parts.size() > 1) RAFTER_TRY(write_index(folder, files));
  RAFTER_TRY(folder.write_blocking("tokenizer.json", tokenizer_json(shape_)));
  RAFTER_TRY(folder.write_blocking("tokenizer_config.json", tokenizer_config_json(shape_)));
  RAFTER_TRY(folder.write_blocking("generation_config.json", generation_config_json(shape_)));
  return folder.write_blocking("config.json", config_json(shape_, format_, tensors_));
}

}  // namespace

base::Result<SynthSummary> run_synth_blocking(const SynthOptions& options, const SynthProgress& progress) {
  RAFTER_ASSIGN(const SynthShape* shape, find_synth_shape(options.shape));
  RAFTER_ASSIGN(const SynthFormat format, find_synth_format(options.format, options.group));
  RAFTER_ASSIGN(std::vector<SynthTensor> tensors, synth_tensors(*shape, format));
  return Synthesis(options, progress, *shape, format, std::move(tensors)).run_blocking();
}

}  // namespace rafter::lab
