#include "serve/worker_frames.h"

namespace rafter::serve {
namespace {

constexpr size_t kHeader = 4;

base::Error malformed(std::string what) {
  return {base::ErrorCode::invalid_data, std::move(what), "worker socket", ""};
}

}  // namespace

std::string encode_frame(const nlohmann::json& message) {
  const std::string text = message.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  std::string frame;
  frame.reserve(kHeader + text.size());
  for (size_t i = 0; i < kHeader; ++i) frame += static_cast<char>((text.size() >> (8 * i)) & 0xFF);
  return frame += text;
}

base::Result<std::optional<nlohmann::json>> FrameReader::next() {
  const std::string_view waiting = std::string_view(buffer_).substr(read_);
  if (waiting.size() < kHeader) return std::optional<nlohmann::json>();
  size_t length = 0;
  for (size_t i = 0; i < kHeader; ++i)
    length |= static_cast<size_t>(static_cast<unsigned char>(waiting[i])) << (8 * i);
  if (length > kLargestFrame) return malformed(fmt::format("a frame of {} bytes", length));
  if (waiting.size() < kHeader + length) return std::optional<nlohmann::json>();
  const std::string_view text = waiting.substr(kHeader, length);
  nlohmann::json message = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!message.is_object()) return malformed("a frame that is no JSON object");
  read_ += kHeader + length;
  if (read_ == buffer_.size() || read_ > (size_t{1} << 20)) {
    buffer_.erase(0, read_);
    read_ = 0;
  }
  return std::optional<nlohmann::json>(std::move(message));
}

}  // namespace rafter::serve
