#include "lab/synth_shape.h"

#include "lab/synth_config.h"

namespace rafter::lab {

base::Result<format::Checkpoint> shape_without_data(const std::string& shape_name,
                                                    const std::string& format_name, int64_t group) {
  RAFTER_ASSIGN(const SynthShape* const shape, find_synth_shape(shape_name));
  RAFTER_ASSIGN(SynthFormat format, find_synth_format(format_name, group));
  format.container = format::Container::safetensors;
  RAFTER_ASSIGN(const std::vector<SynthTensor> tensors, synth_tensors(*shape, format));
  std::vector<format::Checkpoint::Declared> declared;
  for (const SynthTensor& tensor : tensors) {
    declared.push_back({tensor.module, tensor.format, tensor.shape, tensor.is_bare});
  }
  return format::Checkpoint::without_data(shape_name + " " + format_name,
                                          config_json(*shape, format, tensors), declared);
}

}  // namespace rafter::lab
