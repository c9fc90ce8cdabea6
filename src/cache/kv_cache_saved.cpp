// Keys and values to and from files. By kind: window, layers, spans, blocks.
#include <algorithm>
#include <map>

#include "cache/kv_cache.h"

namespace rafter::cache {
namespace {

using kernels::kBlockPositions;

// What a layer's bytes mean.
std::vector<int64_t> numbers_of(const LayerShape& layer, tensor::DType type) {
  return {layer.kv_heads, layer.head_dim, layer.codes.bits, layer.codes.group_size,
          layer.codes.bits != 0 ? 0 : tensor::dtype_bytes(type)};
}

// The blocks that the spans name, each once, in the order in which they are written, and how many of its
// positions any span holds.
std::vector<std::pair<int32_t, int64_t>> distinct_blocks(const std::vector<BlockTables::SavedSpan>& spans) {
  std::vector<std::pair<int32_t, int64_t>> blocks;
  std::map<int32_t, size_t> found;
  for (const BlockTables::SavedSpan& span : spans) {
    for (size_t i = 0; i < span.blocks.size(); ++i) {
      const int64_t begin = (span.first + static_cast<int64_t>(i)) * kBlockPositions;
      const int64_t slots = std::min(span.length - begin, kBlockPositions);
      const auto [place, is_new] = found.try_emplace(span.blocks[i], blocks.size());
      if (is_new) blocks.emplace_back(span.blocks[i], slots);
      blocks[place->second].second = std::max(blocks[place->second].second, slots);
    }
  }
  return blocks;
}

void save_spans(const std::vector<BlockTables::SavedSpan>& spans, const BlockStore& store,
                SequenceWriter& out) {
  const auto blocks = distinct_blocks(spans);
  std::map<int32_t, int64_t> numbers;
  for (const auto& [block, slots] : blocks) numbers.try_emplace(block, static_cast<int64_t>(numbers.size()));
  out.number(static_cast<int64_t>(spans.size()));
  for (const BlockTables::SavedSpan& span : spans) {
    out.number(span.length);
    out.number(span.first);
    out.number(static_cast<int64_t>(span.blocks.size()));
    for (const int32_t block : span.blocks) out.number(numbers.at(block));
  }
  out.number(static_cast<int64_t>(blocks.size()));
  std::vector<std::byte> bytes(static_cast<size_t>(store.block_bytes()));
  for (const auto& [block, slots] : blocks) {
    store.read_block(block, slots, bytes.data());
    out.append(bytes);
  }
}

// False: no spans of blocks that the file holds.
std::vector<BlockTables::SavedSpan> read_spans(SequenceBody& body) {
  constexpr int64_t kNumber = sizeof(int64_t);
  std::vector<BlockTables::SavedSpan> spans(static_cast<size_t>(body.count(3 * kNumber)));
  for (BlockTables::SavedSpan& span : spans) {
    span.length = body.number();
    span.first = body.number();
    span.blocks.resize(static_cast<size_t>(body.count(kNumber)));
    for (int32_t& block : span.blocks) {
      const int64_t number = body.number();
      block = number < 0 || number > std::numeric_limits<int32_t>::max() ? -1 : static_cast<int32_t>(number);
    }
  }
  return spans;
}

}  // namespace

void KvCache::save(int32_t sequence, SequenceWriter& out) const {
  out.number(kBlockPositions);
  out.number(static_cast<int64_t>(kinds_.size()));
  for (const Kind& kind : kinds_) {
    out.number(kind.window);
    out.number(static_cast<int64_t>(kind.layers.size()));
    for (const LayerShape& layer : kind.layers) {
      for (const int64_t number : numbers_of(layer, options_.type)) out.number(number);
    }
    save_spans(kind.tables->saved_spans(sequence), *kind.store, out);
  }
}

base::Result<KvCache::Saved> KvCache::read(const SequenceFile& file, SequenceBody& body) const {
  Saved saved;
  const auto differs = [&](const char* what, int64_t stored, int64_t ours) {
    return file.invalid(fmt::format("the file has {} {} and this cache {}", what, stored, ours));
  };
  if (const int64_t positions = body.number(); positions != kBlockPositions)
    return differs("blocks of", positions, kBlockPositions);
  const auto kinds = static_cast<int64_t>(kinds_.size());
  if (const int64_t stored = body.number(); stored != kinds)
    return differs("kinds of layers:", stored, kinds);
  for (const Kind& kind : kinds_) {
    if (const int64_t window = body.number(); window != kind.window)
      return differs("a window of", window, kind.window);
    const auto layers = static_cast<int64_t>(kind.layers.size());
    if (const int64_t stored = body.number(); stored != layers)
      return differs("layers of a kind:", stored, layers);
    for (const LayerShape& layer : kind.layers) {
      for (const int64_t number : numbers_of(layer, options_.type)) {
        if (const int64_t stored = body.number(); stored != number)
          return differs("layers with heads, dims, bits, groups or bytes of", stored, number);
      }
    }
    Saved::Kind& read = saved.kinds.emplace_back();
    read.spans = read_spans(body);
    const int64_t count = body.count(kind.block_bytes);
    read.blocks = body.take(count * kind.block_bytes);
    if (body.failed()) return file.invalid("the file ends in the middle of keys and values");
    if (std::string fault = kind.tables->fault_of(read.spans, count); !fault.empty())
      return file.invalid("blocks that cannot be: " + fault);
    saved.length = saved.kinds.front().spans.front().length;
    if (const int64_t length = read.spans.front().length; length != saved.length)
      return differs("a kind of layers with positions:", length, saved.length);
  }
  return saved;
}

base::Result<int32_t> KvCache::restore(const Saved& saved) {
  RAFTER_ASSIGN(const int32_t sequence, create_sequence());
  for (size_t k = 0; k < kinds_.size(); ++k) {
    base::Status status = kinds_[k].tables->restore(sequence, saved.kinds[k].spans, saved.kinds[k].blocks);
    if (status.ok()) continue;
    release(sequence);
    return status.error();
  }
  return sequence;
}

}  // namespace rafter::cache
