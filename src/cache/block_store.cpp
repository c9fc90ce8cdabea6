#include "cache/block_store.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include "base/check.h"

namespace rafter::cache {
namespace {

kernels::KvLayer layer_of(const LayerShape& shape, tensor::DType type) {
  kernels::KvLayer layer;
  layer.type = type;
  layer.kv_heads = shape.kv_heads;
  layer.head_dim = shape.head_dim;
  layer.codes = shape.codes;
  return layer;
}

}  // namespace

int64_t BlockStore::bytes_per_block(const std::vector<LayerShape>& layers, tensor::DType type) {
  int64_t bytes = 0;
  for (const LayerShape& shape : layers) bytes += 2 * layer_of(shape, type).side_bytes();
  return bytes;
}

base::Result<BlockStore> BlockStore::create(const std::vector<LayerShape>& layers, tensor::DType type,
                                            int32_t blocks) {
  BlockStore store;
  store.layers_ = layers;
  store.type_ = type;
  for (const LayerShape& shape : layers) {
    store.layer_offsets_.push_back(store.block_bytes_);
    store.block_bytes_ += 2 * layer_of(shape, type).side_bytes();
  }
  RAFTER_ASSIGN(store.memory_, device::HostMemory::reserve(static_cast<size_t>(store.block_bytes_) * blocks));
  store.references_.assign(static_cast<size_t>(blocks), 0);
  for (int32_t block = 0; block < blocks; ++block) store.free_.push_back(block);  // ascending: already a heap
  return store;
}

kernels::KvLayer BlockStore::layer(int32_t index) const {
  kernels::KvLayer view = layer_of(layers_[static_cast<size_t>(index)], type_);
  view.keys = memory_.data() + layer_offsets_[static_cast<size_t>(index)];
  view.values = view.keys + view.side_bytes();
  view.block_stride = block_bytes_;
  return view;
}

int32_t BlockStore::acquire() {
  if (free_.empty()) return -1;
  std::pop_heap(free_.begin(), free_.end(), std::greater<>());
  const int32_t block = free_.back();
  free_.pop_back();
  references_[static_cast<size_t>(block)] = 1;
  return block;
}

void BlockStore::add_reference(int32_t block) {
  RAFTER_CHECK(references(block) > 0, "block {} is free", block);
  ++references_[static_cast<size_t>(block)];
}

void BlockStore::release(int32_t block) {
  RAFTER_CHECK(references(block) > 0, "block {} is free", block);
  if (--references_[static_cast<size_t>(block)] > 0) return;
  free_.push_back(block);
  std::push_heap(free_.begin(), free_.end(), std::greater<>());
}

void BlockStore::copy_block(int32_t from, int32_t to) {
  if (copier_) return copier_(from, to);
  std::memcpy(memory_.data() + to * block_bytes_, memory_.data() + from * block_bytes_,
              static_cast<size_t>(block_bytes_));
}

void BlockStore::read_block(int32_t block, int64_t slots, std::byte* to) const {
  RAFTER_CHECK(is_on_host() && slots >= 0 && slots <= kernels::kBlockPositions, "{} slots", slots);
  std::memcpy(to, memory_.data() + block * block_bytes_, static_cast<size_t>(block_bytes_));
  const int64_t unused = kernels::kBlockPositions - slots;
  for (int32_t index = 0; static_cast<size_t>(index) < layers_.size(); ++index) {
    const kernels::KvLayer shape = layer_of(layers_[static_cast<size_t>(index)], type_);
    for (int64_t side = 0; side < 2; ++side) {
      std::byte* part = to + layer_offsets_[static_cast<size_t>(index)] + side * shape.side_bytes();
      for (int32_t head = 0; head < shape.kv_heads; ++head) {
        std::memset(part + shape.offset(head, slots), 0, static_cast<size_t>(unused * shape.row_bytes()));
        for (int64_t group = 0; group < shape.groups(); ++group) {
          std::byte* scales = part + shape.scale_offset(head, slots, group);
          std::memset(scales, 0, static_cast<size_t>(unused) * 2);
          std::memset(scales + 2 * kernels::kBlockPositions, 0, static_cast<size_t>(unused) * 2);
        }
      }
    }
  }
}

void BlockStore::write_block(int32_t block, const std::byte* from) {
  RAFTER_CHECK(is_on_host() && references(block) == 1, "block {} is shared", block);
  std::memcpy(memory_.data() + block * block_bytes_, from, static_cast<size_t>(block_bytes_));
}

}  // namespace rafter::cache
