// A block store: the keys and values of the layers of one kind, in blocks of 64 positions that block tables
// point at.
//
// One block holds its positions for all of its layers: [layer][keys | values][kv_head][position][head_dim].
// The whole store is one reservation of address space; a block costs memory once it is touched, so the store
// grows without copying, and kernels address block b at base + b · block_bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "base/result.h"
#include "device/host_memory.h"
#include "kernels/op/kv_cache.h"

namespace rafter::cache {

struct LayerShape {
  int32_t kv_heads = 0;
  int32_t head_dim = 0;
  int64_t window = 0;           // positions that a row sees, its own included; 0: all
  kernels::KvCodes codes = {};  // instead of elements of the store's type
};

// Blocks that hold `positions` positions.
inline int64_t blocks_for(int64_t positions) {
  return (positions + kernels::kBlockPositions - 1) / kernels::kBlockPositions;
}

class BlockStore {
 public:
  // `type`: bf16 or f32, of the layers without codes. Errors: out_of_memory.
  static base::Result<BlockStore> create(const std::vector<LayerShape>& layers, tensor::DType type,
                                         int32_t blocks);

  static int64_t bytes_per_block(const std::vector<LayerShape>& layers, tensor::DType type);

  // The view that kernels take; addresses stay valid for the store's life.
  kernels::KvLayer layer(int32_t index) const;

  int32_t capacity() const { return static_cast<int32_t>(references_.size()); }
  int32_t free_blocks() const { return static_cast<int32_t>(free_.size()); }
  int64_t block_bytes() const { return block_bytes_; }
  const std::byte* data() const { return memory_.data(); }  // of block 0

  // A block with one reference; −1 when none is free. Lowest free number first, so that touched memory stays
  // small.
  int32_t acquire();
  void add_reference(int32_t block);
  void release(int32_t block);
  int32_t references(int32_t block) const { return references_[static_cast<size_t>(block)]; }

  // Copies all layers of a block.
  void copy_block(int32_t from, int32_t to);
  // Blocks whose bytes live elsewhere (a device) at the same offsets: copy_block calls this instead.
  void set_copier(std::function<void(int32_t from, int32_t to)> copier) { copier_ = std::move(copier); }
  bool is_on_host() const { return !copier_; }

  // For files; on the host only. What a block holds of its first `slots` positions, with zeros for the rest:
  // that may be anything. `to` holds block_bytes().
  void read_block(int32_t block, int64_t slots, std::byte* to) const;
  void write_block(int32_t block, const std::byte* from);
  const std::vector<LayerShape>& layers() const { return layers_; }
  tensor::DType type() const { return type_; }

 private:
  std::vector<LayerShape> layers_;
  std::vector<int64_t> layer_offsets_;  // of each layer's keys inside a block
  tensor::DType type_ = tensor::DType::bf16;
  int64_t block_bytes_ = 0;
  device::HostMemory memory_;
  std::function<void(int32_t, int32_t)> copier_;
  std::vector<int32_t> references_;
  std::vector<int32_t> free_;  // a min-heap
};

}  // namespace rafter::cache
