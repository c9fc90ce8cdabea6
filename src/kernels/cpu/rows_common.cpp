#include "kernels/cpu/rows_common.h"

#include <cmath>
#include <cstring>

#include "tensor/codec.h"

namespace rafter::kernels {

void embed_rows(const EmbedArgs& args, Worker& worker) {
  const int64_t width = args.table.columns;
  for (int64_t begin, end; worker.claim(0, args.input->rows, 1, &begin, &end);) {
    const std::span<float> out(args.out + begin * width, width);
    tensor::decode_row(args.table, args.input->tokens[begin], out);
    if (args.scale == 1.0f) continue;
    for (float& value : out) value *= args.scale;
  }
}

void make_rope_angles(const RopeAnglesArgs& args, Worker& worker) {
  const int64_t pairs = args.rotated_dims / 2;
  for (int64_t begin, end; worker.claim(0, args.input->rows, 1, &begin, &end);) {
    const float position = args.position_scale * static_cast<float>(args.input->positions[begin]);
    float* cosines = args.out + begin * args.rotated_dims;
    float* sines = cosines + pairs;
    for (int64_t i = 0; i < pairs; ++i) {
      // In double: the angle is exact there, and its cosine too after rounding, however many turns it makes.
      const double angle = position * args.frequencies[i];
      cosines[i] = static_cast<float>(std::cos(angle));
      sines[i] = static_cast<float>(std::sin(angle));
    }
  }
}

void copy_wanted_rows(const SelectRowsArgs& args, Worker& worker) {
  for (int64_t begin, end; worker.claim(0, args.input->wanted_rows, 1, &begin, &end);) {
    std::memcpy(args.out + begin * args.width, args.x + args.input->wanted[begin] * args.width,
                args.width * 4);
  }
}

}  // namespace rafter::kernels
